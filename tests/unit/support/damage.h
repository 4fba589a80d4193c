// SPDX-License-Identifier: Apache-2.0
// Damages a file in every way in which disks or copies do, one at a time.
#ifndef SR_TESTS_DAMAGE_H
#define SR_TESTS_DAMAGE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct damage {
    const char *path, *file; // whole path; last part of it
    const char *what;        // "bit 3 of byte 17 flipped"
    uint64_t begin, end;     // the range of changed bytes
    bool bit;                // one flipped bit
} damage;

typedef void (*damage_fn)(void *user, const damage *d);

// Flips every stride-th bit, truncates at every stride-th length, appends bytes, and zeroes every
// block of 512 and of 4096 bytes that is not zero. Calls 'check' each time and then restores the
// file. Returns the number of calls.
long damage_each(const char *path, unsigned stride, damage_fn check, void *user);

#endif
