// SPDX-License-Identifier: Apache-2.0
// Winograd's filtering of few tiles: small pictures, few of them. There most of the time of
// x86_winograd_internal.h is memory traffic of transformed weights, which are four times as large
// as the weights and each used for a few tiles only. Here they never leave the cache.
//
// Stage 0 transforms all tiles of x (for conv2d_dw, of dy too) to [panel][point][tile][32]. A block
// of stage 1 owns a panel of output channels and a group of tiles. It transforms the weights of one
// panel of input channels after the other, and adds their products to the sums of all its tiles,
// which stay in the second-level cache. A block of conv2d_dw owns a pair of panels; it adds the
// products of all tiles and transforms the sums back at once.
//
// All sums are those of the other two files, in the same order, so the bits are the same.
#ifndef SR_KERNELS_CPU_X86_WINOGRAD_FEW_INTERNAL_H
#define SR_KERNELS_CPU_X86_WINOGRAD_FEW_INTERNAL_H

#include "kernels/cpu/x86/x86_winograd_dw_internal.h"
#include "kernels/cpu/x86/x86_winograd_internal.h"

// ---- stage 0: transforms ----

// The transforms of all tiles of x and, after those, of dy.
SR_INLINE wg_panels wg_few_transforms(const sr_x86_winograd *g, void *workspace, bool dy) {
    const int64_t point = sr_x86_winograd_few_point(g);
    const int64_t skipped = dy ? sr_x86_winograd_few_panels(g, g->in_panels) : 0;
    return (wg_panels){(float *)workspace + skipped, WG_POINTS * point, point, false};
}

// Block: a panel of x or, after those, of dy.
SR_INLINE void wg_few_transform(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                                sr_dtype type) {
    const sr_x86_winograd *g = args->state;
    const bool dy = block >= g->in_panels;
    const int64_t panel = dy ? block - g->in_panels : block;
    const sr_x86_range tiles = {0, g->tiles};
    const sr_x86_range channels = wg_channels((sr_x86_range){panel, panel + 1});
    wg_panels to = wg_few_transforms(g, args->workspace, dy);
    to.at += panel * to.panel;
    float *zero = worker->scratch;
    memset(zero, 0, (size_t)sr_x86_winograd_zeros(g) * sizeof *zero);
    if (dy)
        wg_gradient(g, args->p[1], zero, tiles, channels, to, type);
    else
        wg_input(g, args->p[0], zero, tiles, channels, to, type);
}

SR_X86_TYPED(wg_few_transform, wg_few_transform(args, block, worker, type))

// ---- stage 1: conv2d and conv2d_dx ----

// Adds the products of a panel of input channels to M[point][tile][32]. The first part of a point
// prefetches the weights of the next one.
SR_INLINE void wg_few_add(const sr_x86_winograd *g, wg_inner inner, wg_panels v, const float *u,
                          float *m, int64_t tiles) {
    const int64_t u_stride = sr_x86_winograd_point(1, WG_SIDE);
    const int64_t m_stride = sr_x86_winograd_point(1, g->block_tiles);
    for (int point = 0; point < WG_POINTS; point++, v.at += v.point, u += u_stride, m += m_stride) {
        wg_fetch fetch = {.u = u + u_stride};
        for (int64_t t = 0; t < tiles; fetch.u += WG_SIDE * 16) {
            const int rows = wg_rows(tiles - t);
            const int64_t next = t + rows;
            fetch.v = next < tiles ? v.at + next * WG_SIDE : v.at + v.point;
            wg_rows_of_panel(inner, v.at + t * WG_SIDE, u, m + t * WG_SIDE, fetch, rows);
            t = next;
        }
    }
}

SR_INLINE void wg_few_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                            const float *bias, void *y, sr_dtype type) {
    const sr_x86_winograd *g = args->state;
    const int64_t panel = block % g->out_panels, stride = sr_x86_winograd_point(1, WG_SIDE);
    const sr_x86_range tiles = sr_x86_block_range(g->tiles, block / g->out_panels, g->block_tiles);
    const int64_t rows = sr_x86_ceil_div(tiles.end - tiles.begin, 4) * 4;
    float *u = worker->scratch, *m = u + WG_POINTS * stride;
    wg_panels v = wg_few_transforms(g, args->workspace, false);
    v.at += tiles.begin * WG_SIDE;
    for (int64_t c = 0; c < g->c; c += WG_SIDE, v.at += v.panel) {
        const sr_x86_range in = {c, sr_x86_min(c + WG_SIDE, g->c)};
        wg_weights_of(g, args->p[1], panel * WG_SIDE, in, u, stride, type, false);
        wg_few_add(g, (wg_inner){in.end - in.begin, 0, c > 0}, v, u, m, rows);
    }
    wg_output(g, m, bias, tiles, (sr_x86_range){panel, panel + 1}, y, type);
}

SR_X86_TYPED(wg_few, wg_few_block(args, block, worker, args->p[2], args->p[3], type))
SR_X86_TYPED(wg_few_dx, wg_few_block(args, block, worker, NULL, args->p[2], type))

// ---- stage 1: conv2d_dw ----

// Block: a pair of panels.
static sr_status wg_few_dw(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const sr_x86_winograd *g = args->state;
    const int64_t k = block / g->in_panels, c = block % g->in_panels;
    const wg_panels v = wg_few_transforms(g, args->workspace, false);
    const wg_panels d = wg_few_transforms(g, args->workspace, true);
    float *sums = worker->scratch;
    for (int point = 0; point < WG_POINTS; point++, sums += sr_x86_winograd_point(1, WG_SIDE)) {
        const float *x = v.at + c * v.panel + point * v.point;
        const float *dy = d.at + k * d.panel + point * d.point;
        for (int64_t first = 0; first < g->tiles; first += g->pass_tiles) {
            const int64_t from = first * WG_SIDE,
                          count = sr_x86_min(g->pass_tiles, g->tiles - first);
            wg_dw_pair(x + from, dy + from, count, sums, first == 0, x + v.point + from);
        }
    }
    wg_dw_write(g, worker->scratch, k * WG_SIDE, c * WG_SIDE, args->p[2]);
    return SR_OK;
}

#endif
