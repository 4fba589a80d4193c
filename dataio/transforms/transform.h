// SPDX-License-Identifier: Apache-2.0
// Transforms (augmentations): each has one descriptor and one file, listed in
// dataio/transforms/transform_list.def.
//
// A transform changes a canvas (dataio/image/canvas.h). It draws random numbers only from the
// stream of its call, which is keyed by (seed; global sample position, index of the transform in
// the list), so results depend on nothing else.
#ifndef SR_DATAIO_TRANSFORM_H
#define SR_DATAIO_TRANSFORM_H

#include <stddef.h>
#include <stdint.h>

#include "dataio/image/canvas.h"
#include "kernels/base/options.h"
#include "kernels/base/rng.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_TRANSFORM_ABI 3u // of sr_transform

// The arguments of one application.
typedef struct sr_transform_call {
    const void *options;
    sr_rng *rng;
    int index; // in the list, from 0
} sr_transform_call;

// A transform's descriptor. Immutable.
typedef struct sr_transform {
    uint32_t struct_size, abi;
    const char *name, *help;
    sr_option_table options; // of a plain struct that may be zero-initialised
    // Checks what the option table cannot (optional). SR_E_USAGE.
    sr_status (*check)(const void *options);
    sr_status (*apply)(sr_canvas *canvas, const sr_transform_call *call);
    // Number of other samples that it combines with its own (sr_canvas_open_foreign), at most
    // SR_FOREIGN_MOST.
    int foreign;
    // It copies pixels and makes no new ones: it crops, mirrors, pads, or resizes to a size that
    // follows from the picture's. Then it may be applied to a canvas without pixels.
    bool moves;
} sr_transform;

// Names of sr_resize_filter, for option tables. NULL-terminated.
extern const char *const sr_resize_filter_names[];

// All transforms: those of transform_list.def, then plug-ins'.
const sr_transform *const *sr_transforms(size_t *count);
// Adds a plug-in's transforms (trainer/engine/plugins.h). 'origin' must remain valid.
SR_NODISCARD sr_status sr_transforms_add(const sr_transform *const *list, const char *origin);

// A transform of a list: its name, and "key=value key=value" for its option table.
typedef struct sr_transform_spec {
    const char *name;
    const char *arguments;
} sr_transform_spec;

// The part of a training run in which a transform of a list is applied: global sample positions
// from 'begin' to before 'end'.
typedef struct sr_transform_window {
    int64_t begin, end; // end 0: the end of the run
} sr_transform_window;

// A list of transforms with their options parsed. Immutable after sr_transform_chain_limit.
typedef struct sr_transform_chain sr_transform_chain;

// Blanks inside brackets belong to the value.
SR_NODISCARD sr_status sr_transform_chain_create(const sr_transform_spec *specs, int count,
                                                 sr_transform_chain **out);
// NULL is legal.
void sr_transform_chain_free(sr_transform_chain *chain);
// The largest number of foreign samples that one of the transforms needs.
int sr_transform_chain_foreign(const sr_transform_chain *chain);
// Applies each transform in its window alone; 'windows' has one for each. What is not applied draws
// nothing, and the draws of the others stay as they are. Without this call all are applied.
void sr_transform_chain_limit(sr_transform_chain *chain, const sr_transform_window *windows);
// Applies the transforms of a position to an empty picture, for errors that would come late in a
// run: SR_E_SHAPE if it has another size than this afterwards.
SR_NODISCARD sr_status sr_transform_chain_rehearse(const sr_transform_chain *chain,
                                                   int64_t position, int64_t height, int64_t width);
// Whether the transforms only move the pixels of pictures that have the image's size, at each
// position of a run: they can then be applied to a canvas without pixels (sr_canvas_open_move).
SR_NODISCARD sr_status sr_transform_chain_moves(const sr_transform_chain *chain, int64_t height,
                                                int64_t width, bool *out);
// Applies the transforms of the sample's position and finishes the canvas.
SR_NODISCARD sr_status sr_transform_chain_apply(const sr_transform_chain *chain, sr_canvas *canvas);

#ifdef __cplusplus
}
#endif
#endif
