// SPDX-License-Identifier: Apache-2.0
// Parameter sets that several phases train, some of them not in every step: what the optimiser
// counts, what a phase without statistics leaves alone, averages, and what recipes may say about
// them.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "kernels/base/memory.h"
#include "tests/unit/support/picture_slot.h"
#include "tests/unit/trainer/engine_fixture.h"
#include "trainer/engine/choices.h"

// Two sets. All phases of A have the same program, except that QUIET computes no statistics.
enum { A, B };
enum { TRAIN_A, TRAIN_B, AGAIN, QUIET };

static void record(sr_lane_recording *r) {
    const int set = r->phase == TRAIN_B ? B : A;
    sr_tensor x = sr_normalize(r->inputs[0], r->mean, r->std, r->dtype);
    sr_tensor logits = sr_task_forward(r, set, &x, "logits", r->phase != QUIET);
    r->loss = sr_task_loss(r, logits, r->inputs[1], NULL, 1);
}

static const sr_task_desc task = {
    .struct_size = sizeof(sr_task_desc),
    .abi = SR_TASK_ABI,
    .name = "several",
    .transformer = "classify",
    .inputs = {{.name = "image"}, {.name = "label", .target = true, .is_class = true}},
    .sets = {[A] = {.name = "A"}, [B] = {.name = "B"}},
    .phases = {[TRAIN_A] = {.name = "a", .set = A},
               [TRAIN_B] = {.name = "b", .set = B},
               [AGAIN] = {.name = "again", .set = A, .every = 2, .optional = true},
               [QUIET] = {.name = "quiet", .set = A, .optional = true}},
    .infers = B,
    .uses_loss = true,
    .record = record};

#define BASIC "a: {set: A}, b: {set: B}"

static uint8_t *images;
static int32_t labels[ENGINE_BATCH];

static int make_pictures(void **state) {
    (void)state;
    const int bytes = ENGINE_BATCH * ENGINE_SIDE * ENGINE_SIDE * 3;
    images = sr_alloc((size_t)bytes, "pictures");
    for (int i = 0; images && i < bytes; i++)
        images[i] = (uint8_t)(i * 37 % 251);
    for (int i = 0; i < ENGINE_BATCH; i++)
        labels[i] = i % ENGINE_CLASSES;
    return images ? 0 : -1;
}

static int free_pictures(void **state) {
    (void)state;
    sr_free(images);
    return 0;
}

static sr_status get(void *user, int lane, sr_slot *out) {
    const int64_t samples = ENGINE_BATCH / ENGINE_LANES, first = lane * samples;
    (void)user;
    *out = picture_slot(samples, ENGINE_SIDE, images + first * ENGINE_SIDE * ENGINE_SIDE * 3,
                        labels + first);
    return SR_OK;
}

static void done(void *user, int lane) {
    (void)user;
    (void)lane;
}

// An engine of tiny.yaml with these phases. Every random number that depends on a step is off.
static void create(engine_fixture *f, const char *phases, const char *extra) {
    char text[256];
    const char *overrides[] = {"batch=32",        "lanes=4", "optimizer={name: adam, lr: 0.01}",
                               "model.dropout=0", text,      extra};
    const sr_comm_options comm = {.alone = true};
    (void)snprintf(text, sizeof text, "phases={%s}", phases);
    assert_ok(sr_recipe_load("tests/recipes/tiny.yaml", overrides, extra ? 6 : 5, &f->recipe));
    assert_ok(sr_comm_create(&comm, &f->comm));
    assert_ok(engine_create_for(f, &task, 1));
    for (int s = 0; s < 2; s++)
        assert_ok(sr_param_set_start_average(sr_engine_get_set(f->engine, s)));
}

static void run_phase(engine_fixture *f, int number, int64_t step) {
    const sr_lane_source source = {.get = get, .done = done};
    sr_phase *phase = sr_engine_get_phase(f->engine, number);
    sr_phase_set_step(phase, step, step * ENGINE_BATCH, 0.01 * (number + 1), 1.0 / ENGINE_BATCH,
                      (sr_ema_settings){.decay = 0.75, .due = true});
    assert_ok(sr_engine_step(f->engine, number, step, &source));
}

static float *copy_of(const engine_fixture *f, int set, int array) {
    const sr_param_set *from = sr_engine_get_set(f->engine, set);
    const size_t count = (size_t)sr_param_set_get_info(from).model->elements;
    float *mapped, *copy = sr_alloc_array(count, sizeof *copy, "values");
    assert_non_null(copy);
    assert_ok(sr_param_set_map(from, array, &mapped));
    memcpy(copy, mapped, count * sizeof *copy);
    assert_ok(sr_param_set_unmap(from, array, mapped, false));
    return copy;
}

static const sr_model *model_of(const engine_fixture *f, int set) {
    return sr_param_set_get_info(sr_engine_get_set(f->engine, set)).model;
}

// Updates of A with equal rates: of two phases in three steps, or of one phase in five.
static float *updated(bool twice) {
    engine_fixture f = {0};
    const sr_lane_source source = {.get = get, .done = done};
    create(&f, twice ? BASIC ", again: {set: A}" : BASIC, NULL);
    for (int64_t step = 0; step < (twice ? 3 : 5); step++) {
        for (int p = 0; p < sr_engine_get_info(f.engine).phases; p++) {
            sr_phase *phase = sr_engine_get_phase(f.engine, p);
            if (p == TRAIN_B || !sr_phase_is_due(phase, step))
                continue;
            sr_phase_set_step(phase, step, 0, 0.01, 1.0 / ENGINE_BATCH, (sr_ema_settings){0});
            assert_ok(sr_engine_step(f.engine, p, step, &source));
        }
    }
    float *values = copy_of(&f, A, SR_SET_VALUES);
    engine_end(&f);
    return values;
}

// Adam's correction of its averages depends on the number of updates.
static void test_a_set_counts_its_updates(void **state) {
    (void)state;
    engine_fixture f = {0};
    create(&f, BASIC, NULL);
    const size_t bytes = (size_t)model_of(&f, A)->elements * sizeof(float);
    engine_end(&f);
    float *one = updated(false), *two = updated(true);
    assert_memory_equal(one, two, bytes);
    sr_free(one);
    sr_free(two);
}

static void test_phases_are_due(void **state) {
    (void)state;
    static const int due[6] = {3, 2, 2, 2, 3, 2};
    engine_fixture f = {0};
    create(&f, BASIC ", again: {set: A, every: 4}", NULL);
    for (int step = 0; step < 6; step++)
        assert_int_equal(due[step], sr_engine_phases_due(f.engine, step));
    assert_int_equal(4, sr_phase_get_info(sr_engine_get_phase(f.engine, 2)).every);
    assert_int_equal(A, sr_phase_get_info(sr_engine_get_phase(f.engine, 2)).set);
    engine_end(&f);
    f = (engine_fixture){0};
    create(&f, BASIC ", again: {set: A}", NULL); // as the task says
    assert_int_equal(2, sr_phase_get_info(sr_engine_get_phase(f.engine, 2)).every);
    engine_end(&f);
}

// Each phase keeps what its own last step gave.
static void test_phases_report_apart(void **state) {
    (void)state;
    engine_fixture f = {0};
    create(&f, BASIC ", again: {set: A}", NULL);
    double loss[3];
    for (int p = 0; p < 3; p++) {
        run_phase(&f, p, 0);
        loss[p] = sr_phase_loss_sum(sr_engine_get_phase(f.engine, p));
    }
    assert_true(loss[0] != loss[1] && loss[0] != loss[2]);
    for (int p = 0; p < 3; p++) {
        const sr_phase *phase = sr_engine_get_phase(f.engine, p);
        assert_true(sr_phase_loss_sum(phase) == loss[p]);
        assert_true(sr_phase_lr(phase) == 0.01 * (p + 1));
    }
    engine_end(&f);
}

// Buffers that a phase computes no statistics for stay; its parameters are trained.
static void test_a_phase_without_statistics(void **state) {
    (void)state;
    engine_fixture f = {0};
    int kept = 0, trained = 0;
    create(&f, BASIC ", quiet: {set: A}", NULL);
    run_phase(&f, 0, 0);
    float *before = copy_of(&f, A, SR_SET_VALUES);
    run_phase(&f, 2, 0);
    float *after = copy_of(&f, A, SR_SET_VALUES);
    for (int i = 0; i < model_of(&f, A)->param_count; i++) {
        const sr_param *p = &model_of(&f, A)->params[i];
        const size_t bytes = (size_t)sr_info_count(&p->info) * sizeof(float);
        const bool same = memcmp(before + p->offset, after + p->offset, bytes) == 0;
        if (p->kind == SR_PARAM_BUFFER)
            assert_true(same);
        kept += p->kind == SR_PARAM_BUFFER;
        trained += !same;
    }
    assert_true(kept > 0 && trained > 0);
    run_phase(&f, 0, 1); // it computes them again
    float *last = copy_of(&f, A, SR_SET_VALUES);
    for (int i = 0; i < model_of(&f, A)->param_count; i++) {
        const sr_param *p = &model_of(&f, A)->params[i];
        if (p->kind == SR_PARAM_BUFFER)
            assert_true(after[p->offset] != last[p->offset]);
    }
    sr_free(before);
    sr_free(after);
    sr_free(last);
    engine_end(&f);
}

// By default the set that infers has an average; a set's average is updated once a step.
static void test_averages(void **state) {
    (void)state;
    engine_fixture f = {0};
    create(&f, BASIC, "ema={decay: 0.75}");
    assert_false(sr_param_set_has_average(sr_engine_get_set(f.engine, A)));
    assert_true(sr_param_set_has_average(sr_engine_get_set(f.engine, B)));
    engine_end(&f);
    f = (engine_fixture){0};
    create(&f, BASIC ", again: {set: A}", "ema={decay: 0.75, sets: [A]}");
    assert_true(sr_param_set_has_average(sr_engine_get_set(f.engine, A)));
    assert_false(sr_param_set_has_average(sr_engine_get_set(f.engine, B)));
    float *before = copy_of(&f, A, SR_SET_VALUES);
    run_phase(&f, 0, 0);
    run_phase(&f, 2, 0);
    float *after = copy_of(&f, A, SR_SET_VALUES), *average = copy_of(&f, A, SR_SET_AVERAGE);
    double most = 0;
    for (int i = 0; i < model_of(&f, A)->param_count; i++) {
        const sr_param *p = &model_of(&f, A)->params[i];
        for (int64_t k = p->offset; k < p->offset + sr_info_count(&p->info); k++) {
            const double own = 0.75 * (double)before[k] + 0.25 * (double)after[k];
            assert_true(fabs((double)average[k] - own) <= 1e-6 * (1 + fabs(own)));
            most = fmax(most, fabs((double)(after[k] - before[k])));
        }
    }
    assert_true(most > 1e-3); // a second update would move it by a quarter of this
    sr_free(before);
    sr_free(after);
    sr_free(average);
    engine_end(&f);
}

static void test_mistakes(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"phases={D: {set: X}, G: {}}", "phase D of task gan trains set D, not X; give set: D"},
        {"phases={E: {model: toy-critic}}", "task gan has the phases D, G in this order, and may "
                                            "have R1 (set: D); the recipe has D, G, E"},
        {"phases.G.set=D",
         "phase G trains set 'D', whose model is phases.D.model: change it there"},
        {"phases.R1.every=4", "'phases.R1.model' is missing: name one, such as model: resnet18, or "
                              "the set of another phase, as set: D"},
        {"phases.G.every=0", "every: must be 1 to"},
        {"phases={D: {every: 2}, G: {every: 3}}", "no phase runs in every step"},
        {"phases.D.evry=2", "unknown key 'evry' of a phase; did you mean 'every'?"},
        {"phases.D.set='a b'", "the name of a parameter set consists of letters, digits and '_'"},
        {"ema={decay: 0.5, sets: [G, H]}", "the recipe has no parameter set 'H'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_recipe *recipe = NULL;
        sr_status status = sr_recipe_load("toy-gan", &cases[i][0], 1, &recipe);
        if (status == SR_OK)
            status = sr_recipe_check(recipe);
        assert_status(SR_E_USAGE, status);
        assert_message(cases[i][1]);
        sr_recipe_free(recipe);
    }
}

// Keys that say what is the case anyway change no run's identity; others do.
static void test_identity(void **state) {
    (void)state;
    static const char *const same[] = {"phases.G.set=G", "steps=2000"};
    static const char *const other[] = {"phases.D.every=2", "ema.sets=[D]"};
    char own[65], got[65];
    sr_recipe *recipe;
    assert_ok(sr_recipe_load("toy-gan", NULL, 0, &recipe));
    assert_ok(sr_recipe_identity(recipe, "data", own));
    sr_recipe_free(recipe);
    for (int i = 0; i < 4; i++) {
        assert_ok(sr_recipe_load("toy-gan", i < 2 ? &same[i] : &other[i - 2], 1, &recipe));
        assert_ok(sr_recipe_identity(recipe, "data", got));
        sr_recipe_free(recipe);
        assert_true((strcmp(own, got) == 0) == (i < 2));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_set_counts_its_updates),
        cmocka_unit_test(test_phases_are_due),
        cmocka_unit_test(test_phases_report_apart),
        cmocka_unit_test(test_a_phase_without_statistics),
        cmocka_unit_test(test_averages),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_identity),
    };
    return cmocka_run_group_tests(tests, make_pictures, free_pictures);
}
