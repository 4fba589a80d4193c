// SPDX-License-Identifier: Apache-2.0
// The gradient of the weights of convolutions and linear layers in bf16 by VDPBF16PS: products of
// pairs of bf16, sums in f32, on processors with SR_CPU_BF16_DOT.
//
//     dw[k,c,r,s] = sum over output pixels m of dy[m,k] x[pixel(m) + (r,s), c]
//
// Passes, panels, partial results and the last stage are those of x86_conv_dw_internal.h, with two
// differences. Panels contain pairs of pixels, [pair][32][2], and a panel of x is packed for each
// tap, since the pairs of neighbouring taps differ. Packing 32 elements of two pixels takes about
// ten instructions, and the products with 32 output channels take 64. So blocks divide the panels
// of x, where the other file divides those of dy. The pixels of all pictures form one row, so pairs
// and passes do not end with a row or a picture; if their number is odd, a zero pixel follows.
//
// With few channels the columns of a panel are S C neighbouring elements of a row of x.
//
// Each sum is one chain over the pairs of a group in order, from zero, as in x86_dot_internal.h.
//
// Not here: groups > 1.
#ifndef SR_KERNELS_CPU_X86_DOT_DW_INTERNAL_H
#define SR_KERNELS_CPU_X86_DOT_DW_INTERNAL_H

#include "kernels/cpu/x86/x86_conv_dw_internal.h"
#include "kernels/cpu/x86/x86_dot_internal.h"
#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_pairs_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

#define DOT_SIDE SR_X86_DW_SIDE
#define DOT_PAIR (2 * DOT_SIDE) // elements of a pair of pixels of a panel

// Output pixels of a pass, and the positions that a tap reads for them.
typedef struct dot_pixels {
    sr_x86_range range;
    int32_t h[SR_X86_DOT_PASS], w[SR_X86_DOT_PASS];
    const uint16_t *picture[SR_X86_DOT_PASS];
} dot_pixels;

SR_INLINE void dot_dw_locate(const sr_conv_params *p, const uint16_t *x, dot_pixels *to) {
    dot_result at = dot_result_of(to->range.begin, p->p, p->q);
    for (int64_t i = 0; i < to->range.end - to->range.begin; i++) {
        to->h[i] = (int32_t)(at.row * p->stride_h - p->pad_top);
        to->w[i] = (int32_t)(at.column * p->stride_w - p->pad_left);
        to->picture[i] = x + at.picture * p->h * p->w * p->c;
        dot_advance(&at, p->p, p->q);
    }
}

// Packs a panel of 32 channels of some pixels, which have 'channels' channels.
SR_INLINE void dot_pack_pixels(const uint16_t *x, int64_t channels, sr_x86_range rows,
                               int64_t panel, uint16_t *to) {
    const int64_t n = sr_x86_min(DOT_SIDE, channels - panel * DOT_SIDE);
    for (int64_t m = rows.begin; m < rows.end; m += 2, to += DOT_PAIR) {
        const uint16_t *from = x + m * channels + panel * DOT_SIDE;
        const __m512i low = pairs_load(from, n);
        pairs_interleave(
            low, m + 1 < rows.end ? pairs_load(from + channels, n) : _mm512_setzero_si512(), to);
    }
}

// Columns of a panel of x at pixel number i of a pass.
typedef struct dot_columns {
    int64_t h, w;         // of its tap, relative to the first tap
    int64_t first, count; // channels, or neighbours of a row of taps
} dot_columns;

SR_INLINE __m512i dot_x_at(const sr_conv_params *p, const dot_pixels *at, int64_t i,
                           const dot_columns *t) {
    if (i == at->range.end - at->range.begin)
        return _mm512_setzero_si512();
    const int64_t h = at->h[i] + t->h, w = at->w[i] + t->w;
    if (h < 0 || h >= p->h)
        return _mm512_setzero_si512();
    const uint16_t *row = at->picture[i] + h * p->w * p->c;
    const int64_t begin = w * p->c + t->first, end = begin + t->count;
    const int64_t first = begin > 0 ? begin : 0, last = sr_x86_min(end, p->w * p->c);
    if (first == begin && last == end)
        return pairs_load(row + begin, t->count);
    uint16_t columns[DOT_SIDE] = {0};
    if (first < last)
        memcpy(columns + (first - begin), row + first, (size_t)(last - first) * sizeof *columns);
    return _mm512_loadu_si512(columns);
}

SR_INLINE void dot_pack_x(const sr_x86_dw *d, const dot_pixels *at, int64_t panel, int64_t tap,
                          uint16_t *to) {
    const sr_conv_params *p = &d->p;
    const int64_t all = d->merged ? p->s * p->c : p->c;
    dot_columns t = {.first = panel * DOT_SIDE};
    t.count = sr_x86_min(DOT_SIDE, all - t.first);
    t.h = (d->merged ? tap : tap / p->s) * p->dilation_h;
    t.w = d->merged ? 0 : tap % p->s * p->dilation_w;
    for (int64_t i = 0; i < at->range.end - at->range.begin; i += 2, to += DOT_PAIR)
        pairs_interleave(dot_x_at(p, at, i, &t), dot_x_at(p, at, i + 1, &t), to);
}

// Computes some rows of a tile; their number is a compile-time constant.
SR_INLINE void dot_dw_part(const uint16_t *dy, const uint16_t *x, int64_t pairs, bool first,
                           float *out, dw_prefetch *fetch, int rows) {
    const int64_t line = fetch->at < fetch->end ? 64 : 0;
    sr_vf sum[DW_MAX_ROWS][2];
    SR_UNROLL
    for (int i = 0; i < rows; i++)
        SR_UNROLL
    for (int v = 0; v < 2; v++)
        sum[i][v] = first ? sr_v_zero() : sr_v_load(out + i * DOT_SIDE + v * SR_ELEMENTS);
    for (int64_t m = 0; m < pairs; m++, dy += DOT_PAIR, x += DOT_PAIR) {
        const sr_vf a = sr_v_as_float(_mm512_loadu_si512(x));
        const sr_vf b = sr_v_as_float(_mm512_loadu_si512(x + 2 * PAIRS_SIDE));
        _mm_prefetch(fetch->at, _MM_HINT_T1);
        fetch->at += line;
        SR_UNROLL
        for (int i = 0; i < rows; i++) {
            int32_t pair;
            memcpy(&pair, dy + 2 * i, sizeof pair);
            const sr_vf g = sr_v_as_float(_mm512_set1_epi32(pair));
            sum[i][0] = pw_add_product(g, a, sum[i][0], true);
            sum[i][1] = pw_add_product(g, b, sum[i][1], true);
        }
    }
    dw_prefetch_rest(fetch);
    SR_UNROLL
    for (int i = 0; i < rows; i++) {
        sr_v_store(out + i * DOT_SIDE, sum[i][0]);
        sr_v_store(out + i * DOT_SIDE + SR_ELEMENTS, sum[i][1]);
    }
}

static __attribute__((noinline)) void dot_dw_tile(const uint16_t *dy, const uint16_t *x,
                                                  int64_t pairs, bool first, float *out,
                                                  dw_prefetch *fetch) {
    dw_prefetch f = *fetch;
    int row = 0;
    SR_UNROLL
    for (int part = 0; part < DW_PARTS; part++) {
        const int rows = (DOT_SIDE - row + DW_PARTS - 1 - part) / (DW_PARTS - part);
        dot_dw_part(dy + 2 * row, x, pairs, first, out + row * DOT_SIDE, &f, rows);
        row += rows;
    }
    *fetch = f;
}

// Source data of the pass after these pixels, as dw_following; nothing of x if a block has only a
// range of its panels.
SR_INLINE dw_prefetch dot_dw_following(const sr_x86_dw *d, sr_x86_range rows, const char *x,
                                       const char *dy) {
    const sr_conv_params *p = &d->p;
    const int64_t end = sr_x86_min(2 * rows.end - rows.begin, p->n * p->p * p->q);
    const int64_t pixels = p->p * p->q, in = 2 * p->h * p->w * p->c;
    dw_prefetch f = {x + rows.end * in / pixels, x + end * in / pixels, dy + 2 * rows.end * p->k,
                     dy + 2 * end * p->k};
    return d->ranges > 1 ? (dw_prefetch){f.next, f.last, f.last, f.last} : f;
}

SR_INLINE void dot_dw_pass(const sr_x86_dw *d, const sr_kernel_args *args, const dot_pixels *at,
                           bool first, sr_x86_range in, float *partial, uint16_t *dy, uint16_t *x) {
    const int64_t pairs = sr_x86_ceil_div(at->range.end - at->range.begin, 2);
    dw_prefetch fetch = dot_dw_following(d, at->range, args->p[0], args->p[1]);
    for (int64_t k = 0; k < d->out_panels; k++)
        dot_pack_pixels(args->p[1], d->p.k, at->range, k, dy + k * SR_X86_DOT_PANEL);
    for (int64_t c = in.begin; c < in.end; c++) {
        for (int64_t tap = 0; tap < d->taps; tap++) {
            if (d->flat)
                dot_pack_pixels(args->p[0], d->p.c, at->range, c, x);
            else
                dot_pack_x(d, at, c, tap, x);
            for (int64_t k = 0; k < d->out_panels; k++)
                dot_dw_tile(dy + k * SR_X86_DOT_PANEL, x, pairs, first,
                            partial + (k * d->in_panels + c) * d->tile_floats +
                                tap * DOT_SIDE * DOT_SIDE,
                            &fetch);
        }
    }
}

// Block: a group of passes and a range of input panels, packed for each tap.
static sr_status dot_dw_bf16(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const sr_x86_dw *d = args->state;
    const sr_x86_range in = sr_x86_share(d->in_panels, block % d->ranges, d->ranges);
    const sr_x86_range units = sr_x86_share(d->units, block / d->ranges, d->groups);
    float *partial = (float *)args->workspace + block / d->ranges * d->partial_floats;
    const int64_t end = sr_x86_min(units.end * d->rows, d->p.n * d->p.p * d->p.q);
    uint16_t *x = worker->scratch, *dy = x + SR_X86_DOT_PANEL;
    dot_pixels at;
    for (int64_t m = units.begin * d->rows; m < end; m += d->rows) {
        at.range = (sr_x86_range){m, sr_x86_min(end, m + d->rows)};
        if (!d->flat)
            dot_dw_locate(&d->p, args->p[0], &at);
        dot_dw_pass(d, args, &at, m == units.begin * d->rows, in, partial, dy, x);
    }
    return SR_OK;
}

#endif
