// SPDX-License-Identifier: Apache-2.0
// Shards and data sets: round trips, rolling over, every flipped bit and every truncation found.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/record/dataset.h"
#include "dataio/record/record.h"
#include "dataio/record/shard.h"
#include "kernels/base/file.h"
#include "kernels/base/text.h"
#include "tests/unit/support/test_support.h"

static const char *const classes[] = {"cat", "dog", "v\xc3\xb6gel"};

static void append(sr_writer *writer, sr_record_writer *record, int i, size_t bytes) {
    char data[4096], name[32];
    memset(data, 'a' + i % 26, sizeof data);
    (void)snprintf(name, sizeof name, "cat/%04d.jpg", i);
    sr_sample sample = {.data = data,
                        .bytes = bytes,
                        .height = 30 + i,
                        .width = 100,
                        .channels = 1,
                        .label = i % 3,
                        .orientation = 1,
                        .name = name,
                        .name_bytes = strlen(name)};
    assert_ok(sr_sample_write(record, &sample));
    assert_ok(sr_writer_append(writer, record->data, record->bytes));
}

// 'count' samples of 'bytes' bytes each.
static void make_split(const char *folder, const char *split, int count, size_t bytes,
                       uint64_t target) {
    sr_writer *writer;
    sr_record_writer record = {0};
    assert_ok(sr_writer_open(&(sr_writer_options){.folder = folder,
                                                  .split = split,
                                                  .classes = classes,
                                                  .class_count = 3,
                                                  .target_bytes = target},
                             &writer));
    for (int i = 0; i < count; i++)
        append(writer, &record, i, bytes);
    const uint8_t pixels[6] = {0, 51, 255, 0, 51, 255};
    sr_channel_sums sums = {0};
    sr_channel_sums_add_rgb(&sums, pixels, 2);
    sr_writer_add_sums(writer, &sums);
    assert_ok(sr_writer_close(writer));
    sr_record_writer_release(&record);
}

static void test_round_trip(void **state) {
    (void)state;
    char folder[256];
    test_folder_make(folder);
    make_split(folder, "train", 50, 1000, 8000);
    make_split(folder, "val", 3, 10, 0);
    sr_dataset *set;
    assert_ok(sr_dataset_open(folder, "train", &set));
    assert_int_equal(50, sr_dataset_count(set));
    assert_int_equal(3, sr_dataset_class_count(set));
    assert_string_equal("v\xc3\xb6gel", sr_dataset_class_name(set, 2));
    assert_null(sr_dataset_class_name(set, 3));
    assert_true(sr_dataset_file_count(set) >= 7);
    assert_in_range(sr_dataset_median_side(set), 45, 65);
    double mean[3], std[3];
    assert_true(sr_dataset_normalisation(set, mean, std));
    assert_true(mean[0] == 0.0 && mean[1] == 0.2 && mean[2] == 1.0 && std[2] == 0.0);
    for (int i = 49; i >= 0; i--) {
        const void *data;
        size_t bytes;
        sr_sample sample;
        assert_ok(sr_dataset_read(set, i, &data, &bytes));
        assert_ok(sr_sample_read(data, bytes, &sample));
        assert_int_equal(30 + i, sample.height);
        assert_int_equal(i % 3, sample.label);
        int shard;
        uint64_t offset, length;
        assert_ok(sr_dataset_locate(set, i, &shard, &offset, &length));
        assert_int_equal(bytes, length);
    }
    const void *data;
    size_t bytes;
    char name[300];
    assert_status(SR_E_ARGUMENT, sr_dataset_read(set, 50, &data, &bytes));
    assert_string_equal("train-00000.kpl record 1", sr_dataset_sample_name(set, 1, name));
    assert_true(sr_dataset_has_split(folder, "val"));
    assert_false(sr_dataset_has_split(folder, "test"));
    char first[65];
    (void)snprintf(first, sizeof first, "%s", sr_dataset_identity(set));
    sr_dataset_free(set);

    char other[256], path[300];
    test_folder_make(other);
    make_split(other, "train", 50, 1000, 0); // other shards, same records: same identity
    (void)snprintf(path, sizeof path, "%s/train-00000.kpl", other);
    assert_ok(sr_dataset_open(path, NULL, &set));
    assert_int_equal(50, sr_dataset_count(set));
    assert_string_equal(first, sr_dataset_identity(set));
    sr_dataset_free(set);
    test_folder_remove(other);
    test_folder_remove(folder);
}

static void test_writer_refuses(void **state) {
    (void)state;
    char folder[256];
    test_folder_make(folder);
    make_split(folder, "train", 1, 10, 0);
    sr_writer_options options = {.folder = folder, .classes = classes, .class_count = 3};
    sr_writer *writer;
    assert_status(SR_E_EXISTS, sr_writer_open(&options, &writer));
    options.split = "a/b";
    assert_status(SR_E_USAGE, sr_writer_open(&options, &writer));
    options.split = "val";
    options.protocol = "{data: byte}";
    assert_status(SR_E_USAGE, sr_writer_open(&options, &writer));
    options.protocol = NULL;
    assert_ok(sr_writer_open(&options, &writer));
    sr_record_writer record = {0};
    sr_sample sample = {.data = "x", .bytes = 1, .label = 3};
    assert_ok(sr_sample_write(&record, &sample));
    assert_status(SR_E_DATA, sr_writer_append(writer, record.data, record.bytes));
    assert_message("label 3");
    sr_record_begin(&record);
    sr_record_put_int64(&record, "unknown", 1);
    assert_ok(sr_record_end(&record));
    assert_status(SR_E_DATA, sr_writer_append(writer, record.data, record.bytes));
    assert_message("'unknown'");
    assert_status(SR_E_DATA, sr_writer_close(writer)); // nothing was appended
    assert_false(sr_dataset_has_split(folder, "val"));
    sr_record_writer_release(&record);
    test_folder_remove(folder);
}

// Continues after the finished shards of an aborted writer.
static void finish(const char *folder, uint32_t shards) {
    int64_t done = 0;
    char path[300], name[SR_SHARD_NAME_MAX];
    sr_writer *writer;
    sr_record_writer record = {0};
    sr_dataset *set;
    for (uint32_t i = 0; i < shards; i++) {
        sr_data_file shard;
        (void)snprintf(path, sizeof path, "%s/%s", folder, sr_shard_file_name("train", i, name));
        assert_ok(sr_shard_load(path, &shard));
        done += shard.count;
        sr_data_file_release(&shard);
    }
    assert_true(shards > 0 && done < 8);
    sr_writer_options options = {.folder = folder,
                                 .classes = classes,
                                 .class_count = 3,
                                 .first_shard = shards - 1,
                                 .first_record = (uint64_t)done};
    assert_status(SR_E_EXISTS, sr_writer_open(&options, &writer));
    options.first_shard = shards;
    assert_ok(sr_writer_open(&options, &writer));
    for (int i = (int)done; i < 8; i++)
        append(writer, &record, i, 1000);
    assert_ok(sr_writer_close(writer));
    sr_record_writer_release(&record);
    assert_ok(sr_dataset_open(folder, "train", &set));
    assert_int_equal(8, sr_dataset_count(set));
    sr_dataset_free(set);
}

static void test_aborted(void **state) {
    (void)state;
    char folder[256], path[300];
    test_folder_make(folder);
    sr_writer *writer;
    sr_record_writer record = {0};
    assert_ok(sr_writer_open(
        &(sr_writer_options){
            .folder = folder, .classes = classes, .class_count = 3, .target_bytes = 3000},
        &writer));
    for (int i = 0; i < 8; i++)
        append(writer, &record, i, 1000);
    const uint32_t shards = sr_writer_shard(writer);
    sr_writer_abort(writer);
    sr_record_writer_release(&record);
    sr_dataset *set; // the finished shards exist, but the split is incomplete
    assert_status(SR_E_DATA, sr_dataset_open(folder, "train", &set));
    assert_message("are missing");
    finish(folder, shards);
    test_folder_remove(folder);

    test_folder_make(folder);
    make_split(folder, "train", 20, 1000, 5000);
    (void)snprintf(path, sizeof path, "%s/train-00001.kpl", folder);
    assert_int_equal(0, unlink(path));
    assert_status(SR_E_NOT_FOUND, sr_dataset_open(folder, "train", &set));
    assert_message("train-00001.kpl");
    test_folder_remove(folder);
}

static void ignore_finding(void *user, const char *message) {
    (void)user;
    assert_non_null(strstr(message, "not a regular file"));
}

static void test_not_packed(void **state) {
    (void)state;
    char folder[256], path[300];
    sr_dataset *set;
    test_folder_make(folder);
    assert_status(SR_E_USAGE, sr_dataset_open(folder, "train", &set));
    assert_message("serried pack");
    (void)snprintf(path, sizeof path, "%s/val-00000.kpl", folder);
    assert_int_equal(0, mkfifo(path, 0600)); // without a writer
    sr_verify_result result = {0};
    assert_status(SR_E_DATA, sr_dataset_open(folder, "val", &set));
    assert_message("not a regular file");
    assert_ok(sr_shard_verify(path, ignore_finding, NULL, &result));
    assert_int_equal(1, result.damaged);
    assert_int_equal(0, unlink(path));
    (void)snprintf(path, sizeof path, "%s/x.tar", folder);
    assert_ok(sr_file_write_atomic(path, "tar?", 4));
    assert_status(SR_E_USAGE, sr_dataset_open(path, "train", &set));
    assert_message("serried pack");
    test_folder_remove(folder);
    assert_status(SR_E_NOT_FOUND, sr_dataset_open(folder, "train", &set));
}

typedef struct findings {
    int count;
    char last[1024];
} findings;

static void note(void *user, const char *message) {
    findings *f = user;
    f->count++;
    (void)snprintf(f->last, sizeof f->last, "%s", message);
}

static void verify(const char *path, findings *out, sr_verify_result *result) {
    *out = (findings){0};
    *result = (sr_verify_result){0};
    assert_ok(sr_shard_verify(path, note, out, result));
    assert_int_equal(out->count, result->damaged);
}

static void test_every_bit(void **state) {
    (void)state;
    char folder[256], path[300];
    findings f;
    sr_verify_result result;
    test_folder_make(folder);
    make_split(folder, "train", 3, 40, 0);
    (void)snprintf(path, sizeof path, "%s/train-00000.kpl", folder);
    verify(path, &f, &result);
    assert_int_equal(0, f.count);
    assert_int_equal(3, result.records);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat info;
    assert_int_equal(0, fstat(fd, &info));
    sr_data_file shard;
    assert_ok(sr_shard_load(path, &shard));
    size_t in_records = 0;
    for (off_t at = 0; at < info.st_size; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            uint8_t was, flipped;
            assert_int_equal(1, pread(fd, &was, 1, at));
            flipped = was ^ (uint8_t)(1u << bit);
            assert_int_equal(1, pwrite(fd, &flipped, 1, at));
            verify(path, &f, &result);
            assert_int_equal(1, f.count);
            if (strstr(f.last, "train-00000.kpl") == NULL)
                fail_msg("byte %ld bit %u: '%s' names no shard", (long)at, bit, f.last);
            for (int r = 0; r < 3; r++) {
                uint64_t begin = shard.entries[r].offset, end = begin + shard.entries[r].bytes;
                if ((uint64_t)at < begin || (uint64_t)at >= end)
                    continue;
                char wanted[64];
                (void)snprintf(wanted, sizeof wanted, "record %d (cat/%04d.jpg) key '", r, r);
                if (strstr(f.last, wanted) == NULL)
                    fail_msg("byte %ld bit %u: '%s' lacks '%s'", (long)at, bit, f.last, wanted);
                in_records++;
            }
            sr_dataset *set; // readers refuse it too: when opening, or when reading the record
            sr_status status = sr_dataset_open(path, NULL, &set);
            for (int r = 0; r < 3 && status == SR_OK; r++) {
                const void *data;
                size_t bytes;
                status = sr_dataset_read(set, r, &data, &bytes);
                if (status != SR_OK || r == 2)
                    sr_dataset_free(set);
            }
            assert_true(status == SR_E_CHECKSUM || status == SR_E_DATA);
            assert_int_equal(1, pwrite(fd, &was, 1, at));
        }
    }
    assert_true(in_records > 1000);
    sr_data_file_release(&shard);
    (void)close(fd);
    test_folder_remove(folder);
}

static void test_every_truncation(void **state) {
    (void)state;
    char folder[256], path[300];
    findings f;
    sr_verify_result result;
    test_folder_make(folder);
    make_split(folder, "train", 3, 40, 0);
    (void)snprintf(path, sizeof path, "%s/train-00000.kpl", folder);
    struct stat info;
    assert_int_equal(0, stat(path, &info));
    for (off_t length = info.st_size - 1; length >= 0; length--) {
        assert_int_equal(0, truncate(path, length));
        verify(path, &f, &result);
        assert_int_equal(1, f.count);
        sr_data_file shard;
        assert_int_not_equal(SR_OK, sr_shard_load(path, &shard));
    }
    test_folder_remove(folder);
}

static void test_verify_continues(void **state) {
    (void)state;
    char folder[256], path[300];
    findings f;
    sr_verify_result result;
    test_folder_make(folder);
    make_split(folder, "train", 20, 500, 0);
    (void)snprintf(path, sizeof path, "%s/train-00000.kpl", folder);
    sr_data_file shard;
    assert_ok(sr_shard_load(path, &shard));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    const off_t first = (off_t)shard.entries[4].offset + 100;
    const off_t second = (off_t)shard.entries[17].offset; // where the keys begin
    assert_int_equal(
        3, pwrite(fd, "\0\0\0", 3, first)); // several bits: the message cannot name the key
    assert_int_equal(3, pwrite(fd, "\0\0\0", 3, second));
    (void)close(fd);
    sr_data_file_release(&shard);
    verify(path, &f, &result);
    assert_int_equal(2, f.count);
    assert_int_equal(20, result.records);
    assert_non_null(strstr(f.last, "record 17 (cat/0017.jpg)"));
    test_folder_remove(folder);
}

static void test_names(void **state) {
    (void)state;
    char name[SR_SHARD_NAME_MAX], split[SR_SPLIT_MAX + 1];
    uint32_t number;
    assert_string_equal("val-00012.kpl", sr_shard_file_name("val", 12, name));
    assert_true(sr_shard_parse_name("train-123456.kpl", split, &number));
    assert_string_equal("train", split);
    assert_int_equal(123456, number);
    assert_false(sr_shard_parse_name("train-0012.kpl", split, &number));
    assert_false(sr_shard_parse_name("train-00012.kpl.tmp-1-2", split, &number));
    assert_false(sr_shard_parse_name("-00012.kpl", split, &number));
    assert_false(sr_shard_parse_name("train.kpl", split, &number));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_writer_refuses),
        cmocka_unit_test(test_aborted),          cmocka_unit_test(test_not_packed),
        cmocka_unit_test(test_every_bit),        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_verify_continues), cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
