// SPDX-License-Identifier: Apache-2.0
// Steps that repeat an earlier one give the results of the same calls in a new context, whatever
// changes between them, and whatever is read, kept or updated in between.
#include "autograd/gradients.h"
#include "graph/recording_internal.h"
#include "kernels/base/rng.h"
#include "kernels/device/device.h"
#include "tests/unit/support/device_support.h"

static const sr_info four = {.dtype = SR_F32, .rank = 1, .dim = {4}};
static const float ramp[4] = {1, -2, 3, -4};

static sr_context *context_new(void) {
    sr_context *context;
    const sr_context_options options = {.threads = 1};
    assert_ok(sr_context_create(&options, &context));
    return context;
}

static void expect_all(sr_tensor tensor, float value) {
    float got[4] = {0};
    assert_ok(sr_read(tensor, got, sizeof got));
    for (int i = 0; i < 4; i++)
        if (got[i] != value)
            fail_msg("[%d] is %g, expected %g", i, (double)got[i], (double)value);
}

static sr_tensor constant(sr_context *context, float value) {
    const float values[4] = {value, value, value, value};
    return sr_constant(context, &four, values);
}

// The number of nodes of the step that were already in the recorded program.
static uint64_t repeated_by(sr_context *context, void (*record)(sr_context *, int), int step) {
    const uint64_t before = sr_context_get_stats(context).nodes_repeated;
    sr_context_begin_step(context);
    record(context, step);
    assert_ok(sr_context_status(context));
    return sr_context_get_stats(context).nodes_repeated - before;
}

// ---- What repeats ----

static sr_tensor weight;
static void (*collect)(int index, const float *data);
static float taken[2][4];

static void take(int index, const float *data) {
    memcpy(taken[index], data, sizeof taken[index]);
}

static sr_status sink(void *user, int index, sr_address data, size_t bytes, sr_stream *stream) {
    float host[4];
    (void)user;
    assert_int_equal(sizeof host, bytes);
    SR_TRY(sr_stream_download(stream, host, data, bytes));
    SR_TRY(sr_stream_wait(stream));
    collect(index, host);
    return SR_OK;
}

static sr_plan *compile_square(sr_context *context, double alpha) {
    sr_plan *plan;
    sr_tensor grad, x = sr_input(context, 0, &four);
    sr_tensor y = sr_scale(sr_mul(x, sr_mul(weight, weight)), alpha, 0);
    sr_gradients(y, SR_NONE, &weight, 1, &grad);
    const sr_target targets[2] = {{.tensor = y}, {.tensor = grad, .after = weight}};
    assert_ok(sr_compile(context, targets, 2, &plan));
    return plan;
}

static void replay(sr_context *context, sr_executor *executor, sr_plan *plan) {
    const sr_address inputs[SR_INPUT_SLOTS] = {
        device_copy(sr_context_device(context), ramp, sizeof ramp)};
    const sr_run run = {.inputs = inputs, .sink = sink};
    collect = take;
    assert_ok(sr_executor_begin(executor, plan, &run));
    assert_ok(sr_executor_wait(executor));
}

static void test_a_repeated_step_is_neither_built_nor_looked_for(void **state) {
    (void)state;
    sr_context *context = context_new();
    sr_executor *executor;
    uint64_t nodes = 0;
    const float two[4] = {2, 2, 2, 2}, three[4] = {3, 3, 3, 3};
    weight = sr_variable(context, "w", &four, two);
    assert_ok(sr_executor_create(sr_context_device(context), 1, &executor));
    for (int step = 0; step < 4; step++) {
        sr_context_begin_step(context);
        if (step == 3)
            assert_ok(sr_variable_write(weight, three));
        replay(context, executor, compile_square(context, 0.5));
        const float w = step == 3 ? 3 : 2;
        for (int i = 0; i < 4; i++)
            assert_true(taken[0][i] == 0.5f * w * w * ramp[i] && taken[1][i] == w * ramp[i]);
        const sr_context_stats stats = sr_context_get_stats(context);
        assert_int_equal((uint64_t)step, stats.programs_repeated);
        assert_int_equal(1, stats.plans_compiled);
        if (step == 0)
            nodes = stats.nodes_recorded;
        assert_int_equal((uint64_t)step * nodes, stats.nodes_repeated);
    }
    sr_executor_free(executor);
    sr_context_free(context);
}

// What still runs uses the executor's memory until the end.
static void test_an_executor_is_freed_while_it_replays(void **state) {
    (void)state;
    sr_context *context = context_new();
    weight = sr_variable(context, "w", &four, ramp);
    sr_context_begin_step(context);
    sr_plan *plan = compile_square(context, 0.5);
    const sr_address inputs[SR_INPUT_SLOTS] = {
        device_copy(sr_context_device(context), ramp, sizeof ramp)};
    const sr_run run = {.inputs = inputs};
    for (int i = 0; i < 50; i++) {
        sr_executor *executor;
        assert_ok(sr_executor_create(sr_context_device(context), 1, &executor));
        assert_ok(sr_executor_begin(executor, plan, &run));
        sr_executor_free(executor);
    }
    sr_context_free(context);
}

// A moved variable, and a plan that the cache has dropped in between.
static void test_a_repeated_plan_is_bound_again(void **state) {
    (void)state;
    sr_context *context;
    const sr_context_options options = {.threads = 1, .plan_cache_bytes = 1};
    sr_executor *executor;
    sr_address memory[2];
    assert_ok(sr_context_create(&options, &context));
    assert_ok(sr_executor_create(sr_context_device(context), 1, &executor));
    sr_device *device = sr_context_device(context);
    for (int i = 0; i < 2; i++) {
        const float values[4] = {2 + (float)i, 2 + (float)i, 2 + (float)i, 2 + (float)i};
        memory[i] = device_copy(device, values, sizeof values);
    }
    weight = sr_variable_on(context, "w", &four, memory[0]);
    for (int step = 0; step < 6; step++) {
        const float w = step & 1 ? 3 : 2;
        sr_context_begin_step(context);
        sr_variable_move(weight, memory[step & 1]);
        if (step >= 3) { // another program replaces it in the cache
            replay(context, executor, compile_square(context, 7));
            assert_true(taken[0][0] == 7 * w * w * ramp[0]);
            sr_context_begin_step(context);
        }
        replay(context, executor, compile_square(context, 0.5));
        for (int i = 0; i < 4; i++)
            assert_true(taken[0][i] == 0.5f * w * w * ramp[i] && taken[1][i] == w * ramp[i]);
    }
    sr_executor_free(executor);
    for (int i = 0; i < 2; i++)
        sr_device_free(device, memory[i]);
    sr_context_free(context);
}

static void first_phase(sr_context *context, int step) {
    sr_tensor grad, x = constant(context, (float)step);
    sr_gradients(sr_mul(x, sr_tanh_op(x)), SR_NONE, &x, 1, &grad);
}

static void second_phase(sr_context *context, int step) {
    sr_tensor grad, x = constant(context, (float)step);
    sr_gradients(sr_mul(x, sr_sigmoid(sr_scale(x, 3, 0))), SR_NONE, &x, 1, &grad);
}

static void test_phases_take_turns(void **state) {
    (void)state;
    sr_context *context = context_new();
    for (int step = 0; step < 6; step++) {
        const uint64_t before = sr_context_get_stats(context).nodes_recorded;
        const uint64_t first = repeated_by(context, first_phase, step);
        const uint64_t second = repeated_by(context, second_phase, step);
        const uint64_t nodes = sr_context_get_stats(context).nodes_recorded - before;
        if (first + second != (step ? nodes : 0))
            fail_msg("step %d: %d and %d of %d nodes repeat", step, (int)first, (int)second,
                     (int)nodes);
    }
    sr_context_free(context);
}

// ---- What changes ----

static void test_a_change_is_seen(void **state) {
    (void)state;
    sr_context *context = context_new();
    for (int step = 0; step < 8; step++) {
        sr_tensor x, grad;
        const float factor = step < 4 ? 2 : 5;
        sr_context_begin_step(context);
        x = constant(context, (float)step);
        sr_tensor y = sr_scale(sr_mul(x, x), (double)factor, 0);
        sr_gradients(y, SR_NONE, &x, 1, &grad);
        sr_tensor tail = step & 1 ? sr_scale(grad, 2, 0) : sr_add(grad, grad);
        expect_all(tail, 4 * factor * (float)step);
        expect_all(y, factor * (float)(step * step));
    }
    sr_context_free(context);
}

// In a program that repeats, other requests make other programs, and other seeds other gradients.
static void test_another_request_is_another_program(void **state) {
    (void)state;
    sr_context *context = context_new();
    sr_executor *executor;
    assert_ok(sr_executor_create(sr_context_device(context), 1, &executor));
    for (int step = 0; step < 6; step++) {
        float later[4];
        sr_plan *plan;
        sr_context_begin_step(context);
        sr_tensor x = sr_input(context, 0, &four), v = constant(context, 3);
        sr_tensor y[2] = {sr_scale(x, 2, 0), sr_scale(x, 3, 0)}, grad;
        const sr_target target = {.tensor = y[step & 1]};
        assert_ok(sr_compile(context, &target, 1, &plan));
        replay(context, executor, plan);
        for (int i = 0; i < 4; i++)
            assert_true(taken[0][i] == (float)(2 + (step & 1)) * ramp[i]);
        sr_context_begin_step(context);
        v = constant(context, 3);
        y[0] = sr_mul(v, v);
        y[1] = sr_add(v, v);
        sr_read_later(y[step & 1], later, sizeof later);
        assert_ok(sr_context_run(context));
        assert_true(later[0] == (step & 1 ? 6 : 9));
        sr_context_begin_step(context);
        v = constant(context, 3);
        y[0] = sr_mul(v, v);
        sr_gradients(y[0], step & 1 ? v : SR_NONE, &v, 1, &grad);
        expect_all(grad, step & 1 ? 18 : 6);
    }
    sr_executor_free(executor);
    sr_context_free(context);
}

// The same request for the same program is another program once some of it has run.
static void test_what_has_run_is_not_run_again(void **state) {
    (void)state;
    sr_context *context = context_new();
    sr_context_begin_step(context);
    sr_tensor y = sr_tanh_op(constant(context, 0));
    float got[4] = {1, 1, 1, 1};
    for (int i = 0; i < 3; i++) {
        sr_read_later(y, got, sizeof got);
        assert_ok(sr_context_run(context));
        assert_true(got[0] == 0 && got[3] == 0);
        assert_int_equal(0, sr_context_get_stats(context).programs_repeated);
    }
    sr_context_free(context);
}

// The gradients with respect to other xs, or of another y, are not those of the previous step.
static void test_other_gradients_are_others(void **state) {
    (void)state;
    sr_context *context = context_new();
    for (int step = 0; step < 6; step++) {
        sr_tensor grads[2];
        sr_context_begin_step(context);
        sr_tensor xs[2] = {constant(context, 3), constant(context, 5)};
        sr_tensor y = sr_mul(xs[0], xs[1]), z = sr_mul(y, xs[0]);
        const bool swapped = step % 3 == 1, squared = step % 3 == 2;
        const sr_tensor asked[2] = {xs[swapped], xs[!swapped]};
        sr_gradients(squared ? z : y, squared ? y : SR_NONE, asked, 2, grads);
        expect_all(grads[swapped], squared ? 2 * 15 * 15 : 5);
        expect_all(grads[!swapped], squared ? 9 * 15 : 3);
    }
    sr_context_free(context);
}

static void test_a_failed_step_leaves_nothing_behind(void **state) {
    (void)state;
    sr_context *context = context_new();
    for (int step = 0; step < 6; step++) {
        sr_context_begin_step(context);
        sr_tensor x = constant(context, 2), grad;
        sr_tensor y = sr_mul(x, x);
        if (step & 1) {
            (void)sr_add(y, sr_reshape(y, 2, (const int64_t[]){2, 2}));
            assert_status(SR_E_SHAPE, sr_context_status(context));
            continue;
        }
        sr_gradients(y, SR_NONE, &x, 1, &grad);
        expect_all(grad, 4);
    }
    sr_context_free(context);
}

// ---- Random steps compared with a new context ----

enum { PROGRAMS = 400, VALUES = 24, OPS = 14 };

typedef struct random_walk {
    sr_context *context;
    sr_tensor values[VALUES], variable;
    int count;
    float *reads; // results, in the order of the requests
    int read_count;
} random_walk;

// Errors are permanent, e.g. that of reading a value that an update has destroyed.
static void read_into(random_walk *w, sr_tensor tensor) {
    float *to = w->reads + 4 * (size_t)w->read_count++;
    const sr_status status = sr_read(tensor, to, 4 * sizeof *to);
    if (status != sr_context_status(w->context))
        fail_msg("read %d (%s)", (int)status, sr_error_message());
}

static void one_call(random_walk *w, sr_rng *rng) {
    const sr_tensor a = w->values[sr_rng_below(rng, (uint32_t)w->count)];
    const sr_tensor b = w->values[sr_rng_below(rng, (uint32_t)w->count)];
    sr_tensor *out = &w->values[w->count], pair[2] = {a, b}, grads[2];
    switch (sr_rng_below(rng, 12)) {
    case 0:
        *out = sr_add(a, b);
        break;
    case 1:
        *out = sr_mul(a, b);
        break;
    case 2:
        *out = sr_tanh_op(a);
        break;
    case 3:
        *out = sr_relu(a);
        break;
    case 4:
        *out = sr_scale(a, 0.25 * (double)sr_rng_below(rng, 5), 0.5);
        break;
    case 5:
        *out = constant(w->context, (float)sr_rng_below(rng, 3));
        break;
    case 6:
        *out = sr_sigmoid(a);
        sr_keep(*out);
        break;
    case 7:
        read_into(w, a);
        return;
    case 8:
        sr_variable_assign(w->variable, a);
        return;
    default: // mostly gradients
        sr_gradients(a, sr_rng_below(rng, 2) ? b : SR_NONE, pair, 2, grads);
        *out = sr_tanh_op(sr_add(grads[0], grads[1]));
    }
    w->count++;
}

// A step that is a function of 'seed' and the variable's value; an error ends it.
static sr_status random_step(random_walk *w, uint32_t seed) {
    sr_rng rng;
    memset(w->reads, 0, 4 * (OPS + 2) * sizeof(float));
    sr_rng_init(&rng, seed, 0, 0, 0);
    sr_context_begin_step(w->context);
    w->values[0] = w->variable;
    w->values[1] = sr_constant(w->context, &four, ramp);
    w->count = 2;
    w->read_count = 0;
    for (int i = 0; i < OPS; i++) {
        one_call(w, &rng);
        SR_TRY(sr_context_status(w->context));
    }
    sr_read_later(w->values[w->count - 1], w->reads + 4 * (size_t)w->read_count++,
                  4 * sizeof(float));
    SR_TRY(sr_context_run(w->context));
    read_into(w, w->variable);
    return sr_context_status(w->context);
}

static void test_random_steps_have_no_past(void **state) {
    (void)state;
    static float kept[4 * (OPS + 2)], fresh[4 * (OPS + 2)], value[4];
    random_walk w = {.context = context_new(), .reads = kept};
    sr_rng rng;
    int passed = 0;
    w.variable = sr_variable(w.context, "v", &four, ramp);
    sr_rng_init(&rng, 11, 0, 0, 0);
    for (int i = 0; i < PROGRAMS; i++) {
        // A few steps alternate for a while, then others do.
        const uint32_t seed = (uint32_t)i / 16 * 8 + sr_rng_below(&rng, 1 + (uint32_t)i / 16 % 6);
        char message[512];
        sr_context_begin_step(w.context);
        assert_ok(sr_read(w.variable, value, sizeof value));
        random_walk alone = {.context = context_new(), .reads = fresh};
        alone.variable = sr_variable(alone.context, "v", &four, value);
        const sr_status status = random_step(&w, seed);
        (void)snprintf(message, sizeof message, "%s", sr_error_message());
        assert_int_equal(status, random_step(&alone, seed));
        if (status != SR_OK)
            assert_string_equal(message, sr_error_message());
        passed += status == SR_OK;
        assert_int_equal(alone.read_count, w.read_count);
        if (memcmp(kept, fresh, (size_t)w.read_count * 4 * sizeof(float)) != 0)
            fail_msg("step %d (seed %u) differs from the same step in a new context", i, seed);
        sr_context_free(alone.context);
    }
    const sr_context_stats stats = sr_context_get_stats(w.context);
    assert_true(passed > PROGRAMS / 2);
    assert_true(stats.nodes_repeated > stats.nodes_recorded / 4);
    assert_true(stats.programs_repeated > PROGRAMS / 8);
    sr_context_free(w.context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_repeated_step_is_neither_built_nor_looked_for),
        cmocka_unit_test(test_a_repeated_plan_is_bound_again),
        cmocka_unit_test(test_an_executor_is_freed_while_it_replays),
        cmocka_unit_test(test_phases_take_turns),
        cmocka_unit_test(test_a_change_is_seen),
        cmocka_unit_test(test_another_request_is_another_program),
        cmocka_unit_test(test_what_has_run_is_not_run_again),
        cmocka_unit_test(test_other_gradients_are_others),
        cmocka_unit_test(test_a_failed_step_leaves_nothing_behind),
        cmocka_unit_test(test_random_steps_have_no_past),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
