// SPDX-License-Identifier: Apache-2.0
// conv2d_dw and linear_dw in the reference's order, hence with its bits
// (kernels/cpu/reference/reference_conv.c): dw[k,c,r,s] is a sum over the output pixels in order.
// The leaves of its binary tree are pieces of output rows with at most 32 pixels in total.
//
// A block processes some leaves, 64 outputs, a range of inputs and a row of taps. It copies the
// pixels of each leaf to scratch, as f32, and adds their products in tiles of inputs by outputs
// that stay in registers, each with its own tree. Pixels whose tap is outside the picture are
// skipped. Stage 1 joins the groups of leaves, whose sums are sub-trees.
#ifndef SR_KERNELS_CPU_X86_DIRECT_DW_INTERNAL_H
#define SR_KERNELS_CPU_X86_DIRECT_DW_INTERNAL_H

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

// A tile: inputs, and vectors of outputs.
#if defined(__AVX512F__)
#define DIRECT_DW_ROWS 4
#define DIRECT_DW_VECTORS 4
#else
#define DIRECT_DW_ROWS 4
#define DIRECT_DW_VECTORS 1
#endif

// Some pixels of an output row, and what a tap reads for them.
typedef struct direct_segment {
    const float *x, *dy; // of the first pixel
    int64_t count;
} direct_segment;

// The terms of a leaf.
typedef struct direct_leaf {
    direct_segment segment[SR_X86_DIRECT_TERMS];
    int64_t segments;
    int64_t x_step;       // floats from a pixel's x to the next
    uint64_t joins;       // levels to add at the end
    int64_t level;        // where the sums are stored
    int64_t level_floats; // of each level
} direct_leaf;

// Inputs c .. c + DIRECT_DW_ROWS - 1 and outputs from k on; tree: [levels][inputs][64]. The number
// of vectors is a compile-time constant.
SR_INLINE void direct_dw_multiply(const direct_leaf *l, int64_t c, int64_t k, float *tree,
                                  int vectors) {
    sr_vf sum[DIRECT_DW_ROWS][DIRECT_DW_VECTORS];
    SR_UNROLL
    for (int r = 0; r < DIRECT_DW_ROWS; r++) {
        SR_UNROLL
        for (int v = 0; v < vectors; v++)
            sum[r][v] = sr_v_zero();
    }
    for (int64_t i = 0; i < l->segments; i++) {
        const float *x = l->segment[i].x + c, *dy = l->segment[i].dy + k;
        for (int64_t q = 0; q < l->segment[i].count;
             q++, x += l->x_step, dy += SR_X86_DIRECT_SIDE) {
            sr_vf out[DIRECT_DW_VECTORS];
            SR_UNROLL
            for (int v = 0; v < vectors; v++)
                out[v] = sr_v_load(dy + v * SR_ELEMENTS);
            SR_UNROLL
            for (int r = 0; r < DIRECT_DW_ROWS; r++) {
                const sr_vf in = sr_v_set(x[r]);
                SR_UNROLL
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = sr_v_add(sum[r][v], sr_v_mul(in, out[v]));
            }
        }
    }
    float *level = tree + c * SR_X86_DIRECT_SIDE + k;
    float *to = level + l->level * l->level_floats;
    for (uint64_t joins = l->joins; joins != 0; joins >>= 1, level += l->level_floats) {
        if (!(joins & 1))
            continue;
        SR_UNROLL
        for (int r = 0; r < DIRECT_DW_ROWS; r++) {
            SR_UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = sr_v_add(sr_v_load(level + r * SR_X86_DIRECT_SIDE + v * SR_ELEMENTS),
                                     sum[r][v]);
        }
    }
    SR_UNROLL
    for (int r = 0; r < DIRECT_DW_ROWS; r++) {
        SR_UNROLL
        for (int v = 0; v < vectors; v++)
            sr_v_store(to + r * SR_X86_DIRECT_SIDE + v * SR_ELEMENTS, sum[r][v]);
    }
}

typedef void (*direct_dw_fn)(const direct_leaf *l, int64_t c, int64_t k, float *tree);
#define DIRECT_DW_TILE(vectors)                                                                    \
    static __attribute__((noinline)) void direct_dw_##vectors(const direct_leaf *l, int64_t c,     \
                                                              int64_t k, float *tree) {            \
        direct_dw_multiply(l, c, k, tree, vectors);                                                \
    }
DIRECT_DW_TILE(1)
#if DIRECT_DW_VECTORS > 1
DIRECT_DW_TILE(2)
DIRECT_DW_TILE(3)
DIRECT_DW_TILE(4)
static const direct_dw_fn direct_dw_tiles[] = {direct_dw_1, direct_dw_2, direct_dw_3, direct_dw_4};
#else
static const direct_dw_fn direct_dw_tiles[] = {direct_dw_1};
#endif
#undef DIRECT_DW_TILE

// What a block computes.
typedef struct direct_dw_block {
    const sr_x86_direct_dw *d;
    const void *x, *dy;
    sr_x86_range leaves;     // of the group
    int64_t k, c, r;         // first output and input, row of taps
    int64_t outputs, inputs; // that exist
    float *tree, *xs, *dys;  // scratch
} direct_dw_block;

// The pixels of one leaf, in scratch.
typedef struct direct_dw_pixels {
    int64_t segments;
    struct {
        int64_t begin, end;  // output columns
        int64_t first, seen; // columns of x, from 'first' on; 0: outside the picture
        const float *x, *dy;
    } segment[SR_X86_DIRECT_TERMS];
} direct_dw_pixels;

// 'pixels' pixels of 'size' floats each, of which 'width' from element 'from' on: the first 'count'
// exist, the others are zeros.
SR_INLINE void direct_dw_copy(const void *base, int64_t from, int64_t size, int64_t pixels,
                              int64_t count, int64_t width, float *to, sr_dtype type) {
    for (int64_t i = 0; i < pixels; i++, from += size) {
        for (int64_t k = 0; k < width; k += SR_ELEMENTS, to += SR_ELEMENTS) {
            const int n = (int)sr_x86_min(SR_ELEMENTS, count - k);
            sr_v_store(to, n > 0 ? sr_v_get(base, from + k, n, type) : sr_v_zero());
        }
    }
}

SR_INLINE void direct_dw_load(const direct_dw_block *b, int64_t leaf, direct_dw_pixels *out,
                              sr_dtype type) {
    const sr_x86_direct_dw *d = b->d;
    const sr_conv_params *p = &d->p;
    const sr_x86_range parts = sr_x86_block_range(p->n * p->p * d->parts, leaf, d->segments);
    float *xs = b->xs, *dys = b->dys;
    out->segments = parts.end - parts.begin;
    for (int64_t i = 0; i < out->segments; i++) {
        const int64_t row = (parts.begin + i) / d->parts, n = row / p->p;
        const sr_x86_range q =
            sr_x86_block_range(p->q, (parts.begin + i) % d->parts, SR_X86_DIRECT_TERMS);
        const int64_t h = row % p->p * p->stride_h + b->r * p->dilation_h - p->pad_top;
        const int64_t begin = q.begin * p->stride_w - p->pad_left, first = begin > 0 ? begin : 0;
        const int64_t end = sr_x86_min(p->w, (q.end - 1) * p->stride_w - p->pad_left +
                                                 (p->s - 1) * p->dilation_w + 1);
        out->segment[i].begin = q.begin;
        out->segment[i].end = q.end;
        out->segment[i].first = first;
        out->segment[i].seen = h >= 0 && h < p->h && end > first ? end - first : 0;
        out->segment[i].x = xs;
        out->segment[i].dy = dys;
        if (out->segment[i].seen == 0)
            continue;
        direct_dw_copy(b->x, ((n * p->h + h) * p->w + first) * p->c + b->c, p->c, end - first,
                       b->inputs, d->inputs, xs, type);
        direct_dw_copy(b->dy, (row * p->q + q.begin) * p->k + b->k, p->k, q.end - q.begin,
                       b->outputs, SR_X86_DIRECT_SIDE, dys, type);
        xs += (end - first) * d->inputs;
        dys += (q.end - q.begin) * SR_X86_DIRECT_SIDE;
    }
}

// The terms for tap s.
SR_INLINE void direct_dw_terms(const direct_dw_block *b, const direct_dw_pixels *pixels, int64_t s,
                               direct_leaf *l) {
    const sr_conv_params *p = &b->d->p;
    const int64_t shift = s * p->dilation_w - p->pad_left; // column w of x is q stride + shift
    const int64_t least = shift >= 0 ? 0 : sr_x86_ceil_div(-shift, p->stride_w);
    const int64_t most = p->w > shift ? sr_x86_ceil_div(p->w - shift, p->stride_w) : 0;
    l->segments = 0;
    for (int64_t i = 0; i < pixels->segments; i++) {
        const int64_t begin = pixels->segment[i].begin > least ? pixels->segment[i].begin : least;
        const int64_t end = sr_x86_min(pixels->segment[i].end, most);
        if (pixels->segment[i].seen == 0 || begin >= end)
            continue;
        const int64_t column = begin * p->stride_w + shift - pixels->segment[i].first;
        l->segment[l->segments++] = (direct_segment){
            pixels->segment[i].x + column * b->d->inputs,
            pixels->segment[i].dy + (begin - pixels->segment[i].begin) * SR_X86_DIRECT_SIDE,
            end - begin};
    }
}

SR_INLINE void direct_dw_leaf(const direct_dw_block *b, int64_t leaf, sr_dtype type) {
    const sr_x86_direct_dw *d = b->d;
    direct_dw_pixels pixels;
    direct_leaf l = {.x_step = d->p.stride_w * d->inputs,
                     .level_floats = d->inputs * SR_X86_DIRECT_SIDE};
    const int64_t vectors = sr_x86_ceil_div(b->outputs, SR_ELEMENTS);
    const uint64_t number = (uint64_t)(leaf - b->leaves.begin); // within the tree of the group
    const bool last = leaf + 1 == b->leaves.end;
    l.joins = last ? number : number & ~(number + 1);
    l.level = last ? d->levels : __builtin_ctzll(~number);
    direct_dw_load(b, leaf, &pixels, type);
    for (int64_t s = 0; s < d->p.s; s++) {
        float *tree = b->tree + s * d->tree_floats;
        direct_dw_terms(b, &pixels, s, &l);
        for (int64_t c = 0; c < b->inputs; c += DIRECT_DW_ROWS)
            for (int64_t k = 0; k < vectors; k += DIRECT_DW_VECTORS)
                direct_dw_tiles[sr_x86_min(vectors - k, DIRECT_DW_VECTORS) - 1](
                    &l, c, k * SR_ELEMENTS, tree);
    }
}

// Stores the totals, [s][inputs][64], to dw[k][c][r][s].
SR_INLINE void direct_dw_store(const direct_dw_block *b, float *dw) {
    const sr_conv_params *p = &b->d->p;
    const int64_t taps = p->r * p->s;
    const float *total = b->tree + b->d->levels * b->d->inputs * SR_X86_DIRECT_SIDE;
    for (int64_t k = 0; k < b->outputs; k++) {
        for (int64_t c = 0; c < b->inputs; c++) {
            float *to = dw + ((b->k + k) * p->c + b->c + c) * taps + b->r * p->s;
            for (int64_t s = 0; s < p->s; s++)
                to[s] = total[s * b->d->tree_floats + c * SR_X86_DIRECT_SIDE + k];
        }
    }
}

SR_INLINE void direct_dw_run(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                             sr_dtype type) {
    const sr_x86_direct_dw *d = args->state;
    const int64_t r = block % d->p.r, range = block / d->p.r % d->ranges;
    const int64_t panel = block / d->p.r / d->ranges % d->panels;
    const int64_t group = block / d->p.r / d->ranges / d->panels;
    direct_dw_block b = {.d = d, .x = args->p[0], .dy = args->p[1], .r = r};
    b.leaves = sr_x86_block_range(d->leaves, group, d->group_leaves);
    b.c = range * d->inputs;
    b.k = panel * SR_X86_DIRECT_SIDE;
    b.inputs = sr_x86_min(d->inputs, d->p.c - b.c);
    b.outputs = sr_x86_min(SR_X86_DIRECT_SIDE, d->p.k - b.k);
    b.tree = worker->scratch;
    b.dys = b.tree + d->p.s * d->tree_floats;
    b.xs = b.dys + SR_X86_DIRECT_TERMS * SR_X86_DIRECT_SIDE;
    for (int64_t leaf = b.leaves.begin; leaf < b.leaves.end; leaf++)
        direct_dw_leaf(&b, leaf, type);
    direct_dw_store(&b, d->groups > 1 ? (float *)args->workspace + group * d->weights : args->p[2]);
}

// Stage 1: joins the groups.
static sr_status direct_dw_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_x86_direct_dw *d = args->state;
    const sr_x86_range r = sr_x86_block_range(d->weights, block, SR_X86_DIRECT_JOIN);
    float *sum = args->workspace, *dw = args->p[2];
    for (int64_t step = 1; step < d->groups; step *= 2)
        for (int64_t g = 0; g + step < d->groups; g += 2 * step)
            for (int64_t i = r.begin; i < r.end; i++)
                sum[g * d->weights + i] += sum[(g + step) * d->weights + i];
    memcpy(dw + r.begin, sum + r.begin, (size_t)(r.end - r.begin) * sizeof *dw);
    return SR_OK;
}

SR_X86_TYPED(direct_dw, direct_dw_run(args, block, worker, type))

#endif
