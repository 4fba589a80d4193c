// SPDX-License-Identifier: Apache-2.0
// Memory plans of the shipped recipes' networks: near the lower bound, without overlaps, and what
// reports see of them. Programs are compiled, not run.
#include "test_support.h"

#include <stdio.h>

#include "graph/plan_view.h"
#include "kernels/base/memory.h"
#include "trainer/choices.h"
#include "trainer/engine.h"

static const double most_over_bound = 1.05;

typedef struct fixture {
    sr_recipe *recipe;
    sr_comm *comm;
    sr_engine *engine;
} fixture;

static void begin(fixture *f, const char *recipe, int batch, const char *precision) {
    char batch_text[32], precision_text[32];
    (void)snprintf(batch_text, sizeof batch_text, "batch=%d", batch);
    (void)snprintf(precision_text, sizeof precision_text, "precision=%s", precision);
    const char *overrides[] = {batch_text, "lanes=1", precision_text};
    const sr_task_desc *task;
    const sr_comm_options comm = {.backend = "self"};
    assert_ok(sr_recipe_load(recipe, overrides, 3, &f->recipe));
    assert_ok(sr_choose_task(f->recipe, &task));
    assert_ok(sr_comm_create(&comm, &f->comm));
    const sr_engine_options options = {.recipe = f->recipe,
                                       .task = task,
                                       .comm = f->comm,
                                       .threads = 1,
                                       .classes = 10,
                                       .batch = batch,
                                       .lanes = 1,
                                       .image_height = f->recipe->image_height,
                                       .image_width = f->recipe->image_width};
    assert_ok(sr_engine_create(&options, &f->engine));
}

static void end(fixture *f) {
    sr_engine_free(f->engine);
    sr_comm_free(f->comm);
    sr_recipe_free(f->recipe);
}

static void expect_near_bound(const char *recipe, int batch, const char *precision) {
    fixture f;
    sr_plan *plan;
    begin(&f, recipe, batch, precision);
    for (int p = 0; p < f.engine->phase_count; p++) {
        assert_ok(sr_engine_compile(f.engine, p, &plan));
        const double peak = (double)sr_plan_peak_bytes(plan),
                     bound = (double)sr_plan_live_bound_bytes(plan);
        sr_planner_view planner;
        int taken = 0;
        (void)printf("%-14s phase %d batch %3d %s: %8.1f MiB, ratio %.4f;", recipe, p, batch,
                     precision, peak / (1 << 20), peak / bound);
        for (int i = 0; sr_plan_get_planner(plan, i, &planner); i++) {
            (void)printf(" %s %.4f%s", planner.name, (double)planner.bytes / bound,
                         planner.taken ? "*" : "");
            taken += planner.taken;
            assert_true((double)planner.bytes >= peak);
            assert_true(!planner.taken || (double)planner.bytes == peak);
        }
        (void)printf("\n");
        assert_int_equal(1, taken);
        assert_true(peak >= bound && peak <= most_over_bound * bound);
    }
    end(&f);
}

static bool all; // else one batch

static void near_the_lower_bound(void **state) {
    (void)state;
    static const char *const recipes[] = {"cifar10-fast", "cifar10-resnet", "resnet18", "resnet50",
                                          "toy-gan"};
    static const char *const precisions[] = {"fp32", "bf16"};
    static const int batches[] = {32, 2, 96};
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++)
        for (int p = 0; p < 2; p++)
            for (int b = 0; b < (all ? 3 : 1); b++)
                expect_near_bound(recipes[r], batches[b], precisions[p]);
}

// No two values that are held at the same time share a byte, and what is held at most is the bound.
static void views_agree_with_the_plan(void **state) {
    (void)state;
    fixture f;
    sr_plan *plan;
    begin(&f, "cifar10-resnet", 4, "fp32");
    assert_ok(sr_engine_compile(f.engine, 0, &plan));
    const int launches = sr_plan_node_count(plan), steps = sr_plan_step_count(plan);
    size_t *live = sr_alloc_array((size_t)steps + 1, sizeof *live, "a test"), most = 0;
    assert_non_null(live);
    int workspaces = 0;
    for (uint32_t i = 0; i < sr_plan_value_count(plan); i++) {
        sr_plan_memory_view a, b;
        if (!sr_plan_get_memory(plan, i, &a))
            continue;
        assert_true(a.offset % 64 == 0 && a.offset + a.bytes <= sr_plan_peak_bytes(plan));
        assert_true(0 <= a.first && a.first <= a.last && a.last < steps);
        workspaces += a.workspace;
        for (int t = a.first; t <= a.last; t++)
            live[t] += a.bytes;
        for (uint32_t k = i + 1; k < sr_plan_value_count(plan); k++)
            if (sr_plan_get_memory(plan, k, &b) && a.first <= b.last && b.first <= a.last)
                assert_true(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
    }
    for (int t = 0; t < steps; t++)
        most = live[t] > most ? live[t] : most;
    assert_int_equal(sr_plan_live_bound_bytes(plan), most);
    double flops = 0, bytes = 0;
    int used = 0;
    for (int t = 0; t < launches; t++) {
        sr_plan_launch_view l;
        sr_plan_get_launch(plan, t, &l);
        assert_true(l.inputs <= l.args && strlen(l.op) > 0 && strchr(l.kernel, '/') && l.line > 0);
        assert_true(0 <= l.first_step && l.first_step <= l.last_step && l.last_step < steps);
        flops += l.flops;
        bytes += l.bytes;
        used += l.workspace != SR_PLAN_NO_VALUE;
    }
    assert_true(flops == sr_plan_flops(plan) && bytes == sr_plan_bytes(plan));
    assert_int_equal(workspaces, used);
    sr_free(live);
    end(&f);
}

int main(int argc, char **argv) {
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_the_lower_bound),
        cmocka_unit_test(views_agree_with_the_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
