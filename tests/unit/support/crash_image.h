// SPDX-License-Identifier: Apache-2.0
// The possible contents of a disk after power was lost between two calls that change files.
//
// Follows ALICE (Pillai et al., OSDI'14): where files were not fsynced, their contents may be
// missing, zero or torn at 512 bytes, and entries of folders may be missing in any combination.
#ifndef SR_TESTS_CRASH_IMAGE_H
#define SR_TESTS_CRASH_IMAGE_H

#include "tests/unit/support/crash_files.h"

// Which unsynced changes survive: all, none, or a choice drawn from a seed.
enum { CRASH_KEEP_ALL, CRASH_DROP_ALL, CRASH_SEEDED, CRASH_POLICIES = CRASH_SEEDED + 4 };

// Copies the folder's contents, and records all changes until crash_image_end.
void crash_image_begin(const char *root, const char *image);
// Stops recording. Fails the test unless replaying all recorded calls gives the folder's contents:
// this detects calls that were not intercepted. Returns the number of calls.
int crash_image_end(void);
// Makes 'image' the contents of the disk after the first 'calls' calls.
void crash_image_make(int calls, unsigned policy);
void crash_image_forget(void);
// True if two folders contain the same files, links and bytes.
bool crash_same_folders(const char *a, const char *b);

#endif
