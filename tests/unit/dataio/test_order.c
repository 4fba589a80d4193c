// SPDX-License-Identifier: Apache-2.0
// The order of an epoch, its samples and the draws of their augmentation, as one hash: the same for
// 1 to 4 ranks, 1 to 8 workers, processes and threads, and after SIGKILL of data processes at
// random times; different for another seed, order or list of transforms.
//
//   test_order [kills N | all]   'kills': N of them; 'all': every combination as processes, 200
//   kills
// test_pipeline.c checks that the bytes of the slots are the same too.
#include <signal.h>
#include <time.h>

#include "dataio/pipeline/pipeline.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"

enum { COUNT = 210, BATCH = 24, LANES = 8, EPOCHS = 2, MOST_WORKERS = 8, MOST_RANKS = 4 };

static char folder[256];
static bool everything;
static int kills_wanted = 6;

static const sr_transform_spec augment[] = {
    {.name = "random_resized_crop"},
    {.name = "flip"},
    {.name = "color_jitter", .arguments = "brightness=0.2"},
};

static sr_pipeline_options usual(void) {
    return (sr_pipeline_options){.dataset = folder,
                                 .split = "train",
                                 .transforms = augment,
                                 .transform_count = 3,
                                 .image_height = 16,
                                 .image_width = 16,
                                 .order = SR_ORDER_EXAMPLES,
                                 .seed = 5,
                                 .batch = BATCH,
                                 .lanes = LANES,
                                 .lane_end = LANES,
                                 .steps = (EPOCHS * COUNT + LANES + BATCH - 1) / BATCH,
                                 .workers = 1,
                                 .threads = true};
}

typedef struct sums {
    int64_t samples[EPOCHS];
    uint64_t hash[EPOCHS];
} sums;

// Adds what one rank receives; 'between' is called after each slot.
static void deal(const sr_pipeline_options *o, sums *out, void (*between)(sr_pipeline *)) {
    sr_pipeline *p;
    size_t count;
    assert_ok(sr_pipeline_open(o, &p));
    for (bool end = false; !end;) {
        sr_slot slot;
        assert_ok(sr_pipeline_next(p, &slot, &end));
        sr_pipeline_release(p, &slot);
        if (between && !end)
            between(p);
    }
    const sr_pipeline_order *order = sr_pipeline_get_order(p, &count);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || order[i].epoch > order[i - 1].epoch);
        if (order[i].epoch >= EPOCHS)
            continue;
        out->samples[order[i].epoch] += order[i].samples;
        out->hash[order[i].epoch] += order[i].hash;
    }
    sr_pipeline_close(p);
}

static void deal_to_ranks(sr_pipeline_options o, int ranks, sums *out) {
    *out = (sums){0};
    for (int r = 0; r < ranks; r++) {
        o.lane_begin = r * LANES / ranks;
        o.lane_end = (r + 1) * LANES / ranks;
        deal(&o, out, NULL);
    }
}

static void assert_same(const sums *want, const sums *got) {
    for (int e = 0; e < EPOCHS; e++) {
        assert_int_equal(COUNT, got->samples[e]);
        if (want->hash[e] != got->hash[e])
            fail_msg("epoch %d: order %016llx instead of %016llx", e,
                     (unsigned long long)got->hash[e], (unsigned long long)want->hash[e]);
    }
}

static void test_ranks_and_workers(void **state) {
    (void)state;
    for (int order = SR_ORDER_EXAMPLES; order <= SR_ORDER_CHUNKS; order++) {
        sums want, got;
        sr_pipeline_options o = usual();
        o.order = (sr_data_order)order;
        deal_to_ranks(o, 1, &want);
        assert_int_not_equal(want.hash[0], want.hash[1]);
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
            for (o.workers = 1; o.workers <= MOST_WORKERS;
                 o.workers += everything || o.workers == 1 ? 1 : 3) { // 1, 2, 5, 8
                o.threads = !everything;
                deal_to_ranks(o, ranks, &got);
                assert_same(&want, &got);
            }
        }
        o.workers = 3;
        o.threads = false;
        deal_to_ranks(o, 2, &got);
        assert_same(&want, &got);
    }
}

// The hash is sensitive: whatever changes the order or a draw changes it.
static void test_differences(void **state) {
    (void)state;
    static const sr_transform_spec others[] = {
        {.name = "random_resized_crop"},
        {.name = "flip"},
        {.name = "color_jitter", .arguments = "brightness=0.2 hue=0.1"}};
    sums base, got;
    sr_pipeline_options o = usual();
    deal_to_ranks(o, 1, &base);
    o.seed = 6;
    deal_to_ranks(o, 1, &got);
    assert_int_not_equal(base.hash[0], got.hash[0]);
    o = usual();
    o.order = SR_ORDER_CHUNKS;
    deal_to_ranks(o, 1, &got);
    assert_int_not_equal(base.hash[0], got.hash[0]);
    o = usual();
    o.transforms = others;
    deal_to_ranks(o, 1, &got);
    assert_int_not_equal(base.hash[0], got.hash[0]);
}

// The whole run in one piece, or continued from the middle by another number of ranks.
static void deal_in_two(sr_pipeline_options o, int first, int second, sums *out) {
    const int64_t steps = o.steps, middle = steps / 2;
    sums rest;
    o.steps = middle;
    deal_to_ranks(o, first, out);
    o.position = middle * BATCH;
    o.steps = steps - middle;
    deal_to_ranks(o, second, &rest);
    for (int e = 0; e < EPOCHS; e++) {
        out->samples[e] += rest.samples[e];
        out->hash[e] += rest.hash[e];
    }
}

static void check_ranks_and_resume(const sr_pipeline_options *options, sums *want) {
    sums got;
    sr_pipeline_options o = *options;
    deal_to_ranks(o, 1, want);
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        o.workers = ranks;
        deal_to_ranks(o, ranks, &got);
        assert_same(want, &got);
    }
    deal_in_two(o, 3, 2, &got);
    assert_same(want, &got);
    o.threads = false;
    deal_to_ranks(o, 2, &got);
    assert_same(want, &got);
}

// A transform that ends in the second epoch changes nothing before.
static void test_windows(void **state) {
    (void)state;
    const sr_transform_window windows[3] = {{0}, {.end = COUNT + 30}, {0}};
    sums plain, limited;
    sr_pipeline_options o = usual();
    deal_to_ranks(o, 1, &plain);
    o.windows = windows;
    check_ranks_and_resume(&o, &limited);
    assert_int_equal(plain.hash[0], limited.hash[0]);
    assert_int_not_equal(plain.hash[1], limited.hash[1]);
}

static void test_growth(void **state) {
    (void)state;
    sums plain, growing;
    sr_pipeline_options o = usual();
    deal_to_ranks(o, 1, &plain);
    o.growth = (sr_image_growth){.from = 8, .step = 4, .begin = BATCH, .end = 15 * BATCH};
    check_ranks_and_resume(&o, &growing);
    assert_int_not_equal(plain.hash[0], growing.hash[0]);
    assert_int_not_equal(plain.hash[1], growing.hash[1]);
}

// Repeated samples, and samples drawn by class.
static void test_draws(void **state) {
    (void)state;
    static int32_t labels[COUNT];
    sr_dataset *dataset;
    sums plain, repeated, balanced, both;
    sr_pipeline_options o = usual();
    assert_ok(sr_dataset_open(folder, "train", &dataset));
    assert_ok(sr_dataset_read_labels(dataset, 0, COUNT, labels));
    sr_dataset_free(dataset);
    deal_to_ranks(o, 1, &plain);
    o.repeats = 3;
    check_ranks_and_resume(&o, &repeated);
    o.balance = 0.5;
    o.labels = labels;
    check_ranks_and_resume(&o, &both);
    o.repeats = 0;
    check_ranks_and_resume(&o, &balanced);
    assert_int_not_equal(plain.hash[0], repeated.hash[0]);
    assert_int_not_equal(plain.hash[0], balanced.hash[0]);
    assert_int_not_equal(repeated.hash[0], both.hash[0]);
}

// -- killing -----------------------------------------------------------------------------------

static sr_rng chance;
static int kills;

// After about every eighth slot kills a process of any kind, at a time that is aligned with
// nothing.
static void kill_one(sr_pipeline *p) {
    if (sr_rng_below(&chance, 8) != 0)
        return;
    sr_clock_sleep_ns((int64_t)sr_rng_below(&chance, 3000) * 1000);
    const int victim = (int)sr_rng_below(&chance, (uint32_t)sr_pipeline_stage_count(p));
    const pid_t pid = sr_pipeline_stage_pid(p, victim);
    kills += pid > 0 && kill(pid, SIGKILL) == 0;
}

static void test_kills(void **state) {
    (void)state;
    const char *asked = getenv("SERRIED_TEST_SEED");
    const uint64_t seed = asked ? strtoull(asked, NULL, 10) : (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    sr_rng_init(&chance, seed, 0, 0, 0);
    sr_log_set_level(SR_LOG_ERROR);
    for (int order = SR_ORDER_EXAMPLES; order <= SR_ORDER_CHUNKS; order++) {
        sums want;
        sr_pipeline_options o = usual();
        o.order = (sr_data_order)order;
        deal_to_ranks(o, 1, &want);
        o.threads = false;
        o.workers = 2;
        o.prefetch = 2; // small, so that no stage has finished before it is killed
        o.memory = 64 << 10;
        for (kills = 0; kills < (kills_wanted + 1) / 2;) {
            sums got = {0};
            deal(&o, &got, kill_one);
            assert_same(&want, &got);
        }
        print_message("%d killed\n", kills);
    }
    sr_log_set_level(SR_LOG_WARN);
}

static const pictures_set sets[] = {{folder, PICTURES_CLASSES, COUNT, 24, 20}};

static int make_data(void **state) {
    (void)state;
    return pictures_make_sets(sets, sizeof sets / sizeof sets[0]);
}

static int remove_data(void **state) {
    (void)state;
    return pictures_remove_sets(sets, sizeof sets / sizeof sets[0]);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--data-process") == 0)
        return sr_data_process_main(argc, argv);
    everything = argc > 1 && strcmp(argv[1], "all") == 0;
    kills_wanted = everything ? 200 : kills_wanted;
    if (argc > 2 && strcmp(argv[1], "kills") == 0)
        kills_wanted = (int)strtol(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_and_workers),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_kills),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
