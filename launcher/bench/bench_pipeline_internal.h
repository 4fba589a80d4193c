// SPDX-License-Identifier: Apache-2.0
// What benchmarks of the data pipeline share: the options that make a pipeline, as a part of their
// command lines.
#ifndef SR_LAUNCHER_BENCH_PIPELINE_INTERNAL_H
#define SR_LAUNCHER_BENCH_PIPELINE_INTERNAL_H

#include <argp.h>

#include "dataio/pipeline/pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_BENCH_TRANSFORMS 16

// A pipeline of the command line. Its data set, texts and transforms point into argv.
typedef struct sr_bench_pipeline {
    sr_pipeline_options options;
    sr_transform_spec transforms[SR_BENCH_TRANSFORMS];
} sr_bench_pipeline;

// --image, --transform, ... and DATASET: a child of a benchmark's own parser, whose input is an
// sr_bench_pipeline. It fills in what is usual, before and after the words of the command line.
extern const struct argp sr_bench_pipeline_argp;

// A whole number from 0 on; anything else ends the program with a message about --name.
int64_t sr_bench_whole_number(const char *text, const char *name, struct argp_state *state);

// `bench data --order-hash`: delivers so many epochs to 'ranks' ranks, one after the other, and
// prints what the order came to.
SR_NODISCARD sr_status sr_bench_order(const sr_pipeline_options *options, int64_t epochs, int ranks,
                                      bool json);

// `bench data --peers`: the pipeline on one core in turns with other loaders, for so long.
SR_NODISCARD sr_status sr_bench_data_peers(sr_pipeline_options *options, double seconds, bool json);

#ifdef __cplusplus
}
#endif
#endif
