// SPDX-License-Identifier: Apache-2.0
// Every format of the table, from a folder and from a tar of it: records, classes, splits, and what
// becomes of files that do not fit. A format without a case here fails.
#include "tests/unit/test_pictures.h"

#include <sys/stat.h>
#include <unistd.h>

#include "dataio/dataset.h"
#include "dataio/format.h"
#include "dataio/mask_png.h"
#include "dataio/pack.h"
#include "dataio/protocol.h"
#include "dataio/record.h"
#include "dataio/rle.h"
#include "dataio/shard.h"
#include "dataio/zstd_frame.h"
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

static void put_text(const char *name, const char *text) {
    put_file(name, text, strlen(text));
}

static void put_picture(const char *name, const test_picture *picture) {
    size_t bytes;
    uint8_t *data = test_jpeg(picture, &bytes);
    put_file(name, data, bytes);
    free(data);
}

static void put_jpeg(const char *name, unsigned width, unsigned height) {
    put_picture(name, &(test_picture){.width = width, .height = height, .seed = width});
}

static void put_mask(const char *name, unsigned width, unsigned height, unsigned type) {
    size_t bytes;
    struct spng_ihdr header = {
        .width = width, .height = height, .bit_depth = 8, .color_type = (uint8_t)type};
    struct spng_plte palette = {.n_entries = 256};
    int error;
    uint8_t *ids = malloc((size_t)width * height);
    spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
    assert_true(ids != NULL && png != NULL);
    for (unsigned i = 0; ids && i < width * height; i++)
        ids[i] = (uint8_t)(i % width % 3 == 2 ? 11 : i % width % 3);
    assert_int_equal(0, spng_set_option(png, SPNG_ENCODE_TO_BUFFER, 1));
    assert_int_equal(0, spng_set_ihdr(png, &header));
    if (type == SPNG_COLOR_TYPE_INDEXED)
        assert_int_equal(0, spng_set_plte(png, &palette));
    assert_int_equal(
        0, spng_encode_image(png, ids, (size_t)width * height, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE));
    uint8_t *out = spng_get_png_buffer(png, &bytes, &error);
    put_file(name, out, bytes);
    free(out);
    free(ids);
    spng_ctx_free(png);
}

static void run(const char *fmt, ...) SR_PRINTF(1, 2);
static void run(const char *fmt, ...) {
    char command[4096];
    va_list arguments;
    va_start(arguments, fmt);
    (void)vsnprintf(command, sizeof command, fmt, arguments);
    va_end(arguments);
    if (system(command) != 0) // NOLINT(cert-env33-c): paths that we made
        fail_msg("%s", command);
}

static sr_status pack(const char *source, const char *destination, sr_pack_options options,
                      sr_pack_report *report) {
    options.source = source;
    options.destination = destination;
    options.quiet = true;
    options.workers = 1;
    return sr_pack(&options, report);
}

static void check_refused(const char *line) {
    void *text;
    size_t bytes;
    assert_ok(sr_file_read(in_top("dst/refused.csv"), 1 << 20, &text, &bytes));
    if (strstr(text, line) == NULL)
        fail_msg("refused.csv lacks '%s':\n%s", line, (char *)text);
    sr_free(text);
}

// The record of dst's split whose name or id ends so, in memory of its own; freed with free().
static void *find_record(const char *split, const char *name, size_t *bytes) {
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

static int class_count(const char *split, const char *first) {
    sr_dataset *set;
    assert_ok(sr_dataset_open(in_top("dst"), split, &set));
    const int count = sr_dataset_class_count(set);
    if (count > 0 && first != NULL)
        assert_string_equal(first, sr_dataset_class_name(set, 0));
    sr_dataset_free(set);
    return count;
}

static int64_t label_of(const char *split, const char *name) {
    size_t bytes;
    sr_sample sample;
    void *record = find_record(split, name, &bytes);
    assert_ok(sr_sample_read(record, bytes, &sample));
    const int64_t label = sample.label;
    free(record);
    return label;
}

// Reads the only object of a record.
static void one_object(const char *split, const char *name, sr_object *out) {
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

static void check_box(const sr_object *o, double x1, double y1, double x2, double y2) {
    assert_true(o->xmin == x1 && o->ymin == y1 && o->xmax == x2 && o->ymax == y2);
}

// -- one case for each format ------------------------------------------------------------------

static void make_classes(void) {
    put_jpeg("src/cat/1.jpg", 20, 16);
    put_jpeg("src/dog/2.jpg", 24, 16);
}

static void check_classes(const sr_pack_report *r) {
    assert_int_equal(2, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(1, label_of("train", "dog/2.jpg"));
}

#define VOC_OBJECT(name, x1, y1, x2, y2, rest)                                                     \
    "<object><name>" name "</name><bndbox><xmin>" #x1 "</xmin><ymin>" #y1 "</ymin><xmax>" #x2      \
    "</xmax><ymax>" #y2 "</ymax></bndbox>" rest "</object>"

static void make_voc(void) {
    put_jpeg("src/VOC/JPEGImages/a.jpg", 40, 30);
    put_jpeg("src/VOC/JPEGImages/b.jpg", 40, 30);
    put_jpeg("src/VOC/JPEGImages/c.jpg", 40, 30);
    put_jpeg("src/VOC/JPEGImages/unlisted.jpg", 40, 30);
    put_jpeg("src/VOC/JPEGImages/bare.jpg", 40, 30);
    put_jpeg("src/VOC/JPEGImages/size.jpg", 40, 30);
    put_jpeg("src/VOC/JPEGImages/odd.jpg", 40, 30);
    put_mask("src/VOC/SegmentationClass/a.png", 40, 30, SPNG_COLOR_TYPE_INDEXED);
    put_text(
        "src/VOC/Annotations/a.xml",
        "<?xml version=\"1.0\"?>\n<annotation><filename>a.jpg</filename><size><width>40</width>"
        "<height>30</height></size>" VOC_OBJECT(
            "dog", 1, 2, 40, 30,
            "<part><name>head</name><bndbox><xmin>9</xmin></bndbox></part>"
            "<difficult>1</difficult>") "</annotation>");
    put_text("src/VOC/Annotations/b.xml",
             "<annotation>" VOC_OBJECT("cat", 5, 5, 5, 5, "") "</annotation>");
    put_text("src/VOC/Annotations/c.xml", "<annotation>" VOC_OBJECT("dog", 3.5, 4, 9, 9, "") //
             "</annotation>");
    put_text("src/VOC/Annotations/unlisted.xml", "<annotation></annotation>");
    put_text("src/VOC/Annotations/gone.xml", "<annotation></annotation>");
    put_text("src/VOC/Annotations/broken.xml", "<annotation>\n  <object></annotation>");
    put_text("src/VOC/Annotations/size.xml", "<annotation><size><width>41</width><height>30"
                                             "</height></size></annotation>");
    put_text("src/VOC/Annotations/odd.xml",
             "<annotation>" VOC_OBJECT("bird", 1, 1, 5, 5, "") "</annotation>");
    put_text("src/VOC/ImageSets/Main/train.txt", "a\r\nb\nsize\n");
    put_text("src/VOC/ImageSets/Main/val.txt", "c  1\nodd\nnowhere\n");
    put_text("src/VOC/ImageSets/Main/dog_train.txt", "a 1\n");
}

static void check_voc(const sr_pack_report *r) {
    sr_object o;
    assert_int_equal(2, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(1, r->records[SR_SPLIT_VAL]);
    assert_int_equal(3, r->objects);
    assert_int_equal(1, r->degenerate);
    assert_int_equal(2, r->unlabelled); // not listed, and a mask
    assert_int_equal(1, r->ignored);    // dog_train.txt
    assert_int_equal(8, r->annotations);
    one_object("train", "a.jpg", &o);
    check_box(&o, 0, 1, 40, 30);
    assert_true(o.difficult && o.label == 1 && o.name_bytes == 3 && memcmp(o.name, "dog", 3) == 0);
    one_object("train", "b.jpg", &o);
    check_box(&o, 4, 4, 5, 5);
    one_object("val", "c.jpg", &o);
    check_box(&o, 2.5, 3, 9, 9);
    assert_int_equal(2, class_count("val", "cat"));
    assert_int_equal(6, r->refused);
    check_refused("VOC/Annotations/broken.xml,2:");
    check_refused("VOC/Annotations/gone.xml,an annotation without a picture");
    check_refused("VOC/JPEGImages/bare.jpg,a picture without an annotation");
    check_refused("VOC/JPEGImages/size.jpg,\"the annotation is of a picture of 41 x 30");
    check_refused("VOC/JPEGImages/odd.jpg,\"an object of class 'bird'");
    check_refused("nowhere,\"stands in a list");
}

static void make_masks(void) {
    put_jpeg("src/d/images/train/1.jpg", 30, 20);
    put_mask("src/d/masks/train/1.png", 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
    put_jpeg("src/d/images/val/1.jpg", 30, 24);
    put_mask("src/d/masks/val/1.png", 30, 24, SPNG_COLOR_TYPE_INDEXED);
    put_jpeg("src/d/images/train/2.jpg", 30, 20);
    put_mask("src/d/masks/train/2.png", 29, 20, SPNG_COLOR_TYPE_GRAYSCALE);
    put_jpeg("src/d/images/train/3.jpg", 30, 20);
    put_mask("src/d/masks/train/4.png", 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
}

static void check_masks(const sr_pack_report *r) {
    size_t bytes;
    sr_sample sample;
    sr_zstd zstd = {0};
    uint8_t ids[30 * 24];
    assert_int_equal(1, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(1, r->records[SR_SPLIT_VAL]);
    assert_int_equal(3, r->annotations);
    assert_int_equal(3, r->refused);
    assert_int_equal(12, class_count("train", "0"));
    void *record = find_record("val", "images/val/1.jpg", &bytes);
    assert_ok(sr_sample_read(record, bytes, &sample));
    assert_true(sample.height == 24 && sample.width == 30 && sample.label == -1);
    assert_ok(sr_zstd_expand(&zstd, sample.mask, sample.mask_bytes, ids, sizeof ids));
    assert_true(ids[0] == 0 && ids[1] == 1 && ids[2] == 11 && ids[30 * 24 - 1] == 11);
    sr_zstd_release(&zstd);
    free(record);
    check_refused("d/images/train/2.jpg,\"the mask is 29 x 20, the picture 30 x 20");
    check_refused("d/images/train/3.jpg,a picture without a mask");
    check_refused("d/masks/train/4.png,a mask without a picture");
}

static const char coco_train[] =
    "{\"info\": {\"x\": [{}, null]}, \"annotations\": [\n"
    "{\"image_id\": 5, \"category_id\": 90, \"bbox\": [1, 2.5, 10, 4], \"iscrowd\": 0,"
    " \"segmentation\": [[1, 2.5, 11, 2.5, 11, 6.5]]},\n"
    "{\"image_id\": 6, \"category_id\": 2, \"bbox\": [0, 0, 30, 20], \"iscrowd\": 1,"
    " \"segmentation\": {\"counts\": [20, 560, 20], \"size\": [20, 30]}},\n"
    "{\"image_id\": 7, \"category_id\": 2, \"bbox\": [0, 0, 0, 20]},\n"
    "{\"image_id\": 8, \"category_id\": 3, \"bbox\": [0, 0, 1, 2]},\n"
    "{\"image_id\": 99, \"category_id\": 2, \"bbox\": [0, 0, 1, 2]}],\n"
    "\"images\": [{\"id\": 5, \"file_name\": \"1.jpg\", \"width\": 30, \"height\": 20},\n"
    "{\"id\": 6, \"file_name\": \"2.jpg\"}, {\"id\": 7, \"file_name\": \"3.jpg\"},\n"
    "{\"id\": 8, \"file_name\": \"4.jpg\"}, {\"id\": 9, \"file_name\": \"gone.jpg\"},\n"
    "{\"id\": 10, \"file_name\": \"1.jpg\"}],\n"
    "\"categories\": [{\"id\": 90, \"name\": \"ant\"}, {\"id\": 2, \"name\": \"zebra\"}]}\n";
static const char coco_val[] =
    "{\"images\": [{\"id\": 5, \"file_name\": \"1.jpg\"}], \"annotations\": "
    "[{\"image_id\": 5, \"category_id\": 1, \"bbox\": [3, 3, 3, 3]}],"
    "\"categories\": [{\"id\": 1, \"name\": \"ant\"}]}";

static void make_coco(void) {
    put_jpeg("src/train2017/1.jpg", 30, 20);
    put_jpeg("src/train2017/2.jpg", 30, 20);
    put_jpeg("src/train2017/3.jpg", 30, 20);
    put_jpeg("src/train2017/4.jpg", 30, 20);
    put_jpeg("src/val2017/1.jpg", 34, 20);
    put_jpeg("src/unlabeled2017/9.jpg", 34, 20);
    put_text("src/annotations/instances_train2017.json", coco_train);
    put_text("src/annotations/instances_val2017.json", coco_val);
    put_text("src/annotations/captions_val2017.json", coco_val);
}

static void check_coco(const sr_pack_report *r) {
    sr_object o;
    assert_int_equal(3, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(1, r->records[SR_SPLIT_VAL]);
    assert_int_equal(4, r->objects);
    assert_int_equal(1, r->degenerate);
    assert_int_equal(1, r->unlabelled);
    assert_int_equal(1, r->strays);
    assert_int_equal(2, r->annotations);
    assert_int_equal(1, r->ignored);
    assert_int_equal(2, class_count("train", "zebra")); // by id
    one_object("train", "train2017/1.jpg", &o);
    check_box(&o, 1, 2.5, 11, 6.5);
    assert_true(o.label == 1 && !o.crowd && o.mask == NULL);
    const char *key;
    size_t n, numbers = 0;
    bool more;
    sr_feature polygon, number;
    assert_ok(sr_record_next(&o.outlines, &key, &n, &polygon, &more));
    sr_record_cursor points = sr_feature_entries(&polygon);
    while (sr_record_next(&points, &key, &n, &number, &more) == SR_OK && more)
        numbers++;
    assert_int_equal(6, numbers);
    one_object("train", "train2017/2.jpg", &o);
    sr_rle rle = {0};
    assert_true(o.crowd && o.difficult && o.mask != NULL);
    assert_ok(sr_rle_parse(&rle, o.mask, o.mask_bytes));
    assert_ok(sr_rle_check(&rle, 20, 30));
    assert_true(rle.count == 3 && ((uint32_t *)rle.counts)[1] == 560);
    sr_rle_release(&rle);
    one_object("val", "val2017/1.jpg", &o);
    check_box(&o, 3, 3, 6, 6);
    assert_int_equal(1, o.label);
    assert_int_equal(3, r->refused);
    check_refused("train2017/4.jpg,\"an object of class 'category 3, not defined'");
    check_refused("gone.jpg,\"an image of annotations/instances_train2017.json, but there is no");
    check_refused("1.jpg,image id 10 of annotations/instances_train2017.json is a picture");
}

static void make_webdataset(void) {
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

static void check_webdataset(const sr_pack_report *r) {
    assert_int_equal(2, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(2, r->records[SR_SPLIT_VAL]);
    assert_int_equal(3, class_count("train", "0"));
    assert_int_equal(2, label_of("train", "train-0000/0001.jpg"));
    assert_int_equal(0, label_of("val", "val-0000/0002.jpg"));
    check_refused("val-0000/0004.jpg,a picture without .cls");
    check_refused("val-0000/0001.second.jpg,the second picture of its key");
    check_refused("val-0000/0003.jpg,");
}

static void make_cifar(void) {
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

static void check_cifar(const sr_pack_report *r) {
    size_t bytes;
    sr_sample sample;
    assert_int_equal(20, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(3, r->records[SR_SPLIT_TEST]);
    assert_int_equal(10, class_count("train", "p0"));
    void *record = find_record("train", "data_batch_1.bin#00013", &bytes);
    assert_ok(sr_sample_read(record, bytes, &sample));
    const uint8_t *p = sample.data;
    assert_true(sample.label == 3 && !sample.encoded && sample.channels == 3 &&
                sample.bytes == 3072 && p[0] == 130 && p[1] == 131 && p[5] == 132);
    free(record);
    assert_int_equal(2, r->refused);
    check_refused("c/data_batch_2.bin,no whole number");
    check_refused("c/data_batch_3.bin,no whole number");
}

static void make_idx(void) {
    uint8_t pictures[16 + 3 * 6] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 3};
    const uint8_t labels[8 + 3] = {0, 0, 8, 1, 0, 0, 0, 3, 4, 0, 2};
    for (int i = 0; i < 18; i++)
        pictures[16 + i] = (uint8_t)i;
    put_file("src/train-images-idx3-ubyte", pictures, sizeof pictures);
    put_file("src/train-labels-idx1-ubyte", labels, sizeof labels);
    put_file("src/t10k-images-idx3-ubyte", pictures, sizeof pictures);
    put_file("src/t10k-labels-idx1-ubyte", labels, sizeof labels);
    run("gzip -n '%s' '%s'", in_top("src/t10k-images-idx3-ubyte"),
        in_top("src/t10k-labels-idx1-ubyte"));
    put_file("src/short-images-idx3-ubyte", pictures, sizeof pictures - 1);
    put_file("src/alone-images-idx3-ubyte", pictures, sizeof pictures);
}

static void check_idx(const sr_pack_report *r) {
    size_t bytes;
    sr_sample sample;
    assert_int_equal(3, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(3, r->records[SR_SPLIT_TEST]);
    assert_int_equal(5, class_count("test", "0"));
    void *record = find_record("test", "t10k-images-idx3-ubyte.gz#00002", &bytes);
    assert_ok(sr_sample_read(record, bytes, &sample));
    assert_true(sample.label == 2 && sample.height == 2 && sample.width == 3 &&
                sample.channels == 1 && ((const uint8_t *)sample.data)[0] == 12);
    free(record);
    assert_int_equal(2, r->refused);
    check_refused("short-images-idx3-ubyte,the file is shorter");
    check_refused("alone-images-idx3-ubyte,pictures without a file of labels");
}

// A directory as the original writer makes it, of one split.
static void put_kplrecord(const char *folder, int count) {
    static const char meta[] =
        "version: 1\nid: \"root\"\nrecord_type {\n  basicType: map\n  properties {\n    key: "
        "\"data\"\n    value {\n      basicType: bytes\n    }\n  }\n  properties {\n    key: "
        "\"label\"\n    value {\n      basicType: list\n      item {\n        basicType: int64\n   "
        "   "
        "}\n    }\n  }\n  keys: \"data\"\n  keys: \"label\"\n}\n";
    sr_record_writer writer = {0};
    uint64_t offsets[9] = {0};
    uint8_t data[4096];
    char name[64];
    for (int i = 0; i < count; i++) {
        const int64_t label = i % 3;
        sr_record_begin(&writer);
        sr_record_put_bytes(&writer, "data", "pixels", (size_t)(2 + i));
        sr_record_put_int64s(&writer, "label", &label, 1);
        assert_ok(sr_record_end(&writer));
        memcpy(data + offsets[i], writer.data, writer.bytes);
        offsets[i + 1] = offsets[i] + writer.bytes;
    }
    (void)snprintf(name, sizeof name, "%s/root.data", folder);
    put_file(name, data, offsets[count]);
    (void)snprintf(name, sizeof name, "%s/root.meta", folder);
    put_text(name, meta);
    sr_text index;
    sr_text_init(&index);
    assert_ok(sr_index_write(offsets, (size_t)count, &index));
    (void)snprintf(name, sizeof name, "%s/root.index", folder);
    put_file(name, index.data, index.length);
    sr_text_release(&index);
    sr_record_writer_release(&writer);
}

static void make_kplrecord(void) {
    put_kplrecord("src/train", 4);
    put_kplrecord("src/val", 2);
    put_kplrecord("src/cut", 2);
    put_file("src/cut/root.index", "", 0);
}

static void check_kplrecord(const sr_pack_report *r) {
    sr_dataset *set;
    assert_int_equal(4, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(2, r->records[SR_SPLIT_VAL]);
    assert_ok(sr_dataset_open(in_top("dst"), "train", &set));
    assert_int_equal(3, sr_dataset_class_count(set));
    void *original;
    size_t bytes, length, found = 0;
    assert_ok(sr_file_read(in_top("src/train/root.data"), 1 << 20, &original, &length));
    for (int64_t i = 0; i < 4; i++) { // byte for byte
        const void *data;
        assert_ok(sr_dataset_read(set, i, &data, &bytes));
        found += memmem(original, length, data, bytes) != NULL;
    }
    assert_int_equal(4, found);
    sr_free(original);
    sr_dataset_free(set);
    check_refused("cut/root.index,an empty index");
}

static void make_listed(void) {
    put_jpeg("src/x 1.jpg", 20, 20);
    put_jpeg("src/sub/2.jpg", 20, 20);
    put_jpeg("src/3.jpg", 20, 20);
    put_jpeg("src/4.jpg", 20, 20);
    put_text("src/page.jpg", "<html>");
    put_text("list.tsv", "x 1.jpg\tred fox\r\n\nsub/2.jpg\tcat\ttrain\n3.jpg\tcat\tval\n"
                         "gone.jpg\tcat\npage.jpg\tcat\n4.jpg\towl\tval\n");
}

static void check_listed(const sr_pack_report *r) {
    assert_int_equal(2, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(1, r->records[SR_SPLIT_VAL]);
    assert_int_equal(2, class_count("train", "cat"));
    assert_int_equal(1, label_of("train", "x 1.jpg"));
    assert_int_equal(0, label_of("val", "3.jpg"));
    check_refused("gone.jpg,");
    check_refused("page.jpg,not a picture");
    check_refused("4.jpg,class 'owl'");
}

static const struct {
    const char *format;
    void (*make)(void);
    void (*check)(const sr_pack_report *report);
    bool listed;
} cases[] = {
    {"classes", make_classes, check_classes, false},
    {"voc", make_voc, check_voc, false},
    {"masks", make_masks, check_masks, false},
    {"coco", make_coco, check_coco, false},
    {"webdataset", make_webdataset, check_webdataset, false},
    {"cifar", make_cifar, check_cifar, false},
    {"idx", make_idx, check_idx, false},
    {"kplrecord", make_kplrecord, check_kplrecord, false},
    {"listed", make_listed, check_listed, true},
};

// From the folder, from a tar of it and from a compressed one: the same shards.
static void check_case(size_t i) {
    sr_pack_report report;
    sr_source *source;
    sr_pack_options options = {.allow_refused = 100};
    char list[1024];
    (void)snprintf(list, sizeof list, "%s", in_top("list.tsv"));
    cases[i].make();
    options.list = cases[i].listed ? list : NULL;
    assert_ok(sr_source_open(in_top("src"), options.list, top, &source));
    assert_string_equal(cases[i].format, source->format->name);
    sr_source_free(source);
    assert_ok(pack(in_top("src"), in_top("dst"), options, &report));
    cases[i].check(&report);
    const char *const filters[] = {"", "z"};
    for (int f = 0; f < 2; f++) {
        run("cd '%s' && tar c%sf t.tar -C src . && rm -rf from-tar", top, filters[f]);
        assert_ok(pack(in_top("t.tar"), in_top("from-tar"), options, &report));
        run("cd '%s' && for f in dst/*.kpl; do cmp $f from-tar/${f#dst/} || exit 1; done", top);
    }
}

static void test_formats(void **state) {
    (void)state;
    const sr_format *format;
    for (size_t i = 0; (format = sr_format_at(i)) != NULL; i++) {
        size_t c = 0;
        while (c < sizeof cases / sizeof *cases && strcmp(cases[c].format, format->name) != 0)
            c++;
        if (c == sizeof cases / sizeof *cases)
            fail_msg("format '%s' has no case", format->name);
        assert_true(format->struct_size == sizeof *format && format->abi == SR_FORMAT_ABI);
        check_case(c);
        test_folder_remove(top);
        assert_int_equal(0, mkdir(top, 0700));
    }
}

// -- single rules ------------------------------------------------------------------------------

static void test_broken_coco(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } broken[] = {
        {"{\"images\": [\n  {\"id\": 1,\n \"file_name\": \"1.jpg\"},,", ".json:3:"},
        {"{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"}], \"annotations\": [{\"image_id\": "
         "1,\n\"category_id\": 1}]}",
         ".json:2:18: an annotation without bbox"},
        {"{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"},\n{\"id\": 1, \"file_name\": "
         "\"1.jpg\"}]}",
         ".json:2:32: image id 1 stands twice"},
        {"{\"images\": [{\"id\": \"a\"}]}", ".json:1:23: a string where a number"},
        {"{\"images\": [{\"id\": 1.5}]}", "1.5 is no whole number"},
        {"{\"images\": [{\"file_name\": \"1.jpg\"}]}", "an image without id"},
        {"{\"images\": [], \"annotations\": [{\"bbox\": [1, 2, 3]}]}", "bbox of 3 numbers"},
        {"{\"images\": [], \"annotations\": [{\"bbox\": [1, 2, 1e999, 4]}]}", "too large"},
        {"{\"images\": [], \"annotations\": [{\"segmentation\": [[1, 2, 3]]}]}",
         "a polygon of 3 numbers"},
        {"{\"images\": [], \"annotations\": [{\"segmentation\": {\"counts\": [3], \"size\": [2, "
         "2]}}]}",
         "run lengths cover 3 pixels"},
        {"{\"images\": [], \"annotations\": [{\"segmentation\": {\"counts\": \"~~\", \"size\": [2, "
         "2]}}]}",
         "damaged run lengths"},
        {"{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"}]", ".json:1:"},
    };
    put_jpeg("src/1.jpg", 20, 20);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        sr_pack_report report;
        put_text("src/a.json", broken[i].text);
        assert_status(SR_E_DATA,
                      pack(in_top("src/a.json"), in_top("dst"), (sr_pack_options){0}, &report));
        if (strstr(sr_error_message(), broken[i].said) == NULL)
            fail_msg("'%s' lacks '%s'", sr_error_message(), broken[i].said);
        assert_false(sr_path_exists(in_top("dst")));
    }
}

// The path of the JSON: pictures beside it, or beside its folder.
static void test_json_path(void **state) {
    (void)state;
    sr_pack_report report;
    make_coco();
    assert_ok(pack(in_top("src/annotations/instances_val2017.json"), in_top("dst"),
                   (sr_pack_options){0}, &report));
    assert_int_equal(1, report.records[SR_SPLIT_VAL]);
    assert_int_equal(5, report.unlabelled);
    put_text("src/val2017/own.json", coco_val);
    assert_ok(pack(in_top("src/val2017/own.json"), in_top("dst2"), (sr_pack_options){0}, &report));
    assert_int_equal(1, report.records[SR_SPLIT_VAL]);
}

static void test_shrunk_annotations(void **state) {
    (void)state;
    sr_pack_report report;
    sr_object o;
    make_coco();
    assert_ok(pack(in_top("src"), in_top("dst"),
                   (sr_pack_options){.max_side = 10, .allow_refused = 9}, &report));
    one_object("train", "train2017/1.jpg", &o); // 30 x 20 -> 15 x 10
    check_box(&o, 0.5, 1.25, 5.5, 3.25);
    one_object("train", "train2017/2.jpg", &o);
    sr_rle rle = {0};
    assert_ok(sr_rle_parse(&rle, o.mask, o.mask_bytes));
    assert_ok(sr_rle_check(&rle, 10, 15));
    sr_rle_release(&rle);
    run("rm -r '%s' '%s'", in_top("dst"), in_top("src"));
    make_masks();
    assert_ok(pack(in_top("src"), in_top("dst"),
                   (sr_pack_options){.max_side = 12, .allow_refused = 9, .void_class = 12},
                   &report));
    size_t bytes;
    sr_sample sample;
    sr_zstd zstd = {0};
    uint8_t ids[15 * 12];
    void *record = find_record("val", "images/val/1.jpg", &bytes);
    assert_ok(sr_sample_read(record, bytes, &sample));
    assert_true(sample.height == 12 && sample.width == 15);
    assert_ok(sr_zstd_expand(&zstd, sample.mask, sample.mask_bytes, ids, sizeof ids));
    assert_true(ids[0] == 1 && ids[1] == 0 && ids[2] == SR_MASK_VOID); // columns 1, 3, 5
    assert_int_equal(2, class_count("train", "0"));
    sr_zstd_release(&zstd);
    free(record);
}

// A folder of compressed shards; beside pictures archives are not looked into.
static void test_shards(void **state) {
    (void)state;
    sr_pack_report report;
    make_webdataset();
    run("gzip '%s'", in_top("src/val-0000.tar"));
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){.allow_refused = 9}, &report));
    check_webdataset(&report);
    put_jpeg("src/cat/1.jpg", 20, 20);
    assert_ok(pack(in_top("src"), in_top("dst2"), (sr_pack_options){0}, &report));
    assert_int_equal(1, report.records[SR_SPLIT_TRAIN]);
    assert_int_equal(2, report.ignored);
}

// Boxes of a picture that EXIF turns: as stored where the sizes say so, else of the upright one.
static void test_turned(void **state) {
    (void)state;
    sr_pack_report report;
    sr_detection d;
    size_t bytes;
    put_picture("src/stored.jpg", &(test_picture){.width = 40, .height = 30, .orientation = 6});
    put_picture("src/upright.jpg", &(test_picture){.width = 40, .height = 30, .orientation = 6});
    put_text("src/stored.xml", "<annotation><size><width>40</width><height>30</height></size>"
                               "</annotation>");
    put_text("src/upright.xml", "<annotation><size><width>30</width><height>40</height></size>"
                                "</annotation>");
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){0}, &report));
    void *record = find_record("train", "stored.jpg", &bytes);
    assert_ok(sr_detection_read(record, bytes, &d));
    assert_int_equal(1, d.picture.orientation);
    free(record);
    record = find_record("train", "upright.jpg", &bytes);
    assert_ok(sr_detection_read(record, bytes, &d));
    assert_int_equal(6, d.picture.orientation);
    free(record);
}

static void test_bad_lists(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } bad[] = {{"1.jpg\tcat\n1.jpg\n", "list.tsv:2: expected"},
               {"1.jpg\tcat\ttrain\tx\n", "list.tsv:1: expected"},
               {"1.jpg\tcat\tvalid\n", "list.tsv:1: split 'valid'"},
               {"\n\n", "empty list"}};
    put_jpeg("1.jpg", 20, 20);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sr_pack_report report;
        put_text("list.tsv", bad[i].text);
        assert_status(SR_E_DATA, pack(NULL, in_top("dst"),
                                      (sr_pack_options){.list = in_top("list.tsv")}, &report));
        assert_message(bad[i].said);
    }
    sr_pack_report report; // numbers are the classes' numbers; the list's folder is the source
    put_text("list.tsv", "1.jpg\t7\n");
    assert_ok(pack(NULL, in_top("dst"), (sr_pack_options){.list = in_top("list.tsv")}, &report));
    assert_int_equal(8, report.classes);
    assert_int_equal(7, label_of("train", "1.jpg"));
}

static void test_subset(void **state) {
    (void)state;
    sr_pack_report all, part;
    make_cifar();
    assert_ok(pack(in_top("src"), in_top("all"), (sr_pack_options){.allow_refused = 9}, &all));
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){.allow_refused = 9, .subset = 7},
                   &part));
    assert_int_equal(7, part.records[SR_SPLIT_TRAIN]);
    assert_int_equal(3, part.records[SR_SPLIT_TEST]);
    assert_int_equal(13, part.outside);
    sr_dataset *a, *b; // the first of the whole
    assert_ok(sr_dataset_open(in_top("all"), "train", &a));
    assert_ok(sr_dataset_open(in_top("dst"), "train", &b));
    for (int64_t i = 0; i < 7; i++) {
        const void *x, *y;
        size_t n, m;
        assert_ok(sr_dataset_read(a, i, &x, &n));
        assert_ok(sr_dataset_read(b, i, &y, &m));
        assert_int_equal(n, m);
        assert_memory_equal(x, y, n);
    }
    sr_dataset_free(a);
    sr_dataset_free(b);
    assert_ok(pack(in_top("src"), in_top("half"),
                   (sr_pack_options){.allow_refused = 9, .subset_part = 0.5}, &part));
    assert_int_equal(10, part.records[SR_SPLIT_TRAIN]);
    assert_int_equal(1, part.records[SR_SPLIT_TEST]);
}

static void test_rle(void **state) {
    (void)state;
    static const uint32_t counts[] = {0, 5, 1000000, 3, 3, 4000000000u, 1, 0, 7};
    sr_rle rle = {0}, again = {0};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        assert_ok(sr_rle_add(&rle, counts[i]));
    assert_ok(sr_rle_print(&rle));
    assert_ok(sr_rle_parse(&again, rle.text, rle.text_bytes));
    assert_int_equal(rle.count, again.count);
    assert_memory_equal(counts, again.counts, sizeof counts);
    // As COCO's own tools write [6, 1, 40, 4, 5, 4, 5, 4, 21].
    static const uint32_t theirs[] = {6, 1, 40, 4, 5, 4, 5, 4, 21};
    rle.count = 0;
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
        assert_ok(sr_rle_add(&rle, theirs[i]));
    assert_ok(sr_rle_print(&rle));
    assert_int_equal(12, rle.text_bytes);
    assert_memory_equal("61X13mN000`0", rle.text, 12);
    assert_status(SR_E_DATA, sr_rle_parse(&again, "h", 1)); // more follows, but nothing does
    sr_rle_release(&rle);
    sr_rle_release(&again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_top, remove_top)
        TEST(test_formats),   TEST(test_broken_coco),
        TEST(test_json_path), TEST(test_shrunk_annotations),
        TEST(test_turned),    TEST(test_shards),
        TEST(test_bad_lists), TEST(test_subset),
        TEST(test_rle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
