// SPDX-License-Identifier: Apache-2.0
// Linear layers in bf16 on AMX tiles: products of bf16, sums in f32.
//
// Four tiles hold the sums of 32 rows by 32 columns. Two tiles of the left matrix (rows of 32
// terms) and two of the right matrix (pairs of terms, interleaved over 16 columns) advance over the
// terms, 32 per step. Sums are rounded once, when they are stored. The order of the terms is that
// of TDPBF16PS, the same on every processor that has it: two chains for the even and the odd terms
// of a tile, whose sum is added. It treats subnormal numbers as zero.
//
// Forward, and the gradient of the input: stage 0 packs the weights, rounded to bf16, as panels of
// 32 outputs [panel][step][tile][pair][output][2]; rows are read in place, except for the last
// ones. The gradient of the weights uses the passes, partial results and last stage of
// x86_conv_dw_internal.h. The tiles of dy are transposed.
//
// Source: Intel Architecture Instruction Set Extensions Programming Reference, chapter 3.
//
// Not here: numbers of channels that are not multiples of 32.
#ifndef SR_KERNELS_CPU_X86_AMX_INTERNAL_H
#define SR_KERNELS_CPU_X86_AMX_INTERNAL_H

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_pairs_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

#define AMX_SIDE SR_X86_AMX_SIDE
#define AMX_ROWS 16  // of a tile
#define AMX_TILE 512 // bf16 elements of a tile
#define AMX_STEP (2 * AMX_TILE)

// Compilers do not know that the AMX instructions access memory.
#define AMX_FENCE() __asm__ volatile("" ::: "memory")

typedef struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16]; // of a row of each tile
    uint8_t rows[16];
} amx_config;
_Static_assert(sizeof(amx_config) == 64, "the operand of LDTILECFG");

// Configures all tiles as 16 rows of 64 bytes.
SR_INLINE void amx_begin(void) {
    amx_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = 64;
        config.rows[i] = AMX_ROWS;
    }
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

SR_INLINE void amx_end(void) {
    _tile_release();
}

// The left matrix of a product: rows are 'pitch' bytes apart; the other fields are the offsets, in
// elements, of the second tile of rows and of the next step.
typedef struct amx_left {
    const uint16_t *at;
    int64_t pitch, second, step;
} amx_left;

SR_INLINE void amx_clear(void) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

// Adds the products of 'steps' steps to the sums.
SR_INLINE void amx_multiply(const amx_left *left, const uint16_t *right, int64_t steps) {
    const uint16_t *a = left->at;
    for (int64_t s = 0; s < steps; s++, a += left->step, right += AMX_STEP) {
        _tile_loadd(4, a, left->pitch);
        _tile_loadd(6, right, 64);
        _tile_loadd(7, right + AMX_TILE, 64);
        _tile_loadd(5, a + left->second, left->pitch);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

// Copies the sums to or from [32][32].
SR_INLINE void amx_store(float *sums) {
    _tile_stored(0, sums, AMX_SIDE * 4);
    _tile_stored(1, sums + AMX_ROWS, AMX_SIDE * 4);
    _tile_stored(2, sums + AMX_ROWS * AMX_SIDE, AMX_SIDE * 4);
    _tile_stored(3, sums + AMX_ROWS * AMX_SIDE + AMX_ROWS, AMX_SIDE * 4);
    AMX_FENCE();
}
SR_INLINE void amx_load(const float *sums) {
    AMX_FENCE();
    _tile_loadd(0, sums, AMX_SIDE * 4);
    _tile_loadd(1, sums + AMX_ROWS, AMX_SIDE * 4);
    _tile_loadd(2, sums + AMX_ROWS * AMX_SIDE, AMX_SIDE * 4);
    _tile_loadd(3, sums + AMX_ROWS * AMX_SIDE + AMX_ROWS, AMX_SIDE * 4);
}

// ---- Packing of tiles ----

// A tile of outputs k .. k + 15, terms c .. c + 31, of w[output][term].
SR_INLINE void amx_pack_across(const float *w, int64_t in, int64_t k, int64_t c, uint32_t *to) {
    uint32_t pairs[AMX_ROWS * AMX_ROWS];
    for (int j = 0; j < AMX_ROWS; j++)
        for (int half = 0; half < 2; half++)
            sr_v_store_bf16((uint16_t *)(pairs + j * AMX_ROWS) + half * SR_ELEMENTS,
                            sr_v_load(w + (k + j) * in + c + half * SR_ELEMENTS));
    pairs_transpose(pairs, AMX_ROWS, to, AMX_ROWS);
}

// The same of w[term][output].
SR_INLINE void amx_pack_along(const float *w, int64_t out, int64_t k, int64_t c, uint32_t *to) {
    for (int i = 0; i < AMX_ROWS; i++, to += AMX_ROWS) {
        const float *from = w + (c + 2 * i) * out + k;
        _mm512_storeu_si512(to, pairs_join(sr_v_round_bf16(sr_v_load(from)),
                                           sr_v_round_bf16(sr_v_load(from + out))));
    }
}

// Packs pairs of rows m + 2 i, m + 2 i + 1: 16 of their 'width' columns, from column 'first' on;
// rows from 'end' on are zeros.
SR_INLINE void amx_pack_rows(const uint16_t *x, int64_t width, int64_t first, int64_t m,
                             int64_t end, uint32_t *to) {
    for (int i = 0; i < AMX_ROWS; i++, m += 2, to += AMX_ROWS) {
        const uint16_t *from = x + m * width + first;
        const __m512i low = m < end ? sr_v_as_int(sr_v_load_bf16(from)) : _mm512_setzero_si512();
        const __m512i high =
            m + 1 < end ? sr_v_as_int(sr_v_load_bf16(from + width)) : _mm512_setzero_si512();
        _mm512_storeu_si512(to, pairs_join(low, high));
    }
}

// ---- linear, linear_dx ----

// Block: a panel of outputs.
static sr_status amx_weights_bf16(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_x86_pointwise *g = args->state;
    const float *w = args->p[1];
    uint32_t *to = (uint32_t *)args->workspace + block * g->in * AMX_SIDE / 2;
    for (int64_t c = 0; c < g->in; c += AMX_SIDE) {
        for (int64_t k = block * AMX_SIDE; k < (block + 1) * AMX_SIDE; k += AMX_ROWS) {
            if (g->mirrored)
                amx_pack_along(w, g->out, k, c, to);
            else
                amx_pack_across(w, g->in, k, c, to);
            to += AMX_TILE / 2;
        }
    }
    return SR_OK;
}

// Stores the first 'rows' rows of the sums as outputs k .. k + 31 of the rows that begin at y.
SR_INLINE void amx_put(const float *sums, int64_t rows, const float *bias, int64_t k, uint16_t *y,
                       int64_t out) {
    for (int half = 0; half < 2; half++) {
        const int64_t first = half * SR_ELEMENTS;
        const sr_vf b = bias == NULL ? sr_v_zero() : sr_v_load(bias + k + first);
        for (int64_t r = 0; r < rows; r++) {
            const sr_vf sum = sr_v_load(sums + r * AMX_SIDE + first);
            sr_v_store_bf16(y + r * out + k + first, bias == NULL ? sum : sr_v_add(sum, b));
        }
    }
}

// Block: some rows.
SR_INLINE sr_status amx_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                              const float *bias, uint16_t *y) {
    const sr_x86_pointwise *g = args->state;
    const sr_x86_range rows = sr_x86_block_range(g->rows, block, args->block_rows);
    const int64_t whole = rows.end - (rows.end - rows.begin) % AMX_SIDE;
    uint16_t *last = worker->scratch; // the last rows, padded with zeros
    memcpy(last, (const uint16_t *)args->p[0] + whole * g->in,
           (size_t)((rows.end - whole) * g->in) * sizeof *last);
    memset(last + (rows.end - whole) * g->in, 0,
           (size_t)((AMX_SIDE - (rows.end - whole)) * g->in) * sizeof *last);
    amx_left left = {.pitch = g->in * 2, .second = AMX_ROWS * g->in, .step = AMX_SIDE};
    amx_begin();
    for (int64_t panel = 0; panel < g->panels.count; panel++) {
        const uint16_t *right = (const uint16_t *)args->workspace + panel * g->in * AMX_SIDE;
        for (int64_t m = rows.begin; m < rows.end; m += AMX_SIDE) {
            float sums[AMX_SIDE * AMX_SIDE];
            left.at = m < whole ? (const uint16_t *)args->p[0] + m * g->in : last;
            amx_clear();
            AMX_FENCE();
            amx_multiply(&left, right, g->in / AMX_SIDE);
            amx_store(sums);
            amx_put(sums, sr_x86_min(AMX_SIDE, rows.end - m), bias, panel * AMX_SIDE,
                    y + m * g->out, g->out);
        }
    }
    amx_end();
    return SR_OK;
}

static sr_status amx_forward_bf16(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    return amx_block(args, block, worker, args->p[2], args->p[3]);
}

static sr_status amx_dx_bf16(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    return amx_block(args, block, worker, NULL, args->p[2]);
}

// ---- linear_dw ----

// Packs rows m .. end - 1 of a panel of 32 columns as steps of two tiles; the last one is padded
// with zeros.
SR_INLINE void amx_pack_panel(const uint16_t *x, int64_t width, int64_t panel, sr_x86_range rows,
                              bool transposed, uint16_t *to) {
    for (int64_t m = rows.begin; m < rows.end; m += AMX_SIDE) {
        for (int half = 0; half < 2; half++, to += AMX_TILE) {
            uint32_t pairs[AMX_ROWS * AMX_ROWS], *tile = (uint32_t *)(void *)to;
            amx_pack_rows(x, width, panel * AMX_SIDE + half * AMX_ROWS, m, rows.end,
                          transposed ? pairs : tile);
            if (transposed)
                pairs_transpose(pairs, AMX_ROWS, tile, AMX_ROWS);
        }
    }
}

// Adds the products of some rows to the partial results of a range of output panels.
SR_INLINE void amx_dw_pass(const sr_x86_dw *d, const sr_kernel_args *args, sr_x86_range rows,
                           bool first, sr_x86_range o, float *partial, uint16_t *dy, uint16_t *x) {
    const int64_t panel = d->rows * AMX_SIDE, count = rows.end - rows.begin;
    for (int64_t k = o.begin; k < o.end; k++)
        amx_pack_panel(args->p[1], d->p.k, k, rows, true, dy + (k - o.begin) * panel);
    for (int64_t c = 0; c < d->in_panels; c++) {
        amx_pack_panel(args->p[0], d->p.c, c, rows, false, x);
        for (int64_t k = o.begin; k < o.end; k++) {
            float *sums = partial + (k * d->in_panels + c) * d->tile_floats;
            const amx_left left = {dy + (k - o.begin) * panel, 64, AMX_TILE, AMX_STEP};
            if (first)
                amx_clear();
            else
                amx_load(sums);
            AMX_FENCE();
            amx_multiply(&left, x, sr_x86_ceil_div(count, AMX_SIDE));
            amx_store(sums);
        }
    }
}

// Block: a group of rows and a range of output panels.
static sr_status amx_dw_bf16(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const sr_x86_dw *d = args->state;
    const sr_x86_range o = sr_x86_share(d->out_panels, block % d->ranges, d->ranges);
    const sr_x86_range units = sr_x86_share(d->units, block / d->ranges, d->groups);
    float *partial = (float *)args->workspace + block / d->ranges * d->partial_floats;
    const int64_t begin = units.begin * d->unit_pixels;
    const int64_t end = sr_x86_min(units.end * d->unit_pixels, d->p.q);
    uint16_t *x = worker->scratch, *dy = x + d->rows * AMX_SIDE;
    amx_begin();
    for (int64_t m = begin; m < end; m += d->rows) {
        const sr_x86_range rows = {m, sr_x86_min(end, m + d->rows)};
        amx_dw_pass(d, args, rows, m == begin, o, partial, dy, x);
    }
    amx_end();
    return SR_OK;
}

#endif
