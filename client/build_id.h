//  client/build_id.h - which build of this library is loaded
//
//  A version says what was built, not what is loaded: two packages may have
//  put different files at one path. The linker's build id (a hash of the
//  contents, ELF note NT_GNU_BUILD_ID) is read from memory, so it is that of
//  the code that runs.

#ifndef TL_BUILD_ID_H
#define TL_BUILD_ID_H

#include <stddef.h>

//  In hex, cut to LEN bytes with the zero; "" if the linker made none. In a
//  program that links the library statically, the program's.
void
tl_build_id (char *text, size_t len);

#endif
