// SPDX-License-Identifier: Apache-2.0
// See golden_train.h.
#include "tests/unit/trainer/golden_train.h"

#include <inttypes.h>

#include "kernels/base/memory.h"
#include "tests/unit/support/picture_slot.h"
#include "tests/unit/support/test_support.h"
#include "tests/unit/trainer/golden_fill.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/engine.h"

typedef struct training_rank {
    const golden_training *g;
    sr_recipe *recipe;
    sr_comm *comm;
    sr_engine *engine;
    uint8_t *images;
    int32_t *labels;
    uint8_t *masks;
} training_rank;

static void load_recipe(training_rank *j) {
    const golden_training *g = j->g;
    char text[8][320];
    const char *overrides[8];
    const int count = g->loss ? 8 : 7;
    (void)snprintf(text[0], sizeof text[0], "model=%s", g->model);
    (void)snprintf(text[1], sizeof text[1], "batch=%" PRId64, g->batch);
    (void)snprintf(text[2], sizeof text[2], "lanes=%d", g->lanes);
    (void)snprintf(text[3], sizeof text[3], "optimizer=%s", g->optimizer);
    (void)snprintf(text[4], sizeof text[4], "precision=%s", g->precision);
    (void)snprintf(text[5], sizeof text[5], "task=%s", g->segments ? "segment" : "classify");
    (void)snprintf(text[6], sizeof text[6], "sync_bn=%s", g->sync_bn ? g->sync_bn : "1");
    (void)snprintf(text[7], sizeof text[7], "loss=%s", g->loss ? g->loss : "");
    for (int i = 0; i < count; i++)
        overrides[i] = text[i];
    assert_ok(sr_recipe_load("tests/recipes/plain.yaml", overrides, count, &j->recipe));
    assert_ok(sr_recipe_check(j->recipe));
}

static void begin(training_rank *j, const golden_training *g) {
    const sr_comm_options comm = {.alone = true};
    const sr_task_desc *task;
    *j = (training_rank){.g = g};
    load_recipe(j);
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
                                       .seed = g->seed};
    assert_ok(sr_engine_create(&options, &j->engine));
    sr_param_set *set = sr_engine_get_set(j->engine, 0);
    float *values = NULL;
    assert_ok(sr_param_set_map(set, SR_SET_VALUES, &values));
    const sr_model *model = sr_param_set_get_info(set).model;
    for (int i = 0; i < model->param_count; i++)
        g->fill(g->user, model, i, values + model->params[i].offset);
    assert_ok(sr_param_set_unmap(set, SR_SET_VALUES, values, true));
    j->images = sr_alloc((size_t)(g->batch * g->side * g->side * 3), "pictures");
    j->labels = sr_alloc_array((size_t)g->batch, sizeof *j->labels, "labels");
    j->masks = sr_alloc((size_t)(g->batch * g->side * g->side), "masks");
    assert_non_null(j->images);
    assert_non_null(j->labels);
    assert_non_null(j->masks);
}

static void end(training_rank *j) {
    sr_engine_free(j->engine);
    sr_comm_free(j->comm);
    sr_recipe_free(j->recipe);
    sr_free(j->images);
    sr_free(j->labels);
    sr_free(j->masks);
}

static sr_status get(void *user, int lane, sr_slot *out) {
    const training_rank *j = user;
    const golden_training *g = j->g;
    const int64_t samples = g->batch / g->lanes, first = lane * samples;
    uint8_t *images = j->images + first * g->side * g->side * 3;
    *out = g->segments ? mask_slot(samples, g->side, images, j->masks + first * g->side * g->side)
                       : picture_slot(samples, g->side, images, j->labels + first);
    return SR_OK;
}

static void done(void *user, int lane) {
    (void)user;
    (void)lane;
}

static void finish(const training_rank *j) {
    sr_param_set *set = sr_engine_get_set(j->engine, 0);
    float *values = NULL;
    if (!j->g->finish)
        return;
    assert_ok(sr_param_set_map(set, SR_SET_VALUES, &values));
    j->g->finish(j->g->user, sr_param_set_get_info(set).model, values);
    assert_ok(sr_param_set_unmap(set, SR_SET_VALUES, values, false));
}

enum { SETTLING_STEPS = 3 };

void golden_train(const golden_training *g, int steps, double *losses) {
    training_rank j;
    const sr_lane_source source = {.get = get, .done = done, .user = &j};
    const sr_ema_settings no_average = {.decay = 0};
    const double batch = (double)g->batch;
    uint64_t settled = 0;
    begin(&j, g);
    sr_phase *phase = sr_engine_get_phase(j.engine, 0);
    for (int i = 0; i < steps; i++) {
        golden_fill_pictures(i, g->batch, g->side, j.images);
        golden_fill_labels(i, g->batch, g->classes, j.labels);
        golden_fill_masks(i, g->batch, g->side, j.labels, j.masks);
        sr_phase_set_step(phase, i, i * g->batch,
                          g->falling ? g->lr * (1 - (double)i / steps) : g->lr, 1 / batch,
                          no_average);
        assert_ok(sr_engine_step(j.engine, 0, i, &source));
        losses[i] = sr_phase_loss_sum(phase) / batch;
        if (i + 1 == SETTLING_STEPS)
            settled = sr_memory_get_stats().allocations;
    }
    if (steps > SETTLING_STEPS)
        assert_int_equal(sr_memory_get_stats().allocations, settled);
    finish(&j);
    end(&j);
}
