// SPDX-License-Identifier: Apache-2.0
// Corner cases of memory and order in the graph: targets after operators that work in place,
// readers of a variable through another shape, values read before an update, tensors whose context
// was freed, shapes that exceed any memory, and plans that are dropped while still in use.
#include <string.h>

#include "autograd/gradients.h"
#include "graph/context.h"
#include "kernels/base/memory.h"
#include "kernels/device/device.h"
#include "tests/unit/support/device_support.h"

static const sr_info four = {.dtype = SR_F32, .rank = 1, .dim = {4}};
static const sr_info eight = {.dtype = SR_F32, .rank = 1, .dim = {8}};
static const int64_t square[2] = {2, 2}, line[1] = {4};

static sr_context *context_new(void) {
    const sr_context_options options = {.threads = 2};
    sr_context *context;
    assert_ok(sr_context_create(&options, &context));
    sr_context_begin_step(context);
    return context;
}

static sr_tensor constant(sr_context *context, float value) {
    const float values[4] = {value, value, value, value};
    return sr_constant(context, &four, values);
}

static sr_tensor variable(sr_context *context, const char *name, float value) {
    const float values[4] = {value, value, value, value};
    return sr_variable(context, name, &four, values);
}

static void expect_all(sr_tensor tensor, float want) {
    float got[4] = {0};
    assert_ok(sr_read(tensor, got, sizeof got));
    for (int i = 0; i < 4; i++)
        assert_true(got[i] == want);
}

// ---- Targets ----

// Four equal numbers on the device, freed with it.
static sr_address filled(sr_context *context, float value) {
    const float values[4] = {value, value, value, value};
    return device_copy(sr_context_device(context), values, sizeof values);
}

typedef struct ordered_deliveries {
    float value[4];      // of each target
    int order[4];        // indices of targets in the order of their delivery
    sr_address variable; // overwritten behind target 0, as an optimiser would do
    int count;
} ordered_deliveries;

static sr_status take_target(void *user, int index, sr_address data, size_t bytes,
                             sr_stream *stream) {
    static const float other[4] = {-1000, -1000, -1000, -1000};
    ordered_deliveries *d = user;
    (void)bytes;
    SR_TRY(sr_stream_download(stream, &d->value[index], data, sizeof(float)));
    d->order[d->count++] = index;
    return index == 0 && !sr_address_is_none(d->variable)
               ? sr_stream_upload(stream, d->variable, other, sizeof other)
               : SR_OK;
}

static ordered_deliveries run_targets(sr_context *context, const sr_target *targets, int count,
                                      sr_address overwritten) {
    ordered_deliveries d = {.variable = overwritten};
    sr_plan *plan;
    sr_executor *executor;
    const sr_run run = {.sink = take_target, .user = &d};
    assert_ok(sr_compile(context, targets, count, &plan));
    assert_ok(sr_executor_create(sr_context_device(context), 1, &executor));
    assert_ok(sr_executor_begin(executor, plan, &run));
    assert_ok(sr_executor_wait(executor));
    assert_int_equal(count, d.count);
    sr_executor_free(executor);
    return d;
}

// 'early' waits for the last reader of w, and that reader could take its memory.
static void test_a_waiting_target_is_not_overwritten(void **state) {
    (void)state;
    sr_context *context = context_new();
    sr_tensor w = variable(context, "w", 3);
    sr_tensor early = sr_scale(constant(context, 2), 5, 0);
    sr_tensor late = sr_mul(early, w);
    const sr_target targets[2] = {{.tensor = early, .after = w}, {.tensor = late}};
    const ordered_deliveries d = run_targets(context, targets, 2, sr_address_none());
    assert_true(d.value[0] == 10);
    assert_true(d.value[1] == 30);
    sr_context_free(context);
}

// A reader of w through another shape is a reader of w.
static void test_a_target_waits_for_readers_under_another_shape(void **state) {
    (void)state;
    sr_context *context = context_new();
    const sr_address memory = filled(context, 3);
    sr_tensor w = sr_variable_on(context, "w", &four, memory);
    sr_tensor early = sr_scale(constant(context, 2), 5, 0);
    sr_tensor other = sr_reshape(sr_scale(constant(context, 1), 7, 0), 2, square);
    sr_tensor late = sr_mul(other, sr_reshape(w, 2, square));
    const sr_target targets[2] = {{.tensor = early, .after = w}, {.tensor = late}};
    const ordered_deliveries d = run_targets(context, targets, 2, memory);
    assert_true(d.value[0] == 10);
    assert_true(d.value[1] == 21);
    sr_context_free(context);
}

// ---- Updates ----

// p was taken through another shape before the update: it keeps the old value.
static void test_a_reshaped_variable_keeps_its_value_through_an_update(void **state) {
    (void)state;
    sr_context *context = context_new();
    const float hyper[8] = {1, 0, 0, 0, 1, 0, 0, 0};
    sr_tensor p = variable(context, "p", 5), m = variable(context, "m", 0);
    sr_tensor old = sr_reshape(p, 2, square);
    sr_sgd_update(p, m, constant(context, 2), sr_constant(context, &eight, hyper));
    float before[4], after[4];
    sr_read_later(sr_scale(old, 2, 0), before, sizeof before);
    sr_read_later(sr_scale(p, 2, 0), after, sizeof after);
    assert_ok(sr_context_run(context));
    assert_true(before[0] == 10);
    assert_true(after[0] == 6);
    sr_context_free(context);
}

// Values are those of the recorded order, or an error.
static void test_a_value_after_an_update_is_never_the_old_one(void **state) {
    (void)state;
    sr_context *context = context_new();
    const float hyper[8] = {1, 0, 0, 0, 1, 0, 0, 0};
    float got[4];
    for (int early = 1; early >= 0; early--) {
        sr_tensor p = variable(context, "p", 5), m = variable(context, "m", 0);
        sr_tensor before = sr_scale(p, 3, 0);
        sr_sgd_update(p, m, constant(context, 2), sr_constant(context, &eight, hyper));
        sr_tensor behind = sr_scale(p, 2, 0);
        expect_all(before, 15);
        if (early) {
            assert_status(SR_E_ARGUMENT, sr_read(behind, got, sizeof got));
            assert_message("scale: reads variable 'p' after its update");
            sr_context_begin_step(context);
            continue;
        }
        sr_read_later(behind, got, sizeof got);
        assert_ok(sr_context_run(context));
        assert_true(got[0] == 6);
        expect_all(sr_scale(p, 2, 0), 6);
    }
    sr_context_free(context);
}

static void test_an_unbound_input_cannot_be_assigned(void **state) {
    (void)state;
    sr_context *context = context_new();
    sr_tensor p = variable(context, "p", 5);
    sr_variable_assign(p, sr_input(context, 2, &four));
    assert_status(SR_E_ARGUMENT, sr_context_run(context));
    assert_message("input slot 2");
    sr_context_free(context);
}

// A read of a variable returns its value after all updates recorded so far in the step.
static void test_a_read_of_a_variable_runs_its_updates(void **state) {
    (void)state;
    sr_context *context = context_new();
    sr_tensor p = variable(context, "p", 5);
    sr_variable_assign(p, sr_scale(p, 2, 0));
    expect_all(p, 10);
    assert_ok(sr_context_run(context));
    expect_all(p, 10);
    sr_context_free(context);
}

// ---- Gradients ----

static void test_the_gradient_of_a_value_has_its_shape(void **state) {
    (void)state;
    sr_context *context = context_new();
    sr_tensor x = constant(context, 1), grad;
    sr_tensor y = sr_add(x, x), dy = sr_reshape(constant(context, 1), 2, square);
    sr_gradients(y, dy, &x, 1, &grad);
    assert_true(sr_is_none(grad));
    assert_status(SR_E_SHAPE, sr_context_status(context));
    assert_message("sr_gradients: dy is [2, 2] f32, y is [4] f32");
    sr_context_begin_step(context);
    x = constant(context, 1);
    sr_gradients(sr_add(x, x), sr_reshape(constant(context, 3), 1, line), &x, 1, &grad);
    expect_all(grad, 6);
    sr_context_free(context);
}

// ---- Tensors whose context was freed ----

static void test_tensors_of_a_freed_context_are_refused(void **state) {
    (void)state;
    sr_context *first = context_new();
    sr_tensor stale_variable = variable(first, "w", 1), stale_value = constant(first, 1);
    sr_context_free(first);
    sr_context *second = context_new(); // gets the number of the first
    (void)constant(second, 2);
    assert_int_equal(second ? stale_value.context : 0, constant(second, 2).context);
    assert_true(sr_is_none(sr_relu(stale_value)));
    assert_status(SR_E_ARGUMENT, sr_context_status(second));
    sr_context_begin_step(second);
    assert_true(sr_is_none(sr_relu(stale_variable)));
    assert_status(SR_E_ARGUMENT, sr_context_status(second));
    sr_context_free(second);
}

// ---- Shapes ----

typedef struct wrong_info {
    sr_info info;
    const char *message;
} wrong_info;

static void test_shapes_that_no_memory_holds(void **state) {
    (void)state;
    static const wrong_info wrong[] = {
        {{.dtype = SR_F32, .rank = 2, .dim = {3, 0}}, "[3, 0] f32: dimensions must be at least 1"},
        {{.dtype = SR_F32, .rank = 1, .dim = {-4}}, "[-4] f32: dimensions must be at least 1"},
        {{.dtype = SR_F32, .rank = SR_MAX_RANK + 1}, "6 dimensions"},
        {{.dtype = SR_F32, .rank = -1}, "-1 dimensions"},
        {{.dtype = SR_DTYPE_COUNT, .rank = 0}, "no dtype"},
        {{.dtype = SR_F64, .rank = 3, .dim = {1 << 30, 1 << 30, 1 << 30}}, "at most 2^48 elements"},
    };
    static const float data[4] = {0};
    sr_context *context = context_new();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const sr_info *info = &wrong[i].info;
        for (int way = 0; way < 4; way++) {
            sr_tensor t = way == 0   ? sr_constant(context, info, data)
                          : way == 1 ? sr_input(context, 0, info)
                          : way == 2 ? sr_variable(context, "v", info, NULL)
                                     : sr_variable_on(context, "v", info, sr_address_none());
            assert_true(sr_is_none(t));
            assert_status(SR_E_SHAPE, sr_context_status(context));
            assert_message(wrong[i].message);
            sr_context_begin_step(context);
        }
    }
    // The shape of an operator's result is checked as well; the message gives its name and line.
    const sr_info wide = {.dtype = SR_F32, .rank = 4, .dim = {1, 1, 1, 1}};
    sr_tensor x = sr_constant(context, &wide, data);
    for (int i = 0; i < 3; i++)
        x = sr_upsample2d(x, 4096);
    assert_true(sr_is_none(x));
    assert_status(SR_E_SHAPE, sr_context_status(context));
    assert_message("test_graph_corners.c:");
    assert_message("upsample2d");
    sr_context_free(context);
}

// Dimensions after the rank are ignored: they must not make two shapes of one.
static void test_unused_dimensions_do_not_count(void **state) {
    (void)state;
    sr_context *context = context_new();
    sr_info odd = four;
    odd.dim[3] = 77;
    const float values[4] = {1, 1, 1, 1};
    sr_tensor p = sr_variable(context, "p", &odd, NULL);
    sr_variable_assign(p, sr_constant(context, &four, values));
    assert_ok(sr_context_run(context));
    expect_all(p, 1);
    sr_context_free(context);
}

// ---- Plans and executors ----

static sr_status compile_length(sr_context *context, int64_t length, sr_plan **plan) {
    const sr_info info = {.dtype = SR_F32, .rank = 1, .dim = {length}};
    const sr_target target = {.tensor = sr_relu(sr_input(context, 0, &info))};
    return sr_compile(context, &target, 1, plan);
}

static void test_the_plan_cache_keeps_its_limit(void **state) {
    (void)state;
    const sr_context_options options = {.threads = 1, .plan_cache_bytes = 64 << 10};
    sr_context *context;
    sr_plan *plan;
    assert_ok(sr_context_create(&options, &context));
    for (int round = 0; round < 2; round++) {
        const uint64_t before = sr_memory_get_stats().live_bytes;
        for (int64_t length = 1; length <= 100; length++) {
            sr_context_begin_step(context);
            assert_ok(compile_length(context, length, &plan));
        }
        if (round == 1) // the first round creates the cache and the program
            assert_true(sr_memory_get_stats().live_bytes < before + (16 << 10));
    }
    assert_int_equal(200, sr_context_get_stats(context).plans_compiled);
    assert_ok(compile_length(context, 100, &plan));
    assert_ok(compile_length(context, 99, &plan));
    assert_int_equal(200, sr_context_get_stats(context).plans_compiled);
    // The plans of one step are kept, whatever the limit.
    sr_context_begin_step(context);
    sr_plan *plans[100];
    for (int i = 0; i < 100; i++)
        assert_ok(compile_length(context, 1000 + i, &plans[i]));
    for (int i = 0; i < 100; i++)
        assert_int_equal(1, sr_plan_node_count(plans[i]));
    sr_context_free(context);
}

static void test_an_executor_replays_one_plan_at_a_time(void **state) {
    (void)state;
    sr_context *context = context_new();
    sr_plan *plan;
    sr_executor *executor;
    const sr_target target = {.tensor = sr_relu(constant(context, 1))};
    const sr_run run = {0};
    assert_ok(sr_compile(context, &target, 1, &plan));
    assert_ok(sr_executor_create(sr_context_device(context), 1, &executor));
    assert_ok(sr_executor_begin(executor, plan, &run));
    assert_status(SR_E_ARGUMENT, sr_executor_begin(executor, plan, &run));
    assert_message("sr_executor_wait");
    assert_ok(sr_executor_wait(executor));
    assert_ok(sr_executor_begin(executor, plan, &run));
    assert_ok(sr_executor_wait(executor));
    sr_executor_free(executor);
    sr_context_free(context);
}

// Plans that take turns, as those of a step with phases do, keep their rows.
static void test_profiles_of_plans_that_take_turns(void **state) {
    (void)state;
    const sr_context_options options = {.threads = 1};
    const sr_run run = {0};
    sr_context *context;
    sr_executor *executor;
    sr_plan *plans[2];
    sr_node_profile rows[4];
    assert_ok(sr_context_create(&options, &context));
    assert_ok(sr_executor_create(sr_context_device(context), 1, &executor));
    for (int i = 0; i < 2; i++) {
        sr_context_begin_step(context);
        const sr_tensor x = constant(context, 1);
        const sr_target target = {.tensor = i == 0 ? sr_relu(x) : sr_gelu(x)};
        assert_ok(sr_compile(context, &target, 1, &plans[i]));
    }
    sr_executor_set_profiling(executor, true);
    for (int i = 0; i < 6; i++) {
        assert_ok(sr_executor_begin(executor, plans[i % 2], &run));
        assert_ok(sr_executor_wait(executor));
    }
    assert_int_equal(2, sr_executor_get_profile(executor, rows, 4));
    assert_string_equal("relu", rows[0].op);
    assert_string_equal("gelu", rows[1].op);
    for (int i = 0; i < 2; i++)
        assert_int_equal(3, rows[i].runs);
    sr_executor_free(executor);
    sr_context_free(context);
}

// A profile outlives its plan, and a later plan at the same address is not confused with it.
static void test_a_profile_outlives_its_plan(void **state) {
    (void)state;
    const sr_context_options options = {.threads = 1, .plan_cache_bytes = 1};
    sr_context *context;
    sr_executor *executor;
    sr_node_profile rows[8];
    int count = 0;
    assert_ok(sr_context_create(&options, &context));
    assert_ok(sr_executor_create(sr_context_device(context), 1, &executor));
    sr_executor_set_profiling(executor, true);
    assert_int_equal(0, sr_executor_get_profile(executor, rows, 8));
    for (int nodes = 1; nodes <= 3; nodes++) {
        sr_plan *plan;
        const sr_run run = {0};
        sr_context_begin_step(context);
        sr_tensor x = constant(context, 1);
        for (int i = 0; i < nodes; i++)
            x = sr_relu(x);
        const sr_target target = {.tensor = x};
        assert_ok(sr_compile(context, &target, 1, &plan));
        for (int i = 0; i < nodes; i++) {
            assert_ok(sr_executor_begin(executor, plan, &run));
            assert_ok(sr_executor_wait(executor));
        }
        sr_context_begin_step(context);
        assert_ok(compile_length(context, 100 + nodes, &plan)); // drops the profiled one
        count += nodes;
        assert_int_equal(count, sr_executor_get_profile(executor, rows, 8));
        for (int i = count - nodes; i < count; i++) {
            assert_string_equal("relu", rows[i].op);
            assert_int_equal(nodes, rows[i].runs);
        }
    }
    assert_int_equal(1, rows[0].runs);
    sr_executor_free(executor);
    sr_context_free(context);
}

// A compiled plan takes over the step's updates: the context does not run them again.
static void test_updates_belong_to_the_plan_that_compiled_them(void **state) {
    (void)state;
    sr_context *context = context_new();
    const float hyper[8] = {1, 0, 0, 0, 1, 0, 0, 0};
    sr_tensor p = variable(context, "p", 5), m = variable(context, "m", 0);
    sr_tensor g = constant(context, 2);
    sr_sgd_update(p, m, g, sr_constant(context, &eight, hyper));
    const sr_target target = {.tensor = sr_scale(g, 2, 0)};
    (void)run_targets(context, &target, 1, sr_address_none());
    assert_ok(sr_context_run(context));
    expect_all(p, 3);
    sr_context_free(context);
}

// ---- Replays of one plan ----

// The sum of an input and a variable, and both operands themselves, each through another shape.
static void expect_sum(sr_context *context, sr_executor *executor, sr_tensor v, sr_address input,
                       float of_input, float of_variable) {
    ordered_deliveries d = {.count = 0};
    const sr_address inputs[64] = {input};
    const sr_run run = {.inputs = inputs, .sink = take_target, .user = &d};
    sr_plan *plan;
    const sr_tensor x = sr_reshape(sr_input(context, 0, &four), 2, square);
    const sr_tensor y = sr_reshape(v, 2, square);
    const sr_target targets[] = {{.tensor = sr_add(x, y)}, {.tensor = x}, {.tensor = y}};
    assert_ok(sr_compile(context, targets, 3, &plan));
    assert_ok(sr_executor_begin(executor, plan, &run));
    assert_ok(sr_executor_wait(executor));
    assert_int_equal(3, d.count);
    assert_true(d.value[0] == of_input + of_variable);
    assert_true(d.value[1] == of_input && d.value[2] == of_variable);
    sr_context_begin_step(context);
}

static void test_a_replay_finds_what_has_moved(void **state) {
    (void)state;
    sr_context *context = context_new();
    sr_executor *executor;
    assert_ok(sr_executor_create(sr_context_device(context), 1, &executor));
    const sr_address memory[] = {filled(context, 1), filled(context, 20), filled(context, 300)};
    const sr_tensor v = sr_variable_on(context, "v", &four, memory[0]);
    expect_sum(context, executor, v, memory[1], 20, 1);
    expect_sum(context, executor, v, memory[2], 300, 1);
    sr_variable_move(v, memory[1]);
    expect_sum(context, executor, v, memory[2], 300, 20);
    expect_sum(context, executor, v, memory[1], 20, 20);
    sr_plan *other; // runs in between
    const sr_target doubled = {.tensor = sr_scale(v, 2, 0)};
    const sr_run nothing = {0};
    assert_ok(sr_compile(context, &doubled, 1, &other));
    assert_ok(sr_executor_begin(executor, other, &nothing));
    assert_ok(sr_executor_wait(executor));
    sr_context_begin_step(context);
    sr_variable_move(v, memory[0]);
    expect_sum(context, executor, v, memory[1], 20, 1);
    assert_int_equal(2, sr_context_get_stats(context).plans_compiled);
    sr_executor_free(executor);
    sr_context_free(context); // also frees the device and its memory
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_waiting_target_is_not_overwritten),
        cmocka_unit_test(test_a_target_waits_for_readers_under_another_shape),
        cmocka_unit_test(test_a_reshaped_variable_keeps_its_value_through_an_update),
        cmocka_unit_test(test_a_value_after_an_update_is_never_the_old_one),
        cmocka_unit_test(test_an_unbound_input_cannot_be_assigned),
        cmocka_unit_test(test_a_read_of_a_variable_runs_its_updates),
        cmocka_unit_test(test_the_gradient_of_a_value_has_its_shape),
        cmocka_unit_test(test_tensors_of_a_freed_context_are_refused),
        cmocka_unit_test(test_shapes_that_no_memory_holds),
        cmocka_unit_test(test_unused_dimensions_do_not_count),
        cmocka_unit_test(test_the_plan_cache_keeps_its_limit),
        cmocka_unit_test(test_an_executor_replays_one_plan_at_a_time),
        cmocka_unit_test(test_profiles_of_plans_that_take_turns),
        cmocka_unit_test(test_a_profile_outlives_its_plan),
        cmocka_unit_test(test_a_replay_finds_what_has_moved),
        cmocka_unit_test(test_updates_belong_to_the_plan_that_compiled_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
