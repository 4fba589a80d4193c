// SPDX-License-Identifier: Apache-2.0
// Plans that stop: replays of several lanes that join values on the way, as the engine does it.
// Joined values are what follows computes with, targets behind a stop are delivered joined, and
// passes, chains and devices change no bit.
#include "tests/unit/support/test_support.h"

#include "autograd/gradients.h"
#include "graph/context.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "kernels/base/text.h"
#include "kernels/device/device.h"

enum { LANES = 3, PICTURES = 4, SIDE = 8, CHANNELS = 16, PIXELS = PICTURES * SIDE * SIDE };
enum { X = 0, DY = 1 }; // input slots
enum { TARGETS = 6, MOST = PIXELS * CHANNELS };

static const sr_info picture = {
    .dtype = SR_F32, .rank = 4, .dim = {PICTURES, SIDE, SIDE, CHANNELS}};
static const sr_info channels = {.dtype = SR_F32, .rank = 1, .dim = {CHANNELS}};

typedef struct stopping_lane {
    sr_executor *executor;
    sr_address inputs[SR_INPUT_SLOTS];
    float target[TARGETS][MOST];
    int delivered[TARGETS], count;
} stopping_lane;

typedef struct stopping {
    sr_context *context;
    sr_device *device;
    sr_tensor gamma, beta;
    stopping_lane lanes[LANES];
    int stops, values; // that were passed
} stopping;

static float value(int lane, int slot, int i) {
    const sr_rng4 r = sr_philox(5, (uint32_t)lane, (uint32_t)slot, (uint32_t)i, 0);
    return sr_rng_unit(r.v[0]) + (slot == X ? 3.0f : -0.5f);
}

static void begin(stopping *s, const char *device, int optimize) {
    const sr_context_options options = {.device = device, .threads = 1, .optimize = optimize};
    float vector[CHANNELS], data[MOST];
    memset(s, 0, sizeof *s);
    assert_ok(sr_context_create(&options, &s->context));
    s->device = sr_context_device(s->context);
    for (int c = 0; c < CHANNELS; c++)
        vector[c] = 0.5f + 0.25f * (float)(c % 5);
    s->gamma = sr_variable(s->context, "gamma", &channels, vector);
    s->beta = sr_variable(s->context, "beta", &channels, vector);
    for (int lane = 0; lane < LANES; lane++) {
        assert_ok(sr_executor_create(s->device, 1, &s->lanes[lane].executor));
        for (int slot = X; slot <= DY; slot++) {
            for (int i = 0; i < MOST; i++)
                data[i] = value(lane, slot, i);
            sr_address *to = &s->lanes[lane].inputs[slot];
            assert_ok(sr_device_alloc(s->device, sizeof data, "input", to));
            assert_ok(sr_device_upload(s->device, *to, data, sizeof data));
        }
    }
}

static void end(stopping *s) {
    for (int lane = 0; lane < LANES; lane++) {
        sr_executor_free(s->lanes[lane].executor);
        for (int slot = X; slot <= DY; slot++)
            sr_device_free(s->device, s->lanes[lane].inputs[slot]);
    }
    sr_context_free(s->context);
}

static sr_status sink(void *user, int index, sr_address data, size_t bytes, sr_stream *stream) {
    stopping_lane *lane = user;
    assert_true(bytes <= sizeof lane->target[index]);
    lane->delivered[index] = ++lane->count;
    SR_TRY(sr_stream_download(stream, lane->target[index], data, bytes));
    return sr_stream_wait(stream);
}

// Sums in the order of lanes; of moments, the definition.
static void join(const sr_stop_value *v, float rows[LANES][2][CHANNELS]) {
    for (int64_t i = 0; i < v->count; i++) {
        double mean = 0, var = 0;
        for (int l = 0; l < LANES; l++)
            mean += (double)rows[l][0][i];
        for (int l = 0; l < LANES && v->moments; l++) {
            const double d = (double)rows[l][0][i] - mean / LANES;
            var += ((double)rows[l][1][i] + d * d) / LANES;
        }
        rows[0][0][i] = (float)(v->moments ? mean / LANES : mean);
        rows[0][1][i] = (float)var;
    }
}

static void pass_stop(stopping *s) {
    sr_stop_value values[LANES][SR_STOP_VALUES];
    int count = 0;
    for (int l = 0; l < LANES; l++) {
        assert_ok(sr_executor_wait(s->lanes[l].executor));
        count = sr_executor_stop(s->lanes[l].executor, values[l]);
        assert_true(count > 0);
    }
    for (int i = 0; i < count; i++) {
        const int parts = values[0][i].moments ? 2 : 1;
        float rows[LANES][2][CHANNELS];
        assert_int_equal(values[0][i].lanes, LANES);
        assert_true(values[0][i].count <= CHANNELS);
        const size_t bytes = (size_t)values[0][i].count * sizeof(float);
        for (int l = 0; l < LANES; l++)
            for (int k = 0; k < parts; k++)
                assert_ok(sr_device_download(s->device, rows[l][k], values[l][i].data[k], bytes));
        join(&values[0][i], rows);
        for (int l = 0; l < LANES; l++)
            for (int k = 0; k < parts; k++)
                assert_ok(sr_device_upload(s->device, values[l][i].data[k], rows[0][k], bytes));
    }
    for (int l = 0; l < LANES; l++)
        assert_ok(sr_executor_continue(s->lanes[l].executor));
    s->stops++;
    s->values += count;
}

static void replay(stopping *s, sr_plan *plan) {
    sr_stop_value values[SR_STOP_VALUES];
    s->stops = s->values = 0;
    for (int l = 0; l < LANES; l++) {
        stopping_lane *lane = &s->lanes[l];
        const sr_run run = {.inputs = lane->inputs, .sink = sink, .user = lane, .stops = true};
        lane->count = 0;
        assert_ok(sr_executor_begin(lane->executor, plan, &run));
    }
    for (int i = 0; i < sr_plan_stop_count(plan); i++)
        pass_stop(s);
    for (int l = 0; l < LANES; l++) {
        assert_ok(sr_executor_wait(s->lanes[l].executor));
        assert_int_equal(sr_executor_stop(s->lanes[l].executor, values), 0);
    }
}

static sr_plan *compile(stopping *s, const sr_tensor *tensors, int count) {
    sr_target targets[TARGETS];
    sr_plan *plan = NULL;
    for (int i = 0; i < count; i++)
        targets[i] = (sr_target){.tensor = tensors[i]};
    assert_ok(sr_context_status(s->context));
    assert_ok(sr_compile(s->context, targets, count, &plan));
    return plan;
}

// ---- Sums ----

static sr_plan *record_sums(stopping *s) {
    sr_context_begin_step(s->context);
    const sr_tensor x = sr_input(s->context, X, &picture);
    const sr_tensor sum = sr_channel_sum(x);
    const sr_tensor all = sr_lane_sum(sum, LANES);
    const sr_tensor more = sr_lane_sum(sr_scale(all, 2, 1), LANES);
    return compile(s, (sr_tensor[]){sum, all, more, sr_lane_sum(sum, 1)}, 4);
}

static void test_sums(void **state) {
    (void)state;
    stopping s;
    begin(&s, NULL, 0);
    sr_plan *plan = record_sums(&s);
    assert_int_equal(sr_plan_stop_count(plan), 2);
    for (int time = 0; time < 2; time++) { // again: tables are filled already
        replay(&s, plan);
        assert_int_equal(s.values, 2);
        for (int i = 0; i < CHANNELS; i++) {
            double all = 0;
            for (int l = 0; l < LANES; l++)
                all += (double)s.lanes[l].target[0][i];
            for (int l = 0; l < LANES; l++) {
                const stopping_lane *lane = &s.lanes[l];
                assert_true(lane->target[1][i] == (float)all);
                assert_true(lane->target[2][i] == LANES * (2 * (float)all + 1));
                assert_true(lane->target[3][i] == lane->target[0][i]);
                assert_int_equal(lane->count, 4);
            }
        }
    }
    end(&s);
}

// Eight values at most are joined at a time.
static void test_neighbours_are_joined_together(void **state) {
    (void)state;
    stopping s;
    begin(&s, NULL, 0);
    sr_tensor own[SR_STOP_VALUES + 1], total = SR_NONE;
    const sr_tensor x = sr_input(s.context, X, &picture);
    for (int i = 0; i <= SR_STOP_VALUES; i++)
        own[i] = sr_scale(sr_channel_sum(x), i, 0);
    for (int i = 0; i <= SR_STOP_VALUES; i++)
        own[i] = sr_lane_sum(own[i], LANES);
    for (int i = 0; i <= SR_STOP_VALUES; i++)
        total = i ? sr_add(total, own[i]) : own[i];
    sr_plan *plan = compile(&s, &total, 1);
    replay(&s, plan);
    assert_int_equal(s.stops, 2);
    assert_int_equal(s.values, SR_STOP_VALUES + 1);
    end(&s);
}

// ---- Batch normalisation of a group, forward and backward ----

static sr_plan *record_group(stopping *s) {
    sr_tensor grads[3], xs[3] = {SR_NONE, s->gamma, s->beta};
    sr_context_begin_step(s->context);
    xs[0] = sr_input(s->context, X, &picture);
    const sr_tensor dy = sr_input(s->context, DY, &picture);
    const sr_batchnorm_out out = sr_batchnorm_group(sr_relu(xs[0]), s->gamma, s->beta, 1e-5, LANES);
    sr_gradients(sr_reduce_sum(sr_mul(sr_relu(out.y), dy)), SR_NONE, xs, 3, grads);
    return compile(s, (sr_tensor[]){out.y, out.mean, out.var, grads[0], grads[1], grads[2]}, 6);
}

static void run_group(stopping *s, const char *device, int optimize) {
    begin(s, device, optimize);
    replay(s, record_group(s));
    assert_int_equal(s->stops, 2);
    assert_int_equal(s->values, 3); // moments, then dgamma and dbeta
}

static void test_passes_and_devices_change_no_bit(void **state) {
    (void)state;
    static stopping plain, other;
    run_group(&plain, "cpu", -1);
    for (int i = 0; i < 3; i++) {
        run_group(&other, i < 2 ? "cpu" : "cpu-async", i == 0 ? 0 : -1);
        for (int l = 0; l < LANES; l++)
            assert_memory_equal(plain.lanes[l].target, other.lanes[l].target,
                                sizeof plain.lanes[l].target);
        end(&other);
    }
    // Mean and variance are those of all lanes.
    for (int l = 1; l < LANES; l++)
        for (int t = 1; t < 3; t++)
            assert_memory_equal(plain.lanes[0].target[t], plain.lanes[l].target[t],
                                CHANNELS * sizeof(float));
    end(&plain);
}

static void test_text_names_stops(void **state) {
    (void)state;
    stopping s;
    sr_text text;
    begin(&s, NULL, 0);
    sr_text_init(&text);
    assert_ok(sr_plan_text(record_group(&s), &text));
    assert_non_null(strstr(text.data, "stop 0 joins 1 of 3 lanes\n"));
    assert_non_null(strstr(text.data, "stop 1 joins 2 of 3 lanes\n"));
    assert_null(strstr(text.data, "stop 2"));
    sr_text_release(&text);
    end(&s);
}

// ---- Mistakes ----

static void test_a_lane_cannot_run_alone(void **state) {
    (void)state;
    stopping s;
    float sum[CHANNELS];
    begin(&s, NULL, 0);
    sr_plan *plan = record_sums(&s);
    const sr_run alone = {.inputs = s.lanes[0].inputs};
    const sr_run run = {.inputs = s.lanes[0].inputs, .stops = true};
    sr_executor *e = s.lanes[0].executor;
    assert_status(SR_E_UNSUPPORTED, sr_executor_begin(e, plan, &alone));
    assert_message("the program joins 3 lanes, so it cannot run alone");
    assert_ok(sr_executor_begin(e, plan, &run));
    assert_status(SR_E_ARGUMENT, sr_executor_continue(e));
    assert_message("sr_executor_continue: the replay is not waiting at a stop");
    assert_ok(sr_executor_wait(e));
    assert_ok(sr_executor_begin(e, plan, &run)); // one that stays at a stop is left there
    for (int i = 0; i < 2; i++) {
        assert_ok(sr_executor_wait(e));
        assert_ok(sr_executor_continue(e));
    }
    assert_ok(sr_executor_wait(e));
    assert_status(SR_E_ARGUMENT, sr_executor_continue(e));
    sr_context_begin_step(s.context);
    const sr_tensor read = sr_lane_sum(s.gamma, LANES);
    assert_status(SR_E_UNSUPPORTED, sr_read(read, sum, sizeof sum));
    end(&s);
}

static void test_only_f32_is_joined(void **state) {
    (void)state;
    stopping s;
    sr_plan *plan = NULL;
    begin(&s, NULL, 0);
    const sr_target target = {.tensor = sr_lane_sum(sr_cast(s.gamma, SR_F64), LANES)};
    assert_status(SR_E_UNSUPPORTED, sr_compile(s.context, &target, 1, &plan));
    assert_non_null(strstr(sr_error_message(), "lane_sum: lanes join values of f32, not of f64"));
    end(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_neighbours_are_joined_together),
        cmocka_unit_test(test_passes_and_devices_change_no_bit),
        cmocka_unit_test(test_text_names_stops),
        cmocka_unit_test(test_a_lane_cannot_run_alone),
        cmocka_unit_test(test_only_f32_is_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
