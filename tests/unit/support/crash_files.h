// SPDX-License-Identifier: Apache-2.0
// File system calls under the test's control: exit before the k-th, fail the k-th, record all.
//
// The test program defines open, write, fsync, rename and so on; ordinary symbol resolution directs
// the library's calls here. Only calls that change files below 'crash.root' count.
#ifndef SR_TESTS_CRASH_FILES_H
#define SR_TESTS_CRASH_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum crash_kind {
    CRASH_CREATE, // a new empty file
    CRASH_WRITE,
    CRASH_TRUNCATE,
    CRASH_RESERVE, // fallocate
    CRASH_SYNC_FILE,
    CRASH_SYNC_FOLDER,
    CRASH_RENAME,
    CRASH_MAKE_FOLDER,
    CRASH_UNLINK,
    CRASH_REMOVE_FOLDER,
    CRASH_SYMLINK,
} crash_kind;

typedef struct crash_op {
    crash_kind kind;
    char path[192], target[192]; // target: of rename and symlink
    int inode;                   // of CREATE, WRITE, TRUNCATE, RESERVE, SYNC_FILE; else -1
    uint8_t *data;               // of WRITE
    size_t offset;               // of WRITE
    size_t bytes;                // of WRITE, TRUNCATE and RESERVE
} crash_op;

enum { CRASH_MAX_OPS = 512 };

typedef struct crash_control {
    const char *root;  // NULL: nothing is intercepted
    long calls;        // changing calls seen since crash_reset
    long kill_at;      // _exit(CRASH_EXIT) before this call (1 is the first); 0: never
    long fail_at;      // this call fails with fail_errno; 0: never
    bool fail_on;      // and every later one
    int fail_errno;    //
    bool no_space;     // fallocate reports a full disk
    bool short_writes; // every write writes half of its bytes
    bool record;       // into ops
    crash_op ops[CRASH_MAX_OPS];
    int op_count;
} crash_control;

enum { CRASH_EXIT = 99 };

extern crash_control crash;

// Switches everything off, resets the counters and empties the record.
void crash_reset(void);

#endif
