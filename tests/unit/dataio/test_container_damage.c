// SPDX-License-Identifier: Apache-2.0
// Every container except shards (see test_shard_damage.c) with each of its files damaged: reading
// returns what was written, or an error that names the file; what reading detects, verify detects.
//
//   test_container_damage [all]   a sample of the flips and cuts; 'all': every bit and length
//
// In a KPLRecord directory every byte matters. In an LMDB file some do not: the older meta page,
// freed pages, and the unused rest of a page; damage there changes nothing and is not detected.
#include <unistd.h>

#include "dataio/pack/inspect.h"
#include "dataio/record/dataset.h"
#include "dataio/record/lmdb_file_internal.h"
#include "dataio/record/record.h"
#include "dataio/record/shard.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "tests/unit/support/damage.h"
#include "tests/unit/support/test_support.h"

enum { RECORDS = 12 };

static unsigned stride = 97;
static char folder[256];

static void make_record(sr_record_writer *record, int i) {
    uint8_t data[40];
    char name[32];
    memset(data, 17 * i + 1, sizeof data);
    const sr_sample sample = {.data = data,
                              .bytes = sizeof data,
                              .height = 4,
                              .width = 10,
                              .channels = 1,
                              .label = i % 2,
                              .name = name,
                              .name_bytes = (size_t)snprintf(name, sizeof name, "%d.png", i)};
    assert_ok(sr_sample_write(record, &sample));
}

static void write_all(const char *format) {
    static const char *const classes[] = {"cat", "dog"};
    sr_writer *writer;
    sr_record_writer record = {0};
    assert_ok(sr_writer_open(
        &(sr_writer_options){
            .folder = folder, .classes = classes, .class_count = 2, .format = format},
        &writer));
    for (int i = 0; i < RECORDS; i++) {
        make_record(&record, i);
        assert_ok(sr_writer_append(writer, record.data, record.bytes));
    }
    assert_ok(sr_writer_close(writer));
    sr_record_writer_release(&record);
}

typedef struct container_check {
    const char *file; // in the folder
    bool all_matters;
    uint64_t records[RECORDS]; // hashes
    char identity[SR_SHA256_HEX];
    long found, harmless;
} container_check;

static void note(void *user, const char *message) {
    (void)snprintf(user, 1024, "%s", message);
}

static bool is_damage(sr_status status) {
    return status >= SR_E_DATA && status < SR_E_PEER;
}

// True if everything that is read is unchanged.
static bool read_all(const container_check *l, const damage *d) {
    sr_dataset *set;
    sr_status status = sr_dataset_open(folder, "train", &set);
    if (status != SR_OK) {
        if (!is_damage(status) || strstr(sr_error_message(), "root.") == NULL)
            if (strstr(sr_error_message(), "data.mdb") == NULL)
                fail_msg("%s: %s (%s)", d->what, sr_error_message(), sr_status_name(status));
        return false;
    }
    bool same = strcmp(l->identity, sr_dataset_identity(set)) == 0;
    if (!same || sr_dataset_count(set) != RECORDS || sr_dataset_class_count(set) != 2 ||
        strcmp(sr_dataset_class_name(set, 1), "dog") != 0)
        fail_msg("%s: opens as a different data set", d->what);
    for (int i = 0; i < RECORDS; i++) {
        const void *data;
        size_t bytes;
        status = sr_dataset_read(set, i, &data, &bytes);
        if (status == SR_OK && sr_hash64(data, bytes) != l->records[i])
            fail_msg("%s: record %d differs", d->what, i);
        if (status != SR_OK && !is_damage(status))
            fail_msg("%s: %s (%s)", d->what, sr_error_message(), sr_status_name(status));
        same = same && status == SR_OK;
    }
    sr_dataset_free(set);
    return same;
}

static void check(void *user, const damage *d) {
    container_check *l = user;
    char message[1024] = "";
    sr_verify_result result;
    bool same = read_all(l, d);
    assert_ok(sr_inspect_verify(folder, note, message, &result));
    if (same != (result.damaged == 0))
        fail_msg("%s of %s: reading says %s, verify %llu: %s", d->what, d->file,
                 same ? "whole" : "damaged", (unsigned long long)result.damaged, message);
    if (same && l->all_matters)
        fail_msg("%s of %s is not detected", d->what, d->file);
    if (!same && message[0] == '\0')
        fail_msg("%s of %s is not named", d->what, d->file);
    *(same ? &l->harmless : &l->found) += 1;
}

static void look(container_check *l) {
    sr_dataset *set;
    assert_ok(sr_dataset_open(folder, "train", &set));
    (void)snprintf(l->identity, sizeof l->identity, "%s", sr_dataset_identity(set));
    for (int i = 0; i < RECORDS; i++) {
        const void *data;
        size_t bytes;
        assert_ok(sr_dataset_read(set, i, &data, &bytes));
        l->records[i] = sr_hash64(data, bytes);
    }
    sr_dataset_free(set);
}

static void damage_files(const char *format, const char *const *files, size_t count,
                         bool all_matters) {
    char path[400];
    test_folder_make(folder);
    write_all(format);
    for (size_t i = 0; i < count; i++) {
        container_check l = {.file = files[i], .all_matters = all_matters};
        look(&l);
        (void)snprintf(path, sizeof path, "%s/train/%s", folder, files[i]);
        long ways = damage_each(path, stride, check, &l);
        print_message("%s: %ld cases of damage, %ld change nothing\n", files[i], ways, l.harmless);
        assert_true(l.found > 10);
    }
    test_folder_remove(folder);
}

static void kpl_directory(void **state) {
    (void)state;
    static const char *const files[] = {"root.data", "root.index", "root.meta", "root.prop",
                                        "root.sums"};
    damage_files("kpl-dir", files, sizeof files / sizeof *files, true);
}

#ifdef SR_WITH_LMDB
static void lmdb_store(void **state) {
    (void)state;
    static const char *const files[] = {SR_LMDB_FILE};
    stride = stride > 1 ? 997 : 1;
    damage_files("lmdb", files, 1, false);
}
#endif

// Without checksums: damage causes at worst an error, and never gets checksums that hide it.
static void check_foreign(void *user, const damage *d) {
    sr_dataset *set;
    char path[400];
    (void)user;
    (void)snprintf(path, sizeof path, "%s/train/root.sums", folder);
    (void)unlink(path);
    sr_status status = sr_dataset_open(folder, "train", &set);
    if (status != SR_OK) {
        if (!is_damage(status) || strstr(sr_error_message(), "root.") == NULL)
            fail_msg("%s of %s: %s (%s)", d->what, d->file, sr_error_message(),
                     sr_status_name(status));
        return;
    }
    bool unsound = false;
    for (int64_t i = 0; i < sr_dataset_count(set); i++) {
        const void *data;
        size_t bytes;
        status = sr_dataset_read(set, i, &data, &bytes);
        unsound = unsound || status != SR_OK;
        if (status != SR_OK && !is_damage(status))
            fail_msg("%s of %s: %s", d->what, d->file, sr_error_message());
    }
    if (unsound == sr_path_exists(path))
        fail_msg("%s of %s: checksums were made for damaged records", d->what, d->file);
    sr_dataset_free(set);
}

static void kpl_directory_of_others(void **state) {
    (void)state;
    static const char *const files[] = {"root.data", "root.index", "root.meta", "root.prop"};
    char path[400];
    test_folder_make(folder);
    write_all("kpl-dir");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "%s/train/%s", folder, files[i]);
        assert_true(damage_each(path, stride, check_foreign, NULL) > 10);
    }
    test_folder_remove(folder);
}

int main(int argc, char **argv) {
    (void)setenv("TMPDIR", "/dev/shm", 0); // avoids waiting for a disk
    sr_log_set_level(SR_LOG_ERROR);        // each invalid record causes a warning
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        stride = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kpl_directory),
        cmocka_unit_test(kpl_directory_of_others),
#ifdef SR_WITH_LMDB
        cmocka_unit_test(lmdb_store),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
