// SPDX-License-Identifier: Apache-2.0
// The first few of many names and their number, for a message.
#ifndef SR_DATAIO_FEW_NAMES_H
#define SR_DATAIO_FEW_NAMES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Zero-initialised is empty.
typedef struct sr_few_names {
    char text[256]; // "a, b, c, ..."
    size_t count;   // of all names
    const char *last;
    size_t last_bytes;
} sr_few_names;

// Adds a name unless it equals the last one, which is borrowed.
void sr_few_names_add(sr_few_names *names, const char *name, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
