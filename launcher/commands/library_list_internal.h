// SPDX-License-Identifier: Apache-2.0
// The libraries that this program runs with, and the versions that they report.
#ifndef SR_LAUNCHER_LIBRARY_LIST_INTERNAL_H
#define SR_LAUNCHER_LIBRARY_LIST_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#define SR_LIBRARY_TEXT 64

typedef struct sr_library {
    const char *name;
    const char *(*version)(char text[SR_LIBRARY_TEXT]); // returns text or a static string
} sr_library;

const sr_library *sr_libraries(size_t *count);

#endif
