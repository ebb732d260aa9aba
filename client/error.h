//  client/error.h - the text behind tutti_last_error
//
//  One buffer per thread. Functions that find an error describe it here and
//  return its code; functions that pass it on stay silent.

#ifndef TL_ERROR_H
#define TL_ERROR_H

#include "protocol/tutti_types.h"

//  Set the text of this thread and return ERR, so that a caller can write
//  return tl_error (TUTTI_EINVAL, "...", ...).
tutti_err_t
tl_error (tutti_err_t err, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

const char *
tl_error_text (void);

#endif
