// SPDX-License-Identifier: Apache-2.0
// Transformers: how a record becomes the rows of a slot's arrays (decode, augment, labels). One
// descriptor and one file each, listed in dataio/pipeline/transformer_list.def.
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

// An array of the slot, seen from one sample.
typedef struct sr_array_spec {
    const char *name; // static; ragged arrays get a companion "NAME.count"
    sr_dtype dtype;
    int rank; // of one row
    int64_t shape[SR_ARRAY_MAX_RANK - 1];
    int64_t capacity; // 0: dense, one row a sample; else ragged, most rows of one sample
    bool in_place;    // dense only: rows go straight into the slot (pixels); others are assembled
} sr_array_spec;

// What a transformer process works with; borrowed for the call.
typedef struct sr_transformer_context {
    const sr_pipeline_options *options;
    const sr_transform_chain *chain;
    sr_canvas *canvas;
    // Names of the data set's classes. The data set itself is not to be had: a transformer works
    // behind walls (dataio/pipeline/sandbox.h), and opens what it needs before its first sample or
    // never.
    const char *const *classes;
    int64_t class_count;
} sr_transformer_context;

typedef struct sr_transformer_call {
    const void *record;
    size_t bytes;
    sr_canvas_identity identity;
    void *rows[SR_SLOT_MAX_ARRAYS];     // where this sample's row or rows of each array go
    int64_t counts[SR_SLOT_MAX_ARRAYS]; // out: rows of ragged arrays
} sr_transformer_call;

typedef struct sr_transformer {
    size_t struct_size;
    uint32_t abi;
    const char *name, *help;
    // The arrays for these options; their number (ragged ones count twice towards
    // SR_SLOT_MAX_ARRAYS).
    int (*arrays)(const sr_pipeline_options *options, sr_array_spec *out);
    // Opens the call's record on a canvas, with its boxes or mask. The targets are the call's rows;
    // NULL for a foreign sample, whose canvas has none.
    sr_status (*open)(const sr_transformer_context *context, sr_canvas *canvas,
                      const sr_transformer_call *call);
    // Fills the rows, of a ragged array at most its capacity (SR_E_LIMIT where a sample has more:
    // behind them are the rows of others). Errors of the group of SR_E_DATA concern this sample
    // alone.
    sr_status (*apply)(const sr_transformer_context *context, sr_transformer_call *call);
} sr_transformer;

// name NULL: "classify". SR_E_USAGE with the nearest name when there is none.
SR_NODISCARD sr_status sr_transformer_find(const char *name, const sr_transformer **out);

#ifdef __cplusplus
}
#endif
#endif
