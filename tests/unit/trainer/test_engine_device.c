// SPDX-License-Identifier: Apache-2.0
// Everything that a run does with an engine gives the same bits on "cpu-async" as on "cpu": steps
// with other pictures and settings each time, moving averages with lookahead, two phases,
// inference, mixing, a checkpoint and what is loaded from it. The source takes its memory back as
// soon as the engine is done with it.
#include "tests/unit/support/test_support.h"

#include "kernels/base/memory.h"
#include "tests/unit/trainer/engine_fixture.h"

enum { STEPS = 6, SAMPLES = ENGINE_BATCH / ENGINE_LANES, PIXELS = ENGINE_SIDE * ENGINE_SIDE * 3 };

typedef struct lane_memory {
    _Alignas(64) uint8_t image[SAMPLES * PIXELS];
    _Alignas(64) int32_t label[SAMPLES];
} lane_memory;

typedef struct lanes {
    const engine_fixture *f;
    int64_t step;
    lane_memory memory[ENGINE_LANES];
} lanes;

typedef struct results {
    double loss[STEPS + 1][SR_MAX_PHASES];
    char digest[3][SR_SHA256_HEX]; // after the steps, after loading, after a further step
    float logits[2][SAMPLES * ENGINE_CLASSES]; // of the parameters, of their average
    float mixed[SAMPLES * PIXELS], weight[SAMPLES];
    int32_t partner[SAMPLES];
} results;

static void fill(const lanes *l, int lane, lane_memory *out) {
    const size_t first = (size_t)lane * SAMPLES;
    for (size_t i = 0; i < sizeof out->image; i++)
        out->image[i] = (uint8_t)(l->f->images[first * PIXELS + i] + 31 * l->step);
    for (size_t i = 0; i < SAMPLES; i++)
        out->label[i] = (int32_t)((l->f->labels[first + i] + l->step) % ENGINE_CLASSES);
}

static sr_status get(void *user, int lane, sr_lane_inputs *out) {
    lanes *l = user;
    fill(l, lane, &l->memory[lane]);
    *out = (sr_lane_inputs){.image = l->memory[lane].image, .label = l->memory[lane].label};
    return SR_OK;
}

static void done(void *user, int lane) {
    lanes *l = user;
    memset(&l->memory[lane], 0, sizeof l->memory[lane]);
}

static void take_step(lanes *l, int64_t step, results *out) {
    sr_engine *e = l->f->engine;
    const sr_lane_source source = {.get = get, .done = done, .user = l};
    const sr_ema_settings ema = {
        .decay = 0.9 - 0.1 * (double)step, .due = step % 2 == 1, .lookahead = step % 4 == 3};
    l->step = step;
    for (int p = 0; p < e->phase_count; p++) {
        sr_phase_set_step(e->phases[p], step, step * ENGINE_BATCH, 0.05 / (double)(step + 1),
                          1.0 / ENGINE_BATCH, ema);
        assert_ok(sr_engine_step(e, p, step, &source));
        out->loss[step][p] = sr_phase_loss_sum(e->phases[p]);
        assert_true(out->loss[step][p] != 0);
    }
}

static void infer(lanes *l, results *out) {
    sr_engine *e = l->f->engine;
    lane_memory *memory = &l->memory[0];
    if (!e->task->infer)
        return;
    for (int average = 0; average < 2; average++) {
        fill(l, average, memory);
        assert_ok(sr_engine_use_average(e, average));
        assert_ok(sr_engine_infer(e, SAMPLES, ENGINE_SIDE, ENGINE_SIDE, memory->image,
                                  out->logits[average], sizeof out->logits[average]));
        done(l, 0);
    }
    assert_ok(sr_engine_use_average(e, false));
}

static void mix(lanes *l, results *out) {
    sr_engine *e = l->f->engine;
    const sr_mixed_lane into = {out->mixed, out->partner, out->weight};
    sr_lane_inputs inputs;
    if (!e->task->mix)
        return;
    assert_ok(get(l, 1, &inputs));
    assert_ok(sr_engine_mix(e, 2, 1, &inputs, &into));
}

static void save(sr_engine *e, const char *folder, char digest[SR_SHA256_HEX]) {
    sr_manifest manifest = {.position = STEPS * ENGINE_BATCH,
                            .step = STEPS,
                            .lanes = ENGINE_LANES,
                            .batch = ENGINE_BATCH,
                            .seed = e->seed,
                            .image_height = ENGINE_SIDE,
                            .image_width = ENGINE_SIDE};
    assert_ok(sr_state_save(e, folder, &manifest, 2, digest));
}

// A new engine gets the state from the checkpoint and takes a further step.
static void resume(lanes *l, engine_fixture *f, const char *folder, results *out) {
    sr_checkpoint *checkpoint;
    assert_ok(sr_checkpoint_open(folder, NULL, &checkpoint));
    assert_ok(sr_state_load(f->engine, checkpoint));
    sr_checkpoint_free(checkpoint);
    assert_ok(sr_state_digest(f->engine, STEPS * ENGINE_BATCH, STEPS, out->digest[1]));
    take_step(l, STEPS, out);
    assert_ok(sr_state_digest(f->engine, (STEPS + 1) * ENGINE_BATCH, STEPS + 1, out->digest[2]));
}

static void run(const char *device, const char *recipe, const char *extra, results *out) {
    static lanes l;
    char folder[256];
    engine_fixture f = {.device = device}, next = {.device = device};
    memset(out, 0, sizeof *out);
    test_folder_make(folder);
    engine_begin(&f, recipe, 2, extra);
    l.f = &f;
    for (int i = 0; i < STEPS; i++)
        take_step(&l, i, out);
    infer(&l, out);
    mix(&l, out);
    save(f.engine, folder, out->digest[0]);
    engine_end(&f);
    engine_begin(&next, recipe, 2, extra);
    l.f = &next;
    resume(&l, &next, folder, out);
    engine_end(&next);
    test_folder_remove(folder);
}

static void compare(const char *recipe, const char *extra) {
    static results cpu, other;
    run("cpu", recipe, extra, &cpu);
    run("cpu-async", recipe, extra, &other);
    for (int i = 0; i <= STEPS; i++)
        for (int p = 0; p < SR_MAX_PHASES; p++)
            if (cpu.loss[i][p] != other.loss[i][p])
                fail_msg("step %d, phase %d: the loss is %.9g, on cpu %.9g", i, p, other.loss[i][p],
                         cpu.loss[i][p]);
    for (int i = 0; i < 3; i++)
        assert_string_equal(cpu.digest[i], other.digest[i]);
    assert_string_equal(cpu.digest[0], cpu.digest[1]);
    assert_string_not_equal(cpu.digest[1], cpu.digest[2]);
    assert_memory_equal(cpu.logits, other.logits, sizeof cpu.logits);
    assert_memory_equal(cpu.mixed, other.mixed, sizeof cpu.mixed);
    assert_memory_equal(cpu.weight, other.weight, sizeof cpu.weight);
    assert_memory_equal(cpu.partner, other.partner, sizeof cpu.partner);
}

static void test_classification(void **state) {
    (void)state;
    compare("tests/recipes/tiny.yaml", "mix={mixup: 0.4, cutmix: 1, probability: 0.8}");
}

static void test_rounded_parameters(void **state) {
    (void)state;
    compare("tests/recipes/tiny.yaml", "precision=bf16");
}

static void test_two_phases(void **state) {
    (void)state;
    compare("toy-gan", "ema.decay=0.9");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classification),
        cmocka_unit_test(test_rounded_parameters),
        cmocka_unit_test(test_two_phases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
