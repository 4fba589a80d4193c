// SPDX-License-Identifier: Apache-2.0
// The gradient of a 3x3 convolution's weights by Winograd's filtering F(3x3, 4x4), the adjoint of
// x86_winograd_internal.h with respect to the weights:
//     dw = G^T [ sum over tiles of (A dy A^T) . (B^T x B) ] G
//
// There are two methods. With few channels, a block owns a group of tiles, a range of input
// channels and a range of output channels. It transforms a few tiles at a time to [point][panels of
// x, panels of dy][tile][32] and adds their products, point by point, to its sums [pair of
// panels][point][32][32]. All of this fits in the second-level cache. Transforms are repeated for
// each range of the other side.
//
// With many channels this would cost more than the memory traffic. So stage 0 stores all
// transforms, which are 2.25 and 4 times as large as the pictures, and a block of stage 1 owns a
// point and a range of output channels.
//
// The last stage adds the groups' sums as a binary tree and transforms them back. Each sum is a
// chain of fused multiply-adds over some tiles, and the chains are added in order, for every vector
// width.
#ifndef SR_KERNELS_CPU_X86_WINOGRAD_DW_INTERNAL_H
#define SR_KERNELS_CPU_X86_WINOGRAD_DW_INTERNAL_H

#include "kernels/cpu/x86/x86_winograd_internal.h"

// ---- transforms ----

// A: evaluates four neighbours at the six points.
SR_INLINE void wg_gradient_1d(const sr_vf *y, sr_vf *v, int64_t to) {
    const sr_vf y0 = y[0], y1 = y[1], y2 = y[2], y3 = y[3];
    const sr_vf even_a = sr_v_fma(sr_v_set(WG_A2), y2, y0);
    const sr_vf odd_a = sr_v_mul(sr_v_set(WG_A), sr_v_fma(sr_v_set(WG_A2), y3, y1));
    const sr_vf even_b = sr_v_fma(sr_v_set(WG_B2), y2, y0);
    const sr_vf odd_b = sr_v_mul(sr_v_set(WG_B), sr_v_fma(sr_v_set(WG_B2), y3, y1));
    v[0] = y0;
    v[to] = sr_v_add(even_a, odd_a);
    v[2 * to] = sr_v_sub(even_a, odd_a);
    v[3 * to] = sr_v_add(even_b, odd_b);
    v[4 * to] = sr_v_sub(even_b, odd_b);
    v[5 * to] = y3;
}

// G^T: three taps from six points.
SR_INLINE void wg_taps_1d(const sr_vf *m, sr_vf *w, int64_t to) {
    const sr_vf sum_a = sr_v_mul(sr_v_set(WG_OVER_A), sr_v_add(m[1], m[2]));
    const sr_vf odd_a = sr_v_mul(sr_v_set(WG_OVER_A), sr_v_sub(m[1], m[2]));
    const sr_vf sum_b = sr_v_mul(sr_v_set(WG_OVER_B), sr_v_add(m[3], m[4]));
    const sr_vf odd_b = sr_v_mul(sr_v_set(WG_OVER_B), sr_v_sub(m[3], m[4]));
    w[0] = sr_v_fma(sr_v_set(1.0f / WG_PRODUCT), m[0], sr_v_add(sum_a, sum_b));
    w[to] = sr_v_fma(sr_v_set(WG_A), odd_a, sr_v_mul(sr_v_set(WG_B), odd_b));
    w[2 * to] = sr_v_fma(sr_v_set(WG_A2), sum_a, sr_v_fma(sr_v_set(WG_B2), sum_b, m[5]));
}

// Writes A dy A^T of n <= 16 channels of one tile to v[point].
SR_INLINE void wg_gradient_any(const void *const *pixel, int64_t k, int n, float *v, int64_t stride,
                               sr_dtype type, bool stream) {
    sr_vf d[WG_IN * WG_OUT], row[WG_IN];
    SR_UNROLL
    for (int j = 0; j < WG_OUT; j++) {
        sr_vf column[WG_OUT];
        SR_UNROLL
        for (int i = 0; i < WG_OUT; i++)
            column[i] = sr_v_get(pixel[i * WG_OUT + j], k, n, type);
        wg_gradient_1d(column, d + j, WG_OUT);
    }
    SR_UNROLL
    for (int i = 0; i < WG_IN; i++) {
        wg_gradient_1d(d + i * WG_OUT, row, 1);
        SR_UNROLL
        for (int j = 0; j < WG_IN; j++, v += stride)
            wg_put(v, row[j], stream);
    }
}

WG_TILES(wg_gradient, wg_gradient_any)

// The counterpart of wg_input for dy.
static void wg_gradient(const sr_x86_winograd *g, const void *dy, const void *zero,
                        sr_x86_range tiles, sr_x86_range channels, wg_panels to, sr_dtype type) {
    const wg_tile_fn tile = wg_gradient_tiles[type][to.stream];
    const wg_source from = {dy, zero, g->p, g->q, g->k};
    for (int64_t t = tiles.begin; t < tiles.end; t++, to.at += WG_SIDE) {
        const void *pixel[WG_OUT * WG_OUT];
        wg_pixels(g, &from, wg_place_of(g, t), WG_OUT, pixel, type);
        for (int64_t k = channels.begin; k < channels.end; k += SR_ELEMENTS) {
            const int64_t i = k - channels.begin;
            tile(pixel, k, wg_elements(g->k - k), to.at + i / WG_SIDE * to.panel + i % WG_SIDE,
                 to.point);
        }
    }
    if (to.stream)
        _mm_sfence();
}

// ---- sums ----

// A tile of 32 x 32 sums is held in registers in parts: 11, 11 and 10 of its rows by two vectors;
// with AVX2, where a vector is two registers, six or five rows by one.
#if defined(__AVX512F__)
#define WG_DW_PARTS 3
#else
#define WG_DW_PARTS 6
#endif
#define WG_DW_MAX_ROWS 11

// out[row][32] (+)= sum over the tiles of dy[tile][row] x[tile][32], with 'rows' a compile-time
// constant; prefetches one line per tile from 'fetch' for later.
SR_INLINE void wg_dw_part(const float *x, const float *dy, int64_t tiles, float *out, bool first,
                          const float *fetch, int rows) {
    sr_vf sum[WG_DW_MAX_ROWS][WG_VECTORS];
    SR_UNROLL
    for (int i = 0; i < rows; i++) {
        SR_UNROLL
        for (int v = 0; v < WG_VECTORS; v++) {
            sum[i][v] = sr_v_zero();
            _mm_prefetch(out + i * WG_SIDE + v * SR_ELEMENTS, _MM_HINT_T0);
        }
    }
    for (int64_t t = 0; t < tiles; t++, x += WG_SIDE, dy += WG_SIDE, fetch += 16) {
        _mm_prefetch(fetch, _MM_HINT_T0);
        sr_vf in[WG_VECTORS];
        SR_UNROLL
        for (int v = 0; v < WG_VECTORS; v++)
            in[v] = sr_v_load(x + v * SR_ELEMENTS);
        SR_UNROLL
        for (int i = 0; i < rows; i++) {
            const sr_vf gradient = sr_v_set(dy[i]);
            SR_UNROLL
            for (int v = 0; v < WG_VECTORS; v++)
                sum[i][v] = sr_v_fma(gradient, in[v], sum[i][v]);
        }
    }
    SR_UNROLL
    for (int i = 0; i < rows; i++) {
        SR_UNROLL
        for (int v = 0; v < WG_VECTORS; v++) {
            float *to = out + i * WG_SIDE + v * SR_ELEMENTS;
            sr_v_store(to, first ? sum[i][v] : sr_v_add(sr_v_load(to), sum[i][v]));
        }
    }
}

// Adds the products of a pair of panels at one point.
static void wg_dw_pair(const float *x, const float *dy, int64_t tiles, float *out, bool first,
                       const float *fetch) {
    for (int v = 0; v < WG_SIDE; v += WG_VECTORS * SR_ELEMENTS) {
        int row = 0;
        SR_UNROLL
        for (int part = 0; part < WG_DW_PARTS; part++, fetch += tiles * 16) {
            const int rows = (WG_SIDE - row + WG_DW_PARTS - 1 - part) / (WG_DW_PARTS - part);
            wg_dw_part(x + v, dy + row, tiles, out + row * WG_SIDE + v, first, fetch, rows);
            row += rows;
        }
    }
}

// The sums of a pair of panels, [point][32][32].
SR_INLINE float *wg_dw_sums(const sr_x86_winograd *g, void *workspace, int64_t group, int64_t k,
                            int64_t c) {
    const int64_t pair = (group * g->out_panels + k) * g->in_panels + c;
    return (float *)workspace + pair * sr_x86_winograd_pair();
}

SR_INLINE sr_x86_range wg_channels(sr_x86_range panels) {
    return (sr_x86_range){panels.begin * WG_SIDE, panels.end * WG_SIDE};
}

// ---- few channels ----

// Adds the products of the transformed tiles.
SR_INLINE void wg_dw_add(const sr_x86_winograd *g, void *workspace, int64_t group, sr_x86_range in,
                         sr_x86_range out, wg_panels v, int64_t tiles, bool first) {
    for (int point = 0; point < WG_POINTS; point++, v.at += v.point) {
        const float *fetch = v.at + v.point, *dy = v.at + (in.end - in.begin) * v.panel;
        for (int64_t k = out.begin; k < out.end; k++, dy += v.panel) {
            const float *x = v.at;
            for (int64_t c = in.begin; c < in.end; c++, x += v.panel) {
                float *sums = wg_dw_sums(g, workspace, group, k, c);
                wg_dw_pair(x, dy, tiles, sums + point * sr_x86_winograd_point(1, WG_SIDE), first,
                           fetch);
                fetch += WG_DW_PARTS * tiles * 16;
            }
        }
    }
}

SR_INLINE void wg_dw_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                           sr_dtype type) {
    const sr_x86_winograd *g = args->state;
    const int64_t in_range = block % g->in_ranges, range = block / g->in_ranges % g->ranges;
    const int64_t group = block / g->in_ranges / g->ranges;
    const sr_x86_range tiles = sr_x86_share(g->tiles, group, g->groups);
    const sr_x86_range in = sr_x86_block_range(g->in_panels, in_range, g->in_range_panels);
    const sr_x86_range out = sr_x86_block_range(g->out_panels, range, g->range_panels);
    const int64_t ins = in.end - in.begin, outs = out.end - out.begin;
    float *zero = worker->scratch;
    const wg_panels v = {zero + sr_x86_winograd_zeros(g), g->block_tiles * WG_SIDE,
                         sr_x86_winograd_point(ins + outs, g->block_tiles), false};
    const wg_panels d = {v.at + ins * v.panel, v.panel, v.point, false};
    memset(zero, 0, (size_t)sr_x86_winograd_zeros(g) * sizeof *zero);
    for (int64_t first = tiles.begin; first < tiles.end; first += g->block_tiles) {
        const sr_x86_range some = {first, sr_x86_min(first + g->block_tiles, tiles.end)};
        wg_input(g, args->p[0], zero, some, wg_channels(in), v, type);
        wg_gradient(g, args->p[1], zero, some, wg_channels(out), d, type);
        wg_dw_add(g, args->workspace, group, in, out, v, some.end - some.begin,
                  first == tiles.begin);
    }
}

SR_X86_TYPED(wg_dw, wg_dw_block(args, block, worker, type))

// ---- many channels ----

// The transforms of all tiles, which follow the sums in the workspace: V, then those of dy.
SR_INLINE wg_panels wg_dw_transforms(const sr_x86_winograd *g, void *workspace, bool dy) {
    const int64_t sums = g->out_panels * g->in_panels * sr_x86_winograd_pair();
    const int64_t in = sr_x86_winograd_point(g->in_panels, g->tiles);
    float *v = (float *)workspace + sums;
    if (!dy)
        return (wg_panels){v, g->tiles * WG_SIDE, in, true};
    return (wg_panels){v + WG_POINTS * in, g->tiles * WG_SIDE,
                       sr_x86_winograd_point(g->out_panels, g->tiles), true};
}

// Block: some tiles of x or, after those, of dy.
SR_INLINE void wg_dw_transform(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                               sr_dtype type) {
    const sr_x86_winograd *g = args->state;
    const int64_t blocks = sr_x86_ceil_div(g->tiles, g->block_tiles);
    const bool dy = block >= blocks;
    const sr_x86_range tiles = sr_x86_block_range(g->tiles, block % blocks, g->block_tiles);
    wg_panels to = wg_dw_transforms(g, args->workspace, dy);
    to.at += tiles.begin * WG_SIDE;
    float *zero = worker->scratch;
    memset(zero, 0, (size_t)sr_x86_winograd_zeros(g) * sizeof *zero);
    const sr_x86_range channels = {0, (dy ? g->out_panels : g->in_panels) * WG_SIDE};
    if (dy)
        wg_gradient(g, args->p[1], zero, tiles, channels, to, type);
    else
        wg_input(g, args->p[0], zero, tiles, channels, to, type);
}

SR_X86_TYPED(wg_dw_transform, wg_dw_transform(args, block, worker, type))

// Block: a point and a range of output panels, over all tiles.
static sr_status wg_dw_point(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_x86_winograd *g = args->state;
    const int64_t point = block / g->ranges;
    const sr_x86_range out = sr_x86_block_range(g->out_panels, block % g->ranges, g->range_panels);
    const wg_panels v = wg_dw_transforms(g, args->workspace, false);
    const wg_panels d = wg_dw_transforms(g, args->workspace, true);
    for (int64_t first = 0; first < g->tiles; first += g->pass_tiles) {
        const int64_t count = sr_x86_min(g->pass_tiles, g->tiles - first);
        for (int64_t k = out.begin; k < out.end; k++) {
            const float *dy = d.at + point * d.point + k * d.panel + first * WG_SIDE;
            const float *x = v.at + point * v.point + first * WG_SIDE;
            for (int64_t c = 0; c < g->in_panels; c++, x += v.panel) {
                // next tiles of the same panels: x's once per range, dy's with the last
                const float *fetch = k == out.begin ? x + count * WG_SIDE : dy + count * WG_SIDE;
                wg_dw_pair(x, dy, count,
                           wg_dw_sums(g, args->workspace, 0, k, c) +
                               point * sr_x86_winograd_point(1, WG_SIDE),
                           first == 0, fetch);
            }
        }
    }
    return SR_OK;
}

// ---- last stage: one pair of panels ----

// The sum of the groups' values at 'at', as a binary tree.
SR_INLINE void wg_dw_add_groups(const sr_x86_winograd *g, float *pair) {
    const int64_t pairs = g->out_panels * g->in_panels * sr_x86_winograd_pair();
    for (int64_t step = 1; step < g->groups; step *= 2) {
        for (int64_t group = 0; group + step < g->groups; group += 2 * step) {
            float *a = pair + group * pairs;
            const float *b = a + step * pairs;
            for (int64_t i = 0; i < sr_x86_winograd_pair(); i += SR_ELEMENTS)
                sr_v_store(a + i, sr_v_add(sr_v_load(a + i), sr_v_load(b + i)));
        }
    }
}

static __attribute__((noinline)) void wg_dw_taps(const float *m, float *to) {
    const int64_t stride = sr_x86_winograd_point(1, WG_SIDE);
    sr_vf d[3 * WG_IN], row[3];
    SR_UNROLL
    for (int j = 0; j < WG_IN; j++) {
        sr_vf column[WG_IN];
        SR_UNROLL
        for (int i = 0; i < WG_IN; i++)
            column[i] = sr_v_load(m + (i * WG_IN + j) * stride);
        wg_taps_1d(column, d + j, WG_IN);
    }
    SR_UNROLL
    for (int r = 0; r < 3; r++) {
        wg_taps_1d(d + r * WG_IN, row, 1);
        SR_UNROLL
        for (int s = 0; s < 3; s++)
            sr_v_store(to + (r * 3 + s) * SR_ELEMENTS, row[s]);
    }
}

// Writes the gradient of the weights of a pair of panels, whose first channels are k and c.
static void wg_dw_write(const sr_x86_winograd *g, const float *pair, int64_t k, int64_t c,
                        float *gradient) {
    for (int64_t i = 0; i < sr_x86_min(WG_SIDE, g->k - k); i++) {
        float *dw = gradient + ((k + i) * g->c + c) * WG_TAPS;
        for (int64_t j = 0; j < sr_x86_min(WG_SIDE, g->c - c); j += SR_ELEMENTS) {
            float taps[WG_TAPS * SR_ELEMENTS];
            wg_dw_taps(pair + i * WG_SIDE + j, taps);
            sr_v_put_taps(taps, SR_ELEMENTS, WG_TAPS, wg_elements(g->c - c - j), dw + j * WG_TAPS);
        }
    }
}

static sr_status wg_dw_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_x86_winograd *g = args->state;
    float *pair = (float *)args->workspace + block * sr_x86_winograd_pair();
    wg_dw_add_groups(g, pair);
    wg_dw_write(g, pair, block / g->in_panels * WG_SIDE, block % g->in_panels * WG_SIDE,
                args->p[2]);
    return SR_OK;
}

#endif
