// SPDX-License-Identifier: Apache-2.0
// Single rules of importing: broken annotations reported with their position, annotations of
// pictures that shrink or are rotated, lists, subsets, compressed pixels, and what stat reports.
#include "tests/unit/dataio/import_fixture.h"

#include "dataio/formats/rle.h"
#include "dataio/image/mask_png.h"
#include "dataio/jpeg/decode.h"
#include "dataio/pack/inspect.h"
#include "dataio/record/zstd_frame.h"

static void make_idx_of_labels(void) {
    const uint8_t pictures[16 + 3] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1};
    const uint8_t labels[8 + 3] = {0, 0, 8, 1, 0, 0, 0, 3, 0, 1, 2};
    put_file("src/train-images-idx3-ubyte", pictures, sizeof pictures);
    put_file("src/train-labels-idx1-ubyte", labels, sizeof labels);
}

// -- annotations ------------------------------------------------------------------------------

static void test_broken_coco(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } broken[] = {
        {"{\"images\": [\n  {\"id\": 1,\n \"file_name\": \"1.jpg\"},,", ".json:3:"},
        {"{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"}], \"annotations\": [{\"image_id\": "
         "1,\n\"category_id\": 1}]}",
         "an annotation of image id 1, a.json:2:18: no bbox"},
        {"{\"images\": [{\"id\": \"a\"}]}", "a.json: 1:23: a string where a number"},
        {"{\"images\": [{\"id\": 1.5}]}", "1.5 is not a whole number"},
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
        {"{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"}]", ".json:1:45: "},
        {"{\"images\": [],\n\"categories\": [{\"id\": 1}]}", ".json:2:25: a category without name"},
        {"{\"images\": [], \"annotations\": [{\"bbox\": [1, Nope, 2, 4]}]}", "export it again"},
    };
    put_jpeg("src/1.jpg", 20, 20);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        sr_pack_report report;
        put_text("src/a.json", broken[i].text);
        assert_status(SR_E_DATA,
                      pack(in_top("src/a.json"), in_top("dst"), (sr_pack_options){0}, &report));
        if (strstr(sr_error_message(), broken[i].words) == NULL)
            fail_msg("'%s' lacks '%s'", sr_error_message(), broken[i].words);
        assert_false(sr_path_exists(in_top("dst")));
    }
}

// Single errors in a COCO file: each refuses its picture only, and the rest is packed.
static void test_flawed_coco(void **state) {
    (void)state;
    sr_pack_report report;
    sr_object o;
    char name[32];
    for (int i = 1; i <= 15; i++) {
        (void)snprintf(name, sizeof name, "src/%d.jpg", i);
        put_jpeg(name, 20, 20);
    }
    put_text(
        "src/a.json",
        "{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"}, {\"id\": 2, \"file_name\": "
        "\"2.jpg\", \"width\": NaN, \"height\": NaN},\n"
        "{\"id\": 1, \"file_name\": \"1.jpg\"}, {\"id\": 3, \"file_name\": \"3.jpg\"},\n"
        "{\"id\": 3, \"file_name\": \"4.jpg\"}, {\"id\": null, \"file_name\": \"5.jpg\"},\n"
        "{\"id\": 6, \"file_name\": \"6.jpg\"}, {\"id\": 7, \"file_name\": \"7.jpg\"},\n"
        "{\"id\": 8, \"file_name\": \"8.jpg\"}, {\"id\": 9, \"file_name\": \"9.jpg\"},\n"
        "{\"id\": 10, \"file_name\": \"10.jpg\"}, {\"id\": 11, \"file_name\": \"11.jpg\"},\n"
        "{\"id\": 12, \"file_name\": \"12.jpg\"}, {\"id\": 13, \"file_name\": \"13.jpg\"},\n"
        "{\"id\": 14, \"file_name\": \"14.jpg\"}, {\"file_name\": \"15.jpg\"}],\n"
        "\"categories\": [{\"id\": 1, \"name\": \"ant\"}, {\"id\": 1, \"name\": \"ant\"},\n"
        "{\"id\": 2, \"name\": \"bee\"}, {\"id\": 2, \"name\": \"cow\"}, {\"id\": 3, \"name\": "
        "\"ant\"}],\n"
        "\"annotations\": [\n"
        "{\"id\": 1, \"image_id\": 1, \"category_id\": 3, \"area\": NaN, \"bbox\": [1, 2, -1, "
        "30]},\n"
        "{\"id\": 1, \"image_id\": 3, \"category_id\": 1, \"bbox\": [1, 2, 3, 4]},\n"
        "{\"id\": 6, \"image_id\": 6, \"category_id\": 2, \"bbox\": [1, 2, 3, 4]},\n"
        "{\"id\": 7, \"image_id\": 7, \"category_id\": 1, \"bbox\": [1, 2, NaN, 4]},\n"
        "{\"id\": 8, \"image_id\": 8, \"category_id\": 1, \"bbox\": [1, -Infinity, 3, 4]},\n"
        "{\"id\": 9, \"image_id\": 9, \"category_id\": 1, \"bbox\": [1e308, 2, 1e308, 4]},\n"
        "{\"id\": 10, \"image_id\": 10, \"category_id\": 1, \"bbox\": [1, 2, 3, 4], "
        "\"segmentation\": {\"counts\": [1, 2], \"size\": [20, 20]}, \"iscrowd\": 1},\n"
        "{\"id\": 11, \"image_id\": 11, \"category_id\": 1, \"bbox\": [1, 2, 3, 4], "
        "\"segmentation\": {\"counts\": [1, 29], \"size\": [5, 6]}, \"iscrowd\": 1},\n"
        "{\"id\": 12, \"image_id\": 12, \"category_id\": 1, \"bbox\": [1, 2, 3]},\n"
        "{\"id\": 13, \"image_id\": 12, \"category_id\": 1, \"bbox\": [1, 2, 3, 4]},\n"
        "{\"id\": 14, \"image_id\": \"13\", \"category_id\": 1, \"bbox\": [1, 2, 3, 4]},\n"
        "{\"id\": 15, \"image_id\": 77, \"category_id\": 1, \"bbox\": [1, 2, 3, 4]},\n"
        "{\"id\": 16, \"image_id\": 77, \"category_id\": 1, \"bbox\": [1, 2]}]}\n");
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){.allow_refused = 99}, &report));
    assert_int_equal(4, report.records[SR_SPLIT_TRAIN]); // 1, 2, 13 and 14
    assert_int_equal(1, report.objects);
    assert_int_equal(1, report.degenerate);
    assert_int_equal(0, report.unlabelled);
    assert_int_equal(2, class_count("train", "ant"));
    one_object("train", "1.jpg", &o);
    check_box(&o, 1, 2, 0, 32);
    assert_int_equal(0, o.label);
    assert_int_equal(13, report.refused);
    check_refused("\n3.jpg,image id 3 of a.json is also used for 4.jpg");
    check_refused("\n4.jpg,image id 3 of a.json is also used for another picture");
    check_refused("\n5.jpg,a.json:3:");
    check_refused(
        "\n6.jpg,\"annotation id 6 of image id 6, a.json: an object of class 'category 2, "
        "which is both bee and cow'");
    check_refused("\n7.jpg,\"annotation id 7 of image id 7, a.json:15:");
    check_refused("NaN, Infinity or an empty string where a number was expected\"\n8.jpg,");
    check_refused("\n9.jpg,\"annotation id 9 of image id 9, a.json:17:");
    check_refused(": a box of infinite size");
    check_refused("\n10.jpg,\"annotation id 10 of image id 10, a.json:18:");
    check_refused(
        "\n11.jpg,\"annotation id 11 of image id 11, a.json: an object's mask is of 6 x 5");
    check_refused("\n12.jpg,\"annotation id 12 of image id 12, a.json:20:");
    check_refused("\n15.jpg,a.json:8:");
    check_refused("\na.json,\"annotation id 14, 22:");
    check_refused("\na.json,\"annotation id 15 is of image id 77, which is not defined (2 "
                  "annotations are)\"");
    // A file that --val-fraction's check refuses is not held out for validation.
    run("rm -r '%s'", in_top("dst"));
    assert_ok(pack(in_top("src"), in_top("dst"),
                   (sr_pack_options){.allow_refused = 99, .val_fraction = 0.5}, &report));
    assert_int_equal(2, report.records[SR_SPLIT_TRAIN]);
    assert_int_equal(2, report.records[SR_SPLIT_VAL]);
    assert_int_equal(13, report.refused);
}

static void test_broken_yolo(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } broken[] = {
        {"train: images\nnames: {0: a, 2: b}\n", "/src/data.yaml:2: names: class 1 has no name"},
        {" {train: images,\n names: {0: a, 2: b}}\n",
         "/src/data.yaml:2: names: class 1 has no name"},
        {"train: images\nnames:\n 0: a\n 0: b\n",
         ":4: names: class 0 appears twice, first in line 3"},
        {"train: images\nnames:\n x: a\n", ":3: names: 'x' is not a class number"},
        {"train: images\nnames: coco.names\n", ":2: names: expected a list or a map"},
        {"train: images\nnames: [[a]]\n", ":2: names: a list or a map where a name"},
        {"train: images\nnames: [a, '']\n", ":2: names: class 1 has no name"},
        {"train: images\nnc: 3\nnames: [a, b]\n", ":2: nc is 3, but names has 2"},
        {"train: images\nnc: many\n", ":2: nc: 'many' is not a number of classes"},
        {"train: images\ntrain: images\nnames: [a]\n", ":2: train appears twice, first in line 1"},
        {"train: {a: b}\nnames: [a]\n", ":1: train: expected a folder"},
        {"train: images\nnames: [a\n", "not YAML"},
        {"train: images\nnames: [caf\xe9]\n", ":2: byte 0xe9 is not part of UTF-8"},
        {"train: &x images\nval: *x\nnames: [a]\n", ":2: an alias"},
        {"train: pictures\nnames: [a]\n", "no picture and no list of pictures at pictures"},
        {"train: images\nval: images\nnames: [a]\n", "data.yaml names it for several splits"},
    };
    put_jpeg("src/images/1.jpg", 20, 20);
    put_text("src/labels/1.txt", "0 0.5 0.5 0.5 0.5\n");
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        sr_pack_report report;
        put_text("src/data.yaml", broken[i].text);
        assert_status(SR_E_DATA, pack(in_top("src"), in_top("dst"), (sr_pack_options){0}, &report));
        if (strstr(sr_error_message(), broken[i].words) == NULL)
            fail_msg("'%s' lacks '%s'", sr_error_message(), broken[i].words);
        assert_false(sr_path_exists(in_top("dst")));
    }
    sr_pack_report report;
    put_text("src/data.yaml", "train: images\nnames: [a]\n");
    put_text("src/other.yaml", "train: images\nnames: [b]\n"); // data.yaml is used
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){0}, &report));
    assert_int_equal(1, class_count("train", "a"));
    run("mv '%s' '%s'", in_top("src/data.yaml"), in_top("src/third.yml"));
    assert_status(SR_E_DATA, pack(in_top("src"), in_top("dst2"), (sr_pack_options){0}, &report));
    assert_message("other.yaml and third.yml both describe the pictures");
    run("rm '%s' '%s'; mv '%s' '%s'", in_top("src/third.yml"), in_top("src/other.yaml"),
        in_top("src/labels/1.txt"), in_top("src/labels/2.txt"));
    put_text("src/data.yaml", "train: images\nnames: [a]\n");
    assert_status(SR_E_DATA, pack(in_top("src"), in_top("dst2"), (sr_pack_options){0}, &report));
    assert_message("no picture of train has labels; of images/1.jpg they were looked for in "
                   "labels/1.txt");
}

// Splits that contain their images and labels; no data.yaml; classes.txt; the path of a data.yaml;
// key points.
static void test_yolo_layouts(void **state) {
    (void)state;
    sr_pack_report report;
    sr_object o;
    put_jpeg("src/train/images/1.jpg", 20, 20);
    put_jpeg("src/valid/images/1.jpg", 20, 20);
    put_text("src/train/labels/1.txt", "1 0.5 0.5 0.5 0.5\n");
    put_text("src/valid/labels/1.txt", "0 0.5 0.5 0.5 0.5 0.1 0.2 2 0.3 0.4 0\n");
    put_text("src/valid/labels/classes.txt", "owl\nfox\n");
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){.allow_refused = 1}, &report));
    check_refused("valid/images/1.jpg,\"valid/labels/1.txt:1: 2 is not normalised");
    assert_int_equal(1, report.records[SR_SPLIT_TRAIN]);
    assert_int_equal(2, class_count("train", "owl"));
    run("rm -r '%s' '%s'", in_top("dst"), in_top("src/valid/labels/classes.txt"));
    put_text("src/valid/labels/1.txt", "0 0.5 0.5 0.5 0.5\n");
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){0}, &report));
    assert_int_equal(1, report.records[SR_SPLIT_VAL]);
    assert_int_equal(2, class_count("train", "0"));
    run("rm -r '%s'", in_top("dst"));
    put_text("src/data.yaml", "train: ../train/images\nval: ../valid/images\nkpt_shape: [2, 3]\n"
                              "nc: 2\nnames: ['b', 'a']\n");
    put_text("src/valid/labels/1.txt", "0 0.5 0.5 0.5 0.5 0.1 0.2 2 0.3 0.4 0\n");
    assert_ok(pack(in_top("src/data.yaml"), in_top("dst"), (sr_pack_options){0}, &report));
    assert_int_equal(1, report.records[SR_SPLIT_VAL]);
    one_object("val", "1.jpg", &o);
    check_box(&o, 5, 5, 15, 15);
    assert_int_equal(2, class_count("train", "b"));
}

// Labels next to their pictures, as labelImg and Darknet store them; a byte order mark; .TXT.
static void test_yolo_next_to_pictures(void **state) {
    (void)state;
    sr_pack_report report;
    put_jpeg("src/train/train_1.jpg", 20, 20);
    put_jpeg("src/train/2.JPG", 20, 20);
    put_jpeg("src/train/background.jpg", 20, 20);
    put_text("src/train/train_1.txt", "\xef\xbb\xbf"
                                      "1 0.5 0.5 0.5 0.5\n");
    put_text("src/train/2.TXT", "0 0.5 0.5 0.5 0.5\n");
    put_text("src/train/classes.txt", "owl\nfox\n");
    put_text("src/notes.txt", "nothing\n");
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){0}, &report));
    assert_int_equal(3, report.records[SR_SPLIT_TRAIN]);
    assert_int_equal(2, report.objects);
    assert_int_equal(2, class_count("train", "owl"));
    run("rm -r '%s' '%s'", in_top("dst"), in_top("src/train/classes.txt"));
    put_text("src/data.yaml", "train: train\nnames: [a, b]\n");
    put_text("src/train/2.TXT", "0 0.5 0.5 7 0.5\n");
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){.allow_refused = 1}, &report));
    check_refused("train/2.JPG,\"train/2.TXT:1: 7 is not normalised");
    assert_int_equal(1, report.objects);
}

// The path of the JSON file, with pictures next to it, or next to its folder.
static void test_json_path(void **state) {
    (void)state;
    sr_pack_report report;
    make_coco();
    assert_ok(pack(in_top("src/annotations/instances_val2017.json"), in_top("dst"),
                   (sr_pack_options){0}, &report));
    assert_int_equal(1, report.records[SR_SPLIT_VAL]);
    assert_int_equal(6, report.unlabelled);
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
                   (sr_pack_options){.max_side = 12, .allow_refused = 9, .ignore_value = 12},
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

// A folder of compressed shards; archives next to pictures are not read.
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

// Boxes of a picture that EXIF rotates: relative to the stored picture where the annotated size
// says so, else to the upright one.
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
        const char *text, *words;
    } bad[] = {{"1.jpg\tcat\n1.jpg\n", "list.tsv:2: expected"},
               {"1.jpg\tcat\ttrain\tx\n", "list.tsv:1: expected"},
               {"1.jpg\tcat\tdev\n", "list.tsv:1: split 'dev'"},
               {"\n\n", "empty list"}};
    put_jpeg("1.jpg", 20, 20);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sr_pack_report report;
        put_text("list.tsv", bad[i].text);
        assert_status(SR_E_DATA, pack(NULL, in_top("dst"),
                                      (sr_pack_options){.list = in_top("list.tsv")}, &report));
        assert_message(bad[i].words);
    }
    sr_pack_report report; // the list's folder is the source
    put_text("list.tsv", "1.jpg\t0\n");
    assert_ok(pack(NULL, in_top("dst"), (sr_pack_options){.list = in_top("list.tsv")}, &report));
    assert_int_equal(1, report.records[SR_SPLIT_TRAIN]);
}

// A line number in the names file is a class number, even if two lines are equal; a byte order mark
// is skipped.
static void test_class_names(void **state) {
    (void)state;
    sr_pack_report report;
    sr_dataset *set;
    make_idx_of_labels();
    put_text("names.txt", "\xef\xbb\xbf"
                          "crane\ncrane\n\n  maillot \r\n");
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){.classes = in_top("names.txt")},
                   &report));
    assert_ok(sr_dataset_open(in_top("dst"), "train", &set));
    assert_int_equal(3, sr_dataset_class_count(set));
    assert_string_equal("crane", sr_dataset_class_name(set, 0));
    assert_string_equal("crane", sr_dataset_class_name(set, 1));
    assert_string_equal("  maillot", sr_dataset_class_name(set, 2));
    sr_dataset_free(set);
    put_file("names.txt", "a\0b\n", 4);
    assert_status(SR_E_DATA, pack(in_top("src"), in_top("dst2"),
                                  (sr_pack_options){.classes = in_top("names.txt")}, &report));
    assert_message("zero bytes in a file of names");
}

// Files of Windows programs: a byte order mark, and '\\' between folders.
static void test_windows_coco(void **state) {
    (void)state;
    sr_pack_report report;
    put_jpeg("src/a/1.jpg", 20, 20);
    put_jpeg("src/b/1.jpg", 20, 20);
    put_text("src/x.json", "\xef\xbb\xbf{\"images\": [{\"id\": 1, \"file_name\": \"b\\\\1.jpg\"}],"
                           "\"annotations\": [], \"categories\": [{\"id\": 1, \"name\": \"c\"}]}");
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){0}, &report));
    assert_int_equal(1, report.records[SR_SPLIT_TRAIN]);
    assert_int_equal(1, report.unlabelled);
    size_t bytes;
    free(find_record("train", "b/1.jpg", &bytes));
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
    sr_dataset *a, *b; // the first one is of the whole
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
    // As COCO's own tools encode [6, 1, 40, 4, 5, 4, 5, 4, 21].
    static const uint32_t theirs[] = {6, 1, 40, 4, 5, 4, 5, 4, 21};
    rle.count = 0;
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
        assert_ok(sr_rle_add(&rle, theirs[i]));
    assert_ok(sr_rle_print(&rle));
    assert_int_equal(12, rle.text_bytes);
    assert_memory_equal("61X13mN000`0", rle.text, 12);
    assert_status(SR_E_DATA,
                  sr_rle_parse(&again, "h", 1)); // the continuation bit is set, but no byte follows
    sr_rle_release(&rle);
    sr_rle_release(&again);
}

// Compressed pixels are decoded to those of the uncompressed records.
static void test_zstd(void **state) {
    (void)state;
    sr_pack_report report;
    sr_decoder *decoder;
    size_t bytes[2] = {0, 0};
    void *record[2];
    sr_pixels pixels[2];
    put_jpeg("src/cat/1.jpg", 40, 30);
    assert_ok(sr_decoder_create(&decoder));
    for (int z = 0; z < 2; z++) {
        sr_sample sample;
        int64_t width, height;
        assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){.raw = true, .zstd = z == 1},
                       &report));
        record[z] = find_record("train", "1.jpg", &bytes[z]);
        assert_ok(sr_sample_read(record[z], bytes[z], &sample));
        assert_true(!sample.encoded && sample.zstd == (z == 1));
        const sr_encoded encoded = sr_encoded_of(&sample);
        assert_ok(sr_decoder_open(decoder, &encoded, &width, &height));
        assert_ok(sr_decoder_read(decoder, &(sr_region){.width = 40, .height = 30}, 1, &pixels[z]));
        run("rm -r '%s'", in_top("dst"));
    }
    assert_int_not_equal(bytes[0], bytes[1]);
    assert_memory_equal(pixels[0].data, pixels[1].data, 40 * 30 * 3);
    free(record[0]);
    free(record[1]);
    sr_decoder_free(decoder);
}

static void test_stat(void **state) {
    (void)state;
    sr_pack_report report;
    sr_dataset *set;
    sr_split_stat stat;
    make_coco();
    assert_ok(pack(in_top("src"), in_top("dst"), (sr_pack_options){.allow_refused = 9}, &report));
    assert_ok(sr_dataset_open(in_top("dst"), "train", &set));
    assert_ok(sr_inspect_stat(set, &stat));
    assert_true(stat.has_boxes && stat.boxes == 3 && stat.looked_at == 3 && stat.difficult == 1);
    assert_true(stat.small == 3 && stat.large == 0);
    assert_true(stat.class_boxes[0] == 2 && stat.class_boxes[1] == 1);
    assert_true(stat.sides[0] == 0 && stat.sides[4] > 24.4 && stat.sides[4] < 24.6); // of 600
    sr_split_stat_release(&stat);
    sr_dataset_free(set);
    run("rm -r '%s' '%s'", in_top("dst"), in_top("src"));
    make_masks();
    assert_ok(pack(in_top("src"), in_top("dst"),
                   (sr_pack_options){.allow_refused = 9, .ignore_value = 12}, &report));
    assert_ok(sr_dataset_open(in_top("dst"), "train", &set));
    assert_ok(sr_inspect_stat(set, &stat));
    assert_true(stat.has_masks && stat.pixels == 600 && stat.class_pixels[1] == 200);
    sr_split_stat_release(&stat);
    sr_dataset_free(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_top, remove_top)
        TEST(test_class_names), TEST(test_windows_coco), TEST(test_yolo_next_to_pictures),
        TEST(test_broken_yolo), TEST(test_yolo_layouts), TEST(test_broken_coco),
        TEST(test_flawed_coco), TEST(test_json_path),    TEST(test_shrunk_annotations),
        TEST(test_turned),      TEST(test_shards),       TEST(test_bad_lists),
        TEST(test_subset),      TEST(test_rle),          TEST(test_zstd),
        TEST(test_stat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
