// SPDX-License-Identifier: Apache-2.0
// The draws of a run as moves of the pictures of its data set, where its transforms only move
// pixels: what the pipeline would deliver, without pixels. Who keeps the pictures of a split can
// make each slot from them (trainer/engine/resident.h).
#ifndef SR_DATAIO_MOVES_H
#define SR_DATAIO_MOVES_H

#include "dataio/pipeline/pipeline.h"
#include "kernels/base/pixel_move.h"

#ifdef __cplusplus
extern "C" {
#endif

// One thread at a time.
typedef struct sr_move_draws sr_move_draws;

// Whether slots of a pipeline with these options are moves of pictures that have the image's size,
// with nothing else than one label each. Samples that are drawn by class, mixed with others or of
// growing size are not.
SR_NODISCARD sr_status sr_moves_suffice(const sr_pipeline_options *options, bool *out);
// For options for which they do. The data set is read here only.
SR_NODISCARD sr_status sr_move_draws_create(const sr_pipeline_options *options,
                                            const sr_dataset *dataset, sr_move_draws **out);
// NULL is legal.
void sr_move_draws_free(sr_move_draws *draws);
// The move of the sample at a position; its picture is the number of the sample. Positions of a
// lane are fastest in order (sr_sampler_at).
SR_NODISCARD sr_status sr_move_draws_at(sr_move_draws *draws, int64_t position, sr_pixel_move *out);

#ifdef __cplusplus
}
#endif
#endif
