// SPDX-License-Identifier: Apache-2.0
// Transforms for segmentation: sizes that multi_scale draws, crops by the classes that they show
// compared with a plain loop over the same draws, padding with pixels to ignore, and how often
// photometric_distort changes what.
#include <math.h>

#include "dataio/record/zstd_frame.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

enum { W = 90, H = 60, SIDE = 40, CROPS = 200, CLASSES = 3, SEED = 9 };

// A picture whose red and green are the column and the row, and its mask: class 0 with a few
// pixels of class 1, stripes of all classes on the right, and pixels to ignore below.
typedef struct sample {
    uint8_t rgb[3 * W * H], mask[W * H];
    uint8_t target[3 * SIDE * SIDE], seen[SIDE * SIDE];
    void *frame;
    size_t frame_bytes;
    sr_canvas *canvas;
} sample;

static uint8_t class_at(int x, int y) {
    if (y >= 45)
        return SR_MASK_IGNORE;
    if (x >= 55)
        return (uint8_t)(x / 3 % CLASSES);
    return (x + 7 * y) % 31 == 0;
}

static void compress(sample *s) {
    sr_zstd zstd = {0};
    size_t capacity = 0;
    sr_free(s->frame);
    s->frame = NULL;
    assert_ok(
        sr_zstd_compress(&zstd, s->mask, sizeof s->mask, &s->frame, &capacity, &s->frame_bytes));
    sr_zstd_release(&zstd);
}

static sample *sample_make(void) {
    sample *s = sr_alloc(sizeof *s, "sample");
    for (int i = 0; i < W * H; i++) {
        s->rgb[3 * i] = (uint8_t)(i % W);
        s->rgb[3 * i + 1] = (uint8_t)(i / W);
        s->rgb[3 * i + 2] = 77;
        s->mask[i] = class_at(i % W, i / W);
    }
    compress(s);
    assert_ok(sr_canvas_create(1, &s->canvas));
    return s;
}

static void sample_free(sample *s) {
    sr_canvas_free(s->canvas);
    sr_free(s->frame);
    sr_free(s);
}

static void open_sample(sample *s, int64_t position, int64_t width, int64_t height, bool masked) {
    const sr_encoded picture = {.data = s->rgb,
                                .bytes = sizeof s->rgb,
                                .raw = true,
                                .height = H,
                                .width = W,
                                .channels = 3};
    const sr_canvas_identity who = {.seed = SEED, .position = position};
    assert_true(width * height <= SIDE * SIDE);
    assert_ok(sr_canvas_open(s->canvas, &picture, &who, height, width, s->target));
    if (masked)
        assert_ok(sr_canvas_open_mask(s->canvas, s->frame, s->frame_bytes, s->seen));
}

static sr_transform_chain *chain_of(const char *name, const char *arguments) {
    sr_transform_chain *chain;
    assert_ok(sr_transform_chain_create(&(sr_transform_spec){name, arguments}, 1, &chain));
    return chain;
}

// -- sizes -------------------------------------------------------------------------------------

// Applies multi_scale to a picture of 90 x 60 and checks both sides; returns the shorter one's
// smallest and largest.
static void check_sizes(const char *arguments, double longest_share, double *low, double *high) {
    sample *s = sample_make();
    sr_transform_chain *chain = chain_of("multi_scale", arguments);
    *low = HUGE_VAL;
    *high = 0;
    for (int64_t p = 0; p < CROPS; p++) {
        open_sample(s, p, SIDE, SIDE, true);
        const sr_status status = sr_transform_chain_apply(chain, s->canvas); // of another size
        assert_true(status == SR_OK || status == SR_E_SHAPE);
        const double w = (double)sr_canvas_width(s->canvas),
                     h = (double)sr_canvas_height(s->canvas);
        assert_true(fabs(w - h * longest_share) <= 0.5 * (1 + longest_share));
        *low = h < *low ? h : *low;
        *high = h > *high ? h : *high;
    }
    sr_transform_chain_free(chain);
    sample_free(s);
}

static void check_between(double low, double expected_low, double high, double expected_high) {
    assert_true(low >= expected_low && low < 1.1 * expected_low);
    assert_true(high <= expected_high && high > 0.95 * expected_high);
}

static void test_sizes(void **state) {
    (void)state;
    double low, high;
    check_sizes("sizes=[] scale=[0.5, 2]", 1.5, &low, &high); // of the picture's own 60
    check_between(low, 30, high, 120);
    check_sizes("sizes=[40] scale=[0.5, 2]", 1.5, &low, &high);
    check_between(low, 20, high, 80);
    // The longer side would be 60, so the whole is reduced to 45, before the factor.
    check_sizes("sizes=[40] scale=[0.5, 2] longest=45", 1.5, &low, &high);
    check_between(low, 15, high, 60);
    check_sizes("sizes=[40, 50] scale=[2, 2]", 1.5, &low, &high);
    assert_true(low == 80 && high == 100);
}

// -- crops -------------------------------------------------------------------------------------

// mmsegmentation's loop, over the transform's own draws.
static void expected_crop(const sample *s, int64_t position, double cat_max_ratio, int *x, int *y) {
    sr_rng rng;
    sr_rng_init(&rng, SEED, (uint32_t)position, 0, 0);
    for (int draw = 0; draw <= 10; draw++) {
        int count[256] = {0}, classes = 0, most = 0, all = 0;
        *y = (int)sr_rng_below(&rng, H - SIDE + 1);
        *x = (int)sr_rng_below(&rng, W - SIDE + 1);
        for (int i = 0; i < SIDE * SIDE; i++)
            count[s->mask[(*y + i / SIDE) * W + *x + i % SIDE]]++;
        for (int c = 0; c < CLASSES; c++) {
            classes += count[c] > 0;
            all += count[c];
            most = count[c] > most ? count[c] : most;
        }
        if (cat_max_ratio >= 1 || (classes > 1 && (double)most / all < cat_max_ratio))
            return;
    }
}

// Returns how many crops moved because of their classes.
static int check_crops(sample *s, const char *arguments, double cat_max_ratio, bool masked) {
    sr_transform_chain *chain = chain_of("random_crop", arguments);
    int moved = 0;
    for (int64_t p = 0; p < CROPS; p++) {
        int x, y, any_x, any_y;
        expected_crop(s, p, masked ? cat_max_ratio : 1, &x, &y);
        expected_crop(s, p, 1, &any_x, &any_y);
        open_sample(s, p, SIDE, SIDE, masked);
        assert_ok(sr_transform_chain_apply(chain, s->canvas));
        for (int i = 0; i < SIDE * SIDE; i++) {
            assert_int_equal(x + i % SIDE, s->target[3 * i]);
            assert_int_equal(y + i / SIDE, s->target[3 * i + 1]);
            if (masked)
                assert_int_equal(s->mask[(y + i / SIDE) * W + x + i % SIDE], s->seen[i]);
        }
        moved += x != any_x || y != any_y;
    }
    sr_transform_chain_free(chain);
    return moved;
}

static void test_crops(void **state) {
    (void)state;
    sample *s = sample_make();
    assert_int_equal(0, check_crops(s, NULL, 1, true));
    assert_in_range(check_crops(s, "cat_max_ratio=0.75", 0.75, true), CROPS / 3, CROPS - 20);
    assert_int_equal(0, check_crops(s, "cat_max_ratio=0.75", 0.75, false));
    // One class only: the eleventh draw is taken.
    memset(s->mask, 1, sizeof s->mask);
    compress(s);
    assert_true(check_crops(s, "cat_max_ratio=0.75", 0.75, true) > CROPS - 20);
    sample_free(s);
}

// Padded on the right and below: by the colour, and pixels to ignore.
static void test_padding(void **state) {
    (void)state;
    enum { WIDE = 100, LOW = 16 };
    const sr_transform_spec specs[] = {{"resize", "size=[12, 20]"},
                                       {"random_crop", "fill=[5, 6, 7]"}};
    sample *s = sample_make();
    sr_transform_chain *chain;
    assert_ok(sr_transform_chain_create(specs, 2, &chain));
    open_sample(s, 3, WIDE, LOW, true);
    assert_ok(sr_transform_chain_apply(chain, s->canvas));
    for (int i = 0; i < WIDE * LOW; i++) {
        const bool inside = i % WIDE < 20 && i / WIDE < 12;
        assert_int_equal(inside ? 77 : 7, s->target[3 * i + 2]);
        assert_int_equal(inside ? s->mask[(i / WIDE * 5 + 2) * W + (int)((i % WIDE + 0.5) * 4.5)]
                                : SR_MASK_IGNORE,
                         s->seen[i]);
    }
    sr_transform_chain_free(chain);
    sample_free(s);
}

// -- colours -----------------------------------------------------------------------------------

// The share of pictures that do not change.
static double unchanged(sample *s, const char *arguments) {
    enum { DRAWS = 4000 };
    sr_transform_chain *chain = chain_of("photometric_distort", arguments);
    int same = 0;
    for (int64_t p = 0; p < DRAWS; p++) {
        bool is_same = true;
        open_sample(s, p, W, 1, false);
        assert_ok(sr_canvas_crop(s->canvas, &(sr_region){0, 20, W, 1}));
        assert_ok(sr_transform_chain_apply(chain, s->canvas));
        for (int i = 0; i < 3 * W; i++)
            is_same = is_same && s->target[i] == s->rgb[3 * 20 * W + i];
        same += is_same;
    }
    sr_transform_chain_free(chain);
    return (double)same / DRAWS;
}

static void assert_share(double expected, double share) {
    if (fabs(expected - share) > 0.02)
        fail_msg("a share of %g, expected %g", share, expected);
}

// Each change is drawn independently: those of a library, and no other.
static void test_shares(void **state) {
    (void)state;
    sample *s = sample_make();
    const double channels = 0.5 + 0.5 / 6; // one order of six changes nothing
    assert_share(channels / 16, unchanged(s, NULL));
    assert_share(1.0 / 16, unchanged(s, "rule=mmseg"));
    assert_share(1, unchanged(s, "probability=0"));
    assert_share(0, unchanged(s, "rule=mmseg probability=1"));
    assert_share(1.0 / 6, unchanged(s, "probability=1 brightness=[1, 1] contrast=[1, 1] "
                                       "saturation=[1, 1] hue=[0, 0]"));
    assert_share(channels / 2, unchanged(s, "contrast=[1, 1] saturation=[1, 1] hue=[0, 0] "
                                            "brightness=[0.2, 0.4]"));
    sample_free(s);
}

static void test_brightness_units(void **state) {
    (void)state;
    sr_transform_chain *chain;
    assert_status(
        SR_E_USAGE,
        sr_transform_chain_create(
            &(sr_transform_spec){"photometric_distort", "brightness=[-32, 32]"}, 1, &chain));
    assert_message("mmseg adds levels");
    sr_transform_chain_free(chain_of("photometric_distort", "rule=mmseg brightness=[-32, 32]"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_crops),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_brightness_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
