// SPDX-License-Identifier: Apache-2.0
// A damaged shard of 64 KiB: `verify` detects and names the damage (shard, record, key, bit), and
// every reader refuses it before it uses a byte of it. What reading detects, verify detects.
//
//   test_shard_damage [all]   a sample of the flips and cuts; 'all': every bit and length
// test_shard.c tests every bit of a small shard.
#include "dataio/record/dataset.h"
#include "dataio/record/record.h"
#include "dataio/record/shard.h"
#include "tests/unit/support/damage.h"
#include "tests/unit/support/test_support.h"

enum { RECORDS = 190, PICTURE = 210, MOST_BYTES = 64 << 10 };

static unsigned stride = 1499;
static char folder[256];

static void make_shard(void) {
    static const char *const classes[] = {"cat", "dog"};
    sr_writer *writer;
    sr_record_writer record = {0};
    uint8_t data[PICTURE];
    char name[32];
    assert_ok(sr_writer_open(
        &(sr_writer_options){.folder = folder, .classes = classes, .class_count = 2}, &writer));
    for (int i = 0; i < RECORDS; i++) {
        for (int k = 0; k < PICTURE; k++)
            data[k] = (uint8_t)(k * 7 + i * 13 + 1);
        (void)snprintf(name, sizeof name, "cat/%04d.jpg", i);
        const sr_sample sample = {.data = data,
                                  .bytes = PICTURE,
                                  .height = 10,
                                  .width = 50,
                                  .channels = 1,
                                  .label = i % 2,
                                  .orientation = 1,
                                  .name = name,
                                  .name_bytes = strlen(name)};
        assert_ok(sr_sample_write(&record, &sample));
        assert_ok(sr_writer_append(writer, record.data, record.bytes));
    }
    assert_ok(sr_writer_close(writer));
    sr_record_writer_release(&record);
}

typedef struct shard_check {
    sr_data_file sound;
    long in_records;
} shard_check;

typedef struct findings {
    long count;
    char last[1024];
} findings;

static void note(void *user, const char *message) {
    findings *f = user;
    f->count++;
    (void)snprintf(f->last, sizeof f->last, "%s", message);
}

// The record that contains all the damage, or -1.
static int record_of(const sr_data_file *shard, const damage *d) {
    for (int r = 0; r < RECORDS; r++)
        if (d->begin >= shard->entries[r].offset &&
            d->end <= shard->entries[r].offset + shard->entries[r].bytes)
            return r;
    return -1;
}

static void check_verify(shard_check *l, const damage *d, int record) {
    findings f = {0};
    sr_verify_result result = {0};
    char wanted[96];
    assert_ok(sr_shard_verify(d->path, note, &f, &result));
    if (f.count == 0 || f.count != (long)result.damaged)
        fail_msg("%s: verify finds %ld", d->what, f.count);
    if (strstr(f.last, d->file) == NULL)
        fail_msg("%s: '%s' names no shard", d->what, f.last);
    if (record < 0)
        return;
    l->in_records++;
    assert_int_equal(1, f.count);
    (void)snprintf(wanted, sizeof wanted, "record %d", record);
    const char *at = strstr(f.last, wanted);
    if (at == NULL || (at[strlen(wanted)] != ' ' && at[strlen(wanted)] != ':'))
        fail_msg("%s: '%s' lacks '%s'", d->what, f.last, wanted);
    (void)snprintf(wanted, sizeof wanted, "of byte %llu has flipped", (unsigned long long)d->begin);
    if (d->bit && (strstr(f.last, wanted) == NULL || strstr(f.last, "key '") == NULL))
        fail_msg("%s: '%s' lacks its key or '%s'", d->what, f.last, wanted);
}

// Opens the shard and reads all records: every record but the damaged one may be returned.
static void check_readers(const damage *d, int record) {
    sr_dataset *set;
    sr_status status = sr_dataset_open(folder, "train", &set);
    if (status == SR_OK) {
        // If a shard opens, it is enough to read the damaged record and its neighbours.
        int first = record > 0 ? record - 1 : 0;
        int last = record >= 0 && record + 1 < RECORDS ? record + 1 : RECORDS - 1;
        for (int r = first; r <= last; r++) {
            const void *data;
            size_t bytes;
            sr_status read = sr_dataset_read(set, r, &data, &bytes);
            if (read != SR_OK && strstr(sr_error_message(), d->file) == NULL)
                fail_msg("%s: '%s' names no shard", d->what, sr_error_message());
            if (record >= 0 && (read != SR_OK) != (r == record))
                fail_msg("%s: record %d reads as %s", d->what, r, sr_status_name(read));
            status = read != SR_OK ? read : status;
        }
        sr_dataset_free(set);
    } else if (strstr(sr_error_message(), d->file) == NULL) {
        fail_msg("%s: '%s' names no shard", d->what, sr_error_message());
    }
    if (status != SR_E_CHECKSUM && status != SR_E_DATA)
        fail_msg("%s: reading gives %s", d->what, sr_status_name(status));
}

static void check(void *user, const damage *d) {
    shard_check *l = user;
    int record = record_of(&l->sound, d);
    check_verify(l, d, record);
    check_readers(d, record);
}

static void damage_is_found(void **state) {
    (void)state;
    char path[300];
    shard_check l = {0};
    test_folder_make(folder);
    make_shard();
    (void)snprintf(path, sizeof path, "%s/train-00000.kpl", folder);
    assert_ok(sr_shard_load(path, &l.sound));
    assert_in_range(l.sound.file_bytes, MOST_BYTES - 6000, MOST_BYTES);
    long count = damage_each(path, stride, check, &l);
    assert_true(l.in_records > count / 2);
    print_message("%ld cases of damage\n", count);
    sr_data_file_release(&l.sound);
    test_folder_remove(folder);
}

int main(int argc, char **argv) {
    (void)setenv("TMPDIR", "/dev/shm", 0); // avoids waiting for a disk
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        stride = 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(damage_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
