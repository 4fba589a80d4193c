// SPDX-License-Identifier: Apache-2.0
// Other data loaders to compare with (tests/peers/data_peers.py): each delivers batches of the same
// pictures on one core, alternating with our pipeline.
#ifndef SR_LAUNCHER_BENCH_LOADERS_INTERNAL_H
#define SR_LAUNCHER_BENCH_LOADERS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "dataio/pipeline/pipeline.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/cores.h"
#include "kernels/base/text.h"
#include "kernels/kernel.h"
#include "launcher/bench/bench_internal.h"

enum { SR_LOADERS = 5, SR_LOADER_PICTURES = 2400 };
// Pictures as u8, and normalised to float.
enum { SR_LOADER_BYTES, SR_LOADER_FLOATS, SR_LOADER_KINDS };

// A loader with an affinity; it has a process for each kind of output.
typedef struct sr_loader {
    const char *name;
    bool pinned; // to our processor; otherwise its one worker may run anywhere
    sr_peer *process[SR_LOADER_KINDS];
    char title[64], setting[96]; // "FFCV 1.0.2", "batches of 16, 1 ahead, pinned"
    double picture_bytes, pictures;
    sr_series per_s[SR_LOADER_KINDS]; // images
    sr_series busy[SR_LOADER_KINDS];  // processors in use
    char reason[256];                 // why it was not measured; "" if it was
} sr_loader;

typedef struct sr_loaders {
    sr_loader list[SR_LOADERS];
    char folder[32]; // with the pictures as files
    int64_t count;
} sr_loaders;

typedef struct sr_loader_options {
    const char *dataset, *split;
    const sr_transform_spec *transforms;
    int transform_count;
    int64_t side, memory; // maximum bytes of records to use
    int cpu;              // ours
    sr_cpu_set cpus;      // for loaders that are not pinned
} sr_loader_options;

extern const char *const sr_loader_kind_names[SR_LOADER_KINDS]; // "u8", "float"
extern const char *const sr_loader_kind_keys[SR_LOADER_KINDS];  // of JSON

// Binds this process, and those that it starts, to the first processor that it may use.
SR_NODISCARD sr_status sr_bench_one_core(sr_cpu_set *all, int *cpu);
// Prepares the kernel that normalises u8 RGB pixels to float.
SR_NODISCARD sr_status sr_bench_normalise_prepare(int64_t pixels, sr_kernel_request *request,
                                                  sr_prepared *out);

// Writes the pictures as files, starts the loaders, warms them up and pauses them; one that does
// not start has a reason. SR_E_USAGE if the transforms are not random_resized_crop and flip.
SR_NODISCARD sr_status sr_loaders_start(const sr_loader_options *options, sr_loaders *out);
// Measures one block of each loader.
void sr_loaders_round(sr_loaders *loaders);
void sr_loaders_stop(sr_loaders *loaders);
// The loader with the highest median; -1 if none was measured.
int sr_loaders_fastest(const sr_loaders *loaders, int kind);
// SR_E_NOT_FOUND if none was measured, which the report does not make a failure.
SR_NODISCARD sr_status sr_loaders_check(const sr_loaders *loaders);

// Rows of a table, and JSON objects; 'ours' are our own rates, for the ratio.
void sr_loaders_add_head(sr_text *out);
void sr_loaders_add_row(sr_text *out, const char *name, const sr_series *rates, double busy,
                        const sr_series *ours);
void sr_loaders_add_rows(const sr_loaders *loaders, const sr_series *ours, sr_text *out);
void sr_loaders_add_json(const sr_loaders *loaders, const sr_series *ours, sr_text *out);
void sr_loaders_add_series(sr_text *out, const char *name, const sr_series *series);
// "2.70x the fastest loader as u8 (FFCV 1.0.2, batches of 16, pinned), 2.90x as float (...)".
void sr_loaders_headline(const sr_loaders *loaders, const sr_series *ours, sr_text *out);

#endif
