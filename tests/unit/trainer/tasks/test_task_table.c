// SPDX-License-Identifier: Apache-2.0
// Every task of the table: it has a case here, is described, trains, and its metrics give the same
// bits however the blocks of an evaluation are divided among ranks.
#include <math.h>
#include <stdio.h>

#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/test_support.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/from_recipe.h"

enum { CLASSES = 5, BLOCKS = 4 };

// A recipe of each task, for pictures of 32 pixels.
static const struct {
    const char *task, *recipe, *overrides[2];
} cases[] = {
    {"classify", "tests/recipes/tiny.yaml", {NULL}},
    {"gan", "tests/recipes/gan-portable.yaml", {NULL}},
    {"segment", "tests/recipes/segment-portable.yaml", {NULL}},
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct job {
    sr_recipe *recipe;
    const sr_task_desc *task;
    sr_comm *comm;
    sr_engine *engine;
    sr_slot slots[BLOCKS];
} job;

// Random pixels and classes, in the types and shapes of the task's slot.
static void fill_slot(const sr_slot *like, uint32_t number, sr_slot *out) {
    sr_rng rng;
    sr_rng_init(&rng, 5, number, 0, 0);
    *out = *like;
    out->first_position = 0;
    out->valid = like->array[0].shape[0];
    for (int i = 0; i < out->arrays; i++) {
        sr_array *a = &out->array[i];
        int64_t count = 1;
        for (int d = 0; d < a->rank; d++)
            count *= a->shape[d];
        a->data = sr_alloc((size_t)count * sr_dtype_size(a->dtype), "array");
        assert_non_null(a->data);
        for (int64_t k = 0; k < count; k++) {
            if (a->dtype == SR_U8)
                ((uint8_t *)a->data)[k] = (uint8_t)sr_rng_below(&rng, a->rank == 4 ? 256 : CLASSES);
            else if (a->dtype == SR_I32)
                ((int32_t *)a->data)[k] = (int32_t)sr_rng_below(&rng, CLASSES);
        }
    }
}

static sr_status get(void *user, int lane, sr_slot *out) {
    const job *j = user;
    *out = j->slots[lane % BLOCKS];
    return SR_OK;
}

static void done(void *user, int lane) {
    (void)user;
    (void)lane;
}

static void begin(int which, job *j) {
    const char *overrides[5] = {"batch=32", "lanes=2", "image=32"};
    int count = 3;
    const sr_comm_options comm = {.alone = true};
    *j = (job){0};
    for (int i = 0; i < 2 && cases[which].overrides[i]; i++)
        overrides[count++] = cases[which].overrides[i];
    assert_ok(sr_recipe_load(cases[which].recipe, overrides, count, &j->recipe));
    assert_ok(sr_recipe_check(j->recipe));
    assert_ok(sr_choose_task(j->recipe, &j->task));
    assert_string_equal(j->task->name, cases[which].task);
    assert_ok(sr_comm_create(&comm, &j->comm));
    sr_engine_options options = sr_engine_options_of(j->recipe, j->task);
    options.comm = j->comm;
    options.classes = CLASSES;
    options.threads = 1;
    assert_ok(sr_engine_create(&options, &j->engine));
    for (uint32_t b = 0; b < BLOCKS; b++)
        fill_slot(sr_engine_get_slot(j->engine), b, &j->slots[b]);
}

static void end(job *j) {
    for (int b = 0; b < BLOCKS; b++)
        for (int i = 0; i < j->slots[b].arrays; i++)
            sr_free(j->slots[b].array[i].data);
    sr_engine_free(j->engine);
    sr_comm_free(j->comm);
    sr_recipe_free(j->recipe);
}

static void train(job *j) {
    const sr_lane_source source = {.get = get, .done = done, .user = j};
    for (int step = 0; step < 2; step++) {
        for (int p = 0; p < sr_engine_get_info(j->engine).phases; p++) {
            sr_phase *phase = sr_engine_get_phase(j->engine, p);
            sr_phase_set_step(phase, step, step * 32, 0.01, 1.0 / 32, (sr_ema_settings){0});
            assert_ok(sr_engine_step(j->engine, p, step, &source));
            assert_true(isfinite(sr_phase_loss_sum(phase)));
            assert_true(sr_phase_loss_sum(phase) != 0);
        }
    }
}

// The blocks that 'ranks' ranks compute, each in a state of its own, gathered in block order.
static void measure(job *j, const sr_metric_desc *metric, int ranks, double *values) {
    const sr_metric_setting setting = {.classes = CLASSES, .samples = 64, .last = true};
    void *states[BLOCKS];
    sr_text bytes[BLOCKS];
    const void *data[BLOCKS];
    size_t sizes[BLOCKS], count = 0;
    for (int r = 0; r < ranks; r++) {
        states[r] = sr_alloc(metric->state_size + 1, "state");
        assert_non_null(states[r]);
        if (metric->begin)
            assert_ok(metric->begin(states[r], &setting));
    }
    for (int b = 0; b < BLOCKS; b++) {
        sr_task_outputs outputs;
        const sr_metric_samples samples = {.slot = &j->slots[b], .outputs = &outputs};
        sr_text_init(&bytes[b]);
        assert_ok(sr_engine_infer(j->engine, &j->slots[b], &outputs));
        assert_ok(metric->add(states[b % ranks], &samples, &bytes[b]));
        data[b] = bytes[b].data;
        sizes[b] = bytes[b].length;
    }
    for (int r = 1; metric->counts && r < ranks; r++) {
        int64_t *sum = metric->counts(states[0], &count), *more = metric->counts(states[r], &count);
        for (size_t i = 0; i < count; i++)
            sum[i] += more[i];
    }
    sr_metric_result result = {.values = values};
    const sr_metric_blocks blocks = {.count = BLOCKS, .data = data, .bytes = sizes};
    assert_ok(metric->result(states[0], &blocks, &result));
    assert_int_equal(result.samples, BLOCKS * j->slots[0].valid);
    assert_int_equal(result.not_finite, 0);
    for (int r = 0; r < ranks; r++) {
        if (metric->release)
            metric->release(states[r]);
        sr_free(states[r]);
    }
    for (int b = 0; b < BLOCKS; b++)
        sr_text_release(&bytes[b]);
}

static void check_metrics(job *j) {
    for (int m = 0; j->task->metrics && j->task->metrics[m]; m++) {
        const sr_metric_desc *metric = j->task->metrics[m];
        double one[SR_TASK_COLUMNS], three[SR_TASK_COLUMNS];
        measure(j, metric, 1, one);
        measure(j, metric, 3, three);
        assert_memory_equal(one, three, (size_t)metric->column_count * sizeof *one);
        for (int c = 0; c < metric->column_count; c++) {
            assert_true(isfinite(one[c]));
            assert_non_null(metric->columns[c].label);
            if (metric->columns[c].unit == SR_UNIT_FRACTION)
                assert_true(one[c] >= 0 && one[c] <= 1);
        }
    }
}

static void check_inference(job *j) {
    sr_target targets[SR_TASK_OUTPUTS];
    sr_task_outputs outputs;
    const int64_t samples = sr_engine_get_info(j->engine).lane_samples;
    if (!j->task->infer)
        return;
    assert_ok(sr_engine_record_inference(j->engine, samples, 32, 32, &outputs, targets));
    assert_true(outputs.count > 0);
    for (int i = 0; i < outputs.count; i++)
        assert_int_equal(outputs.item[i].info.dim[0], samples);
}

static void every_task_trains(void **state) {
    (void)state;
    for (int which = 0; which < CASES; which++) {
        job j;
        begin(which, &j);
        train(&j);
        check_inference(&j);
        check_metrics(&j);
        end(&j);
    }
}

static void every_task_has_a_case(void **state) {
    size_t count;
    const sr_task_desc *const *tasks = sr_tasks(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        int which = 0;
        while (which < CASES && strcmp(cases[which].task, tasks[i]->name) != 0)
            which++;
        if (which == CASES)
            fail_msg("task %s has no case in test_task_table.c", tasks[i]->name);
        assert_true(tasks[i]->help && tasks[i]->record && sr_task_phases(tasks[i]) > 0);
        assert_true(!tasks[i]->metrics || (tasks[i]->infer && tasks[i]->view && tasks[i]->best));
    }
    assert_int_equal(count, CASES);
}

// What a plug-in may get wrong is refused by name.
static void wrong_tasks_are_refused(void **state) {
    static const sr_column column = {"x", "x", SR_UNIT_NUMBER, SR_BETTER_HIGHER};
    sr_metric_desc metric = {.struct_size = sizeof metric,
                             .abi = SR_METRIC_ABI,
                             .name = "m",
                             .columns = &column,
                             .column_count = 1};
    const sr_metric_desc *const metrics[] = {&metric, NULL};
    sr_task_desc task = *sr_task_find("classify");
    const sr_task_desc *const list[] = {&task, NULL};
    (void)state;
    assert_status(SR_E_USAGE, sr_tasks_add(list, "a test"));
    assert_message("classify");
    task.name = "other";
    task.scalars[0].phase = 1;
    assert_status(SR_E_USAGE, sr_tasks_add(list, "a test"));
    assert_message("belongs to no phase");
    task.scalars[0].phase = 0;
    task.metrics = metrics;
    assert_status(SR_E_USAGE, sr_tasks_add(list, "a test"));
    assert_message("its metric m needs 'add' and 'result'");
    metric.add = sr_task_find("classify")->metrics[0]->add;
    metric.result = sr_task_find("classify")->metrics[0]->result;
    task.best = "y";
    assert_status(SR_E_USAGE, sr_tasks_add(list, "a test"));
    assert_message("'best' is not a column of its metrics");
    metric.abi++;
    assert_status(SR_E_UNSUPPORTED, sr_tasks_add(list, "a test"));
    task.record = NULL;
    assert_status(SR_E_USAGE, sr_tasks_add(list, "a test"));
    assert_null(sr_task_find("other"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_has_a_case),
        cmocka_unit_test(every_task_trains),
        cmocka_unit_test(wrong_tasks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
