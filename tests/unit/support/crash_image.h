// SPDX-License-Identifier: Apache-2.0
// What a disk may hold after the power was lost between two calls that change files.
//
// Follows ALICE (Pillai et al., OSDI'14): of what was not fsynced, file contents may be missing,
// zero or torn at 512 bytes, and entries of folders may be missing in any combination.
#ifndef SR_TESTS_CRASH_IMAGE_H
#define SR_TESTS_CRASH_IMAGE_H

#include "tests/unit/support/crash_files.h"

// How unsynced changes fare: all survive, none does, or as a seed says.
enum { CRASH_KEEP_ALL, CRASH_DROP_ALL, CRASH_SEEDED, CRASH_POLICIES = CRASH_SEEDED + 4 };

// Remembers what is in the folder, and records what is done there until the end.
void crash_image_begin(const char *root, const char *image);
// Stops recording, and fails the test unless all calls that were recorded, done again, give what
// the folder holds: a call that nobody saw would be missing. Returns the number of calls.
int crash_image_end(void);
// Makes 'image' what the disk holds after the first 'calls' calls.
void crash_image_make(int calls, unsigned policy);
void crash_image_forget(void);
// True when two folders hold the same files, links and bytes.
bool crash_same_folders(const char *a, const char *b);

#endif
