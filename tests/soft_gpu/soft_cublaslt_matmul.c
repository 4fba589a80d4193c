// SPDX-License-Identifier: Apache-2.0
// The stand-in for cuBLASLt: algorithms of a product, and its execution.
#include "tests/soft_gpu/soft_cublaslt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/soft_gpu/soft_cublaslt_product.h"
#include "tests/soft_gpu/soft_gpu.h"

enum { OPERANDS = 4, SPLITS = 5 }; // A, B, C, D; SPLITS is a prime (soft_cublaslt_product.cu)
enum { FAST = 16 };                // bytes of alignment that the faster algorithms need
static const char *const names[OPERANDS] = {"A", "B", "C", "D"};

// Everything that an algorithm is chosen for.
typedef struct product {
    soft_operation operation;
    soft_layout layout[OPERANDS];
} product;

// One that divides sums, one that is listed although it cannot be used, one that keeps sums in the
// workspace, and one that serves every product.
typedef enum algorithm_kind { SPLIT, UNUSABLE, IN_WORKSPACE, SIMPLE, KINDS } algorithm_kind;

// What an opaque algorithm holds.
typedef struct algorithm {
    uint64_t product, form; // hashes: of the product, and of it without its sizes
    algorithm_kind kind;
    int32_t splits;
    uint32_t reduction;
    uint32_t alignment[OPERANDS], bias_alignment;
    uint32_t check; // of what is before
} algorithm;
_Static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm fits");

static uint64_t hash(const void *data, size_t bytes) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return h;
}

uint32_t soft_product_draw(void) {
    static atomic_uint_least64_t number;
    const uint64_t n = atomic_fetch_add_explicit(&number, 1, memory_order_relaxed);
    return (uint32_t)(hash(&n, sizeof n) >> 20);
}

static size_t size_of(cudaDataType_t type) {
    return type == CUDA_R_32F ? 4 : 2;
}

static uint32_t lowest_bit(uint64_t bytes) {
    return (uint32_t)(bytes & (~bytes + 1));
}

// ---- What is asked for ----

static product product_of(cublasLtMatmulDesc_t operation,
                          const cublasLtMatrixLayout_t layout[OPERANDS]) {
    product p;
    memset(&p, 0, sizeof p);
    p.operation = soft_cublaslt_object(operation, SOFT_OPERATION)->is.operation;
    for (int i = 0; i < OPERANDS; i++)
        p.layout[i] = soft_cublaslt_object(layout[i], SOFT_LAYOUT)->is.layout;
    return p;
}

// An algorithm does not depend on where the bias is.
static uint64_t hash_product(product p) {
    p.operation.bias = NULL;
    return hash(&p, sizeof p);
}

// What an algorithm can compute in other sizes, too.
static uint64_t hash_form(product p) {
    for (int i = 0; i < OPERANDS; i++)
        p.layout[i] = (soft_layout){.type = p.layout[i].type};
    return hash_product(p);
}

static cublasStatus_t check_types(const product *p) {
    const cudaDataType_t a = p->layout[0].type, d = p->layout[3].type;
    const cublasComputeType_t compute =
        a == CUDA_R_32F ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    if (p->operation.compute != compute || p->operation.scale != CUDA_R_32F)
        return soft_cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                                    "the stand-in computes in fp32, with factors in fp32, and "
                                    "products of fp32 in TF32");
    if ((a != CUDA_R_16BF && a != CUDA_R_16F && a != CUDA_R_32F) || p->layout[1].type != a ||
        (d != a && d != CUDA_R_32F) || p->layout[2].type != d)
        return soft_cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                                    "no product of types %d, %d, %d, %d", (int)a,
                                    (int)p->layout[1].type, (int)p->layout[2].type, (int)d);
    if (p->operation.epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
        p->operation.epilogue != CUBLASLT_EPILOGUE_BIAS)
        return soft_cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the stand-in has no epilogue %u",
                                    p->operation.epilogue);
    if (p->operation.epilogue == CUBLASLT_EPILOGUE_BIAS && p->operation.bias_type != -1 &&
        p->operation.bias_type != (int32_t)d)
        return soft_cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                                    "a bias of type %d for results of type %d",
                                    p->operation.bias_type, (int)d);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t check_layout(const soft_layout *l, const char *name, int32_t batches) {
    if (l->rows == 0 || l->columns == 0 || l->rows > INT32_MAX || l->columns > INT32_MAX ||
        l->step < (int64_t)l->rows) {
        return soft_cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE,
                                    "%s has %llu rows, %llu columns and %lld from one column to "
                                    "the next",
                                    name, (unsigned long long)l->rows,
                                    (unsigned long long)l->columns, (long long)l->step);
    }
    if (l->batches < 1 || l->batches != batches || l->batch_step < 0)
        return soft_cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE,
                                    "%s has %d batches, %lld elements each; A has %d", name,
                                    l->batches, (long long)l->batch_step, batches);
    return CUBLAS_STATUS_SUCCESS;
}

// Rows and columns of op(A) or op(B).
static uint64_t rows_of(const soft_layout *l, int32_t transpose) {
    return transpose == CUBLAS_OP_T ? l->columns : l->rows;
}

static uint64_t columns_of(const soft_layout *l, int32_t transpose) {
    return transpose == CUBLAS_OP_T ? l->rows : l->columns;
}

static cublasStatus_t check_shape(const product *p) {
    const soft_layout *a = &p->layout[0], *b = &p->layout[1], *d = &p->layout[3];
    const int32_t op_a = p->operation.transpose_a, op_b = p->operation.transpose_b;
    for (int i = 0; i < OPERANDS; i++) {
        const cublasStatus_t status = check_layout(&p->layout[i], names[i], a->batches);
        if (status != CUBLAS_STATUS_SUCCESS)
            return status;
    }
    if ((op_a != CUBLAS_OP_N && op_a != CUBLAS_OP_T) ||
        (op_b != CUBLAS_OP_N && op_b != CUBLAS_OP_T))
        return soft_cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "operations %d and %d", op_a,
                                    op_b);
    if (rows_of(a, op_a) != d->rows || columns_of(b, op_b) != d->columns ||
        columns_of(a, op_a) != rows_of(b, op_b) || p->layout[2].rows != d->rows ||
        p->layout[2].columns != d->columns)
        return soft_cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE,
                                    "the shapes of A, B, C and D make no product");
    if (d->batches > 1 && (uint64_t)d->batch_step < (d->columns - 1) * (uint64_t)d->step + d->rows)
        return soft_cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "the matrices D overlap");
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t check_product(const product *p) {
    const cublasStatus_t status = check_types(p);
    return status == CUBLAS_STATUS_SUCCESS ? check_shape(p) : status;
}

// ---- Algorithms ----

static void seal(algorithm *algo, cublasLtMatmulAlgo_t *out) {
    algo->check = (uint32_t)hash(algo, offsetof(algorithm, check));
    memset(out, 0, sizeof *out);
    memcpy(out, algo, sizeof *algo);
}

static algorithm unseal(const cublasLtMatmulAlgo_t *algo) {
    algorithm out;
    if (!algo)
        soft_gpu_mistake("cuBLASLt: no algorithm is given, so that each launch would choose one");
    memcpy(&out, algo, sizeof out);
    if (out.check != (uint32_t)hash(&out, offsetof(algorithm, check)))
        soft_gpu_mistake("cuBLASLt: an algorithm that no heuristics returned");
    return out;
}

static uint64_t results_of(const product *p) {
    const soft_layout *d = &p->layout[3];
    return d->rows * d->columns * (uint64_t)d->batches;
}

// Whether all addresses, columns and matrices are aligned to FAST.
static bool is_fast(const product *p, const uint32_t alignment[OPERANDS]) {
    for (int i = 0; i < OPERANDS; i++) {
        const soft_layout *l = &p->layout[i];
        const uint64_t size = size_of(l->type);
        if (alignment[i] < FAST || (uint64_t)l->step * size % FAST != 0 ||
            (l->batches > 1 && (uint64_t)l->batch_step * size % FAST != 0))
            return false;
    }
    return true;
}

static uint64_t workspace_of(algorithm_kind kind, const product *p) {
    const uint64_t bytes = results_of(p) * sizeof(float);
    return kind == SPLIT ? bytes * SPLITS : kind == SIMPLE ? 0 : bytes;
}

static cublasStatus_t status_of(algorithm_kind kind) {
    return kind == UNUSABLE ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

// Twice as many results have another one.
static int size_of_product(const product *p) {
    int size = 0;
    for (uint64_t n = results_of(p); n > 1; n /= 2)
        size++;
    return size;
}

// In the order of their speed, which for the last two depends on the size.
static algorithm_kind kind_of(int number, const product *p) {
    static const algorithm_kind kinds[2][KINDS] = {{SPLIT, UNUSABLE, IN_WORKSPACE, SIMPLE},
                                                   {SPLIT, UNUSABLE, SIMPLE, IN_WORKSPACE}};
    return kinds[size_of_product(p) % 2][number];
}

static int list(const product *p, const soft_preference *preference, algorithm base,
                cublasLtMatmulHeuristicResult_t result[], int room) {
    const bool may_split = (preference->reduction & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0 ||
                           soft_cublaslt_set_to("split");
    int count = 0;
    for (int number = 0; number < KINDS && count < room; number++) {
        const algorithm_kind kind = kind_of(number, p);
        algorithm algo = base;
        algo.kind = kind;
        algo.splits = kind == SPLIT ? SPLITS : 1;
        algo.reduction =
            kind == SPLIT ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
        for (int i = 0; i < OPERANDS; i++)
            if (kind != SIMPLE && algo.alignment[i] > FAST)
                algo.alignment[i] = FAST;
        const uint64_t workspace = workspace_of(kind, p);
        if (workspace > preference->workspace || (kind == SPLIT && !may_split) ||
            (kind != SIMPLE && !is_fast(p, base.alignment)))
            continue;
        result[count] = (cublasLtMatmulHeuristicResult_t){
            .workspaceSize = workspace, .state = status_of(kind), .wavesCount = 1.0f};
        seal(&algo, &result[count++].algo);
    }
    return count;
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t Adesc,
    cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
    cublasLtMatmulPreference_t preference, int requestedAlgoCount,
    cublasLtMatmulHeuristicResult_t heuristicResultsArray[], int *returnAlgoCount) {
    const cublasLtMatrixLayout_t layout[OPERANDS] = {Adesc, Bdesc, Cdesc, Ddesc};
    const product p = product_of(operationDesc, layout);
    const soft_preference *wanted =
        &soft_cublaslt_object(preference, SOFT_PREFERENCE)->is.preference;
    (void)soft_cublaslt_handle(lightHandle);
    if (requestedAlgoCount <= 0 || !heuristicResultsArray || !returnAlgoCount)
        return CUBLAS_STATUS_INVALID_VALUE;
    *returnAlgoCount = 0;
    const cublasStatus_t status = check_product(&p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (soft_cublaslt_set_to("none"))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    algorithm base = {.product = hash_product(p), .form = hash_form(p)};
    memcpy(base.alignment, wanted->alignment, sizeof base.alignment);
    if (p.operation.epilogue == CUBLASLT_EPILOGUE_BIAS) {
        base.bias_alignment = lowest_bit((uint64_t)(uintptr_t)p.operation.bias);
        if (base.bias_alignment == 0)
            return soft_cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE,
                                        "no alignment of the bias is known: its pointer is NULL");
    }
    *returnAlgoCount = list(&p, wanted, base, heuristicResultsArray, requestedAlgoCount);
    return CUBLAS_STATUS_SUCCESS;
}

// Products for which an algorithm of another one was checked.
typedef struct checked {
    struct checked *next;
    uint64_t product_hash;
    uint32_t algorithm_check;
} checked;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static checked *all_checked;

static bool serves(const algorithm *a, uint64_t product_hash) {
    (void)pthread_mutex_lock(&mutex);
    const checked *c = all_checked;
    while (c && (c->product_hash != product_hash || c->algorithm_check != a->check))
        c = c->next;
    (void)pthread_mutex_unlock(&mutex);
    return c || a->product == product_hash;
}

static void add_checked(const algorithm *a, uint64_t product_hash) {
    if (serves(a, product_hash))
        return;
    checked *c = calloc(1, sizeof *c);
    if (!c)
        soft_gpu_mistake("no memory of the host is left");
    c->product_hash = product_hash;
    c->algorithm_check = a->check;
    (void)pthread_mutex_lock(&mutex);
    c->next = all_checked;
    all_checked = c;
    (void)pthread_mutex_unlock(&mutex);
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t Adesc,
    cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
    const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result) {
    const cublasLtMatrixLayout_t layout[OPERANDS] = {Adesc, Bdesc, Cdesc, Ddesc};
    const product p = product_of(operationDesc, layout);
    const algorithm a = unseal(algo);
    (void)soft_cublaslt_handle(lightHandle);
    if (!result)
        return CUBLAS_STATUS_INVALID_VALUE;
    const cublasStatus_t status = check_product(&p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (a.form != hash_form(p))
        return soft_cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE,
                                    "the algorithm was chosen for other types or operations");
    const bool own = a.product == hash_product(p);
    if (status_of(a.kind) != CUBLAS_STATUS_SUCCESS || (soft_cublaslt_set_to("own") && !own) ||
        (a.kind != SIMPLE && !is_fast(&p, a.alignment)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    add_checked(&a, hash_product(p));
    result->state = CUBLAS_STATUS_SUCCESS; // and 'algo' stays as it was
    result->workspaceSize = workspace_of(a.kind, &p);
    result->wavesCount = 1.0f;
    return CUBLAS_STATUS_SUCCESS;
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t attr, void *buf,
    size_t sizeInBytes, size_t *sizeWritten) {
    const algorithm a = unseal(algo);
    const void *value = attr == CUBLASLT_ALGO_CONFIG_SPLITK_NUM         ? (const void *)&a.splits
                        : attr == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME ? &a.reduction
                                                                        : NULL;
    if (!value || !buf || !sizeWritten || sizeInBytes != sizeof(int32_t))
        return soft_cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE,
                                    "the stand-in has no attribute %d of %zu bytes of algorithms",
                                    (int)attr, sizeInBytes);
    memcpy(buf, value, sizeInBytes);
    *sizeWritten = sizeInBytes;
    return CUBLAS_STATUS_SUCCESS;
}

// ---- Execution ----

// An array that is read or written.
typedef struct range {
    const char *name;
    uint64_t begin, bytes;
} range;

static range range_of(const char *name, const void *at, uint64_t bytes, uint32_t alignment,
                      int device) {
    const range r = {name, (uint64_t)(uintptr_t)at, bytes};
    if (soft_gpu_bytes_at(at, device) < bytes)
        soft_gpu_mistake("cuBLASLt: %s, %llu bytes at %p, is not memory that device %d may access",
                         name, (unsigned long long)bytes, (void *)(uintptr_t)at, device);
    if (alignment > 0 && r.begin % alignment != 0)
        soft_gpu_mistake("cuBLASLt: %s is at %p, which is not aligned to %u bytes", name,
                         (void *)(uintptr_t)at, alignment);
    return r;
}

static uint64_t bytes_of(const soft_layout *l) {
    const uint64_t elements = (l->columns - 1) * (uint64_t)l->step + l->rows +
                              (uint64_t)(l->batches - 1) * (uint64_t)l->batch_step;
    return elements * size_of(l->type);
}

static void check_apart(const range *written, const range *other) {
    if (other->bytes > 0 && written->begin < other->begin + other->bytes &&
        other->begin < written->begin + written->bytes)
        soft_gpu_mistake("cuBLASLt: %s and %s overlap", written->name, other->name);
}

typedef struct call {
    const struct cublasLtContext *handle;
    product product;
    algorithm algorithm;
    const void *operand[OPERANDS];
    void *workspace;
    size_t workspace_bytes; // that the caller says it has
    cudaStream_t stream;
} call;

static cublasStatus_t check_call(const call *c) {
    const product *p = &c->product;
    const algorithm *a = &c->algorithm;
    const int device = c->handle->device;
    range r[OPERANDS + 2] = {{NULL, 0, 0}};
    if (!serves(a, hash_product(*p)))
        return soft_cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE,
                                    "the algorithm was chosen for another product");
    if (a->kind == UNUSABLE)
        return soft_cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                                    "an algorithm that heuristics list as not supported");
    if (workspace_of(a->kind, p) > c->workspace_bytes)
        return soft_cublaslt_refuse(
            CUBLAS_STATUS_INVALID_VALUE, "a workspace of %zu bytes; the algorithm needs %llu",
            c->workspace_bytes, (unsigned long long)workspace_of(a->kind, p));
    if (soft_gpu_stream_device(c->stream) != device)
        soft_gpu_mistake("cuBLASLt: a stream of device %d, a handle of device %d",
                         soft_gpu_stream_device(c->stream), device);
    for (int i = 0; i < OPERANDS; i++)
        r[i] = range_of(names[i], c->operand[i], bytes_of(&p->layout[i]), a->alignment[i], device);
    if (c->workspace_bytes > 0)
        r[OPERANDS] = range_of("the workspace", c->workspace, c->workspace_bytes,
                               SOFT_CUBLASLT_WORKSPACE, device);
    if (p->operation.epilogue == CUBLASLT_EPILOGUE_BIAS)
        r[OPERANDS + 1] =
            range_of("the bias", p->operation.bias, p->layout[3].rows * size_of(p->layout[3].type),
                     a->bias_alignment, device);
    for (int i = 0; i < OPERANDS + 2; i++) {
        if (i == OPERANDS || i == 3) // what is written
            continue;
        if (i != 2) // C may be D
            check_apart(&r[3], &r[i]);
        check_apart(&r[OPERANDS], &r[i]);
    }
    check_apart(&r[OPERANDS], &r[3]);
    return CUBLAS_STATUS_SUCCESS;
}

static soft_product_args arguments_of(const call *c, float alpha) {
    const soft_operation *o = &c->product.operation;
    const soft_layout *l = c->product.layout;
    union {
        const void *given;
        void *written;
    } d = {c->operand[3]};
    return (soft_product_args){
        .d = d.written,
        .a = c->operand[0],
        .b = c->operand[1],
        .bias = o->epilogue == CUBLASLT_EPILOGUE_BIAS ? o->bias : NULL,
        .workspace = c->algorithm.kind == SIMPLE ? NULL : c->workspace,
        .m = (int64_t)l[3].rows,
        .n = (int64_t)l[3].columns,
        .k = (int64_t)columns_of(&l[0], o->transpose_a),
        .batches = l[3].batches,
        .slices = c->algorithm.splits,
        .step_a = l[0].step,
        .step_b = l[1].step,
        .step_d = l[3].step,
        .batch_a = l[0].batch_step,
        .batch_b = l[1].batch_step,
        .batch_d = l[3].batch_step,
        .workspace_count = (int64_t)(c->workspace_bytes / sizeof(float)),
        .transpose_a = o->transpose_a == CUBLAS_OP_T,
        .transpose_b = o->transpose_b == CUBLAS_OP_T,
        .wide = l[3].type == CUDA_R_32F,
        .toward_zero = soft_cublaslt_set_to("toward-zero"),
        .any_order = c->algorithm.splits > 1,
        // where bits shall depend on the size
        .apart = soft_cublaslt_set_to("size") ? 1 + size_of_product(&c->product) : 0,
        .alpha = alpha};
}

static sr_dtype dtype_of(cudaDataType_t type) {
    return type == CUDA_R_16F ? SR_F16 : type == CUDA_R_16BF ? SR_BF16 : SR_F32;
}

static cublasStatus_t enqueue(const call *c, soft_product_args *args, soft_product_step step,
                              int64_t threads) {
    const sr_cuda_kernel *kernel = soft_product_kernel(step, dtype_of(c->product.layout[0].type));
    void *list[] = {args};
    const cudaLaunchConfig_t config = {
        .gridDim = {(unsigned)((threads + SOFT_PRODUCT_THREADS - 1) / SOFT_PRODUCT_THREADS), 1, 1},
        .blockDim = {SOFT_PRODUCT_THREADS, 1, 1},
        .stream = c->stream};
    return cudaLaunchKernelExC(&config, kernel->function, list) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}

static cublasStatus_t run(const call *c, float alpha) {
    soft_product_args args = arguments_of(c, alpha);
    const int64_t results = (int64_t)results_of(&c->product);
    if (c->algorithm.kind == SIMPLE)
        return enqueue(c, &args, SOFT_PRODUCT_WHOLE, results);
    const cublasStatus_t status = enqueue(c, &args, SOFT_PRODUCT_SLICES, args.workspace_count);
    return status == CUBLAS_STATUS_SUCCESS ? enqueue(c, &args, SOFT_PRODUCT_ADD, results) : status;
}

// A factor of the host.
static float factor(const void *p, const char *name, int device) {
    float value;
    if (!p || soft_gpu_bytes_at(p, device) > 0)
        soft_gpu_mistake("cuBLASLt: %s is at %p, which is no memory of the host", name,
                         (void *)(uintptr_t)p);
    memcpy(&value, p, sizeof value);
    return value;
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc, const void *alpha,
    const void *A, cublasLtMatrixLayout_t Adesc, const void *B, cublasLtMatrixLayout_t Bdesc,
    const void *beta, const void *C, cublasLtMatrixLayout_t Cdesc, void *D,
    cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo, void *workspace,
    size_t workspaceSizeInBytes, cudaStream_t stream) {
    const cublasLtMatrixLayout_t layout[OPERANDS] = {Adesc, Bdesc, Cdesc, Ddesc};
    const call c = {.handle = soft_cublaslt_handle(lightHandle),
                    .product = product_of(computeDesc, layout),
                    .algorithm = unseal(algo),
                    .operand = {A, B, C, D},
                    .workspace = workspace,
                    .workspace_bytes = workspaceSizeInBytes,
                    .stream = stream};
    const float scale = factor(alpha, "alpha", c.handle->device);
    if (factor(beta, "beta", c.handle->device) != 0.0f)
        return soft_cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the stand-in adds no matrix C");
    cublasStatus_t status = check_product(&c.product);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = check_call(&c);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = run(&c, scale);
    if (status == CUBLAS_STATUS_SUCCESS)
        soft_gpu_count_event("cublaslt_matmul");
    return status;
}
