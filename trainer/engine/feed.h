// SPDX-License-Identifier: Apache-2.0
// Connects the data pipeline to the engine: slots become the inputs of lanes.
#ifndef SR_TRAINER_FEED_H
#define SR_TRAINER_FEED_H

#include "dataio/pipeline/pipeline.h"
#include "trainer/engine/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

// The pipeline of a rank as a source of lanes. One thread at a time.
typedef struct sr_feed sr_feed;

// Opens the pipeline. uses: how often a step asks for the same lane (its number of phases).
SR_NODISCARD sr_status sr_feed_create(const sr_pipeline_options *options, int uses, sr_feed **out);
// Closes the pipeline; NULL is legal.
void sr_feed_free(sr_feed *feed);
// For sr_engine_step; borrowed until free. A slot returns to the pipeline after its last use.
const sr_lane_source *sr_feed_source(sr_feed *feed);
// The pipeline itself, for its counters. Borrowed until free.
sr_pipeline *sr_feed_pipeline(sr_feed *feed);
// The slot that the next use of a local lane will get; this call does not count as a use. Borrowed
// until that use is done.
SR_NODISCARD sr_status sr_feed_peek(sr_feed *feed, int lane, const sr_slot **out);
// The inputs of a slot; SR_E_INTERNAL if it has no images or labels.
SR_NODISCARD sr_status sr_feed_inputs(const sr_slot *slot, sr_lane_inputs *out);

#ifdef __cplusplus
}
#endif
#endif
