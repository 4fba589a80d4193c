// SPDX-License-Identifier: Apache-2.0
// Kernels share what they pack of weights (graph/pass_packing.c): one launch of those that read the
// same weights in the same form packs them, in memory that lasts to the last of them, in every
// replay anew; results are those of kernels that pack for themselves.
#include "tests/unit/support/test_support.h"

#include "autograd/gradients.h"
#include "graph/context.h"
#include "graph/ops.h"
#include "graph/plan_view.h"
#include "kernels/base/hash.h"
#include "kernels/base/rng.h"
#include "kernels/kernel.h"

enum {
    IMAGES = 4,
    SIDE = 6,
    CHANNELS = 16,
    CLASSES = 8,
    ELEMENTS = IMAGES * SIDE * SIDE * CHANNELS,
    FILTER = CHANNELS * CHANNELS * 9,
    WEIGHTS = CLASSES * CHANNELS,
    LAYERS = 3, // of the same filter
    TARGETS = 3,
};

static float picture[ELEMENTS], filter[2][FILTER], weights[WEIGHTS];

static void fill(float *out, int count, uint32_t seed) {
    sr_rng rng;
    sr_rng_init(&rng, seed, 0, 0, 0);
    for (int i = 0; i < count; i++)
        out[i] = 0.25f * ((float)(sr_rng_u32(&rng) >> 8) * 0x1p-23f - 1.0f);
}

static const char *gpu(void) {
    const char *device = getenv("SERRIED_TEST_DEVICE");
    return device && strncmp(device, "cuda", 4) == 0 ? device : NULL;
}

typedef struct packing_run {
    sr_context *context;
    sr_tensor x, shared[LAYERS], v, bias; // shared: the filter of each layer
    sr_plan *plan;
    sr_executor *executor;
    sr_address memory; // with the bias, which is aligned to 64 bytes alone
    uint64_t hash[TARGETS];
} packing_run;

// With a filter for all layers, or one of its own for each, of the same values.
static void begin(packing_run *r, sr_dtype dtype, const float *values, bool one) {
    const sr_context_options options = {.device = gpu(), .threads = 1};
    const sr_info image = {.dtype = SR_F32, .rank = 4, .dim = {IMAGES, SIDE, SIDE, CHANNELS}};
    const sr_info oihw = {.dtype = SR_F32, .rank = 4, .dim = {CHANNELS, CHANNELS, 3, 3}};
    const sr_info matrix = {.dtype = SR_F32, .rank = 2, .dim = {CLASSES, CHANNELS}};
    const sr_info vector = {.dtype = SR_F32, .rank = 1, .dim = {CLASSES}};
    static const char *const names[LAYERS] = {"a", "b", "c"};
    *r = (packing_run){.hash = {0}};
    assert_ok(sr_context_create(&options, &r->context));
    for (int i = 0; i < LAYERS; i++)
        r->shared[i] =
            one && i > 0 ? r->shared[0] : sr_variable(r->context, names[i], &oihw, values);
    r->v = sr_variable(r->context, "v", &matrix, weights);
    assert_ok(sr_device_alloc(sr_context_device(r->context), 128, "test", &r->memory));
    r->bias = sr_variable_on(r->context, "bias", &vector, sr_address_add(r->memory, 64));
    assert_ok(sr_variable_write(r->bias, weights));
    r->x = sr_constant(r->context, &image, picture);
    if (dtype != SR_F32)
        r->x = sr_cast(r->x, dtype);
    assert_ok(sr_executor_create(sr_context_device(r->context), 1, &r->executor));
}

static void end(packing_run *r) {
    sr_executor_free(r->executor);
    sr_device_free(sr_context_device(r->context), r->memory);
    sr_context_free(r->context);
}

// Layers of one filter and a linear layer, and gradients of its weights and of the last filter.
static void compile(packing_run *r) {
    sr_tensor h = r->x, xs[2] = {r->shared[LAYERS - 1], r->v}, grads[2];
    for (int i = 0; i < LAYERS; i++)
        h = sr_relu(sr_conv2d(h, r->shared[i], (sr_conv2d_opts){.pad = 1}));
    const sr_tensor y = sr_linear(sr_global_avgpool(h), r->v, r->bias);
    sr_gradients(sr_reduce_sum(sr_mul(y, y)), SR_NONE, xs, 2, grads);
    const sr_target targets[TARGETS] = {{.tensor = y}, {.tensor = grads[0]}, {.tensor = grads[1]}};
    assert_ok(sr_context_status(r->context));
    assert_ok(sr_compile(r->context, targets, TARGETS, &r->plan));
}

static sr_status sink(void *user, int index, sr_address data, size_t bytes, sr_stream *stream) {
    packing_run *r = user;
    void *host = sr_alloc(bytes, "a target");
    assert_non_null(host);
    SR_TRY(sr_stream_download(stream, host, data, bytes));
    SR_TRY(sr_stream_wait(stream));
    r->hash[index] = sr_hash64(host, bytes);
    sr_free(host);
    return SR_OK;
}

static void replay(packing_run *r) {
    const sr_run run = {.sink = sink, .user = r};
    memset(r->hash, 0, sizeof r->hash);
    assert_ok(sr_executor_begin(r->executor, r->plan, &run));
    assert_ok(sr_executor_wait(r->executor));
}

// ---- Which launches share ----

// How many launches use what launch 'first' packs; they come later.
static int count_users(const sr_plan *plan, int first) {
    sr_plan_launch_view maker, user;
    sr_plan_memory_view memory;
    int count = 0;
    sr_plan_get_launch(plan, first, &maker);
    assert_true(sr_plan_get_memory(plan, maker.packed, &memory));
    assert_int_equal(memory.first, maker.first_step);
    assert_false(memory.workspace);
    for (int i = 0; i < sr_plan_node_count(plan); i++) {
        sr_plan_get_launch(plan, i, &user);
        if (i == first || user.packed != maker.packed)
            continue;
        assert_true(i > first && !user.packs && user.last_step <= memory.last);
        count++;
    }
    return count;
}

// users: of what each launch that packs for others makes, in order.
static void expect_users(const sr_plan *plan, const int *users, int count) {
    int found = 0;
    for (int i = 0; i < sr_plan_node_count(plan); i++) {
        sr_plan_launch_view launch;
        sr_plan_get_launch(plan, i, &launch);
        if (!launch.packs)
            continue;
        if (found < count)
            assert_int_equal(count_users(plan, i), users[found]);
        found++;
    }
    assert_int_equal(found, count);
}

static bool is_skipped(void) {
    if (!gpu())
        test_skip("kernels of this device share nothing");
    return !gpu();
}

// The filter is that of all layers and their gradients, but for the first one, which has none; the
// linear layer's weights are packed for its gradient.
static void test_weights_are_packed_once(void **state) {
    (void)state;
    static const sr_dtype dtypes[] = {SR_BF16, SR_F16};
    packing_run one, own;
    for (int i = 0; i < 2 && !is_skipped(); i++) {
        begin(&one, dtypes[i], filter[0], true);
        compile(&one);
        expect_users(one.plan, (const int[]){2 * LAYERS - 2, 1}, 2);
        begin(&own, dtypes[i], filter[0], false);
        compile(&own);
        // Gradients of the last filter alone: no gradient passes through the layers before it.
        expect_users(own.plan, (const int[]){1}, 1);
        replay(&one);
        replay(&own);
        assert_int_equal(one.hash[0], own.hash[0]);
        assert_int_equal(one.hash[2], own.hash[2]);
        end(&one);
        end(&own);
    }
}

// Class "reference", which fp32 has, packs for itself.
static void test_full_precision_shares_nothing(void **state) {
    (void)state;
    packing_run r;
    begin(&r, SR_F32, filter[0], true);
    compile(&r);
    expect_users(r.plan, NULL, 0);
    end(&r);
}

// Replays, which are CUDA graphs from the third on, have the weights that there are then.
static void test_replays_have_new_weights(void **state) {
    (void)state;
    packing_run changed, fresh;
    for (int i = 0; i < 2 && !is_skipped(); i++) {
        begin(&fresh, SR_BF16, filter[i], true);
        compile(&fresh);
        replay(&fresh);
        begin(&changed, SR_BF16, filter[1 - i], true);
        compile(&changed);
        for (int k = 0; k < 4; k++)
            replay(&changed);
        assert_int_not_equal(changed.hash[0], fresh.hash[0]);
        assert_ok(sr_variable_write(changed.shared[0], filter[i]));
        for (int k = 0; k < 4; k++) {
            replay(&changed);
            assert_memory_equal(changed.hash, fresh.hash, sizeof fresh.hash);
        }
        end(&fresh);
        end(&changed);
    }
}

// Filters of cuDNN have another order in fp32, too; weights of linear layers are as they are.
static void test_filters_of_tf32_are_packed_once(void **state) {
    (void)state;
    packing_run one, own;
    if (is_skipped())
        return;
    sr_kernels_use_tf32(true);
    begin(&one, SR_F32, filter[0], true);
    compile(&one);
    expect_users(one.plan, (const int[]){2 * LAYERS - 2}, 1);
    begin(&own, SR_F32, filter[0], false);
    compile(&own);
    expect_users(own.plan, NULL, 0);
    replay(&one);
    replay(&own);
    assert_int_equal(one.hash[0], own.hash[0]);
    assert_int_equal(one.hash[2], own.hash[2]);
    end(&one);
    end(&own);
    sr_kernels_use_tf32(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_are_packed_once),
        cmocka_unit_test(test_full_precision_shares_nothing),
        cmocka_unit_test(test_replays_have_new_weights),
        cmocka_unit_test(test_filters_of_tf32_are_packed_once),
    };
    fill(picture, ELEMENTS, 1);
    fill(filter[0], FILTER, 2);
    fill(filter[1], FILTER, 3);
    fill(weights, WEIGHTS, 4);
    return cmocka_run_group_tests_name("packing", tests, NULL, NULL);
}
