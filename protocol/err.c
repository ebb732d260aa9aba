//  protocol/err.c - texts and scope of an error code

#include "protocol/err.h"

const char *
tp_err_name (tutti_err_t err)
{
#define ERR_NAME(name, value, text)                                           \
    case TUTTI_##name:                                                        \
        return "TUTTI_" #name;

    switch (err) {
        TUTTI_ERR_MAP (ERR_NAME)
    }
#undef ERR_NAME
    return "?";
}

const char *
tp_err_text (tutti_err_t err)
{
#define ERR_TEXT(name, value, text)                                           \
    case TUTTI_##name:                                                        \
        return text;

    switch (err) {
        TUTTI_ERR_MAP (ERR_TEXT)
    }
#undef ERR_TEXT
    return "unknown error";
}

int
tp_err_scope (tutti_err_t err)
{
    int value = (int) err;
    if (value > -20)
        return TUTTI_SCOPE_CALL;
    if (value > -40)
        return TUTTI_SCOPE_OP;
    if (value > -60)
        return TUTTI_SCOPE_COMM;
    return TUTTI_SCOPE_SESSION;
}
