// SPDX-License-Identifier: Apache-2.0
// Memory plans of the shipped recipes' networks: near the lower bound, without overlaps, and
// consistent with the reports about them. Programs are compiled, not run.
#include "tests/unit/support/test_support.h"

#include <stdio.h>

#include "graph/plan_view.h"
#include "kernels/base/memory.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/engine_internal.h"

static const double most_over_bound = 1.05;
// Where a few values make up a plan, they may not fit together well; and there it is no matter.
static const double small_excess = 64 << 10;

typedef struct plan_fixture {
    sr_recipe *recipe;
    sr_comm *comm;
    sr_engine *engine;
} plan_fixture;

static void begin(plan_fixture *f, const char *recipe, const char *model, int batch) {
    char batch_text[32], model_text[32];
    (void)snprintf(batch_text, sizeof batch_text, "batch=%d", batch);
    (void)snprintf(model_text, sizeof model_text, "model=%s", model ? model : "");
    const char *overrides[] = {batch_text, "lanes=1", model_text, "optimizer.groups=~"};
    const sr_task_desc *task;
    const sr_comm_options comm = {.alone = true};
    assert_ok(sr_recipe_load(recipe, overrides, model ? 4 : 2, &f->recipe));
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

static void end(plan_fixture *f) {
    sr_engine_free(f->engine);
    sr_comm_free(f->comm);
    sr_recipe_free(f->recipe);
}

// Plans of every phase, for lanes of 'samples' pictures of 'pixels' pixels a side (0: the
// recipe's).
static void expect_near_bound(const plan_fixture *f, const char *name, sr_dtype dtype, int samples,
                              int pixels) {
    sr_engine *e = f->engine;
    sr_plan *plan;
    e->dtype = dtype;
    e->lane_samples = samples;
    e->image_height = pixels ? pixels : f->recipe->image_height;
    e->image_width = pixels ? pixels : f->recipe->image_width;
    const sr_pipeline_options options = {.transformer = e->task->transformer,
                                         .image_height = e->image_height,
                                         .image_width = e->image_width};
    assert_ok(sr_input_feed_describe(&e->feed, &options, samples));
    for (int p = 0; p < e->phase_count; p++) {
        assert_ok(sr_engine_compile(e, p, &plan));
        const double peak = (double)sr_plan_peak_bytes(plan),
                     bound = (double)sr_plan_live_bound_bytes(plan);
        sr_planner_view planner;
        int taken = 0;
        (void)printf("%-14s phase %d, %3d of %3lld px, %s: %8.1f MiB, ratio %.4f;", name, p,
                     samples, (long long)e->image_height, sr_dtype_name(dtype), peak / (1 << 20),
                     peak / bound);
        for (int i = 0; sr_plan_get_planner(plan, i, &planner); i++) {
            (void)printf(" %s %.4f%s", planner.name, (double)planner.bytes / bound,
                         planner.taken ? "*" : "");
            taken += planner.taken;
            assert_true((double)planner.bytes >= peak);
            assert_true(!planner.taken || (double)planner.bytes == peak);
        }
        (void)printf("\n");
        assert_int_equal(1, taken);
        assert_true(peak >= bound && peak <= most_over_bound * bound + small_excess);
    }
}

static bool all; // else only what takes a few seconds

typedef struct network_case {
    const char *recipe, *model; // NULL: the recipe's model
} network_case;

// Every recipe's network, and the models that no recipe uses.
static void near_the_lower_bound(void **state) {
    (void)state;
    static const network_case networks[] = {{"cifar10-fast", NULL},   {"cifar10-resnet", NULL},
                                            {"cifar10-fast", "tiny"}, {"toy-gan", NULL},
                                            {"resnet18", NULL},       {"resnet50", "resnet34"},
                                            {"resnet50", NULL},       {"resnet50", "resnet101"}};
    static const sr_dtype dtypes[] = {SR_F32, SR_BF16};
    static const int shapes[][2] = {{32, 0}, {2, 0}, {96, 0}, {8, 64}, {5, 96}};
    enum { NETWORKS = sizeof networks / sizeof *networks, SHAPES = sizeof shapes / sizeof *shapes };
    for (int n = 0; n < (all ? NETWORKS : NETWORKS - 1); n++) {
        plan_fixture f;
        const char *name = networks[n].model ? networks[n].model : networks[n].recipe;
        begin(&f, networks[n].recipe, networks[n].model, 1);
        const bool any_size = strncmp(name, "resnet", strlen("resnet")) == 0;
        for (int s = 0; s < SHAPES; s++)
            for (int d = 0; d < 2 && (any_size || shapes[s][1] == 0); d++)
                expect_near_bound(&f, name, dtypes[d], shapes[s][0], shapes[s][1]);
        end(&f);
    }
}

// No two values that are live at the same time share a byte, and the largest live sum is the bound.
static void views_agree_with_the_plan(void **state) {
    (void)state;
    plan_fixture f;
    sr_plan *plan;
    begin(&f, "cifar10-resnet", NULL, 4);
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
