// SPDX-License-Identifier: Apache-2.0
// Batch norm with ReLU is joined with the max pooling behind it, and their gradients
// (graph/pass_fuse_pool.c), where nothing else needs what lies between, with the same bits.
#include "tests/unit/support/test_support.h"

#include "autograd/gradients.h"
#include "graph/context.h"
#include "graph/ops.h"
#include "graph/plan_view.h"
#include "kernels/base/hash.h"
#include "kernels/base/rng.h"
#include "kernels/base/text.h"
#include "kernels/kernel.h"

enum { IMAGES = 3, HEIGHT = 13, WIDTH = 10, MOST_CHANNELS = 16 };

// What reads the result of ReLU beside the pooling.
typedef enum other_reader { NOBODY, TARGET, CONVOLUTION } other_reader;

typedef struct pool_run {
    const char *device;
    bool (*takes)(const sr_kernel_request *request); // NULL: as the device has them
    sr_dtype dtype;
    bool trains, differentiates, recomputes;
    other_reader other;
    int window, stride, channels;
} pool_run;

static bool takes_all(const sr_kernel_request *request) {
    (void)request;
    return true;
}
static bool takes_none(const sr_kernel_request *request) {
    (void)request;
    return false;
}

static sr_status add_hash(void *user, int index, sr_address data, size_t bytes, sr_stream *stream) {
    uint64_t *hash = user;
    void *host = sr_alloc(bytes, "a target");
    SR_TRY(sr_stream_download(stream, host, data, bytes));
    SR_TRY(sr_stream_wait(stream));
    *hash += sr_hash64_seed(host, bytes, (uint64_t)index + 1);
    sr_free(host);
    return SR_OK;
}

// Numbers in [-1, 1), of which many are equal.
static sr_tensor numbers(sr_context *context, const char *name, const sr_info *info) {
    static float values[IMAGES * HEIGHT * WIDTH * MOST_CHANNELS];
    sr_rng rng;
    sr_rng_init(&rng, 5, 0, 0, 0);
    for (int64_t i = 0; i < sr_info_count(info); i++)
        values[i] = (float)(sr_rng_u32(&rng) >> 28) / 8.0f - 1.0f;
    return name ? sr_variable(context, name, info, values) : sr_constant(context, info, values);
}

// The first layers of a network; returns the hash of what they compute.
static uint64_t run_pool(const pool_run *r, sr_text *text) {
    const sr_info picture = {
        .dtype = SR_F32, .rank = 4, .dim = {IMAGES, HEIGHT, WIDTH, r->channels}};
    const sr_info weights = {.dtype = SR_F32, .rank = 4, .dim = {r->channels, r->channels, 1, 1}};
    const sr_info vector = {.dtype = SR_F32, .rank = 1, .dim = {r->channels}};
    const sr_context_options options = {.device = r->device, .threads = 2};
    uint64_t hash = 1;
    sr_context *context;
    sr_executor *executor;
    sr_plan *plan;
    sr_target targets[5];
    int count = 0;
    assert_ok(sr_context_create(&options, &context));
    sr_context_set_recomputing(context, r->recomputes);
    if (r->takes)
        sr_context_set_prologues(context, r->takes);
    sr_tensor variables[] = {numbers(context, "w", &weights), numbers(context, "gamma", &vector)};
    sr_tensor grads[2], x = numbers(context, NULL, &picture);
    if (r->dtype != SR_F32)
        x = sr_cast(x, r->dtype);
    const sr_tensor w = variables[0], gamma = variables[1];
    const sr_tensor h = sr_conv2d(x, w, (sr_conv2d_opts){0});
    const sr_tensor norm = r->trains ? sr_batchnorm_train(h, gamma, gamma, 1e-5).y
                                     : sr_batchnorm_infer(h, gamma, SR_NONE, gamma, gamma, 2);
    const sr_tensor y = sr_relu(norm);
    const sr_tensor pooled = sr_maxpool2d(
        y, (sr_pool2d_opts){.window = r->window, .stride = r->stride, .pad = r->window / 2 % 2});
    sr_tensor loss = sr_reduce_sum(sr_mul(pooled, pooled));
    targets[count++] = (sr_target){.tensor = pooled};
    if (r->other == TARGET)
        targets[count++] = (sr_target){.tensor = y};
    if (r->other == CONVOLUTION)
        loss = sr_add(loss, sr_reduce_sum(sr_conv2d(y, w, (sr_conv2d_opts){.stride = 2})));
    targets[count++] = (sr_target){.tensor = loss};
    if (r->differentiates) {
        sr_gradients(loss, SR_NONE, variables, 2, grads);
        targets[count++] = (sr_target){.tensor = grads[0], .after = w};
        targets[count++] = (sr_target){.tensor = grads[1]};
    }
    assert_ok(sr_compile(context, targets, count, &plan));
    assert_ok(sr_executor_create(sr_context_device(context), 2, &executor));
    assert_ok(sr_executor_begin(executor, plan, &(sr_run){.sink = add_hash, .user = &hash}));
    assert_ok(sr_executor_wait(executor));
    sr_executor_free(executor);
    sr_text_clear(text);
    assert_ok(sr_plan_text(plan, text));
    sr_context_free(context);
    return hash;
}

typedef enum joins { NONE, FORWARD, BOTH } joins;

static void expect_joined(const pool_run *r, joins want, const sr_text *text) {
    const char *t = text->data;
    assert_int_equal(strstr(t, " batchnorm_train_relu_maxpool/") != NULL,
                     want != NONE && r->trains);
    assert_int_equal(strstr(t, " batchnorm_infer_relu_maxpool/") != NULL,
                     want != NONE && !r->trains);
    assert_int_equal(strstr(t, " batchnorm_relu_maxpool_grad/") != NULL, want == BOTH);
    assert_int_equal(strstr(t, " maxpool2d/") != NULL, want == NONE);
    assert_int_equal(strstr(t, " maxpool2d_grad/") != NULL, want != BOTH && r->differentiates);
}

// With what the run says and without: the bits are the same.
static void check_joined(pool_run r, joins want) {
    sr_text text, plain;
    sr_text_init(&text);
    sr_text_init(&plain);
    const uint64_t hash = run_pool(&r, &text);
    expect_joined(&r, want, &text);
    r.takes = takes_none;
    assert_true(run_pool(&r, &plain) == hash);
    expect_joined(&r, NONE, &plain);
    sr_text_release(&text);
    sr_text_release(&plain);
}

// Where kernels of class "reference" are taken, too.
static void test_what_is_joined(void **state) {
    (void)state;
    static const struct {
        bool trains, differentiates, recomputes;
        other_reader other;
        joins want;
    } cases[] = {
        {true, true, false, NOBODY, BOTH},      {true, true, true, NOBODY, BOTH},
        {false, false, false, NOBODY, FORWARD}, {true, false, false, NOBODY, NONE},
        {false, true, false, NOBODY, NONE},     {true, true, false, TARGET, NONE},
        {false, false, false, TARGET, NONE},    {true, true, false, CONVOLUTION, NONE},
    };
    static const sr_dtype dtypes[] = {SR_F32, SR_BF16, SR_F16};
    sr_kernels_use_portable(true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pool_run r = {.device = "cpu-async",
                            .takes = takes_all,
                            .dtype = dtypes[i % 3],
                            .trains = cases[i].trains,
                            .differentiates = cases[i].differentiates,
                            .recomputes = cases[i].recomputes,
                            .other = cases[i].other,
                            .window = 3,
                            .stride = i % 2 == 0 ? 2 : 1,
                            .channels = 5};
        check_joined(r, cases[i].want);
    }
    sr_kernels_use_portable(false);
}

// A device without kernels for it, and one with them: of some windows and channels.
static void test_what_the_device_has(void **state) {
    (void)state;
    static const struct {
        int window, stride, channels;
        bool has;
    } cases[] = {{3, 2, 16, true}, {2, 2, 8, true}, {3, 1, 16, false}, {3, 2, 12, false}};
    const char *device = getenv("SERRIED_TEST_DEVICE");
    const bool cuda = device && strncmp(device, "cuda", 4) == 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int trains = 0; trains < 2; trains++) {
            const pool_run r = {.device = cuda ? device : "cpu-async",
                                .dtype = SR_BF16,
                                .trains = trains,
                                .differentiates = trains,
                                .window = cases[i].window,
                                .stride = cases[i].stride,
                                .channels = cases[i].channels};
            check_joined(r, !cuda || !cases[i].has ? NONE : trains ? BOTH : FORWARD);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_joined),
        cmocka_unit_test(test_what_the_device_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
