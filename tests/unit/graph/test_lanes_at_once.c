// SPDX-License-Identifier: Apache-2.0
// Lanes side by side (sr_compile_lanes): each has the bits that it has alone, whether its kernels
// compute all lanes or run for each; targets arrive once for each lane; what lanes share is
// computed once; and what cannot run side by side is refused.
#include "tests/unit/support/test_support.h"

#include "autograd/gradients.h"
#include "graph/context.h"
#include "graph/ops.h"
#include "graph/plan_view.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "kernels/device/device.h"

enum { X, KEY, LABELS, SLOTS };
enum { MOST_LANES = 5, TARGETS = 7, CLASSES = 5, MOST = 4096 };

// Sizes of a small network. The values of a lane are whole multiples of 64 bytes, or are not.
typedef struct sizes {
    int64_t pictures, side, channels;
} sizes;

static const sizes whole = {.pictures = 4, .side = 4, .channels = 16};
static const sizes odd = {.pictures = 3, .side = 5, .channels = 6};

typedef struct received {
    float values[TARGETS][MOST];
    size_t bytes[TARGETS];
    int times[TARGETS];
} received;

typedef struct lanes_run {
    sr_context *context;
    sr_device *device;
    sr_executor *executor;
    sizes size;
    sr_tensor filter, gamma, beta, weight, unused;
    sr_address inputs[SR_INPUT_SLOTS];
    sr_plan *plan;
    received lane[MOST_LANES];
} lanes_run;

static sr_info info_of(const sizes *s, int slot) {
    if (slot == KEY)
        return (sr_info){.dtype = SR_I32, .rank = 1, .dim = {4}};
    if (slot == LABELS)
        return (sr_info){.dtype = SR_I32, .rank = 1, .dim = {s->pictures}};
    return (sr_info){
        .dtype = SR_F32, .rank = 4, .dim = {s->pictures, s->side, s->side, s->channels}};
}

static uint32_t draw(int lane, int slot, int64_t i) {
    return sr_philox(7, (uint32_t)lane, (uint32_t)slot, (uint32_t)i, 0).v[0];
}

// The value of a slot in a lane.
static void fill(const sizes *s, int lane, int slot, void *out) {
    const sr_info info = info_of(s, slot);
    for (int64_t i = 0; i < sr_info_count(&info); i++) {
        if (slot == X)
            ((float *)out)[i] = 2 * sr_rng_unit(draw(lane, slot, i)) - 1;
        else
            ((int32_t *)out)[i] = (int32_t)(draw(lane, slot, i) % CLASSES);
    }
}

static sr_tensor variable(lanes_run *r, const char *name, int rank, const int64_t *dim) {
    sr_info info = {.dtype = SR_F32, .rank = rank};
    float *values;
    memcpy(info.dim, dim, (size_t)rank * sizeof *dim);
    values = sr_alloc_array((size_t)sr_info_count(&info), sizeof *values, "test");
    assert_non_null(values);
    for (int64_t i = 0; i < sr_info_count(&info); i++)
        values[i] = 0.5f * sr_rng_unit(draw(99, rank, i)) - 0.2f;
    const sr_tensor out = sr_variable(r->context, name, &info, values);
    sr_free(values);
    return out;
}

static void begin(lanes_run *r, const char *device, const sizes *size) {
    const sr_context_options options = {.device = device, .threads = 1};
    memset(r, 0, sizeof *r);
    r->size = *size;
    assert_ok(sr_context_create(&options, &r->context));
    r->device = sr_context_device(r->context);
    assert_ok(sr_executor_create(r->device, 1, &r->executor));
    const int64_t c = size->channels;
    r->filter = variable(r, "filter", 4, (int64_t[]){c, c, 3, 3});
    r->gamma = variable(r, "gamma", 1, &c);
    r->beta = variable(r, "beta", 1, &c);
    r->weight = variable(r, "weight", 2, (int64_t[]){CLASSES, c});
    r->unused = variable(r, "unused", 1, &c);
}

static void end(lanes_run *r) {
    sr_executor_free(r->executor);
    for (int slot = 0; slot < SLOTS; slot++)
        sr_device_free(r->device, r->inputs[slot]);
    sr_context_free(r->context);
}

// A network with batch norm, dropout and a loss, and its gradients. The last target depends on no
// input.
static void compile(lanes_run *r, int lanes) {
    sr_tensor input[SLOTS], grads[4], xs[4] = {r->filter, r->gamma, r->beta, r->weight};
    sr_target targets[TARGETS];
    sr_context_begin_step(r->context);
    for (int slot = 0; slot < SLOTS; slot++) {
        const sr_info info = info_of(&r->size, slot);
        input[slot] = sr_input(r->context, slot, &info);
    }
    const sr_tensor conv = sr_conv2d(input[X], r->filter, (sr_conv2d_opts){.pad = 1});
    const sr_batchnorm_out norm = sr_batchnorm_train(conv, r->gamma, r->beta, 1e-5);
    const sr_tensor sum = sr_relu(sr_add(norm.y, input[X]));
    const sr_tensor kept = sr_dropout(sum, input[KEY], 0.25, 3);
    const sr_tensor logits = sr_linear(sr_global_avgpool(kept), r->weight, SR_NONE);
    const sr_tensor losses = sr_softmax_cross_entropy(logits, input[LABELS], 0.1);
    const sr_tensor loss = sr_reduce_sum(losses);
    sr_gradients(loss, SR_NONE, xs, 4, grads);
    const sr_tensor all[TARGETS] = {
        kept, loss, grads[0], grads[1], grads[2], grads[3], sr_square(r->unused)};
    for (int i = 0; i < TARGETS; i++)
        targets[i] = (sr_target){.tensor = all[i]};
    assert_ok(sr_context_status(r->context));
    assert_ok(sr_compile_lanes(r->context, targets, TARGETS, lanes, &r->plan));
    assert_int_equal(sr_plan_lanes(r->plan), lanes);
}

static sr_status sink(void *user, int index, sr_address data, size_t bytes, sr_stream *stream) {
    lanes_run *r = user;
    const size_t stride = sr_plan_target_stride(r->plan, index);
    assert_true(bytes <= sizeof r->lane[0].values[index]);
    assert_int_equal(
        stride, sr_plan_lanes(r->plan) == 1 || index == TARGETS - 1 ? 0 : sr_lane_stride(bytes));
    for (int i = 0; i < sr_plan_lanes(r->plan); i++) {
        received *lane = &r->lane[i];
        lane->bytes[index] = bytes;
        lane->times[index]++;
        SR_TRY(sr_stream_download(stream, lane->values[index],
                                  sr_address_add(data, (size_t)i * stride), bytes));
    }
    return sr_stream_wait(stream);
}

// Replays the plan for lanes [first, first + lanes).
static void replay(lanes_run *r, int first, int lanes) {
    _Alignas(64) char host[MOST * sizeof(float)];
    for (int slot = 0; slot < SLOTS; slot++) {
        const sr_info info = info_of(&r->size, slot);
        const size_t bytes = (size_t)sr_info_count(&info) * sr_dtype_size(info.dtype);
        const size_t stride = sr_lane_stride(bytes);
        sr_device_free(r->device, r->inputs[slot]);
        assert_ok(sr_device_alloc(r->device, stride * (size_t)lanes, "input", &r->inputs[slot]));
        for (int lane = 0; lane < lanes; lane++) {
            fill(&r->size, first + lane, slot, host);
            const sr_address to = sr_address_add(r->inputs[slot], stride * (size_t)lane);
            assert_ok(sr_device_upload(r->device, to, host, bytes));
        }
    }
    memset(r->lane, 0, sizeof r->lane);
    const sr_run run = {.inputs = r->inputs, .sink = sink, .user = r};
    assert_ok(sr_executor_begin(r->executor, r->plan, &run));
    assert_ok(sr_executor_wait(r->executor));
}

static void assert_received(const received *got, const received *want, int lane) {
    for (int t = 0; t < TARGETS; t++) {
        assert_int_equal(got->times[t], 1);
        assert_int_equal(got->bytes[t], want->bytes[t]);
        if (memcmp(got->values[t], want->values[t], want->bytes[t]) != 0)
            fail_msg("lane %d: target %d has other bits side by side", lane, t);
    }
}

static void check(const char *device, const sizes *size) {
    static lanes_run r;
    static received alone[MOST_LANES];
    begin(&r, device, size);
    for (int lane = 0; lane < MOST_LANES; lane++) {
        compile(&r, 1);
        replay(&r, lane, 1);
        alone[lane] = r.lane[0];
    }
    assert_memory_not_equal(alone[0].values, alone[1].values, sizeof alone[0].values);
    for (int lanes = MOST_LANES; lanes > 0; lanes--) {
        for (int time = 0; time < 2; time++) { // again: tables are filled already
            compile(&r, lanes);
            replay(&r, 0, lanes);
            for (int lane = 0; lane < lanes; lane++)
                assert_received(&r.lane[lane], &alone[lane], lane);
        }
    }
    end(&r);
}

static void test_lanes_have_their_own_bits(void **state) {
    (void)state;
    check("cpu-async", &whole);
    check("cpu-async", &odd);
}

// How often the kernel of an operator runs in a replay.
static int runs_of(const sr_plan *plan, const char *op) {
    for (int i = 0; i < sr_plan_node_count(plan); i++) {
        sr_plan_launch_view view;
        sr_plan_get_launch(plan, i, &view);
        if (strcmp(view.op, op) == 0)
            return view.runs;
    }
    return 0;
}

// With portable numerics all kernels are of class "reference".
static void test_kernels_compute_all_lanes(void **state) {
    (void)state;
    static lanes_run r;
    const bool before = sr_kernels_portable();
    sr_kernels_use_portable(true);
    begin(&r, "cpu-async", &whole);
    compile(&r, 1);
    const size_t one = sr_plan_peak_bytes(r.plan);
    const double flops = sr_plan_flops(r.plan);
    compile(&r, 4);
    assert_int_equal(runs_of(r.plan, "conv2d"), 1);
    assert_int_equal(runs_of(r.plan, "batchnorm_train_relu"), 4); // sums over a lane's samples
    assert_int_equal(runs_of(r.plan, "dropout"), 4);              // a key for each lane
    assert_int_equal(runs_of(r.plan, "square"), 1);               // of a variable
    // Each further lane has at least one value of x's size.
    const sr_info info = info_of(&whole, X);
    const size_t value = (size_t)sr_info_count(&info) * sizeof(float);
    assert_true(sr_plan_peak_bytes(r.plan) >= one + 3 * value);
    assert_true(sr_plan_flops(r.plan) > 3.9 * flops && sr_plan_flops(r.plan) <= 4 * flops);
    end(&r);
    begin(&r, "cpu-async", &odd); // with gaps between the lanes' values
    compile(&r, 4);
    assert_int_equal(runs_of(r.plan, "conv2d"), 4);
    end(&r);
    sr_kernels_use_portable(before);
}

// ---- Targets of a group ----

enum { GROUPED = 4, GROUP_SIDE = 1 << 10 };

typedef struct grouped {
    sr_address data[GROUPED];
    sr_device *device;
    int count, calls; // of the sink since its last end; of ends
    int together[GROUPED];
    float value[GROUPED]; // of each target's last element, when it was delivered
} grouped;

static sr_status note_target(void *user, int index, sr_address data, size_t bytes,
                             sr_stream *stream) {
    grouped *g = user;
    (void)stream;
    g->data[g->count] = sr_address_add(data, bytes - sizeof(float));
    g->together[g->count++] = index;
    return SR_OK;
}

static sr_status read_targets(void *user, sr_stream *stream) {
    grouped *g = user;
    for (int i = 0; i < g->count; i++)
        SR_TRY(sr_stream_download(stream, &g->value[g->together[i]], g->data[i], sizeof(float)));
    g->count = 0;
    g->calls++;
    return sr_stream_wait(stream);
}

// x, 2 x, 4 x, ... of which the first and the third are a group. Each is dead behind the next one.
static int run_groups(const char *device, int64_t rows, const uint32_t group[GROUPED]) {
    static lanes_run r;
    grouped g = {.count = 0};
    const sizes size = {.pictures = rows, .side = GROUP_SIDE, .channels = 1};
    sr_target targets[GROUPED];
    sr_info info = info_of(&size, X);
    info.rank = 2; // [rows, side]
    info.dim[1] = GROUP_SIDE;
    begin(&r, device, &odd);
    float *ones = sr_alloc_array((size_t)sr_info_count(&info), sizeof *ones, "test");
    assert_non_null(ones);
    for (int64_t i = 0; i < sr_info_count(&info); i++)
        ones[i] = 1;
    const size_t bytes = (size_t)sr_info_count(&info) * sizeof(float);
    assert_ok(sr_device_alloc(r.device, bytes, "input", &r.inputs[X]));
    assert_ok(sr_device_upload(r.device, r.inputs[X], ones, bytes));
    sr_context_begin_step(r.context);
    sr_tensor x = sr_input(r.context, X, &info);
    for (int i = 0; i < GROUPED; i++) {
        x = sr_scale(x, 2, 0);
        targets[i] = (sr_target){.tensor = x, .group = group[i]};
    }
    assert_ok(sr_compile(r.context, targets, GROUPED, &r.plan));
    const sr_run run = {
        .inputs = r.inputs, .sink = note_target, .sink_end = read_targets, .user = &g};
    assert_ok(sr_executor_begin(r.executor, r.plan, &run));
    assert_ok(sr_executor_wait(r.executor));
    for (int i = 0; i < GROUPED; i++)
        assert_true(g.value[i] == (float)(2 << i));
    sr_free(ones);
    end(&r);
    return g.calls;
}

// Where launches are enqueued, targets of a group wait for each other, and keep their memory.
static void test_targets_of_a_group(void **state) {
    static const uint32_t none[GROUPED] = {0}, all[GROUPED] = {1, 1, 1, 1};
    static const uint32_t two[GROUPED] = {2, 1, 2, 1};
    (void)state;
    assert_int_equal(run_groups("cpu-async", 3, none), GROUPED);
    assert_int_equal(run_groups("cpu-async", 3, two), 2);
    assert_int_equal(run_groups("cpu-async", 3, all), 1);
    assert_int_equal(run_groups("cpu-async", 1 << 10, all), 2); // 4 MiB each, of which two wait
}

// ---- What is refused ----

static sr_status compile_one(lanes_run *r, sr_tensor tensor, int lanes) {
    const sr_target target = {.tensor = tensor};
    return sr_compile_lanes(r->context, &target, 1, lanes, &r->plan);
}

static void test_refusals(void **state) {
    (void)state;
    static lanes_run r;
    begin(&r, "cpu-async", &whole);
    const sr_info info = info_of(&whole, X);
    sr_tensor x = sr_input(r.context, X, &info);
    assert_status(SR_E_ARGUMENT, compile_one(&r, x, 0));
    assert_status(SR_E_ARGUMENT, compile_one(&r, x, 100000));
    assert_status(SR_E_UNSUPPORTED, compile_one(&r, sr_lane_sum(sr_channel_sum(x), 2), 2));
    assert_non_null(strstr(sr_error_message(), "lane_sum cannot run for lanes side by side"));
    end(&r);
    begin(&r, "cpu", &whole);
    x = sr_input(r.context, X, &info);
    assert_status(SR_E_UNSUPPORTED, compile_one(&r, sr_relu(x), 2));
    assert_message("device cpu runs lanes one by one");
    assert_ok(compile_one(&r, sr_relu(x), 1));
    end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes_have_their_own_bits),
        cmocka_unit_test(test_kernels_compute_all_lanes),
        cmocka_unit_test(test_targets_of_a_group),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
