// SPDX-License-Identifier: Apache-2.0
// What benchmarks of the data pipeline share: the command-line options of a pipeline.
#ifndef SR_LAUNCHER_BENCH_PIPELINE_INTERNAL_H
#define SR_LAUNCHER_BENCH_PIPELINE_INTERNAL_H

#include <argp.h>

#include "dataio/pipeline/pipeline.h"
#include "dataio/transforms/transform.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_BENCH_TRANSFORMS 16

// A pipeline as described by the command line. Its strings point into argv.
typedef struct sr_bench_pipeline {
    sr_pipeline_options options;
    sr_transform_spec transforms[SR_BENCH_TRANSFORMS];
} sr_bench_pipeline;

// --image, --transform, ... and DATASET: a child of a benchmark's parser, with an sr_bench_pipeline
// as its input. It also sets the defaults.
extern const struct argp sr_bench_pipeline_argp;

// Parses a whole number of at least 0; anything else ends the program with a message about --name.
int64_t sr_bench_whole_number(const char *text, const char *name, struct argp_state *state);

// `bench data --order-hash`: delivers this many epochs to 'ranks' ranks, one after the other, and
// prints a hash of the order.
SR_NODISCARD sr_status sr_bench_order(const sr_pipeline_options *options, int64_t epochs, int ranks,
                                      bool json);

// `bench data --peers`: measures the pipeline on one core, alternating with other loaders.
SR_NODISCARD sr_status sr_bench_data_peers(sr_pipeline_options *options, double seconds, bool json);

#ifdef __cplusplus
}
#endif
#endif
