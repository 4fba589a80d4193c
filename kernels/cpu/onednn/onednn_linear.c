// SPDX-License-Identifier: Apache-2.0
// linear, linear_dx, linear_dw and matmul by oneDNN's single-precision matrix product (row-major).
//
// A block is a range of rows and columns of the result (of dw: of its rows), of matmul of one
// product; there are no partial sums. Where T is bf16 or f16, activations are widened (stage 0,
// once) and weights rounded to T, and results rounded once at the end.
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/cpu/onednn/onednn_internal.h"
#include "kernels/reference_order.h"

#define RANGE 128 // columns of a block
// Rows of a block; the last one has the rest, too. A multiple of the rows that every kernel of
// oneDNN takes at a time, and enough that it chooses the same one as for all rows.
#define TALL 384
#define CHUNK 4096 // numbers that are rounded at a time, in the first-level cache

// To f32: an array of rows, in blocks of rows.
typedef struct widening {
    sr_onednn_cast block, last;
    int64_t blocks, numbers; // of a block but the last
} widening;

typedef struct linear_state {
    sr_linear_params p;
    sr_dtype type;                // T
    widening first, second;       // x or dy, and of linear_dw dy; of matmul a, b
    sr_onednn_cast narrow, widen; // CHUNK numbers
    size_t first_bytes;           // of the f32 copy of the first in the workspace
} linear_state;

static void linear_free(void *memory) {
    linear_state *s = memory;
    widening *const both[] = {&s->first, &s->second};
    for (int i = 0; i < 2; i++) {
        sr_onednn_cast_release(&both[i]->block);
        sr_onednn_cast_release(&both[i]->last);
    }
    sr_onednn_cast_release(&s->narrow);
    sr_onednn_cast_release(&s->widen);
    sr_free(s);
}

// Rows [top, top + height) and columns [begin, begin + width) of the result.
typedef struct linear_part {
    int64_t top, height, begin, width;
} linear_part;

static int64_t ranges_of(int64_t columns) {
    return (columns + RANGE - 1) / RANGE;
}

static int64_t row_blocks_of(int64_t rows) {
    return rows < TALL ? 1 : rows / TALL;
}

static int64_t parts_of(int64_t rows, int64_t columns) {
    return row_blocks_of(rows) * ranges_of(columns);
}

static linear_part part_of(int64_t block, int64_t rows, int64_t columns) {
    const int64_t ranges = ranges_of(columns), top = block / ranges * TALL;
    const int64_t begin = block % ranges * RANGE;
    const bool last = block / ranges + 1 == row_blocks_of(rows);
    return (linear_part){.top = top,
                         .height = last ? rows - top : TALL,
                         .begin = begin,
                         .width = begin + RANGE < columns ? RANGE : columns - begin};
}

// Most rows of a block.
static int64_t most_rows(int64_t rows) {
    return rows < 2 * TALL ? rows : 2 * TALL - 1;
}

// Floats of scratch for 'count' numbers that are rounded: whole chunks.
static int64_t chunks_of(int64_t count) {
    return (count + CHUNK - 1) / CHUNK * CHUNK;
}

// A block's part of w, rounded to T: w itself, or a copy in scratch ('rows' by 'width').
static sr_status weights_of(const linear_state *s, const float *w, int64_t rows, int64_t width,
                            int64_t *stride, sr_worker *worker, const float **out) {
    *out = w;
    if (s->type == SR_F32)
        return SR_OK;
    uint16_t rounded[CHUNK];
    float *copy = worker->scratch;
    for (int64_t r = 0; r < rows; r++)
        memcpy(copy + r * width, w + r * *stride, (size_t)width * sizeof *copy);
    for (int64_t at = 0; at < rows * width; at += CHUNK) {
        SR_TRY(sr_onednn_cast_run(&s->narrow, copy + at, rounded));
        SR_TRY(sr_onednn_cast_run(&s->widen, rounded, copy + at));
    }
    *stride = width;
    *out = copy;
    return SR_OK;
}

// The rows of a tile to their place in the result, rounded to T.
static sr_status store_rounded(const linear_state *s, const float *tile, linear_part r,
                               int64_t columns, uint16_t *out) {
    uint16_t rounded[CHUNK];
    const int64_t rows = CHUNK / r.width;
    for (int64_t n = 0; n < r.height; n += rows) {
        SR_TRY(sr_onednn_cast_run(&s->narrow, tile + n * r.width, rounded));
        for (int64_t i = 0; i < rows && n + i < r.height; i++)
            memcpy(out + (r.top + n + i) * columns + r.begin, rounded + i * r.width,
                   (size_t)r.width * sizeof *out);
    }
    return SR_OK;
}

static sr_status store_tile(const linear_state *s, float *tile, linear_part r, int64_t columns,
                            const float *bias, void *out) {
    for (int64_t n = 0; n < r.height; n++) {
        float *to =
            s->type == SR_F32 ? (float *)out + (r.top + n) * columns + r.begin : tile + n * r.width;
        for (int64_t i = 0; i < r.width; i++)
            to[i] = tile[n * r.width + i] + (bias != NULL ? bias[r.begin + i] : 0.0f);
    }
    return s->type == SR_F32 ? SR_OK : store_rounded(s, tile, r, columns, out);
}

// The tile in a worker's scratch, after 'depth' rounded weights of each column.
static float *tile_of(const linear_state *s, int64_t depth, const sr_worker *worker) {
    return (float *)worker->scratch + (s->type == SR_F32 ? 0 : chunks_of(RANGE * depth));
}

// y[part] = x w[columns, :]^T + bias
static sr_status forward_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const linear_state *s = args->state;
    const int64_t c = s->p.c, k = s->p.k;
    const linear_part r = part_of(block, s->p.n, k);
    const float *x = s->type == SR_F32 ? args->p[0] : args->workspace;
    const float *w;
    float *tile = tile_of(s, c, worker);
    int64_t stride = c;
    SR_TRY(weights_of(s, (const float *)args->p[1] + r.begin * c, r.width, c, &stride, worker, &w));
    SR_ONEDNN_TRY(dnnl_sgemm('N', 'T', r.height, r.width, c, 1.0f, x + r.top * c, c, w, stride,
                             0.0f, tile, r.width));
    return store_tile(s, tile, r, k, args->p[2], args->p[3]);
}

// dx[part] = dy w[:, columns]
static sr_status dx_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const linear_state *s = args->state;
    const int64_t c = s->p.c, k = s->p.k;
    const linear_part r = part_of(block, s->p.n, c);
    const float *dy = s->type == SR_F32 ? args->p[0] : args->workspace;
    const float *w;
    float *tile = tile_of(s, k, worker);
    int64_t stride = c;
    SR_TRY(weights_of(s, (const float *)args->p[1] + r.begin, k, r.width, &stride, worker, &w));
    SR_ONEDNN_TRY(dnnl_sgemm('N', 'N', r.height, r.width, k, 1.0f, dy + r.top * k, k, w, stride,
                             0.0f, tile, r.width));
    return store_tile(s, tile, r, c, NULL, args->p[2]);
}

// dw[range, :] = dy[:, range]^T x
static sr_status dw_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const linear_state *s = args->state;
    const int64_t n = s->p.n, c = s->p.c, k = s->p.k;
    const linear_part r = part_of(block, 1, k);
    const bool copies = s->type != SR_F32;
    const float *x = copies ? args->workspace : args->p[0];
    const float *dy =
        copies ? (const float *)((const char *)args->workspace + s->first_bytes) : args->p[1];
    float *dw = (float *)args->p[2] + r.begin * c;
    SR_ONEDNN_TRY(dnnl_sgemm('T', 'N', r.width, c, n, 1.0f, dy + r.begin, k, x, c, 0.0f, dw, c));
    return SR_OK;
}

// Stage 0 where T is not f32: f32 copies of the activations, the first, then the second.
static sr_status widen_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const linear_state *s = args->state;
    const bool is_second = block >= s->first.blocks;
    const widening *w = is_second ? &s->second : &s->first;
    const int64_t i = is_second ? block - s->first.blocks : block, from = i * w->numbers;
    float *copies = (float *)((char *)args->workspace + (is_second ? s->first_bytes : 0));
    return sr_onednn_cast_run(i + 1 < w->blocks ? &w->block : &w->last,
                              (const uint16_t *)args->p[is_second] + from, copies + from);
}

static sr_status widening_init(widening *w, sr_dtype type, int64_t rows, int64_t columns) {
    w->blocks = row_blocks_of(rows);
    w->numbers = TALL * columns;
    if (w->blocks > 1)
        SR_TRY(sr_onednn_cast_init(&w->block, type, SR_F32, w->numbers));
    return sr_onednn_cast_init(&w->last, type, SR_F32,
                               rows * columns - (w->blocks - 1) * w->numbers);
}

// What is widened where T is not f32: rows of so many columns; the second may have none.
typedef struct activations {
    int64_t first_rows, first_columns, second_rows, second_columns;
} activations;

static sr_status casts_init(linear_state *s, const activations *a) {
    SR_TRY(widening_init(&s->first, s->type, a->first_rows, a->first_columns));
    if (a->second_columns > 0)
        SR_TRY(widening_init(&s->second, s->type, a->second_rows, a->second_columns));
    SR_TRY(sr_onednn_cast_init(&s->narrow, SR_F32, s->type, CHUNK));
    return sr_onednn_cast_init(&s->widen, s->type, SR_F32, CHUNK);
}

// The state, and stage 0 where T is not f32.
static sr_status prepare_state(const sr_linear_params *p, sr_dtype type, const activations *a,
                               sr_prepared *out) {
    // dnnl_sgemm needs no engine, but creating it limits oneDNN to the processor features that
    // serried allows, which oneDNN refuses after its first computation.
    dnnl_engine_t engine = NULL;
    SR_TRY(sr_onednn_engine(&engine));
    linear_state *s = sr_alloc(sizeof *s, "a oneDNN linear layer");
    if (s == NULL)
        return SR_E_MEMORY;
    s->p = *p;
    s->type = type;
    const int64_t first = a->first_rows * a->first_columns;
    const int64_t second = a->second_rows * a->second_columns;
    s->first_bytes = sr_onednn_align((size_t)first * sizeof(float));
    const sr_status status = type == SR_F32 ? SR_OK : casts_init(s, a);
    if (status != SR_OK) {
        linear_free(s);
        return status;
    }
    out->state = s;
    out->state_free = linear_free;
    if (type == SR_F32)
        return SR_OK;
    out->workspace = s->first_bytes + (size_t)second * sizeof(float);
    out->stage[out->stages++] =
        (sr_kernel_stage){.run = widen_block, .blocks = s->first.blocks + s->second.blocks};
    return SR_OK;
}

static sr_status prepare(const sr_kernel_request *request, sr_kernel_fn run, int64_t blocks,
                         const activations *a, size_t scratch, sr_prepared *out) {
    SR_TRY(prepare_state((const void *)request->params, request->dtype[0], a, out));
    out->scratch = scratch;
    out->stage[out->stages++] = (sr_kernel_stage){.run = run, .blocks = blocks};
    return SR_OK;
}

// Bytes of a tile of the result, and of the rounded weights.
static size_t tile_scratch(const sr_linear_params *p, int64_t depth, sr_dtype type) {
    const int64_t tile = RANGE * most_rows(p->n);
    const int64_t floats = type == SR_F32 ? tile : chunks_of(RANGE * depth) + chunks_of(tile);
    return (size_t)floats * sizeof(float);
}

sr_status sr_onednn_prepare_linear(const sr_kernel_request *request, sr_prepared *out) {
    const sr_linear_params *p = (const void *)request->params;
    return prepare(request, forward_block, parts_of(p->n, p->k), &(activations){p->n, p->c, 0, 0},
                   tile_scratch(p, p->c, request->dtype[0]), out);
}

sr_status sr_onednn_prepare_linear_dx(const sr_kernel_request *request, sr_prepared *out) {
    const sr_linear_params *p = (const void *)request->params;
    return prepare(request, dx_block, parts_of(p->n, p->c), &(activations){p->n, p->k, 0, 0},
                   tile_scratch(p, p->k, request->dtype[0]), out);
}

sr_status sr_onednn_prepare_linear_dw(const sr_kernel_request *request, sr_prepared *out) {
    const sr_linear_params *p = (const void *)request->params;
    return prepare(request, dw_block, ranges_of(p->k), &(activations){p->n, p->c, p->n, p->k}, 0,
                   out);
}

// ---- matmul: a, b, c ----

// c[part] = alpha a[rows, :] b[:, columns] of a batch
static sr_status matmul_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const linear_state *s = args->state;
    const sr_matmul_params *p = args->params;
    const int64_t n = p->rows, c = p->terms, k = p->columns, parts = parts_of(n, k);
    const int64_t batch = block / parts, result = batch * n * k;
    const sr_matmul_pair matrix = sr_matmul_pair_of(p, batch);
    const linear_part r = part_of(block % parts, n, k);
    const bool copies = s->type != SR_F32, ta = p->transpose_a, tb = p->transpose_b;
    const float *a = copies ? args->workspace : args->p[0];
    const float *b =
        copies ? (const float *)((const char *)args->workspace + s->first_bytes) : args->p[1];
    float *to = copies ? worker->scratch : (float *)args->p[2] + result + r.top * k + r.begin;
    a += matrix.a * n * c + r.top * (ta ? 1 : c);
    b += matrix.b * c * k + r.begin * (tb ? c : 1);
    SR_ONEDNN_TRY(dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', r.height, r.width, c, (float)p->alpha,
                             a, ta ? n : c, b, tb ? c : k, 0.0f, to, copies ? r.width : k));
    return copies ? store_rounded(s, to, r, k, (uint16_t *)args->p[2] + result) : SR_OK;
}

sr_status sr_onednn_prepare_matmul(const sr_kernel_request *request, sr_prepared *out) {
    const sr_matmul_params *p = (const void *)request->params;
    const sr_linear_params product = {p->rows, p->terms, p->columns};
    const activations both = {p->a_count * p->rows, p->terms, p->b_count * p->columns, p->terms};
    SR_TRY(prepare_state(&product, request->dtype[0], &both, out));
    if (request->dtype[0] != SR_F32)
        out->scratch = (size_t)chunks_of(RANGE * most_rows(p->rows)) * sizeof(float);
    out->stage[out->stages++] = (sr_kernel_stage){
        .run = matmul_block, .blocks = sr_matmul_batches(p) * parts_of(p->rows, p->columns)};
    return SR_OK;
}
