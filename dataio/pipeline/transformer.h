// SPDX-License-Identifier: Apache-2.0
// Transformers: convert a record to the rows of a slot's arrays (decode, augment, labels). Each has
// one descriptor and one file, listed in dataio/pipeline/transformer_list.def.
#ifndef SR_DATAIO_TRANSFORMER_H
#define SR_DATAIO_TRANSFORMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/image/canvas.h"
#include "dataio/pipeline/pipeline.h"
#include "dataio/record/dataset.h"
#include "dataio/transforms/transform.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_TRANSFORMER_ABI 2u

// An array of the slot, per sample.
typedef struct sr_array_spec {
    const char *name;       // static
    const char *count_name; // of a ragged array's companion: "NAME.count"
    sr_dtype dtype;
    int rank; // of one row
    int64_t shape[SR_ARRAY_MAX_RANK - 1];
    int64_t capacity; // 0: dense, one row per sample; else ragged: most rows of one sample
    bool in_place;    // dense only: rows are written directly to the slot (pixels)
} sr_array_spec;

// What a transformer works with; borrowed for the call.
typedef struct sr_transformer_context {
    const sr_pipeline_options *options;
    const sr_transform_chain *chain;
    sr_canvas *canvas;
    // Names of the data set's classes. The data set itself is not available: a transformer runs in
    // a sandbox (dataio/pipeline/sandbox.h) and must open files before its first sample.
    const char *const *classes;
    int64_t class_count;
} sr_transformer_context;

typedef struct sr_transformer_call {
    const void *record;
    size_t bytes;
    sr_canvas_identity identity;
    void *rows[SR_SLOT_MAX_ARRAYS];     // destination of this sample's rows of each array
    int64_t counts[SR_SLOT_MAX_ARRAYS]; // out: rows of ragged arrays
} sr_transformer_call;

typedef struct sr_transformer {
    size_t struct_size;
    uint32_t abi;
    const char *name, *help;
    // Describes the arrays for these options and returns their number (ragged arrays count twice
    // towards SR_SLOT_MAX_ARRAYS).
    int (*arrays)(const sr_pipeline_options *options, sr_array_spec *out);
    // Opens the call's record on a canvas, with its boxes or mask. The targets are the call's rows,
    // which are NULL for a foreign sample.
    sr_status (*open)(const sr_transformer_context *context, sr_canvas *canvas,
                      const sr_transformer_call *call);
    // SR_E_DATA saying what a record lacks for this transformer: whether a data set is of the kind
    // that it reads is asked before a run begins. NULL: any record is.
    sr_status (*check)(const void *record, size_t bytes);
    // Fills the rows; a ragged array at most up to its capacity (SR_E_LIMIT where a sample has
    // more, because other samples' rows follow). Errors of the group of SR_E_DATA concern this
    // sample only.
    sr_status (*apply)(const sr_transformer_context *context, sr_transformer_call *call);
} sr_transformer;

// name NULL: "classify". SR_E_USAGE with the nearest name when there is none.
SR_NODISCARD sr_status sr_transformer_find(const char *name, const sr_transformer **out);

#ifdef __cplusplus
}
#endif
#endif
