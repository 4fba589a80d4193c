// SPDX-License-Identifier: Apache-2.0
// Containers: all of them give the same records, order, identity and sample stream; directories of
// other writers are reproduced byte for byte; what is refused, and which files remain after
// failures. Damage is tested in test_container_damage.c.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "dataio/pack/inspect.h"
#include "dataio/pack/pack.h"
#include "dataio/pipeline/pipeline.h"
#include "dataio/record/container.h"
#include "dataio/record/dataset.h"
#include "dataio/record/lmdb_file_internal.h"
#include "dataio/record/property.h"
#include "dataio/record/record.h"
#include "dataio/record/store_internal.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"

#ifdef SR_WITH_LMDB
#include <lmdb.h>
#endif

enum { RECORDS = 300 };

static char top[256];

static int make_top(void **state) {
    (void)state;
    test_folder_make(top);
    return 0;
}

static int remove_top(void **state) {
    (void)state;
    test_folder_remove(top);
    return 0;
}

static char *in_top(const char *name) {
    static char paths[4][400];
    static int next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static void put_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(bytes, fwrite(data, 1, bytes, file));
    assert_int_equal(0, fclose(file));
}

// The container that the table has for a store; a store without one fails.
static const sr_container *container_of(const sr_store *store) {
    for (size_t i = 0; sr_container_at(i) != NULL; i++)
        if (strcmp(sr_container_at(i)->name, store->name) == 0)
            return sr_container_at(i);
    fail_msg("store '%s' has no container", store->name);
    return NULL;
}

// -- all containers of the table ---------------------------------------------------------------

// Some records have a few bytes, some several pages.
static void make_record(sr_record_writer *record, int i) {
    static uint8_t data[20000];
    size_t bytes = i % 7 == 0 ? 5 + (size_t)i : i % 31 == 0 ? sizeof data : 300;
    char name[32];
    memset(data, i, bytes);
    const sr_sample sample = {.data = data,
                              .bytes = bytes,
                              .height = 40 + i % 20,
                              .width = 100,
                              .channels = 3,
                              .label = i % 3,
                              .name = name,
                              .name_bytes = (size_t)snprintf(name, sizeof name, "n%d", i)};
    assert_ok(sr_sample_write(record, &sample));
}

static void write_split(const char *format, const char *folder, const char *split, int count) {
    static const char *const classes[] = {"cat", "", "v\xc3\xb6gel"};
    const sr_channel_sums sums = {.pixels = 2, .sum = {255, 0, 51}, .square = {255 * 255, 0, 51}};
    const sr_writer_options options = {.folder = folder,
                                       .split = split,
                                       .classes = classes,
                                       .class_count = 3,
                                       .target_bytes = 64 << 10,
                                       .format = format};
    sr_writer *writer;
    sr_record_writer record = {0};
    assert_ok(sr_make_folders(folder));
    assert_ok(sr_writer_open(&options, &writer));
    for (int i = 0; i < count; i++) {
        make_record(&record, i);
        assert_ok(sr_writer_append(writer, record.data, record.bytes));
    }
    sr_writer_add_sums(writer, &sums);
    assert_ok(sr_writer_close(writer));
    sr_record_writer_release(&record);
}

static void check_records(sr_dataset *set, int count) {
    sr_record_writer want = {0};
    assert_int_equal(count, sr_dataset_count(set));
    for (int i = 0; i < count; i++) {
        const void *data;
        size_t bytes;
        int n = (i * 37) % count; // not in order
        make_record(&want, n);
        assert_ok(sr_dataset_read(set, n, &data, &bytes));
        assert_int_equal(want.bytes, bytes);
        assert_memory_equal(want.data, data, bytes);
    }
    sr_record_writer_release(&want);
}

static void check_facts(sr_dataset *set) {
    double mean[3], std[3];
    sr_split_stat stat;
    assert_int_equal(3, sr_dataset_class_count(set));
    assert_string_equal("", sr_dataset_class_name(set, 1));
    assert_string_equal("v\xc3\xb6gel", sr_dataset_class_name(set, 2));
    assert_in_range(sr_dataset_median_side(set), 48, 52);
    assert_true(sr_dataset_normalisation(set, mean, std));
    assert_true(mean[0] == 0.5 && mean[1] == 0);
    assert_ok(sr_inspect_stat(set, &stat));
    assert_int_equal(RECORDS / 3, stat.class_records[1]);
    assert_true(stat.bytes > 100000);
    sr_split_stat_release(&stat);
}

// Sequential reading continues where the last read ended: no seeks inside a file.
static void check_positions(const sr_dataset *set) {
    int before = -1, shard;
    uint64_t end = 0, offset, bytes;
    for (int64_t i = 0; i < sr_dataset_count(set); i++) {
        assert_ok(sr_dataset_locate(set, i, &shard, &offset, &bytes));
        assert_true(shard == before ? offset == end : shard == before + 1);
        before = shard;
        end = offset + bytes;
    }
}

static void check_container(const char *format, char identity[SR_SHA256_HEX]) {
    char *folder = in_top(format), message[512] = "";
    sr_dataset *set;
    sr_split_list splits;
    sr_verify_result result;
    write_split(format, folder, "train", RECORDS);
    write_split(format, folder, "val", 3);
    assert_true(sr_inspect_is(folder));
    assert_string_equal(format, sr_container_find(folder)->name);
    assert_ok(sr_inspect_splits(folder, &splits));
    assert_int_equal(2, splits.count);
    assert_string_equal("val", splits.names[1]);
    assert_ok(sr_inspect_verify(folder, NULL, message,
                                &result)); // no finding, so the callback is not called
    assert_int_equal(RECORDS + 3, result.records);
    assert_true(sr_dataset_has_split(folder, "val") && !sr_dataset_has_split(folder, "test"));
    assert_status(SR_E_NOT_FOUND, sr_dataset_open(folder, "test", &set));
    assert_message("has no split 'test'");

    assert_ok(sr_dataset_open(folder, "train", &set));
    check_records(set, RECORDS);
    check_facts(set);
    check_positions(set);
    (void)snprintf(identity, SR_SHA256_HEX, "%s", sr_dataset_identity(set));
    assert_int_equal(SR_SHA256_HEX - 1, strlen(identity));
    sr_dataset_free(set);
    assert_ok(sr_dataset_open_records(folder, "train", &set));
    assert_string_equal("", sr_dataset_identity(set));
    check_records(set, RECORDS);
    sr_dataset_free(set);
}

static void each_gives_the_same(void **state) {
    (void)state;
    char first[SR_SHA256_HEX], other[SR_SHA256_HEX];
    check_container("shards", first);
    for (size_t i = 1; sr_store_at(i) != NULL; i++) {
        (void)container_of(sr_store_at(i));
        check_container(sr_store_at(i)->name, other);
        assert_string_equal(first, other);
    }
}

// The folder or file of one split is a data set by itself and knows its split.
static void one_split_alone(void **state) {
    (void)state;
    static const char *const alone[][2] = {
        {"shards", "val-00000.kpl"}, {"kpl-dir", "val"}, {"lmdb", "val"}, {"lmdb", "val/data.mdb"}};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        char path[400], *folder = in_top(alone[i][0]);
        sr_dataset *set;
#ifndef SR_WITH_LMDB
        if (strcmp(alone[i][0], "lmdb") == 0)
            continue;
#endif
        if (!sr_path_exists(folder))
            write_split(alone[i][0], folder, "val", 9);
        (void)snprintf(path, sizeof path, "%s/%s", folder, alone[i][1]);
        assert_true(sr_dataset_has_split(path, "val") && !sr_dataset_has_split(path, "train"));
        assert_ok(sr_dataset_open(path, NULL, &set));
        check_records(set, 9);
        sr_dataset_free(set);
        assert_ok(sr_dataset_open(path, "val", &set));
        sr_dataset_free(set);
        assert_status(SR_E_NOT_FOUND, sr_dataset_open(path, "train", &set));
        assert_message("contains split 'val', not 'train'");
    }
}

static int count_entries(const char *folder) {
    char command[500];
    int count = -1;
    (void)snprintf(command, sizeof command, "find '%s' -type f | wc -l", folder);
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): our own path
    assert_non_null(pipe);
    assert_int_equal(1, fscanf(pipe, "%d", &count)); // NOLINT(cert-err34-c): output of wc
    assert_int_equal(0, pclose(pipe));
    return count;
}

static void check_writer(const char *format, const sr_record_writer *record) {
    char *folder = in_top(format);
    const sr_writer_options options = {.folder = folder, .format = format};
    sr_writer *writer;
    sr_dataset *set;
    assert_ok(sr_make_folders(folder));
    assert_ok(sr_writer_open(&options, &writer));
    sr_writer_abort(writer); // nothing was started
    assert_ok(sr_writer_open(&options, &writer));
    assert_ok(sr_writer_append(writer, record->data, record->bytes));
    assert_false(sr_dataset_has_split(folder, "train")); // not before the writer is closed
    sr_writer_abort(writer);
    assert_int_equal(0, count_entries(folder));
    assert_ok(sr_writer_open(&options, &writer));
    assert_status(SR_E_DATA, sr_writer_close(writer)); // nothing was appended
    assert_ok(sr_writer_open(&options, &writer));
    assert_ok(sr_writer_append(writer, record->data, record->bytes));
    assert_ok(sr_writer_close(writer));
    assert_status(SR_E_EXISTS, sr_writer_open(&options, &writer));
    assert_ok(sr_dataset_open(folder, "train", &set));
    sr_dataset_free(set);
}

static void writers_refuse_and_clean_up(void **state) {
    (void)state;
    sr_writer *writer;
    sr_record_writer record = {0};
    sr_writer_options options = {.folder = top, .format = "tape"};
    assert_status(SR_E_USAGE, sr_writer_open(&options, &writer));
    assert_message("supported: shards, kpl-dir");
    options = (sr_writer_options){.folder = top, .split = "..", .format = "kpl-dir"};
    assert_status(SR_E_USAGE, sr_writer_open(&options, &writer));
    make_record(&record, 1);
    for (size_t i = 0; sr_store_at(i) != NULL; i++)
        check_writer(sr_store_at(i)->name, &record);
    sr_record_writer_release(&record);
}

// -- the pipeline ------------------------------------------------------------------------------

static uint64_t stream(const char *folder) {
    static const sr_transform_spec augment[] = {
        {.name = "random_resized_crop", .arguments = "scale=[0.3, 1]"}, {.name = "flip"}};
    uint64_t hash = 0;
    for (int order = SR_ORDER_SEQUENTIAL; order <= SR_ORDER_CHUNKS; order++) {
        const sr_pipeline_options options = {.dataset = folder,
                                             .split = "train",
                                             .transforms = augment,
                                             .transform_count = 2,
                                             .image_height = 16,
                                             .image_width = 16,
                                             .order = (sr_data_order)order,
                                             .seed = 3,
                                             .batch = 12,
                                             .lanes = 4,
                                             .lane_end = 4,
                                             .steps = 5,
                                             .workers = 2,
                                             .threads = order != SR_ORDER_CHUNKS,
                                             .act_seconds = 30};
        sr_pipeline *pipeline;
        assert_ok(sr_pipeline_open(&options, &pipeline));
        for (bool end = false;;) {
            sr_slot slot;
            assert_ok(sr_pipeline_next(pipeline, &slot, &end));
            if (end)
                break;
            assert_int_equal(2, slot.arrays); // image and label of three samples
            for (int i = 0; i < slot.arrays; i++)
                hash = sr_hash64_seed(
                    slot.array[i].data,
                    (size_t)3 * (i ? sr_dtype_size(slot.array[i].dtype) : (size_t)16 * 16 * 3),
                    hash);
            sr_pipeline_release(pipeline, &slot);
        }
        sr_pipeline_close(pipeline);
    }
    return hash;
}

static void make_pictures(const char *folder) {
    for (unsigned i = 0; i < 31; i++) {
        char path[400];
        size_t bytes;
        uint8_t *picture = picture_encode(30 + (int)i % 3, 24, i, &(picture_jpeg){0}, &bytes);
        (void)snprintf(path, sizeof path, "%s/%s", folder, i % 3 ? "cats" : "dogs");
        assert_ok(sr_make_folders(path));
        (void)snprintf(path, sizeof path, "%s/%s/%02u.jpg", folder, i % 3 ? "cats" : "dogs", i);
        assert_ok(sr_file_write_atomic(path, picture, bytes));
        sr_free(picture);
    }
}

static void pack(const char *source, const char *folder, const char *format, int workers) {
    sr_pack_report report;
    const sr_pack_options options = {.source = source,
                                     .destination = folder,
                                     .val_fraction = 0.2,
                                     .workers = workers,
                                     .format = format,
                                     .quiet = true};
    assert_ok(sr_pack(&options, &report));
    assert_true(report.records[SR_SPLIT_TRAIN] == 25 && report.records[SR_SPLIT_VAL] == 6);
    assert_true(report.bytes > 10000);
    assert_ok(sr_pack(&options, &report));
    assert_true(report.was_complete);
}

// With every format, the pipeline gives the same samples, and packing gives the same bytes with any
// number of workers.
static void packed_streams_are_equal(void **state) {
    (void)state;
    char *source = in_top("pictures");
    uint64_t first = 0;
    make_pictures(source);
    for (size_t i = 0; sr_store_at(i) != NULL; i++) {
        char one[300], three[300], command[700];
        const char *format = sr_store_at(i)->name;
        (void)snprintf(one, sizeof one, "%s/%s-1", top, format);
        (void)snprintf(three, sizeof three, "%s/%s-3", top, format);
        pack(source, one, format, 1);
        pack(source, three, format, 3);
        (void)snprintf(command, sizeof command, "diff -r '%s' '%s'", one, three);
        assert_int_equal(0, system(command)); // NOLINT(cert-env33-c): our own paths
        uint64_t hash = stream(one);
        first = i == 0 ? hash : first;
        if (hash != first)
            fail_msg("%s gives other samples than shards", format);
        sr_pack_report report;
        const sr_pack_options other = {.source = source,
                                       .destination = one,
                                       .val_fraction = 0.2,
                                       .format = i == 0 ? "kpl-dir" : NULL,
                                       .quiet = true};
        assert_status(SR_E_EXISTS,
                      sr_pack(&other, &report)); // another format makes another data set
    }
}

// -- KPLRecord directories of other writers ----------------------------------------------------

static size_t from_hex(const char *hex, uint8_t *out) {
    size_t n = 0;
    for (; hex[0] && hex[1]; hex += 2, n++) {
        const char digits[3] = {hex[0], hex[1], '\0'};
        out[n] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return n;
}

#define GOLDEN_RECORD                                                                              \
    "0a0c0a046461746112041a02ffd80a0d0a07656e636f646564120228010a170a057368617065120e3a0c0a022802" \
    "0a0228030a0228030a0f0a056c6162656c12063a040a022800"
#define GOLDEN_META                                                                                \
    "version: 1\nid: \"root\"\nrecord_type {\n  basicType: map\n"                                  \
    "  properties { key: \"data\" value { basicType: bytes } }\n"                                  \
    "  properties { key: \"encoded\" value { basicType: int64 } }\n"                               \
    "  properties { key: \"label\" value { basicType: list item { basicType: int64 } } }\n"        \
    "  properties { key: \"shape\" value { basicType: list item { basicType: int64 } } }\n"        \
    "  keys: \"data\" keys: \"encoded\" keys: \"shape\" keys: \"label\"\n}\n"

// Three records of 71 bytes as the original package wrote them, in FOLDER/STEM.*.
static void put_golden(const char *folder, const char *stem) {
    char path[500];
    uint8_t data[3 * 71], index[16];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(71, from_hex(GOLDEN_RECORD, data + i * 71));
        data[i * 71 + 70] = (uint8_t)i; // label
    }
    assert_ok(sr_make_folders(folder));
    (void)snprintf(path, sizeof path, "%s/%s.data", folder, stem);
    put_file(path, data, sizeof data);
    (void)snprintf(path, sizeof path, "%s/%s.meta", folder, stem);
    put_file(path, GOLDEN_META, strlen(GOLDEN_META));
    (void)snprintf(path, sizeof path, "%s/%s.index", folder, stem);
    put_file(path, index, from_hex("0a0600478e01d501", index));
}

static char *in_folder(const char *folder, const char *name) {
    static char path[500];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void check_golden(const char *folder) {
    sr_dataset *set;
    const void *data;
    size_t bytes;
    uint8_t want[71];
    sr_sample sample;
    assert_ok(sr_dataset_open(folder, "train", &set));
    assert_int_equal(3, sr_dataset_count(set));
    assert_int_equal(3, sr_dataset_class_count(set)); // the labels, as numbers
    assert_string_equal("2", sr_dataset_class_name(set, 2));
    assert_int_equal(2, sr_dataset_median_side(set));
    assert_ok(sr_dataset_read(set, 0, &data, &bytes));
    assert_int_equal(from_hex(GOLDEN_RECORD, want), bytes);
    assert_memory_equal(want, data, bytes);
    assert_ok(sr_dataset_read(set, 2, &data, &bytes));
    assert_ok(sr_sample_read(data, bytes, &sample));
    assert_true(sample.label == 2 && sample.encoded && sample.height == 2 && sample.width == 3);
    sr_dataset_free(set);
}

static void golden_directory_is_read(void **state) {
    (void)state;
    char *folder = in_top("a.folder"), name[300];
    sr_dataset *set;
    put_golden(folder, "root");
    assert_true(sr_dataset_has_split(folder, "train") && !sr_dataset_has_split(folder, "val"));
    assert_ok(sr_dataset_open_records(folder, "val", &set)); // it does not name its split
    assert_int_equal(0, sr_dataset_class_count(set));
    assert_string_equal("root.data record 1", sr_dataset_sample_name(set, 1, name));
    sr_dataset_free(set);
    assert_false(
        sr_path_exists(in_folder(folder, "root.sums"))); // reading records does not use checksums
    check_golden(folder);
    assert_true(sr_path_exists(in_folder(folder, "root.sums")));
    check_golden(folder); // now with checksums
    put_golden(in_top("split/train"), "my.data.set");
    check_golden(in_top("split"));
    assert_ok(sr_dataset_open(in_top("split"), "train", &set));
    assert_string_equal("train/my.data.set.data record 1", sr_dataset_sample_name(set, 1, name));
    sr_dataset_free(set);
}

static void classes_come_from_properties(void **state) {
    (void)state;
    static const char *const classes[] = {"a", "b", "c", "d"};
    char *folder = in_top("named");
    sr_property property = {.classes = classes, .class_count = 4, .split = "val"};
    sr_dataset *set;
    sr_text text;
    put_golden(folder, "root");
    sr_text_init(&text);
    assert_ok(sr_property_write(&property, &text));
    put_file(in_folder(folder, "root.prop"), text.data, text.length);
    assert_ok(sr_dataset_open(folder, "val", &set));
    assert_int_equal(4, sr_dataset_class_count(set));
    assert_string_equal("d", sr_dataset_class_name(set, 3));
    sr_dataset_free(set);
    assert_status(SR_E_NOT_FOUND, sr_dataset_open(folder, "train", &set));
    property.class_count = 2; // fewer than labels
    sr_text_clear(&text);
    assert_ok(sr_property_write(&property, &text));
    put_file(in_folder(folder, "root.prop"), text.data, text.length);
    assert_status(SR_E_CHECKSUM, sr_dataset_open(folder, "val", &set));
    assert_message("if the data set was rewritten, remove");
    assert_int_equal(0, unlink(in_folder(folder, "root.sums")));
    assert_status(SR_E_DATA, sr_dataset_open(folder, "val", &set));
    assert_message("record 2: label 2 is not one of the 2 classes");
    sr_text_release(&text);
}

// Boxes without a list of classes: the classes are the sorted names of the objects.
static void classes_come_from_objects(void **state) {
    (void)state;
    const sr_object objects[] = {{.name = "cow", .name_bytes = 3, .xmax = 1, .ymax = 1},
                                 {.name = "cat", .name_bytes = 3, .xmax = 1, .ymax = 1},
                                 {.name = "co", .name_bytes = 2, .xmax = 1, .ymax = 1},
                                 {.name = "cow", .name_bytes = 3, .xmax = 1, .ymax = 1}};
    const sr_sample picture = {.data = "x", .bytes = 1, .height = 4, .width = 5, .channels = 3};
    sr_writer *writer;
    sr_record_writer record = {0};
    sr_dataset *set;
    char *folder = in_top("boxes");
    assert_ok(sr_make_folders(folder));
    assert_ok(sr_writer_open(&(sr_writer_options){.folder = folder,
                                                  .protocol = SR_DETECTION_PROTOCOL,
                                                  .format = "kpl-dir"},
                             &writer));
    assert_ok(sr_detection_write(&record, &picture, objects, 4));
    assert_ok(sr_writer_append(writer, record.data, record.bytes));
    assert_ok(sr_writer_close(writer));
    sr_record_writer_release(&record);
    assert_int_equal(0, unlink(in_folder(folder, "train/root.sums")));
    assert_ok(sr_dataset_open(folder, "train", &set));
    assert_int_equal(3, sr_dataset_class_count(set));
    assert_string_equal("cat", sr_dataset_class_name(set, 0));
    assert_string_equal("co", sr_dataset_class_name(set, 1));
    assert_string_equal("cow", sr_dataset_class_name(set, 2));
    assert_int_equal(4, sr_dataset_median_side(set));
    sr_dataset_free(set);
}

// The states that a killed writer, a bad copy or a rewrite leave.
static void broken_directories_are_named(void **state) {
    (void)state;
    static const struct {
        const char *file, *says;
        int bytes; // bytes that remain; -1: removed
    } cases[] = {
        {"root.index", "root.index is empty: its writer stopped before it closed", 0},
        {"root.index", "root.index is missing", -1},
        {"root.index", "root.index: index: the message is cut off", 5},
        {"root.meta", "root.meta, the protocol, is missing", -1},
        {"root.meta", "root.meta: protocol (Meta), line ", 100},
        {"root.data", "root.data, the records: No such file", -1},
        {"root.data", "root.data has 100 bytes, ", 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int with_sums = 0; with_sums <= 1; with_sums++) {
            char *folder = in_top("broken"), *path;
            sr_dataset *set;
            put_golden(folder, "root");
            (void)unlink(in_folder(folder, "root.sums"));
            if (with_sums)
                check_golden(folder);
            path = in_folder(folder, cases[i].file);
            assert_int_equal(0, cases[i].bytes < 0 ? unlink(path) : truncate(path, cases[i].bytes));
            sr_status status = sr_dataset_open(folder, "train", &set);
            if (status != SR_E_DATA && status != SR_E_CHECKSUM)
                fail_msg("%s: %s", cases[i].says, sr_status_name(status));
            assert_message(cases[i].file);
            if (!with_sums)
                assert_message(cases[i].says);
            assert_true(sr_inspect_is(folder));
        }
    }
}

// A record that does not parse is detected when it is read, and gets no checksum.
static void damaged_records_of_others(void **state) {
    (void)state;
    char *folder = in_top("damaged");
    sr_dataset *set;
    const void *data;
    size_t bytes;
    put_golden(folder, "root");
    FILE *file = fopen(in_folder(folder, "root.data"), "r+b");
    assert_non_null(file);
    assert_int_equal(0, fseek(file, 71 + 4, SEEK_SET)); // 'd' of "data"
    assert_int_equal('D', fputc('D', file));
    assert_int_equal(0, fclose(file));
    for (int records_only = 0; records_only <= 1; records_only++) {
        assert_ok(records_only ? sr_dataset_open_records(folder, "train", &set)
                               : sr_dataset_open(folder, "train", &set));
        assert_ok(sr_dataset_read(set, 0, &data, &bytes));
        assert_status(SR_E_DATA, sr_dataset_read(set, 1, &data, &bytes));
        assert_message("root.data record 1: key 'Data' is not in the protocol");
        assert_ok(sr_dataset_read(set, 2, &data, &bytes));
        sr_dataset_free(set);
    }
    assert_false(sr_path_exists(in_folder(folder, "root.sums")));
}

// A directory that cannot be written is still read; no partial file remains.
static void unwritable_directory(void **state) {
    (void)state;
    char *folder = in_top("fixed");
    struct rlimit usual, none;
    put_golden(folder, "root");
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &usual));
    none = usual;
    none.rlim_cur = 0;
    (void)signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 2; i++) {
        sr_dataset *set;
        assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &none));
        sr_status status = sr_dataset_open(folder, "train", &set);
        assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &usual));
        assert_ok(status);
        assert_int_equal(3, sr_dataset_class_count(set));
        sr_dataset_free(set);
        assert_int_equal(3, count_entries(folder));
    }
    check_golden(folder);
    assert_int_equal(4, count_entries(folder)); // root.sums
}

// The properties as protobuf encodes them: {"classes": ["a", ""], "split": "val"}.
static void golden_property(void **state) {
    (void)state;
    static const char *const classes[] = {"a", ""};
    const sr_property property = {.classes = classes, .class_count = 2, .split = "val"};
    uint8_t want[64];
    size_t n = from_hex("0a140a07636c617373657312090804320312016132000a0e0a0573706c697412051203"
                        "76616c",
                        want);
    sr_text text;
    sr_arena arena;
    sr_property got;
    sr_text_init(&text);
    sr_arena_init(&arena);
    assert_ok(sr_property_write(&property, &text));
    assert_int_equal(n, text.length);
    assert_memory_equal(want, text.data, n);
    assert_ok(sr_property_parse(want, n, &arena, &got));
    assert_true(got.class_count == 2 && !got.has_mean && got.median_side == 0);
    assert_string_equal("a", got.classes[0]);
    assert_string_equal("", got.classes[1]);
    assert_string_equal("val", got.split);
    want[14] = 2; // classes: a float64
    assert_status(SR_E_DATA, sr_property_parse(want, n, &arena, &got));
    assert_message("key 'classes': a list of strings is expected");
    sr_arena_release(&arena);
    sr_text_release(&text);
}

// -- LMDB --------------------------------------------------------------------------------------

#ifdef SR_WITH_LMDB
// liblmdb reads what our writer wrote; our reader returns the same, key by key.
static void lmdb_agrees(void **state) {
    (void)state;
    char *folder = in_top("store"), *path = in_top("store/train/data.mdb");
    MDB_env *env;
    MDB_txn *transaction;
    MDB_dbi database;
    MDB_cursor *cursor;
    MDB_val key, value;
    sr_record_writer want = {0};
    sr_lmdb file;
    int count = 0;
    write_split("lmdb", folder, "train", RECORDS);
    assert_false(sr_path_exists(in_top("store/train/data.mdb-lock")));
    int fd = fileno(fopen(path, "rb")); // NOLINT: closed with the process
    assert_ok(sr_lmdb_open(fd, path, &file));
    assert_int_equal(0, mdb_env_create(&env));
    assert_int_equal(0, mdb_env_open(env, path, MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK, 0));
    assert_int_equal(0, mdb_txn_begin(env, NULL, MDB_RDONLY, &transaction));
    assert_int_equal(0, mdb_dbi_open(transaction, NULL, 0, &database));
    assert_int_equal(0, mdb_cursor_open(transaction, database, &cursor));
    for (; mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0; count++) {
        uint64_t offset, bytes;
        assert_ok(sr_lmdb_find(&file, key.mv_data, key.mv_size, &offset, &bytes));
        assert_int_equal(value.mv_size, bytes);
        uint8_t *data = sr_alloc((size_t)bytes, "value");
        assert_ok(sr_file_read_at(fd, path, offset, data, (size_t)bytes));
        assert_memory_equal(value.mv_data, data, bytes);
        sr_free(data);
        if (count == RECORDS)
            continue;
        uint8_t number[SR_LMDB_KEY_BYTES];
        sr_lmdb_key((uint64_t)count, number);
        assert_true(key.mv_size == sizeof number && memcmp(key.mv_data, number, 8) == 0);
        make_record(&want, count);
        assert_true(value.mv_size == want.bytes &&
                    memcmp(value.mv_data, want.data, want.bytes) == 0);
    }
    assert_int_equal(RECORDS + 1, count);
    mdb_cursor_close(cursor);
    mdb_txn_abort(transaction);
    mdb_env_close(env);
    uint64_t offset, bytes;
    assert_status(SR_E_NOT_FOUND, sr_lmdb_find(&file, "\0\0", 2, &offset, &bytes));
    assert_status(SR_E_NOT_FOUND, sr_lmdb_find(&file, "zz", 2, &offset, &bytes));
    sr_record_writer_release(&want);
}

// Another program's store is distinguished from a damaged one.
static void foreign_lmdb_is_named(void **state) {
    (void)state;
    char *path = in_top("other.mdb");
    MDB_env *env;
    MDB_txn *transaction;
    MDB_dbi database;
    MDB_val key = {.mv_size = 1, .mv_data = "k"}, value = {.mv_size = 1, .mv_data = "v"};
    sr_dataset *set;
    assert_int_equal(0, mdb_env_create(&env));
    assert_int_equal(0, mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK, 0600));
    assert_int_equal(0, mdb_txn_begin(env, NULL, 0, &transaction));
    assert_int_equal(0, mdb_txn_commit(transaction));
    assert_status(SR_E_DATA, sr_dataset_open(path, NULL, &set)); // empty
    assert_message("is not a serried data set");
    assert_int_equal(0, mdb_txn_begin(env, NULL, 0, &transaction));
    assert_int_equal(0, mdb_dbi_open(transaction, NULL, 0, &database));
    assert_int_equal(0, mdb_put(transaction, database, &key, &value, 0));
    assert_int_equal(0, mdb_txn_commit(transaction));
    mdb_env_close(env);
    assert_status(SR_E_DATA, sr_dataset_open(path, NULL, &set));
    assert_message("is not a serried data set: no key 'serried'");
}
#endif

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--data-process") == 0)
        return sr_data_process_main(argc, argv);
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_top, remove_top)
        TEST(each_gives_the_same),
        TEST(one_split_alone),
        TEST(writers_refuse_and_clean_up),
        TEST(packed_streams_are_equal),
        TEST(golden_directory_is_read),
        TEST(classes_come_from_properties),
        TEST(classes_come_from_objects),
        TEST(broken_directories_are_named),
        TEST(damaged_records_of_others),
        TEST(unwritable_directory),
        TEST(golden_property),
#ifdef SR_WITH_LMDB
        TEST(lmdb_agrees),
        TEST(foreign_lmdb_is_named),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
