// SPDX-License-Identifier: Apache-2.0
// What the values of masks mean: class maps of ids and colours, ignored values, and damaged masks,
// which are refused by name.
#include "tests/unit/dataio/import_said.h"

#include <math.h>

#include "dataio/formats/class_map.h"
#include "dataio/image/mask_png.h"
#include "dataio/pack/inspect.h"
#include "dataio/record/zstd_frame.h"

enum { WIDTH = 6, HEIGHT = 2, PIXELS = WIDTH * HEIGHT };
#define VOID SR_MASK_VOID

// -- class maps --------------------------------------------------------------------------------

static void test_map_texts(void **state) {
    (void)state;
    sr_arena arena;
    sr_class_map map;
    sr_arena_init(&arena);
    assert_ok(sr_class_map_parse("ids",
                                 "\xef\xbb\xbf# road scenes\r\n\r\n7 road\r\n 11:\tbuilding, tall "
                                 "\r\n12 2nd floor\n0 Ignore\n8,road\n255 sky",
                                 &arena, &map));
    assert_true(map.class_count == 4 && !map.has_colors);
    assert_string_equal("road", map.names[0]);
    assert_string_equal("building, tall", map.names[1]);
    assert_string_equal("2nd floor", map.names[2]);
    assert_true(map.ids[7] == 0 && map.ids[8] == 0 && map.ids[11] == 1 && map.ids[12] == 2);
    assert_true(map.ids[0] == VOID && map.ids[255] == 3 && map.ids[1] == SR_CLASS_UNKNOWN);
    assert_ok(sr_class_map_parse("rest", "3 cat\n* ignore\n", &arena, &map));
    assert_true(map.class_count == 1 && map.ids[3] == 0 && map.ids[4] == VOID);
    assert_ok(sr_class_map_parse("rest", "3 cat\n*\tother\n", &arena, &map));
    assert_true(map.class_count == 2 && map.ids[4] == 1 && map.ids[255] == VOID);
    // As CamVid's label_colors.txt is written.
    assert_ok(sr_class_map_parse(
        "colours", "64 128 64\tAnimal\n192 0 128\t\tArchway\n0 0 0\t\tVoid\n", &arena, &map));
    assert_true(map.has_colors && map.class_count == 2);
    assert_int_equal(0, sr_class_map_color(&map, 0x408040));
    assert_int_equal(1, sr_class_map_color(&map, 0xc00080));
    assert_int_equal(VOID, sr_class_map_color(&map, 0));
    assert_int_equal(SR_CLASS_UNKNOWN, sr_class_map_color(&map, 1));
    sr_arena_release(&arena);
}

static void test_bad_maps(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "m.txt: no class"},
        {"# 0 cat\n0 ignore\n", "m.txt: no class"},
        {"0 cat\n\ndog\n", "m.txt:3: expected 'ID NAME'"},
        {"0 cat\n1\n", "m.txt:2: expected"},
        {"128 64 128\n", "m.txt:1: expected"},
        {"256 cat\n", "m.txt:1: 256 is not a number from 0 to 255"},
        {"0 0 999 cat\n", "m.txt:1: 999 is not a number"},
        {"99999999999999 cat\n", "m.txt:1:"},
        {"0 cat\n1 2 3 dog\n", "m.txt:2: a colour, where earlier lines have ids"},
        {"1 2 3 dog\n\n0 cat\n", "m.txt:3: an id, where earlier lines have colours"},
        {"0 cat\n0 dog\n", "m.txt:2: this id already has another class"},
        {"1 2 3 cat\n1 2 3 void\n", "m.txt:2: this colour already has another class"},
        {"* cat\n* dog\n", "m.txt:2: '*' already has another class"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_arena arena;
        sr_class_map map;
        sr_arena_init(&arena);
        assert_status(SR_E_DATA, sr_class_map_parse("m.txt", cases[i].text, &arena, &map));
        assert_message(cases[i].message);
        sr_arena_release(&arena);
    }
}

static void test_known_maps(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int classes;
        const char *first, *last;
        int last_id;
    } known[] = {{"camvid", 11, "Sky", "Bicyclist", 10},
                 {"cityscapes", 19, "road", "bicycle", 33},
                 {"cityscapes-train-ids", 19, "road", "bicycle", 18},
                 {"voc", 21, "background", "tvmonitor", 20},
                 {"coco-voc", 21, "background", "tvmonitor", 72},
                 {"ade20k", 150, "wall", "flag", 150},
                 {"coco-stuff", 171, "person", "wood", 181}};
    const char *name;
    sr_arena arena;
    sr_class_map map;
    sr_arena_init(&arena);
    for (size_t i = 0; (name = sr_class_map_name(i)) != NULL; i++) {
        assert_true(i < sizeof known / sizeof *known);
        assert_string_equal(known[i].name, name);
        assert_ok(sr_class_map_read(name, &arena, &map));
        assert_int_equal(known[i].classes, map.class_count);
        assert_string_equal(known[i].first, map.names[0]);
        assert_string_equal(known[i].last, map.names[map.class_count - 1]);
        assert_int_equal(map.class_count - 1, map.ids[known[i].last_id]);
        assert_int_equal(VOID, map.ids[255]);
    }
    // A folder may have the name of a map, as the data set that is packed; a file is a map.
    char before[1024];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(0, chdir(top));
    assert_ok(sr_make_folders("camvid"));
    assert_ok(sr_class_map_read("camvid", &arena, &map));
    put_text("voc", "0 own\n");
    assert_ok(sr_class_map_read("voc", &arena, &map));
    assert_int_equal(1, map.class_count);
    assert_int_equal(0, chdir(before));
    assert_status(SR_E_USAGE, sr_class_map_read("cityscape", &arena, &map));
    assert_message("did you mean 'cityscapes'?");
    sr_arena_release(&arena);
}

// -- packing -----------------------------------------------------------------------------------

static void put_pair(const char *name, unsigned type, unsigned depth, const void *pixels,
                     size_t bytes) {
    char path[96];
    (void)snprintf(path, sizeof path, "src/images/%s.jpg", name);
    put_jpeg(path, WIDTH, HEIGHT);
    (void)snprintf(path, sizeof path, "src/masks/%s.png", name);
    put_png(path, WIDTH, HEIGHT, type, depth, pixels, bytes);
}

static void put_ids(const char *name, const uint8_t ids[PIXELS]) {
    put_pair(name, SPNG_COLOR_TYPE_GRAYSCALE, 8, ids, PIXELS);
}

static void check_ids(const char *name, const uint8_t wanted[PIXELS]) {
    size_t bytes = 0;
    sr_sample sample;
    sr_zstd zstd = {0};
    uint8_t ids[PIXELS];
    void *record = find_record("train", name, &bytes);
    assert_ok(sr_sample_read(record, bytes, &sample));
    assert_true(sample.width == WIDTH && sample.height == HEIGHT);
    assert_ok(sr_zstd_expand(&zstd, sample.mask, sample.mask_bytes, ids, sizeof ids));
    assert_memory_equal(wanted, ids, sizeof ids);
    sr_zstd_release(&zstd);
    free(record);
}

static const uint8_t plain[PIXELS] = {0, 1, 2, 3, 255, 1, 0, 0, 2, 2, 3, 255};

static void test_numbers(void **state) {
    (void)state;
    static const uint8_t high[PIXELS] = {0, 1, 2, 3, 255, 1, 0, 0, 9, 2, 3, 255};
    put_ids("a", plain);
    put_ids("b", high);
    sr_pack_report r = pack_src((sr_pack_options){0});
    assert_true(r.refused == 0 && r.classes == 10);
    check_ids("a.jpg", plain);
    check_ids("b.jpg", high);
    r = pack_src((sr_pack_options){.ignore_value = 10});
    assert_true(r.refused == 0 && r.classes == 4);
    check_ids("b.jpg", (const uint8_t[PIXELS]){0, 1, 2, 3, 255, 1, 0, 0, VOID, 2, 3, 255});
    r = pack_src((sr_pack_options){.reduce_zero_label = true});
    assert_true(r.refused == 0 && r.classes == 9);
    check_ids("a.jpg", (const uint8_t[PIXELS]){VOID, 0, 1, 2, VOID, 0, VOID, VOID, 1, 1, 2, VOID});
    put_text("names.txt", "w\nx\ny\nz\n");
    r = pack_src((sr_pack_options){.classes = in_top("names.txt")});
    assert_true(r.refused == 1 && r.classes == 4 && r.records[SR_SPLIT_TRAIN] == 1);
    check_refused("images/b.jpg,\"mask masks/b.png: pixel (2, 1) has the value 9, but there are 4 "
                  "classes");
    put_text("map.txt", "1 x\n0 y\n2 x\n3 void\n");
    r = pack_src((sr_pack_options){.class_map = in_top("map.txt")});
    assert_true(r.refused == 1 && r.classes == 2);
    check_class(0, "x");
    check_class(1, "y");
    check_ids("a.jpg", (const uint8_t[PIXELS]){1, 0, 0, VOID, VOID, 0, 1, 1, 0, 0, VOID, VOID});
    check_refused("images/b.jpg,\"mask masks/b.png: pixel (2, 1) has the value 9, which is not in "
                  "the class map");
    r = pack_src((sr_pack_options){.class_map = in_top("map.txt"), .ignore_value = 10});
    assert_int_equal(0, r.refused);
    run("for w in 2 3; do rm -rf '%s'; done", in_top("more"));
    sr_pack_report more;
    assert_ok(sr_pack(&(sr_pack_options){.source = in_top("src"),
                                         .destination = in_top("more"),
                                         .class_map = in_top("map.txt"),
                                         .ignore_value = 10,
                                         .workers = 3,
                                         .quiet = true},
                      &more));
    run("cd '%s' && cmp dst/train-00000.kpl more/train-00000.kpl", top);
}

static const uint8_t rgb[PIXELS * 3] = {64, 0, 0, 64, 0, 0, 0, 64, 0, 0, 64, 0, 1, 2, 3, 64, 0, 0,
                                        64, 0, 0, 64, 0, 0, 0, 64, 0, 1, 2,  3, 1, 2, 3, 64, 0, 0};
static const uint8_t of_rgb[PIXELS] = {1, 1, 0, 0, VOID, 1, 1, 1, 0, VOID, VOID, 1};

static void test_colors(void **state) {
    (void)state;
    uint8_t odd[PIXELS * 3], rgba[PIXELS * 4], deep[PIXELS * 2] = {0};
    memcpy(odd, rgb, sizeof odd);
    odd[3 * 7 + 2] = 200; // pixel (1, 1)
    for (int i = 0; i < PIXELS; i++) {
        memcpy(rgba + (size_t)4 * (size_t)i, rgb + (size_t)3 * (size_t)i, 3);
        rgba[4 * i + 3] = 255;
    }
    put_pair("a", SPNG_COLOR_TYPE_TRUECOLOR, 8, rgb, sizeof rgb);
    put_pair("alpha", SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, 8, rgba, sizeof rgba);
    put_pair("odd", SPNG_COLOR_TYPE_TRUECOLOR, 8, odd, sizeof odd);
    sr_pack_report r;
    assert_status(SR_E_DATA, pack(in_top("src"), in_top("no"), (sr_pack_options){0}, &r));
    assert_message("the masks have colours instead of numbers; --class-map FILE");
    put_text("map.txt", "0 64 0 grass\n64 0 0 barn\n1 2 3 void\n");
    r = pack_src((sr_pack_options){.class_map = in_top("map.txt")});
    check_reading("colour PNGs in masks as masks of pictures in images");
    assert_true(r.refused == 1 && r.classes == 2);
    check_class(0, "grass");
    check_ids("a.jpg", of_rgb);
    check_ids("alpha.jpg", of_rgb);
    check_refused("images/odd.jpg,\"mask masks/odd.png: pixel (1, 1) has the colour 64 0 200, "
                  "which is not in the class map");
    // A palette has colours, too; grey values and 16 bits are not accepted.
    put_pair("palette", SPNG_COLOR_TYPE_INDEXED, 8, plain, PIXELS);
    put_ids("grey", plain);
    put_pair("deep", SPNG_COLOR_TYPE_GRAYSCALE, 16, deep, sizeof deep);
    put_text("map.txt", "0 64 0 grass\n64 0 0 barn\n* void\n2 0 253 pond\n");
    r = pack_src((sr_pack_options){.class_map = in_top("map.txt")});
    assert_true(r.refused == 2 && r.classes == 3);
    check_ids("palette.jpg", (const uint8_t[PIXELS]){VOID, VOID, 2, VOID, VOID, VOID, VOID, VOID, 2,
                                                     2, VOID, VOID});
    check_refused("images/grey.jpg,\"mask masks/grey.png: a PNG with grey values, but the class "
                  "map has colours");
    check_refused("images/deep.jpg,mask masks/deep.png: a PNG of 16 bits");
}

// Of masks with numbers a few may be of another kind, of another size or cut off.
static void test_damaged(void **state) {
    (void)state;
    uint8_t deep[PIXELS * 2] = {0};
    for (int i = 0; i < 9; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "good%d", i);
        put_ids(name, plain);
    }
    put_pair("color", SPNG_COLOR_TYPE_TRUECOLOR, 8, rgb, sizeof rgb);
    put_pair("deep", SPNG_COLOR_TYPE_GRAYSCALE, 16, deep, sizeof deep);
    put_pair("alpha", SPNG_COLOR_TYPE_GRAYSCALE_ALPHA, 8, deep, sizeof deep);
    put_ids("cut", plain);
    put_ids("size", plain);
    put_jpeg("src/images/size.jpg", WIDTH + 1, HEIGHT);
    run("cd '%s' && truncate -s 60 src/masks/cut.png", top);
    const sr_pack_report r = pack_src((sr_pack_options){0});
    assert_true(r.refused == 5 && r.records[SR_SPLIT_TRAIN] == 9 && r.classes == 4);
    check_refused("images/color.jpg,\"mask masks/color.png: a PNG with colours; a mask has one");
    check_refused("images/deep.jpg,mask masks/deep.png: a PNG of 16 bits");
    check_refused("images/alpha.jpg,mask masks/alpha.png: a grey PNG with alpha");
    check_refused("images/cut.jpg,mask masks/cut.png: ");
    check_refused("images/size.jpg,\"mask masks/size.png is 6 x 2, the picture 7 x 2");
    sr_pack_report strict;
    assert_status(SR_E_DATA, pack(in_top("src"), in_top("strict"), (sr_pack_options){0}, &strict));
    assert_int_equal(9, strict.records[SR_SPLIT_TRAIN]);
}

// Names of masks with an end of their own, as in CamVid's first release.
static void test_ends(void **state) {
    (void)state;
    put_jpeg("src/701_StillsRaw_full/0001TP_1.jpg", WIDTH, HEIGHT);
    put_jpeg("src/701_StillsRaw_full/0001TP_2.jpg", WIDTH, HEIGHT);
    for (int i = 1; i <= 2; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "src/LabeledApproved_full/0001TP_%d_L.png", i);
        put_png(name, WIDTH, HEIGHT, SPNG_COLOR_TYPE_TRUECOLOR, 8, rgb, sizeof rgb);
    }
    put_text("label_colors.txt", "64 0 0\tTree\n0 64 0\tRoad\n1 2 3\tVoid\n");
    const sr_pack_report r = pack_src((sr_pack_options){.class_map = in_top("label_colors.txt")});
    assert_true(r.refused == 0 && r.records[SR_SPLIT_TRAIN] == 2);
    check_class(0, "Tree");
}

static void test_contradictions(void **state) {
    (void)state;
    put_text("names.txt", "a\nb\n");
    put_text("colours.txt", "0 0 0 a\n");
    put_ids("a", plain);
    char names[1024], colors[1024];
    (void)snprintf(names, sizeof names, "%s", in_top("names.txt"));
    (void)snprintf(colors, sizeof colors, "%s", in_top("colours.txt"));
    const struct {
        sr_pack_options options;
        const char *message;
    } cases[] = {
        {{.classes = names, .class_map = "voc"},
         "--class-map states names and ids, so leave out "
         "--classes"},
        {{.class_map = "voc", .reduce_zero_label = true}, "leave out --reduce-zero-label"},
        {{.class_map = colors, .ignore_value = 1}, "add a line 'R G B ignore'"},
        {{.class_map = "VOC"}, "did you mean 'voc'?"},
        {{.class_map = "voc", .source_format = "classes"}, "--class-map is for masks"},
        {{.ignore_value = 3, .source_format = "classes"}, "--ignore-value is for masks"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_pack_report r;
        assert_status(SR_E_USAGE, pack(in_top("src"), in_top("no"), cases[i].options, &r));
        assert_message(cases[i].message);
    }
}

// -- data sets that have boxes, too -----------------------------------------------------------

static void test_boxes_beside_masks(void **state) {
    (void)state;
    put_jpeg("src/VOC2012/JPEGImages/2007_000032.jpg", WIDTH, HEIGHT);
    put_png("src/VOC2012/SegmentationClass/2007_000032.png", WIDTH, HEIGHT, SPNG_COLOR_TYPE_INDEXED,
            8, plain, PIXELS);
    put_text("src/VOC2012/Annotations/2007_000032.xml",
             "<annotation><object><name>dog</"
             "name><bndbox><xmin>1</xmin><ymin>1</ymin>"
             "<xmax>3</xmax><ymax>2</ymax></bndbox></object></annotation>");
    sr_pack_report r = pack_src((sr_pack_options){0});
    check_reading("read as voc, ");
    check_reading("(--format-in voc-masks would take 1 picture with masks");
    assert_int_equal(1, r.objects);
    r = pack_src((sr_pack_options){.source_format = "voc-masks"});
    assert_true(r.classes == 21 && r.records[SR_SPLIT_TRAIN] == 1);
    check_class(0, "background");
    check_ids("2007_000032.jpg", plain);
    run("rm -r '%s'", in_top("src"));
    make_coco();
    put_mask("src/stuffthingmaps/train2017/1.png", 30, 20, SPNG_COLOR_TYPE_GRAYSCALE);
    r = pack_src((sr_pack_options){0});
    check_reading("read as coco, ");
    check_reading("(--format-in coco-stuff would take 1 picture with masks");
    r = pack_src((sr_pack_options){.source_format = "coco-stuff", .ignore_value = 12});
    check_splits(&r, 1, 0, 0);
    assert_true(r.classes == 171 && r.refused == 0);
}

// -- outlines as masks ------------------------------------------------------------------------

static const char outlines[] =
    "{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"}], \"annotations\": ["
    "{\"image_id\": 1, \"category_id\": 7, \"bbox\": [0, 0, 3, 2], \"segmentation\": "
    "[[0, 0, 3, 0, 3, 2, 0, 2]]},"
    "{\"image_id\": 1, \"category_id\": 9, \"bbox\": [1, 0, 1, 1], \"segmentation\": "
    "[[1, 0, 2, 0, 2, 1, 1, 1]]},"
    "{\"image_id\": 1, \"category_id\": 400, \"bbox\": [5, 0, 1, 2], \"segmentation\": "
    "[[5, 0, 6, 0, 6, 2, 5, 2]]}],"
    "\"categories\": [{\"id\": 7, \"name\": \"cow\"}, {\"id\": 9, \"name\": \"ant\"},"
    "{\"id\": 400, \"name\": \"bee\"}]}";

static void test_outlines(void **state) {
    (void)state;
    put_jpeg("src/p/1.jpg", WIDTH, HEIGHT);
    put_text("src/instances_train.json", outlines);
    (void)pack_src((sr_pack_options){0});
    check_reading("read as coco, ");
    sr_pack_report r = pack_src((sr_pack_options){.source_format = "coco-masks"});
    assert_int_equal(4, r.classes);
    check_class(0, "background");
    check_class(1, "cow");
    check_ids("1.jpg", (const uint8_t[PIXELS]){1, 2, 1, 0, 0, 3, 1, 1, 1, 0, 0, 3});
    // Of a map, ids are those of categories; 0 is what no object covers.
    put_text("map.txt", "9 animal\n7 animal\n0 ground\n* ground\n");
    r = pack_src((sr_pack_options){.source_format = "coco-masks", .class_map = in_top("map.txt")});
    assert_int_equal(2, r.classes);
    check_ids("1.jpg", (const uint8_t[PIXELS]){0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1});
    // Given names without a background: what no object covers has no class.
    put_text("names.txt", "bee\nant\ncow\n");
    (void)pack_src(
        (sr_pack_options){.source_format = "coco-masks", .classes = in_top("names.txt")});
    check_ids("1.jpg", (const uint8_t[PIXELS]){2, 1, 2, VOID, VOID, 0, 2, 2, 2, VOID, VOID, 0});
    put_text("map.txt", "9 animal\n7 animal\n");
    sr_pack_report no;
    assert_status(SR_E_DATA, pack(in_top("src"), in_top("no"),
                                  (sr_pack_options){.source_format = "coco-masks",
                                                    .class_map = in_top("map.txt")},
                                  &no));
    assert_message("an object of class 'bee', which is not one of the 1 classes");
    assert_status(SR_E_USAGE, pack(in_top("src"), in_top("no"),
                                   (sr_pack_options){.class_map = in_top("map.txt")}, &no));
    assert_message("--class-map is for masks");
}

// -- statistics -------------------------------------------------------------------------------

// Class 0 has 6 of 10 and 2 of 12 pixels, class 1 has 4 of 10, class 2 has 10 of 12, class 3 none.
static void test_frequencies(void **state) {
    (void)state;
    put_ids("a", (const uint8_t[PIXELS]){0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 255, 255});
    put_ids("b", (const uint8_t[PIXELS]){0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
    put_text("names.txt", "w\nx\ny\nz\n");
    (void)pack_src((sr_pack_options){.classes = in_top("names.txt")});
    static const uint64_t pixels[] = {8, 4, 10, 0};
    static const int64_t pictures[] = {2, 1, 1, 0};
    static const double frequencies[] = {8.0 / 22, 4.0 / 10, 10.0 / 12};
    sr_dataset *set;
    sr_split_stat stat;
    assert_ok(sr_dataset_open(in_top("dst"), "train", &set));
    assert_ok(sr_inspect_stat(set, &stat));
    assert_true(stat.has_masks && stat.pixels == 24 && stat.ignored == 2);
    for (int c = 0; c < 4; c++) {
        const double weight = c < 3 ? 0.4 / frequencies[c] : 0; // the median is that of class 1
        assert_true(stat.class_pixels[c] == pixels[c] && stat.class_pictures[c] == pictures[c]);
        assert_true(fabs(stat.class_weights[c] - weight) < 1e-12);
    }
    sr_split_stat_release(&stat);
    sr_dataset_free(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_top, remove_top)
        TEST(test_map_texts),   TEST(test_bad_maps),       TEST(test_known_maps),
        TEST(test_numbers),     TEST(test_colors),         TEST(test_damaged),
        TEST(test_ends),        TEST(test_contradictions), TEST(test_boxes_beside_masks),
        TEST(test_frequencies), TEST(test_outlines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
