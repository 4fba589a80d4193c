// SPDX-License-Identifier: Apache-2.0
// Packing folders and tars: every kind of malformed input, hold-out, the same bytes for any number
// of workers and after a kill, and destinations that contain something else.
#include "tests/unit/support/test_pictures.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataio/pack/pack.h"
#include "dataio/record/dataset.h"
#include "dataio/record/record.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"

static char top[256]; // of the running test; removed after it

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

static const char *in_top(const char *name) {
    static char paths[8][1024];
    static int next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static void put_file(const char *name, const void *data, size_t bytes) {
    char folder[1024];
    (void)snprintf(folder, sizeof folder, "%s", in_top(name));
    *strrchr(folder, '/') = '\0';
    assert_ok(sr_make_folders(folder));
    FILE *file = fopen(in_top(name), "wb");
    assert_non_null(file);
    assert_int_equal(bytes, fwrite(data, 1, bytes, file));
    assert_int_equal(0, fclose(file));
}

static void put_jpeg(const char *name, unsigned seed) {
    size_t bytes;
    uint8_t *data = test_jpeg(&(test_picture){.width = 24, .height = 20, .seed = seed}, &bytes);
    put_file(name, data, bytes);
    free(data);
}

// Writes CLASS/NN.jpg for several classes, 'count' pictures each.
static void put_classes(const char *folder, const char *const *names, int classes, int count) {
    for (int c = 0; c < classes; c++) {
        for (int i = 0; i < count; i++) {
            char name[300];
            (void)snprintf(name, sizeof name, "%s/%s/%02d.jpg", folder, names[c], i);
            put_jpeg(name, (unsigned)(c * 100 + i));
        }
    }
}

static sr_status pack(const char *source, const char *destination, sr_pack_options options,
                      sr_pack_report *report) {
    options.source = source;
    options.destination = destination;
    options.quiet = true;
    if (options.workers == 0)
        options.workers = 1;
    return sr_pack(&options, report);
}

static char *read_text(const char *path) {
    void *data = NULL;
    size_t bytes = 0;
    assert_ok(sr_file_read(path, 1 << 20, &data, &bytes));
    return data;
}

static void check_refused(const char *destination, const char *line) {
    char path[1100];
    (void)snprintf(path, sizeof path, "%s/refused.csv", destination);
    char *text = read_text(path);
    if (strstr(text, line) == NULL)
        fail_msg("refused.csv lacks '%s':\n%s", line, text);
    sr_free(text);
}

static void assert_same_folders(const char *a, const char *b) {
    char command[2200];
    (void)snprintf(command, sizeof command, "diff -r '%s' '%s'", a, b);
    assert_int_equal(0, system(command)); // NOLINT(cert-env33-c): our own paths
}

// Names of the split's samples by label, sorted: "0:a/00.jpg 0:a/01.jpg ..." in out.
static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

static int64_t list_split(const char *destination, const char *split, char names[][64],
                          int64_t capacity) {
    sr_dataset *set;
    assert_ok(sr_dataset_open(destination, split, &set));
    int64_t count = sr_dataset_count(set);
    assert_true(count <= capacity);
    for (int64_t i = 0; i < count; i++) {
        const void *data;
        size_t bytes;
        sr_sample sample;
        assert_ok(sr_dataset_read(set, i, &data, &bytes));
        assert_ok(sr_sample_read(data, bytes, &sample));
        (void)snprintf(names[i], 64, "%d:%.*s", (int)sample.label, (int)sample.name_bytes,
                       sample.name);
    }
    qsort(names, (size_t)count, 64, by_text);
    sr_dataset_free(set);
    return count;
}

static const char *const abc[] = {"a", "b", "c"};

static void test_folder(void **state) {
    (void)state;
    char names[64][64];
    put_classes("src", abc, 3, 10);
    sr_pack_report report;
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){.val_fraction = 0.1}, &report));
    assert_int_equal(27, report.records[SR_SPLIT_TRAIN]);
    assert_int_equal(3, report.records[SR_SPLIT_VAL]);
    assert_int_equal(3, report.classes);
    assert_int_equal(3, list_split(in_top("dst"), "val", names, 64));
    assert_string_equal("0:a/09.jpg", names[0]);
    assert_string_equal("1:b/09.jpg", names[1]);
    assert_string_equal("2:c/09.jpg", names[2]);
    assert_int_equal(27, list_split(in_top("dst"), "train", names, 64));
    assert_string_equal("0:a/00.jpg", names[0]);
    assert_string_equal("2:c/08.jpg", names[26]);
    assert_false(sr_path_exists(in_top("dst/refused.csv")));

    sr_dataset *set; // the order of records mixes the classes
    assert_ok(sr_dataset_open(in_top("dst"), "train", &set));
    assert_string_equal("b", sr_dataset_class_name(set, 1));
    assert_int_equal(20, sr_dataset_median_side(set));
    double mean[3], std[3];
    assert_true(sr_dataset_normalisation(set, mean, std) && mean[0] > 0.1 && std[0] > 0.01);
    int changes = 0;
    int64_t last = -1;
    for (int64_t i = 0; i < 27; i++) {
        const void *data;
        size_t bytes;
        sr_sample sample;
        assert_ok(sr_dataset_read(set, i, &data, &bytes));
        assert_ok(sr_sample_read(data, bytes, &sample));
        changes += sample.label != last;
        last = sample.label;
    }
    assert_true(changes > 9);
    sr_dataset_free(set);
}

static void test_hold_out_rule(void **state) {
    (void)state;
    char names[64][64];
    put_jpeg("src/one/1.jpg", 1); // the only picture of a class stays in train
    put_classes("src", abc, 1, 25);
    put_file("src/a/99.jpg", "\xff\xd8\xff broken", 10); // does not count
    sr_pack_report report;
    assert_status(SR_E_DATA, pack(in_top("src"), in_top("dst"),
                                  (sr_pack_options){.val_fraction = 0.1}, &report));
    assert_int_equal(1, report.refused);
    assert_int_equal(2, list_split(in_top("dst"), "val", names, 64));
    assert_string_equal("0:a/23.jpg", names[0]);
    assert_string_equal("0:a/24.jpg", names[1]);
    assert_int_equal(24, report.records[SR_SPLIT_TRAIN]);
    // The same command again: complete, with the same verdict; with the suggested option it passes.
    assert_status(SR_E_DATA, pack(in_top("src"), in_top("dst"),
                                  (sr_pack_options){.val_fraction = 0.1}, &report));
    assert_true(report.was_complete && report.records[SR_SPLIT_TRAIN] == 24);
    assert_ok(pack(in_top("src"), in_top("dst"),
                   (sr_pack_options){.val_fraction = 0.1, .allow_refused = 1}, &report));
    assert_true(report.was_complete && report.refused == 1);
}

static void put_wild(void) {
    size_t bytes;
    uint8_t *data;
    test_picture p = {.width = 140, .height = 130};
    put_classes("src/train", abc, 2, 2);
    data = test_png(&p, SPNG_COLOR_TYPE_TRUECOLOR, 8, &bytes);
    put_file("src/train/a/png named.jpg", data, bytes);
    free(data);
    data = test_png(&p, SPNG_COLOR_TYPE_INDEXED, 8, &bytes);
    put_file("src/train/a/palette", data, bytes);
    free(data);
    p.progressive = true;
    data = test_jpeg(&p, &bytes);
    put_file("src/train/b/progressive.png", data, bytes);
    put_file("src/train/b/cut,off.jpg", data, bytes - bytes / 3);
    free(data);
    data = test_jpeg(&(test_picture){.width = 30, .height = 30, .components = 4}, &bytes);
    put_file("src/train/b/cmyk.jpg", data, bytes);
    free(data);
    data = test_jpeg(&(test_picture){.width = 30, .height = 20, .components = 1}, &bytes);
    put_file("src/train/b/grey.jpg", data, bytes);
    free(data);
    data = test_jpeg(&(test_picture){.width = 30, .height = 20, .orientation = 8}, &bytes);
    put_file("src/train/b/turned.jpg", data, bytes);
    free(data);
    put_file("src/train/a/page.jpg", "<html>", 6);
    put_file("src/train/a/empty.jpg", "", 0);
    put_file("src/train/a/moving.gif", "GIF89a....", 10);
    put_file("src/train/.DS_Store", "x", 1);
    put_file("src/train/a/._00.jpg", "x", 1);
    put_file("src/README.txt", "text", 4);
    put_jpeg("src/train/loose.jpg", 5);
    put_jpeg("src/val/b/1.jpg", 6);
}

static void test_wild(void **state) {
    (void)state;
    put_wild();
    sr_pack_report report;
    assert_status(SR_E_DATA,
                  pack(in_top("src"), in_top("dst"), (sr_pack_options){.workers = 2}, &report));
    assert_message("refused.csv");
    assert_int_equal(10, report.records[SR_SPLIT_TRAIN]);
    assert_int_equal(1, report.records[SR_SPLIT_VAL]);
    assert_int_equal(5, report.refused);
    assert_int_equal(3, report.ignored);
    const struct {
        unsigned flag;
        int count;
    } met[] = {{SR_PICTURE_IS_PNG, 2},  {SR_PICTURE_WAS_REDUCED, 1}, {SR_PICTURE_IS_PROGRESSIVE, 1},
               {SR_PICTURE_IS_CMYK, 1}, {SR_PICTURE_IS_GREY, 1},     {SR_PICTURE_IS_ORIENTED, 1}};
    for (size_t i = 0; i < sizeof met / sizeof *met; i++)
        for (int bit = 0; bit < SR_PICTURE_FLAG_COUNT; bit++)
            if (met[i].flag == 1u << bit)
                assert_int_equal(met[i].count, report.flagged[bit]);
    check_refused(in_top("dst"), "file,reason\n");
    check_refused(in_top("dst"), "\"train/b/cut,off.jpg\",JPEG: ");
    check_refused(in_top("dst"), "train/a/page.jpg,not a picture");
    check_refused(in_top("dst"), "train/a/empty.jpg,empty file");
    check_refused(in_top("dst"), "train/a/moving.gif,GIF is not supported");
    check_refused(in_top("dst"), "train/loose.jpg,is not in a class folder");
    assert_ok(pack(in_top("src"), in_top("dst2"), (sr_pack_options){.allow_refused = 5}, &report));
    assert_same_folders(in_top("dst"), in_top("dst2"));
}

static void test_any_workers(void **state) {
    (void)state;
    put_classes("src", abc, 3, 13);
    sr_pack_report report;
    for (int workers = 1; workers <= 3; workers++) {
        char name[16];
        (void)snprintf(name, sizeof name, "dst%d", workers);
        assert_ok(
            pack(in_top("src"), in_top(name),
                 (sr_pack_options){.val_fraction = 0.2, .workers = workers, .shard_bytes = 5000},
                 &report));
    }
    assert_true(sr_path_exists(in_top("dst1/train-00003.kpl")));
    assert_same_folders(in_top("dst1"), in_top("dst2"));
    assert_same_folders(in_top("dst1"), in_top("dst3"));
}

static void test_destination(void **state) {
    (void)state;
    put_classes("src", abc, 2, 4);
    sr_pack_report report;
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){0}, &report));
    assert_false(report.was_complete);
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){.workers = 3}, &report));
    assert_true(report.was_complete && report.records[SR_SPLIT_TRAIN] == 8 && report.bytes > 0);
    assert_status(SR_E_EXISTS, pack(in_top("src"), in_top("dst"),
                                    (sr_pack_options){.val_fraction = 0.5}, &report));
    assert_message("rm -r");
    put_jpeg("src/a/new.jpg", 77);
    assert_status(SR_E_EXISTS, pack(in_top("src"), in_top("dst"), (sr_pack_options){0}, &report));
    put_file("other/thing", "x", 1);
    assert_status(SR_E_EXISTS, pack(in_top("src"), in_top("other"), (sr_pack_options){0}, &report));
    assert_message("not made by serried pack");
    assert_status(SR_E_EXISTS, pack(in_top("src"), in_top("src"), (sr_pack_options){0}, &report));
    assert_status(SR_E_NOT_FOUND,
                  pack(in_top("none"), in_top("new"), (sr_pack_options){0}, &report));
    assert_false(sr_path_exists(in_top("new")));
    assert_status(SR_E_USAGE,
                  pack(in_top("other/thing"), in_top("new"), (sr_pack_options){0}, &report));
    assert_false(sr_path_exists(in_top("new")));
    assert_status(SR_E_DATA, pack(in_top("other"), in_top("new"), (sr_pack_options){0}, &report));
    assert_message("no picture");
    assert_status(SR_E_USAGE, pack(in_top("src"), in_top("new"),
                                   (sr_pack_options){.val_fraction = 1.0}, &report));
}

// Killed at many moments: a split can be read only if it is complete, and repeating the command
// gives the same bytes as an undisturbed run.
static void test_killed(void **state) {
    (void)state;
    put_classes("src", abc, 3, 30);
    const sr_pack_options options = {.val_fraction = 0.1, .shard_bytes = 40000};
    sr_pack_report report;
    assert_ok(pack(in_top("src"), in_top("whole"), options, &report));
    int unfinished = 0;
    for (useconds_t delay = 500; delay < 16000; delay += 2500) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(pack(in_top("src"), in_top("dst"), options, &report) != SR_OK);
        (void)usleep(delay);
        (void)kill(child, SIGKILL);
        int exit_status;
        assert_int_equal(child, waitpid(child, &exit_status, 0));
        sr_dataset *set;
        if (WIFSIGNALED(exit_status))
            unfinished +=
                sr_dataset_open(in_top("dst"), "val", &set) != SR_OK || (sr_dataset_free(set), 0);
        assert_ok(pack(in_top("src"), in_top("dst"), options, &report));
        assert_same_folders(in_top("whole"), in_top("dst"));
        test_folder_remove(in_top("dst"));
    }
    assert_true(unfinished > 0);
}

// Killed when its third shard exists: the same command reuses what is finished, whatever has
// happened to the rest.
static void test_resumes(void **state) {
    (void)state;
    put_classes("src", abc, 3, 30);
    put_file("src/a/bad, one%.jpg", "\xff\xd8\xff broken", 10);
    const sr_pack_options options = {.val_fraction = 0.1, .shard_bytes = 6000, .allow_refused = 1};
    sr_pack_report report;
    assert_ok(pack(in_top("src"), in_top("whole"), options, &report));
    for (int round = 0; round < 3;) {
        pid_t child = fork();
        int exit_status;
        assert_true(child >= 0);
        if (child == 0)
            _exit(pack(in_top("src"), in_top("dst"), options, &report) != SR_OK);
        while (!sr_path_exists(in_top("dst/train-00003.kpl")) && kill(child, 0) == 0)
            ;
        (void)kill(child, SIGKILL);
        assert_int_equal(child, waitpid(child, &exit_status, 0));
        if (!WIFSIGNALED(exit_status)) { // it finished before the kill
            test_folder_remove(in_top("dst"));
            continue;
        }
        if (round == 1) // damaged in between: starts over
            put_file("dst/train-00001.kpl", "half", 4);
        assert_ok(pack(in_top("src"), in_top("dst"), options, &report));
        assert_true(round == 1 ? report.resumed == 0 : report.resumed > 0);
        assert_int_equal(1, report.refused);
        assert_int_equal(81, report.records[SR_SPLIT_TRAIN]);
        assert_same_folders(in_top("whole"), in_top("dst"));
        test_folder_remove(in_top("dst"));
        round++;
    }
}

static void test_interrupted_state(void **state) {
    (void)state;
    put_classes("src", abc, 3, 10);
    const sr_pack_options options = {.shard_bytes = 4000};
    sr_pack_report report;
    assert_ok(pack(in_top("src"), in_top("whole"), options, &report));
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){.max_side = 8}, &report));
    // The state after a kill: no last shard, a temporary file, "packing".
    char *text = read_text(in_top("dst/pack.txt"));
    const char *state_line = strstr(text, "train ");
    assert_non_null(state_line);
    char packing[4096];
    (void)snprintf(packing, sizeof packing, "%.*sstate packing\n", (int)(state_line - text), text);
    put_file("dst/pack.txt", packing, strlen(packing));
    sr_free(text);
    put_file("dst/train-00002.kpl", "half", 4);
    put_file("dst/train-00003.kpl.tmp-123-4", "half", 4);
    put_file("dst/train-00099.kpl", "of another run", 14);
    assert_ok(pack(in_top("src"), in_top("dst"), options, &report));
    assert_false(report.was_complete);
    assert_same_folders(in_top("whole"), in_top("dst"));
}

static void test_classes_agree(void **state) {
    (void)state;
    put_classes("src/train", abc, 2, 2);
    put_classes("src/val", abc + 1, 2, 1);
    sr_pack_report report;
    assert_status(SR_E_DATA, pack(in_top("src"), in_top("dst"), (sr_pack_options){0}, &report));
    assert_message("class 'c' of val");
    assert_false(sr_path_exists(in_top("dst")));
}

static void test_layouts(void **state) {
    (void)state;
    char names[16][64];
    sr_pack_report report;
    // A class called train among others, and a common leading folder called test.
    put_jpeg("one/aeroplane/1.jpg", 1);
    put_jpeg("one/train/1.jpg", 2);
    assert_ok(pack(in_top("one"), in_top("d1"), (sr_pack_options){0}, &report));
    assert_int_equal(2, list_split(in_top("d1"), "train", names, 16));
    assert_string_equal("1:train/1.jpg", names[1]);
    put_jpeg("two/test/train/cat/1.jpg", 1);
    put_jpeg("two/test/val/cat/deep/er/1.jpg", 2);
    put_jpeg("two/test/test/unlabelled.jpg", 3);
    assert_ok(pack(in_top("two"), in_top("d2"), (sr_pack_options){.val_fraction = 0.5}, &report));
    assert_true(report.records[SR_SPLIT_TRAIN] == 1 && report.records[SR_SPLIT_VAL] == 1);
    assert_true(report.val_existed && report.unlabelled == 1);
    put_jpeg("three/x/y/only/1.jpg", 1); // one class below leading folders
    assert_ok(pack(in_top("three"), in_top("d3"), (sr_pack_options){0}, &report));
    assert_int_equal(1, list_split(in_top("d3"), "train", names, 16));
    assert_string_equal("0:1.jpg", names[0]);
    put_jpeg("four/1.jpg", 1); // no class folders
    put_jpeg("four/2.jpg", 2);
    put_jpeg("four/3.jpg", 3);
    assert_ok(pack(in_top("four"), in_top("d4"), (sr_pack_options){.val_fraction = 0.4}, &report));
    assert_true(report.records[SR_SPLIT_TRAIN] == 2 && report.records[SR_SPLIT_VAL] == 1);
    assert_int_equal(0, report.classes);
    sr_pack_options classes = {.source_format = "classes"};
    assert_status(SR_E_DATA, pack(in_top("four"), in_top("d5"), classes, &report));
    assert_message("CLASS/picture");
    char file[1024];
    (void)snprintf(file, sizeof file, "%s", in_top("names.txt"));
    assert_ok(sr_file_write_atomic(file, "a\nb\n", 4));
    sr_pack_options named = {.classes = file};
    assert_status(SR_E_DATA, pack(in_top("four"), in_top("d6"), named, &report));
    assert_message("no picture is in a class folder, so --classes names none");
}

static void test_links(void **state) {
    (void)state;
    put_classes("src", abc, 2, 2);
    assert_int_equal(0, symlink("..", in_top("src/a/loop")));
    assert_int_equal(0, symlink("a", in_top("src/linked")));
    assert_int_equal(0, symlink("nowhere", in_top("src/b/dangling.jpg")));
    assert_int_equal(0, mkfifo(in_top("src/b/fifo.jpg"), 0600));
    sr_pack_report report;
    assert_status(SR_E_DATA, pack(in_top("src"), in_top("dst"), (sr_pack_options){0}, &report));
    assert_int_equal(6, report.records[SR_SPLIT_TRAIN]);
    assert_int_equal(3, report.classes);
    check_refused(in_top("dst"), "a link to itself");
    check_refused(in_top("dst"), "b/dangling.jpg,cannot open");
}

// -- tar ---------------------------------------------------------------------------------------

typedef struct tar_entry {
    const char *name;
    const void *data;
    size_t bytes;
    const char *symlink, *hardlink;
    unsigned type; // 0: regular
} tar_entry;

static void put_tar(const char *name, int filter, const tar_entry *entries, size_t count) {
    struct archive *a = archive_write_new();
    assert_int_equal(ARCHIVE_OK, archive_write_set_format_pax_restricted(a));
    assert_int_equal(ARCHIVE_OK, archive_write_add_filter(a, filter));
    assert_int_equal(ARCHIVE_OK, archive_write_open_filename(a, in_top(name)));
    for (size_t i = 0; i < count; i++) {
        struct archive_entry *e = archive_entry_new();
        archive_entry_set_pathname(e, entries[i].name);
        archive_entry_set_size(e, (la_int64_t)entries[i].bytes);
        archive_entry_set_filetype(e, entries[i].type ? entries[i].type : AE_IFREG);
        archive_entry_set_perm(e, 0644);
        archive_entry_set_mtime(e, 1000000000, 0);
        if (entries[i].symlink) {
            archive_entry_set_filetype(e, AE_IFLNK);
            archive_entry_set_symlink(e, entries[i].symlink);
        }
        if (entries[i].hardlink)
            archive_entry_set_hardlink(e, entries[i].hardlink);
        assert_int_equal(ARCHIVE_OK, archive_write_header(a, e));
        if (entries[i].bytes > 0)
            assert_int_equal(entries[i].bytes,
                             archive_write_data(a, entries[i].data, entries[i].bytes));
        archive_entry_free(e);
    }
    assert_int_equal(ARCHIVE_OK, archive_write_close(a));
    assert_int_equal(ARCHIVE_OK, archive_write_free(a));
}

static void test_tar(void **state) {
    (void)state;
    static const char *const long_name =
        "x/y/train/dog/a-name-that-is-longer-than-one-hundred-characters-so-that-it-needs-an-"
        "extended-header-of-its-own-in-the-archive-and-tests-where-its-data-begin.jpg";
    char names[16][64];
    size_t bytes, small_bytes;
    uint8_t *picture = test_jpeg(&(test_picture){.width = 200, .height = 150}, &bytes);
    uint8_t *small = test_jpeg(&(test_picture){.width = 8, .height = 8}, &small_bytes);
    const tar_entry entries[] = {
        {.name = "x/", .type = AE_IFDIR},
        {.name = "x/y/train/cat/1.jpg", .data = picture, .bytes = bytes},
        {.name = "./x/y/train/cat/2.jpg", .data = small, .bytes = small_bytes},
        {.name = long_name, .data = picture, .bytes = bytes},
        {.name = "x/y/val/cat/3.jpg", .data = small, .bytes = small_bytes},
        {.name = "x/y/train/cat/notes.txt", .data = "text", .bytes = 4},
        {.name = "x/y/train/cat/.hidden.jpg", .data = small, .bytes = small_bytes},
        {.name = "/etc/passwd.jpg", .data = small, .bytes = small_bytes},
        {.name = "x/../../out.jpg", .data = small, .bytes = small_bytes},
        {.name = "x/y/train/cat/link.jpg", .symlink = "/etc/passwd"},
        {.name = "x/y/train/cat/hard.jpg", .hardlink = "x/y/train/cat/1.jpg"},
        {.name = "x/y/train/cat/device.jpg", .type = AE_IFCHR},
        {.name = "x/y/train/cat/1.jpg", .data = small, .bytes = small_bytes},
    };
    const int filters[] = {ARCHIVE_FILTER_NONE, ARCHIVE_FILTER_GZIP};
    for (int f = 0; f < 2; f++) {
        char tar[24], dst[16];
        (void)snprintf(tar, sizeof tar, "s%d.bin", f);
        (void)snprintf(dst, sizeof dst, "d%d", f);
        put_tar(tar, filters[f], entries, sizeof entries / sizeof *entries);
        sr_pack_report report;
        assert_status(SR_E_DATA, pack(in_top(tar), in_top(dst), (sr_pack_options){0}, &report));
        assert_int_equal(3, list_split(in_top(dst), "train", names, 16));
        assert_string_equal("0:train/cat/1.jpg", names[0]);
        assert_string_equal("0:train/cat/2.jpg", names[1]);
        assert_int_equal(1, list_split(in_top(dst), "val", names, 16));
        assert_int_equal(2, report.ignored);
        assert_int_equal(6, report.refused);
        check_refused(in_top(dst), "/etc/passwd.jpg,an absolute path");
        check_refused(in_top(dst), "x/../../out.jpg,a path that leaves");
        check_refused(in_top(dst), "link.jpg,a symbolic link");
        check_refused(in_top(dst), "hard.jpg,a hard link");
        check_refused(in_top(dst), "device.jpg,a device");
        check_refused(in_top(dst), "1.jpg,the name appears twice");
    }
    char command[2200]; // the same pictures, packed as a tar or not
    (void)snprintf(command, sizeof command, "cmp '%s' '%s'", in_top("d0/train-00000.kpl"),
                   in_top("d1/train-00000.kpl"));
    assert_int_equal(0, system(command)); // NOLINT(cert-env33-c)
    free(picture);
    free(small);
}

// A folder, tars of its content and of the folder itself, and a folder that contains such a tar
// give the same data set, byte for byte.
static void test_a_tar_is_its_folder(void **state) {
    (void)state;
    static const struct {
        const char *make, *source;
    } ways[] = {
        {"tar -C src -cf inside.tar .", "inside.tar"},
        {"tar -cf with.tar src", "with.tar"},
        {"tar --format=ustar -cf reversed.tar src/c src/b src/a", "reversed.tar"},
        {"tar --format=pax -czf dots.tar.gz ./src/././a .//src//b src/c", "dots.tar.gz"},
        {"mkdir -p deep/er && cp -r src deep/er && mkdir deep/empty", "deep"},
    };
    put_classes("src", abc, 3, 4);
    put_jpeg("src/b/lower/\xc3\xbc \xff.jpg", 7); // not all of it is UTF-8
    put_jpeg("src/c-d/1.jpg", 8);                 // '-' sorts before '/'
    sr_pack_report report;
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){.val_fraction = 0.3}, &report));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char command[2300], dst[16];
        (void)snprintf(command, sizeof command, "cd '%s' && LC_ALL=C %s%s", in_top("."),
                       ways[i].make, i == 2 || i == 3 ? " src/c-d" : "");
        assert_int_equal(0, system(command)); // NOLINT(cert-env33-c)
        (void)snprintf(dst, sizeof dst, "d%zu", i);
        assert_ok(pack(in_top(ways[i].source), in_top(dst), (sr_pack_options){.val_fraction = 0.3},
                       &report));
        assert_int_equal(0, report.refused);
        static const char *const splits[] = {"train", "val"};
        for (int s = 0; s < 2; s++) {
            (void)snprintf(command, sizeof command,
                           "cd '%s' && cmp dst/%s-00000.kpl %s/%s-00000.kpl", in_top("."),
                           splits[s], dst, splits[s]);
            assert_int_equal(0, system(command)); // NOLINT(cert-env33-c)
        }
    }
}

static void test_tar_of_tars(void **state) {
    (void)state;
    char names[16][64];
    size_t bytes;
    uint8_t *picture = test_jpeg(&(test_picture){.width = 40, .height = 30}, &bytes);
    tar_entry inner[] = {{.name = "n01_1.JPEG", .data = picture, .bytes = bytes},
                         {.name = "n01_2.JPEG", .data = picture, .bytes = bytes}};
    put_tar("n01.tar", ARCHIVE_FILTER_NONE, inner, 2);
    inner[0].name = "n02_1.JPEG";
    put_tar("n02.tar", ARCHIVE_FILTER_NONE, inner, 1);
    void *first, *second;
    size_t first_bytes, second_bytes;
    assert_ok(sr_file_read(in_top("n01.tar"), 1 << 20, &first, &first_bytes));
    assert_ok(sr_file_read(in_top("n02.tar"), 1 << 20, &second, &second_bytes));
    const tar_entry outer[] = {{.name = "n01.tar", .data = first, .bytes = first_bytes},
                               {.name = "n02.tar", .data = second, .bytes = second_bytes}};
    const int filters[] = {ARCHIVE_FILTER_NONE, ARCHIVE_FILTER_ZSTD};
    for (int f = 0; f < 2; f++) {
        char dst[16];
        (void)snprintf(dst, sizeof dst, "d%d", f);
        put_tar("all", filters[f], outer, 2);
        sr_pack_report report;
        assert_ok(pack(in_top("all"), in_top(dst), (sr_pack_options){0}, &report));
        assert_int_equal(3, list_split(in_top(dst), "train", names, 16));
        assert_string_equal("0:n01/n01_1.JPEG", names[0]);
        assert_string_equal("1:n02/n02_1.JPEG", names[2]);
    }
    sr_free(first);
    sr_free(second);
    free(picture);
}

// Archives that contain too many names, or expand too far, also through nested archives.
static void test_archive_bombs(void **state) {
    (void)state;
    enum { NAMES = 60, INNER = 20, ZEROS = 24 << 20 };
    static tar_entry many[NAMES], tars[INNER];
    static char names[NAMES][16];
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(names[i], sizeof names[i], "%d.tar", i);
        many[i] = (tar_entry){.name = names[i]};
    }
    sr_pack_report report;
    put_tar("many", ARCHIVE_FILTER_NONE, many, NAMES);
    const sr_pack_options fits = {.limits.entries = NAMES}, over = {.limits.entries = NAMES - 1};
    assert_status(SR_E_DATA, pack(in_top("many"), in_top("d1"), fits, &report)); // no picture
    assert_status(SR_E_LIMIT, pack(in_top("many"), in_top("d2"), over, &report));
    assert_message("more than 59 names");
    assert_message("--max-entries");
    put_tar("inner", ARCHIVE_FILTER_NONE, many, NAMES); // each of 20 contains 60 more
    void *data;
    size_t bytes;
    assert_ok(sr_file_read(in_top("inner"), 1 << 20, &data, &bytes));
    for (int i = 0; i < INNER; i++)
        tars[i] = (tar_entry){.name = names[i], .data = data, .bytes = bytes};
    const int filters[] = {ARCHIVE_FILTER_NONE, ARCHIVE_FILTER_GZIP};
    for (int f = 0; f < 2; f++) {
        put_tar("nested", filters[f], tars, INNER);
        const sr_pack_options nested_over = {.limits.entries = INNER * (NAMES + 1) - 1};
        const sr_pack_options nested_fits = {.limits.entries = INNER * (NAMES + 1)};
        assert_status(SR_E_LIMIT, pack(in_top("nested"), in_top("d3"), nested_over, &report));
        assert_message("seen in 19/");
        assert_status(SR_E_DATA, pack(in_top("nested"), in_top("d4"), nested_fits, &report));
    }
    sr_free(data);
    uint8_t *zeros = calloc(1, ZEROS); // named like a tar, so that it is extracted to disk
    assert_non_null(zeros);
    memcpy(zeros + 257, "ustar", 5);
    const tar_entry large = {.name = "large.tar", .data = zeros, .bytes = ZEROS};
    put_tar("bomb", ARCHIVE_FILTER_GZIP, &large, 1);
    const sr_pack_options narrow = {.limits.unpacked = 4 << 20};
    struct stat info;
    assert_int_equal(0, stat(in_top("bomb"), &info));
    assert_true(info.st_size < 100000);
    assert_status(SR_E_LIMIT, pack(in_top("bomb"), in_top("d5"), narrow, &report));
    assert_message("unpack to more than 4 MiB");
    assert_message("--max-unpacked");
    free(zeros);
}

static void test_damaged_tar(void **state) {
    (void)state;
    size_t bytes;
    uint8_t *picture = test_jpeg(&(test_picture){.width = 40, .height = 30}, &bytes);
    const tar_entry entries[] = {{.name = "a/1.jpg", .data = picture, .bytes = bytes},
                                 {.name = "a/2.jpg", .data = picture, .bytes = bytes}};
    put_tar("t", ARCHIVE_FILTER_NONE, entries, 2);
    struct stat info;
    sr_pack_report report;
    assert_int_equal(0, stat(in_top("t"), &info));
    const off_t second = 512 + ((off_t)bytes + 511) / 512 * 512;
    assert_int_equal(0, truncate(in_top("t"), second + 700)); // inside the second picture
    assert_status(SR_E_DATA, pack(in_top("t"), in_top("dst"), (sr_pack_options){0}, &report));
    assert_message("/t: ");
    assert_false(sr_path_exists(in_top("dst")));
    put_file("t", "\x1f\x8b not gzip at all", 18);
    assert_status(SR_E_DATA, pack(in_top("t"), in_top("dst"), (sr_pack_options){0}, &report));
    free(picture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_top, remove_top)
        TEST(test_folder),
        TEST(test_hold_out_rule),
        TEST(test_wild),
        TEST(test_any_workers),
        TEST(test_destination),
        TEST(test_killed),
        TEST(test_resumes),
        TEST(test_interrupted_state),
        TEST(test_classes_agree),
        TEST(test_layouts),
        TEST(test_links),
        TEST(test_tar),
        TEST(test_a_tar_is_its_folder),
        TEST(test_tar_of_tars),
        TEST(test_archive_bombs),
        TEST(test_damaged_tar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
