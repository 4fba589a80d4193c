// SPDX-License-Identifier: Apache-2.0
// Every format of the table, from a folder and from a tar of it: records, classes, splits, and how
// unsuitable files are handled. A format without a case here fails.
#include "tests/unit/dataio/import_fixture.h"

#include <sys/stat.h>

#include "dataio/formats/format.h"
#include "dataio/formats/rle.h"
#include "dataio/record/protocol.h"
#include "dataio/record/zstd_frame.h"

// -- one case for each format ------------------------------------------------------------------

static void make_classes(void) {
    put_jpeg("src/cat/1.jpg", 20, 16);
    put_jpeg("src/dog/2.jpg", 24, 16);
}

static void check_classes(const sr_pack_report *r) {
    assert_int_equal(2, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(1, label_of("train", "dog/2.jpg"));
}

static void make_pictures(void) {
    put_jpeg("src/train/1.jpg", 40, 30);
    put_jpeg("src/train/2.jpg", 40, 30);
    put_jpeg("src/val/3.jpg", 40, 30);
}

static void check_pictures(const sr_pack_report *r) {
    assert_int_equal(2, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(1, r->records[SR_SPLIT_VAL]);
    assert_int_equal(0, class_count("train", NULL));
    assert_int_equal(-1, label_of("train", "train/2.jpg"));
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
    check_refused("VOC/JPEGImages/size.jpg,\"the annotation is for a picture of 41 x 30");
    check_refused("VOC/JPEGImages/odd.jpg,\"an object of class 'bird'");
    check_refused("nowhere,\"is listed in");
}

static void check_masks(const sr_pack_report *r) {
    size_t bytes = 0;
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
    check_refused(
        "d/images/train/2.jpg,\"mask d/masks/train/2.png is 29 x 20, the picture 30 x 20");
    check_refused("d/images/train/3.jpg,a picture without a mask");
    check_refused("d/masks/train/4.png,a mask without a picture");
}

static void check_coco(const sr_pack_report *r) {
    sr_object o;
    assert_int_equal(3, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(1, r->records[SR_SPLIT_VAL]);
    assert_int_equal(4, r->objects);
    assert_int_equal(1, r->degenerate);
    assert_int_equal(1, r->unlabelled);
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
    assert_int_equal(5, r->refused);
    check_refused(
        "train2017/4.jpg,\"annotation id 44 of image id 8, annotations/instances_train2017"
        ".json: an object of class 'category 3, not defined'");
    check_refused("gone.jpg,\"image id 9 of annotations/instances_train2017.json, but there is no");
    check_refused(
        "annotations/instances_train2017.json,\"an annotation is of image id 99, which is "
        "not defined (1 annotation is)\"");
    check_refused("\n5.jpg,image id 11 of annotations/instances_train2017.json names a picture");
    check_refused(
        "train2017/5.jpg,image id 11 of annotations/instances_train2017.json also names this");
}

static void check_yolo(const sr_pack_report *r) {
    sr_object o;
    sr_detection d;
    size_t bytes;
    assert_int_equal(6, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(1, r->records[SR_SPLIT_VAL]);
    assert_int_equal(0, r->records[SR_SPLIT_TEST]);
    assert_int_equal(5, r->objects);
    assert_int_equal(1, r->degenerate);
    assert_int_equal(2, r->unlabelled);   // not in val.txt; a test split without labels
    assert_int_equal(11, r->annotations); // including data.yaml and val.txt
    assert_int_equal(0, r->ignored);
    assert_int_equal(3, class_count("train", "red fox"));
    one_object("train", "images/train/1.jpg", &o);
    check_box(&o, 15, 5, 25, 15);
    assert_true(o.label == 1 && !o.difficult && !o.crowd && o.mask == NULL);
    one_object("train", "images/train/2.jpg", &o);
    check_box(&o, 10, 5, 30, 20);
    const char *key;
    size_t n, numbers = 0;
    bool more;
    sr_feature polygon, number;
    assert_ok(sr_record_next(&o.outlines, &key, &n, &polygon, &more));
    sr_record_cursor points = sr_feature_entries(&polygon);
    while (sr_record_next(&points, &key, &n, &number, &more) == SR_OK && more)
        numbers++;
    assert_int_equal(6, numbers);
    one_object("train", "turned.jpg", &o); // as displayed
    check_box(&o, 0, 0, 30, 40);
    one_object("train", "images/extra/deep/1.jpg", &o);
    check_box(&o, 11, 5, 33, 15);
    one_object("val", "images/val/1.jpg", &o);
    check_box(&o, 20, 10, 20, 10);
    assert_int_equal(2, o.label);
    void *record = find_record("train", "background.jpg", &bytes);
    assert_ok(sr_detection_read(record, bytes, &d));
    assert_ok(sr_detection_next(&d, &o, &more));
    assert_false(more);
    free(record);
    assert_int_equal(6, r->refused);
    check_refused(
        "ds/images/train/class.jpg,\"ds/labels/train/class.txt:2: class 3, but there are 3");
    check_refused(
        "ds/images/train/pixels.jpg,\"ds/labels/train/pixels.txt:3: 20 is not normalised");
    check_refused("ds/images/train/short.jpg,\"ds/labels/train/short.txt:1: a class and 3 numbers");
    check_refused("ds/images/train/twice.jpg,\"data.yaml names it for several splits");
    check_refused("ds/labels/train/gone.txt,labels without a picture");
    check_refused("ds/val.txt,line 4: there is no picture images/val/gone.jpg");
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
    check_refused("c/data_batch_2.bin,not a whole number");
    check_refused("c/data_batch_3.bin,not a whole number");
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

// A directory with one split, as the original writer makes it.
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
        sr_record_put_bytes(&writer, "data", "pixels", 2 + (size_t)i);
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

// -- data sets with masks ---------------------------------------------------------------------

// The first ids of the mask of a record.
static void check_first_ids(const char *split, const char *name, int a, int b, int c) {
    size_t bytes = 0;
    sr_sample sample;
    sr_zstd zstd = {0};
    uint8_t ids[30 * 20];
    void *record = find_record(split, name, &bytes);
    assert_ok(sr_sample_read(record, bytes, &sample));
    assert_ok(sr_zstd_expand(&zstd, sample.mask, sample.mask_bytes, ids, sizeof ids));
    assert_true(ids[0] == a && ids[1] == b && ids[2] == c);
    sr_zstd_release(&zstd);
    free(record);
}

static void make_voc_masks(void) {
    static const char *const names[] = {"2007_000032", "2007_000039", "2007_000063", "2007_000068"};
    for (int i = 0; i < 4; i++) {
        char path[96];
        (void)snprintf(path, sizeof path, "src/VOC2012/JPEGImages/%s.jpg", names[i]);
        put_jpeg(path, 30, 20);
        (void)snprintf(path, sizeof path, "src/VOC2012/SegmentationClass/%s.png", names[i]);
        if (i < 3)
            put_mask(path, 30, 20, SPNG_COLOR_TYPE_INDEXED);
        (void)snprintf(path, sizeof path, "src/VOC2012/SegmentationObject/%s.png", names[i]);
        put_mask(path, 30, 20, SPNG_COLOR_TYPE_INDEXED);
    }
    put_jpeg("src/VOC2012/JPEGImages/2007_000070.jpg", 30, 20);
    put_text("src/VOC2012/ImageSets/Segmentation/train.txt", "2007_000032\n2007_000068\nnowhere\n");
    put_text("src/VOC2012/ImageSets/Segmentation/val.txt", "2007_000039\n");
    put_text("src/VOC2012/ImageSets/Segmentation/trainval.txt", "2007_000032\n2007_000039\n");
    put_text("src/VOC2012/ImageSets/Main/train.txt", "2007_000063\n");
}

static void check_voc_masks(const sr_pack_report *r) {
    assert_true(r->records[SR_SPLIT_TRAIN] == 1 && r->records[SR_SPLIT_VAL] == 1);
    assert_int_equal(2, r->unlabelled); // 2007_000063 and 2007_000070, in no list
    assert_int_equal(21, class_count("train", "background"));
    check_first_ids("train", "2007_000032.jpg", 0, 1, 11);
    check_refused("VOC2012/JPEGImages/2007_000068.jpg,a picture without a mask");
    check_refused("nowhere,\"is listed in ImageSets");
    assert_int_equal(2, r->refused);
}

static void put_city(const char *split, const char *name, const char *end) {
    char path[128];
    (void)snprintf(path, sizeof path, "src/leftImg8bit/%s/ulm/%s_leftImg8bit.png", split, name);
    put_mask(path, 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
    (void)snprintf(path, sizeof path, "src/gtFine/%s/ulm/%s_gtFine_%s.png", split, name, end);
    put_mask(path, 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
    (void)snprintf(path, sizeof path, "src/gtFine/%s/ulm/%s_gtFine_color.png", split, name);
    put_mask(path, 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
}

static void make_cityscapes(void) {
    put_city("train", "ulm_000000_000019", "labelIds");
    put_city("train", "ulm_000001_000019", "labelIds");
    put_city("val", "ulm_000002_000019", "labelIds");
    put_mask("src/leftImg8bit/train_extra/ulm/ulm_000009_000019_leftImg8bit.png", 30, 20,
             SPNG_COLOR_TYPE_GRAYSCALE);
    put_text("src/gtFine/val/ulm/ulm_000002_000019_gtFine_polygons.json", "{\"objects\": []}");
}

static void check_cityscapes(const sr_pack_report *r) {
    assert_true(r->records[SR_SPLIT_TRAIN] == 2 && r->records[SR_SPLIT_VAL] == 1);
    assert_true(r->refused == 0 && r->unlabelled == 1 && r->ignored == 4);
    assert_int_equal(19, class_count("train", "road"));
    // 0 and 1 are no train ids, 11 is building.
    check_first_ids("train", "ulm_000001_000019_leftImg8bit.png", 255, 255, 2);
}

static void make_ade20k(void) {
    put_jpeg("src/ADE/images/training/ADE_train_00000001.jpg", 30, 20);
    put_mask("src/ADE/annotations/training/ADE_train_00000001.png", 30, 20,
             SPNG_COLOR_TYPE_GRAYSCALE);
    put_jpeg("src/ADE/images/validation/ADE_val_00000001.jpg", 30, 20);
    put_mask("src/ADE/annotations/validation/ADE_val_00000001.png", 30, 20,
             SPNG_COLOR_TYPE_GRAYSCALE);
    put_jpeg("src/ADE/images/training/ADE_train_00000002.jpg", 30, 20);
}

static void check_ade20k(const sr_pack_report *r) {
    assert_true(r->records[SR_SPLIT_TRAIN] == 1 && r->records[SR_SPLIT_VAL] == 1);
    assert_int_equal(150, class_count("train", "wall"));
    check_first_ids("val", "ADE_val_00000001.jpg", 255, 0, 10);
    check_refused("ADE/images/training/ADE_train_00000002.jpg,a picture without a mask");
}

static void make_camvid(void) {
    static const char *const splits[] = {"train", "val", "test"};
    for (int i = 0; i < 3; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "src/CamVid/%s/0001TP_00669%d.png", splits[i], i);
        put_mask(path, 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
        (void)snprintf(path, sizeof path, "src/CamVid/%sannot/0001TP_00669%d.png", splits[i], i);
        put_mask(path, 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
    }
    put_text("src/CamVid/train.txt", "/SegNet/CamVid/train/0001TP_006690.png "
                                     "/SegNet/CamVid/trainannot/0001TP_006690.png\n");
}

static void check_camvid(const sr_pack_report *r) {
    assert_true(r->records[SR_SPLIT_TRAIN] == 1 && r->records[SR_SPLIT_VAL] == 1);
    assert_int_equal(1, r->records[SR_SPLIT_TEST]);
    assert_int_equal(11, class_count("train", "Sky"));
    check_first_ids("train", "0001TP_006690.png", 0, 1, 255);
}

static void make_coco_stuff(void) {
    put_jpeg("src/images/train2017/000000000009.jpg", 30, 20);
    put_mask("src/stuffthingmaps/train2017/000000000009.png", 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
    put_jpeg("src/images/train2017/000000000025.jpg", 30, 20);
    put_jpeg("src/val2017/000000000139.jpg", 30, 20);
    put_mask("src/stuffthingmaps/val2017/000000000139.png", 30, 20, SPNG_COLOR_TYPE_INDEXED);
    put_jpeg("src/images/val2017/000000000632.jpg", 30, 20);
    uint8_t ids[30 * 20] = {0, 12, 181}; // 12 is stop sign, the 12th class
    put_png("src/stuffthingmaps/val2017/000000000632.png", 30, 20, SPNG_COLOR_TYPE_GRAYSCALE, 8,
            ids, sizeof ids);
}

static void check_coco_stuff(const sr_pack_report *r) {
    assert_true(r->records[SR_SPLIT_TRAIN] == 0 && r->records[SR_SPLIT_VAL] == 1);
    assert_true(r->unlabelled == 1 && r->refused == 2 && r->classes == 171);
    check_first_ids("val", "000000000632.jpg", 0, 11, 170);
    check_refused("val2017/000000000139.jpg,\"mask stuffthingmaps/val2017/000000000139.png: pixel "
                  "(2, 0) has the value 11, which is not in the class map");
}

// The triangle of picture 1 at (1, 2.5), (11, 2.5), (11, 6.5); the crowd of picture 2; picture 3
// has a box only.
static void check_coco_masks(const sr_pack_report *r) {
    size_t bytes = 0;
    sr_sample sample;
    sr_zstd zstd = {0};
    uint8_t ids[30 * 20];
    assert_true(r->records[SR_SPLIT_TRAIN] == 2 && r->objects == 0);
    assert_int_equal(3, class_count("train", "background"));
    check_first_ids("train", "train2017/2.jpg", 0, 255, 255);
    void *record = find_record("train", "train2017/1.jpg", &bytes);
    assert_ok(sr_sample_read(record, bytes, &sample));
    assert_ok(sr_zstd_expand(&zstd, sample.mask, sample.mask_bytes, ids, sizeof ids));
    size_t covered = 0;
    for (size_t i = 0; i < sizeof ids; i++) {
        covered += ids[i] == 2; // ant, after background and zebra
        assert_true(ids[i] == 0 || ids[i] == 2);
    }
    assert_int_equal(16, covered);
    assert_true(ids[3 * 30 + 10] == 2 && ids[6 * 30 + 2] == 0);
    sr_zstd_release(&zstd);
    free(record);
    check_refused("train2017/3.jpg,\"an annotation of image id 7, "
                  "annotations/instances_train2017.json: an object has a box, but no outline");
    check_refused("train2017/4.jpg,\"annotation id 44 of image id 8, ");
}

// How the format of a source is found.
typedef enum how { DETECTED, LISTED, CHOSEN } how;

static const struct {
    const char *format;
    void (*make)(void);
    void (*check)(const sr_pack_report *report);
    how how;
} cases[] = {
    {"classes", make_classes, check_classes, DETECTED},
    {"pictures", make_pictures, check_pictures, DETECTED},
    {"voc", make_voc, check_voc, DETECTED},
    {"masks", make_masks, check_masks, DETECTED},
    {"voc-masks", make_voc_masks, check_voc_masks, DETECTED},
    {"cityscapes", make_cityscapes, check_cityscapes, DETECTED},
    {"ade20k", make_ade20k, check_ade20k, DETECTED},
    {"camvid", make_camvid, check_camvid, DETECTED},
    {"coco-stuff", make_coco_stuff, check_coco_stuff, DETECTED},
    {"coco", make_coco, check_coco, DETECTED},
    {"coco-masks", make_coco, check_coco_masks, CHOSEN},
    {"yolo", make_yolo, check_yolo, DETECTED},
    {"webdataset", make_webdataset, check_webdataset, DETECTED},
    {"cifar", make_cifar, check_cifar, DETECTED},
    {"idx", make_idx, check_idx, DETECTED},
    {"kplrecord", make_kplrecord, check_kplrecord, DETECTED},
    {"listed", make_listed, check_listed, LISTED},
};

// The folder, a tar of it and a compressed tar give the same shards.
static void check_case(size_t i) {
    sr_pack_report report;
    sr_source *source;
    sr_pack_options options = {.allow_refused = 100};
    char list[1024];
    (void)snprintf(list, sizeof list, "%s", in_top("list.tsv"));
    cases[i].make();
    options.list = cases[i].how == LISTED ? list : NULL;
    options.source_format = cases[i].how == CHOSEN ? cases[i].format : NULL;
    assert_ok(
        sr_format_open(in_top("src"), options.list, options.source_format, top, NULL, &source));
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_formats, make_top, remove_top),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
