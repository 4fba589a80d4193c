// SPDX-License-Identifier: Apache-2.0
// The gradient of a depthwise convolution with respect to its weights:
//     dw[c,r,s] = sum over n,p,q of dy[n,p,q,c] x[n, p st + r dil - pad, q st + s dil - pad, c]
//
// A block of stage 0 owns a partial dw for a group of rows of dy, as [panel of sixteen channels]
// [tap][16], and adds its rows in chunks of one or a few. The sums of a chunk for one panel stay in
// the first-level cache. A row of dy is added to the sums of one to three rows of taps at a time,
// which stay in registers: a few neighbouring pixels of dy are loaded once, and each pixel of x is
// multiplied by all of them whose windows contain it. A comparison for each pixel skips positions
// outside the picture. If the number of channels is not a multiple of the panel size, the last
// panel overlaps the previous one, and only its new channels are used.
//
// Stage 1 adds the groups' partial results as a binary tree and writes [C][R][S]. A sum of a chunk
// is a chain of fused multiply-adds over its pixels by row and column, from zero; chunks are added
// in order.
#ifndef SR_KERNELS_CPU_X86_DEPTHWISE_DW_INTERNAL_H
#define SR_KERNELS_CPU_X86_DEPTHWISE_DW_INTERNAL_H

#include "kernels/cpu/x86/x86_depthwise_internal.h"
#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

// Pixels of dy, and rows of taps by width of the window, that fit in registers.
#if defined(__AVX512F__)
#define DEPTH_DW_TILE 7
#define DEPTH_DW_ROWS_3 3
#define DEPTH_DW_ROWS_5 2
#define DEPTH_DW_ROWS_7 2
#else
#define DEPTH_DW_TILE 4
#define DEPTH_DW_ROWS_3 1
#define DEPTH_DW_ROWS_5 1
#define DEPTH_DW_ROWS_7 1
#endif
#define DEPTH_DW_ROWS 3 // maximum
#define DEPTH_DW_ANY 4  // taps at a time for other windows

// A row of dy and of one or more rows of taps, for one panel.
typedef struct depth_dw_row {
    const void *x, *dy;
    int64_t x_at[DEPTH_DW_ROWS]; // first element of each row of x
    int64_t dy_at;
    int64_t channels, width, pixels; // of a pixel, of a row of x, of dy
    int64_t left;
    float *sum; // of the first row's first tap: [tap][16]
    // Other windows:
    int64_t taps, step, dilation;
    int elements;
} depth_dw_row;

typedef void (*depth_dw_fn)(const depth_dw_row *row);

// Adds 'tile' pixels from q on. tile, rows, window, step and type are compile-time constants.
SR_INLINE void depth_dw_add(const depth_dw_row *t, int64_t q,
                            sr_vf sum[DEPTH_DW_ROWS][DEPTH_WINDOW], int tile, int rows, int window,
                            int step, sr_dtype type) {
    const int64_t first = q * step - t->left;
    sr_vf dy[DEPTH_DW_TILE];
    DEPTH_UNROLL
    for (int i = 0; i < tile; i++)
        dy[i] = sr_v_get(t->dy, t->dy_at + (q + i) * t->channels, SR_ELEMENTS, type);
    DEPTH_UNROLL
    for (int j = 0; j < (tile - 1) * step + window; j++) {
        if ((uint64_t)(first + j) < (uint64_t)t->width) {
            DEPTH_UNROLL
            for (int v = 0; v < rows; v++) {
                const int64_t at = t->x_at[v] + (first + j) * t->channels;
                const sr_vf x = sr_v_get(t->x, at, SR_ELEMENTS, type);
                DEPTH_UNROLL
                for (int s = 0; s < window; s++) {
                    const int i = depth_pixel(j, s, tile, step, false);
                    if (i >= 0)
                        sum[v][s] = sr_v_fma(x, dy[i], sum[v][s]);
                }
            }
        }
    }
}

SR_INLINE void depth_dw_whole_row(const depth_dw_row *t, int rows, int window, int step,
                                  sr_dtype type) {
    sr_vf sum[DEPTH_DW_ROWS][DEPTH_WINDOW];
    DEPTH_UNROLL
    for (int i = 0; i < rows * window; i++)
        sum[i / window][i % window] = sr_v_load(t->sum + i * SR_ELEMENTS);
    int64_t q = 0;
    for (; q + DEPTH_DW_TILE <= t->pixels; q += DEPTH_DW_TILE)
        depth_dw_add(t, q, sum, DEPTH_DW_TILE, rows, window, step, type);
    for (; q < t->pixels; q++)
        depth_dw_add(t, q, sum, 1, rows, window, step, type);
    DEPTH_UNROLL
    for (int i = 0; i < rows * window; i++)
        sr_v_store(t->sum + i * SR_ELEMENTS, sum[i / window][i % window]);
}

// Any window, one row of taps.
SR_INLINE void depth_dw_any(const depth_dw_row *t, sr_dtype type) {
    for (int64_t tap = 0; tap < t->taps; tap += DEPTH_DW_ANY) {
        const int count = (int)sr_x86_min(DEPTH_DW_ANY, t->taps - tap);
        float *to = t->sum + tap * SR_ELEMENTS;
        sr_vf sum[DEPTH_DW_ANY];
        DEPTH_UNROLL
        for (int s = 0; s < DEPTH_DW_ANY; s++)
            sum[s] = s < count ? sr_v_load(to + s * SR_ELEMENTS) : sr_v_zero();
        for (int64_t q = 0; q < t->pixels; q++) {
            const sr_vf dy = sr_v_get(t->dy, t->dy_at + q * t->channels, t->elements, type);
            DEPTH_UNROLL
            for (int s = 0; s < DEPTH_DW_ANY; s++) {
                const int64_t column = q * t->step + (tap + s) * t->dilation - t->left;
                if (s < count && column >= 0 && column < t->width) {
                    const int64_t at = t->x_at[0] + column * t->channels;
                    sum[s] = sr_v_fma(sr_v_get(t->x, at, t->elements, type), dy, sum[s]);
                }
            }
        }
        DEPTH_UNROLL
        for (int s = 0; s < DEPTH_DW_ANY; s++)
            if (s < count)
                sr_v_store(to + s * SR_ELEMENTS, sum[s]);
    }
}

#define DEPTH_DW_FN(name, rows, window, step, type)                                                \
    static __attribute__((noinline)) void name(const depth_dw_row *t) {                            \
        depth_dw_whole_row(t, rows, window, step, type);                                           \
    }
#define DEPTH_DW_NUMBERS(name, window, step, type)                                                 \
    DEPTH_DW_FN(name##_one, 1, window, step, type)                                                 \
    DEPTH_DW_FN(name##_some, DEPTH_DW_ROWS_##window, window, step, type)
#define DEPTH_DW_WINDOWS(name, step, type)                                                         \
    DEPTH_DW_NUMBERS(name##_3, 3, step, type)                                                      \
    DEPTH_DW_NUMBERS(name##_5, 5, step, type)                                                      \
    DEPTH_DW_NUMBERS(name##_7, 7, step, type)
#define DEPTH_DW_PAIR(name)                                                                        \
    { name##_one, name##_some }
#define DEPTH_DW_ROW(name)                                                                         \
    { DEPTH_DW_PAIR(name##_3), DEPTH_DW_PAIR(name##_5), DEPTH_DW_PAIR(name##_7) }
// By stride, window and number of rows of taps.
#define DEPTH_DW_TYPE(suffix, type)                                                                \
    DEPTH_DW_WINDOWS(depth_dw_dense_##suffix, 1, type)                                             \
    DEPTH_DW_WINDOWS(depth_dw_strided_##suffix, 2, type)                                           \
    static __attribute__((noinline)) void depth_dw_any_##suffix(const depth_dw_row *t) {           \
        depth_dw_any(t, type);                                                                     \
    }                                                                                              \
    static const depth_dw_fn depth_dw_fns_##suffix[2][3][2] = {                                    \
        DEPTH_DW_ROW(depth_dw_dense_##suffix), DEPTH_DW_ROW(depth_dw_strided_##suffix)};
DEPTH_DW_TYPE(f32, SR_F32)
DEPTH_DW_TYPE(bf16, SR_BF16)
DEPTH_DW_TYPE(f16, SR_F16)
#undef DEPTH_DW_TYPE
#undef DEPTH_DW_ROW
#undef DEPTH_DW_PAIR
#undef DEPTH_DW_WINDOWS
#undef DEPTH_DW_NUMBERS
#undef DEPTH_DW_FN

// Sets the functions for one row of taps and for several rows; returns the number of the latter.
SR_INLINE int64_t depth_dw_fns_of(const sr_x86_depthwise *d, depth_dw_fn fn[2], sr_dtype type) {
    static const int64_t rows[] = {DEPTH_DW_ROWS_3, DEPTH_DW_ROWS_5, DEPTH_DW_ROWS_7};
    if (d->form == SR_X86_DEPTHWISE_ANY) {
        fn[0] = fn[1] = type == SR_F32    ? depth_dw_any_f32
                        : type == SR_BF16 ? depth_dw_any_bf16
                                          : depth_dw_any_f16;
        return 1;
    }
    const int64_t window = (d->p.s - 3) / 2;
    const bool strided = d->form == SR_X86_DEPTHWISE_STRIDED;
    for (int i = 0; i < 2; i++)
        fn[i] = type == SR_F32    ? depth_dw_fns_f32[strided][window][i]
                : type == SR_BF16 ? depth_dw_fns_bf16[strided][window][i]
                                  : depth_dw_fns_f16[strided][window][i];
    return rows[window];
}

// Adds row m of dy to the sums of a panel at 'sums'.
SR_INLINE void depth_dw_taps(const sr_x86_depthwise *d, depth_dw_row *t, int64_t m, int64_t c,
                             float *sums, const depth_dw_fn fn[2], int64_t most) {
    const int64_t n = m / d->out_h, top = m % d->out_h * d->step_h - d->top;
    t->dy_at = m * d->out_w * t->channels + c;
    for (int64_t r = 0; r < d->p.r;) {
        const int64_t h = top + r * d->p.dilation_h;
        const bool fits = r + most <= d->p.r && h + (most - 1) * d->p.dilation_h < d->in_h;
        const int64_t rows = fits ? most : 1;
        if (h >= 0 && h < d->in_h) {
            for (int64_t v = 0; v < rows; v++)
                t->x_at[v] = (n * d->in_h + h + v * d->p.dilation_h) * d->in_w * t->channels + c;
            t->sum = sums + r * d->p.s * SR_ELEMENTS;
            fn[rows > 1](t);
        }
        r += h >= 0 && h < d->in_h ? rows : 1;
    }
}

SR_INLINE void depth_dw_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                              sr_dtype type) {
    const sr_x86_depthwise *d = args->state;
    const int64_t floats = d->p.r * d->p.s * SR_ELEMENTS;
    const sr_x86_range rows = sr_x86_block_range(d->p.n * d->out_h, block, d->group_rows);
    float *partial = (float *)args->workspace + block * d->panels * floats;
    float *sums = worker->scratch;
    depth_dw_fn fn[2];
    const int64_t most = depth_dw_fns_of(d, fn, type);
    depth_dw_row t = {.x = args->p[0],
                      .dy = args->p[1],
                      .channels = d->p.c,
                      .width = d->in_w,
                      .pixels = d->out_w,
                      .left = d->left,
                      .taps = d->p.s,
                      .step = d->step_w,
                      .dilation = d->p.dilation_w,
                      .elements = (int)sr_x86_min(SR_ELEMENTS, d->p.c)};
    memset(partial, 0, (size_t)(d->panels * floats) * sizeof *partial);
    for (int64_t m = rows.begin; m < rows.end; m += d->chunk_rows) {
        const int64_t end = sr_x86_min(rows.end, m + d->chunk_rows);
        for (int64_t panel = 0; panel < d->panels; panel++) {
            memset(sums, 0, (size_t)floats * sizeof *sums);
            for (int64_t row = m; row < end; row++)
                depth_dw_taps(d, &t, row, depth_panel(d, panel), sums, fn, most);
            float *to = partial + panel * floats;
            for (int64_t i = 0; i < floats; i += SR_ELEMENTS)
                sr_v_store(to + i, sr_v_add(sr_v_load(to + i), sr_v_load(sums + i)));
        }
    }
}

SR_X86_TYPED(depth_dw, depth_dw_block(args, block, worker, type))

// ---- stage 1: one panel ----

static sr_status depth_dw_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_x86_depthwise *d = args->state;
    const int64_t taps = d->p.r * d->p.s, floats = taps * SR_ELEMENTS;
    const int64_t group_floats = d->panels * floats;
    float *partial = (float *)args->workspace + block * floats;
    for (int64_t step = 1; step < d->groups; step *= 2) {
        for (int64_t g = 0; g + step < d->groups; g += 2 * step) {
            float *a = partial + g * group_floats;
            const float *b = a + step * group_floats;
            for (int64_t i = 0; i < floats; i += SR_ELEMENTS)
                sr_v_store(a + i, sr_v_add(sr_v_load(a + i), sr_v_load(b + i)));
        }
    }
    const int64_t c = block * SR_ELEMENTS;
    sr_v_put_taps(partial + c - depth_panel(d, block), SR_ELEMENTS, taps,
                  (int)sr_x86_min(SR_ELEMENTS, d->p.c - c), (float *)args->p[2] + c * taps);
    return SR_OK;
}

#endif
