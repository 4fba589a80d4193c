// SPDX-License-Identifier: Apache-2.0
// Pictures that grow during a run: the sizes of FFCV's recipes, and slots with the bytes that a
// pipeline of that size gives at the same positions, from a run's start and from its middle.
#include "dataio/pipeline/pipeline.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/hash.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"

enum { COUNT = 40, BATCH = 8, LANES = 2, STEPS = 9, SIDE = 32, STEP = 8, FROM = 16 };

static char plain_folder[256], mask_folder[256];

static int64_t side_of_epoch(const sr_image_growth *growth, int64_t image, int64_t epoch) {
    return sr_image_side_at(growth, image, epoch * 1281167);
}

// The growth between two epochs, which may be in the middle of one.
static sr_image_growth between(int64_t from, double begin, double end) {
    return (sr_image_growth){.from = from,
                             .step = 32,
                             .begin = (int64_t)(begin * 1281167),
                             .end = (int64_t)(end * 1281167)};
}

// FFCV's size in an epoch is round(interp(epoch, [65, 76], [160, 192]) / 32) * 32: 160 up to epoch
// 70, 192 from 71 on; in the run of 16 epochs, between 11 and 13, 192 from 12 on.
static void test_sides(void **state) {
    (void)state;
    const sr_image_growth growth = between(160, 65.5, 76.5), shorter = between(160, 11, 13);
    for (int64_t epoch = 0; epoch < 88; epoch++)
        assert_int_equal(epoch < 71 ? 160 : 192, side_of_epoch(&growth, 192, epoch));
    for (int64_t epoch = 0; epoch < 16; epoch++)
        assert_int_equal(epoch < 12 ? 160 : 192, side_of_epoch(&shorter, 192, epoch));
    const sr_image_growth slow = between(128, 0, 8), none = {0}, sudden = between(96, 4, 4);
    assert_int_equal(5, sr_image_side_count(&slow, 256));
    assert_int_equal(128, side_of_epoch(&slow, 256, 0));
    assert_int_equal(160, side_of_epoch(&slow, 256, 1));
    assert_int_equal(192, side_of_epoch(&slow, 256, 4));
    assert_int_equal(256, side_of_epoch(&slow, 256, 7));
    assert_int_equal(256, side_of_epoch(&slow, 256, 100));
    assert_int_equal(224, sr_image_side_at(&none, 224, 0));
    assert_int_equal(1, sr_image_side_count(&none, 224));
    assert_int_equal(96, side_of_epoch(&sudden, 224, 3));
    assert_int_equal(224, side_of_epoch(&sudden, 224, 4));
}

static const sr_transform_spec augment[] = {{.name = "random_resized_crop"}, {.name = "flip"}};

static sr_pipeline_options usual(const char *transformer) {
    return (sr_pipeline_options){.dataset = *transformer == 's' ? mask_folder : plain_folder,
                                 .split = "train",
                                 .transformer = transformer,
                                 .transforms = augment,
                                 .transform_count = 2,
                                 .image_height = SIDE,
                                 .image_width = SIDE,
                                 .order = SR_ORDER_EXAMPLES,
                                 .seed = 5,
                                 .batch = BATCH,
                                 .lanes = LANES,
                                 .lane_end = LANES,
                                 .steps = STEPS,
                                 .workers = 2,
                                 .threads = true};
}

typedef struct lane {
    int64_t side;
    uint64_t hash;
} lane;

// All lanes of the steps that the pipeline delivers, into lanes[step * LANES + lane].
static void deal(const sr_pipeline_options *o, lane *lanes) {
    sr_pipeline *p;
    assert_ok(sr_pipeline_open(o, &p));
    for (bool end = false; !end;) {
        sr_slot slot;
        assert_ok(sr_pipeline_next(p, &slot, &end));
        if (end)
            break;
        lane *to = &lanes[slot.step * LANES + slot.lane];
        *to = (lane){.side = slot.array[0].shape[2]};
        for (int i = 0; i < slot.arrays; i++) {
            const sr_array *a = &slot.array[i];
            size_t bytes = sr_dtype_size(a->dtype);
            for (int d = 0; d < a->rank; d++)
                bytes *= (size_t)a->shape[d];
            to->hash = sr_hash64_seed(a->data, bytes, to->hash);
        }
        sr_pipeline_release(p, &slot);
    }
    sr_pipeline_close(p);
}

static void check_slots(const char *transformer) {
    lane grown[STEPS * LANES] = {{0}}, again[STEPS * LANES] = {{0}},
                       fixed[3][STEPS * LANES] = {{{0}}};
    sr_pipeline_options o = usual(transformer);
    for (int k = 0; k < 3; k++) {
        o.image_height = o.image_width = FROM + k * STEP;
        deal(&o, fixed[k]);
    }
    o = usual(transformer);
    o.growth = (sr_image_growth){.from = FROM, .step = STEP, .begin = BATCH, .end = 7 * BATCH};
    deal(&o, grown);
    o.threads = false; // from the middle on
    o.position = 4 * BATCH;
    o.steps = STEPS - 4;
    deal(&o, again);
    for (int i = 0; i < STEPS * LANES; i++) {
        const int64_t side = sr_image_side_at(&o.growth, SIDE, i / LANES * BATCH);
        assert_int_equal(side, grown[i].side);
        assert_int_equal(fixed[(side - FROM) / STEP][i].hash, grown[i].hash);
        if (i >= 4 * LANES)
            assert_int_equal(grown[i].hash, again[i].hash);
    }
    assert_int_equal(FROM, grown[0].side);
    assert_int_equal(FROM + STEP, grown[4 * LANES].side);
    assert_int_equal(SIDE, grown[STEPS * LANES - 1].side);
}

static void test_slots(void **state) {
    (void)state;
    check_slots("classify");
    check_slots("segment");
}

static void test_refusals(void **state) {
    (void)state;
    static const sr_image_growth bad[] = {
        {.from = 15, .step = 8},
        {.from = 40, .step = 8},
        {.from = 16, .step = 0},
        {.from = -8, .step = 8},
        {.from = 16, .step = 8, .begin = 9, .end = 8},
    };
    sr_pipeline *p;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sr_pipeline_options o = usual("classify");
        o.growth = bad[i];
        assert_status(SR_E_USAGE, sr_pipeline_open(&o, &p));
        assert_message("images cannot grow from");
    }
}

static const pictures_set sets[] = {{plain_folder, PICTURES_CLASSES, COUNT, 50, 40},
                                    {mask_folder, PICTURES_MASKS, COUNT, 50, 40}};

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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sides),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
