// SPDX-License-Identifier: Apache-2.0
// Weights and blocks of resize2d and its gradient (see x86_resize_internal.h). A function of the
// request alone.
#include "kernels/base/memory.h"
#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/reference_order.h"

// Elements that a block reads or writes, whichever are more; those of one of its rows; and floats
// of all its lines. One row or column may have more.
#define BLOCK_ELEMENTS (INT64_C(2) * SR_X86_BLOCK)
#define ROW_ELEMENTS 4096
#define LINES_FLOATS 65536

bool sr_x86_resize_supports(const sr_kernel_request *request) {
    const sr_resize_params *p = (const void *)request->params;
    return p->n > 0 && p->c > 0 && p->h > 0 && p->w > 0 && p->p > 0 && p->q > 0;
}

static sr_x86_resize_side side_of(const sr_resize_side *side) {
    return (sr_x86_resize_side){.positions = sr_resize_positions(side),
                                .most = sr_resize_most(side),
                                .source = side->transposed ? side->out : side->in};
}

// weights: scratch for those of a position.
static void fill_side(const sr_resize_side *side, double *weights, float *weight,
                      sr_resize_span *span, sr_x86_resize_side *out) {
    sr_resize_pixel pixel = {.out = -1};
    for (int64_t i = 0; i < out->positions; i++) {
        span[i] = sr_resize_weights_of(side, i, &pixel, weights);
        for (int32_t k = 0; k < span[i].count; k++)
            weight[i * out->most + k] = (float)weights[k];
    }
    out->span = span;
    out->weight = weight;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// Rows are divided into narrow parts, so that a block has many of them: it computes the lines at
// its upper and lower end for itself, as its neighbours do.
static void divide(sr_x86_resize *s) {
    const sr_x86_resize_side *high = &s->rows, *wide = &s->columns;
    const int64_t row = s->c * larger(wide->source, wide->positions);
    const int64_t lines = s->c * wide->positions * high->most;
    const int64_t parts =
        larger(sr_x86_ceil_div(row, ROW_ELEMENTS), sr_x86_ceil_div(lines, LINES_FLOATS));
    s->column_parts = sr_x86_min(wide->positions, parts);
    const int64_t part = row / s->column_parts * larger(high->source, high->positions);
    s->row_parts = sr_x86_min(high->positions, sr_x86_ceil_div(part, BLOCK_ELEMENTS));
    // Lines are written in whole vectors, which end after the last column, and begin in different
    // cache sets.
    const int64_t width = sr_x86_ceil_div(wide->positions, s->column_parts) * s->c;
    s->pitch = (sr_x86_ceil_div(width + 15, 16) | 1) * 16;
}

static int64_t weights_of(const sr_x86_resize_side *side) {
    return side->positions * side->most;
}

sr_status sr_x86_resize_plan(const sr_kernel_request *request, sr_prepared *out) {
    const sr_resize_params *p = (const void *)request->params;
    const int transposed = request->kernel == SR_KERNEL_resize2d_grad;
    const sr_resize_side high = sr_resize_side_of(p, 0, transposed),
                         wide = sr_resize_side_of(p, 1, transposed);
    sr_x86_resize s = {.rows = side_of(&high), .columns = side_of(&wide), .c = p->c};
    s.elements = p->n * s.rows.source * s.columns.source * p->c;
    divide(&s);
    const int64_t most = larger(s.rows.most, s.columns.most);
    const size_t spans = (size_t)(s.rows.positions + s.columns.positions) * sizeof(sr_resize_span);
    const size_t weights = (size_t)(weights_of(&s.rows) + weights_of(&s.columns)) * sizeof(float);
    double *scratch = sr_alloc((size_t)most * sizeof *scratch, "weights of a pixel of resize2d");
    char *memory = sr_alloc(sizeof s + spans + weights, "weights of resize2d");
    if (scratch == NULL || memory == NULL) {
        sr_free(scratch);
        sr_free(memory);
        return SR_E_MEMORY;
    }
    sr_resize_span *span = (void *)(memory + sizeof s);
    float *weight = (void *)(memory + sizeof s + spans);
    fill_side(&high, scratch, weight, span, &s.rows);
    fill_side(&wide, scratch, weight + weights_of(&s.rows), span + s.rows.positions, &s.columns);
    sr_free(scratch);
    memcpy(memory, &s, sizeof s);
    out->state = memory;
    out->state_free = sr_free;
    out->stages = 1;
    out->stage[0].blocks = p->n * s.row_parts * s.column_parts;
    const int64_t tree = (1 + sr_leaf_levels(most)) * SR_X86_RESIZE_VECTORS * 16;
    out->scratch = (size_t)(s.rows.most * s.pitch + tree) * sizeof(float);
    return SR_OK;
}
