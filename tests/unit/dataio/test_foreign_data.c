// SPDX-License-Identifier: Apache-2.0
// Data sets that are not in this user's hands: checksums are never written through somebody's links
// or into somebody's folder, and a data set that is replaced under a job is never read on.
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/pipeline/pipeline.h"
#include "dataio/record/container.h"
#include "dataio/record/record.h"
#include "dataio/record/shard.h"
#include "kernels/base/file.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"

enum { COUNT = 48, BATCH = 8, LANES = 2, SIDE = 16, OTHER_USER = 12345 };

static char top[256];

static char *in_top(const char *name) {
    static char paths[8][400];
    static int next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static int make_top(void **state) {
    (void)state;
    test_folder_make(top);
    assert_int_equal(0, setenv("SERRIED_CACHE", in_top("cache"), 1));
    return 0;
}

static int remove_top(void **state) {
    (void)state;
    test_folder_remove(top);
    return 0;
}

// A split whose pictures all have one colour: those of two colours have files of equal sizes.
static void write_set(const char *name, const char *format, uint8_t colour) {
    static uint8_t pixels[SIDE * SIDE * 3];
    sr_writer *writer;
    sr_record_writer record = {0};
    const sr_writer_options options = {.folder = in_top(name),
                                       .split = "train",
                                       .classes = (const char *const[]){"a", "b"},
                                       .class_count = 2,
                                       .format = format};
    memset(pixels, colour, sizeof pixels);
    assert_ok(sr_make_folders(in_top(name)));
    assert_ok(sr_writer_open(&options, &writer));
    for (int i = 0; i < COUNT; i++) {
        const sr_sample sample = {.data = pixels,
                                  .bytes = sizeof pixels,
                                  .height = SIDE,
                                  .width = SIDE,
                                  .channels = 3,
                                  .label = i % 2,
                                  .orientation = 1};
        assert_ok(sr_sample_write(&record, &sample));
        assert_ok(sr_writer_append(writer, record.data, record.bytes));
    }
    assert_ok(sr_writer_close(writer));
    sr_record_writer_release(&record);
}

// 'line' with the folder of the test as $TOP.
static void run_shell(const char *line) {
    assert_int_equal(0, setenv("TOP", top, 1));
    assert_int_equal(0, system(line));
}

// -- checksums beside data ---------------------------------------------------------------------

static int count_cached(void) {
    DIR *dir = opendir(in_top("cache"));
    int count = 0;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        count += strncmp(entry->d_name, "sums-", 5) == 0;
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

static void open_set(const char *path) {
    sr_dataset *set;
    assert_ok(sr_dataset_open(path, NULL, &set));
    assert_int_equal(COUNT, sr_dataset_count(set));
    assert_int_equal(2, sr_dataset_class_count(set));
    sr_dataset_free(set);
}

// Whatever has the name root.sums stays, and what it points to is not made or written.
static void sums_through_links(void **state) {
    (void)state;
    static const char *const targets[] = {"../outside/file", "../outside/deep/file", "hidden",
                                          "root.sums", "/nonexistent/serried/file"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct stat info;
        char target[100] = "";
        write_set("kpl", "kpl-dir", 1);
        run_shell("mv $TOP/kpl/train $TOP/hostile && mkdir $TOP/outside");
        assert_int_equal(0, unlink(in_top("hostile/root.sums")));
        assert_int_equal(0, symlink(targets[i], in_top("hostile/root.sums")));
        for (int again = 0; again < 2; again++)
            open_set(in_top("hostile"));
        assert_int_equal(strlen(targets[i]),
                         readlink(in_top("hostile/root.sums"), target, sizeof target));
        assert_string_equal(targets[i], target);
        assert_int_not_equal(0, stat(in_top("hostile/root.sums"), &info));
        assert_int_equal(0, rmdir(in_top("outside"))); // empty
        assert_int_equal(1, count_cached());
        run_shell("rm -r $TOP/hostile $TOP/cache $TOP/kpl");
    }
}

static void sums_of_other_users(void **state) {
    (void)state;
    if (geteuid() != 0)
        test_skip("only root can make folders of other users");
    write_set("kpl", "kpl-dir", 1);
    const char *folder = in_top("kpl/train"), *sums = in_top("kpl/train/root.sums");
    assert_int_equal(0, unlink(sums));
    assert_int_equal(0, chown(folder, OTHER_USER, OTHER_USER));
    open_set(folder);
    assert_false(sr_path_exists(sums));
    assert_int_equal(1, count_cached());
    open_set(folder); // from the cache
    assert_int_equal(1, count_cached());
    run_shell("touch -d 2001-01-01 $TOP/kpl/train/root.data");
    open_set(folder); // of data that may be other data
    assert_int_equal(2, count_cached());
    run_shell("for f in $TOP/cache/sums-*; do echo damaged >$f; done");
    open_set(folder);
    assert_int_equal(0, chown(folder, geteuid(), (gid_t)-1));
    assert_int_equal(0, chmod(in_top("cache"), 0777)); // not only ours: neither read nor written
    open_set(folder);
    assert_true(sr_path_exists(sums));
}

// -- data sets that are replaced ---------------------------------------------------------------

static sr_pipeline_options usual(const char *name) {
    return (sr_pipeline_options){.dataset = in_top(name),
                                 .split = "train",
                                 .image_height = SIDE,
                                 .image_width = SIDE,
                                 .order = SR_ORDER_EXAMPLES,
                                 .batch = BATCH,
                                 .lanes = LANES,
                                 .lane_end = LANES,
                                 .workers = 1,
                                 .act_seconds = 60};
}

// Reads until the pipeline fails or 'slots' slots are there; every picture has the colour.
static sr_status read_slots(sr_pipeline *p, int slots, uint8_t colour) {
    for (int i = 0; i < slots; i++) {
        sr_slot slot;
        bool end;
        SR_TRY(sr_pipeline_next(p, &slot, &end));
        assert_int_equal(colour, *(const uint8_t *)sr_slot_find(&slot, "image")->data);
        sr_pipeline_release(p, &slot);
    }
    return SR_OK;
}

typedef enum change {
    NOTHING = 0,  // the reader is killed only
    OTHER_DATA,   // of the same size
    A_COPY,       // the same data in new files
    SHORTER_DATA, // in place of the old files
    REMOVED,
} change;

// Checksums are neither there nor can they be made: a reader has nothing but the protocol.
static void make_bare(const char *sums) {
    assert_int_equal(0, unlink(in_top(sums)));
    assert_int_equal(0, symlink("nothing", in_top(sums)));
}

// What a job ends with that reads 'set' while it is changed and its reader is restarted.
static sr_status change_under(const char *format, bool bare, change what) {
    write_set("set", format, 1);
    write_set("other", format, what == OTHER_DATA ? 2 : 1);
    if (bare) {
        make_bare("set/train/root.sums");
        make_bare("other/train/root.sums");
    }
    const sr_pipeline_options o = usual("set");
    sr_pipeline *p;
    assert_ok(sr_pipeline_open(&o, &p));
    assert_ok(read_slots(p, 1, 1));
    if (what == OTHER_DATA || what == A_COPY)
        run_shell("rm -r $TOP/set && mv $TOP/other $TOP/set");
    else if (what == SHORTER_DATA)
        run_shell("find $TOP/set -type f -size +1k -exec truncate -s 1000 {} +");
    else if (what == REMOVED)
        run_shell("rm -r $TOP/set");
    assert_int_equal(0, kill(sr_pipeline_stage_pid(p, 0), SIGKILL));
    const sr_status status = read_slots(p, 400, 1); // more than rings and slots have
    sr_pipeline_close(p);
    run_shell("rm -rf $TOP/set $TOP/other");
    return status;
}

static void replaced_data(void **state) {
    (void)state;
    for (size_t i = 0; sr_container_at(i) != NULL; i++) {
        const char *format = sr_container_at(i)->name;
#ifndef SR_WITH_LMDB
        if (strcmp(format, "lmdb") == 0)
            continue;
#endif
        assert_status(SR_OK, change_under(format, false, NOTHING));
        assert_status(SR_OK, change_under(format, false, A_COPY));
        for (change what = OTHER_DATA; what <= REMOVED; what++) {
            if (what == A_COPY)
                continue;
            assert_status(SR_E_DATA, change_under(format, false, what));
            assert_message("while this job");
            assert_message("/set");
        }
    }
}

static void replaced_bare_data(void **state) {
    (void)state;
    assert_status(SR_OK, change_under("kpl-dir", true, NOTHING));
    assert_status(SR_E_DATA, change_under("kpl-dir", true, OTHER_DATA));
    assert_status(SR_E_DATA, change_under("kpl-dir", true, REMOVED));
}

// An evaluation opens its split each time.
static void another_identity(void **state) {
    (void)state;
    char identity[SR_SHA256_HEX];
    sr_pipeline_options o = usual("set");
    sr_dataset *set;
    sr_pipeline *p;
    write_set("set", NULL, 1);
    write_set("other", NULL, 2);
    assert_ok(sr_dataset_open(o.dataset, "train", &set));
    (void)snprintf(identity, sizeof identity, "%s", sr_dataset_identity(set));
    sr_dataset_free(set);
    o.identity = identity;
    run_shell("cp -r $TOP/set $TOP/copy && rm -r $TOP/set && mv $TOP/copy $TOP/set");
    assert_ok(sr_pipeline_open(&o, &p));
    sr_pipeline_close(p);
    run_shell("rm -r $TOP/set && mv $TOP/other $TOP/set");
    assert_status(SR_E_DATA, sr_pipeline_open(&o, &p));
    assert_int_equal(3, sr_status_exit_code(SR_E_DATA));
    run_shell("rm -r $TOP/set");
    assert_status(SR_E_DATA, sr_pipeline_open(&o, &p));
}

// Files that are opened again within one process: damage and replacement are told apart.
static void written_files(void **state) {
    (void)state;
    sr_dataset *set;
    const void *data;
    size_t bytes;
    write_set("set", NULL, 1);
    assert_ok(sr_dataset_open(in_top("set"), "train", &set));
    run_shell(
        "printf XXXXXXXXXXXXXXXX | dd of=$TOP/set/train-00000.kpl bs=1 seek=2000 conv=notrunc "
        "2>/dev/null");
    sr_status status = SR_OK;
    for (int i = 0; i < COUNT && status == SR_OK; i++)
        status = sr_dataset_read(set, i, &data, &bytes);
    assert_status(SR_E_DATA, status);
    assert_message("train-00000.kpl was replaced or written to");
    sr_dataset_free(set);
    assert_ok(sr_dataset_open(in_top("set"), "train", &set)); // it is damaged from the start
    for (int i = 0; i < COUNT && status != SR_E_CHECKSUM; i++)
        status = sr_dataset_read(set, i, &data, &bytes);
    assert_status(SR_E_CHECKSUM, status);
    sr_dataset_free(set);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--data-process") == 0)
        return sr_data_process_main(argc, argv);
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_top, remove_top)
    const struct CMUnitTest tests[] = {
        TEST(sums_through_links), TEST(sums_of_other_users), TEST(replaced_data),
        TEST(replaced_bare_data), TEST(another_identity),    TEST(written_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
