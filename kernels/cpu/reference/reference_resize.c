// SPDX-License-Identifier: Apache-2.0
// resize2d and its gradient: pixels and weights of kernels/resize.h, which are tabulated when a
// kernel is prepared. One block is one row of the output.
//
// An output pixel is the sum over its rows of the weight of the row times the sum over its columns
// of the weight of the column times the pixel, both in leaves and the tree of reference_sum.inc.
// Weights are rounded to the type of sums.
#include <math.h>
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/base/memory.h"
#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/resize.h"

// Positions of a side of the output, each with its pixels and 'most' weights.
typedef struct resize_table {
    const sr_resize_span *span;
    const double *weight;
    int64_t positions, most, source; // source: pixels of the input's side
} resize_table;

typedef struct resize_state {
    resize_table rows, columns;
    int64_t c;
} resize_state;

#define SR_TYPED_BODY "kernels/cpu/reference/reference_resize.inc"
#include "kernels/cpu/reference/reference_typed.inc"

static size_t weight_bytes(const resize_table *t) {
    return (size_t)(t->positions * t->most) * sizeof(double);
}

static resize_table table_of(const sr_resize_side *side) {
    return (resize_table){.positions = sr_resize_positions(side),
                          .most = sr_resize_most(side),
                          .source = side->transposed ? side->out : side->in};
}

static void fill_table(const sr_resize_side *side, double *weight, sr_resize_span *span,
                       resize_table *t) {
    sr_resize_pixel pixel = {.out = -1};
    t->span = span;
    t->weight = weight;
    for (int64_t i = 0; i < t->positions; i++, weight += t->most)
        span[i] = sr_resize_weights_of(side, i, &pixel, weight);
}

static sr_status prepare(const sr_kernel_request *request, int transposed, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(resize);
    const sr_resize_params *p = (const void *)request->params;
    const sr_resize_side high = sr_resize_side_of(p, 0, transposed),
                         wide = sr_resize_side_of(p, 1, transposed);
    resize_table rows = table_of(&high), columns = table_of(&wide);
    const size_t weights = weight_bytes(&rows) + weight_bytes(&columns);
    const size_t spans = (size_t)(rows.positions + columns.positions) * sizeof(sr_resize_span);
    char *memory = sr_alloc(sizeof(resize_state) + weights + spans, "weights of resize2d");
    if (memory == NULL)
        return SR_E_MEMORY;
    resize_state *state = (void *)memory;
    double *weight = (void *)(state + 1);
    sr_resize_span *span = (void *)(memory + sizeof(resize_state) + weights);
    fill_table(&high, weight, span, &rows);
    fill_table(&wide, weight + rows.positions * rows.most, span + rows.positions, &columns);
    *state = (resize_state){rows, columns, p->c};
    out->state = state;
    out->state_free = sr_free;
    out->scratch = (size_t)((2 + sr_leaf_levels(rows.most) + sr_leaf_levels(columns.most)) * p->c) *
                   sr_accumulator_size(request->dtype[0]);
    sr_add_stage(out, variants[request->dtype[0]], p->n * rows.positions);
    return SR_OK;
}

sr_status sr_reference_prepare_resize2d(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(request, 0, out);
}

sr_status sr_reference_prepare_resize2d_grad(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(request, 1, out);
}
