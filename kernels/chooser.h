// SPDX-License-Identifier: Apache-2.0
// The chooser: which of the kernels that give the same bits is the fastest here.
//
// The order of providers decides the numerics class of a request (kernels/kernel.h). Within that
// class there may be several candidates: other entries, and variants of an entry. When a kernel is
// prepared that has some, each runs on random numbers in memory of the request's size, a sample of
// its blocks, in turns with the others, on the calling thread (which is prepared for that as
// sr_kernels_thread_init says); a candidate takes the default's place if its fastest turn is
// clearly faster. Results are the same whatever is chosen.
//
// What was measured is kept in a file of the user's cache folder: $SERRIED_CACHE, or
// $XDG_CACHE_HOME/serried, or ~/.cache/serried (mode 0700). Its name has a hash of everything that
// makes measurements comparable: the format, the caller's numerics, processor, features, versions
// and entries of the providers. Format: sr_chooser_header and entries of chooser_internal.h, in the
// processor's byte order. A file that is damaged, or writable or owned by somebody else, is left
// alone or replaced, with a line in the log, and kernels are timed anew: never an error.
//
// The state is the process's; any thread may call.
#ifndef SR_KERNELS_CHOOSER_H
#define SR_KERNELS_CHOOSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_CHOOSER_WORKSPACE ((size_t)256 << 20) // the usual limit of a candidate's memory, bytes

// How kernels are chosen that are prepared from now on.
typedef struct sr_chooser_options {
    bool on;          // false: every kernel in its default variant, as before the first call
    size_t workspace; // candidates that need more are left out where others do not; 0: the usual
    const char *numerics; // what else measurements depend on, as sr_fingerprint's text; may be NULL
} sr_chooser_options;

// Switched on, reads the environment; no file before a kernel is prepared that has candidates.
// Where memory is out, the chooser is off.
void sr_chooser_use(const sr_chooser_options *options);
// Writes new measurements to the cache, beside those that other processes have written meanwhile,
// and gives back the memory that measuring took. sr_compile calls it.
void sr_chooser_save(void);

// What the chooser did in this process.
typedef struct sr_chooser_stats {
    uint64_t timed; // requests whose candidates were timed
    uint64_t found; // requests whose choice stood in the cache
    uint64_t ns;    // spent on timing
} sr_chooser_stats;

// The counters of this process.
sr_chooser_stats sr_chooser_get_stats(void);

// One measurement of the cache. Texts live until the next call of sr_chooser_use.
typedef struct sr_chooser_choice {
    const char *kernel;   // "conv2d"
    const uint8_t *dtype; // sr_dtype of each argument
    int args;
    const uint64_t *params; // [SR_KERNEL_PARAMS_BYTES / 8], the kernel's struct of kernel_params.h
    const char *entry;      // that was taken, "conv2d/x86-winograd"
    const char *variant;    // "": its default
    double seconds, default_seconds; // on one thread; of what was taken, and of the default
} sr_chooser_choice;

// The folder of the cache; NULL where the environment names none, and before the chooser was on.
const char *sr_chooser_folder(void);
// The file there for this processor, build and numerics, which may not exist; NULL without a
// folder.
const char *sr_chooser_file(void);
// Calls 'visit' for every measurement of the file and of this process.
void sr_chooser_visit(void (*visit)(void *user, const sr_chooser_choice *choice), void *user);

#ifdef __cplusplus
}
#endif
#endif
