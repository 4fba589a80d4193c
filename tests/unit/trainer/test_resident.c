// SPDX-License-Identifier: Apache-2.0
// Pictures that stay on the device (trainer/engine/resident.h): their slots have the bytes of the
// pipeline's, for any transforms that only move pixels, in any order, on any part of the lanes and
// from any step on; whatever else is refused.
#include "dataio/pipeline/moves.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"
#include "trainer/engine/feed.h"
#include "trainer/engine/resident.h"

enum { COUNT = 101, HEIGHT = 18, WIDTH = 22, BATCH = 24, LANES = 4, STEPS = 9 };

static char same[256], varying[256];
static sr_device *device;

static sr_pipeline_options usual(const sr_transform_spec *transforms, int count) {
    return (sr_pipeline_options){.dataset = same,
                                 .split = "train",
                                 .transforms = transforms,
                                 .transform_count = count,
                                 .image_height = HEIGHT,
                                 .image_width = WIDTH,
                                 .order = SR_ORDER_EXAMPLES,
                                 .seed = 7,
                                 .batch = BATCH,
                                 .lanes = LANES,
                                 .lane_end = LANES,
                                 .steps = STEPS,
                                 .workers = 1,
                                 .threads = true};
}

static bool can_stay(const sr_pipeline_options *o) {
    uint64_t bytes;
    assert_ok(sr_resident_measure(o, COUNT, &bytes));
    if (bytes > 0)
        assert_int_equal(COUNT * HEIGHT * WIDTH * 3, bytes);
    return bytes > 0;
}

static void compare_slots(const sr_slot *want, const sr_slot *got) {
    assert_int_equal(want->step, got->step);
    assert_int_equal(want->lane, got->lane);
    assert_int_equal(want->first_position, got->first_position);
    assert_int_equal(want->valid, got->valid);
    assert_int_equal(want->arrays, got->arrays);
    for (int i = 0; i < want->arrays; i++) {
        const sr_array *a = &want->array[i], *b = &got->array[i];
        const size_t bytes =
            (size_t)want->valid * (i == 0 ? (size_t)HEIGHT * WIDTH * 3 : sizeof(int32_t));
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->dtype, b->dtype);
        assert_int_equal(a->rank, b->rank);
        assert_memory_equal(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]);
        assert_int_equal(a->count, b->count);
        assert_memory_equal(a->data, b->data, bytes);
    }
}

static void compare(const sr_pipeline_options *o) {
    sr_pipeline *pipeline;
    sr_feed *feed;
    assert_true(can_stay(o));
    assert_ok(sr_pipeline_open(o, &pipeline));
    assert_ok(sr_feed_create_resident(o, 1, device, &feed));
    const sr_lane_source *source = sr_feed_source(feed);
    for (bool end = false; !end;) {
        sr_slot want, used;
        const sr_slot *got;
        assert_ok(sr_pipeline_next(pipeline, &want, &end));
        if (end)
            break;
        assert_ok(sr_feed_peek(feed, want.lane, &got));
        compare_slots(&want, got);
        assert_ok(source->get(source->user, want.lane, &used));
        source->done(source->user, want.lane);
        sr_pipeline_release(pipeline, &want);
    }
    assert_int_equal(0, sr_feed_get_damage(feed).count);
    sr_feed_free(feed);
    sr_pipeline_close(pipeline);
}

static const sr_transform_spec none[1] = {{0}};
static const sr_transform_spec speed[] = {{.name = "resize"},
                                          {.name = "alternating_flip"},
                                          {.name = "pad_crop", .arguments = "pad=2 mode=reflect"}};
static const sr_transform_spec black[] = {{.name = "pad_crop", .arguments = "pad=4"},
                                          {.name = "flip"}};
static const sr_transform_spec sheet[] = {
    {.name = "flip"},
    {.name = "pad", .arguments = "size=[1, 2, 30, 4] fill=[200, 10, 77]"},
    {.name = "flip"},
    {.name = "random_crop"},
    {.name = "flip", .arguments = "probability=0.4"}};
static const sr_transform_spec edges[] = {{.name = "flip"},
                                          {.name = "center_crop", .arguments = "size=10"},
                                          {.name = "pad", .arguments = "size=9 mode=edge"},
                                          {.name = "flip"},
                                          {.name = "random_crop"}};
static const sr_transform_spec mirrors[] = {{.name = "center_crop", .arguments = "size=5"},
                                            {.name = "flip"},
                                            {.name = "pad", .arguments = "size=20 mode=reflect"},
                                            {.name = "random_crop"}};

static void test_transforms(void **state) {
    (void)state;
    const sr_pipeline_options all[] = {usual(none, 0),  usual(speed, 3), usual(black, 2),
                                       usual(sheet, 5), usual(edges, 5), usual(mirrors, 4)};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        compare(&all[i]);
}

static void test_orders_and_parts(void **state) {
    (void)state;
    static const sr_transform_window windows[3] = {{0}, {.begin = 30, .end = 130}, {.begin = 50}};
    for (int order = SR_ORDER_SEQUENTIAL; order <= SR_ORDER_CHUNKS; order++) {
        sr_pipeline_options o = usual(speed, 3);
        o.order = (sr_data_order)order;
        o.windows = windows;
        compare(&o);
        o.repeats = order == SR_ORDER_EXAMPLES ? 3 : 0;
        o.position = 4 * BATCH;
        o.lane_begin = 1;
        o.lane_end = 3;
        compare(&o);
    }
}

static void test_what_cannot_stay(void **state) {
    (void)state;
    static const sr_transform_spec changes[] = {{.name = "flip"}, {.name = "color_jitter"}};
    static const sr_transform_spec resizes[] = {{.name = "resize", .arguments = "size=12"},
                                                {.name = "pad_crop", .arguments = "pad=8"}};
    static const sr_transform_spec twice[] = {{.name = "pad_crop", .arguments = "pad=2"},
                                              {.name = "pad", .arguments = "size=2"},
                                              {.name = "random_crop"}};
    static const sr_transform_spec grows[] = {{.name = "pad", .arguments = "size=2"}};
    // From the second window on, there is a size to be changed.
    static const sr_transform_spec late[] = {{.name = "center_crop", .arguments = "size=10"},
                                             {.name = "resize", .arguments = "size=[18, 22]"}};
    static const sr_transform_window windows[2] = {{.begin = 500, .end = 600}, {0}};
    const sr_pipeline_options all[] = {usual(changes, 2), usual(resizes, 2), usual(twice, 3),
                                       usual(grows, 1), usual(late, 2)};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_false(can_stay(&all[i]));
    sr_pipeline_options o = usual(late, 2);
    o.windows = windows;
    assert_false(can_stay(&o));
    o = usual(speed, 3);
    o.balance = 0.5;
    assert_false(can_stay(&o));
    o = usual(speed, 3);
    o.growth = (sr_image_growth){.from = 8, .step = 4, .end = BATCH};
    assert_false(can_stay(&o));
    o = usual(speed, 3);
    o.transformer = "detect";
    assert_false(can_stay(&o));
}

static void test_other_sizes(void **state) {
    (void)state;
    sr_feed *feed;
    sr_pipeline_options o = usual(speed, 3);
    o.dataset = varying;
    assert_status(SR_E_SHAPE, sr_feed_create_resident(&o, 1, device, &feed));
    assert_message("22 x 18");
    o = usual(speed, 3);
    o.identity = "of another data set";
    assert_status(SR_E_DATA, sr_feed_create_resident(&o, 1, device, &feed));
}

static int begin(void **state) {
    (void)state;
    test_folder_make(same);
    test_folder_make(varying);
    pictures_pack_same(same, COUNT, WIDTH, HEIGHT);
    pictures_pack(varying, COUNT, WIDTH, HEIGHT, 0);
    assert_ok(sr_device_open(NULL, &device));
    return 0;
}

static int end(void **state) {
    (void)state;
    sr_device_close(device);
    test_folder_remove(same);
    test_folder_remove(varying);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transforms),
        cmocka_unit_test(test_orders_and_parts),
        cmocka_unit_test(test_what_cannot_stay),
        cmocka_unit_test(test_other_sizes),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
