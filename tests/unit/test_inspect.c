// SPDX-License-Identifier: Apache-2.0
// Looking at data sets: verify names damage and missing shards, stat counts, grids hold pictures.
#include "tests/unit/test_pictures.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/inspect.h"
#include "dataio/label_font.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"

static char top[256];
static const char *const classes[] = {"cat", "dog"};

static void put_split(const char *split, int count, bool sums) {
    sr_writer *writer;
    sr_record_writer record = {0};
    assert_ok(sr_writer_open(&(sr_writer_options){.folder = top,
                                                  .split = split,
                                                  .classes = classes,
                                                  .class_count = 2,
                                                  .target_bytes = 2000},
                             &writer));
    for (int i = 0; i < count; i++) {
        uint8_t pixels[12 * 10 * 3];
        memset(pixels, i % 2 ? 255 : 0, sizeof pixels);
        sr_sample sample = {.data = pixels,
                            .bytes = sizeof pixels,
                            .height = 10,
                            .width = 12,
                            .channels = 3,
                            .label = i % 3 == 0,
                            .orientation = 1,
                            .name = "n",
                            .name_bytes = 1};
        assert_ok(sr_sample_write(&record, &sample));
        assert_ok(sr_writer_append(writer, record.data, record.bytes));
    }
    if (sums)
        sr_writer_add_sums(writer, &(sr_channel_sums){.pixels = 1, .sum = {255, 0, 51}});
    assert_ok(sr_writer_close(writer));
    sr_record_writer_release(&record);
}

static int make_top(void **state) {
    (void)state;
    test_folder_make(top);
    put_split("val", 4, true);
    put_split("train", 30, false);
    return 0;
}

static int remove_top(void **state) {
    (void)state;
    test_folder_remove(top);
    return 0;
}

static void count_finding(void *user, const char *message) {
    (void)snprintf(user, 512, "%s", message);
}

static const char *in_top(const char *name) {
    static char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", top, name);
    return path;
}

static void test_kinds(void **state) {
    (void)state;
    sr_split_list list;
    assert_true(sr_inspect_is(top) && sr_inspect_is(in_top("val-00000.kpl")));
    assert_false(sr_inspect_is("/") || sr_inspect_is(in_top("none.kpl")));
    assert_ok(sr_inspect_splits(top, &list));
    assert_int_equal(2, list.count);
    assert_string_equal("train", list.names[0]);
    assert_string_equal("val", list.names[1]);
    assert_ok(sr_inspect_splits(in_top("val-00000.kpl"), &list));
    assert_int_equal(1, list.count);
}

static void test_verify(void **state) {
    (void)state;
    sr_verify_result result;
    char message[512] = "";
    assert_ok(sr_inspect_verify(top, count_finding, message, &result));
    assert_int_equal(0, result.damaged);
    assert_int_equal(34, result.records);
    assert_true(result.shards > 5);
    char last[SR_SHARD_NAME_MAX];
    uint32_t shards = 0;
    while (sr_path_exists(in_top(sr_shard_file_name("train", shards, last))))
        shards++;
    assert_true(shards > 2);
    assert_int_equal(0, unlink(in_top(sr_shard_file_name("train", shards - 1, last))));
    assert_ok(sr_inspect_verify(top, count_finding, message, &result));
    assert_int_equal(1, result.damaged);
    assert_non_null(strstr(message, "are missing"));
    assert_int_equal(0, truncate(in_top("val-00000.kpl"), 1000));
    assert_ok(sr_inspect_verify(top, count_finding, message, &result));
    assert_int_equal(1, result.damaged);
    assert_non_null(strstr(message, "val-00000.kpl"));
    assert_non_null(strstr(message, "truncated"));
}

static void test_stat(void **state) {
    (void)state;
    sr_dataset *set;
    sr_split_stat stat;
    assert_ok(sr_dataset_open(top, "train", &set));
    assert_ok(sr_inspect_stat(set, &stat));
    assert_int_equal(30, stat.records);
    assert_int_equal(20, stat.class_records[0]);
    assert_int_equal(10, stat.class_records[1]);
    assert_true(stat.has_mean && stat.mean[0] == 0.5 && stat.std[2] == 0.5); // decoded here
    sr_split_stat_release(&stat);
    sr_dataset_free(set);
    assert_ok(sr_dataset_open(top, "val", &set));
    assert_ok(sr_inspect_stat(set, &stat));
    assert_true(stat.has_mean && stat.mean[0] == 1.0 && stat.mean[2] == 0.2); // as stored
    sr_split_stat_release(&stat);
    sr_dataset_free(set);
}

static void test_grid(void **state) {
    (void)state;
    sr_dataset *set;
    sr_grid *grid;
    int64_t width, height;
    assert_ok(sr_dataset_open(top, "train", &set));
    assert_status(SR_E_USAGE, sr_inspect_grid(set, 30, 4, 2, 24, &grid));
    assert_ok(sr_inspect_grid(set, 27, 100, 2, 24, &grid));
    const uint8_t *pixels = sr_grid_pixels(grid, &width, &height);
    assert_int_equal(2 * (24 + 6) + 6, width); // three samples: two rows of two
    assert_int_equal(2 * (24 + 13 + 6) + 6, height);
    const uint8_t *first = pixels + 3 * (18 * width + 18); // sample 27 is white, 28 black
    assert_int_equal(255, first[0]);
    assert_int_equal(0, first[30 * 3]);
    size_t light = 0; // a label below the black one, in the text's colour
    for (int64_t y = 33; y < 40; y++)
        for (int64_t x = 36; x < 60; x++)
            light += pixels[3 * (y * width + x)] == 220;
    assert_true(light > 10);
    assert_ok(sr_grid_write_png(grid, in_top("grid.png")));
    void *data;
    size_t bytes;
    assert_ok(sr_file_read(in_top("grid.png"), 1 << 20, &data, &bytes));
    assert_memory_equal("\x89PNG\r\n\x1a\n", data, 8);
    sr_free(data);
    FILE *out = fopen(in_top("terminal"), "w");
    assert_non_null(out);
    assert_ok(sr_grid_print(grid, 20, out));
    assert_int_equal(0, fclose(out));
    assert_ok(sr_file_read(in_top("terminal"), 1 << 20, &data, &bytes));
    assert_non_null(strstr(data, "\x1b[38;2;"));
    sr_free(data);
    sr_grid_free(grid);
    sr_dataset_free(set);
}

// Boxes of all kinds of numbers, and labels that are none: drawn inside of the picture or not at
// all.
static void test_hostile_boxes(void **state) {
    (void)state;
    uint8_t pixels[8 * 8 * 3] = {0};
    const double bad = (double)NAN, far = (double)INFINITY;
    const double numbers[] = {bad, 1, far, -far, 3, bad, -1e300};
    const sr_polygon strange = {numbers, sizeof numbers / sizeof *numbers};
    const sr_object objects[] = {
        {.name = "a", .name_bytes = 1, .xmin = bad, .ymin = 1, .xmax = 5, .ymax = bad},
        {.name = "b", .name_bytes = 1, .xmin = -far, .ymin = -1e300, .xmax = far, .ymax = 1e300},
        {.name = "c", .name_bytes = 1, .xmin = 7, .ymin = 7, .xmax = 2, .ymax = 2},
        {.name = "d",
         .name_bytes = 1,
         .label = INT64_MAX,
         .xmax = bad,
         .ymax = 3,
         .polygons = &strange,
         .polygon_count = 1}};
    sr_sample picture = {.data = pixels,
                         .bytes = sizeof pixels,
                         .height = 8,
                         .width = 8,
                         .channels = 3,
                         .name = "n",
                         .name_bytes = 1};
    sr_record_writer record = {0};
    sr_detection detection;
    sr_grid *grid;
    int64_t width, height;
    assert_ok(sr_detection_write(&record, &picture, objects, 4));
    assert_ok(sr_detection_read(record.data, record.bytes, &detection));
    assert_ok(sr_grid_create(1, 1, 24, &grid));
    assert_ok(sr_grid_put_sample(grid, 0, &picture, &detection, NULL));
    const uint8_t *drawn = sr_grid_pixels(grid, &width, &height);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            if (x < 6 || x >= 30 || y < 6 || y >= 30)
                assert_int_equal(24, drawn[3 * (y * width + x)]);
    assert_int_equal(255, drawn[3 * (6 * width + 6)]); // a corner of the one without an end
    sr_grid_free(grid);
    sr_record_writer_release(&record);
}

static void test_outline(void **state) {
    (void)state;
    uint8_t pixels[8 * 8 * 3] = {0};
    const double triangle[] = {0, 0, 8, 0, 0, 8};
    const sr_polygon outline = {triangle, 6};
    const sr_object object = {
        .name = "a", .name_bytes = 1, .polygons = &outline, .polygon_count = 1};
    const sr_sample picture = {
        .data = pixels, .bytes = sizeof pixels, .height = 8, .width = 8, .channels = 3};
    sr_record_writer record = {0};
    sr_detection detection;
    sr_grid *grid;
    int64_t width, height;
    assert_ok(sr_detection_write(&record, &picture, &object, 1));
    assert_ok(sr_detection_read(record.data, record.bytes, &detection));
    assert_ok(sr_grid_create(1, 1, 24, &grid));
    assert_ok(sr_grid_put_sample(grid, 0, &picture, &detection, NULL));
    const uint8_t *drawn = sr_grid_pixels(grid, &width, &height);
    for (int64_t i = 0; i < 24; i++) {
        assert_int_equal(255, drawn[3 * (6 * width + 6 + i)]);
        assert_int_equal(255, drawn[3 * ((6 + i) * width + 6)]);
        assert_int_equal(255, drawn[3 * ((29 - i) * width + 6 + i)]);
    }
    assert_int_equal(0, drawn[3 * (12 * width + 12)]);
    assert_int_equal(0, drawn[3 * (28 * width + 28)]);
    sr_grid_free(grid);
    sr_record_writer_release(&record);
}

static void test_font(void **state) {
    (void)state;
    uint8_t canvas[40 * 7 * 3] = {0};
    const uint8_t white[3] = {255, 255, 255};
    sr_label_draw(canvas, 40, 7, 0, 0, 1, 40, "I\xc3\xa4l.", 5, white);
    assert_int_equal(255, canvas[3 * 1]); // I: 0x0e in its first row
    assert_int_equal(0, canvas[3 * 0]);
    assert_int_equal(255, canvas[3 * 7]);  // '?' for one letter of two bytes
    assert_int_equal(255, canvas[3 * 12]); // l drawn as L, in the third place
    sr_label_draw(canvas, 40, 7, 38, 5, 3, 500, "WWW", 3, white); // over the edge: cut, not written
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_top, remove_top)
        TEST(test_kinds),
        TEST(test_verify),
        TEST(test_stat),
        TEST(test_grid),
        TEST(test_outline),
        cmocka_unit_test(test_hostile_boxes),
        cmocka_unit_test(test_font),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
