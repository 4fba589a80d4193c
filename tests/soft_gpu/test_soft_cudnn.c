// SPDX-License-Identifier: Apache-2.0
// The stand-in for cuDNN: results of its engines, and how the engines differ. Mistakes of the
// caller are in test_soft_cudnn_mistakes.c.
#include "tests/soft_gpu/soft_cudnn_fixture.h"
#include "tests/soft_gpu/soft_gpu.h"

static const int64_t plain_size[7] = {4, 8, 6, 5, 8, 3, 3},
                     plain_window[8] = {1, 1, 1, 1, 1, 1, 1, 1};

// ---- Results ----

static double value_of(cudnnDataType_t type, uint16_t bits) {
    const int half = type == CUDNN_DATA_HALF, width = half ? 10 : 7, bias = half ? 15 : 127;
    const int exponent = (bits & 0x7fff) >> width, fraction = bits & ((1 << width) - 1);
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == (half ? 31 : 255))
        return (double)NAN;
    return sign * (exponent > 0 ? ldexp((double)(fraction + (1 << width)), exponent - bias - width)
                                : ldexp((double)fraction, 1 - bias - width));
}

// By plain loops: sums, sums of magnitudes, and numbers of terms of the result's elements.
typedef struct expected {
    size_t count;
    double *sum, *magnitude;
    int *terms;
} expected;

static void add_terms(const conv *c, const tensors *t, const int64_t at[6], expected *e) {
    const int64_t n = at[0], p = at[1], q = at[2], k = at[3], r = at[4], s = at[5];
    const int64_t y = p * c->stride[0] - c->pre[0] + r * c->dilation[0];
    const int64_t x = q * c->stride[1] - c->pre[1] + s * c->dilation[1];
    if (y < 0 || y >= c->x[2] || x < 0 || x >= c->x[3])
        return;
    for (int64_t i = 0; i < c->x[1]; i++) {
        const int64_t place[3] = {((n * c->x[2] + y) * c->x[3] + x) * c->x[1] + i,
                                  ((k * c->w[2] + r) * c->w[3] + s) * c->w[1] + i,
                                  ((n * c->y[2] + p) * c->y[3] + q) * c->y[1] + k};
        const int result = result_of(c->kind), a = result == 0 ? 1 : 0, b = result == 2 ? 1 : 2;
        const double product =
            value_of(c->type, t->host[a][place[a]]) * value_of(c->type, t->host[b][place[b]]);
        e->sum[place[result]] += product;
        e->magnitude[place[result]] += fabs(product);
        e->terms[place[result]]++;
    }
}

static expected expect(const conv *c, const tensors *t) {
    const size_t count = t->bytes[result_of(c->kind)] / 2;
    expected e = {count, calloc(count, sizeof(double)), calloc(count, sizeof(double)),
                  calloc(count, sizeof(int))};
    for (int64_t n = 0; n < c->y[0]; n++) {
        for (int64_t p = 0; p < c->y[2]; p++) {
            for (int64_t q = 0; q < c->y[3]; q++)
                for (int64_t k = 0; k < c->w[0]; k++)
                    for (int64_t r = 0; r < c->w[2]; r++)
                        for (int64_t s = 0; s < c->w[3]; s++)
                            add_terms(c, t, (const int64_t[]){n, p, q, k, r, s}, &e);
        }
    }
    return e;
}

static void expected_free(expected *e) {
    free(e->sum);
    free(e->magnitude);
    free(e->terms);
}

// Products of two 16-bit numbers are exact in float, so only additions round: T terms, in any
// order, by at most ((1 + 2^-24)^T - 1) times the sum of magnitudes. The result is rounded once to
// the tensors' type, of unit roundoff u. Of the engine that is not deterministic, 7 sums are
// rounded to that type when they are stored and after each addition, which is 8 roundings of each
// term.
static double bound_of(const conv *c, const expected *e, size_t i, bool rough) {
    const bool half = c->type == CUDNN_DATA_HALF;
    const double u = half ? 0x1p-11 : 0x1p-8, least = half ? 0x1p-25 : 0x1p-134;
    const double sums = pow(1.0 + 0x1p-24, e->terms[i]) - 1.0;
    return rough ? (pow(1.0 + u, 8) * (1.0 + sums) - 1.0) * e->magnitude[i] + 8 * least
                 : (1.0 + u) * sums * e->magnitude[i] + u * fabs(e->sum[i]) + least;
}

static size_t count_wrong(const conv *c, const expected *e, const uint16_t *got, bool rough) {
    size_t wrong = 0;
    for (size_t i = 0; i < e->count; i++)
        wrong += !(fabs(value_of(c->type, got[i]) - e->sum[i]) <= bound_of(c, e, i, rough));
    return wrong;
}

static void check_result(const conv *c, const expected *e, const uint16_t *got, bool rough,
                         int64_t engine) {
    const size_t wrong = count_wrong(c, e, got, rough);
    if (wrong > 0)
        fail_msg("kind %d, type %d, engine %lld: %zu of %zu elements are wrong", (int)c->kind,
                 (int)c->type, (long long)engine, wrong, e->count);
}

// Every engine that heuristics list.
static void check_engines(cudnnHandle_t handle, cudaStream_t stream, const conv *c, uint32_t seed) {
    descriptor configs[CONFIGS], plan, graph = make_graph(handle, c);
    const int count = list(graph, configs);
    int plans = 0;
    assert_int_equal(count, 5);
    for (int i = 0; i < count; i++) {
        int64_t workspace;
        if (try_plan(handle, configs[i], &plan, &workspace) == CUDNN_STATUS_SUCCESS) {
            tensors t = make_tensors(c, workspace, seed, stream);
            expected e = expect(c, &t);
            const int64_t engine = read_choice(configs[i]).engine;
            check_result(c, &e, run(handle, stream, c, plan, &t), !is_deterministic(configs[i]),
                         engine);
            expected_free(&e);
            free_tensors(&t);
            destroy(plan);
            plans++;
        }
        destroy(configs[i]);
    }
    assert_int_equal(plans, 4);
    destroy(graph);
}

static void test_results(void **state) {
    static const struct {
        int64_t size[7], window[8]; // n c h w, k r s; paddings, strides, dilations
    } shapes[] = {
        {{2, 8, 5, 6, 8, 3, 3}, {1, 1, 1, 1, 1, 1, 1, 1}},
        {{3, 3, 9, 7, 5, 3, 3}, {0, 1, 1, 2, 2, 2, 1, 1}},   // odd channels, uneven paddings
        {{1, 4, 11, 11, 6, 3, 2}, {2, 1, 2, 1, 1, 1, 2, 3}}, // dilated
        {{2, 7, 5, 4, 3, 1, 1}, {0, 0, 0, 0, 2, 3, 1, 1}},   // pixels that no result reads
        {{1, 16, 4, 4, 24, 1, 1}, {0, 0, 0, 0, 1, 1, 1, 1}},
        {{2, 1, 13, 12, 9, 7, 7}, {3, 3, 3, 3, 2, 2, 1, 1}},
        {{2, 5, 3, 3, 2, 2, 2}, {3, 0, 0, 3, 1, 2, 1, 1}}, // windows that lie in the padding
    };
    cudnnHandle_t handle;
    (void)state;
    DNN(cudnnCreate(&handle));
    const cudaStream_t stream = make_stream();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int kind = 0; kind < CONV_KINDS; kind++) {
            const conv b = make_conv((conv_kind)kind, CUDNN_DATA_BFLOAT16, shapes[i].size,
                                     shapes[i].window),
                       h = make_conv((conv_kind)kind, CUDNN_DATA_HALF, shapes[i].size,
                                     shapes[i].window);
            check_engines(handle, stream, &b, (uint32_t)i + 1);
            check_engines(handle, stream, &h, (uint32_t)i + 100);
        }
    }
    DNN(cudnnDestroy(handle));
}

// The bound is one that a wrong result does not keep.
static void test_bound(void **state) {
    const conv c = make_conv(FORWARD, CUDNN_DATA_BFLOAT16, plain_size, plain_window);
    cudnnHandle_t handle;
    int64_t workspace;
    (void)state;
    DNN(cudnnCreate(&handle));
    const cudaStream_t stream = make_stream();
    const choice first = first_choice(handle, &c);
    descriptor plan = make_plan(handle, &c, &first, &workspace);
    tensors t = make_tensors(&c, workspace, 5, stream);
    const uint16_t *got = run(handle, stream, &c, plan, &t);
    expected e = expect(&c, &t);
    assert_int_equal(count_wrong(&c, &e, got, false), 0);
    expected_free(&e);
    t.host[1][0] ^= 0x0040; // one weight by half or less, in the sums of 4 x 20 positions
    e = expect(&c, &t);
    assert_in_range(count_wrong(&c, &e, got, false), 1, 80);
    expected_free(&e);
    free_tensors(&t);
    destroy(plan);
    DNN(cudnnDestroy(handle));
}

// ---- How engines differ ----

enum { RUNS = 4, CHOICES = 4 };

// Bits of a choice's result, which the caller frees.
static uint16_t *bits_of(cudnnHandle_t handle, cudaStream_t stream, const conv *c, const choice *of,
                         size_t *bytes) {
    int64_t workspace;
    descriptor plan = make_plan(handle, c, of, &workspace);
    tensors t = make_tensors(c, workspace, 7, stream);
    *bytes = t.bytes[result_of(c->kind)];
    uint16_t *bits = malloc(*bytes);
    memcpy(bits, run(handle, stream, c, plan, &t), *bytes);
    free_tensors(&t);
    destroy(plan);
    return bits;
}

// The choices whose plans can be made, the one that is not deterministic first.
static int list_choices(cudnnHandle_t handle, const conv *c, choice out[CHOICES]) {
    descriptor configs[CONFIGS], plan, graph = make_graph(handle, c);
    const int count = list(graph, configs);
    int found = 0;
    assert_false(is_deterministic(configs[0]));
    for (int i = 0; i < count; i++) {
        int64_t workspace;
        const cudnnStatus_t status = try_plan(handle, configs[i], &plan, &workspace);
        if (status == CUDNN_STATUS_SUCCESS) {
            out[found++] = read_choice(configs[i]);
            assert_int_equal(is_deterministic(configs[i]), found > 1);
            destroy(plan);
        } else {
            assert_int_equal(status, CUDNN_STATUS_NOT_SUPPORTED);
            assert_int_equal(i, 1);
        }
        destroy(configs[i]);
    }
    destroy(graph);
    return found;
}

static void check_bits(cudnnHandle_t handle, cudaStream_t stream, const conv *c, bool rough) {
    choice choices[CHOICES] = {{0}};
    uint16_t *bits[CHOICES][RUNS];
    size_t bytes;
    int varied = 0;
    assert_int_equal(list_choices(handle, c, choices), CHOICES);
    for (int i = 0; i < CHOICES; i++)
        for (int n = 0; n < RUNS; n++)
            bits[i][n] = bits_of(handle, stream, c, &choices[i], &bytes);
    for (int n = 1; n < RUNS; n++) {
        varied += memcmp(bits[0][0], bits[0][n], bytes) != 0;
        for (int i = 1; i < CHOICES; i++)
            assert_memory_equal(bits[i][0], bits[i][n], bytes);
    }
    assert_int_equal(varied, RUNS - 1);
    for (int i = 1; rough && i < CHOICES; i++)
        for (int j = 1; j < i; j++)
            assert_memory_not_equal(bits[i][0], bits[j][0], bytes);
    for (int i = 0; i < CHOICES; i++)
        for (int n = 0; n < RUNS; n++)
            free(bits[i][n]);
}

static void test_bits(void **state) {
    cudnnHandle_t handle;
    (void)state;
    DNN(cudnnCreate(&handle));
    const cudaStream_t stream = make_stream();
    for (int rough = 0; rough < 2; rough++) {
        (void)setenv("SOFT_CUDNN", rough ? "rough" : "", 1);
        for (int kind = 0; kind < CONV_KINDS; kind++) {
            const conv b = make_conv((conv_kind)kind, CUDNN_DATA_BFLOAT16, plain_size,
                                     plain_window),
                       h = make_conv((conv_kind)kind, CUDNN_DATA_HALF, plain_size, plain_window);
            check_bits(handle, stream, &b, rough != 0);
            check_bits(handle, stream, &h, rough != 0);
        }
    }
    (void)unsetenv("SOFT_CUDNN");
    DNN(cudnnDestroy(handle));
}

// same: a sample's bits do not depend on where it is. Without partial sums they never do.
static void check_samples(cudnnHandle_t handle, cudaStream_t stream, bool same) {
    const int64_t one_size[7] = {1, 8, 6, 5, 8, 3, 3};
    for (int kind = FORWARD; kind <= DATA; kind++) {
        const conv all = make_conv((conv_kind)kind, CUDNN_DATA_BFLOAT16, plain_size, plain_window),
                   one = make_conv((conv_kind)kind, CUDNN_DATA_BFLOAT16, one_size, plain_window);
        choice choices[CHOICES] = {{0}}, of_one[CHOICES] = {{0}};
        assert_int_equal(list_choices(handle, &all, choices), CHOICES);
        assert_int_equal(list_choices(handle, &one, of_one), CHOICES);
        assert_memory_not_equal(&choices[1], &of_one[1], sizeof(choice));
        for (int i = 1; i < CHOICES; i++) {
            int64_t workspace, own_workspace;
            descriptor plan = make_plan(handle, &all, &choices[i], &workspace),
                       own = make_plan(handle, &one, &choices[i], &own_workspace);
            tensors t = make_tensors(&all, workspace, 9, stream);
            const int result = result_of(all.kind), in = 2 - result;
            const size_t bytes = t.bytes[result] / (size_t)all.x[0];
            uint16_t *bits = malloc(t.bytes[result]);
            memcpy(bits, run(handle, stream, &all, plan, &t), t.bytes[result]);
            tensors last = t; // the last sample alone, whose result becomes the first one
            last.at[in] = (char *)t.at[in] + t.bytes[in] / 4 * 3;
            last.bytes[result] = bytes;
            const uint16_t *alone = run(handle, stream, &one, own, &last);
            assert_int_equal(memcmp(alone, (char *)bits + 3 * bytes, bytes) == 0,
                             same || workspace == 0);
            free(bits);
            free_tensors(&t);
            destroy(plan);
            destroy(own);
        }
    }
}

// A sample's bits depend neither on how many there are nor on its place unless that is asked for,
// while the heuristics' order depends on their number.
static void test_samples(void **state) {
    cudnnHandle_t handle;
    (void)state;
    DNN(cudnnCreate(&handle));
    const cudaStream_t stream = make_stream();
    (void)setenv("SOFT_CUDNN", "rough", 1);
    check_samples(handle, stream, true);
    (void)setenv("SOFT_CUDNN", "samples", 1);
    check_samples(handle, stream, false);
    (void)unsetenv("SOFT_CUDNN");
    DNN(cudnnDestroy(handle));
}

// Without a choice of knobs an engine has values that heuristics never list.
static void test_knobs(void **state) {
    const conv c = make_conv(FORWARD, CUDNN_DATA_BFLOAT16, plain_size, plain_window);
    cudnnHandle_t handle;
    choice choices[CHOICES] = {{0}};
    (void)state;
    DNN(cudnnCreate(&handle));
    int64_t workspaces[CHOICES] = {0}, without;
    int with_knobs = 0;
    assert_int_equal(list_choices(handle, &c, choices), CHOICES);
    for (int i = 0; i < CHOICES; i++) {
        destroy(make_plan(handle, &c, &choices[i], &workspaces[i]));
        for (int j = 0; j < i; j++)
            assert_int_not_equal(workspaces[i], workspaces[j]);
        if (choices[i].knobs > 0) {
            choice bare = choices[i];
            bare.knobs = 0;
            destroy(make_plan(handle, &c, &bare, &without));
            assert_int_not_equal(without, workspaces[i]);
            with_knobs++;
        }
    }
    assert_int_equal(with_knobs, 2);
    DNN(cudnnDestroy(handle));
}

// Each value of a knob has bits of its own.
static void test_knob_values(void **state) {
    const conv c = make_conv(FORWARD, CUDNN_DATA_BFLOAT16, plain_size, plain_window);
    choice split = {.engine = 3,
                    .knobs = 2,
                    .types = {CUDNN_KNOB_TYPE_REDUCTION_MODE, CUDNN_KNOB_TYPE_SPLIT_K_SLC}};
    uint16_t *bits[6];
    cudnnHandle_t handle;
    size_t bytes = 0;
    (void)state;
    DNN(cudnnCreate(&handle));
    const cudaStream_t stream = make_stream();
    (void)setenv("SOFT_CUDNN", "rough", 1);
    for (int i = 0; i < 6; i++) {
        split.values[0] = i % 2;
        split.values[1] = 3 + i / 2;
        bits[i] = bits_of(handle, stream, &c, &split, &bytes);
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(bits[i], bits[j], bytes);
    }
    (void)unsetenv("SOFT_CUDNN");
    for (int i = 0; i < 6; i++)
        free(bits[i]);
    DNN(cudnnDestroy(handle));
}

static void test_fallback(void **state) {
    const conv c = make_conv(FILTER, CUDNN_DATA_HALF, plain_size, plain_window);
    cudnnHandle_t handle;
    descriptor configs[CONFIGS], plan;
    int count;
    int64_t workspace;
    (void)state;
    DNN(cudnnCreate(&handle));
    descriptor graph = make_graph(handle, &c);
    DNN(try_list(graph, CUDNN_HEUR_MODE_FALLBACK, configs, &count));
    assert_int_equal(count, 1);
    assert_true(is_deterministic(configs[0]));
    DNN(try_plan(handle, configs[0], &plan, &workspace));
    assert_int_equal(workspace, 0);
    destroy(plan);
    destroy(configs[0]);
    destroy(graph);
    DNN(cudnnDestroy(handle));
}

// ---- Streams, captures, counts ----

// Each launch of a graph runs the plan anew.
static void test_capture(void **state) {
    const conv c = make_conv(FORWARD, CUDNN_DATA_BFLOAT16, plain_size, plain_window);
    cudnnHandle_t handle;
    cudaGraph_t captured;
    cudaGraphExec_t exec;
    (void)state;
    DNN(cudnnCreate(&handle));
    const cudaStream_t stream = make_stream();
    choice choices[CHOICES] = {{0}};
    assert_int_equal(list_choices(handle, &c, choices), CHOICES);
    for (int i = 0; i < 2; i++) { // the one whose bits vary, and another
        int64_t workspace;
        descriptor plan = make_plan(handle, &c, &choices[i], &workspace);
        tensors t = make_tensors(&c, workspace, 3, stream);
        uint16_t *bits = malloc(t.bytes[2]);
        descriptor pack = make_pack(&t);
        DNN(cudnnSetStream(handle, stream));
        OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        DNN(cudnnBackendExecute(handle, plan, pack));
        OK(cudaStreamEndCapture(stream, &captured));
        OK(cudaGraphInstantiate(&exec, captured, 0));
        OK(cudaGraphLaunch(exec, stream));
        memcpy(bits, read_result(&c, &t, stream), t.bytes[2]);
        expected e = expect(&c, &t);
        check_result(&c, &e, bits, i == 0, choices[i].engine);
        expected_free(&e);
        OK(cudaGraphLaunch(exec, stream));
        assert_int_equal(memcmp(read_result(&c, &t, stream), bits, t.bytes[2]) != 0, i == 0);
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(captured));
        free(bits);
        destroy(pack);
        destroy(plan);
        free_tensors(&t);
    }
    DNN(cudnnDestroy(handle));
}

static void count_descriptors(void) {
    const conv c = make_conv(FORWARD, CUDNN_DATA_BFLOAT16, plain_size, plain_window);
    cudnnHandle_t handle;
    size_t bytes;
    DNN(cudnnCreate(&handle));
    const cudaStream_t stream = make_stream();
    const choice first = first_choice(handle, &c);
    free(bits_of(handle, stream, &c, &first, &bytes));
    DNN(cudnnDestroy(handle));
    const unsigned long made = soft_gpu_count("cudnn_made");
    if (made < 20 || soft_gpu_count("cudnn_destroyed") != made ||
        soft_gpu_count("cudnn_executed") != 1)
        exit(1);
    (void)make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    if (soft_gpu_count("cudnn_destroyed") == soft_gpu_count("cudnn_made"))
        exit(1);
}

static void test_counts(void **state) {
    (void)state;
    expect_clean(count_descriptors);
}

// The number that is read is that of the elements written, and without room that of all of them.
static void test_read(void **state) {
    const conv c = make_conv(FORWARD, CUDNN_DATA_BFLOAT16, plain_size, plain_window);
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnHandle_t handle;
    int64_t count = -1;
    (void)state;
    DNN(cudnnCreate(&handle));
    descriptor graph = make_graph(handle, &c), d = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR),
               config = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    set(d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    DNN(cudnnBackendFinalize(d));
    DNN(cudnnBackendGetAttribute(d, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                 &count, NULL));
    assert_int_equal(count, 5);
    DNN(cudnnBackendGetAttribute(d, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                 &count, &config));
    assert_int_equal(count, 1);
    assert_false(is_deterministic(config));
    destroy(config);
    destroy(d);
    destroy(graph);
    DNN(cudnnDestroy(handle));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts), // a process of its own, as long as this one has no streams
        cmocka_unit_test(test_results),  cmocka_unit_test(test_bound),
        cmocka_unit_test(test_bits),     cmocka_unit_test(test_samples),
        cmocka_unit_test(test_knobs),    cmocka_unit_test(test_knob_values),
        cmocka_unit_test(test_fallback), cmocka_unit_test(test_capture),
        cmocka_unit_test(test_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
