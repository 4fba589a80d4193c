// SPDX-License-Identifier: Apache-2.0
// Twenty steps of training compared with PyTorch (tests/golden/loss_golden.py): the engine with its
// lanes, gradients, exchange and optimiser, on equal weights and pictures.
//
// Losses in fp32 are within 1e-4 of PyTorch's float64 ones. In bf16 a network diverges after a few
// steps, so the root mean square over the steps may be at most twice PyTorch's own in bfloat16.
#include "tests/unit/support/test_support.h"

#include <inttypes.h>
#include <math.h>

#include "kernels/base/memory.h"
#include "tests/unit/support/picture_slot.h"
#include "tests/unit/trainer/golden_fill.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/engine.h"

enum { STEPS = 20, SEED = 3 };

static const double fp32_tolerance = 1e-4, bf16_factor = 2;

typedef struct golden {
    const char *name;
    char model[64], stem[32];
    int64_t classes, side, batch;
    int lanes, nesterov;
    double lr, momentum, decay, smoothing;
    double own[2]; // PyTorch's distances in float32 and bfloat16
    double loss[STEPS];
} golden;

typedef struct training_rank {
    const golden *g;
    sr_recipe *recipe;
    sr_comm *comm;
    sr_engine *engine;
    uint8_t *images;
    int32_t *labels;
} training_rank;

static golden read_golden(const char *name) {
    golden g = {.name = name};
    char path[128];
    (void)snprintf(path, sizeof path, "tests/golden/loss_%s.txt", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file,
                            "%63s %31s %" SCNd64 " %" SCNd64 " %" SCNd64 " %d %lf %lf %d %lf %lf",
                            g.model, g.stem, &g.classes, &g.side, &g.batch, &g.lanes, &g.lr,
                            &g.momentum, &g.nesterov, &g.decay, &g.smoothing),
                     11);
    assert_int_equal(fscanf(file, "%lf %lf", &g.own[0], &g.own[1]), 2);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(fscanf(file, "%lf", &g.loss[i]), 1);
    (void)fclose(file);
    return g;
}

static void load_recipe(training_rank *j, const char *precision) {
    const golden *g = j->g;
    char text[6][160];
    const char *overrides[6];
    const bool stem = strcmp(g->stem, "-") != 0;
    (void)snprintf(text[0], sizeof text[0], "model={name: %s%s%s}", g->model,
                   stem ? ", stem: " : "", stem ? g->stem : "");
    (void)snprintf(text[1], sizeof text[1], "batch=%" PRId64, g->batch);
    (void)snprintf(text[2], sizeof text[2], "lanes=%d", g->lanes);
    (void)snprintf(text[3], sizeof text[3],
                   "optimizer={name: sgd, lr: %g, momentum: %g, nesterov: %s, weight_decay: %g, "
                   "groups: [{match: [bias, norm], decay_scale: 0}]}",
                   g->lr, g->momentum, g->nesterov ? "true" : "false", g->decay);
    (void)snprintf(text[4], sizeof text[4], "loss={name: cross-entropy, label_smoothing: %g}",
                   g->smoothing);
    (void)snprintf(text[5], sizeof text[5], "precision=%s", precision);
    for (int i = 0; i < 6; i++)
        overrides[i] = text[i];
    assert_ok(sr_recipe_load("tests/recipes/plain.yaml", overrides, 6, &j->recipe));
    assert_ok(sr_recipe_check(j->recipe));
}

static void begin(training_rank *j, const golden *g, const char *precision) {
    const sr_comm_options comm = {.backend = "self"};
    const sr_task_desc *task;
    *j = (training_rank){.g = g};
    load_recipe(j, precision);
    assert_ok(sr_choose_task(j->recipe, &task));
    assert_ok(sr_comm_create(&comm, &j->comm));
    const sr_engine_options options = {.recipe = j->recipe,
                                       .task = task,
                                       .comm = j->comm,
                                       .classes = g->classes,
                                       .batch = g->batch,
                                       .lanes = g->lanes,
                                       .image_height = g->side,
                                       .image_width = g->side,
                                       .seed = SEED};
    assert_ok(sr_engine_create(&options, &j->engine));
    sr_phase *phase = sr_engine_get_phase(j->engine, 0);
    float *values = NULL;
    assert_ok(sr_phase_map(phase, SR_PHASE_VALUES, &values));
    const sr_model *model = sr_phase_get_info(phase).model;
    for (int i = 0; i < model->param_count; i++)
        golden_fill_param(model, i, values + model->params[i].offset);
    assert_ok(sr_phase_unmap(phase, SR_PHASE_VALUES, values, true));
    j->images = sr_alloc((size_t)(g->batch * g->side * g->side * 3), "pictures");
    j->labels = sr_alloc_array((size_t)g->batch, sizeof *j->labels, "labels");
    assert_non_null(j->images);
    assert_non_null(j->labels);
}

static void end(training_rank *j) {
    sr_engine_free(j->engine);
    sr_comm_free(j->comm);
    sr_recipe_free(j->recipe);
    sr_free(j->images);
    sr_free(j->labels);
}

static sr_status get(void *user, int lane, sr_slot *out) {
    const training_rank *j = user;
    const golden *g = j->g;
    const int64_t samples = g->batch / g->lanes, first = lane * samples;
    *out = picture_slot(samples, g->side, j->images + first * g->side * g->side * 3,
                        j->labels + first);
    return SR_OK;
}

static void done(void *user, int lane) {
    (void)user;
    (void)lane;
}

static double step(training_rank *j, int number) {
    const golden *g = j->g;
    const sr_lane_source source = {.get = get, .done = done, .user = j};
    const sr_ema_settings no_average = {.decay = 0};
    double lr = g->lr * (1 - (double)number / STEPS), batch = (double)g->batch;
    golden_fill_pictures(number, g->batch, g->side, j->images);
    golden_fill_labels(number, g->batch, g->classes, j->labels);
    sr_phase_set_step(sr_engine_get_phase(j->engine, 0), number, number * g->batch, lr, 1 / batch,
                      no_average);
    assert_ok(sr_engine_step(j->engine, 0, number, &source));
    return sr_phase_loss_sum(sr_engine_get_phase(j->engine, 0)) / batch;
}

static void train(const golden *g, const char *precision, double *worst, double *rms) {
    training_rank j;
    double squares = 0;
    begin(&j, g, precision);
    *worst = 0;
    for (int i = 0; i < STEPS; i++) {
        double distance = fabs(step(&j, i) - g->loss[i]);
        *worst = distance <= *worst ? *worst : distance; // NaN is kept
        squares += distance * distance;
    }
    *rms = sqrt(squares / STEPS);
    end(&j);
}

static void check(const char *name) {
    const golden g = read_golden(name);
    double worst, rms;
    train(&g, "fp32", &worst, &rms);
    print_message("%s fp32: losses differ by at most %.1e (PyTorch's by %.1e)\n", name, worst,
                  g.own[0]);
    assert_true(worst <= fp32_tolerance);
    train(&g, "bf16", &worst, &rms);
    print_message("%s bf16: losses differ by %.1e (PyTorch's by %.1e)\n", name, rms, g.own[1]);
    assert_true(rms <= bf16_factor * g.own[1]);
}

#define LOSSES(function, name)                                                                     \
    static void function(void **state) {                                                           \
        (void)state;                                                                               \
        check(name);                                                                               \
    }
LOSSES(test_tiny, "tiny")
LOSSES(test_nesterov, "nesterov")

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_nesterov),
    };
    return cmocka_run_group_tests_name("loss_golden", tests, NULL, NULL);
}
