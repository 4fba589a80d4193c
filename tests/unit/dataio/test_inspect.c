// SPDX-License-Identifier: Apache-2.0
// Inspecting data sets: verify names damage and missing shards, stat counts.
#include "tests/unit/support/test_pictures.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/pack/inspect.h"
#include "dataio/pipeline/pipeline.h"
#include "dataio/record/record.h"
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
    assert_true(result.files > 5);
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
    assert_true(stat.has_mean && stat.mean[0] == 0.5 && stat.std[2] == 0.5); // decoded by stat
    sr_split_stat_release(&stat);
    sr_dataset_free(set);
    assert_ok(sr_dataset_open(top, "val", &set));
    assert_ok(sr_inspect_stat(set, &stat));
    assert_true(stat.has_mean && stat.mean[0] == 1.0 && stat.mean[2] == 0.2); // as stored
    sr_split_stat_release(&stat);
    sr_dataset_free(set);
}

// Objects of other writers have their class as a name, in any encoding, instead of a number.
static void test_object_names(void **state) {
    (void)state;
    static const char *const names[] = {"plain", "caf\xe9", "\xff"};
    static const char *const objects[] = {"caf\xe9", "\xff", "caf\xe9", "plain", "other\xe9"};
    static const int64_t boxes[] = {1, 2, 1};
    sr_writer *writer;
    sr_record_writer record = {0};
    sr_dataset *set;
    sr_split_stat stat;
    sr_object list[5];
    uint8_t pixels[12 * 10 * 3] = {0};
    const sr_sample picture = {.data = pixels,
                               .bytes = sizeof pixels,
                               .height = 10,
                               .width = 12,
                               .channels = 3,
                               .label = -1,
                               .orientation = 1,
                               .name = "n",
                               .name_bytes = 1};
    for (size_t i = 0; i < 5; i++) {
        list[i] = (sr_object){.name = objects[i],
                              .name_bytes = strlen(objects[i]),
                              .label = -1,
                              .xmax = 5,
                              .ymax = 5};
    }
    assert_ok(sr_writer_open(&(sr_writer_options){.folder = top,
                                                  .split = "test",
                                                  .protocol = SR_DETECTION_PROTOCOL,
                                                  .classes = names,
                                                  .class_count = 3},
                             &writer));
    assert_ok(sr_detection_write(&record, &picture, list, 5));
    assert_ok(sr_writer_append(writer, record.data, record.bytes));
    assert_ok(sr_writer_close(writer));
    sr_record_writer_release(&record);
    assert_ok(sr_dataset_open(top, "test", &set));
    assert_string_equal("caf\\xe9", sr_dataset_class_name(set, 1));
    assert_ok(sr_inspect_stat(set, &stat));
    assert_int_equal(5, stat.boxes);
    assert_memory_equal(boxes, stat.class_boxes, sizeof boxes);
    sr_split_stat_release(&stat);
    sr_dataset_free(set);
    sr_pipeline_options o = {.dataset = top,
                             .split = "test",
                             .transformer = "detect",
                             .image_height = 10,
                             .image_width = 12,
                             .batch = 1,
                             .lanes = 1,
                             .lane_end = 1,
                             .threads = true,
                             .act_seconds = 30};
    sr_pipeline *pipeline;
    sr_slot slot;
    bool end;
    assert_ok(sr_pipeline_open(&o, &pipeline));
    assert_status(SR_E_DATA, sr_pipeline_next(pipeline, &slot, &end));
    assert_message("object of class 'other\xe9', which the data set does not list");
    sr_pipeline_close(pipeline);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_top, remove_top)
        TEST(test_kinds),
        TEST(test_verify),
        TEST(test_stat),
        TEST(test_object_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
