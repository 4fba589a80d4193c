// SPDX-License-Identifier: Apache-2.0
// Who allocates: the callers of malloc that a test counts, with the functions that called them.
#ifndef SR_TESTS_MALLOC_CALLERS_H
#define SR_TESTS_MALLOC_CALLERS_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

// Forgets what was noted, and begins to note.
void malloc_callers_begin(void);
// Notes a call of malloc that returns to this address, in malloc itself. Allocates nothing and
// waits for nothing; before 'begin' and after 'print' it does nothing. Any thread.
void malloc_callers_note(const void *caller);
// Prints what was noted since 'begin', and notes no more: how often, and the object file and symbol
// of the caller and of those around it, as "28 x libc.so.6(getline+0x1f) < libfoo.so(+0x1234)". A
// symbol is the nearest one before the address that the file exports.
void malloc_callers_print(FILE *out);

#ifdef __cplusplus
}
#endif
#endif
