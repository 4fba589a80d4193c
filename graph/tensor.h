// SPDX-License-Identifier: Apache-2.0
// Tensors in model code: 8-byte values.
#ifndef SR_GRAPH_TENSOR_H
#define SR_GRAPH_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_MAX_RANK 5 // dimensions of a tensor

// A value of a recording context: its number in the recording (slot), and the generation (step)
// that it belongs to, so that use after its step gives a clear error. It may be copied freely. Slot
// and generation 0 mean "no tensor": SR_NONE, or the result of a failed call, which still has the
// number of its context.
typedef struct sr_tensor {
    uint32_t slot;
    uint16_t context;    // 1-based number of the context
    uint16_t generation; // 0 for variables, which outlive steps
} sr_tensor;

#ifdef __cplusplus
#define SR_NONE (sr_tensor{0, 0, 0})
#else
// No tensor: an absent optional input. Any call that needs a tensor but gets SR_NONE fails, and the
// error sticks to the context that this thread used last (sr_context_status).
#define SR_NONE ((sr_tensor){0})
#endif

// Whether this is "no tensor".
static inline bool sr_is_none(sr_tensor t) {
    return t.slot == 0 && t.generation == 0;
}

// Dtype and shape. Dimensions are at least 1 (a tensor of variable size has a capacity and a
// count); unused ones are 0. rank 0 is a scalar with one element.
typedef struct sr_info {
    sr_dtype dtype;
    int32_t rank;
    int64_t dim[SR_MAX_RANK];
} sr_info;

// Dtype and shape of a tensor of the current step; false (and an error sticks) for a stale tensor
// and for SR_NONE.
bool sr_tensor_info(sr_tensor tensor, sr_info *out);

// "[32, 56, 56, 64] bf16" into out (at least 96 bytes), for messages.
char *sr_info_text(const sr_info *info, char *out);

// Number of elements: the product of the dimensions, 1 for a scalar.
static inline int64_t sr_info_count(const sr_info *info) {
    int64_t n = 1;
    for (int i = 0; i < info->rank; i++)
        n *= info->dim[i];
    return n;
}

#ifdef __cplusplus
}
#endif
#endif
