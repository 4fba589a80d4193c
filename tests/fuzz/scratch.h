// SPDX-License-Identifier: Apache-2.0
// A folder for targets whose parsers need named files; one for each process, removed at its end.
#ifndef SR_TESTS_FUZZ_SCRATCH_H
#define SR_TESTS_FUZZ_SCRATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char scratch_path[64];

static inline void require(bool fine) {
    if (!fine)
        abort();
}

static inline void scratch_remove(void) {
    char command[96];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", scratch_path);
    (void)!system(command); // NOLINT(cert-env33-c): our own path
}

static inline const char *scratch_folder(void) {
    if (scratch_path[0] == 0) {
        (void)snprintf(scratch_path, sizeof scratch_path, "%s/serried-fuzz-XXXXXX",
                       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        require(mkdtemp(scratch_path) != NULL);
        require(atexit(scratch_remove) == 0);
    }
    return scratch_path;
}

// The path of a name in the folder; valid until the fourth later call.
static inline const char *scratch_file(const char *name) {
    static char paths[4][160];
    static unsigned next;
    char *out = paths[next++ % 4];
    (void)snprintf(out, sizeof paths[0], "%s/%s", scratch_folder(), name);
    return out;
}

static inline void scratch_write(const char *name, const void *data, size_t bytes) {
    FILE *file = fopen(scratch_file(name), "we");
    require(file != NULL);
    require(fwrite(data, 1, bytes, file) == bytes);
    require(fclose(file) == 0);
}

#endif
