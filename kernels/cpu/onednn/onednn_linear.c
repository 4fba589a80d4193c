// SPDX-License-Identifier: Apache-2.0
// linear, linear_dx, linear_dw and matmul by oneDNN's single-precision matrix product (row-major).
//
// A block is a range of columns of the result (rows of dw), of matmul of one product: it reads its
// part of the weights once and all of the activations, which are small, and there are no partial
// sums. Where T is bf16 or f16, activations are widened (stage 0, once) and weights rounded to T,
// and results rounded once at the end.
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/cpu/onednn/onednn_internal.h"
#include "kernels/reference_order.h"

#define RANGE 128  // columns of a block
#define CHUNK 4096 // numbers that are rounded at a time, in the first-level cache

typedef struct linear_state {
    sr_linear_params p;
    sr_dtype type;                    // T
    sr_onednn_cast widen_x, widen_dy; // all of x, all of dy; of matmul a matrix a, a matrix b
    sr_onednn_cast narrow, widen;     // CHUNK numbers
    size_t x_bytes;                   // of the f32 copy of x, or of a, in the workspace
} linear_state;

static void linear_free(void *memory) {
    linear_state *s = memory;
    sr_onednn_cast_release(&s->widen_x);
    sr_onednn_cast_release(&s->widen_dy);
    sr_onednn_cast_release(&s->narrow);
    sr_onednn_cast_release(&s->widen);
    sr_free(s);
}

typedef struct linear_range {
    int64_t begin, width;
} linear_range;

static linear_range range_of(int64_t block, int64_t all) {
    const int64_t begin = block * RANGE;
    return (linear_range){begin, begin + RANGE < all ? RANGE : all - begin};
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
static sr_status store_rounded(const linear_state *s, const float *tile, linear_range r,
                               int64_t columns, uint16_t *out) {
    uint16_t rounded[CHUNK];
    const int64_t rows = CHUNK / r.width;
    for (int64_t n = 0; n < s->p.n; n += rows) {
        SR_TRY(sr_onednn_cast_run(&s->narrow, tile + n * r.width, rounded));
        for (int64_t i = 0; i < rows && n + i < s->p.n; i++)
            memcpy(out + (n + i) * columns + r.begin, rounded + i * r.width,
                   (size_t)r.width * sizeof *out);
    }
    return SR_OK;
}

static sr_status store_tile(const linear_state *s, float *tile, linear_range r, int64_t columns,
                            const float *bias, void *out) {
    for (int64_t n = 0; n < s->p.n; n++) {
        float *to = s->type == SR_F32 ? (float *)out + n * columns + r.begin : tile + n * r.width;
        for (int64_t i = 0; i < r.width; i++)
            to[i] = tile[n * r.width + i] + (bias != NULL ? bias[r.begin + i] : 0.0f);
    }
    return s->type == SR_F32 ? SR_OK : store_rounded(s, tile, r, columns, out);
}

// The tile in a worker's scratch, after 'depth' rounded weights of each column.
static float *tile_of(const linear_state *s, int64_t depth, const sr_worker *worker) {
    return (float *)worker->scratch + (s->type == SR_F32 ? 0 : chunks_of(RANGE * depth));
}

// y[:, range] = x w[range, :]^T + bias
static sr_status forward_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const linear_state *s = args->state;
    const int64_t n = s->p.n, c = s->p.c, k = s->p.k;
    const linear_range r = range_of(block, k);
    const float *x = s->type == SR_F32 ? args->p[0] : args->workspace;
    const float *w;
    float *tile = tile_of(s, c, worker);
    int64_t stride = c;
    SR_TRY(weights_of(s, (const float *)args->p[1] + r.begin * c, r.width, c, &stride, worker, &w));
    SR_ONEDNN_TRY(dnnl_sgemm('N', 'T', n, r.width, c, 1.0f, x, c, w, stride, 0.0f, tile, r.width));
    return store_tile(s, tile, r, k, args->p[2], args->p[3]);
}

// dx[:, range] = dy w[:, range]
static sr_status dx_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const linear_state *s = args->state;
    const int64_t n = s->p.n, c = s->p.c, k = s->p.k;
    const linear_range r = range_of(block, c);
    const float *dy = s->type == SR_F32 ? args->p[0] : args->workspace;
    const float *w;
    float *tile = tile_of(s, k, worker);
    int64_t stride = c;
    SR_TRY(weights_of(s, (const float *)args->p[1] + r.begin, k, r.width, &stride, worker, &w));
    SR_ONEDNN_TRY(dnnl_sgemm('N', 'N', n, r.width, k, 1.0f, dy, k, w, stride, 0.0f, tile, r.width));
    return store_tile(s, tile, r, c, NULL, args->p[2]);
}

// dw[range, :] = dy[:, range]^T x
static sr_status dw_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const linear_state *s = args->state;
    const int64_t n = s->p.n, c = s->p.c, k = s->p.k;
    const linear_range r = range_of(block, k);
    const bool copies = s->type != SR_F32;
    const float *x = copies ? args->workspace : args->p[0];
    const float *dy =
        copies ? (const float *)((const char *)args->workspace + s->x_bytes) : args->p[1];
    float *dw = (float *)args->p[2] + r.begin * c;
    SR_ONEDNN_TRY(dnnl_sgemm('T', 'N', r.width, c, n, 1.0f, dy + r.begin, k, x, c, 0.0f, dw, c));
    return SR_OK;
}

// Stage 0 where T is not f32: f32 copies of the activations. Block 1 is dy of linear_dw.
static sr_status widen_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const linear_state *s = args->state;
    if (block == 0)
        return sr_onednn_cast_run(&s->widen_x, args->p[0], args->workspace);
    return sr_onednn_cast_run(&s->widen_dy, args->p[1], (char *)args->workspace + s->x_bytes);
}

// The state, with casts of so many numbers (0: none) where T is not f32.
static sr_status prepare_state(const sr_linear_params *p, sr_dtype type, int64_t first_count,
                               int64_t second_count, linear_state **out) {
    // dnnl_sgemm needs no engine, but creating it limits oneDNN to the processor features that
    // serried allows, which oneDNN refuses after its first computation.
    dnnl_engine_t engine = NULL;
    SR_TRY(sr_onednn_engine(&engine));
    linear_state *s = sr_alloc(sizeof *s, "a oneDNN linear layer");
    if (s == NULL)
        return SR_E_MEMORY;
    s->p = *p;
    s->type = type;
    sr_status status = SR_OK;
    if (type != SR_F32) {
        status = sr_onednn_cast_init(&s->widen_x, type, SR_F32, first_count);
        if (status == SR_OK && second_count > 0)
            status = sr_onednn_cast_init(&s->widen_dy, type, SR_F32, second_count);
        if (status == SR_OK)
            status = sr_onednn_cast_init(&s->narrow, SR_F32, type, CHUNK);
        if (status == SR_OK)
            status = sr_onednn_cast_init(&s->widen, type, SR_F32, CHUNK);
    }
    if (status != SR_OK)
        linear_free(s);
    else
        *out = s;
    return status;
}

static sr_status prepare(const sr_kernel_request *request, sr_kernel_fn run, int64_t columns,
                         int64_t first_count, int64_t second_count, size_t scratch,
                         sr_prepared *out) {
    linear_state *s;
    SR_TRY(prepare_state((const void *)request->params, request->dtype[0], first_count,
                         second_count, &s));
    s->x_bytes = sr_onednn_align((size_t)first_count * sizeof(float));
    out->state = s;
    out->state_free = linear_free;
    out->scratch = scratch;
    if (s->type != SR_F32) {
        out->workspace = s->x_bytes + (size_t)second_count * sizeof(float);
        out->stage[out->stages++] =
            (sr_kernel_stage){.run = widen_block, .blocks = second_count > 0 ? 2 : 1};
    }
    out->stage[out->stages++] =
        (sr_kernel_stage){.run = run, .blocks = (columns + RANGE - 1) / RANGE};
    return SR_OK;
}

// Bytes of a tile of the result, and of the rounded weights.
static size_t tile_scratch(const sr_linear_params *p, int64_t depth, sr_dtype type) {
    const int64_t tile = RANGE * p->n;
    const int64_t floats = type == SR_F32 ? tile : chunks_of(RANGE * depth) + chunks_of(tile);
    return (size_t)floats * sizeof(float);
}

sr_status sr_onednn_prepare_linear(const sr_kernel_request *request, sr_prepared *out) {
    const sr_linear_params *p = (const void *)request->params;
    return prepare(request, forward_block, p->k, p->n * p->c, 0,
                   tile_scratch(p, p->c, request->dtype[0]), out);
}

sr_status sr_onednn_prepare_linear_dx(const sr_kernel_request *request, sr_prepared *out) {
    const sr_linear_params *p = (const void *)request->params;
    return prepare(request, dx_block, p->c, p->n * p->k, 0,
                   tile_scratch(p, p->k, request->dtype[0]), out);
}

sr_status sr_onednn_prepare_linear_dw(const sr_kernel_request *request, sr_prepared *out) {
    const sr_linear_params *p = (const void *)request->params;
    return prepare(request, dw_block, p->k, p->n * p->c, p->n * p->k, 0, out);
}

// ---- matmul: a, b, c ----

// Stage 0 where T is not f32: f32 copies of the matrices a, then of the matrices b.
static sr_status widen_matrix(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const linear_state *s = args->state;
    const sr_matmul_params *p = args->params;
    const bool is_b = block >= p->a_count;
    const int64_t from =
        is_b ? (block - p->a_count) * p->terms * p->columns : block * p->rows * p->terms;
    float *copies = (float *)((char *)args->workspace + (is_b ? s->x_bytes : 0));
    return sr_onednn_cast_run(is_b ? &s->widen_dy : &s->widen_x,
                              (const uint16_t *)args->p[is_b] + from, copies + from);
}

// c[:, range] = alpha a b[:, range] of a batch
static sr_status matmul_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const linear_state *s = args->state;
    const sr_matmul_params *p = args->params;
    const int64_t n = p->rows, c = p->terms, k = p->columns, ranges = (k + RANGE - 1) / RANGE;
    const int64_t batch = block / ranges, result = batch * n * k;
    const sr_matmul_pair matrix = sr_matmul_pair_of(p, batch);
    const linear_range r = range_of(block % ranges, k);
    const bool copies = s->type != SR_F32, ta = p->transpose_a, tb = p->transpose_b;
    const float *a = copies ? args->workspace : args->p[0];
    const float *b =
        copies ? (const float *)((const char *)args->workspace + s->x_bytes) : args->p[1];
    float *to = copies ? worker->scratch : (float *)args->p[2] + result + r.begin;
    a += matrix.a * n * c;
    b += matrix.b * c * k + r.begin * (tb ? c : 1);
    SR_ONEDNN_TRY(dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', n, r.width, c, (float)p->alpha, a,
                             ta ? n : c, b, tb ? c : k, 0.0f, to, copies ? r.width : k));
    return copies ? store_rounded(s, to, r, k, (uint16_t *)args->p[2] + result) : SR_OK;
}

sr_status sr_onednn_prepare_matmul(const sr_kernel_request *request, sr_prepared *out) {
    const sr_matmul_params *p = (const void *)request->params;
    const sr_linear_params product = {p->rows, p->terms, p->columns};
    const int64_t a = p->rows * p->terms, b = p->terms * p->columns;
    linear_state *s;
    SR_TRY(prepare_state(&product, request->dtype[0], a, b, &s));
    s->x_bytes = sr_onednn_align((size_t)(p->a_count * a) * sizeof(float));
    out->state = s;
    out->state_free = linear_free;
    if (s->type != SR_F32) {
        out->scratch = (size_t)chunks_of(RANGE * p->rows) * sizeof(float);
        out->workspace = s->x_bytes + (size_t)(p->b_count * b) * sizeof(float);
        out->stage[out->stages++] =
            (sr_kernel_stage){.run = widen_matrix, .blocks = p->a_count + p->b_count};
    }
    out->stage[out->stages++] = (sr_kernel_stage){
        .run = matmul_block, .blocks = sr_matmul_batches(p) * ((p->columns + RANGE - 1) / RANGE)};
    return SR_OK;
}
