// SPDX-License-Identifier: Apache-2.0
// The chooser: finds the fastest of several kernels that give the same bits.
//
// The order of providers decides the numerics class of a request (kernels/kernel.h). Within that
// class there may be several candidates: other entries, and variants of an entry. When a kernel
// with several candidates is prepared, they run in turns on random numbers in memory of the
// request's size. Kernels of a CPU run on a sample of their blocks, on the calling thread, and are
// timed by its clock (sr_kernels_thread_init is called on it). Kernels of other devices run on a
// stream and are timed by its events. A candidate replaces the default if its fastest turn is
// clearly faster. Results do not depend on the choice.
//
// Choices are made for the kernels of one device; those for another kind of device keep their
// default.
//
// Measurements are stored in a file in the user's cache folder: $SERRIED_CACHE, or
// $XDG_CACHE_HOME/serried, or ~/.cache/serried (mode 0700). Its name contains a hash of everything
// that measurements depend on: the format, the caller's numerics, processor, features, versions and
// entries of the providers. Format: sr_chooser_header and entries of chooser_internal.h, in the
// processor's byte order. A file that is damaged, or that another user owns or may write, is
// ignored or replaced with a message in the log, and kernels are timed again; this is never an
// error.
//
// The state belongs to the process; any thread may call.
#ifndef SR_KERNELS_CHOOSER_H
#define SR_KERNELS_CHOOSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_CHOOSER_WORKSPACE ((size_t)256 << 20) // default limit of a candidate's memory, bytes

// How to choose the kernels that are prepared from now on.
typedef struct sr_chooser_options {
    bool on;          // false: default kernels only, as before the first call
    size_t workspace; // candidates that need more are skipped if others need less; 0: default
    const char
        *numerics; // further text that measurements depend on, from sr_fingerprint; may be NULL
    const char *device; // whose kernels are chosen, as in sr_device_open; copied
} sr_chooser_options;

// When switched on, reads the environment. The file is read when the first kernel with several
// candidates is prepared. The chooser stays off if memory is out or the device cannot be used.
void sr_chooser_use(const sr_chooser_options *options);
// Adds new measurements to the cache file, keeps those that other processes have added in the
// meantime, and frees the memory used for timing. sr_compile calls it.
void sr_chooser_save(void);

// Counters of the chooser in this process.
typedef struct sr_chooser_stats {
    uint64_t timed; // requests whose candidates were timed
    uint64_t found; // requests whose choice was in the cache
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
    const char *entry;      // the chosen one, "conv2d/x86-winograd"
    const char *variant;    // "": its default
    double seconds, default_seconds; // on one thread, of the chosen kernel and of the default
} sr_chooser_choice;

// The folder of the cache; NULL if the environment names none, or before the chooser was switched
// on.
const char *sr_chooser_folder(void);
// The cache file for this device, build and numerics, which may not exist yet; NULL without a
// folder.
const char *sr_chooser_file(void);
// Calls 'visit' for every measurement of the file and of this process.
void sr_chooser_visit(void (*visit)(void *user, const sr_chooser_choice *choice), void *user);

#ifdef __cplusplus
}
#endif
#endif
