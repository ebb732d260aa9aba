//  protocol/err.h - texts and scope of an error code
//
//  Pure functions over TUTTI_ERR_MAP, for every part. The library's public
//  tutti_err_* are wrappers of these.

#ifndef TP_ERR_H
#define TP_ERR_H

#include "protocol/tutti_types.h"

//  "TUTTI_EINVAL"; "?" for a value that is no error of ours.
const char *
tp_err_name (tutti_err_t err);

//  "invalid argument"; "unknown error" for a value that is no error of ours.
const char *
tp_err_text (tutti_err_t err);

//  What the error kills: a TUTTI_SCOPE_*, read from the value's range, so a
//  code of a newer version has its scope too. TUTTI_OK: TUTTI_SCOPE_CALL.
int
tp_err_scope (tutti_err_t err);

#endif
