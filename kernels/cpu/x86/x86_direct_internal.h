// SPDX-License-Identifier: Apache-2.0
// conv2d, conv2d_dx, linear, linear_dx and matmul in the reference's order, hence with its bits
// (kernels/cpu/reference/reference_conv.c): at most 32 terms are added one after the other, with
// products and sums rounded separately; a binary tree adds these sums.
//
// Neighbouring outputs are the elements of vectors, and a tile of pixels by outputs stays in
// registers while a leaf is added; each element has its own chain, so neither the tile nor the
// instruction set changes a bit. At the end of a leaf, the tile is joined in registers with the
// complete levels of the tree, which are in the first-level cache. Terms outside the picture are
// skipped: the pixels of a tile that lack them keep their sums. conv2d_dx with a stride processes
// pixels in the order of their remainders modulo the stride, so that the pixels of a tile have the
// same taps.
//
// Stage 0 packs the weights, [panel][tap][in][64], rounded to T. A block of stage 1 processes some
// pixels and some panels. For matmul these belong to one product, whose weights are the matrix b; a
// transposed matrix a is copied in stage 0. The speed limit is half of the processor's rate of
// multiply-adds. Where multiplications and additions have separate units (AMD Zen 4), it is the
// full rate, of which the broadcasts leave 0.9; this file reaches 0.65 for 3x3 and 1x1.
//
// Not here: groups (the reference).
#ifndef SR_KERNELS_CPU_X86_DIRECT_INTERNAL_H
#define SR_KERNELS_CPU_X86_DIRECT_INTERNAL_H

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"
#include "kernels/reference_order.h"

// Vectors of a tile, and its pixels by the number of vectors: few, since on Zen 4 each pixel's
// broadcast takes as long as half a multiplication, but enough to hide the latency of additions.
#if defined(__AVX512F__)
#define DIRECT_VECTORS 4
#define DIRECT_ROWS_4 4
#define DIRECT_ROWS_3 6
#define DIRECT_ROWS_2 8
#define DIRECT_ROWS_1 12
static const int direct_rows[] = {DIRECT_ROWS_1, DIRECT_ROWS_2, DIRECT_ROWS_3, DIRECT_ROWS_4};
#else
#define DIRECT_VECTORS 1
#define DIRECT_ROWS_1 6
static const int direct_rows[] = {DIRECT_ROWS_1};
#endif
#define DIRECT_ROWS SR_X86_DIRECT_ROWS // maximum
_Static_assert(DIRECT_ROWS_1 <= DIRECT_ROWS, "the most");
_Static_assert(SR_X86_DIRECT_SIDE % (DIRECT_VECTORS * SR_ELEMENTS) == 0, "a panel has whole tiles");

#define DIRECT_TILE (SR_X86_DIRECT_ROWS * SR_X86_DIRECT_SIDE)

// ---- stage 0: weights ----

// The taps of weight (c, k) of a panel, from w[out][in][tap] or, mirrored, w[in][out][tap], whose
// type is 'stored'.
SR_INLINE void direct_pack_taps(const sr_x86_direct *d, const void *w, sr_dtype stored, int64_t c,
                                int64_t k, float *panel, int64_t column, sr_dtype type) {
    const int64_t taps = d->p.r * d->p.s;
    const int64_t from = (d->mirrored ? c * d->out + k : k * d->in + c) * taps;
    float *to = panel + c * SR_X86_DIRECT_SIDE + column;
    for (int64_t tap = 0; tap < taps; tap++, to += d->in * SR_X86_DIRECT_SIDE)
        *to = sr_x86_rounded(sr_x86_element(w, from + tap, stored), type);
}

// Packs some inputs at a time, so that the lines being written stay in the first-level cache.
SR_INLINE void direct_pack(const sr_kernel_args *args, int64_t block, sr_dtype stored,
                           sr_dtype type) {
    enum { INPUTS = 16 };
    const sr_x86_direct *d = args->state;
    const int64_t floats = d->p.r * d->p.s * d->in * SR_X86_DIRECT_SIDE;
    const int64_t first = block * SR_X86_DIRECT_SIDE;
    const int64_t width = sr_x86_min(SR_X86_DIRECT_SIDE, d->out - first);
    float *panel = (float *)args->workspace + block * floats;
    if (width < SR_X86_DIRECT_SIDE)
        memset(panel, 0, (size_t)floats * sizeof *panel);
    for (int64_t c = 0; c < d->in; c += INPUTS) {
        const int64_t end = sr_x86_min(d->in, c + INPUTS);
        const int64_t outer = d->mirrored ? end - c : width, inner = d->mirrored ? width : end - c;
        for (int64_t i = 0; i < outer; i++)
            for (int64_t j = 0; j < inner; j++)
                direct_pack_taps(d, args->p[1], stored, c + (d->mirrored ? i : j),
                                 first + (d->mirrored ? j : i), panel, d->mirrored ? j : i, type);
    }
}

SR_X86_TYPED(direct_weights, direct_pack(args, block, SR_F32, type))

// ---- stage 1: tiles ----

typedef struct direct_tile {
    const float *x[DIRECT_ROWS]; // each pixel's first channel of the step
    const float *w;              // [count][64]
    int64_t count;
    uint32_t valid;     // bit r: row r has these terms
    bool begins;        // starts from zero, else from 'sum'
    uint64_t joins;     // levels that are added at the end
    const float *sum;   // [rows][64]
    const float *level; // [levels][DIRECT_TILE]
    float *to;          // [rows][64]
} direct_tile;

// Loads the sums of row r before the step.
SR_INLINE void direct_begin(const direct_tile *t, int r, sr_vf *sum, int vectors) {
    SR_UNROLL
    for (int v = 0; v < vectors; v++)
        sum[v] =
            t->begins ? sr_v_zero() : sr_v_load(t->sum + r * SR_X86_DIRECT_SIDE + v * SR_ELEMENTS);
}

// Adds the terms of one step. Rows, vectors and 'whole' are compile-time constants; whole: all rows
// have these terms.
SR_INLINE void direct_multiply(const direct_tile *t, int rows, int vectors, bool whole) {
    sr_vf sum[DIRECT_ROWS][DIRECT_VECTORS];
    SR_UNROLL
    for (int r = 0; r < rows; r++)
        direct_begin(t, r, sum[r], vectors);
    const float *w = t->w;
    for (int64_t c = 0; c < t->count; c++, w += SR_X86_DIRECT_SIDE) {
        sr_vf weight[DIRECT_VECTORS];
        SR_UNROLL
        for (int v = 0; v < vectors; v++)
            weight[v] = sr_v_load(w + v * SR_ELEMENTS);
        SR_UNROLL
        for (int r = 0; r < rows; r++) {
            const sr_vf in = sr_v_set(t->x[r][c]);
            SR_UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = sr_v_add(sum[r][v], sr_v_mul(in, weight[v]));
        }
    }
    SR_UNROLL
    for (int r = 0; r < rows; r++)
        if (!whole && !(t->valid >> r & 1))
            direct_begin(t, r, sum[r], vectors);
    const float *level = t->level;
    for (uint64_t joins = t->joins; joins != 0; joins >>= 1, level += DIRECT_TILE) {
        if (!(joins & 1))
            continue;
        SR_UNROLL
        for (int r = 0; r < rows; r++) {
            SR_UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = sr_v_add(sr_v_load(level + r * SR_X86_DIRECT_SIDE + v * SR_ELEMENTS),
                                     sum[r][v]);
        }
    }
    SR_UNROLL
    for (int r = 0; r < rows; r++) {
        SR_UNROLL
        for (int v = 0; v < vectors; v++)
            sr_v_store(t->to + r * SR_X86_DIRECT_SIDE + v * SR_ELEMENTS, sum[r][v]);
    }
}

typedef void (*direct_tile_fn)(const direct_tile *tile);
#define DIRECT_MULTIPLY(vectors)                                                                   \
    static __attribute__((noinline)) void direct_part_##vectors(const direct_tile *tile) {         \
        direct_multiply(tile, DIRECT_ROWS_##vectors, vectors, false);                              \
    }                                                                                              \
    static __attribute__((noinline)) void direct_whole_##vectors(const direct_tile *tile) {        \
        direct_multiply(tile, DIRECT_ROWS_##vectors, vectors, true);                               \
    }
DIRECT_MULTIPLY(1)
#if DIRECT_VECTORS > 1
DIRECT_MULTIPLY(2)
DIRECT_MULTIPLY(3)
DIRECT_MULTIPLY(4)
#endif
#undef DIRECT_MULTIPLY

// By number of vectors, and whether all rows have the terms.
static const direct_tile_fn direct_tiles[][2] = {
    {direct_part_1, direct_whole_1},
#if DIRECT_VECTORS > 1
    {direct_part_2, direct_whole_2},
    {direct_part_3, direct_whole_3},
    {direct_part_4, direct_whole_4},
#endif
};

// All of a panel's outputs, in 'panel_vectors' vectors.
SR_INLINE void direct_panel(const direct_tile *tile, int rows, int panel_vectors) {
    const bool whole = tile->valid == (1u << rows) - 1;
    direct_tile t = *tile;
    for (int v = 0; v < panel_vectors; v += DIRECT_VECTORS) {
        direct_tiles[sr_x86_min(panel_vectors - v, DIRECT_VECTORS) - 1][whole](&t);
        t.w += DIRECT_VECTORS * SR_ELEMENTS;
        t.sum += DIRECT_VECTORS * SR_ELEMENTS;
        t.level += DIRECT_VECTORS * SR_ELEMENTS;
        t.to += DIRECT_VECTORS * SR_ELEMENTS;
    }
}

// ---- pixels ----

// The input position of window row or column 'tap' for output position 'at', among 'size'
// positions; -1 outside.
SR_INLINE int64_t direct_position(const sr_x86_direct *d, int64_t at, int64_t tap, int32_t stride,
                                  int32_t dilation, int32_t pad, int64_t size) {
    const int64_t to = d->mirrored ? at + pad - tap * dilation : at * stride + tap * dilation - pad;
    const int64_t i = d->mirrored && to >= 0 ? (to % stride == 0 ? to / stride : -1) : to;
    return i >= 0 && i < size ? i : -1;
}

typedef struct direct_pixel {
    int64_t n, h, w;
} direct_pixel;

// Pixel number m of the results.
SR_INLINE direct_pixel direct_pixel_of(const sr_x86_direct *d, int64_t m) {
    const sr_conv_params *p = &d->p;
    const int64_t height = d->mirrored ? p->h : p->p, width = d->mirrored ? p->w : p->q;
    const int64_t step_h = d->mirrored ? p->stride_h : 1, step_w = d->mirrored ? p->stride_w : 1;
    const int64_t n = m / (height * width);
    int64_t i = m % (height * width);
    for (int64_t a = 0; a < step_h; a++) {
        const int64_t rows = sr_x86_ceil_div(height - a, step_h);
        for (int64_t b = 0; b < step_w; b++) {
            const int64_t columns = sr_x86_ceil_div(width - b, step_w);
            if (i < rows * columns)
                return (direct_pixel){n, a + i / columns * step_h, b + i % columns * step_w};
            i -= rows * columns;
        }
    }
    return (direct_pixel){n, 0, 0}; // unreachable
}

// The numbers of the pixels that the taps of 'pixels' read, or -1: source[tap][pixel].
SR_INLINE void direct_sources(const sr_x86_direct *d, sr_x86_range pixels, int64_t *source) {
    const sr_conv_params *p = &d->p;
    const int64_t height = d->mirrored ? p->p : p->h, width = d->mirrored ? p->q : p->w;
    for (int64_t m = pixels.begin; m < pixels.end; m++) {
        const direct_pixel to = direct_pixel_of(d, m);
        int64_t *at = source + (m - pixels.begin);
        for (int64_t r = 0; r < p->r; r++) {
            const int64_t h =
                direct_position(d, to.h, r, p->stride_h, p->dilation_h, p->pad_top, height);
            for (int64_t s = 0; s < p->s; s++, at += SR_X86_DIRECT_PIXELS) {
                const int64_t w =
                    direct_position(d, to.w, s, p->stride_w, p->dilation_w, p->pad_left, width);
                *at = h < 0 || w < 0 ? -1 : (to.n * height + h) * width + w;
            }
        }
    }
}

// The channels of 'rows' pixels, of which 'left' exist: in place if T is f32, else as f32 copies.
SR_INLINE void direct_terms(const sr_x86_direct *d, const void *x, const int64_t *source,
                            const sr_x86_direct_step *step, int rows, int left, direct_tile *t,
                            float *copy, sr_dtype type) {
    const bool narrow = type != SR_F32;
    t->valid = 0;
    for (int r = 0; r < rows; r++) {
        const bool valid = r < left && source[r] >= 0;
        const int64_t i = (valid ? source[r] : 0) * d->in + step->first;
        t->valid |= (uint32_t)valid << r;
        t->x[r] = narrow ? copy + r * SR_X86_DIRECT_TERMS : (const float *)x + i;
        for (int64_t c = 0; narrow && valid && c < step->count; c += SR_ELEMENTS)
            sr_v_store(copy + r * SR_X86_DIRECT_TERMS + c,
                       sr_v_get(x, i + c, (int)sr_x86_min(SR_ELEMENTS, step->count - c), type));
    }
}

// One tile of a panel: the sums of 'rows' pixels, of which 'left' exist.
SR_INLINE void direct_tile_sums(const sr_kernel_args *args, const int64_t *source, int64_t panel,
                                int vectors, int rows, int left, float *sum, sr_dtype type) {
    const sr_x86_direct *d = args->state;
    const int64_t taps = d->p.r * d->p.s;
    const float *w = (const float *)args->workspace + panel * taps * d->in * SR_X86_DIRECT_SIDE;
    float *copy = sum + DIRECT_TILE, *level = copy + DIRECT_TILE;
    uint64_t leaf = 0;
    for (int64_t i = 0; i < d->steps; i++) {
        const sr_x86_direct_step *step = &d->step[i];
        direct_tile t = {.w = w + (step->tap * d->in + step->first) * SR_X86_DIRECT_SIDE,
                         .begins = step->begins,
                         .joins = step->joins,
                         .sum = sum,
                         .level = level,
                         .to = sum};
        direct_terms(d, args->p[0], source + step->tap * SR_X86_DIRECT_PIXELS, step, rows, left, &t,
                     copy, type);
        t.count = t.valid != 0 ? step->count : 0;
        if (step->ends && i + 1 < d->steps)
            t.to = level + __builtin_ctzll(~leaf++) * DIRECT_TILE;
        direct_panel(&t, rows, vectors);
    }
}

// Where results are stored, and what is applied to a sum before.
typedef struct direct_result {
    void *y;
    const float *bias;  // NULL: none
    const float *alpha; // a factor; NULL: none
} direct_result;

// Stores the sums [left][64] of pixels m, m + 1, ... in their place.
SR_INLINE void direct_finish(const sr_x86_direct *d, const float *sum, const direct_result *result,
                             int64_t m, int left, int64_t panel, sr_dtype type) {
    const int64_t first = panel * SR_X86_DIRECT_SIDE;
    const int64_t height = d->mirrored ? d->p.h : d->p.p, width = d->mirrored ? d->p.w : d->p.q;
    const int64_t columns = sr_x86_min(SR_X86_DIRECT_SIDE, d->out - first);
    for (int r = 0; r < left; r++, sum += SR_X86_DIRECT_SIDE) {
        const direct_pixel at = direct_pixel_of(d, m + r);
        const int64_t to = ((at.n * height + at.h) * width + at.w) * d->out + first;
        for (int64_t k = 0; k < columns; k += SR_ELEMENTS) {
            const int n = (int)sr_x86_min(SR_ELEMENTS, columns - k);
            sr_vf s = sr_v_load(sum + k);
            if (result->bias != NULL)
                s = sr_v_add(s, sr_v_get(result->bias, first + k, n, SR_F32));
            if (result->alpha != NULL)
                s = sr_v_mul(s, sr_v_set(*result->alpha));
            sr_v_put(result->y, to + k, s, n, type);
        }
    }
}

SR_INLINE void direct_block(const sr_kernel_args *args, int64_t block, const direct_result *result,
                            sr_worker *worker, sr_dtype type) {
    const sr_x86_direct *d = args->state;
    const sr_x86_range pixels =
        sr_x86_block_range(d->pixels, block % d->pixel_blocks, SR_X86_DIRECT_PIXELS);
    const sr_x86_range panels = sr_x86_share(d->panels, block / d->pixel_blocks, d->panel_shares);
    const int64_t count = pixels.end - pixels.begin;
    float *sum = worker->scratch;
    int64_t *source = (int64_t *)(void *)(sum + (d->levels + 2) * DIRECT_TILE);
    direct_sources(d, pixels, source);
    for (int64_t panel = panels.begin; panel < panels.end; panel++) {
        const int64_t columns = sr_x86_min(SR_X86_DIRECT_SIDE, d->out - panel * SR_X86_DIRECT_SIDE);
        const int vectors = (int)sr_x86_ceil_div(columns, SR_ELEMENTS);
        const int rows = direct_rows[sr_x86_min(vectors, DIRECT_VECTORS) - 1];
        for (int64_t m = 0; m < count; m += rows) {
            const int left = (int)sr_x86_min(rows, count - m);
            direct_tile_sums(args, source + m, panel, vectors, rows, left, sum, type);
            direct_finish(d, sum, result, pixels.begin + m, left, panel, type);
        }
    }
}

SR_X86_TYPED(direct_forward,
             direct_block(args, block, &(direct_result){args->p[3], args->p[2], NULL}, worker,
                          type))
SR_X86_TYPED(direct_dx,
             direct_block(args, block, &(direct_result){args->p[2], NULL, NULL}, worker, type))

// ---- matmul: a, b, c ----
// Workspace: packed matrices b, then matrices a [rows][terms] if they are transposed.

// Floats of a packed matrix.
SR_INLINE int64_t direct_matrix(const sr_x86_direct *d) {
    return d->panels * d->in * SR_X86_DIRECT_SIDE;
}

SR_INLINE void *direct_at(const void *p, int64_t elements, sr_dtype type) {
    return (char *)(uintptr_t)p + elements * sr_x86_bytes(type);
}

// Copies some rows of a matrix a: those of a block of pixels.
SR_INLINE void matmul_transpose(const sr_x86_direct *d, const void *a, void *to, int64_t block,
                                sr_dtype type) {
    const sr_x86_range rows = sr_x86_block_range(d->pixels, block, SR_X86_DIRECT_PIXELS);
    const size_t size = (size_t)sr_x86_bytes(type);
    for (int64_t i = 0; i < d->in; i++)
        for (int64_t m = rows.begin; m < rows.end; m++)
            memcpy(direct_at(to, m * d->in + i, type), direct_at(a, i * d->pixels + m, type), size);
}

// Packs the panels of the matrices b, then the blocks of pixels of transposed matrices a.
SR_INLINE void matmul_pack(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    const sr_matmul_params *p = args->params;
    const sr_x86_direct *d = args->state;
    float *packed = args->workspace;
    if (block < p->b_count * d->panels) {
        const int64_t matrix = block / d->panels;
        void *with[] = {NULL, direct_at(args->p[1], matrix * d->in * d->out, type)};
        const sr_kernel_args own = {
            .p = with, .state = args->state, .workspace = packed + matrix * direct_matrix(d)};
        direct_pack(&own, block % d->panels, type, type);
        return;
    }
    const int64_t tile = block - p->b_count * d->panels;
    const int64_t from = tile / d->pixel_blocks * d->pixels * d->in;
    matmul_transpose(d, direct_at(args->p[0], from, type),
                     direct_at(packed + p->b_count * direct_matrix(d), from, type),
                     tile % d->pixel_blocks, type);
}

SR_INLINE void matmul_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                            sr_dtype type) {
    const sr_matmul_params *p = args->params;
    const sr_x86_direct *d = args->state;
    const int64_t blocks = d->pixel_blocks * d->panel_shares, batch = block / blocks;
    const sr_matmul_pair matrix = sr_matmul_pair_of(p, batch);
    const float alpha = (float)p->alpha;
    float *packed = args->workspace;
    const void *a = p->transpose_a ? packed + p->b_count * direct_matrix(d) : args->p[0];
    void *with[] = {direct_at(a, matrix.a * d->pixels * d->in, type)};
    const sr_kernel_args own = {
        .p = with, .state = args->state, .workspace = packed + matrix.b * direct_matrix(d)};
    const direct_result result = {.y = direct_at(args->p[2], batch * d->pixels * d->out, type),
                                  .alpha = &alpha};
    direct_block(&own, block % blocks, &result, worker, type);
}

SR_X86_TYPED(matmul_pack, matmul_pack(args, block, type))
SR_X86_TYPED(matmul, matmul_block(args, block, worker, type))

#endif
