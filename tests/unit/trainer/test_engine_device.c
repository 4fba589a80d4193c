// SPDX-License-Identifier: Apache-2.0
// Everything that a run does with an engine gives the same bits on "cpu-async", on one rank or
// several, with any number of lanes side by side, as on one rank on "cpu": steps with other
// pictures and settings each time, moving averages with lookahead, two phases, inference, mixing, a
// checkpoint and what is loaded from it. The source takes its memory back as soon as the engine is
// done with it, and what it gave ahead when it is asked for it. Ranks are threads.
#include <pthread.h>

#include "tests/unit/support/picture_slot.h"
#include "tests/unit/support/test_support.h"

#include "collective/backend_local_internal.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "tests/unit/trainer/engine_fixture.h"

enum {
    MAX_RANKS = 3,
    STEPS = 6,
    SAMPLES = ENGINE_BATCH / ENGINE_LANES,
    PIXELS = ENGINE_SIDE * ENGINE_SIDE * 3,
};

typedef struct lane_memory {
    _Alignas(64) uint8_t image[SAMPLES * PIXELS];
    _Alignas(64) int32_t label[SAMPLES];
} lane_memory;

typedef struct results {
    double loss[STEPS + 1][SR_MAX_PHASES];
    char digest[3][SR_SHA256_HEX]; // after the steps, after loading, after a further step
    sr_hash128 inferred[2];        // with the parameters, with their average
    float mixed[SAMPLES * PIXELS], weight[SAMPLES];
    int32_t partner[SAMPLES];
} results;

typedef struct engine_rank {
    const char *recipe, *extra, *folder;
    engine_fixture first, next;
    const engine_fixture *f; // the present one
    int64_t step;
    int phase;
    lane_memory memory[ENGINE_LANES];
    bool is_ahead[ENGINE_LANES]; // the memory was given ahead
    int64_t ahead;               // lanes that were
    results out;
    char message[512];
} engine_rank;

static void fill(const engine_rank *r, int64_t step, int lane, lane_memory *out) {
    const size_t first = (size_t)lane * SAMPLES;
    for (size_t i = 0; i < sizeof out->image; i++)
        out->image[i] = (uint8_t)(r->f->images[first * PIXELS + i] + 31 * step);
    for (size_t i = 0; i < SAMPLES; i++)
        out->label[i] = (int32_t)((r->f->labels[first + i] + step) % ENGINE_CLASSES);
}

static sr_status get(void *user, int lane, sr_slot *out) {
    engine_rank *r = user;
    lane_memory *memory = &r->memory[lane];
    if (r->is_ahead[lane])
        memset(memory, 0, sizeof *memory); // it has been copied
    else
        fill(r, r->step, lane, memory);
    r->is_ahead[lane] = false;
    *out = picture_slot(SAMPLES, ENGINE_SIDE, memory->image, memory->label);
    return SR_OK;
}

// The next phase of a step has the same lanes.
static bool give_ahead(void *user, int lane, sr_slot *out) {
    engine_rank *r = user;
    lane_memory *memory = &r->memory[lane];
    const bool ends = r->phase + 1 == sr_engine_get_info(r->f->engine).phases;
    if (ends && r->step + 1 >= STEPS)
        return false;
    fill(r, ends ? r->step + 1 : r->step, lane, memory);
    r->is_ahead[lane] = true;
    r->ahead++;
    *out = picture_slot(SAMPLES, ENGINE_SIDE, memory->image, memory->label);
    return true;
}

static void done(void *user, int lane) {
    engine_rank *r = user;
    memset(&r->memory[lane], 0, sizeof r->memory[lane]);
}

static sr_status take_step(engine_rank *r, int64_t step) {
    sr_engine *e = r->f->engine;
    const sr_lane_source source = {.get = get, .done = done, .user = r, .ahead = give_ahead};
    const sr_ema_settings ema = {
        .decay = 0.9 - 0.1 * (double)step, .due = step % 2 == 1, .lookahead = step % 4 == 3};
    r->step = step;
    for (int p = 0; p < sr_engine_get_info(e).phases; p++) {
        sr_phase *phase = sr_engine_get_phase(e, p);
        r->phase = p;
        sr_phase_set_step(phase, step, step * ENGINE_BATCH, 0.05 / (double)(step + 1),
                          1.0 / ENGINE_BATCH, ema);
        SR_TRY(sr_engine_step(e, p, step, &source));
        r->out.loss[step][p] = sr_phase_loss_sum(phase);
        if (r->out.loss[step][p] == 0)
            return SR_FAIL(SR_E_INTERNAL, "the loss of phase %d is 0", p);
    }
    return SR_OK;
}

static sr_status infer(engine_rank *r) {
    sr_engine *e = r->f->engine;
    lane_memory *memory = &r->memory[0];
    if (!sr_engine_get_info(e).task->infer)
        return SR_OK;
    for (int average = 0; average < 2; average++) {
        sr_task_outputs outputs;
        fill(r, r->step, average, memory);
        SR_TRY(sr_engine_use_average(e, average));
        const sr_slot slot = picture_slot(SAMPLES, ENGINE_SIDE, memory->image, memory->label);
        SR_TRY(sr_engine_infer(e, &slot, &outputs));
        const sr_info *info = &outputs.item[0].info;
        r->out.inferred[average] = sr_hash_128(
            outputs.item[0].data, (size_t)sr_info_count(info) * sr_dtype_size(info->dtype));
        done(r, 0);
    }
    return sr_engine_use_average(e, false);
}

static sr_status mix(engine_rank *r) {
    sr_engine *e = r->f->engine;
    const sr_mixed_lane into = {r->out.mixed, r->out.partner, r->out.weight};
    sr_slot slot;
    if (!sr_engine_get_info(e).task->mix)
        return SR_OK;
    SR_TRY(get(r, 1, &slot));
    return sr_engine_mix(e, 2, 1, &slot, &into);
}

static sr_status save(engine_rank *r) {
    sr_engine *e = r->f->engine;
    sr_manifest manifest = {.position = STEPS * ENGINE_BATCH,
                            .step = STEPS,
                            .lanes = ENGINE_LANES,
                            .batch = ENGINE_BATCH,
                            .seed = sr_engine_get_info(e).seed,
                            .image_height = ENGINE_SIDE,
                            .image_width = ENGINE_SIDE};
    return sr_state_save(e, r->folder, &manifest, 2, r->out.digest[0]);
}

// A new engine gets the state from the checkpoint and takes a further step.
static sr_status resume(engine_rank *r) {
    sr_engine *e = r->f->engine;
    sr_checkpoint *checkpoint;
    SR_TRY(sr_checkpoint_open(r->folder, NULL, &checkpoint));
    const sr_status status = sr_state_load(e, checkpoint);
    sr_checkpoint_free(checkpoint);
    SR_TRY(status);
    SR_TRY(sr_state_digest(e, STEPS * ENGINE_BATCH, STEPS, r->out.digest[1]));
    SR_TRY(take_step(r, STEPS));
    return sr_state_digest(e, (STEPS + 1) * ENGINE_BATCH, STEPS + 1, r->out.digest[2]);
}

static sr_status work(engine_rank *r) {
    r->f = &r->first;
    SR_TRY(engine_open(&r->first, r->recipe, 2, r->extra));
    for (int i = 0; i < STEPS; i++)
        SR_TRY(take_step(r, i));
    SR_TRY(infer(r));
    SR_TRY(mix(r));
    SR_TRY(save(r));
    r->f = &r->next;
    SR_TRY(engine_open(&r->next, r->recipe, 2, r->extra));
    return resume(r);
}

static void *run_rank(void *argument) {
    engine_rank *r = argument;
    const sr_status status = work(r);
    if (status != SR_OK) {
        (void)snprintf(r->message, sizeof r->message, "%s", sr_error_message());
        sr_comm_abort(r->f->comm, status, r->message);
    }
    engine_end(&r->first);
    engine_end(&r->next);
    return NULL;
}

// at_once: overrides the recipe's lanes_at_once; NULL: does not. The engine that loads the
// checkpoint then runs one lane at a time.
static void run(const char *device, int ranks, const char *recipe, const char *extra,
                const char *at_once, engine_rank *all) {
    sr_local_world *worlds[2];
    const sr_local_options options = {.size = ranks, .seed = 5};
    pthread_t threads[MAX_RANKS];
    char folder[256];
    test_folder_make(folder);
    for (int i = 0; i < 2; i++)
        assert_ok(sr_local_world_create(&options, &worlds[i]));
    for (int i = 0; i < ranks; i++) {
        engine_rank *r = &all[i];
        memset(r, 0, sizeof *r);
        r->recipe = recipe;
        r->extra = extra;
        r->folder = folder;
        r->first.device = r->next.device = device;
        r->first.more = at_once;
        r->next.more = at_once ? "lanes_at_once=1" : NULL;
        assert_ok(sr_local_world_join(worlds[0], i, NULL, &r->first.comm));
        assert_ok(sr_local_world_join(worlds[1], i, NULL, &r->next.comm));
    }
    for (int i = 0; i < ranks; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, run_rank, &all[i]));
    for (int i = 0; i < ranks; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < ranks; i++)
        assert_string_equal("", all[i].message);
    for (int i = 0; i < 2; i++)
        sr_local_world_free(worlds[i]);
    test_folder_remove(folder);
}

static void expect_equal(const results *want, const results *got) {
    for (int i = 0; i <= STEPS; i++)
        for (int p = 0; p < SR_MAX_PHASES; p++)
            if (want->loss[i][p] != got->loss[i][p])
                fail_msg("step %d, phase %d: the loss is %.9g, on cpu %.9g", i, p, got->loss[i][p],
                         want->loss[i][p]);
    for (int i = 0; i < 3; i++)
        assert_string_equal(want->digest[i], got->digest[i]);
    assert_memory_equal(want->inferred, got->inferred, sizeof want->inferred);
    assert_memory_equal(want->mixed, got->mixed, sizeof want->mixed);
    assert_memory_equal(want->weight, got->weight, sizeof want->weight);
    assert_memory_equal(want->partner, got->partner, sizeof want->partner);
}

// Numbers of ranks, and of lanes side by side (0: all of a rank). The first two are enough for what
// does not depend on lanes.
typedef struct division {
    int ranks, at_once;
} division;
static const division divisions[] = {{1, 0}, {3, 0}, {1, 2}, {1, 1}, {2, 0}, {2, 1}};
enum { FEW = 2, DIVISIONS = sizeof divisions / sizeof *divisions };

static void compare(const char *recipe, const char *extra, int count) {
    static engine_rank cpu, ranks[MAX_RANKS];
    run("cpu", 1, recipe, extra, NULL, &cpu);
    assert_int_equal(0, cpu.ahead); // which reads lanes in place
    assert_string_equal(cpu.out.digest[0], cpu.out.digest[1]);
    assert_string_not_equal(cpu.out.digest[1], cpu.out.digest[2]);
    for (const division *d = divisions; d < divisions + count; d++) {
        char override[32];
        (void)snprintf(override, sizeof override, "lanes_at_once=%d", d->at_once);
        run("cpu-async", d->ranks, recipe, extra, override, ranks);
        for (int i = 0; i < d->ranks; i++) {
            expect_equal(&cpu.out, &ranks[i].out);
            assert_true(ranks[i].ahead >= STEPS - 1);
        }
    }
}

static void test_classification(void **state) {
    (void)state;
    compare("tests/recipes/tiny.yaml", "mix={mixup: 0.4, cutmix: 1, probability: 0.8}", DIVISIONS);
}

static void test_rounded_parameters(void **state) {
    (void)state;
    compare("tests/recipes/tiny.yaml", "precision=bf16", FEW);
}

// A group on one rank, and one that two ranks share.
static void test_common_statistics(void **state) {
    (void)state;
    compare("tests/recipes/tiny.yaml", "sync_bn=2", FEW);
    compare("tests/recipes/tiny.yaml", "sync_bn=all", FEW);
}

static void test_two_phases(void **state) {
    (void)state;
    compare("toy-gan", "ema.decay=0.9", FEW);
}

// Before fewer lanes run side by side, cheap values are recomputed.
static void test_values_are_recomputed_for_memory(void **state) {
    (void)state;
    engine_fixture f = {.device = "cpu-async"}, kept = {.device = "cpu-async"};
    uint64_t all, less, fewer, most;
    engine_begin(&f, "cifar10-fast", 1, NULL);
    assert_ok(sr_engine_fit_lanes(f.engine, UINT64_MAX, &all));
    assert_ok(sr_engine_fit_lanes(f.engine, all / 15 * 16 - 16, &less));
    assert_int_equal(sr_engine_get_info(f.engine).at_once, 4);
    assert_true(less < all);
    (void)engine_step(&f, 0);
    assert_ok(sr_engine_fit_lanes(f.engine, less, &fewer));
    assert_int_equal(sr_engine_get_info(f.engine).at_once, 2);
    assert_true(fewer < less);
    engine_begin(&kept, "cifar10-fast", 1, "recompute=never");
    assert_ok(sr_engine_fit_lanes(kept.engine, UINT64_MAX, &most));
    assert_ok(sr_engine_fit_lanes(kept.engine, most, &fewer));
    assert_int_equal(sr_engine_get_info(kept.engine).at_once, 2);
    engine_end(&f);
    engine_end(&kept);
}

// As many lanes side by side as memory has room for; lanes that wait for others run one by one.
static void test_lanes_fit_into_memory(void **state) {
    (void)state;
    engine_fixture f = {.device = "cpu-async"}, grouped = {.device = "cpu-async"},
                   asked = {.device = "cpu-async"}, host = {.device = "cpu"};
    uint64_t all, fewer, one, room;
    engine_begin(&f, "tests/recipes/tiny.yaml", 2, NULL);
    assert_int_equal(sr_engine_get_info(f.engine).at_once, 4);
    assert_ok(sr_engine_fit_lanes(f.engine, UINT64_MAX, &all));
    assert_int_equal(sr_engine_get_info(f.engine).at_once, 4);
    assert_ok(sr_engine_fit_lanes(f.engine, all - 1, &fewer));
    assert_int_equal(sr_engine_get_info(f.engine).at_once, 2);
    assert_true(fewer < all);
    (void)engine_step(&f, 0);
    assert_ok(sr_engine_fit_lanes(f.engine, 0, &one));
    assert_int_equal(sr_engine_get_info(f.engine).at_once, 1);
    assert_true(one < fewer);
    (void)engine_step(&f, 1);
    engine_begin(&grouped, "tests/recipes/tiny.yaml", 2, "sync_bn=2");
    assert_int_equal(sr_engine_get_info(grouped.engine).at_once, 1);
    engine_begin(&asked, "tests/recipes/tiny.yaml", 2, "lanes_at_once=3"); // 2 divides 4 lanes
    assert_int_equal(sr_engine_get_info(asked.engine).at_once, 2);
    engine_begin(&host, "tests/recipes/tiny.yaml", 2, NULL);
    assert_ok(sr_engine_fit_lanes(host.engine, 0, &room));
    assert_int_equal(sr_engine_get_info(host.engine).at_once, 1);
    engine_end(&f);
    engine_end(&grouped);
    engine_end(&asked);
    engine_end(&host);
}

// ---- Another source ----

// The second step takes its lanes from another source, with the memory of the first, which may have
// given some of them ahead: what was copied then is not what the second source gives.
static double change_source(bool gives_ahead) {
    static engine_rank r;
    memset(&r, 0, sizeof r);
    r.first.device = "cpu-async";
    engine_begin(&r.first, "tests/recipes/tiny.yaml", 2, NULL);
    r.f = &r.first;
    sr_phase *phase = sr_engine_get_phase(r.first.engine, 0);
    sr_phase_set_step(phase, 0, 0, 0.05, 1.0 / ENGINE_BATCH, (sr_ema_settings){0});
    const sr_lane_source first = {.get = get,
                                  .done = done,
                                  .user = &r,
                                  .ahead = gives_ahead ? give_ahead : NULL,
                                  .number = 1};
    assert_ok(sr_engine_step(r.first.engine, 0, 0, &first));
    assert_int_equal(gives_ahead, r.ahead > 0);
    memset(r.is_ahead, 0, sizeof r.is_ahead);
    r.step = 1 + STEPS;
    const sr_lane_source second = {.get = get, .done = done, .user = &r, .number = 2};
    assert_ok(sr_engine_step(r.first.engine, 0, 1, &second));
    const double loss = sr_phase_loss_sum(phase);
    engine_end(&r.first);
    return loss;
}

static void test_another_source_at_the_same_addresses(void **state) {
    (void)state;
    const double want = change_source(false);
    assert_true(want > 0 && want == change_source(true));
}

// ---- Labels ----

static sr_status get_wrong(void *user, int lane, sr_slot *out) {
    engine_rank *r = user;
    SR_TRY(get(r, lane, out));
    r->memory[lane].label[0] = -1; // ignored
    if (lane == 2)
        r->memory[lane].label[3] = ENGINE_CLASSES;
    return SR_OK;
}

// The engine stops before the lane runs, on every device.
static void test_wrong_labels(void **state) {
    static engine_rank r;
    const sr_lane_source wrong = {.get = get_wrong, .done = done, .user = &r};
    (void)state;
    memset(&r, 0, sizeof r);
    engine_begin(&r.first, "tests/recipes/tiny.yaml", 2, NULL);
    r.f = &r.first;
    assert_ok(take_step(&r, 0));
    assert_status(SR_E_DATA, sr_engine_step(r.first.engine, 0, 1, &wrong));
    assert_message("step 1, lane 2: sample 3 of the lane has label 5, but the model has 5 classes "
                   "(0 to 4); negative labels are ignored");
    engine_end(&r.first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classification),
        cmocka_unit_test(test_rounded_parameters),
        cmocka_unit_test(test_common_statistics),
        cmocka_unit_test(test_two_phases),
        cmocka_unit_test(test_values_are_recomputed_for_memory),
        cmocka_unit_test(test_lanes_fit_into_memory),
        cmocka_unit_test(test_another_source_at_the_same_addresses),
        cmocka_unit_test(test_wrong_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
