//  coordinator/status.h - what the status endpoint shows, as text
//
//  Pure: reads the loop's objects, returns strings.

#ifndef TC_STATUS_H
#define TC_STATUS_H

#include "coordinator/coord.h"

//  Build all pages; strings are the caller's. Members may be NULL without
//  memory.
tc_pages_t
tc_status_pages (const tc_coord_t *coord);

#endif
