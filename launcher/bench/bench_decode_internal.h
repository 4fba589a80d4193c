// SPDX-License-Identifier: Apache-2.0
// serried bench decode: what is measured, and the report.
#ifndef SR_LAUNCHER_BENCH_DECODE_INTERNAL_H
#define SR_LAUNCHER_BENCH_DECODE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "dataio/image/canvas.h"
#include "dataio/transforms/transform.h"
#include "kernels/kernel.h"
#include "launcher/bench/bench_loaders_internal.h"

enum { SR_DECODE_TRANSFORMS = 16, SR_DECODE_BATCH = 32, SR_DECODE_BATCHES = 4 };
// With the row index; without it, decoding down to the end of the crop; decoding the whole picture
// before the crop.
enum { SR_DECODE_INDEXED, SR_DECODE_IGNORED, SR_DECODE_WHOLE, SR_DECODE_WAYS };
enum {
    SR_DECODE_HEADER,
    SR_DECODE_ENTROPY,
    SR_DECODE_TRANSFORM,
    SR_DECODE_COLOUR,
    SR_DECODE_LIBRARY,
    SR_DECODE_RESIZE,
    SR_DECODE_REST,
    SR_DECODE_NORMALISE,
    SR_DECODE_STAGES
};

typedef struct sr_decode_record {
    void *data;
    size_t bytes;
} sr_decode_record;

typedef struct sr_decode_bench {
    const char *path, *split;
    sr_transform_spec transforms[SR_DECODE_TRANSFORMS];
    int transform_count;
    int64_t side, memory;
    double seconds;
    bool json, peers;

    sr_decode_record *records;
    int64_t count;
    uint64_t bytes;
    bool has_index;
    sr_transform_chain *chain;
    sr_canvas *canvas;
    uint8_t *pixels; // a ring of SR_DECODE_BATCHES batches, like the slots of the pipeline
    float *floats;   // the same, normalised
    sr_kernel_request request; // for normalising
    sr_prepared normalise;
    sr_series per_s[SR_DECODE_WAYS][SR_LOADER_KINDS]; // images
    int64_t stage_ns[SR_DECODE_WAYS][SR_DECODE_STAGES], images[SR_DECODE_WAYS];
    int repeats; // times that a round takes all pictures
    sr_loaders loaders;
} sr_decode_bench;

// bench_decode_report.c: to stdout.
SR_NODISCARD sr_status sr_decode_report(const sr_decode_bench *b);

#endif
