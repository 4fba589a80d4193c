// SPDX-License-Identifier: Apache-2.0
// The stand-in for cuBLASLt: what it computes, which algorithms it lists, and the mistakes that it
// finds, each in a process of its own beside the same program without the mistake.
#include "tests/soft_gpu/soft_gpu_fixture.h"

#include <cublasLt.h>

#include "tests/soft_gpu/soft_gpu.h"

// d = op(a) b + bias: M x K times K x N, for BATCHES; all columns are aligned to 16 bytes.
enum { M = 16, N = 8, K = 24, BATCHES = 2, MOST = 8 };
enum { A = M * K, B = K * N, D = M * N }; // elements

#define CALL(call) check_call(call, #call, __LINE__)

static void check_call(cublasStatus_t status, const char *call, int line) {
    if (status == CUBLAS_STATUS_SUCCESS)
        return;
    (void)fprintf(stderr, "line %d: %s: %s\n", line, call, cublasLtGetStatusString(status));
    exit(1);
}

// What a program asks for; a mistake is a change.
typedef struct setting {
    cublasComputeType_t compute;
    cudaDataType_t type, result;
    uint32_t epilogue, reduction, alignment;
    int64_t step_d; // elements to the next column of D
    int choice;     // of the algorithms that may be used
} setting;

static const setting usual = {.compute = CUBLAS_COMPUTE_32F,
                              .type = CUDA_R_16BF,
                              .result = CUDA_R_16BF,
                              .epilogue = CUBLASLT_EPILOGUE_BIAS,
                              .reduction = CUBLASLT_REDUCTION_SCHEME_NONE,
                              .alignment = 256,
                              .step_d = M};

typedef struct work {
    cudaStream_t stream;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result[MOST];
    int results, choice;
    void *at_a, *at_b, *at_d, *bias, *workspace;
    size_t workspace_bytes;
    float alpha, beta;
} work;

static uint16_t bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16); // exact for what is used here
}

static float from_bf16(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// Small numbers, so that every sum is exact.
static float element(int64_t i, int which) {
    return (float)((i * 7 + which * 5) % 9 - 4);
}

static void *device_numbers(int64_t count, int which, cudaStream_t stream) {
    uint16_t host[BATCHES * (A + B)];
    void *p = device_alloc((size_t)count * 2);
    for (int64_t i = 0; i < count; i++)
        host[i] = bf16(element(i, which));
    upload(p, host, (size_t)count * 2, stream);
    return p;
}

static cublasLtMatrixLayout_t layout_of(cudaDataType_t type, uint64_t rows, uint64_t columns,
                                        int64_t step, int64_t batch_step) {
    const int32_t batches = BATCHES;
    cublasLtMatrixLayout_t layout;
    CALL(cublasLtMatrixLayoutCreate(&layout, type, rows, columns, step));
    CALL(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches,
                                          sizeof batches));
    CALL(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                          &batch_step, sizeof batch_step));
    return layout;
}

static cublasStatus_t ask(work *w) {
    return cublasLtMatmulAlgoGetHeuristic(w->handle, w->operation, w->a, w->b, w->d, w->d,
                                          w->preference, MOST, w->result, &w->results);
}

// The n-th algorithm that may be used.
static int usable(const work *w, int n) {
    for (int i = 0; i < w->results; i++)
        if (w->result[i].state == CUBLAS_STATUS_SUCCESS && n-- == 0)
            return i;
    (void)fprintf(stderr, "no such algorithm\n");
    exit(1);
}

static void describe(work *w, const setting *s) {
    const int32_t transpose = CUBLAS_OP_T;
    const uint64_t limit = 1 << 20;
    CALL(cublasLtMatmulDescCreate(&w->operation, s->compute, CUDA_R_32F));
    CALL(cublasLtMatmulDescSetAttribute(w->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                        sizeof transpose));
    CALL(cublasLtMatmulDescSetAttribute(w->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &s->epilogue,
                                        sizeof s->epilogue));
    CALL(cublasLtMatmulDescSetAttribute(w->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &w->bias,
                                        sizeof w->bias));
    w->a = layout_of(s->type, K, M, K, A);
    w->b = layout_of(s->type, K, N, K, B);
    w->d = layout_of(s->result, M, N, s->step_d, D);
    CALL(cublasLtMatmulPreferenceCreate(&w->preference));
    CALL(cublasLtMatmulPreferenceSetAttribute(
        w->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit));
    CALL(cublasLtMatmulPreferenceSetAttribute(w->preference,
                                              CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                              &s->reduction, sizeof s->reduction));
    CALL(cublasLtMatmulPreferenceSetAttribute(w->preference,
                                              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                              &s->alignment, sizeof s->alignment));
}

static work begin(void) {
    work w = {.stream = make_stream(), .alpha = 1.0f};
    w.at_a = device_numbers(BATCHES * A, 0, w.stream);
    w.at_b = device_numbers(BATCHES * B, 1, w.stream);
    w.bias = device_numbers(M, 2, w.stream);
    w.at_d = device_alloc(BATCHES * D * sizeof(float));
    CALL(cublasLtCreate(&w.handle));
    return w;
}

static void choose(work *w, int choice) {
    CALL(ask(w));
    w->choice = usable(w, choice);
    w->workspace_bytes = w->result[w->choice].workspaceSize;
    w->workspace = w->workspace_bytes > 0 ? device_alloc(w->workspace_bytes) : NULL;
}

static work begin_usual(void) {
    work w = begin();
    describe(&w, &usual);
    choose(&w, 0);
    return w;
}

static cublasStatus_t multiply(const work *w) {
    return cublasLtMatmul(w->handle, w->operation, &w->alpha, w->at_a, w->a, w->at_b, w->b,
                          &w->beta, w->at_d, w->d, w->at_d, w->d, &w->result[w->choice].algo,
                          w->workspace, w->workspace_bytes, w->stream);
}

// The results are right. Ends the process with 8 if they are not.
static void expect_products(const work *w, const setting *s) {
    uint16_t narrow[BATCHES * D];
    float wide[BATCHES * D];
    const bool is_wide = s->result == CUDA_R_32F;
    void *const host = is_wide ? (void *)wide : (void *)narrow;
    download(host, w->at_d, BATCHES * D * (is_wide ? sizeof *wide : sizeof *narrow), w->stream);
    for (int i = 0; i < BATCHES * D; i++) {
        const int row = i % M, column = i / M % N, batch = i / D;
        float want = s->epilogue == CUBLASLT_EPILOGUE_BIAS ? element(row, 2) : 0.0f;
        for (int k = 0; k < K; k++)
            want += element(batch * A + row * K + k, 0) * element(batch * B + column * K + k, 1);
        const float got = is_wide ? wide[i] : from_bf16(narrow[i]);
        if (fabsf(got - want) > fabsf(want) / 128)
            exit(8);
    }
}

// ---- What is right ----

static void multiply_by_each(void) {
    setting s = usual;
    s.reduction = CUBLASLT_REDUCTION_SCHEME_MASK;
    for (int type = 0; type < 2; type++) {
        s.result = type ? CUDA_R_32F : CUDA_R_16BF;
        s.epilogue = type ? CUBLASLT_EPILOGUE_DEFAULT : CUBLASLT_EPILOGUE_BIAS;
        for (int choice = 0; choice < 3; choice++) {
            work w = begin();
            describe(&w, &s);
            choose(&w, choice);
            CALL(multiply(&w));
            expect_products(&w, &s);
        }
    }
}

static void test_products(void **state) {
    (void)state;
    expect_clean(multiply_by_each);
}

static int32_t splits_of(const work *w, int i) {
    int32_t splits;
    size_t written;
    CALL(cublasLtMatmulAlgoConfigGetAttribute(&w->result[i].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                              &splits, sizeof splits, &written));
    return splits;
}

// The first one divides sums unless that is forbidden, and one cannot be used.
static void list_algorithms(void) {
    for (int whole = 0; whole < 2; whole++) {
        setting s = usual;
        s.reduction = whole ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_MASK;
        work w = begin();
        describe(&w, &s);
        CALL(ask(&w));
        int refused = 0, split = 0;
        for (int i = 0; i < w.results; i++) {
            refused += w.result[i].state != CUBLAS_STATUS_SUCCESS;
            split += splits_of(&w, i) > 1;
        }
        if (w.results != 4 - whole || refused != 1 || split != 1 - whole ||
            (splits_of(&w, 0) > 1) != !whole)
            exit(8);
    }
}

static void test_algorithms(void **state) {
    (void)state;
    expect_clean(list_algorithms);
}

// Whether the chosen algorithm serves the product that is described now; then there is a workspace
// for it.
static cublasStatus_t check(work *w) {
    cublasLtMatmulHeuristicResult_t result = {.workspaceSize = 0};
    const cublasStatus_t status = cublasLtMatmulAlgoCheck(
        w->handle, w->operation, w->a, w->b, w->d, w->d, &w->result[w->choice].algo, &result);
    w->workspace_bytes = result.workspaceSize;
    w->workspace = w->workspace_bytes > 0 ? device_alloc(w->workspace_bytes) : NULL;
    return status;
}

// Half of the columns of B and D.
static void describe_half(work *w, cudaDataType_t result) {
    w->b = layout_of(CUDA_R_16BF, K, N / 2, K, B);
    w->d = layout_of(result, M, N / 2, M, D);
}

// An algorithm that was checked serves another product, with a workspace for that one.
static void check_algorithms(void) {
    for (int choice = 0; choice < 2; choice++) {
        work whole = begin_usual(), w = begin();
        CALL(multiply(&whole));
        describe(&w, &usual);
        choose(&w, choice);
        const size_t before = w.workspace_bytes;
        CALL(check(&w)); // its own
        if (w.workspace_bytes != before)
            exit(8);
        describe_half(&w, CUDA_R_16BF);
        CALL(check(&w));
        if (w.workspace_bytes != before / 2)
            exit(8);
        OK(cudaMemsetAsync(w.at_d, 0, BATCHES * D * 2, w.stream));
        CALL(multiply(&w));
        uint16_t want[BATCHES * D], got[BATCHES * D];
        download(want, whole.at_d, sizeof want, whole.stream);
        download(got, w.at_d, sizeof got, w.stream);
        for (int i = 0; i < BATCHES * D; i++)
            if (got[i] != (i % D < D / 2 ? want[i] : 0))
                exit(8);
    }
}

static void test_checks(void **state) {
    (void)state;
    expect_clean(check_algorithms);
}

// A graph has what was captured.
static void capture(void) {
    work w = begin_usual();
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamBeginCapture(w.stream, cudaStreamCaptureModeGlobal));
    CALL(multiply(&w));
    OK(cudaStreamEndCapture(w.stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 5; i++) {
        OK(cudaMemsetAsync(w.at_d, 0xff, BATCHES * D * 2, w.stream));
        OK(cudaGraphLaunch(exec, w.stream));
        expect_products(&w, &usual);
    }
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

static void test_capture(void **state) {
    (void)state;
    expect_clean(capture);
}

// ---- What heuristics refuse: the process ends with 7 ----

static void expect_refused(void (*function)(void), const char *message) {
    char text[CHILD_TEXT_BYTES];
    right = true;
    expect_clean(function);
    right = false;
    assert_int_equal(run_child(function, text, sizeof text), 7);
    if (!strstr(text, message))
        fail_msg("no message '%s' but: %s", message, text);
}

static setting changed;
static void ask_changed(void) {
    work w = begin();
    describe(&w, right ? &usual : &changed);
    exit(ask(&w) == CUBLAS_STATUS_SUCCESS ? 0 : 7);
}

static void test_refused_products(void **state) {
    (void)state;
    changed = usual;
    changed.compute = CUBLAS_COMPUTE_16F;
    expect_refused(ask_changed, "computes in fp32");
    changed = usual;
    changed.type = CUDA_R_32F;
    expect_refused(ask_changed, "products of fp32 in TF32");
    changed.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    changed.result = CUDA_R_16BF;
    expect_refused(ask_changed, "no product of types");
    changed = usual;
    changed.result = CUDA_R_16F;
    expect_refused(ask_changed, "no product of types");
    changed = usual;
    changed.epilogue = CUBLASLT_EPILOGUE_GELU;
    expect_refused(ask_changed, "no epilogue");
    changed = usual;
    changed.step_d = M - 1;
    expect_refused(ask_changed, "from one column to the next");
    changed = usual;
    changed.step_d = M + 1;
    expect_refused(ask_changed, "the matrices D overlap");
}

static void ask_with_shape(void) {
    work w = begin_usual();
    if (!right)
        w.b = layout_of(CUDA_R_16BF, K - 1, N, K, B);
    exit(ask(&w) == CUBLAS_STATUS_SUCCESS ? 0 : 7);
}

static void ask_without_bias(void) {
    work w = begin();
    void *const bias = w.bias;
    w.bias = right ? bias : NULL;
    describe(&w, &usual);
    exit(ask(&w) == CUBLAS_STATUS_SUCCESS ? 0 : 7);
}

static void set_short(void) {
    work w = begin_usual();
    const int64_t transpose = CUBLAS_OP_T;
    exit(cublasLtMatmulDescSetAttribute(w.operation, CUBLASLT_MATMUL_DESC_TRANSB, &transpose,
                                        right ? 4 : 8) == CUBLAS_STATUS_SUCCESS
             ? 0
             : 7);
}

static void set_unknown(void) {
    work w = begin_usual();
    const uint32_t value = 0;
    exit(cublasLtMatmulDescSetAttribute(
             w.operation, right ? CUBLASLT_MATMUL_DESC_EPILOGUE : CUBLASLT_MATMUL_DESC_FILL_MODE,
             &value, sizeof value) == CUBLAS_STATUS_SUCCESS
             ? 0
             : 7);
}

static void test_refused_descriptions(void **state) {
    (void)state;
    expect_refused(ask_with_shape, "make no product");
    expect_refused(ask_without_bias, "its pointer is NULL");
    expect_refused(set_short, "has 4 bytes, not 8");
    expect_refused(set_unknown, "no attribute");
}

// ---- What an execution refuses ----

static void finish(const work *w) {
    exit(multiply(w) == CUBLAS_STATUS_SUCCESS ? 0 : 7);
}

static void use_other_product(void) {
    work w = begin_usual();
    if (!right)
        w.b = layout_of(CUDA_R_16BF, K, N, K, B + 8);
    finish(&w);
}

static void check_other_type(void) {
    work w = begin_usual();
    describe_half(&w, right ? CUDA_R_16BF : CUDA_R_16F);
    exit(check(&w) == CUBLAS_STATUS_SUCCESS ? 0 : 7);
}

static void check_other_operation(void) {
    work w = begin_usual();
    const uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    if (!right)
        CALL(cublasLtMatmulDescSetAttribute(w.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                            sizeof epilogue));
    exit(check(&w) == CUBLAS_STATUS_SUCCESS ? 0 : 7);
}

static void check_misaligned(void) {
    work w = begin_usual();
    if (!right)
        w.b = layout_of(CUDA_R_16BF, K, N, K, B + 1);
    exit(check(&w) == CUBLAS_STATUS_SUCCESS ? 0 : 7);
}

static void check_unusable(void) {
    work w = begin_usual();
    for (int i = 0; !right && i < w.results; i++)
        if (w.result[i].state != CUBLAS_STATUS_SUCCESS)
            w.choice = i;
    exit(check(&w) == CUBLAS_STATUS_SUCCESS ? 0 : 7);
}

static void check_for_other(void) {
    work w = begin_usual();
    if (!right)
        describe_half(&w, CUDA_R_16BF);
    (void)setenv("SOFT_CUBLASLT", "own", 1);
    exit(check(&w) == CUBLAS_STATUS_SUCCESS ? 0 : 7);
}

static void test_refused_checks(void **state) {
    (void)state;
    expect_refused(check_other_type, "no product of types");
    expect_refused(check_other_operation, "for other types or operations");
    expect_refused(check_misaligned, "");
    expect_refused(check_unusable, "");
    expect_refused(check_for_other, "");
}

static void use_small_workspace(void) {
    work w = begin_usual();
    w.workspace_bytes -= right ? 0 : 1;
    finish(&w);
}

static void use_unusable(void) {
    work w = begin_usual();
    for (int i = 0; !right && i < w.results; i++)
        if (w.result[i].state != CUBLAS_STATUS_SUCCESS)
            w.choice = i;
    finish(&w);
}

static void use_beta(void) {
    work w = begin_usual();
    w.beta = right ? 0.0f : 1.0f;
    finish(&w);
}

static void create_in_capture(void) {
    const cudaStream_t stream = make_stream();
    cublasLtHandle_t handle;
    if (!right)
        OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    exit(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS ? 0 : 7);
}

static void test_refused_executions(void **state) {
    (void)state;
    expect_refused(use_other_product, "chosen for another product");
    expect_refused(use_small_workspace, "the algorithm needs");
    expect_refused(use_unusable, "list as not supported");
    expect_refused(use_beta, "adds no matrix C");
    expect_refused(create_in_capture, "cublasLtCreate");
}

// ---- Mistakes that end the process ----

static void use_host_memory(void) {
    work w = begin_usual();
    static uint16_t host[BATCHES * A];
    if (!right)
        w.at_a = host;
    finish(&w);
}

static void use_short_memory(void) {
    work w = begin_usual();
    if (!right)
        w.at_b = (char *)w.at_b + 4096 - 256;
    finish(&w);
}

static void use_misaligned(void) {
    work w = begin_usual();
    w.at_a = (char *)w.at_a + (right ? 16 : 2);
    finish(&w);
}

static void use_misaligned_workspace(void) {
    work w = begin_usual();
    w.workspace = device_alloc(w.workspace_bytes + 512);
    w.workspace = (char *)w.workspace + (right ? 256 : 64);
    finish(&w);
}

static void use_host_workspace(void) {
    work w = begin_usual();
    static _Alignas(256) char host[1 << 16];
    if (!right)
        w.workspace = host;
    finish(&w);
}

static void use_host_bias(void) {
    work w = begin_usual();
    static _Alignas(256) uint16_t host[M];
    const void *const bias = right ? w.bias : host;
    CALL(cublasLtMatmulDescSetAttribute(w.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                        sizeof bias));
    finish(&w);
}

static void use_overlap(void) {
    work w = begin_usual();
    if (!right)
        w.at_d = w.at_b;
    finish(&w);
}

static void use_device_alpha(void) {
    work w = begin_usual();
    const float *alpha = right ? &w.alpha : w.at_a;
    exit(cublasLtMatmul(w.handle, w.operation, alpha, w.at_a, w.a, w.at_b, w.b, &w.beta, w.at_d,
                        w.d, w.at_d, w.d, &w.result[w.choice].algo, w.workspace, w.workspace_bytes,
                        w.stream) != CUBLAS_STATUS_SUCCESS);
}

static void use_destroyed(void) {
    work w = begin_usual();
    if (!right)
        CALL(cublasLtMatrixLayoutDestroy(w.b));
    finish(&w);
}

static void use_wrong_kind(void) {
    work w = begin_usual();
    CALL(cublasLtMatrixLayoutDestroy(right ? w.a : (cublasLtMatrixLayout_t)(void *)w.preference));
}

static void use_changed_algorithm(void) {
    work w = begin_usual();
    w.result[w.choice].algo.data[1] += !right;
    finish(&w);
}

static void use_no_algorithm(void) {
    work w = begin_usual();
    exit(cublasLtMatmul(w.handle, w.operation, &w.alpha, w.at_a, w.a, w.at_b, w.b, &w.beta, w.at_d,
                        w.d, w.at_d, w.d, right ? &w.result[w.choice].algo : NULL, w.workspace,
                        w.workspace_bytes, w.stream) != CUBLAS_STATUS_SUCCESS);
}

static void use_other_device(void) {
    work w = begin_usual();
    if (!right)
        OK(cudaSetDevice(1));
    finish(&w);
}

static void test_mistakes(void **state) {
    (void)state;
    both(use_host_memory, "cuBLASLt: A, ");
    both(use_short_memory, "cuBLASLt: B, ");
    both(use_misaligned, "which is not aligned to 16 bytes");
    both(use_misaligned_workspace, "which is not aligned to 256 bytes");
    both(use_host_workspace, "cuBLASLt: the workspace, ");
    both(use_host_bias, "cuBLASLt: the bias, ");
    both(use_overlap, "cuBLASLt: D and B overlap");
    both(use_device_alpha, "cuBLASLt: alpha is at ");
    both(use_destroyed, "a descriptor (layout) that was destroyed");
    both(use_wrong_kind, "is no descriptor (layout)");
    both(use_changed_algorithm, "an algorithm that no heuristics returned");
    both(use_no_algorithm, "no algorithm is given");
    both(use_other_device, "a handle of device 0 while device 1 is current");
}

// Two streams share the workspace, where sums lie.
static void share_workspace(void) {
    work w = begin_usual();
    const cudaStream_t other = make_stream();
    int wrong = 0;
    work second = w;
    second.alpha = -1.0f;
    second.stream = other;
    second.at_d = device_alloc(BATCHES * D * 2);
    if (right)
        second.workspace = device_alloc(w.workspace_bytes);
    second.at_a = device_alloc(BATCHES * A * 2);
    OK(cudaMemsetAsync(second.at_a, 0, BATCHES * A * 2, other));
    OK(cudaStreamSynchronize(other));
    OK(cudaStreamSynchronize(w.stream));
    // Whether the streams meet is a matter of chance.
    for (int i = 0; i < (right ? 60 : 5000) && wrong == 0; i++) {
        uint16_t host[BATCHES * D];
        CALL(multiply(&w));
        CALL(multiply(&second));
        download(host, second.at_d, sizeof host, other);
        for (int k = 0; k < BATCHES * D; k++)
            wrong += from_bf16(host[k]) != element(k % M, 2);
        OK(cudaStreamSynchronize(w.stream));
    }
    exit(wrong > 0 ? 8 : 0);
}

// Sums that are divided have other bits in each run.
static void divide_sums(void) {
    setting s = usual;
    uint16_t host[BATCHES * A];
    uint32_t first[BATCHES * D], again[BATCHES * D]; // bits of floats
    int other = 0;
    s.result = CUDA_R_32F;
    s.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    s.reduction = right ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_MASK;
    work w = begin();
    for (int i = 0; i < BATCHES * A; i++)
        host[i] = bf16(ldexpf(1.0f + (float)(i % 7) / 8.0f, i % 24 - 12));
    upload(w.at_a, host, sizeof host, w.stream);
    describe(&w, &s);
    choose(&w, 0);
    CALL(multiply(&w));
    download(first, w.at_d, sizeof first, w.stream);
    for (int i = 0; i < 20; i++) {
        CALL(multiply(&w));
        download(again, w.at_d, sizeof again, w.stream);
        other += memcmp(first, again, sizeof first) != 0;
    }
    exit(other > 0 ? 8 : 0);
}

static void test_wrong_results(void **state) {
    (void)state;
    shows(share_workspace);
    shows(divide_sums);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),         cmocka_unit_test(test_algorithms),
        cmocka_unit_test(test_checks),           cmocka_unit_test(test_capture),
        cmocka_unit_test(test_refused_products), cmocka_unit_test(test_refused_descriptions),
        cmocka_unit_test(test_refused_checks),   cmocka_unit_test(test_refused_executions),
        cmocka_unit_test(test_mistakes),         cmocka_unit_test(test_wrong_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
