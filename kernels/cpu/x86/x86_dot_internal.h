// SPDX-License-Identifier: Apache-2.0
// Convolutions and linear layers in bf16 by VDPBF16PS: products of pairs of bf16, sums in f32, on
// processors where it has the rate of f32 multiply-adds (SR_CPU_BF16_DOT).
//
// The tiles, panels and passes are those of x86_pointwise_internal.h, with pairs of terms in place
// of single numbers: a tile that multiplies 16 outputs by one number of a row there multiplies them
// by two here. The terms of a result are those of its taps one after the other, with the channels
// of a tap in order, and a zero if their number is odd. The rows of a pass are copied to scratch,
// term by term as the tiles read them, with zeros for taps outside the picture, so only this copy
// handles windows, strides and dilation. It costs a few instructions for 32 terms, while the
// products with 64 outputs take 64. If taps read neighbouring pixels of a row, they are copied
// together.
//
// conv2d_dx with strides: results fall into phases, whose taps are the same, by their position
// modulo the stride. Each phase is a convolution of dy without strides. The results of phases
// without taps are zero.
//
// Stage 0 packs the weights, rounded to bf16: [phase][piece of pairs][panel][pair][output][2].
//
// Each sum is one chain over the pairs in order, from zero, two multiply-adds for each pair: of its
// second term, then of its first. Each is rounded to nearest even; subnormal inputs and sums are
// treated as zero. The bias is added at the end. So the bits do not depend on passes, pieces and
// blocks.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, vol. 2, VDPBF16PS.
//
// Not here: groups; the gradient of the weights (x86_dot_dw_internal.h).
#ifndef SR_KERNELS_CPU_X86_DOT_INTERNAL_H
#define SR_KERNELS_CPU_X86_DOT_INTERNAL_H

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_pairs_internal.h"
#include "kernels/cpu/x86/x86_pointwise_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

#define DOT_PITCH (2 * SR_X86_POINTWISE_PITCH) // elements from one packed row to the next
#define DOT_COPY (2 * SR_ELEMENTS)             // elements that are copied at a time
_Static_assert(SR_X86_POINTWISE_PITCH - SR_X86_POINTWISE_PIECE >= SR_ELEMENTS,
               "copies extend beyond the end of a row");

// ---- stage 0: weights ----

// The next term of a phase, and the position of its weight.
typedef struct dot_term {
    int64_t tap, channel;
} dot_term;

SR_INLINE int64_t dot_next(const sr_x86_dot *d, const sr_x86_dot_phase *f, dot_term *t) {
    const int64_t step = d->mirrored ? d->out * d->window : d->window;
    if (t->tap == f->taps)
        return -1;
    const int64_t at = d->tap[f->tap + t->tap] + t->channel * step;
    if (++t->channel == d->in) {
        t->channel = 0;
        t->tap++;
    }
    return at;
}

// Loads sixteen weights 'step' apart, of which n exist ('at' < 0: none), into the upper halves.
SR_INLINE __m512i dot_gather(const float *w, int64_t at, int64_t step, int n) {
    if (at < 0 || n <= 0)
        return _mm512_setzero_si512();
    n = n < SR_ELEMENTS ? n : SR_ELEMENTS;
    if (step == 1)
        return sr_v_round_bf16(sr_v_get(w, at, n, SR_F32));
    const __m512i index =
        _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                           _mm512_set1_epi32((int)step));
    return sr_v_round_bf16(_mm512_mask_i32gather_ps(sr_v_zero(), sr_v_first(n), index, w + at, 4));
}

// Packs pairs c .. c + count - 1 of a panel, for any taps.
SR_INLINE void dot_pack_taps(const sr_x86_dot *d, const sr_x86_dot_phase *f, const float *w,
                             pw_panel panel, int64_t c, int64_t count, uint32_t *to) {
    const int64_t step = d->mirrored ? d->window : d->in * d->window;
    dot_term t = {2 * c / d->in, 2 * c % d->in};
    for (int64_t i = 0; i < count; i++) {
        const int64_t low = dot_next(d, f, &t), high = dot_next(d, f, &t);
        for (int v = 0; v < panel.vectors; v++, to += SR_ELEMENTS) {
            const int64_t k = panel.first + v * SR_ELEMENTS;
            const int n = (int)sr_x86_min(SR_ELEMENTS, d->out - k);
            _mm512_storeu_si512(to, pairs_join(dot_gather(w + k * step, low, step, n),
                                               dot_gather(w + k * step, high, step, n)));
        }
    }
}

// The same from w[output][term].
SR_INLINE void dot_pack_across(const sr_x86_dot *d, const float *w, pw_panel panel, int64_t c,
                               int64_t count, uint32_t *to) {
    const int64_t width = panel.vectors * SR_ELEMENTS;
    for (int64_t i = 0; i < count; i += PAIRS_SIDE) {
        for (int v = 0; v < panel.vectors; v++) {
            uint32_t pairs[PAIRS_SIDE * PAIRS_SIDE] = {0};
            const int64_t k = panel.first + v * SR_ELEMENTS;
            for (int64_t j = 0; j < sr_x86_min(PAIRS_SIDE, d->out - k); j++) {
                for (int half = 0; half < 2; half++) {
                    const int64_t term = 2 * (c + i) + half * SR_ELEMENTS;
                    const int64_t n = sr_x86_min(SR_ELEMENTS, d->in - term);
                    if (n > 0)
                        sr_v_store_bf16((uint16_t *)(pairs + j * PAIRS_SIDE) + half * SR_ELEMENTS,
                                        sr_v_get(w, (k + j) * d->in + term, (int)n, SR_F32));
                }
            }
            pairs_transpose(pairs, (int)sr_x86_min(PAIRS_SIDE, count - i),
                            to + i * width + v * SR_ELEMENTS, width);
        }
    }
}

// Block: a panel.
static sr_status dot_weights_bf16(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_x86_dot *d = args->state;
    const float *w = args->p[1];
    for (const sr_x86_dot_phase *f = d->phase; f < d->phase + d->phases; f++) {
        const pw_panel panel = pw_panel_of(&f->g.panels, block);
        for (int64_t c = 0; c < f->g.in; c += f->g.piece) {
            const int64_t count = sr_x86_min(f->g.piece, f->g.in - c);
            uint32_t *to = (uint32_t *)args->workspace + f->weights + c * f->g.panels.columns +
                           panel.first * count;
            if (d->window == 1 && !d->mirrored)
                dot_pack_across(d, w, panel, c, count, to);
            else
                dot_pack_taps(d, f, w, panel, c, count, to);
        }
    }
    return SR_OK;
}

// ---- stage 1: rows ----

// The positions at which the results of a pass begin to read.
typedef struct dot_places {
    int32_t h[SR_X86_POINTWISE_PASS], w[SR_X86_POINTWISE_PASS];
    const uint16_t *picture[SR_X86_POINTWISE_PASS];
} dot_places;

// Result number m of all pictures, which have p rows of q results.
typedef struct dot_result {
    int64_t picture, row, column;
} dot_result;

SR_INLINE dot_result dot_result_of(int64_t m, int64_t p, int64_t q) {
    return (dot_result){m / (p * q), m / q % p, m % q};
}

SR_INLINE void dot_advance(dot_result *at, int64_t p, int64_t q) {
    if (++at->column < q)
        return;
    at->column = 0;
    if (++at->row < p)
        return;
    at->row = 0;
    at->picture++;
}

SR_INLINE void dot_locate(const sr_x86_dot *d, const sr_x86_dot_phase *f, const uint16_t *x,
                          sr_x86_range rows, dot_places *to) {
    dot_result at = dot_result_of(rows.begin, f->g.p, f->g.q);
    for (int64_t i = 0; i < rows.end - rows.begin; i++) {
        to->h[i] = (int32_t)(at.row * d->step_h);
        to->w[i] = (int32_t)(at.column * d->step_w);
        to->picture[i] = x + at.picture * d->h * d->w * d->in;
        dot_advance(&at, f->g.p, f->g.q);
    }
}

// dot_copy and dot_zero write up to a vector more than n elements.
SR_INLINE void dot_copy(uint16_t *to, const uint16_t *from, int64_t n) {
    for (int64_t i = 0; i < n; i += DOT_COPY)
        _mm512_storeu_si512(to + i, pairs_load(from + i, n - i));
}
SR_INLINE void dot_zero(uint16_t *to, int64_t n) {
    for (int64_t i = 0; i < n; i += DOT_COPY)
        _mm512_storeu_si512(to + i, _mm512_setzero_si512());
}

SR_INLINE int64_t dot_clamp(int64_t i, sr_x86_range range) {
    return i < range.begin ? range.begin : sr_x86_min(i, range.end);
}

// Copies terms part.begin .. part.end - 1 of a run, which begins at pixel (h, w) of a picture;
// zeros outside.
SR_INLINE void dot_copy_run(const sr_x86_dot *d, const uint16_t *picture, int64_t h, int64_t w,
                            sr_x86_range part, uint16_t *to) {
    sr_x86_range inside = {part.end, part.end};
    if (h >= 0 && h < d->h) {
        inside.begin = dot_clamp(-w * d->in, part);
        inside.end = dot_clamp((d->w - w) * d->in, part);
    }
    dot_zero(to, inside.begin - part.begin);
    to += inside.begin - part.begin;
    if (inside.end > inside.begin)
        dot_copy(to, picture + (h * d->w + w) * d->in + inside.begin, inside.end - inside.begin);
    dot_zero(to + inside.end - inside.begin, part.end - inside.end);
}

// Packs pairs c .. c + count - 1 of some rows.
static void dot_pack_rows(const sr_x86_dot *d, const sr_x86_dot_phase *f, const dot_places *at,
                          int64_t rows, int64_t c, int64_t count, uint16_t *to) {
    const int64_t end = sr_x86_min(2 * (c + count), f->taps * d->in);
    for (const sr_x86_dot_run *run = d->run + f->run; run < d->run + f->run + f->runs; run++) {
        const int64_t begin = run->first * d->in;
        const sr_x86_range part = {2 * c > begin ? 2 * c - begin : 0,
                                   sr_x86_min(run->taps * d->in, end - begin)};
        for (int64_t i = 0; i < rows && part.begin < part.end; i++)
            dot_copy_run(d, at->picture[i], at->h[i] + run->h, at->w[i] + run->w, part,
                         to + i * DOT_PITCH + begin + part.begin - 2 * c);
    }
    for (int64_t i = 0; i < rows && end % 2 != 0; i++)
        dot_zero(to + i * DOT_PITCH + end - 2 * c, 1);
}

// Clears results that have no terms.
SR_INLINE void dot_clear(const sr_x86_pointwise *g, sr_x86_range rows, uint16_t *y) {
    for (int64_t m = rows.begin; m < rows.end; m++)
        memset(y + pw_pixel(g, m) * g->out, 0, (size_t)g->out * sizeof *y);
}

// As pw_fetch_next.
SR_INLINE void dot_fetch_next(const sr_x86_dot *d, const sr_x86_pointwise *g, pw_pass *p) {
    if (!d->flat)
        return;
    const char *begin = (const char *)p->x + p->rows.end * d->in * 2;
    p->fetch = p->fetch > begin ? p->fetch : begin;
    p->end =
        (const char *)p->x + sr_x86_min(p->rows.end + SR_X86_POINTWISE_PASS, g->rows) * d->in * 2;
}

// Block: some results of a phase.
SR_INLINE sr_status dot_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                              const float *bias, void *y) {
    const sr_x86_dot *d = args->state;
    const sr_x86_dot_phase *f = d->phase;
    while (d->phases > 1 && block >= f->block + f->blocks)
        f++;
    const sr_x86_pointwise *g = &f->g;
    const sr_x86_range rows =
        sr_x86_block_range(g->rows, block - f->block, d->phases > 1 ? g->grain : args->block_rows);
    pw_pass p = {.x = args->p[0], .y = y, .bias = bias};
    dot_places places;
    pw_begin_passes(g, &p, worker->scratch);
    if (g->in == 0)
        dot_clear(g, rows, y);
    for (int64_t m = rows.begin; m < rows.end && g->in > 0; m += SR_X86_POINTWISE_PASS) {
        p.rows = (sr_x86_range){m, sr_x86_min(rows.end, m + SR_X86_POINTWISE_PASS)};
        dot_fetch_next(d, g, &p);
        dot_locate(d, f, p.x, p.rows, &places);
        for (p.c = 0; p.c < g->in; p.c += g->piece) {
            p.count = sr_x86_min(g->piece, g->in - p.c);
            p.weights = (const float *)args->workspace + f->weights + p.c * g->panels.columns;
            dot_pack_rows(d, f, &places, p.rows.end - m, p.c, p.count, (uint16_t *)p.packed);
            pw_run_piece(g, &p, SR_BF16, true);
        }
    }
    return SR_OK;
}

static sr_status dot_forward_bf16(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    return dot_block(args, block, worker, args->p[2], args->p[3]);
}
static sr_status dot_dx_bf16(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    return dot_block(args, block, worker, NULL, args->p[2]);
}

#endif
