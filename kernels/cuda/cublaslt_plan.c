// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's matrices are stored by columns, so ours are the transposed ones there: its D = A B is
// c^T = b^T a^T, with its A our b and its B our a.
#include "kernels/cuda/cublaslt_plan.h"

#include <pthread.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/cuda_lanes.h"

enum {
    ALIGNMENT = 64,    // of the arguments of kernels
    MOST_CHOICES = 16, // of the heuristics
};
#define WORKSPACE ((uint64_t)32 << 20) // bytes that an algorithm may use

// One dimension of the batches: how many matrices, and the elements from one to the next.
typedef struct axis {
    int64_t count, a, b, c;
} axis;

// Which products cuBLASLt is asked for: one call computes a batch, and is repeated along 'loop'.
typedef struct shape {
    int64_t rows, terms, columns;
    axis batch, loop[SR_MATMUL_DIMS];
    int loops;
} shape;

struct sr_cublaslt_plan {
    sr_cublaslt_plan *next;
    int ordinal; // of its device
    sr_cublaslt_product product;
    shape shape;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c; // of our matrices
    bool found;                     // whether there is an algorithm
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
};

// ---- Batches ----

// Neighbouring dimensions whose steps continue each other are joined; those of one matrix are left
// out.
static int join_axes(const sr_matmul_params *p, axis out[SR_MATMUL_DIMS]) {
    int count = 0;
    int64_t inner = 1; // results of the dimensions after d
    for (int d = SR_MATMUL_DIMS - 1; d >= 0; inner *= p->dim[d], d--) {
        const axis next = {.count = p->dim[d],
                           .a = p->a_step[d] * p->rows * p->terms,
                           .b = p->b_step[d] * p->terms * p->columns,
                           .c = inner * p->rows * p->columns};
        axis *last = count > 0 ? &out[count - 1] : NULL;
        if (next.count == 1)
            continue;
        if (last && next.a == last->a * last->count && next.b == last->b * last->count)
            last->count *= next.count;
        else
            out[count++] = next;
    }
    return count;
}

static void remove_axis(axis *axes, int *count, int i) {
    (*count)--;
    memmove(&axes[i], &axes[i + 1], (size_t)(*count - i) * sizeof *axes);
}

// Matrices a one after the other, all of which are multiplied by the same b, are one with more
// rows. Of the dimensions that remain the largest is the batch.
static shape shape_of(const sr_matmul_params *p) {
    shape s = {.rows = p->rows, .terms = p->terms, .columns = p->columns, .batch = {.count = 1}};
    s.loops = join_axes(p, s.loop);
    if (s.loops > 0 && !p->transpose_a && s.loop[0].b == 0 && s.loop[0].a == p->rows * p->terms &&
        s.loop[0].count <= INT32_MAX / p->rows) {
        s.rows *= s.loop[0].count;
        remove_axis(s.loop, &s.loops, 0);
    }
    int largest = 0;
    for (int i = 1; i < s.loops; i++)
        if (s.loop[i].count > s.loop[largest].count)
            largest = i;
    if (s.loops > 0) {
        s.batch = s.loop[largest];
        remove_axis(s.loop, &s.loops, largest);
    }
    return s;
}

// The largest power of two that divides these bytes and the arguments' alignment.
static uint32_t alignment_of(uint64_t bytes) {
    const uint64_t both = bytes | ALIGNMENT;
    return (uint32_t)(both & (~both + 1));
}

// ---- Making ----

// The first failure; after it nothing is called but what destroys.
typedef struct making {
    const sr_cublaslt_calls *calls;
    cublasLtHandle_t handle;
    cublasLtMatmulPreference_t preference;
    cublasStatus_t status;
    const char *what; // that failed
} making;

static void note(making *m, cublasStatus_t status, const char *what) {
    if (m->status == CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_SUCCESS) {
        m->status = status;
        m->what = what;
    }
}

static bool is_well(const making *m) {
    return m->status == CUBLAS_STATUS_SUCCESS;
}

static cudaDataType_t type_of(sr_dtype dtype) {
    return dtype == SR_BF16 ? CUDA_R_16BF : dtype == SR_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static void set_operation(making *m, cublasLtMatmulDesc_t operation,
                          cublasLtMatmulDescAttributes_t name, const void *value, size_t bytes) {
    if (is_well(m))
        note(m, m->calls->cublasLtMatmulDescSetAttribute(operation, name, value, bytes),
             "describing a product");
}

static void make_operation(making *m, sr_cublaslt_plan *plan) {
    const int32_t transpose_a = plan->product.p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t transpose_b = plan->product.p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    // Only its alignment counts before a launch.
    const void *const bias = (const void *)(uintptr_t)SR_CUDA_LIBRARY_ALIGNMENT;
    const cublasComputeType_t compute =
        plan->product.dtype == SR_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    note(m, m->calls->cublasLtMatmulDescCreate(&plan->operation, compute, CUDA_R_32F),
         "describing a product");
    set_operation(m, plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transpose_b,
                  sizeof transpose_b);
    set_operation(m, plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &transpose_a,
                  sizeof transpose_a);
    if (!plan->product.bias)
        return;
    set_operation(m, plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    set_operation(m, plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

// A matrix of ours that is stored as 'lines' of 'length' elements.
static cublasLtMatrixLayout_t make_layout(making *m, sr_dtype dtype, int64_t lines, int64_t length,
                                          int64_t batches, int64_t step) {
    cublasLtMatrixLayout_t layout = NULL;
    const int32_t count = (int32_t)batches;
    if (is_well(m))
        note(m,
             m->calls->cublasLtMatrixLayoutCreate(&layout, type_of(dtype), (uint64_t)length,
                                                  (uint64_t)lines, length),
             "describing a matrix");
    if (batches == 1)
        return layout;
    if (is_well(m))
        note(m,
             m->calls->cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                        &count, sizeof count),
             "describing a batch");
    if (is_well(m))
        note(m,
             m->calls->cublasLtMatrixLayoutSetAttribute(
                 layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step),
             "describing a batch");
    return layout;
}

static void make_layouts(making *m, sr_cublaslt_plan *plan) {
    const sr_cublaslt_product *product = &plan->product;
    const shape *s = &plan->shape;
    const int64_t count = s->batch.count;
    plan->a = product->p.transpose_a
                  ? make_layout(m, product->dtype, s->terms, s->rows, count, s->batch.a)
                  : make_layout(m, product->dtype, s->rows, s->terms, count, s->batch.a);
    plan->b = product->p.transpose_b
                  ? make_layout(m, product->dtype, s->columns, s->terms, count, s->batch.b)
                  : make_layout(m, product->dtype, s->terms, s->columns, count, s->batch.b);
    plan->c = make_layout(m, product->result, s->rows, s->columns, count, s->batch.c);
}

static void prefer(making *m, cublasLtMatmulPreferenceAttributes_t name, const void *value,
                   size_t bytes) {
    if (is_well(m))
        note(m, m->calls->cublasLtMatmulPreferenceSetAttribute(m->preference, name, value, bytes),
             "limiting the algorithms");
}

// Bytes that the addresses of all matrices are multiples of.
typedef struct alignments {
    uint32_t a, b, c;
} alignments;

static alignments alignments_of(const sr_cublaslt_plan *plan) {
    const shape *s = &plan->shape;
    uint64_t a = (uint64_t)s->batch.a, b = (uint64_t)s->batch.b, c = (uint64_t)s->batch.c;
    for (int i = 0; i < s->loops; i++) {
        a |= (uint64_t)s->loop[i].a;
        b |= (uint64_t)s->loop[i].b;
        c |= (uint64_t)s->loop[i].c;
    }
    const uint64_t size = sr_dtype_size(plan->product.dtype);
    return (alignments){.a = alignment_of(a * size),
                        .b = alignment_of(b * size),
                        .c = alignment_of(c * sr_dtype_size(plan->product.result))};
}

static void make_preference(making *m, const sr_cublaslt_plan *plan) {
    const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
    const uint64_t workspace = WORKSPACE;
    const alignments align = alignments_of(plan);
    if (is_well(m))
        note(m, m->calls->cublasLtMatmulPreferenceCreate(&m->preference),
             "limiting the algorithms");
    prefer(m, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    prefer(m, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme);
    prefer(m, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align.b, sizeof align.b);
    prefer(m, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align.a, sizeof align.a);
    prefer(m, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align.c, sizeof align.c);
    prefer(m, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align.c, sizeof align.c);
}

// Whether each sum has one order.
static bool is_whole(making *m, const cublasLtMatmulAlgo_t *algorithm) {
    int32_t splits = 0;
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
    size_t written;
    note(m,
         m->calls->cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                                        &splits, sizeof splits, &written),
         "asking what an algorithm does");
    if (is_well(m)) {
        note(m,
             m->calls->cublasLtMatmulAlgoConfigGetAttribute(algorithm,
                                                            CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                            &scheme, sizeof scheme, &written),
             "asking what an algorithm does");
    }
    return splits == 1 && scheme == CUBLASLT_REDUCTION_SCHEME_NONE;
}

static void choose(making *m, sr_cublaslt_plan *plan) {
    cublasLtMatmulHeuristicResult_t result[MOST_CHOICES];
    int count = 0;
    if (is_well(m)) {
        note(m,
             m->calls->cublasLtMatmulAlgoGetHeuristic(m->handle, plan->operation, plan->b, plan->a,
                                                      plan->c, plan->c, m->preference, MOST_CHOICES,
                                                      result, &count),
             "asking for algorithms");
    }
    for (int i = 0; is_well(m) && !plan->found && i < count; i++) {
        if (result[i].state != CUBLAS_STATUS_SUCCESS || result[i].workspaceSize > WORKSPACE ||
            !is_whole(m, &result[i].algo))
            continue;
        plan->algorithm = result[i].algo;
        plan->workspace = result[i].workspaceSize;
        plan->found = true;
    }
}

// The algorithm of one lane, if it can compute all of them.
static void take(making *m, const sr_cublaslt_plan *lane, sr_cublaslt_plan *plan) {
    const alignments own = alignments_of(plan), needed = alignments_of(lane);
    cublasLtMatmulHeuristicResult_t result;
    memset(&result, 0, sizeof result);
    plan->algorithm = lane->algorithm;
    if (is_well(m)) {
        note(m,
             m->calls->cublasLtMatmulAlgoCheck(m->handle, plan->operation, plan->b, plan->a,
                                               plan->c, plan->c, &plan->algorithm, &result),
             "checking an algorithm");
    }
    plan->workspace = result.workspaceSize;
    plan->found = is_well(m) && result.state == CUBLAS_STATUS_SUCCESS &&
                  plan->workspace <= WORKSPACE && own.a >= needed.a && own.b >= needed.b &&
                  own.c >= needed.c;
}

static void destroy_layout(const sr_cublaslt_calls *calls, cublasLtMatrixLayout_t *layout) {
    if (*layout)
        (void)calls->cublasLtMatrixLayoutDestroy(*layout);
    *layout = NULL;
}

static void destroy(const sr_cublaslt_calls *calls, sr_cublaslt_plan *plan) {
    destroy_layout(calls, &plan->a);
    destroy_layout(calls, &plan->b);
    destroy_layout(calls, &plan->c);
    if (plan->operation)
        (void)calls->cublasLtMatmulDescDestroy(plan->operation);
    plan->operation = NULL;
}

// Whether a failure follows from what is asked for, so that all ranks have it. Others, such as too
// little memory, must not decide who computes.
static bool is_refusal(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

static sr_status make(const sr_cublaslt_calls *calls, const sr_cublaslt_plan *lane,
                      sr_cublaslt_plan *plan) {
    making m = {.calls = calls};
    SR_TRY(sr_cublaslt_handle(&m.handle));
    make_operation(&m, plan);
    make_layouts(&m, plan);
    if (lane) {
        take(&m, lane, plan);
    } else {
        make_preference(&m, plan);
        choose(&m, plan);
    }
    if (m.preference)
        (void)calls->cublasLtMatmulPreferenceDestroy(m.preference);
    if (!plan->found)
        destroy(calls, plan);
    if (is_well(&m) || is_refusal(m.status))
        return SR_OK;
    return sr_cublaslt_fail(m.status, "%s", m.what);
}

// ---- All plans ----

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sr_cublaslt_plan *plans;

// Beyond these cuBLASLt takes no matrices.
static bool fits(const shape *s) {
    return s->rows <= INT32_MAX && s->terms <= INT32_MAX && s->columns <= INT32_MAX &&
           s->batch.count <= INT32_MAX;
}

// Products have no padding.
static bool is_same(const void *a, const void *b) {
    return memcmp(a, b, sizeof(sr_cublaslt_product)) == 0;
}

static sr_status find_or_make(const sr_cublaslt_calls *calls, int ordinal,
                              const sr_cublaslt_product *product, const sr_cublaslt_plan *lane,
                              const sr_cublaslt_plan **out) {
    for (*out = plans; *out; *out = (*out)->next)
        if ((*out)->ordinal == ordinal && is_same(&(*out)->product, product))
            return SR_OK;
    sr_cublaslt_plan *plan = sr_alloc(sizeof *plan, "a plan of cuBLASLt");
    if (!plan)
        return SR_E_MEMORY;
    plan->ordinal = ordinal;
    plan->product = *product;
    plan->shape = shape_of(&product->p);
    sr_status status = SR_OK;
    if (fits(&plan->shape)) {
        sr_cublaslt_lock();
        status = make(calls, lane, plan);
        sr_cublaslt_unlock();
    }
    if (status != SR_OK) {
        sr_free(plan);
        return status;
    }
    plan->next = plans;
    plans = plan;
    *out = plan;
    return SR_OK;
}

static sr_status find_for_lanes(const sr_cublaslt_calls *calls, int ordinal,
                                const sr_cublaslt_product *product, const sr_cublaslt_product *lane,
                                const sr_cublaslt_plan **out) {
    const sr_cublaslt_plan *one = NULL;
    if (lane) {
        SR_TRY(find_or_make(calls, ordinal, lane, NULL, &one));
        if (!one->found)
            return SR_OK;
    }
    return find_or_make(calls, ordinal, product, one, out);
}

sr_status sr_cublaslt_plan_find(const sr_cublaslt_product *product, const sr_cublaslt_product *lane,
                                const sr_cublaslt_plan **out) {
    const sr_cublaslt_calls *calls = sr_cublaslt_open();
    int ordinal = 0;
    *out = NULL;
    if (!calls)
        return SR_OK;
    const cudaError_t error = cudaGetDevice(&ordinal);
    if (error != cudaSuccess)
        return sr_cuda_fail(NULL, error, "asking for the device in use");
    (void)pthread_mutex_lock(&lock);
    const sr_status status = find_for_lanes(calls, ordinal, product, lane, out);
    (void)pthread_mutex_unlock(&lock);
    if (*out && !(*out)->found)
        *out = NULL;
    return status;
}

size_t sr_cublaslt_plan_workspace(const sr_cublaslt_plan *plan) {
    return plan->workspace;
}

// ---- Executing ----

static const void *element(const void *p, sr_dtype dtype, int64_t i) {
    return (const char *)p + i * (int64_t)sr_dtype_size(dtype);
}

// The elements of a, b and c at which a call's batch begins.
static axis first_of(const shape *s, int64_t call) {
    axis first = {0};
    for (int i = 0; i < s->loops; i++) {
        const axis *loop = &s->loop[i];
        const int64_t at = call % loop->count;
        call /= loop->count;
        first.a += at * loop->a;
        first.b += at * loop->b;
        first.c += at * loop->c;
    }
    return first;
}

static cublasStatus_t execute_batch(const sr_cublaslt_calls *calls, cublasLtHandle_t handle,
                                    const sr_cublaslt_plan *plan, void *stream,
                                    const sr_cublaslt_memory *memory, int64_t call) {
    const sr_cublaslt_product *product = &plan->product;
    const axis first = first_of(&plan->shape, call);
    const float alpha = (float)product->p.alpha, beta = 0.0f;
    char *const c = (char *)memory->c + first.c * (int64_t)sr_dtype_size(product->result);
    return calls->cublasLtMatmul(
        handle, plan->operation, &alpha, element(memory->b, product->dtype, first.b), plan->b,
        element(memory->a, product->dtype, first.a), plan->a, &beta, c, plan->c, c, plan->c,
        &plan->algorithm, memory->workspace, plan->workspace, stream);
}

static sr_status execute(const sr_cublaslt_plan *plan, void *stream,
                         const sr_cublaslt_memory *memory) {
    const sr_cublaslt_calls *calls = sr_cublaslt_open();
    cublasLtHandle_t handle;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    SR_TRY(sr_cublaslt_handle(&handle));
    if (plan->product.bias)
        status = calls->cublasLtMatmulDescSetAttribute(
            plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &memory->bias, sizeof memory->bias);
    int64_t count = 1;
    for (int i = 0; i < plan->shape.loops; i++)
        count *= plan->shape.loop[i].count;
    for (int64_t k = 0; k < count && status == CUBLAS_STATUS_SUCCESS; k++)
        status = execute_batch(calls, handle, plan, stream, memory, k);
    if (status != CUBLAS_STATUS_SUCCESS)
        return sr_cublaslt_fail(status, "a product");
    return SR_OK;
}

sr_status sr_cublaslt_plan_execute(const sr_cublaslt_plan *plan, void *stream,
                                   const sr_cublaslt_memory *memory) {
    sr_cublaslt_lock();
    const sr_status status = execute(plan, stream, memory);
    sr_cublaslt_unlock();
    return status;
}
