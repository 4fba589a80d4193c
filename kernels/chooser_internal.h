// SPDX-License-Identifier: Apache-2.0
// Internals of the chooser (kernels/chooser.h): timing the candidates against each other, and the
// cache on disk.
#ifndef SR_KERNELS_CHOOSER_INTERNAL_H
#define SR_KERNELS_CHOOSER_INTERNAL_H

#include "kernels/chooser.h"
#include "kernels/kernel.h"

#define SR_CHOOSER_FORMAT 1
#define SR_CHOOSER_MAGIC "SRCHOOSE"
#define SR_CHOOSER_IDENTITY 480     // bytes of the text that measurements depend on
#define SR_CHOOSER_MAX_ENTRIES 8192 // in a file; further measurements are not saved
#define SR_CHOOSER_MAX_CANDIDATES 16

// One measurement, in memory as on disk. Strings are terminated; the rest of their arrays and
// padding are zero. The fields up to 'workspace' are the key (the "question"), compared as bytes.
typedef struct sr_chooser_entry {
    char kernel[24];
    int32_t args;
    uint32_t reserved;
    uint8_t dtype[SR_KERNEL_MAX_ARGS];
    uint64_t params[SR_KERNEL_PARAMS_BYTES / 8];
    uint64_t workspace;           // the limit
    char chosen[64], variant[32]; // of the entry and its variant that won
    uint64_t ns, default_ns;      // of one run
} sr_chooser_entry;

// The header of a file; 'count' entries follow.
typedef struct sr_chooser_header {
    char magic[8];
    uint32_t format, count;
    uint64_t checksum; // XXH3-64 of the file with this field set to 0
    char identity[SR_CHOOSER_IDENTITY];
} sr_chooser_header;

typedef struct sr_chooser_cache {
    char *folder, *path; // NULL: nothing is saved
    char identity[SR_CHOOSER_IDENTITY];
    sr_chooser_entry *entries;
    size_t count, capacity;
    bool loaded, changed, reported;
} sr_chooser_cache;

// Sets folder and path from the environment and the identity; reads no file.
SR_NODISCARD sr_status sr_chooser_cache_init(sr_chooser_cache *cache,
                                             const sr_device_properties *device,
                                             const char *numerics);
void sr_chooser_cache_release(sr_chooser_cache *cache);
// Writes the key of a request.
void sr_chooser_question(const sr_kernel_request *request, uint64_t workspace,
                         sr_chooser_entry *out);
// The entry with this key, or NULL. The first call reads the file.
const sr_chooser_entry *sr_chooser_cache_find(sr_chooser_cache *cache,
                                              const sr_chooser_entry *question);
void sr_chooser_cache_add(sr_chooser_cache *cache, const sr_chooser_entry *item);
// Merges the measurements with the file and replaces it. Logs only the first failure.
void sr_chooser_cache_save(sr_chooser_cache *cache);

typedef struct sr_chooser_candidate {
    const sr_kernel_entry *entry;
    int variant;
} sr_chooser_candidate;

typedef struct sr_chooser_result {
    int winner; // index of the candidate
    uint64_t ns, default_ns;
} sr_chooser_result;

// Times the candidates; the first is the default. 'device' is the name of the device that kernels
// are launched on. SR_E_LIMIT if the request is too large to be timed; also errors of allocation
// and of preparing the default.
SR_NODISCARD sr_status sr_chooser_race(const char *device, const sr_kernel_request *request,
                                       const sr_chooser_candidate *candidates, int count,
                                       size_t workspace, sr_chooser_result *out);
// Frees the memory used for timing.
void sr_chooser_race_release(void);

// Opens the device and stream on which launched kernels are timed (chooser_launch.c), with 'bytes'
// bytes of memory for arguments, unless they are open already. Only timing uses them.
SR_NODISCARD sr_status sr_chooser_launch_reserve(const char *device, size_t bytes, sr_address *out);
// Copies data to its memory.
SR_NODISCARD sr_status sr_chooser_launch_fill(sr_address to, const void *from, size_t bytes);
// Times 'repeats' runs, one after the other, in nanoseconds of the device's clock.
SR_NODISCARD sr_status sr_chooser_launch_time(const sr_kernel_call *call, int64_t repeats,
                                              int64_t *ns);
// Closes the device.
void sr_chooser_launch_release(void);

// Writes all candidates for a request that 'entry' serves by default, 'entry' first; returns their
// number.
int sr_chooser_candidates(const sr_kernel_request *request, const sr_kernel_entry *entry,
                          sr_chooser_candidate *out);
// Replaces the default by the chosen kernel if the chooser is on and there are several candidates.
void sr_chooser_choose(const sr_kernel_request *request, const sr_kernel_entry **entry,
                       int *variant);

#endif
