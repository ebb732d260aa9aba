//  client/error.c - error names and the text behind tutti_last_error

#include "client/error.h"

#include "client/tutti.h"
#include "protocol/err.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char s_text[1024];

tutti_err_t
tl_error (tutti_err_t err, const char *format, ...)
{
    va_list args;
    va_start (args, format);
    vsnprintf (s_text, sizeof s_text, format, args);
    va_end (args);
    return err;
}

const char *
tl_error_text (void)
{
    return s_text;
}

const char *
tutti_last_error (void)
{
    return s_text;
}

const char *
tutti_err_name (tutti_err_t err)
{
    return tp_err_name (err);
}

const char *
tutti_err_text (tutti_err_t err)
{
    return tp_err_text (err);
}

int
tutti_err_scope (tutti_err_t err)
{
    return tp_err_scope (err);
}

#define STRING_(x) #x
#define STRING(x) STRING_ (x)

const char *
tutti_version (void)
{
    return STRING (TUTTI_VERSION_MAJOR) "." STRING (
        TUTTI_VERSION_MINOR) "." STRING (TUTTI_VERSION_PATCH);
}
