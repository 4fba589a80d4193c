// SPDX-License-Identifier: Apache-2.0
// Products of rows with weights: 1x1 convolutions without padding, and linear layers,
//     y[m,k] = sum over c of x[m,c] w[k,c] + bias[k]      dx[m,c] = sum over k of dy[m,k] w[k,c]
// where m counts the pixels of all images. In this file, rows of 'in' channels become rows of 'out'
// channels.
//
// Stage 0 packs the weights: [piece of inputs][panel of outputs][input][output of the panel],
// rounded to T. A block of stage 1 is a range of rows, processed in passes. For each panel, a tile
// of sums, 9 rows by 48 outputs, stays in registers during the loop over the inputs of a piece:
// each step uses three vectors of the panel and one number of each row (Goto and van de Geijn 2008;
// Van Zee and van de Geijn 2015). Outputs that do not fill a panel of 48 use tiles of 14 by 32,
// which need a sixth more instructions for the same products and take a tenth more time when two
// threads share a core. A piece of x stays in the second-level cache; panels stream through the
// first-level cache. Between pieces, sums are kept in scratch as fp32. Rows are copied to scratch,
// piece by piece, when T is narrower than f32 (and widened), when a stride skips pixels, and when
// the cache would map many of them to one set; otherwise, for common numbers of channels, they are
// read in place. Meanwhile the kernel prefetches the data of the next pass, one line per step: in
// early layers memory access and arithmetic take equally long.
//
// Each sum is one chain of fused multiply-adds over the inputs in order, from zero, for every
// vector width, division into pieces and block size; the bias is added at the end.
//
// With a stride, conv2d reads every stride-th pixel, and conv2d_dx writes these pixels and zeros
// between them.
//
// Tiles of pairs multiply pairs of bf16 instead of single numbers: x86_dot_internal.h packs for
// them.
//
// Not here: groups, padding (oneDNN or the reference), AMX.
#ifndef SR_KERNELS_CPU_X86_POINTWISE_INTERNAL_H
#define SR_KERNELS_CPU_X86_POINTWISE_INTERNAL_H

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

// Registers hold the sums of some rows and the vectors of a panel. The last rows of a pass are
// processed a few at a time.
#define PW_VECTORS SR_X86_POINTWISE_VECTORS
#define PW_ROWS 9         // rows for a panel of three vectors
#define PW_NARROW_ROWS 14 // rows for one or two
#define PW_LAST_ROWS 8
#define PW_FEW_ROWS 4
_Static_assert(PW_NARROW_ROWS <= SR_X86_POINTWISE_ROWS, "scratch has room for a tile more");

// A range of outputs: its begin and number of vectors.
typedef struct pw_panel {
    int64_t first;
    int vectors;
} pw_panel;

SR_INLINE pw_panel pw_panel_of(const sr_x86_panels *panels, int64_t i) {
    const int64_t wide = sr_x86_min(i, panels->wide);
    return (pw_panel){(wide * SR_X86_POINTWISE_VECTORS + (i - wide) * panels->narrow_vectors) *
                          SR_ELEMENTS,
                      i < panels->wide ? SR_X86_POINTWISE_VECTORS : (int)panels->narrow_vectors};
}

// Number of rows of the next tile when 'left' rows are left.
SR_INLINE int pw_tile_rows(int vectors, int64_t left) {
    if (left <= PW_LAST_ROWS)
        return PW_FEW_ROWS;
    static const int rows[] = {PW_NARROW_ROWS, PW_ROWS};
    return rows[vectors == SR_X86_POINTWISE_VECTORS];
}

// ---- stage 0: weights ----

SR_INLINE sr_vf pw_weight(const float *from, int n, sr_dtype type) {
    return sr_v_rounded(sr_v_get(from, 0, n, SR_F32), type);
}

// Transposes n <= 16 inputs of four outputs, of which 'rows' exist, from w[output][in] to
// [input][width].
SR_INLINE void pw_transpose(const float *w, int64_t in, int64_t rows, int n, float *to,
                            int64_t width, sr_dtype type) {
    sr_vf r[4];
    for (int i = 0; i < 4; i++)
        r[i] = i < rows ? pw_weight(w + i * in, n, type) : sr_v_zero();
    sr_v_put_transposed(r, n, to, width);
}

// Packs inputs c .. c + count - 1 of a panel from w[out][in].
SR_INLINE void pw_pack_across(const sr_x86_pointwise *g, const float *w, pw_panel panel, int64_t c,
                              int64_t count, float *to, sr_dtype type) {
    const int64_t width = panel.vectors * SR_ELEMENTS, left = g->out - panel.first;
    for (int64_t k = 0; k < width; k += 4) {
        const float *from = w + (panel.first + k) * g->in + c;
        for (int64_t i = 0; i < count; i += SR_ELEMENTS) {
            const int n = (int)sr_x86_min(SR_ELEMENTS, count - i);
            pw_transpose(from + i, g->in, left - k, n, to + i * width + k, width, type);
        }
    }
}

// The same from w[in][out].
SR_INLINE void pw_pack_along(const sr_x86_pointwise *g, const float *w, pw_panel panel, int64_t c,
                             int64_t count, float *to, sr_dtype type) {
    for (int64_t i = 0; i < count; i++) {
        const float *from = w + (c + i) * g->out + panel.first;
        for (int v = 0; v < panel.vectors; v++, from += SR_ELEMENTS, to += SR_ELEMENTS) {
            const int64_t left = g->out - panel.first - v * SR_ELEMENTS;
            sr_v_store(to, pw_weight(from, (int)sr_x86_min(SR_ELEMENTS, left), type));
        }
    }
}

// Block: a panel.
SR_INLINE void pw_pack_weights(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    const sr_x86_pointwise *g = args->state;
    const pw_panel panel = pw_panel_of(&g->panels, block);
    for (int64_t c = 0; c < g->in; c += g->piece) {
        const int64_t count = sr_x86_min(g->piece, g->in - c);
        float *to = (float *)args->workspace + c * g->panels.columns + panel.first * count;
        if (g->mirrored)
            pw_pack_along(g, args->p[1], panel, c, count, to, type);
        else
            pw_pack_across(g, args->p[1], panel, c, count, to, type);
    }
}

SR_X86_TYPED(pw_weights, pw_pack_weights(args, block, type))

// ---- stage 1: tiles ----

typedef struct pw_tile {
    const float *x; // [rows][pitch]
    int64_t pitch;
    const float *w; // [count][width]
    int64_t count, width;
    const float *before; // sums of earlier pieces [rows][width]; NULL: none
    void *to;            // [rows][to_pitch]; 'place' is its first element
    int64_t place, to_pitch;
    const float *bias; // of the tile's outputs; NULL: none
    const char *fetch; // to prefetch, 'fetch_step' bytes per step; may pass an end
    int64_t fetch_step;
} pw_tile;

SR_INLINE const void *pw_address(const void *base, int64_t i, sr_dtype type) {
    return type == SR_F32 ? (const void *)((const float *)base + i)
                          : (const void *)((const uint16_t *)base + i);
}

// Loads the initial values of the sums of a row, and prefetches their location in the result.
SR_INLINE void pw_begin(const pw_tile *t, int r, sr_vf *sum, int vectors, sr_dtype type) {
    SR_UNROLL
    for (int v = 0; v < vectors; v++) {
        const int64_t to = t->place + r * t->to_pitch + v * SR_ELEMENTS;
        _mm_prefetch(pw_address(t->to, to, type), _MM_HINT_T0);
        sum[v] =
            t->before == NULL ? sr_v_zero() : sr_v_load(t->before + r * t->width + v * SR_ELEMENTS);
    }
}

SR_INLINE void pw_end(const pw_tile *t, int r, const sr_vf *sum, int vectors, sr_dtype type) {
    SR_UNROLL
    for (int v = 0; v < vectors; v++) {
        const int64_t to = t->place + r * t->to_pitch + v * SR_ELEMENTS;
        const sr_vf y =
            t->bias == NULL ? sum[v] : sr_v_add(sum[v], sr_v_load(t->bias + v * SR_ELEMENTS));
        sr_v_put(t->to, to, y, SR_ELEMENTS, type);
    }
}

// sum + a b for numbers. For pairs of bf16, both products are added one after the other, that of
// the upper halves first (VDPBF16PS; gcc and clang both accept integer vectors for it).
SR_INLINE sr_vf pw_add_product(sr_vf a, sr_vf b, sr_vf sum, bool pairs) {
    return pairs ? _mm512_dpbf16_ps(sum, (__m512bh)sr_v_as_int(a), (__m512bh)sr_v_as_int(b))
                 : sr_v_fma(a, b, sum);
}

// Computes one tile; rows, vectors, pitch (0: that of the tile), type and pairs are compile-time
// constants. With a variable pitch, the addresses of many rows would need too many registers.
SR_INLINE void pw_multiply(pw_tile *tile, int rows, int vectors, int64_t pitch, sr_dtype type,
                           bool pairs) {
    pw_tile t = *tile;
    t.pitch = pitch > 0 ? pitch : t.pitch;
    const int64_t width = vectors * SR_ELEMENTS;
    const float *w = t.w;
    const char *fetch = t.fetch;
    sr_vf sum[PW_NARROW_ROWS][PW_VECTORS];
    SR_UNROLL
    for (int r = 0; r < rows; r++)
        pw_begin(&t, r, sum[r], vectors, type);
    for (int64_t c = 0; c < t.count; c++, w += width, fetch += t.fetch_step) {
        sr_vf weight[PW_VECTORS];
        _mm_prefetch(fetch, _MM_HINT_T1);
        SR_UNROLL
        for (int v = 0; v < vectors; v++)
            weight[v] = sr_v_load(w + v * SR_ELEMENTS);
        SR_UNROLL
        for (int r = 0; r < rows; r++) {
            const sr_vf in = sr_v_set(t.x[r * t.pitch + c]);
            SR_UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = pw_add_product(in, weight[v], sum[r][v], pairs);
        }
    }
    __asm__("" : "+r"(tile)); // else compilers keep addresses in registers that the sums need
    const pw_tile end = *tile;
    tile->fetch = fetch;
    SR_UNROLL
    for (int r = 0; r < rows; r++)
        pw_end(&end, r, sum[r], vectors, type);
}

typedef void (*pw_tile_fn)(pw_tile *tile);
#define PW_TILE(name, rows, vectors, pitch, type, pairs)                                           \
    static __attribute__((noinline)) void name(pw_tile *tile) {                                    \
        pw_multiply(tile, rows, vectors, pitch, type, pairs);                                      \
    }
// By number of vectors.
#define PW_TILES(name, narrow, wide, pitch, type, pairs)                                           \
    PW_TILE(name##_1, narrow, 1, pitch, type, pairs)                                               \
    PW_TILE(name##_2, narrow, 2, pitch, type, pairs)                                               \
    PW_TILE(name##_3, wide, 3, pitch, type, pairs)
#define PW_ROW(name)                                                                               \
    { name##_1, name##_2, name##_3 }
PW_TILES(pw_few, PW_FEW_ROWS, PW_FEW_ROWS, 0, SR_F32, false)
PW_TILES(pw_bf16, PW_NARROW_ROWS, PW_ROWS, SR_X86_POINTWISE_PITCH, SR_BF16, false)
PW_TILES(pw_f16, PW_NARROW_ROWS, PW_ROWS, SR_X86_POINTWISE_PITCH, SR_F16, false)
PW_TILES(pw_packed, PW_NARROW_ROWS, PW_ROWS, SR_X86_POINTWISE_PITCH, SR_F32, false)
PW_TILES(pw_64, PW_NARROW_ROWS, PW_ROWS, 64, SR_F32, false)
PW_TILES(pw_128, PW_NARROW_ROWS, PW_ROWS, 128, SR_F32, false)
PW_TILES(pw_256, PW_NARROW_ROWS, PW_ROWS, 256, SR_F32, false)
PW_TILES(pw_512, PW_NARROW_ROWS, PW_ROWS, 512, SR_F32, false)
PW_TILES(pw_pairs_few, PW_FEW_ROWS, PW_FEW_ROWS, SR_X86_POINTWISE_PITCH, SR_F32, true)
PW_TILES(pw_pairs, PW_NARROW_ROWS, PW_ROWS, SR_X86_POINTWISE_PITCH, SR_F32, true)
PW_TILES(pw_pairs_bf16, PW_NARROW_ROWS, PW_ROWS, SR_X86_POINTWISE_PITCH, SR_BF16, true)
static const pw_tile_fn pw_few[] = PW_ROW(pw_few), pw_bf16[] = PW_ROW(pw_bf16),
                        pw_f16[] = PW_ROW(pw_f16), pw_pairs_few[] = PW_ROW(pw_pairs_few),
                        pw_pairs[] = PW_ROW(pw_pairs), pw_pairs_bf16[] = PW_ROW(pw_pairs_bf16);
// First packed rows, then in the order of sr_x86_pointwise_direct.
static const pw_tile_fn pw_full[][PW_VECTORS] = {PW_ROW(pw_packed), PW_ROW(pw_64), PW_ROW(pw_128),
                                                 PW_ROW(pw_256), PW_ROW(pw_512)};
_Static_assert(sizeof pw_full / sizeof pw_full[0] == SR_X86_POINTWISE_DIRECT + 1, "one for each");
#undef PW_ROW
#undef PW_TILES
#undef PW_TILE

// Computes one tile with all vectors of a panel; types other than f32 need all rows of a tile.
// direct: 0 is packed.
SR_INLINE void pw_panel_tile(pw_tile *t, int rows, int vectors, int direct, sr_dtype type,
                             bool pairs) {
    const bool few = rows == PW_FEW_ROWS;
    const pw_tile_fn *const fn = type == SR_BF16  ? (pairs ? pw_pairs_bf16 : pw_bf16)
                                 : type == SR_F16 ? pw_f16
                                 : pairs          ? (few ? pw_pairs_few : pw_pairs)
                                 : few            ? pw_few
                                                  : pw_full[direct];
    for (int v = 0; v < vectors; v += PW_VECTORS) {
        fn[sr_x86_min(vectors, PW_VECTORS) - 1](t);
        t->w += SR_ELEMENTS;
        t->before = t->before == NULL ? NULL : t->before + SR_ELEMENTS;
        t->bias = t->bias == NULL ? NULL : t->bias + SR_ELEMENTS;
        t->place += SR_ELEMENTS;
    }
}

// ---- rows ----

// The pixel of row m, numbered in the large pictures if a stride skips pixels.
SR_INLINE int64_t pw_pixel(const sr_x86_pointwise *g, int64_t m) {
    if (!g->strided)
        return m;
    const int64_t row = m / g->q;
    return (row / g->p * g->h + row % g->p * g->stride_h + g->top) * g->w + m % g->q * g->stride_w +
           g->left;
}

// Packs channels c .. c + count - 1 of some rows as [row][pitch] f32.
SR_INLINE void pw_pack_rows(const sr_x86_pointwise *g, const void *x, sr_x86_range rows, int64_t c,
                            int64_t count, float *to, sr_dtype type) {
    for (int64_t m = rows.begin; m < rows.end; m++, to += SR_X86_POINTWISE_PITCH) {
        const int64_t from = (g->spread ? m : pw_pixel(g, m)) * g->in + c;
        int64_t i = 0;
        for (; i + SR_ELEMENTS <= count; i += SR_ELEMENTS)
            sr_v_store(to + i, sr_v_get(x, from + i, SR_ELEMENTS, type));
        if (i < count)
            sr_v_store(to + i, sr_v_get(x, from + i, (int)(count - i), type));
    }
}

// Rounds sums [row][width] + bias and stores them as the panel's outputs in y.
SR_INLINE void pw_finish(const sr_x86_pointwise *g, const float *sum, const float *bias, int64_t m,
                         int64_t rows, pw_panel panel, void *y, sr_dtype type) {
    const int64_t width = panel.vectors * SR_ELEMENTS;
    const int64_t columns = sr_x86_min(width, g->out - panel.first);
    for (int64_t r = 0; r < rows; r++, sum += width) {
        const int64_t to = (g->spread ? pw_pixel(g, m + r) : m + r) * g->out + panel.first;
        for (int64_t v = 0; v < columns; v += SR_ELEMENTS) {
            const int n = (int)sr_x86_min(SR_ELEMENTS, columns - v);
            sr_vf s = sr_v_load(sum + v);
            if (bias != NULL)
                s = sr_v_add(s, sr_v_get(bias, panel.first + v, n, SR_F32));
            sr_v_put(y, to + v, s, n, type);
        }
    }
}

// Clears the pixels of dx that a stride skips, together with the row before them in the picture.
SR_INLINE void pw_clear(const sr_x86_pointwise *g, sr_x86_range rows, void *y, sr_dtype type) {
    const size_t pixel = (size_t)(g->out * sr_x86_bytes(type));
    for (int64_t m = rows.begin; m < rows.end; m++) {
        const int64_t h = m / g->q % g->p * g->stride_h, w = m % g->q * g->stride_w;
        const int64_t height = sr_x86_min(g->stride_h, g->h - h);
        const int64_t width = sr_x86_min(g->stride_w, g->w - w);
        for (int64_t i = 0; i < height; i++) {
            const int64_t used = i == 0;
            char *to = (char *)y + (size_t)(pw_pixel(g, m) + i * g->w + used) * pixel;
            memset(to, 0, (size_t)(width - used) * pixel);
        }
    }
}

// ---- passes ----

// The current work: the rows of a pass, and a piece of their inputs.
typedef struct pw_pass {
    const void *x;
    void *y;
    const float *bias, *weights; // of the piece
    sr_x86_range rows;
    int64_t c, count;             // the piece
    const float *from;            // its first row
    int64_t pitch;                // of from
    int direct;                   // of from
    float *packed, *sums, *spare; // scratch: rows; sums of unfinished pieces; of one tile
    const char *fetch, *end;      // data of the next pass to prefetch
} pw_pass;

SR_INLINE void pw_run_tile(const sr_x86_pointwise *g, pw_pass *p, pw_panel panel, int64_t row,
                           int rows, sr_dtype type, bool pairs) {
    const int64_t width = panel.vectors * SR_ELEMENTS, m = p->rows.begin + row;
    const int64_t n = sr_x86_min(rows, p->rows.end - m);
    const bool last = p->c + p->count == g->in;
    float *sums = g->piece < g->in ? p->sums + panel.first * g->sum_rows + row * width : p->spare;
    pw_tile t = {.x = p->from + row * p->pitch,
                 .pitch = p->pitch,
                 .w = p->weights + panel.first * p->count,
                 .count = p->count,
                 .width = width,
                 .before = p->c > 0 ? sums : NULL,
                 .to = sums,
                 .to_pitch = width};
    const bool fetching = p->fetch < p->end;
    t.fetch = fetching ? p->fetch : (const char *)t.w;
    t.fetch_step = fetching ? g->fetch_step : 0;
    if (last && rows != PW_FEW_ROWS && n == rows && panel.first + width <= g->out && !g->spread) {
        t.to = p->y;
        t.place = m * g->out + panel.first;
        t.to_pitch = g->out;
        t.bias = p->bias == NULL ? NULL : p->bias + panel.first;
        pw_panel_tile(&t, rows, panel.vectors, p->direct, type, pairs);
    } else {
        pw_panel_tile(&t, rows, panel.vectors, p->direct, SR_F32, pairs);
        if (last)
            pw_finish(g, sums, p->bias, m, n, panel, p->y, type);
    }
    if (fetching)
        p->fetch = t.fetch;
}

// Number of rows that are read in place: tiles extend beyond the rows, so the last ones are always
// packed.
SR_INLINE int64_t pw_whole(const sr_x86_pointwise *g, int64_t rows) {
    return g->direct > 0 && rows > SR_X86_POINTWISE_ROWS ? rows - SR_X86_POINTWISE_ROWS : 0;
}

// Computes all panels for one piece of the inputs, whose rows are packed.
SR_INLINE void pw_run_piece(const sr_x86_pointwise *g, pw_pass *p, sr_dtype type, bool pairs) {
    const int64_t count = p->rows.end - p->rows.begin, whole = pw_whole(g, count);
    for (int64_t i = 0; i < g->panels.count; i++) {
        const pw_panel panel = pw_panel_of(&g->panels, i);
        for (int64_t row = 0; row < count;) {
            const int rows = pw_tile_rows(panel.vectors, count - row);
            const bool direct = row + rows <= count && g->direct > 0;
            p->direct = direct ? g->direct : 0;
            p->pitch = direct ? g->in : SR_X86_POINTWISE_PITCH;
            p->from = direct ? (const float *)p->x + p->rows.begin * g->in
                             : p->packed - whole * SR_X86_POINTWISE_PITCH;
            pw_run_tile(g, p, panel, row, rows, type, pairs);
            row += rows;
        }
    }
}

// Continues prefetching the data of the next pass, even beyond the block: usually the same thread
// reads it, and otherwise the threads share a cache.
SR_INLINE void pw_fetch_next(const sr_x86_pointwise *g, pw_pass *p, sr_dtype type) {
    if (g->strided && !g->spread)
        return;
    const int64_t row = g->in * sr_x86_bytes(type);
    const int64_t end = sr_x86_min(p->rows.end + SR_X86_POINTWISE_PASS, g->rows);
    const char *begin = (const char *)p->x + p->rows.end * row;
    p->fetch = p->fetch > begin ? p->fetch : begin;
    p->end = (const char *)p->x + end * row;
}

// Divides the scratch.
SR_INLINE void pw_begin_passes(const sr_x86_pointwise *g, pw_pass *p, float *scratch) {
    p->spare = scratch;
    p->packed = p->spare + SR_X86_POINTWISE_ROWS * SR_X86_POINTWISE_VECTORS * SR_ELEMENTS;
    p->sums = p->packed + g->sum_rows * SR_X86_POINTWISE_PITCH;
}

SR_INLINE void pw_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                        const float *bias, void *y, sr_dtype type) {
    const sr_x86_pointwise *g = args->state;
    const sr_x86_range rows = sr_x86_block_range(g->rows, block, args->block_rows);
    pw_pass p = {.x = args->p[0], .y = y, .bias = bias};
    pw_begin_passes(g, &p, worker->scratch);
    for (int64_t m = rows.begin; m < rows.end; m += SR_X86_POINTWISE_PASS) {
        p.rows = (sr_x86_range){m, sr_x86_min(rows.end, m + SR_X86_POINTWISE_PASS)};
        pw_fetch_next(g, &p, type);
        if (g->spread)
            pw_clear(g, p.rows, y, type);
        for (p.c = 0; p.c < g->in; p.c += g->piece) {
            p.count = sr_x86_min(g->piece, g->in - p.c);
            p.weights = (const float *)args->workspace + p.c * g->panels.columns;
            const int64_t whole = pw_whole(g, p.rows.end - p.rows.begin);
            const sr_x86_range rest = {p.rows.begin + whole, p.rows.end};
            pw_pack_rows(g, p.x, rest, p.c, p.count, p.packed, type);
            pw_run_piece(g, &p, type, false);
        }
    }
}

SR_X86_TYPED(pw_forward, pw_block(args, block, worker, args->p[2], args->p[3], type))
SR_X86_TYPED(pw_dx, pw_block(args, block, worker, NULL, args->p[2], type))

#endif
