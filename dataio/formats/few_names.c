// SPDX-License-Identifier: Apache-2.0
// Samples of names (few_names.h).
#include "dataio/formats/few_names.h"

#include <stdio.h>
#include <string.h>

#define SHOWN 3
#define NAME_BYTES 60

void sr_few_names_add(sr_few_names *names, const char *name, size_t bytes) {
    const size_t used = strlen(names->text), room = sizeof names->text - used;
    if (names->count > 0 && names->last_bytes == bytes && memcmp(names->last, name, bytes) == 0)
        return;
    names->last = name;
    names->last_bytes = bytes;
    names->count++;
    if (names->count <= SHOWN)
        (void)snprintf(names->text + used, room, "%s%.*s%s", used > 0 ? ", " : "",
                       bytes > NAME_BYTES ? NAME_BYTES : (int)bytes, name,
                       bytes > NAME_BYTES ? "..." : "");
    else if (names->count == SHOWN + 1)
        (void)snprintf(names->text + used, room, ", ...");
}
