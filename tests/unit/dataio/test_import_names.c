// SPDX-License-Identifier: Apache-2.0
// What names mean when a source is imported: splits, formats, paths, side folders; and the warnings
// where a name might mean something else.
#include "tests/unit/dataio/import_said.h"

#include <zlib.h>

#include "dataio/formats/format.h"
#include "dataio/import/path_text.h"

// -- splits ------------------------------------------------------------------------------------

static void test_split_names(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int whole, word;
    } names[] = {
        {"train", 0, 0},
        {"Training", 0, 0},
        {"TRAIN2017", 0, 0},
        {"trainval", 0, 0},
        {"valid", 1, 1},
        {"Validation", 1, 1},
        {"eval", 1, 1},
        {"val2014", 1, 1},
        {"test", 2, 2},
        {"testing", 2, 2},
        {"imagenet-val-07", -1, 1},
        {"val_images", -1, 1},
        {"trainImages", -1, 0},
        {"a.test.b", -1, 2},
        {"train_val", -1, 0},
        {"train_test", -1, -1},
        {"valley", -1, -1},
        {"testament", -1, -1},
        {"retrain", -1, -1},
        {"contest", -1, -1},
        {"valve-000", -1, -1},
        {"dev", -1, -1},
        {"tests", -1, -1},
        {"", -1, -1},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i].name);
        if (sr_split_named(names[i].name, n) != names[i].whole ||
            sr_split_word(names[i].name, n) != names[i].word)
            fail_msg("%s: %d, %d", names[i].name, sr_split_named(names[i].name, n),
                     sr_split_word(names[i].name, n));
    }
    assert_true(sr_split_resembles("valley", 6) && sr_split_resembles("x-dev", 5));
    assert_false(sr_split_resembles("train", 5) || sr_split_resembles("retrain", 7));
    assert_true(sr_split_is_union("TrainVal", 8) && !sr_split_is_union("train", 5));
    assert_int_equal(-1, sr_split_find("valid", 5)); // what serried writes has one name
}

static void test_split_folders(void **state) {
    (void)state;
    PUT_JPEGS("Train/cat/1.jpg", "Train/dog/1.jpg", "Validation/cat/1.jpg", "testing/dog/1.jpg");
    sr_pack_report r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 1, 1);
    check_class(1, "dog");
    check_reading("splits Train, Validation, testing");
    PUT_JPEGS("d/train_images/cat/1.jpg", "d/val_images/cat/1.jpg", "d/val_images/cat/2.jpg");
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 1, 2, 0);
    PUT_JPEGS("train_station/1.jpg", "test_tube/1.jpg"); // classes
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 0, 0);
    check_class(0, "test_tube");
    check_said("test_tube, train_station: treated as classes, not as splits");
    PUT_JPEGS("train_station/in/1.jpg", "test_tube/glass/1.jpg"); // also with folders below
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 0, 0);
    PUT_JPEGS("bus/1.jpg", "train/1.jpg", "valley/1.jpg");
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 3, 0, 0);
    check_said("train, valley: treated as classes");
    PUT_JPEGS("train/a/1.jpg", "trainval/a/1.jpg", "val/a/1.jpg");
    assert_status(SR_E_DATA, pack(in_top("src"), in_top("no"), (sr_pack_options){0}, &r));
    assert_message("trainval repeats both");
    PUT_JPEGS("train/a/1.jpg", "train/b/1.jpg", "dev/a/1.jpg");
    assert_status(SR_E_DATA, pack(in_top("src"), in_top("no"), (sr_pack_options){0}, &r));
    assert_message("dev: is it a split? Rename it to val or test");
    PUT_JPEGS("train/a/1.jpg", "dev/a/1.jpg", "test/a/1.jpg"); // a pair: not a class
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 1, 0, 1);
    check_said("dev: not treated as splits");
    check_refused("dev/a/1.jpg,\"is outside train, val and test");
    PUT_JPEGS("train1/a/1.jpg", "train1/b/1.jpg", "train2/a/2.jpg", "val/b/1.jpg");
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 3, 1, 0);
    check_reading("2 folders of pictures, a, b; splits");
    PUT_JPEGS("trainval/a/1.jpg", "test/a/1.jpg");
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 1, 0, 1);
    PUT_JPEGS("ant/1.jpg", "cat/1.jpg", "val/x/1.jpg"); // no pair: a class, and said
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 3, 0, 0);
    check_said("val: treated as a class, not as a split");
    PUT_JPEGS("ant/train/1.jpg", "ant/val/1.jpg", "cat/train/1.jpg"); // splits below classes
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 3, 0, 0);
    check_said("ant/train, ant/val, cat/train: inside a class, not treated as a split");
}

// Folders that unpacking repeats, and folders of pictures beside splits.
static void test_repeated_folders(void **state) {
    (void)state;
    static const char *const intel[] = {"seg_train/seg_train/ice/1.jpg",
                                        "seg_train/seg_train/sea/1.jpg",
                                        "seg_test/seg_test/sea/1.jpg", "seg_pred/seg_pred/1.jpg"};
    put_jpegs(intel, 3);
    sr_pack_report r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 0, 1);
    check_class(1, "sea");
    put_jpegs(intel, 4);
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 0, 1);
    check_refused("\nseg_pred/seg_pred/1.jpg,\"is outside train, val and test");
    PUT_JPEGS("x/train/train/ant/1.jpg", "x/train/train/cat/1.jpg", "x/val/val/cat/1.jpg");
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 1, 0);
    check_class(1, "cat");
    PUT_JPEGS("cat/cat/1.jpg", "dog/dog/1.jpg", "dog/dog/2.jpg");
    r = pack_src((sr_pack_options){0});
    check_class(1, "dog");
    PUT_JPEGS("train/train/a/1.jpg", "train/train/b/1.jpg", "val/val/a/1.jpg"); // as shards
    run("cd '%s' && tar cf train-0.tar -C train . && tar cf val-0.tar -C val . && rm -r train val",
        in_top("src"));
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 1, 0);
    check_class(1, "b");
}

static void put_shard(const char *name, int first) {
    char path[64];
    for (int i = first; i < first + 2; i++) {
        (void)snprintf(path, sizeof path, "work/%04d.jpg", i);
        put_jpeg(path, 20, 20);
        (void)snprintf(path, sizeof path, "work/%04d.cls", i);
        put_text(path, i % 2 ? "1" : "0");
    }
    assert_ok(sr_make_folders(in_top("src")));
    run("cd '%s' && tar cf ../src/%s * && rm *", in_top("work"), name);
}

static void test_split_shards(void **state) {
    (void)state;
    put_shard("harbour-000.tar", 0);
    put_shard("valley-000.tar", 2);
    put_shard("testament-000.tar", 4);
    sr_pack_report r = pack_src((sr_pack_options){0});
    check_splits(&r, 6, 0, 0);
    check_said("testament-000, valley-000: not treated as splits");
    put_shard("imagenet-VAL-000.tar", 6);
    put_shard("shards_test_000.tar", 8);
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 6, 2, 2);
}

// The other formats that take splits from folders.
static void test_split_formats(void **state) {
    (void)state;
    put_jpeg("src/images/Train/1.jpg", 30, 20);
    put_jpeg("src/images/VALID/1.jpg", 30, 20);
    put_text("src/labels/Train/1.txt", "0 0.5 0.5 0.5 0.5\n");
    put_text("src/labels/VALID/1.txt", "0 0.5 0.5 0.5 0.5\n");
    sr_pack_report r = pack_src((sr_pack_options){0});
    check_splits(&r, 1, 1, 0);
    check_reading("read as yolo");
    put_mask("src/masks/Train/1.png", 30, 20, SPNG_COLOR_TYPE_GRAYSCALE); // no background
    put_jpeg("src/images/Train/2.jpg", 30, 20);                           // background
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 1, 0);
    assert_int_equal(1, r.unlabelled);
    run("rm -r '%s'", in_top("src"));
    put_jpeg("src/images/training/1.jpg", 30, 20);
    put_jpeg("src/images/validation/1.jpg", 30, 20);
    put_mask("src/masks/training/1.png", 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
    put_mask("src/masks/validation/1.png", 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 1, 1, 0);
    check_reading("read as masks");
    run("rm -r '%s'", in_top("src"));
    put_jpeg("src/training/a.jpg", 30, 20);
    put_jpeg("src/Val/b.jpg", 30, 20);
    put_text("src/training/a.xml", "<annotation></annotation>");
    put_text("src/Val/b.xml", "<annotation></annotation>");
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 1, 1, 0);
    check_reading("read as voc");
    PUT_JPEGS("1.jpg", "2.jpg", "3.jpg");
    r = pack_list("1.jpg\ta\tTraining\n2.jpg\ta\tvalid\n3.jpg\ta\tTEST\n");
    check_splits(&r, 1, 1, 1);
}

static void put_voc(void) {
    static const char *const names[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < 4; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "src/JPEGImages/%s.jpg", names[i]);
        put_jpeg(path, 30, 20);
        (void)snprintf(path, sizeof path, "src/Annotations/%s.xml", names[i]);
        put_text(path, "<annotation></annotation>");
    }
}

// VOC's lists: trainval is the split that has no list.
static void test_voc_lists(void **state) {
    (void)state;
    put_voc();
    put_text("src/ImageSets/Main/trainval.txt", "a\nb\n./c\n");
    put_text("src/ImageSets/Main/test.txt", "d\n");
    sr_pack_report r = pack_src((sr_pack_options){0});
    check_splits(&r, 3, 0, 1);
    put_text("src/ImageSets/Main/train.txt", "a\nb\n");
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 1, 1);
    put_text("src/ImageSets/Main/Val.txt", "c\n");
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 1, 1);
    assert_int_equal(0, r.refused);
    put_text("src/Annotations/more/a.xml", "<annotation></annotation>");
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 1, 1, 1); // not with half of its objects
    check_refused("JPEGImages/a.jpg,a picture with several annotations");
}

// Lists as other programs write them, and other files there.
static void test_voc_list_files(void **state) {
    (void)state;
    put_voc();
    put_text("src/imagesets/Train.TXT", "\xef\xbb\xbf"
                                        "a.jpg\r\nb.JPG\r\n"); // in other ways of writing
    put_text("src/imagesets/main/val.txt", "JPEGImages\\c.jpg -1\n/voc/JPEGImages/d.jpg 1\n");
    sr_pack_report r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 2, 0);
    assert_int_equal(0, r.refused);
    assert_false(is_said("not read"));
    put_text("src/imagesets/main/dev.txt", "c\n");
    put_text("src/imagesets/main/ant_train.txt", "a\n"); // of one class
    put_text("src/imagesets/Layout/train.txt", "a\n");   // of another task
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 2, 0);
    check_said("src: imagesets/main/dev.txt: not read");
    run("cd '%s' && rm -r main Train.TXT", in_top("src/imagesets"));
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 4, 0, 0);
    check_said("src: imagesets/Layout/train.txt: not read");
}

// -- formats -----------------------------------------------------------------------------------

// Folders of two classes are not pictures and their masks, unless their names say so.
static void test_masks_or_classes(void **state) {
    (void)state;
    static const struct {
        const char *pictures, *masks;
        bool are_masks;
    } pairs[] = {{"photo", "xray", false},  {"without_mask", "with_mask", false},
                 {"cat", "masks", false},   {"x", "y", false},
                 {"images", "masks", true}, {"JPEGImages", "SegmentationMask", true},
                 {"img_01", "gt", true}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char path[96];
        run("rm -rf '%s'", in_top("src"));
        for (int k = 0; k < 2; k++) {
            (void)snprintf(path, sizeof path, "src/%s/%d.jpg", pairs[i].pictures, k);
            put_jpeg(path, 30, 20);
            (void)snprintf(path, sizeof path, "src/%s/%d.png", pairs[i].masks, k);
            put_mask(path, 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
        }
        sr_pack_report r = pack_src((sr_pack_options){0});
        check_splits(&r, pairs[i].are_masks ? 2 : 4, 0, 0);
        check_reading(pairs[i].are_masks ? "masks of pictures in" : "--format-in masks would take");
        r = pack_src((sr_pack_options){.source_format = "masks"});
        check_splits(&r, 2, 0, 0);
        r = pack_src((sr_pack_options){.source_format = "classes"});
        check_splits(&r, 4, 0, 0);
    }
    sr_pack_report r;
    put_text("other/x.7z", "7z\xbc\xaf\x27\x1c");
    put_text("other/x.gif", "GIF89a......");
    assert_status(SR_E_DATA, pack(in_top("other"), in_top("no"), (sr_pack_options){0}, &r));
    assert_message("found; other files: 1, refused: 1, the first: x.gif: GIF is not supported");
    put_jpeg("src/img_01/0.jpg", 30, 20);
    run("cd '%s' && for i in 0 1; do cp gt/$i.png img_01/$i.png; rm img_01/$i.jpg; done",
        in_top("src")); // pictures that are grey, too: the names decide
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 0, 0);
    check_reading("grey PNGs in gt as masks of pictures in img_01");
    assert_status(SR_E_DATA, pack(in_top("src"), in_top("no"),
                                  (sr_pack_options){.source_format = "coco"}, &r));
    assert_message("cannot be read as coco");
    assert_status(SR_E_USAGE, pack(in_top("src"), in_top("no"),
                                   (sr_pack_options){.source_format = "mask"}, &r));
    assert_message("did you mean 'masks'?");
}

// Pictures and masks of each split in folders of their own, and a test split without masks.
static void test_mask_splits(void **state) {
    (void)state;
    static const char *const splits[] = {"train", "val"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "src/%s_images/1.jpg", splits[i]);
        put_jpeg(path, 30, 20);
        (void)snprintf(path, sizeof path, "src/%s_masks/1.png", splits[i]);
        put_mask(path, 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
    }
    sr_pack_report r = pack_src((sr_pack_options){0});
    check_splits(&r, 1, 1, 0);
    check_reading("grey PNGs in train_masks as masks of pictures in train_images");
    put_jpeg("src/test_images/1.jpg", 30, 20);
    put_jpeg("src/test_images/2.jpg", 30, 20);
    put_jpeg("src/val_images/2.jpg", 30, 20);
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 1, 1, 0);
    assert_int_equal(2, r.unlabelled);
    check_refused("val_images/2.jpg,a picture without a mask");
    assert_int_equal(1, r.refused);
}

// Files beside the pictures of class folders are not taken for annotations.
static void test_class_folders_first(void **state) {
    (void)state;
    static const struct {
        const char *ending, *text, *other;
    } sides[] = {
        {"json", "{\"version\": \"5.0\", \"shapes\": []}", NULL},
        {"json", "{\"label\": 3}", "webdataset"},
        {"cls", "1", "webdataset"},
        {"xml", "<annotation></annotation>", "voc"},
        {"xml", "<x:xmpmeta/>", NULL},
        {"json", "{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"}], \"annotations\": []}",
         "coco"},
        {"txt", "0 0.5 0.5 0.5 0.5", NULL},
    };
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        PUT_JPEGS("cat/1.jpg", "cat/2.jpg", "dog/1.jpg", "dog/2.jpg");
        static const char *const stems[] = {"cat/1", "cat/2", "dog/1", "dog/2"};
        for (size_t k = 0; k < 4; k++) {
            char path[64];
            (void)snprintf(path, sizeof path, "src/%s.%s", stems[k], sides[i].ending);
            put_text(path, sides[i].text);
        }
        sr_pack_report r = pack_src((sr_pack_options){0});
        check_splits(&r, 4, 0, 0);
        check_class(1, "dog");
        check_reading("read as classes");
        if (sides[i].other != NULL) {
            check_reading(sides[i].other);
            sr_source *source;
            assert_ok(sr_format_open(in_top("src"), NULL, sides[i].other, top, NULL, &source));
            assert_string_equal(sides[i].other, source->format->name);
            sr_source_free(source);
        }
    }
    put_text("src/classes.txt", "cat\ndog\n"); // beside texts that might be YOLO's
    sr_pack_report r = pack_src((sr_pack_options){0});
    check_splits(&r, 4, 0, 0);
    check_reading("--format-in yolo would take");
    run("cd '%s' && rm src/classes.txt && for f in src/*/*.jpg; do echo '{\"label\": 1}' > "
        "${f%%.jpg}.json; done && tar cf t.tar -C src . && rm -r src && mv t.tar src",
        top);
    r = pack_src((sr_pack_options){0}); // nor in an archive
    check_class(1, "dog");
}

// Class folders that may mean something else are packed as such, and it is said.
static void test_class_doubts(void **state) {
    (void)state;
    static const struct {
        const char *names[4], *said; // said: NULL: nothing
        const char *then;            // done in src before
    } rows[] = {
        {{"images/1.jpg", "masks/1_mask.jpg"},
         "images, masks: treated as classes, not as pictures",
         ":"},
        {{"JPEGImages/1.jpg", "SegmentationClass/1.jpg", "SegmentationObject/1.jpg"},
         "JPEGImages, SegmentationClass: treated as classes",
         ":"},
        {{"photo/1.jpg", "xray/1.jpg"}, NULL, ":"},
        {{"0/1.jpg", "1/1.jpg", "10/1.jpg", "2/1.jpg"}, "as names: class 3 is '2'", ":"},
        {{"00/1.jpg", "01/1.jpg", "10/1.jpg"}, NULL, ":"},
        {{"a/cat/1.jpg", "a/dog/1.jpg", "b/cat/2.jpg", "b/dog/2.jpg"},
         "the classes are a, b, and inside them are folders of equal names (cat, dog)",
         ":"},
        {{"Cat/1.jpg", "cat/1.jpg", "dog /1.jpg", "dog/1.jpg"},
         "(cat, dog ): they are different",
         ":"},
        {{"a/images/1.jpg", "b/images/1.jpg"}, NULL, ":"}, // as in Tiny ImageNet
        {{"s-09/1.jpg", "s-10/1.jpg"},
         "the classes are the archives s-09 to s-10; if these are shards",
         "for d in *; do tar cf $d.tar -C $d . && rm -r $d; done"},
        {{"n01/1.jpg", "n03/1.jpg"},
         NULL,
         "for d in *; do tar cf $d.tar -C $d . && rm -r $d; done"},
        {{"s-09/1.jpg", "s-10/1.jpg"}, NULL, ":"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t count = 0;
        while (count < 4 && rows[i].names[count] != NULL)
            count++;
        put_jpegs(rows[i].names, count);
        run("cd '%s' && %s", in_top("src"), rows[i].then);
        const sr_pack_report r = pack_src((sr_pack_options){0});
        check_splits(&r, (int64_t)count, 0, 0);
        if (rows[i].said != NULL)
            check_said(rows[i].said);
        else
            assert_false(is_said("src: "));
    }
}

// -- folders -----------------------------------------------------------------------------------

static void test_empty_folders(void **state) {
    (void)state;
    PUT_JPEGS("ant/1.jpg", "cat/1.jpg");
    put_text("src/bee/labels.npy", "x");
    assert_ok(sr_make_folders(in_top("src/dog/deep")));
    sr_pack_report r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 0, 0);
    check_said("2 folders without a picture: bee, dog; classes are numbered without them");
    run("cd '%s' && tar cf t.tar src && rm -r src && mv t.tar src", top);
    r = pack_src((sr_pack_options){0});
    check_said("2 folders without a picture: src/bee, src/dog");
    run("rm '%s'", in_top("src"));
    PUT_JPEGS("train/ant/1.jpg", "train/bee/1.jpg", "val/ant/1.jpg");
    put_text("src/val/bee/x.txt", "x");
    r = pack_src((sr_pack_options){0});
    check_said("1 folder without a picture: val/bee;");
}

// Thumbnails and deleted files of network disks and systems.
static void test_side_folders(void **state) {
    (void)state;
    PUT_JPEGS("cat/1.jpg", "cat/@eaDir/1.jpg/SYNOPHOTO_THUMB_XL.jpg", "cat/.@__thumb/1.jpg",
              "__MACOSX/cat/1.jpg", "#recycle/cat/2.jpg", "$RECYCLE.BIN/x/3.jpg", "dog/1.jpg",
              "dog/@EADIR/1.jpg", "lost+found/1.jpg", "cat/1.jpg~", "~");
    sr_pack_report r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 0, 0);
    assert_int_equal(2, r.classes);
    run("cd '%s' && tar cf t.tar -C src . && rm -r src && mv t.tar src", top);
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 2, 0, 0);
}

// -- paths -------------------------------------------------------------------------------------

static void test_paths(void **state) {
    (void)state;
    static const struct {
        const char *path, *slash, *any;
    } paths[] = {
        {"./a.jpg", "a.jpg", "a.jpg"},     {"a//b/./c", "a/b/c", "a/b/c"},
        {"a\\b", "a\\b", "a/b"},           {".\\a\\..\\b", ".\\a\\..\\b", "b"},
        {"a/../../b", "../b", "../b"},     {"/x/../../y/", "/y", "/y"},
        {"../../a", "../../a", "../../a"}, {"./", "", ""},
    };
    char out[SR_PATH_TEXT_MAX], length[SR_PATH_TEXT_MAX + 8];
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_true(sr_path_normalise(paths[i].path, SR_PATH_SLASH, out));
        assert_string_equal(paths[i].slash, out);
        assert_true(sr_path_normalise(paths[i].path, SR_PATH_ANY, out));
        assert_string_equal(paths[i].any, out);
    }
    assert_true(sr_path_below("d/train", "../images/./1", out));
    assert_string_equal("d/images/1", out);
    assert_string_equal("a/b", sr_path_inside("../../a/b"));
    assert_string_equal("a/b", sr_path_inside("C:/a/b"));
    memset(length, 'a', sizeof length - 1);
    length[sizeof length - 1] = '\0';
    assert_false(sr_path_normalise(length, SR_PATH_ANY, out));
}

static void test_list_paths(void **state) {
    (void)state;
    char text[2048];
    PUT_JPEGS("0.jpg", "1.jpg", "sub/2.jpg", "back\\slash.jpg");
    (void)snprintf(text, sizeof text,
                   "0.jpg\tcat\n1.jpg\tdog\n./1.jpg\tcat\n.\\sub\\2.jpg\tcat\nsub//2.jpg\tcat\n"
                   "back\\slash.jpg\tdog\n%s\tdog\n../src/sub/2.jpg\tcat\n",
                   in_top("src/0.jpg"));
    sr_pack_report r = pack_list(text);
    check_splits(&r, 2, 0, 0);
    check_refused("\n0.jpg,\"the list names it twice");
    check_refused("\n1.jpg,\"the list names it twice");
    assert_int_equal(2, r.refused);
    size_t bytes;
    free(find_record("train", "sub/2.jpg", &bytes));
    free(find_record("train", "back\\slash.jpg", &bytes));
}

static void put_coco(const char *first, const char *second) {
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"images\": [{\"id\": 1, \"file_name\": \"%s\"}, {\"id\": 2, \"file_name\": "
                   "\"%s\"}, {\"id\": 3, \"file_name\": \"c.jpg\"}], \"annotations\": [{\"id\": 1, "
                   "\"image_id\": 1, \"category_id\": 1, \"bbox\": [2, 2, 9, 9]}, {\"id\": 2, "
                   "\"image_id\": 2, \"category_id\": 1, \"bbox\": [2, 2, 9, 9]}], \"categories\": "
                   "[{\"id\": 1, \"name\": \"x\"}]}",
                   first, second);
    put_text("src/annotations/instances_train.json", text);
}

static void test_coco_paths(void **state) {
    (void)state;
    static const char *const written[] = {"./a.jpg",
                                          "images/./a.jpg",
                                          "images//a.jpg",
                                          ".\\\\images\\\\a.jpg",
                                          "../images/a.jpg",
                                          "/home/me/set/images/a.jpg",
                                          "C:\\\\set\\\\images\\\\a.jpg"};
    PUT_JPEGS("images/a.jpg", "images/b.jpg", "images/c.jpg");
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        put_coco(written[i], "b.jpg");
        const sr_pack_report r = pack_src((sr_pack_options){0});
        assert_int_equal(0, r.refused);
        assert_int_equal(2, r.objects);
    }
    put_coco("a.jpg", "./a.jpg"); // both would lack the objects of the other
    sr_pack_report r = pack_src((sr_pack_options){0});
    check_splits(&r, 1, 0, 0);
    assert_int_equal(0, r.objects);
    check_refused(
        "images/a.jpg,image id 2 of annotations/instances_train.json also names this picture");
    run("cd '%s' && sed s/c.jpg/b.jpg/ instances_train.json > instances_val.json",
        in_top("src/annotations"));
    put_coco("a.jpg", "b.jpg"); // nor in a second file
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 1, 0, 0);
    check_refused(
        "images/b.jpg,image id 3 of annotations/instances_val.json also names this picture");
}

// A zip's names in UTF-8 do not depend on the locale.
static void test_zip_names(void **state) {
    (void)state;
    static const uint8_t local[30] = {'P', 'K', 3, 4, 20, 0, 0, 8};
    size_t bytes, used = 0;
    uint8_t *jpeg = test_jpeg(&(test_picture){.width = 20, .height = 20}, &bytes);
    uint8_t *zip = calloc(1, 4 * (bytes + 512));
    static const char *const names[] = {"chien/\xc3\xa9.jpg", "\xc3\xbcn\xc3\xaf/1.jpg",
                                        "ant/1.jpg"};
    uint32_t at[3];
    assert_non_null(zip);
    for (int i = 0; zip && i < 3; i++) {
        const size_t n = strlen(names[i]);
        at[i] = (uint32_t)used;
        memcpy(zip + used, local, sizeof local);
        const uint32_t crc = (uint32_t)crc32(0, jpeg, (uInt)bytes), size = (uint32_t)bytes;
        memcpy(zip + used + 14, &crc, 4);
        memcpy(zip + used + 18, &size, 4);
        memcpy(zip + used + 22, &size, 4);
        zip[used + 26] = (uint8_t)n;
        memcpy(zip + used + 30, names[i], n);
        memcpy(zip + used + 30 + n, jpeg, bytes);
        used += 30 + n + bytes;
    }
    const uint32_t directory = (uint32_t)used;
    for (int i = 0; zip && i < 3; i++) {
        const size_t n = strlen(names[i]);
        uint8_t *entry = zip + used;
        memcpy(entry, "PK\1\2\24\3", 6);
        memcpy(entry + 6, zip + at[i] + 4, 26); // as in its local header
        memcpy(entry + 42, &at[i], 4);
        memcpy(entry + 46, names[i], n);
        used += 46 + n;
    }
    const uint32_t length = (uint32_t)used - directory;
    if (zip != NULL) {
        memcpy(zip + used, "PK\5\6", 4);
        zip[used + 8] = zip[used + 10] = 3;
        memcpy(zip + used + 12, &length, 4);
        memcpy(zip + used + 16, &directory, 4);
    }
    put_file("src", zip, used + 22);
    free(zip);
    free(jpeg);
    const sr_pack_report r = pack_src((sr_pack_options){0});
    check_splits(&r, 3, 0, 0);
    check_class(1, "chien");
    check_class(2, "\xc3\xbcn\xc3\xaf");
    free(find_record("train", "chien/\xc3\xa9.jpg", &bytes));
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_top, remove_top)
        TEST(test_split_names),         TEST(test_split_folders),
        TEST(test_split_shards),        TEST(test_split_formats),
        TEST(test_voc_lists),           TEST(test_voc_list_files),
        TEST(test_repeated_folders),    TEST(test_class_doubts),
        TEST(test_mask_splits),         TEST(test_masks_or_classes),
        TEST(test_class_folders_first), TEST(test_empty_folders),
        TEST(test_side_folders),        TEST(test_paths),
        TEST(test_list_paths),          TEST(test_coco_paths),
        TEST(test_zip_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
