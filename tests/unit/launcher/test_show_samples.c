// SPDX-License-Identifier: Apache-2.0
// Records as tiles: sizes, names in any script, boxes, outlines and masks in the tile's pixels.
#include "tests/unit/support/test_pictures.h"

#include "dataio/record/record.h"
#include "dataio/record/shard.h"
#include "dataio/record/zstd_frame.h"
#include "launcher/commands/show_samples.h"

static char top[256];
static sr_arena arena;
static const char *const classes[] = {"Äpfel", "桃子"};

static int enter(void **state) {
    (void)state;
    test_folder_make(top);
    sr_arena_init(&arena);
    return 0;
}

static int leave(void **state) {
    (void)state;
    sr_arena_release(&arena);
    test_folder_remove(top);
    return 0;
}

static void write_record(const sr_record_writer *record, const char *protocol) {
    sr_writer *writer;
    assert_ok(sr_writer_open(
        &(sr_writer_options){
            .folder = top, .classes = classes, .class_count = 2, .protocol = protocol},
        &writer));
    assert_ok(sr_writer_append(writer, record->data, record->bytes));
    assert_ok(sr_writer_close(writer));
}

static sr_dataset *read_back(int side, sr_samples *out) {
    sr_dataset *set;
    assert_ok(sr_dataset_open(top, "train", &set));
    assert_ok(sr_show_samples(set, 0, 100, side, &arena, out));
    return set;
}

static sr_sample make_sample(const uint8_t *pixels, int64_t width, int64_t height) {
    return (sr_sample){.data = pixels,
                       .bytes = (size_t)(width * height * 3),
                       .height = height,
                       .width = width,
                       .channels = 3,
                       .label = 1,
                       .orientation = 1,
                       .name = "a/b.c.jpg",
                       .name_bytes = 9};
}

static void test_sample(void **state) {
    (void)state;
    static uint8_t pixels[400 * 300 * 3];
    sr_record_writer record = {0};
    sr_samples samples;
    memset(pixels, 200, sizeof pixels);
    const sr_sample sample = make_sample(pixels, 400, 300);
    assert_ok(sr_sample_write(&record, &sample));
    write_record(&record, NULL);
    sr_record_writer_release(&record);
    sr_dataset *set = read_back(160, &samples);
    assert_int_equal(samples.count, 1);
    assert_int_equal(samples.tiles[0].width, 160); // the aspect ratio 4:3 is kept
    assert_int_equal(samples.tiles[0].height, 120);
    assert_int_equal(samples.tiles[0].rgb[160 * 120 * 3 - 1], 200);
    assert_string_equal(samples.tiles[0].caption, "桃子");
    assert_int_equal(samples.class_count, 2);
    assert_string_equal(samples.classes[0], "Äpfel");
    assert_status(SR_E_USAGE, sr_show_samples(set, 1, 1, 160, &arena, &samples));
    assert_message("sample 1: the split has 1 samples");
    assert_status(SR_E_USAGE, sr_show_samples(set, 0, 10000, 2048, &arena, &samples));
    assert_message("--count");
    sr_dataset_free(set);
}

static void test_objects(void **state) {
    (void)state;
    static uint8_t pixels[320 * 160 * 3];
    const double points[] = {0, 0, 320, 0, 0, 160, 7}; // the last one is half a point
    const sr_polygon outline = {points, 7};
    const sr_object objects[] = {
        {.name = "x", .name_bytes = 1, .label = 1, .xmin = 32, .ymin = 16, .xmax = 64, .ymax = 80},
        {.name = "strange",
         .name_bytes = 7,
         .label = -1,
         .polygons = &outline,
         .polygon_count = 1}};
    sr_sample sample = make_sample(pixels, 320, 160);
    sr_record_writer record = {0};
    sr_samples samples;
    assert_ok(sr_detection_write(&record, &sample, objects, 2));
    write_record(&record, SR_DETECTION_PROTOCOL);
    sr_record_writer_release(&record);
    sr_dataset *set = read_back(160, &samples);
    const sr_tile *tile = &samples.tiles[0];
    assert_string_equal(tile->caption, "b.c");
    assert_int_equal(tile->box_count, 2);
    assert_true(tile->boxes[0].x1 == 16 && tile->boxes[0].y2 == 40 && tile->boxes[0].number == 1);
    assert_string_equal(tile->boxes[0].label, "桃子");
    assert_string_equal(tile->boxes[1].label, "strange");
    assert_int_equal(tile->outline_count, 1);
    assert_int_equal(tile->outlines[0].count, 3);
    assert_true(tile->outlines[0].points[2] == 160 && tile->outlines[0].points[5] == 80);
    sr_dataset_free(set);
}

static void test_mask(void **state) {
    (void)state;
    uint8_t pixels[4 * 2 * 3] = {0};
    const uint8_t ids[4 * 2] = {0, 0, 1, 1, 0, 0, 255, 255};
    sr_sample sample = make_sample(pixels, 4, 2);
    sr_record_writer record = {0};
    sr_zstd zstd = {0};
    sr_samples samples;
    void *frame = NULL;
    size_t capacity = 0;
    sample.label = -1;
    assert_ok(sr_zstd_compress(&zstd, ids, sizeof ids, &frame, &capacity, &sample.mask_bytes));
    sample.mask = frame;
    assert_ok(sr_sample_write(&record, &sample));
    write_record(&record, SR_SEGMENTATION_PROTOCOL);
    sr_record_writer_release(&record);
    sr_free(frame);
    sr_zstd_release(&zstd);
    sr_dataset *set = read_back(160, &samples);
    assert_int_equal(samples.tiles[0].width, 4); // enlarged only when drawn
    assert_non_null(samples.tiles[0].mask);
    assert_memory_equal(samples.tiles[0].mask, ids, sizeof ids);
    sr_dataset_free(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, enter, leave)
        TEST(test_sample),
        TEST(test_objects),
        TEST(test_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
