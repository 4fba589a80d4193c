// SPDX-License-Identifier: Apache-2.0
// See engine_fixture.h.
#include "tests/unit/trainer/engine_fixture.h"

#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/picture_slot.h"
#include "tests/unit/support/test_support.h"
#include "trainer/engine/choices.h"

static sr_status get(void *user, int lane, sr_slot *out) {
    engine_fixture *f = user;
    const int64_t samples = ENGINE_BATCH / ENGINE_LANES, first = lane * samples;
    *out = picture_slot(samples, ENGINE_SIDE, f->images + first * ENGINE_SIDE * ENGINE_SIDE * 3,
                        f->labels + first);
    return SR_OK;
}

static void done(void *user, int lane) {
    (void)user;
    (void)lane;
}

static sr_status fill_pictures(engine_fixture *f) {
    sr_rng rng;
    sr_rng_init(&rng, 7, 0, 0, 0);
    f->images = sr_alloc((size_t)ENGINE_BATCH * ENGINE_SIDE * ENGINE_SIDE * 3, "pictures");
    f->labels = sr_alloc_array(ENGINE_BATCH, sizeof *f->labels, "labels");
    if (!f->images || !f->labels)
        return SR_E_MEMORY;
    for (int i = 0; i < ENGINE_BATCH; i++) {
        f->labels[i] = i % ENGINE_CLASSES;
        for (int k = 0; k < ENGINE_SIDE * ENGINE_SIDE * 3; k++)
            f->images[i * ENGINE_SIDE * ENGINE_SIDE * 3 + k] =
                (uint8_t)(sr_rng_below(&rng, 128) + (uint32_t)(i % ENGINE_CLASSES) * 25);
    }
    return SR_OK;
}

sr_status engine_create_for(engine_fixture *f, const sr_task_desc *task, int threads) {
    const sr_engine_options options = {.recipe = f->recipe,
                                       .task = task,
                                       .comm = f->comm,
                                       .device = f->device,
                                       .threads = threads,
                                       .classes = ENGINE_CLASSES,
                                       .batch = ENGINE_BATCH,
                                       .lanes = ENGINE_LANES,
                                       .image_height = ENGINE_SIDE,
                                       .image_width = ENGINE_SIDE,
                                       .seed = 3};
    return sr_engine_create(&options, &f->engine);
}

sr_status engine_open(engine_fixture *f, const char *recipe, int threads, const char *extra) {
    const char *overrides[4] = {"batch=32", "lanes=4"};
    int count = 2;
    const sr_task_desc *task;
    const sr_comm_options comm = {.alone = true};
    if (extra)
        overrides[count++] = extra;
    if (f->more)
        overrides[count++] = f->more;
    SR_TRY(sr_recipe_load(recipe, overrides, count, &f->recipe));
    SR_TRY(sr_recipe_check(f->recipe));
    SR_TRY(sr_choose_task(f->recipe, &task));
    if (!f->comm)
        SR_TRY(sr_comm_create(&comm, &f->comm));
    SR_TRY(engine_create_for(f, task, threads));
    for (int s = 0; s < sr_engine_get_info(f->engine).sets; s++)
        SR_TRY(sr_param_set_start_average(sr_engine_get_set(f->engine, s)));
    return fill_pictures(f);
}

void engine_begin(engine_fixture *f, const char *recipe, int threads, const char *extra) {
    assert_ok(engine_open(f, recipe, threads, extra));
}

void engine_end(engine_fixture *f) {
    sr_engine_free(f->engine);
    sr_comm_free(f->comm);
    sr_recipe_free(f->recipe);
    sr_free(f->images);
    sr_free(f->labels);
}

double engine_step(engine_fixture *f, int64_t number) {
    const sr_lane_source source = {.get = get, .done = done, .user = f};
    const sr_ema_settings ema = {.decay = 0.9, .due = true};
    double loss = 0;
    for (int p = 0; p < sr_engine_get_info(f->engine).phases; p++) {
        sr_phase *phase = sr_engine_get_phase(f->engine, p);
        if (!sr_phase_is_due(phase, number))
            continue;
        sr_phase_set_step(phase, number, number * ENGINE_BATCH, 0.05,
                          f->gradient_scale != 0 ? f->gradient_scale : 1.0 / ENGINE_BATCH, ema);
        assert_ok(sr_engine_step(f->engine, p, number, &source));
        loss = sr_phase_loss_sum(phase) / ENGINE_BATCH;
        assert_true(loss == loss);
    }
    return loss;
}

void engine_run(const char *recipe, int threads, const char *extra, int steps, double *first,
                double *last, char digest[SR_SHA256_HEX]) {
    engine_fixture f = {0};
    engine_begin(&f, recipe, threads, extra);
    for (int i = 0; i < steps; i++) {
        *last = engine_step(&f, i);
        if (i == 0)
            *first = *last;
    }
    assert_ok(sr_state_digest(f.engine, steps * ENGINE_BATCH, steps, digest));
    engine_end(&f);
}
