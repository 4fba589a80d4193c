// SPDX-License-Identifier: Apache-2.0
// Small sources of every format for tests of importers, and access to what was packed from them.
#ifndef SR_TESTS_UNIT_IMPORT_FIXTURE_H
#define SR_TESTS_UNIT_IMPORT_FIXTURE_H

#include "tests/unit/support/test_pictures.h"

#include <unistd.h>

#include "dataio/pack/pack.h"
#include "dataio/record/dataset.h"
#include "dataio/record/record.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"

static char top[256]; // of the running test; removed after it

static inline int make_top(void **state) {
    (void)state;
    test_folder_make(top);
    return 0;
}

static inline int remove_top(void **state) {
    (void)state;
    test_folder_remove(top);
    return 0;
}

static inline const char *in_top(const char *name) {
    static char paths[8][1024];
    static int next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static inline void put_file(const char *name, const void *data, size_t bytes) {
    char folder[1024];
    (void)snprintf(folder, sizeof folder, "%s", in_top(name));
    *strrchr(folder, '/') = '\0';
    assert_ok(sr_make_folders(folder));
    FILE *file = fopen(in_top(name), "wb");
    assert_non_null(file);
    assert_int_equal(bytes, fwrite(data, 1, bytes, file));
    assert_int_equal(0, fclose(file));
}

static inline void put_text(const char *name, const char *text) {
    put_file(name, text, strlen(text));
}

static inline void put_picture(const char *name, const test_picture *picture) {
    size_t bytes;
    uint8_t *data = test_jpeg(picture, &bytes);
    put_file(name, data, bytes);
    free(data);
}

static inline void put_jpeg(const char *name, unsigned width, unsigned height) {
    put_picture(name, &(test_picture){.width = width, .height = height, .seed = width});
}

// Writes pixels as a PNG of a colour type and depth; a palette has the colours (i, 0, 255 - i).
static inline void put_png(const char *name, unsigned width, unsigned height, unsigned type,
                           unsigned depth, const void *pixels, size_t pixel_bytes) {
    size_t bytes;
    struct spng_ihdr header = {
        .width = width, .height = height, .bit_depth = (uint8_t)depth, .color_type = (uint8_t)type};
    struct spng_plte palette = {.n_entries = 256};
    int error;
    spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
    assert_non_null(png);
    for (unsigned i = 0; i < 256; i++)
        palette.entries[i] =
            (struct spng_plte_entry){.red = (uint8_t)i, .blue = (uint8_t)(255 - i)};
    assert_int_equal(0, spng_set_option(png, SPNG_ENCODE_TO_BUFFER, 1));
    assert_int_equal(0, spng_set_ihdr(png, &header));
    if (type == SPNG_COLOR_TYPE_INDEXED)
        assert_int_equal(0, spng_set_plte(png, &palette));
    assert_int_equal(
        0, spng_encode_image(png, pixels, pixel_bytes, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE));
    uint8_t *out = spng_get_png_buffer(png, &bytes, &error);
    put_file(name, out, bytes);
    free(out);
    spng_ctx_free(png);
}

// Columns of the ids 0, 1, 11 and again.
static inline void put_mask(const char *name, unsigned width, unsigned height, unsigned type) {
    uint8_t *ids = malloc((size_t)width * height);
    assert_non_null(ids);
    for (unsigned i = 0; ids && i < width * height; i++)
        ids[i] = (uint8_t)(i % width % 3 == 2 ? 11 : i % width % 3);
    put_png(name, width, height, type, 8, ids, (size_t)width * height);
    free(ids);
}

static inline void run(const char *fmt, ...) SR_PRINTF(1, 2);
static inline void run(const char *fmt, ...) {
    char command[4096];
    va_list arguments;
    va_start(arguments, fmt);
    (void)vsnprintf(command, sizeof command, fmt, arguments);
    va_end(arguments);
    if (system(command) != 0) // NOLINT(cert-env33-c): our own paths
        fail_msg("%s", command);
}

static inline sr_status pack(const char *source, const char *destination, sr_pack_options options,
                             sr_pack_report *report) {
    options.source = source;
    options.destination = destination;
    options.quiet = true;
    options.workers = 1;
    return sr_pack(&options, report);
}

static inline void check_refused(const char *line) {
    void *text;
    size_t bytes;
    assert_ok(sr_file_read(in_top("dst/refused.csv"), 1 << 20, &text, &bytes));
    if (strstr(text, line) == NULL)
        fail_msg("refused.csv lacks '%s':\n%s", line, (char *)text);
    sr_free(text);
}

// The record of dst's split whose name or id ends in 'name', in memory of its own; freed with
// free().
static inline void *find_record(const char *split, const char *name, size_t *bytes) {
    sr_dataset *set;
    assert_ok(sr_dataset_open(in_top("dst"), split, &set));
    void *out = NULL;
    for (int64_t i = 0; i < sr_dataset_count(set) && out == NULL; i++) {
        const void *data;
        sr_record_cursor entries;
        sr_feature feature;
        assert_ok(sr_dataset_read(set, i, &data, bytes));
        entries = sr_record_entries(data, *bytes);
        assert_ok(sr_record_find(entries, "name", &feature));
        if (feature.kind == SR_FEATURE_NONE)
            assert_ok(sr_record_find(entries, "id", &feature));
        const size_t n = strlen(name);
        if (feature.bytes < n || memcmp(feature.data + feature.bytes - n, name, n) != 0)
            continue;
        out = malloc(*bytes);
        assert_non_null(out);
        memcpy(out, data, *bytes);
    }
    sr_dataset_free(set);
    if (out == NULL)
        fail_msg("no record '%s' in %s", name, split);
    return out;
}

static inline int class_count(const char *split, const char *first) {
    sr_dataset *set;
    assert_ok(sr_dataset_open(in_top("dst"), split, &set));
    const int count = sr_dataset_class_count(set);
    if (count > 0 && first != NULL)
        assert_string_equal(first, sr_dataset_class_name(set, 0));
    sr_dataset_free(set);
    return count;
}

static inline int64_t label_of(const char *split, const char *name) {
    size_t bytes = 0;
    sr_sample sample;
    void *record = find_record(split, name, &bytes);
    assert_ok(sr_sample_read(record, bytes, &sample));
    const int64_t label = sample.label;
    free(record);
    return label;
}

// Reads the only object of a record.
static inline void one_object(const char *split, const char *name, sr_object *out) {
    size_t bytes;
    bool more;
    sr_detection detection;
    static void *record;
    free(record);
    record = find_record(split, name, &bytes);
    assert_ok(sr_detection_read(record, bytes, &detection));
    assert_ok(sr_detection_next(&detection, out, &more));
    assert_true(more);
}

static inline void check_box(const sr_object *o, double x1, double y1, double x2, double y2) {
    assert_true(o->xmin == x1 && o->ymin == y1 && o->xmax == x2 && o->ymax == y2);
}

static const char coco_train[] =
    "{\"info\": {\"x\": [{}, null]}, \"annotations\": [\n"
    "{\"image_id\": 5, \"category_id\": 90, \"bbox\": [1, 2.5, 10, 4], \"iscrowd\": 0,"
    " \"segmentation\": [[1, 2.5, 11, 2.5, 11, 6.5]]},\n"
    "{\"image_id\": 6, \"category_id\": 2, \"bbox\": [0, 0, 30, 20], \"iscrowd\": 1,"
    " \"segmentation\": {\"counts\": [20, 560, 20], \"size\": [20, 30]}},\n"
    "{\"image_id\": 7, \"category_id\": 2, \"bbox\": [0, 0, 0, 20]},\n"
    "{\"id\": 44, \"image_id\": 8, \"category_id\": 3, \"bbox\": [0, 0, 1, 2]},\n"
    "{\"image_id\": 99, \"category_id\": 2, \"bbox\": [0, 0, 1, 2]}],\n"
    "\"images\": [{\"id\": 5, \"file_name\": \"1.jpg\", \"width\": 30, \"height\": 20},\n"
    "{\"id\": 6, \"file_name\": \"2.jpg\"}, {\"id\": 7, \"file_name\": \"3.jpg\"},\n"
    "{\"id\": 8, \"file_name\": \"4.jpg\"}, {\"id\": 9, \"file_name\": \"gone.jpg\"},\n"
    "{\"id\": 10, \"file_name\": \"5.jpg\"}, {\"id\": 11, \"file_name\": \"5.jpg\"}],\n"
    "\"categories\": [{\"id\": 90, \"name\": \"ant\"}, {\"id\": 2, \"name\": \"zebra\"}]}\n";
static const char coco_val[] =
    "{\"images\": [{\"id\": 5, \"file_name\": \"1.jpg\"}], \"annotations\": "
    "[{\"image_id\": 5, \"category_id\": 1, \"bbox\": [3, 3, 3, 3]}],"
    "\"categories\": [{\"id\": 1, \"name\": \"ant\"}]}";

static inline void make_coco(void) {
    put_jpeg("src/train2017/1.jpg", 30, 20);
    put_jpeg("src/train2017/2.jpg", 30, 20);
    put_jpeg("src/train2017/3.jpg", 30, 20);
    put_jpeg("src/train2017/4.jpg", 30, 20);
    put_jpeg("src/train2017/5.jpg", 30, 20);
    put_jpeg("src/val2017/1.jpg", 34, 20);
    put_jpeg("src/unlabeled2017/9.jpg", 34, 20);
    put_text("src/annotations/instances_train2017.json", coco_train);
    put_text("src/annotations/instances_val2017.json", coco_val);
    put_text("src/annotations/captions_val2017.json", coco_val);
}

static inline void make_yolo(void) {
    put_jpeg("src/ds/images/train/1.jpg", 40, 20);
    put_jpeg("src/ds/images/train/2.jpg", 40, 20);
    put_picture("src/ds/images/train/turned.jpg",
                &(test_picture){.width = 40, .height = 30, .orientation = 6});
    put_jpeg("src/ds/images/train/background.jpg", 40, 20);
    put_jpeg("src/ds/images/train/empty.jpg", 40, 20);
    put_jpeg("src/ds/images/train/class.jpg", 40, 20);
    put_jpeg("src/ds/images/train/pixels.jpg", 40, 20);
    put_jpeg("src/ds/images/train/short.jpg", 40, 20);
    put_jpeg("src/ds/images/train/twice.jpg", 40, 20);
    put_jpeg("src/ds/images/extra/deep/1.jpg", 44, 20);
    put_jpeg("src/ds/images/val/1.jpg", 40, 20);
    put_jpeg("src/ds/images/val/unnamed.jpg", 40, 20);
    put_jpeg("src/ds/images/test/1.jpg", 40, 20);
    put_text("src/ds/labels/train/1.txt", "1 0.5 0.5 0.25 0.5\n");
    put_text("src/ds/labels/train/2.txt", "0 .25 0.25 0.75 2.5e-1 .5 1\r\n\r\n");
    put_text("src/ds/labels/train/turned.txt", "2 0.5 0.5 1 1");
    put_text("src/ds/labels/train/empty.txt", "");
    put_text("src/ds/labels/train/class.txt", "0 0.5 0.5 0.1 0.1\n3 0.5 0.5 0.1 0.1\n");
    put_text("src/ds/labels/train/pixels.txt", "\n\n0 20 10 5 5\n");
    put_text("src/ds/labels/train/short.txt", "0 0.5 0.5 0.5\n");
    put_text("src/ds/labels/train/twice.txt", "0 0.5 0.5 0.5 0.5\n");
    put_text("src/ds/labels/train/gone.txt", "0 0.5 0.5 0.5 0.5\n");
    put_text("src/ds/labels/extra/deep/1.txt", "0.0 0.5 0.5 0.5 0.5\n");
    put_text("src/ds/labels/val/1.txt", "2 0.5 0.5 0 0\n");
    put_text("src/ds/labels/val/unnamed.txt", "2 0.5 0.5 0 0\n");
    put_text("src/ds/val.txt", "./images/val/1.jpg\r\n\n/home/me/ds/images/train/twice.jpg\n"
                               "images/val/gone.jpg\n");
    put_text("src/ds/data.yaml", "# what Ultralytics writes\n"
                                 "path: ../datasets/ds  # where it lay\n"
                                 "train:\n  - images/train\n  - ../images/extra\n"
                                 "val: val.txt\n"
                                 "test: images/test\n\n"
                                 "names:\n  1: dog\n  0: 'red fox'\n  2: \"owl\"\n\n"
                                 "download: |\n  print('[x]')\n");
}

static inline void make_masks(void) {
    put_jpeg("src/d/images/train/1.jpg", 30, 20);
    put_mask("src/d/masks/train/1.png", 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
    put_jpeg("src/d/images/val/1.jpg", 30, 24);
    put_mask("src/d/masks/val/1.png", 30, 24, SPNG_COLOR_TYPE_INDEXED);
    put_jpeg("src/d/images/train/2.jpg", 30, 20);
    put_mask("src/d/masks/train/2.png", 29, 20, SPNG_COLOR_TYPE_GRAYSCALE);
    put_jpeg("src/d/images/train/3.jpg", 30, 20);
    put_mask("src/d/masks/train/4.png", 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
}

static inline void make_webdataset(void) {
    put_jpeg("shards/0001.jpg", 20, 20);
    put_text("shards/0001.cls", "2\n");
    put_jpeg("shards/0002.jpg", 20, 20);
    put_text("shards/0002.json", "{\"x\": {\"label\": 9}, \"label\": 0, \"cls\": 1}");
    put_jpeg("shards/0003.jpg", 20, 20);
    put_text("shards/0003.cls", "");
    put_jpeg("shards/0004.jpg", 20, 20);
    put_jpeg("shards/0001.second.jpg", 20, 20);
    assert_ok(sr_make_folders(in_top("src")));
    run("cd '%s' && tar cf ../src/train-0000.tar 0001* 0002* && tar cf ../src/val-0000.tar "
        "000*",
        in_top("shards"));
}

static inline void check_webdataset(const sr_pack_report *r) {
    assert_int_equal(2, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(2, r->records[SR_SPLIT_VAL]);
    assert_int_equal(3, class_count("train", "0"));
    assert_int_equal(2, label_of("train", "train-0000/0001.jpg"));
    assert_int_equal(0, label_of("val", "val-0000/0002.jpg"));
    check_refused("val-0000/0004.jpg,a picture without .cls");
    check_refused("val-0000/0001.second.jpg,a second picture with the same key");
    check_refused("val-0000/0003.jpg,");
}

static inline void make_cifar(void) {
    enum { RECORD = 3073 };
    uint8_t *file = calloc(20, RECORD);
    assert_non_null(file);
    for (int i = 0; file && i < 20; i++) {
        file[i * RECORD] = (uint8_t)(i % 10);
        for (int c = 0; c < 3; c++)
            memset(file + i * RECORD + 1 + 1024 * c, 10 * i + c, 1024);
    }
    put_file("src/c/data_batch_1.bin", file, 20 * RECORD);
    put_file("src/c/test_batch.bin", file + 5 * RECORD, 3 * RECORD);
    file[0] = 77;
    put_file("src/c/data_batch_2.bin", file, 20 * RECORD);
    put_file("src/c/data_batch_3.bin", file, 5000);
    put_text("src/c/batches.meta.txt", "p0\np1\np2\np3\np4\np5\np6\np7\np8\np9\n\n");
    free(file);
}

#endif
