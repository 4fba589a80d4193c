// SPDX-License-Identifier: Apache-2.0
// linear, linear_dx and linear_dw by oneDNN's single-precision matrix product (row-major).
//
// A block is a range of columns of the result (rows of dw): it reads its part of the weights once
// and all of the activations, which are small, and there are no partial sums. Where T is bf16,
// activations are widened (stage 0, once) and weights rounded to bf16, and results rounded once at
// the end.
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/cpu/onednn/onednn_internal.h"

#define RANGE 128 // columns of a block

typedef struct linear_state {
    sr_linear_params p;
    bool bf16;
    sr_onednn_cast widen_x, widen_dy; // all of x, all of dy
    size_t x_bytes;                   // of the f32 copy of x in the workspace
} linear_state;

static void linear_free(void *memory) {
    linear_state *s = memory;
    sr_onednn_cast_release(&s->widen_x);
    sr_onednn_cast_release(&s->widen_dy);
    sr_free(s);
}

typedef struct linear_range {
    int64_t begin, width;
} linear_range;

static linear_range range_of(int64_t block, int64_t all) {
    const int64_t begin = block * RANGE;
    return (linear_range){begin, begin + RANGE < all ? RANGE : all - begin};
}

static float rounded(float value, bool bf16) {
    return bf16 ? sr_bf16_to_f32(sr_f32_to_bf16(value)) : value;
}

// A block's part of w, rounded to T: w itself, or a copy in scratch ('rows' by 'width').
static const float *weights_of(const linear_state *s, const float *w, int64_t rows, int64_t width,
                               int64_t *stride, sr_worker *worker) {
    if (!s->bf16)
        return w;
    float *copy = worker->scratch;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++)
            copy[r * width + i] = rounded(w[r * *stride + i], true);
    *stride = width;
    return copy;
}

static void store_tile(const linear_state *s, const float *tile, linear_range r, int64_t columns,
                       const float *bias, void *out) {
    for (int64_t n = 0; n < s->p.n; n++) {
        for (int64_t i = 0; i < r.width; i++) {
            const float v = tile[n * r.width + i] + (bias != NULL ? bias[r.begin + i] : 0.0f);
            const int64_t at = n * columns + r.begin + i;
            if (s->bf16)
                ((uint16_t *)out)[at] = sr_f32_to_bf16(v);
            else
                ((float *)out)[at] = v;
        }
    }
}

// y[:, range] = x w[range, :]^T + bias
static sr_status forward_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const linear_state *s = args->state;
    const int64_t n = s->p.n, c = s->p.c, k = s->p.k;
    const linear_range r = range_of(block, k);
    const float *x = s->bf16 ? args->workspace : args->p[0];
    int64_t stride = c;
    const float *w =
        weights_of(s, (const float *)args->p[1] + r.begin * c, r.width, c, &stride, worker);
    float *tile = (float *)worker->scratch + (s->bf16 ? RANGE * c : 0);
    SR_ONEDNN_TRY(dnnl_sgemm('N', 'T', n, r.width, c, 1.0f, x, c, w, stride, 0.0f, tile, r.width));
    store_tile(s, tile, r, k, args->p[2], args->p[3]);
    return SR_OK;
}

// dx[:, range] = dy w[:, range]
static sr_status dx_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const linear_state *s = args->state;
    const int64_t n = s->p.n, c = s->p.c, k = s->p.k;
    const linear_range r = range_of(block, c);
    const float *dy = s->bf16 ? args->workspace : args->p[0];
    int64_t stride = c;
    const float *w =
        weights_of(s, (const float *)args->p[1] + r.begin, k, r.width, &stride, worker);
    float *tile = (float *)worker->scratch + (s->bf16 ? RANGE * k : 0);
    SR_ONEDNN_TRY(dnnl_sgemm('N', 'N', n, r.width, k, 1.0f, dy, k, w, stride, 0.0f, tile, r.width));
    store_tile(s, tile, r, c, NULL, args->p[2]);
    return SR_OK;
}

// dw[range, :] = dy[:, range]^T x
static sr_status dw_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const linear_state *s = args->state;
    const int64_t n = s->p.n, c = s->p.c, k = s->p.k;
    const linear_range r = range_of(block, k);
    const float *x = s->bf16 ? args->workspace : args->p[0];
    const float *dy =
        s->bf16 ? (const float *)((const char *)args->workspace + s->x_bytes) : args->p[1];
    float *dw = (float *)args->p[2] + r.begin * c;
    SR_ONEDNN_TRY(dnnl_sgemm('T', 'N', r.width, c, n, 1.0f, dy + r.begin, k, x, c, 0.0f, dw, c));
    return SR_OK;
}

// Stage 0 where T is bf16: f32 copies of the activations. Block 1 is dy of linear_dw.
static sr_status widen_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const linear_state *s = args->state;
    if (block == 0)
        return sr_onednn_cast_run(&s->widen_x, args->p[0], args->workspace);
    return sr_onednn_cast_run(&s->widen_dy, args->p[1], (char *)args->workspace + s->x_bytes);
}

static sr_status prepare(const sr_kernel_request *request, sr_kernel_fn run, int64_t columns,
                         int64_t first_count, int64_t second_count, size_t scratch,
                         sr_prepared *out) {
    // dnnl_sgemm needs no engine, but creating it limits oneDNN to the processor features that
    // serried allows, which oneDNN refuses after its first computation.
    dnnl_engine_t engine = NULL;
    SR_TRY(sr_onednn_engine(&engine));
    linear_state *s = sr_alloc(sizeof *s, "a oneDNN linear layer");
    if (s == NULL)
        return SR_E_MEMORY;
    memcpy(&s->p, request->params, sizeof s->p);
    s->bf16 = request->dtype[0] == SR_BF16;
    s->x_bytes = sr_onednn_align((size_t)first_count * sizeof(float));
    out->state = s;
    out->state_free = linear_free;
    out->scratch = scratch;
    if (s->bf16) {
        sr_status status = sr_onednn_cast_init(&s->widen_x, SR_BF16, SR_F32, first_count);
        if (status == SR_OK && second_count > 0)
            status = sr_onednn_cast_init(&s->widen_dy, SR_BF16, SR_F32, second_count);
        if (status != SR_OK) {
            linear_free(s);
            return status;
        }
        out->workspace = s->x_bytes + (size_t)second_count * sizeof(float);
        out->stage[out->stages++] =
            (sr_kernel_stage){.run = widen_block, .blocks = second_count > 0 ? 2 : 1};
    }
    out->stage[out->stages++] =
        (sr_kernel_stage){.run = run, .blocks = (columns + RANGE - 1) / RANGE};
    return SR_OK;
}

// Floats of a tile of the result, and of the rounded weights.
static size_t tile_scratch(const sr_linear_params *p, int64_t depth, bool bf16) {
    return (size_t)(RANGE * (p->n + (bf16 ? depth : 0))) * sizeof(float);
}

sr_status sr_onednn_prepare_linear(const sr_kernel_request *request, sr_prepared *out) {
    const sr_linear_params *p = (const void *)request->params;
    return prepare(request, forward_block, p->k, p->n * p->c, 0,
                   tile_scratch(p, p->c, request->dtype[0] == SR_BF16), out);
}

sr_status sr_onednn_prepare_linear_dx(const sr_kernel_request *request, sr_prepared *out) {
    const sr_linear_params *p = (const void *)request->params;
    return prepare(request, dx_block, p->c, p->n * p->k, 0,
                   tile_scratch(p, p->k, request->dtype[0] == SR_BF16), out);
}

sr_status sr_onednn_prepare_linear_dw(const sr_kernel_request *request, sr_prepared *out) {
    const sr_linear_params *p = (const void *)request->params;
    return prepare(request, dw_block, p->k, p->n * p->c, p->n * p->k, 0, out);
}
