// SPDX-License-Identifier: Apache-2.0
// Attention against the same composed of matrix products and a softmax, forward and backward; and
// that its memory grows with the number of tokens, not with its square.
#include <math.h>

#include "autograd/gradients.h"
#include "kernels/kernel_params.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/test_support.h"

enum { Q, K, V, BIAS, INPUTS };

typedef struct shape {
    int64_t batches, queries, keys, heads, depth, biases;
} shape;

static sr_context *context_new(void) {
    sr_context *context;
    assert_ok(sr_context_create(&(sr_context_options){.threads = 1}, &context));
    sr_context_begin_step(context);
    return context;
}

static sr_tensor random_tensor(sr_context *context, uint32_t seed, sr_info info) {
    return sr_constant(context, &info,
                       array_random(SR_F32, sr_info_count(&info), seed, -1, 1)->data);
}

// [B,N,C] -> [B,H,N,D]
static sr_tensor heads_of(sr_tensor x, const shape *s, int64_t tokens) {
    const int64_t dim[] = {s->batches, tokens, s->heads, s->depth};
    return sr_permute(sr_reshape(x, 4, dim), (const int[]){0, 2, 1, 3});
}

static sr_tensor composed(const sr_tensor *in, const shape *s, double scale) {
    const int64_t rounds = s->biases > 0 ? s->batches / s->biases : 1;
    const int64_t groups = s->batches / rounds;
    const int64_t five[] = {rounds, groups, s->heads, s->queries, s->keys},
                  four[] = {s->batches, s->heads, s->queries, s->keys},
                  three[] = {s->batches, s->queries, s->heads * s->depth};
    const sr_tensor q = heads_of(in[Q], s, s->queries), k = heads_of(in[K], s, s->keys),
                    v = heads_of(in[V], s, s->keys);
    sr_tensor score = sr_matmul(q, k, (sr_matmul_opts){.transpose_b = true, .alpha = scale});
    score = sr_reshape(score, 5, five);
    if (s->biases > 0)
        score = sr_add(score, in[BIAS]);
    const sr_tensor weight = sr_reshape(sr_softmax(score, 4), 4, four);
    const sr_tensor y = sr_matmul(weight, v, (sr_matmul_opts){0});
    return sr_reshape(sr_permute(y, (const int[]){0, 2, 1, 3}), 3, three);
}

static test_array *values_of(sr_tensor x) {
    sr_info info;
    assert_true(sr_tensor_info(x, &info));
    test_array *got = array_new(SR_F32, sr_info_count(&info));
    assert_ok(sr_read(x, got->data, (size_t)got->count * sizeof(float)));
    return got;
}

static void assert_close(const char *what, sr_tensor got, sr_tensor want) {
    const test_array *a = values_of(got), *b = values_of(want);
    double largest = 1; // as large as the inputs, which sums of both signs are made of
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < b->count; i++)
        largest = fmax(largest, fabs(array_get(b, i)));
    for (int64_t i = 0; i < a->count; i++)
        if (!(fabs(array_get(a, i) - array_get(b, i)) <= 0x1p-19 * largest))
            fail_msg("%s [%lld]: %.9g, not %.9g", what, (long long)i, array_get(a, i),
                     array_get(b, i));
}

static void check(const shape *s) {
    static const char *const names[INPUTS] = {"dq", "dk", "dv", "dbias"};
    const int64_t width = s->heads * s->depth;
    const int inputs = s->biases > 0 ? INPUTS : BIAS;
    const double scale = 1 / sqrt((double)s->depth);
    const sr_info queries = {SR_F32, 3, {s->batches, s->queries, width}},
                  keys = {SR_F32, 3, {s->batches, s->keys, width}},
                  bias = {SR_F32, 4, {s->biases, s->heads, s->queries, s->keys}};
    sr_context *context = context_new();
    sr_tensor in[INPUTS] = {random_tensor(context, 1, queries), random_tensor(context, 2, keys),
                            random_tensor(context, 3, keys), SR_NONE};
    if (s->biases > 0)
        in[BIAS] = random_tensor(context, 4, bias);
    const sr_tensor dy = random_tensor(context, 5, queries);
    const sr_tensor y = sr_attention(in[Q], in[K], in[V], in[BIAS],
                                     (sr_attention_opts){.heads = (int)s->heads}),
                    want = composed(in, s, scale);
    sr_tensor grad[INPUTS], wanted[INPUTS];
    sr_gradients(y, dy, in, inputs, grad);
    sr_gradients(want, dy, in, inputs, wanted);
    assert_close("y", y, want);
    for (int i = 0; i < inputs; i++)
        assert_close(names[i], grad[i], wanted[i]);
    sr_context_free(context);
}

static void test_composition(void **state) {
    static const shape shapes[] = {
        {2, 5, 7, 3, 4, 0}, {4, 9, 9, 2, 8, 2}, {1, 67, 34, 1, 40, 1}, {6, 3, 1, 2, 5, 3}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check(&shapes[i]);
        (void)arrays_free(state);
    }
}

// ---- Memory ----

enum { HEADS = 2, WIDTH = 64 };

// What forward and backward passes need for values.
static size_t peak_of(int64_t tokens) {
    const sr_info info = {SR_F32, 3, {1, tokens, WIDTH}};
    sr_context *context = context_new();
    sr_tensor in[3], grad[3];
    sr_plan *plan;
    for (int i = 0; i < 3; i++)
        in[i] = sr_input(context, i, &info);
    const sr_tensor y =
        sr_attention(in[Q], in[K], in[V], SR_NONE, (sr_attention_opts){.heads = HEADS});
    sr_gradients(y, sr_input(context, 3, &info), in, 3, grad);
    assert_ok(sr_compile(
        context, (const sr_target[]){{.tensor = grad[0]}, {.tensor = grad[1]}, {.tensor = grad[2]}},
        3, &plan));
    const size_t peak = sr_plan_peak_bytes(plan);
    sr_context_free(context);
    return peak;
}

// What a kernel that serves it needs beside its arguments.
static size_t scratch_of(sr_kernel_id kernel, const char *provider, int64_t tokens) {
    const sr_attention_params p = {.batches = 1,
                                   .queries = tokens,
                                   .keys = tokens,
                                   .heads = HEADS,
                                   .depth = WIDTH / HEADS,
                                   .scale = 1};
    sr_kernel_request request;
    sr_prepared prepared = {0};
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(kernel, &count);
    sr_kernel_request_init(&request, SR_DEVICE_CPU, kernel, SR_F32, &p, sizeof p);
    for (int i = 0; i < count; i++)
        if (arguments[i].role == SR_ARG_OPT)
            request.dtype[i] = SR_DTYPE_COUNT;
    const sr_kernel_entry *entry = sr_kernel_find_in(&request, provider);
    if (!entry)
        return 0;
    assert_ok(sr_kernel_prepare_as(&request, entry, 0, &prepared));
    const size_t bytes = prepared.scratch + prepared.workspace;
    sr_prepared_release(&prepared);
    return bytes;
}

static void test_memory_grows_with_the_tokens(void **state) {
    static const sr_kernel_id kernels[] = {SR_KERNEL_attention, SR_KERNEL_attention_grad};
    static const char *const providers[] = {"reference", "x86"};
    (void)state;
    // Twelve arrays of tokens by channels, and log sum exp.
    assert_true(peak_of(4096) <= 12 * 4096 * WIDTH * sizeof(float));
    for (int64_t tokens = 1024; tokens <= 4096; tokens *= 2) {
        print_message("%lld tokens: %zu bytes of values\n", (long long)tokens, peak_of(tokens));
        assert_true(peak_of(tokens) <= 2 * peak_of(tokens / 2));
        for (int i = 0; i < 4; i++) // trees of sums have a level more
            assert_true(scratch_of(kernels[i / 2], providers[i % 2], tokens) <=
                        9 * scratch_of(kernels[i / 2], providers[i % 2], tokens / 2) / 4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_composition, arrays_free),
        cmocka_unit_test(test_memory_grows_with_the_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
