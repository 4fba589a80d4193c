// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions, groups == C == K:
//     y[n,p,q,c] = sum over taps (r,s) of x[n, p st + r dil - pad, q st + s dil - pad, c] w[c,r,s]
// and their gradients with respect to the input. conv2d_dx is the same algorithm on dy, with the
// taps in reverse order; a stride divides positions instead of multiplying them.
//
// Stage 0 packs the weights as [tap][C], rounded to T. A block of stage 1 is a range of rows of the
// result. A tile has up to fourteen neighbouring pixels of a row, of sixteen channels, whose sums
// stay in registers. For each row of taps, a tile loads the weights and each input once: an input
// is added to all sums that use it (Zhang, Franchetti and Low 2018, "High performance zero-memory
// overhead direct convolutions"). Tiles advance over channels first, then over pixels, so that
// memory is read in order; meanwhile a tile prefetches the additional data of the next row of the
// result. A comparison for each input skips taps outside the picture, so borders cost no more than
// the interior, and pictures are not copied. If the number of channels is not a multiple of the
// vector size, the last vector overlaps the previous one and writes the same bits.
//
// Each sum is a chain of fused multiply-adds over the taps inside the picture, by row and column,
// from zero, for every tile and vector width; for conv2d_dx in reverse order. The bias is added at
// the end.
//
// Windows of 3, 5 and 7 columns with stride 1 or 2 have specialised tiles; other windows, and
// pictures of fewer than sixteen channels, load each input again for each tap.
#ifndef SR_KERNELS_CPU_X86_DEPTHWISE_INTERNAL_H
#define SR_KERNELS_CPU_X86_DEPTHWISE_INTERNAL_H

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

// Placed before loops over the registers of a tile, which may have more than sixteen iterations.
#if defined(__clang__)
#define DEPTH_UNROLL _Pragma("clang loop unroll(full)")
#else
#define DEPTH_UNROLL _Pragma("GCC unroll 64")
#endif

// Pixels of a tile: an even number, as the sums of a spread tile alternate between even and odd
// taps.
#if defined(__AVX512F__)
#define DEPTH_LARGE 14
#define DEPTH_SMALL 8
#else
#define DEPTH_LARGE 6
#define DEPTH_SMALL 4
#endif
#define DEPTH_WINDOW 7 // widest window with specialised tiles

// A row of taps that is inside the picture.
typedef struct depth_row {
    int64_t from;    // first element of the input's row
    int64_t weights; // first packed weight
} depth_row;

typedef struct depth_tile {
    const void *x;
    const depth_row *rows;
    int64_t count;           // of rows
    int64_t first;           // column of the input at the first tap of the first pixel
    int64_t width, channels; // of the input
    int64_t c;               // first channel
    const float *w;          // packed weights of channel c
    int64_t pitch;           // from one tap to the next
    void *y;
    int64_t to;         // of the first pixel; not accessed where it is outside
    int size;           // pixels of the tile
    int begin, end;     // the ones that exist
    const float *bias;  // NULL: none
    const char *fetch;  // to prefetch: 'fetches' pixels
    int64_t fetches;    //
    int64_t fetch_step; // bytes
    // Other windows:
    int elements;
    int64_t taps, step, dilation, divisor;
} depth_tile;

typedef void (*depth_tile_fn)(const depth_tile *tile);

// ---- stage 0: weights ----

// Packs the channels from 'block' SR_X86_CHANNEL_BLOCK on, four channels and sixteen taps at a
// time.
SR_INLINE void depth_pack(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    const sr_x86_depthwise *d = args->state;
    const int64_t taps = d->p.r * d->p.s;
    const sr_x86_range range = sr_x86_block_range(d->p.c, block, SR_X86_CHANNEL_BLOCK);
    const float *w = args->p[1];
    float *to = args->workspace;
    for (int64_t c = range.begin; c < range.end; c += 4) {
        for (int64_t t = 0; t < taps; t += SR_ELEMENTS) {
            const int n = (int)sr_x86_min(SR_ELEMENTS, taps - t);
            sr_vf row[4];
            for (int i = 0; i < 4; i++)
                row[i] = c + i < range.end
                             ? sr_v_rounded(sr_v_get(w, (c + i) * taps + t, n, SR_F32), type)
                             : sr_v_zero();
            const int64_t place = d->mirrored ? taps - 1 - t : t;
            sr_v_put_transposed(row, n, to + place * d->pitch + c,
                                d->mirrored ? -d->pitch : d->pitch);
        }
    }
}

SR_X86_TYPED(depth_weights, depth_pack(args, block, type))

// ---- stage 1: tiles ----

SR_INLINE void depth_prefetch(const depth_tile *t) {
    for (int64_t i = 0; i < t->fetches; i++)
        _mm_prefetch(t->fetch + i * t->fetch_step, _MM_HINT_T1);
}

SR_INLINE void depth_end(const depth_tile *t, const sr_vf *sum, int tile, int elements,
                         sr_dtype type) {
    const sr_vf bias = t->bias == NULL ? sr_v_zero() : sr_v_get(t->bias, t->c, elements, SR_F32);
    DEPTH_UNROLL
    for (int i = 0; i < tile; i++) {
        const sr_vf y = t->bias == NULL ? sum[i] : sr_v_add(sum[i], bias);
        if (i >= t->begin && i < t->end)
            sr_v_put(t->y, t->to + i * t->channels, y, elements, type);
    }
}

// The pixel of a tile to which input j contributes through tap s, or -1. Inputs are one pixel apart
// and pixels 'step' inputs apart; in a spread tile, inputs are two pixels apart.
SR_INLINE int depth_pixel(int j, int s, int tile, int step, bool spread) {
    const int i = spread ? 2 * j - s : j - s;
    if (i < 0 || i % (spread ? 1 : step) != 0)
        return -1;
    const int pixel = spread ? i : i / step;
    return pixel < tile ? pixel : -1;
}

// tile, window, step, spread and type are compile-time constants.
SR_INLINE void depth_multiply(const depth_tile *t, int tile, int window, int step, bool spread,
                              sr_dtype type) {
    const int inputs = spread ? (tile + window) / 2 : (tile - 1) * step + window;
    sr_vf sum[DEPTH_LARGE], weight[DEPTH_WINDOW];
    depth_prefetch(t);
    DEPTH_UNROLL
    for (int i = 0; i < tile; i++)
        sum[i] = sr_v_zero();
    for (int64_t r = 0; r < t->count; r++) {
        const int64_t from = t->rows[r].from + t->first * t->channels + t->c;
        const float *w = t->w + t->rows[r].weights;
        DEPTH_UNROLL
        for (int s = 0; s < window; s++)
            weight[s] = sr_v_load(w + s * t->pitch);
        DEPTH_UNROLL
        for (int j = 0; j < inputs; j++) {
            if ((uint64_t)(t->first + j) < (uint64_t)t->width) {
                const sr_vf in = sr_v_get(t->x, from + j * t->channels, SR_ELEMENTS, type);
                DEPTH_UNROLL
                for (int s = 0; s < window; s++) {
                    const int i = depth_pixel(j, s, tile, step, spread);
                    if (i >= 0)
                        sum[i] = sr_v_fma(in, weight[s], sum[i]);
                }
            }
        }
    }
    depth_end(t, sum, tile, SR_ELEMENTS, type);
}

// Any window.
SR_INLINE void depth_multiply_any(const depth_tile *t, sr_dtype type) {
    sr_vf sum[DEPTH_SMALL];
    depth_prefetch(t);
    DEPTH_UNROLL
    for (int i = 0; i < DEPTH_SMALL; i++)
        sum[i] = sr_v_zero();
    for (int64_t r = 0; r < t->count; r++) {
        const int64_t from = t->rows[r].from + t->c;
        for (int64_t s = 0; s < t->taps; s++) {
            const sr_vf weight = sr_v_load(t->w + t->rows[r].weights + s * t->pitch);
            DEPTH_UNROLL
            for (int i = 0; i < DEPTH_SMALL; i++) {
                const int64_t place = t->first + s * t->dilation + i * t->step;
                if (place >= 0 && place % t->divisor == 0 && place / t->divisor < t->width) {
                    const int64_t at = from + place / t->divisor * t->channels;
                    sum[i] = sr_v_fma(sr_v_get(t->x, at, t->elements, type), weight, sum[i]);
                }
            }
        }
    }
    depth_end(t, sum, DEPTH_SMALL, t->elements, type);
}

#define DEPTH_TILE(name, tile, window, step, spread, type)                                         \
    static __attribute__((noinline)) void name(const depth_tile *t) {                              \
        depth_multiply(t, tile, window, step, spread, type);                                       \
    }
#define DEPTH_SIZES(name, window, step, spread, type)                                              \
    DEPTH_TILE(name##_large, DEPTH_LARGE, window, step, spread, type)                              \
    DEPTH_TILE(name##_small, DEPTH_SMALL, window, step, spread, type)
#define DEPTH_WINDOWS(name, step, spread, type)                                                    \
    DEPTH_SIZES(name##_3, 3, step, spread, type)                                                   \
    DEPTH_SIZES(name##_5, 5, step, spread, type)                                                   \
    DEPTH_SIZES(name##_7, 7, step, spread, type)
#define DEPTH_PAIR(name)                                                                           \
    { name##_large, name##_small }
#define DEPTH_ROW(name)                                                                            \
    { DEPTH_PAIR(name##_3), DEPTH_PAIR(name##_5), DEPTH_PAIR(name##_7) }
// By form, window and size.
#define DEPTH_TYPE(suffix, type)                                                                   \
    DEPTH_WINDOWS(depth_dense_##suffix, 1, false, type)                                            \
    DEPTH_WINDOWS(depth_strided_##suffix, 2, false, type)                                          \
    DEPTH_WINDOWS(depth_spread_##suffix, 2, true, type)                                            \
    static __attribute__((noinline)) void depth_any_##suffix(const depth_tile *t) {                \
        depth_multiply_any(t, type);                                                               \
    }                                                                                              \
    static const depth_tile_fn depth_tiles_##suffix[SR_X86_DEPTHWISE_ANY][3][2] = {                \
        DEPTH_ROW(depth_dense_##suffix), DEPTH_ROW(depth_strided_##suffix),                        \
        DEPTH_ROW(depth_spread_##suffix)};
DEPTH_TYPE(f32, SR_F32)
DEPTH_TYPE(bf16, SR_BF16)
DEPTH_TYPE(f16, SR_F16)
#undef DEPTH_TYPE
#undef DEPTH_ROW
#undef DEPTH_PAIR
#undef DEPTH_WINDOWS
#undef DEPTH_SIZES
#undef DEPTH_TILE

SR_INLINE depth_tile_fn depth_tile_of(const sr_x86_depthwise *d, bool large, sr_dtype type) {
    if (d->form == SR_X86_DEPTHWISE_ANY)
        return type == SR_F32 ? depth_any_f32 : type == SR_BF16 ? depth_any_bf16 : depth_any_f16;
    const int64_t window = (d->p.s - 3) / 2;
    return type == SR_F32    ? depth_tiles_f32[d->form][window][!large]
           : type == SR_BF16 ? depth_tiles_bf16[d->form][window][!large]
                             : depth_tiles_f16[d->form][window][!large];
}

// ---- rows ----

// The first channel of a panel of sixteen; the last one overlaps the previous one.
SR_INLINE int64_t depth_panel(const sr_x86_depthwise *d, int64_t panel) {
    const int64_t last = d->p.c - SR_X86_DEPTHWISE_SIDE;
    return last < 0 ? 0 : sr_x86_min(panel * SR_X86_DEPTHWISE_SIDE, last);
}

// The rows of taps that contribute to row m of the result; returns their number.
SR_INLINE int64_t depth_rows(const sr_x86_depthwise *d, int64_t m, depth_row *rows) {
    const int64_t n = m / d->out_h, row = m % d->out_h;
    int64_t count = 0;
    for (int64_t r = 0; r < d->p.r; r++) {
        const int64_t place = row * d->step_h + r * d->p.dilation_h - d->top;
        if (place < 0 || place % d->divisor_h != 0 || place / d->divisor_h >= d->in_h)
            continue;
        const int64_t h = place / d->divisor_h;
        rows[count++] = (depth_row){(n * d->in_h + h) * d->in_w * d->p.c, r * d->p.s * d->pitch};
    }
    return count;
}

// Computes all channels of a tile whose first pixel is q.
SR_INLINE void depth_channels(const sr_x86_depthwise *d, depth_tile *t, int64_t to,
                              const float *weights, sr_dtype type) {
    const depth_tile_fn run = depth_tile_of(d, t->size == DEPTH_LARGE, type);
    // The data that the next row of the result reads and this one does not.
    const int64_t last = t->count > 0 ? t->rows[t->count - 1].from : 0;
    const int64_t next = last + (d->in_w * d->step_h + t->first) * t->channels;
    for (int64_t panel = 0; panel < d->panels; panel++) {
        t->c = depth_panel(d, panel);
        t->w = weights + t->c;
        t->to = to + t->c;
        t->fetch = (const char *)t->x + (next + t->c) * sr_x86_bytes(type);
        run(t);
    }
}

SR_INLINE void depth_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                           const float *bias, void *y, sr_dtype type) {
    const sr_x86_depthwise *d = args->state;
    const sr_x86_range range =
        sr_x86_block_range(d->p.n * d->out_h, block, args->block_rows / d->out_w);
    depth_row *rows = worker->scratch;
    depth_tile t = {.x = args->p[0],
                    .rows = rows,
                    .width = d->in_w,
                    .channels = d->p.c,
                    .pitch = d->pitch,
                    .y = y,
                    .bias = bias,
                    .fetch_step = d->p.c * sr_x86_bytes(type),
                    .elements = (int)sr_x86_min(SR_ELEMENTS, d->p.c),
                    .taps = d->p.s,
                    .step = d->step_w,
                    .dilation = d->p.dilation_w,
                    .divisor = d->divisor_w};
    const bool spread = d->form == SR_X86_DEPTHWISE_SPREAD, any = d->form == SR_X86_DEPTHWISE_ANY;
    for (int64_t m = range.begin; m < range.end; m++) {
        t.count = depth_rows(d, m, rows);
        // In a spread tile, the first tap of the first pixel coincides with an input.
        for (int64_t q = spread && d->left % 2 != 0 ? -1 : 0; q < d->out_w;) {
            t.size = !any && d->out_w - q > DEPTH_SMALL ? DEPTH_LARGE : DEPTH_SMALL;
            t.first = (q * d->step_w - d->left) / (spread ? 2 : 1);
            t.begin = q < 0;
            t.end = (int)sr_x86_min(t.size, d->out_w - q);
            t.fetches = t.size * d->step_w / d->divisor_w;
            depth_channels(d, &t, (m * d->out_w + q) * d->p.c, args->workspace, type);
            q += t.size;
        }
    }
}

SR_X86_TYPED(depth_forward, depth_block(args, block, worker, args->p[2], args->p[3], type))
SR_X86_TYPED(depth_dx, depth_block(args, block, worker, NULL, args->p[2], type))

#endif
