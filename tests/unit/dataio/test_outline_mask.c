// SPDX-License-Identifier: Apache-2.0
// Masks drawn from outlines: the pixels that pycocotools 2.0.11 gives the same polygons, and which
// object has a pixel that several cover.
#include "tests/unit/support/test_support.h"

#include <string.h>

#include "dataio/formats/outline_mask.h"
#include "dataio/image/mask_png.h"

enum { WIDTH = 8, HEIGHT = 4 };
#define NO SR_MASK_VOID

// polygon: x, y of each corner; runs: frPyObjects([polygon], height, width)[0]["counts"].
static const struct {
    uint32_t width, height, count;
    double polygon[18];
    const char *runs;
} golden[] = {
    {8, 6, 8, {1, 1, 5, 1, 5, 4, 1, 4}, "73300000a0"},
    {8, 6, 8, {0, 0, 8, 0, 8, 6, 0, 6}, "0`1"},
    {8, 6, 6, {2.5, 0.5, 7.2, 3.3, 1.1, 5.9}, ";113101O0O2O3"},
    {8, 6, 6, {-3, -2, 10.5, 2, 4, 9}, "0332N=0C000O0"},
    {8, 6, 6, {0.2, 0.2, 0.3, 0.2, 0.3, 0.3}, "`1"},
    {8, 6, 8, {1, 1, 7, 5, 7, 1, 1, 5}, "743N=0C24"},
    {8, 6, 8, {3, 1, 3, 1, 6, 1, 6, 4}, "i0151:"},
    {8, 6, 8, {7.9, 5.9, 20, 5.9, 20, 20, 7.9, 20}, "`1"},
    {21,
     27,
     18,
     {16.02, 25.45, 14.91, 14.55, 20.37, 23.16, 3.22, -2.19, 0.55, 9.01, 21.18, 9.33, -1.04, 4.73,
      17.2, 10.29, 1.28, 26.36},
     "P14c00^OO?NA8>IB7=JD2OM<2GOMO;3I061LKJ096OJ07OI18OHI0593JJ76JH78IH69FG12O146LG0Q10g1"},
    {29,
     15,
     18,
     {25.49, -0.81, 18.85, -1.09, -3.93, 16.04, 3.75, 0.96, 32.35, 16.07, 6.7, 18.11, 15.95, 11.59,
      3.58, 17.64, 21.55, 18.23},
     "7671O1O1101N1O2O0O2N1OL050F13OM272JLO452N101O001O001NOON6K401O001O"},
    {29, 24, 6, {9.36, 1.31, 1.39, -1.92, 7.15, 15.3}, "`11g03M3M3M3NO0JU?"},
    {5, 26, 6, {0.03, 23.83, 2.25, 6.74, 2.26, 19.96}, "d03?6T2"},
    {8, 21, 6, {11.19, 6.37, 2.47, 11.92, 2.7, 6.91}, "e11`03100O1O10I"},
    {5, 33, 6, {5.2, 21.57, 8.41, 0.88, -0.8, 29.6}, "j02l02N1N3N1E"},
};

static sr_annotation polygon_of(const double *points, const uint32_t *count) {
    return (sr_annotation){
        .polygon_count = 1, .polygon_sizes = count, .points = points, .point_count = *count};
}

static void test_polygons(void **state) {
    (void)state;
    sr_outline_mask drawn = {0}, wanted = {0};
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        const uint32_t width = golden[i].width, height = golden[i].height;
        const sr_annotation polygon = polygon_of(golden[i].polygon, &golden[i].count);
        const sr_annotation runs = {.mask = golden[i].runs,
                                    .mask_bytes = (uint32_t)strlen(golden[i].runs),
                                    .mask_width = width,
                                    .mask_height = height};
        assert_ok(sr_outline_mask_begin(&drawn, width, height, 0));
        assert_ok(sr_outline_mask_add(&drawn, &polygon, 1));
        assert_ok(sr_outline_mask_begin(&wanted, width, height, 0));
        assert_ok(sr_outline_mask_add(&wanted, &runs, 1));
        assert_memory_equal(wanted.ids, drawn.ids, (size_t)width * height);
    }
    sr_outline_mask_release(&drawn);
    sr_outline_mask_release(&wanted);
}

static void add_box(sr_outline_mask *mask, double x1, double y1, double x2, double y2, bool crowd,
                    uint8_t class_number) {
    const double points[] = {x1, y1, x2, y1, x2, y2, x1, y2};
    const uint32_t count = 8;
    sr_annotation box = polygon_of(points, &count);
    box.crowd = crowd;
    assert_ok(sr_outline_mask_add(mask, &box, class_number));
}

static void check(const sr_outline_mask *mask, const uint8_t wanted[WIDTH * HEIGHT]) {
    assert_memory_equal(wanted, mask->ids, (size_t)WIDTH * HEIGHT);
}

// The smaller object is in front, in whichever order they come; of equal ones the first; a crowd is
// behind all of them.
static void test_overlap(void **state) {
    (void)state;
    static const uint8_t wanted[] = {1, 1, 1, 1, 0, NO, NO, NO, 1, 2, 2, 1, 0,  NO, NO, NO,
                                     1, 2, 2, 3, 3, NO, NO, NO, 1, 1, 3, 3, NO, NO, NO, NO};
    sr_outline_mask mask = {0};
    for (int order = 0; order < 2; order++) {
        assert_ok(sr_outline_mask_begin(&mask, WIDTH, HEIGHT, 0));
        if (order == 0)
            add_box(&mask, 1, 1, 3, 3, false, 2);
        add_box(&mask, 0, 0, 4, 4, false, 1);
        if (order == 1)
            add_box(&mask, 1, 1, 3, 3, false, 2);
        const double steps[] = {2, 2, 5, 2, 5, 3, 4, 3, 4, 4, 2, 4}; // 5 pixels
        const uint32_t count = 12;
        const sr_annotation stair = polygon_of(steps, &count);
        assert_ok(sr_outline_mask_add(&mask, &stair, 3));
        add_box(&mask, 5, 0, 8, 4, true, 1);
        add_box(&mask, 4, 3, 8, 4, true, 2);
        check(&mask, wanted);
    }
    assert_ok(sr_outline_mask_begin(&mask, WIDTH, HEIGHT, NO));
    add_box(&mask, 0, 0, 2, 2, false, 7);
    add_box(&mask, 1, 0, 3, 2, false, 8);
    assert_int_equal(7, ((const uint8_t *)mask.ids)[1]);
    assert_int_equal(8, ((const uint8_t *)mask.ids)[2]);
    assert_int_equal(NO, ((const uint8_t *)mask.ids)[3]);
    sr_outline_mask_release(&mask);
}

// Parts of one object are joined; far away corners and missing outlines do no harm.
static void test_parts(void **state) {
    (void)state;
    static const uint8_t wanted[] = {1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0,
                                     0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const double parts[] = {0, 0, 2, 0, 2, 2, 0, 2, 1, 0, 3, 0, 3, 3, 1, 3};
    static const uint32_t sizes[] = {8, 8};
    sr_outline_mask mask = {0};
    const sr_annotation object = {
        .polygon_count = 2, .polygon_sizes = sizes, .points = parts, .point_count = 16};
    const sr_annotation box_only = {.box = {0, 0, 3, 3}};
    const sr_annotation small = {.mask = "1O", .mask_bytes = 1, .mask_width = 3, .mask_height = 3};
    assert_ok(sr_outline_mask_begin(&mask, WIDTH, HEIGHT, 0));
    assert_ok(sr_outline_mask_add(&mask, &object, 1));
    check(&mask, wanted);
    assert_status(SR_E_DATA, sr_outline_mask_add(&mask, &box_only, 1));
    assert_message("an object has a box, but no outline");
    assert_status(SR_E_DATA, sr_outline_mask_add(&mask, &small, 1));
    assert_message("an object's mask is of 3 x 3, the picture is 8 x 4");
    check(&mask, wanted);
    add_box(&mask, -1e300, -1e300, 1e300, 1e300, false, 2);
    assert_int_equal(2, ((const uint8_t *)mask.ids)[WIDTH * HEIGHT - 1]);
    assert_int_equal(1, ((const uint8_t *)mask.ids)[0]);
    sr_outline_mask_release(&mask);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_polygons),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
