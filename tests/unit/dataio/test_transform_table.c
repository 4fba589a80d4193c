// SPDX-License-Identifier: Apache-2.0
// Every transform of the table, applied to one scene: a bright red object on a dim background, with
// its box and its mask. Repeated application gives the same bits, with labels and without; the box
// encloses the object; the mask shows where the object is; golden bytes.
#include <stdbool.h>
#include <stdio.h>

#include "dataio/image/canvas.h"
#include "dataio/record/zstd_frame.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"

enum { WIDTH = 150, HEIGHT = 110, SIDE = 64, POSITIONS = 12, SEEDS = 2 };
enum { OBJECT = 1, BRIGHT = 140 }; // class, and red of the object's pixels

// Properties that hold after the transforms of a case.
enum {
    STAYS = 1,    // no pixel moves: boxes and mask are those without the first transform
    SEEN = 2,     // the object is still the only bright thing
    TURNED = 4,   // boxes are hulls: compared where they are not cut
    REPEATED = 8, // the object may appear twice, as in a mirror
    CHOSEN = 16,  // the mask determines the region
};

static const struct table_case {
    sr_transform_spec first, second;
    unsigned holds;
    uint64_t golden;
} cases[] = {
    {{"random_resized_crop", NULL}, {"flip", NULL}, SEEN, UINT64_C(0xc890223d569983e4)},
    {{"random_resized_crop", "filter=bicubic"}, {"flip", NULL}, SEEN, UINT64_C(0xc27d6db447b9fa84)},
    {{"random_resized_crop", "filter=fast"}, {"flip", NULL}, SEEN, UINT64_C(0xc90a5f2282af64fe)},
    {{"resize", "stretch=true"}, {0}, SEEN, UINT64_C(0x41d67637e07cf019)},
    {{"resize", "filter=fast size=70"}, {"center_crop", NULL}, SEEN, UINT64_C(0x4a877a24e0b06c22)},
    {{"resize", "size=[100,140] filter=bicubic"},
     {"center_crop", NULL},
     SEEN,
     UINT64_C(0xadbe62f082cba24f)},
    {{"center_crop", "size=120"}, {"resize", "stretch=true"}, SEEN, UINT64_C(0xecb2dc4816008129)},
    {{"pad_crop", "pad=9"}, {0}, SEEN, UINT64_C(0x60a7e8594fcbcf69)},
    {{"pad_crop", "pad=40 mode=reflect"}, {0}, SEEN | REPEATED, UINT64_C(0x89ceaf79d3b004b6)},
    {{"flip", "probability=0.5"}, {"resize", "stretch=true"}, SEEN, UINT64_C(0xa84fbd86d1513575)},
    {{"alternating_flip", NULL}, {"resize", "stretch=true"}, SEEN, UINT64_C(0x7fc3f082e140c3e9)},
    {{"vertical_flip", NULL}, {"resize", "stretch=true"}, SEEN, UINT64_C(0x11dd60e17166eaad)},
    {{"rotate", "degrees=[-40, 40]"},
     {"resize", "stretch=true"},
     SEEN | TURNED,
     UINT64_C(0x16ffaaa6b92376c9)},
    {{"shear", "x=[-20, 20] y=[-5, 5]"},
     {"center_crop", NULL},
     SEEN | TURNED,
     UINT64_C(0xd0dbbe306cc8702c)},
    {{"translate", "x=0.3 y=0.2 fill=[9, 8, 7]"},
     {"resize", "stretch=true"},
     SEEN,
     UINT64_C(0x9c68ba310d5e157d)},
    {{"random_affine", "scale=[0.5, 1.5] shear=[-9, 9, -3, 3]"},
     {"resize", "stretch=true"},
     SEEN | TURNED,
     UINT64_C(0x58c7544e36196292)},
    {{"random_affine", "to_image=true filter=nearest"},
     {0},
     SEEN | TURNED,
     UINT64_C(0xa5bd985ff40c227d)},
    {{"pad", "size=[1, 20, 30, 4] mode=edge"},
     {"resize", "stretch=true"},
     SEEN,
     UINT64_C(0xb063db65d38fb082)},
    {{"pad", "size=[7] mode=color fill=[1, 2, 3]"},
     {"letterbox", NULL},
     SEEN,
     UINT64_C(0xd183b1d86592710d)},
    {{"letterbox", NULL}, {0}, SEEN, UINT64_C(0x40d6c8f733f3ca35)},
    {{"scale_jitter", NULL}, {0}, SEEN, UINT64_C(0x2347ee840c64a840)},
    {{"multi_scale", "sizes=[70, 90, 130] longest=160"},
     {"pad_crop", "pad=0"},
     SEEN,
     UINT64_C(0xe6eff5bafb5255ac)},
    {{"multi_scale", "sizes=[60, 90] scale=[0.5, 2] longest=160"},
     {"random_crop", "fill=[3, 2, 1]"},
     SEEN,
     UINT64_C(0x610577dba6992317)},
    {{"multi_scale", "sizes=[] scale=[0.3, 1.5]"},
     {"random_crop", "cat_max_ratio=0.75"},
     SEEN | CHOSEN,
     UINT64_C(0x3ad84e69e4026f44)},
    {{"random_crop", NULL}, {0}, SEEN, UINT64_C(0xffa8cbb4b3f8a7c0)},
    {{"letterbox", "corner=true fill=[1, 2, 3]"}, {0}, SEEN, UINT64_C(0x8d8194f7e96c1280)},
    {{"expand", NULL}, {"resize", "stretch=true"}, SEEN, UINT64_C(0x46f6361f33e70820)},
    {{"iou_crop", NULL}, {"resize", "stretch=true"}, SEEN, UINT64_C(0x4c3f86d9269569e3)},
    {{"cutout", "size=30"}, {"center_crop", NULL}, STAYS, UINT64_C(0xfe19479a0bf05a75)},
    {{"random_erasing", "probability=1"},
     {"center_crop", NULL},
     STAYS,
     UINT64_C(0x781bf0e9d5cced6c)},
    {{"random_erasing", "mode=noise"}, {"center_crop", NULL}, STAYS, UINT64_C(0x563f88a542942585)},
    {{"color_jitter", "hue=0.5"}, {"center_crop", NULL}, STAYS, UINT64_C(0x5cb18b836da02efd)},
    {{"photometric_distort", NULL}, {"center_crop", NULL}, STAYS, UINT64_C(0xb6bcc20fe6161a88)},
    {{"photometric_distort", "rule=mmseg"},
     {"center_crop", NULL},
     STAYS,
     UINT64_C(0x84844fee85243f30)},
    {{"photometric_distort", "rule=mmseg brightness=[-50, 20] hue=[-0.5, 0.5] probability=1"},
     {"center_crop", NULL},
     STAYS,
     UINT64_C(0x9085e4167836ebd7)},
    {{"grayscale", "probability=0.5"}, {"center_crop", NULL}, STAYS, UINT64_C(0x39a5b0b3b2941776)},
    {{"posterize", "bits=2"}, {"center_crop", NULL}, STAYS | SEEN, UINT64_C(0x6c5c343c6764f147)},
    {{"solarize", NULL}, {"center_crop", NULL}, STAYS, UINT64_C(0x2a9921b57e54bcff)},
    {{"autocontrast", NULL}, {"center_crop", NULL}, STAYS | SEEN, UINT64_C(0xd1e456363f348d52)},
    {{"equalize", NULL}, {"center_crop", NULL}, STAYS, UINT64_C(0x5ae04ada85ede15a)},
    {{"invert", NULL}, {"center_crop", NULL}, STAYS, UINT64_C(0x411f715591aca8e1)},
    {{"sharpness", "factor=4"}, {"center_crop", NULL}, STAYS | SEEN, UINT64_C(0x21bf3ff4b81946b9)},
    {{"gaussian_blur", NULL}, {"center_crop", NULL}, STAYS | SEEN, UINT64_C(0x2bad61126b449357)},
    {{"lighting", NULL}, {"center_crop", NULL}, STAYS | SEEN, UINT64_C(0x6151ba5fbf0a5d82)},
    {{"augmix", NULL}, {"center_crop", NULL}, STAYS, UINT64_C(0xa0fc4def240f82e1)},
    {{"mosaic", NULL},
     {"random_affine", "to_image=true"},
     SEEN | TURNED,
     UINT64_C(0xcb36e070ed51cba8)},
    {{"mosaic", "probability=0.5 center=[0.5, 0.5]"},
     {"resize", "stretch=true"},
     SEEN,
     UINT64_C(0x72a3f95e8e42a8db)},
    {{"auto_augment", NULL}, {"center_crop", NULL}, TURNED, UINT64_C(0xfbc8ce825e748d15)},
    {{"auto_augment", "policy=cifar10 filter=bilinear"},
     {"center_crop", NULL},
     TURNED,
     UINT64_C(0xa0ff882fc188f586)},
    {{"auto_augment", "policy=svhn"}, {"center_crop", NULL}, TURNED, UINT64_C(0xf32774ec9178855b)},
    {{"rand_augment", NULL}, {"center_crop", NULL}, TURNED, UINT64_C(0xc8dd3ff6f587ba62)},
    {{"rand_augment_timm", "magnitude=7 probability=0.9"},
     {"center_crop", NULL},
     TURNED,
     UINT64_C(0x0f28f76c732405e6)},
    {{"trivial_augment", NULL}, {"center_crop", NULL}, TURNED, UINT64_C(0xc04d5b6486df098a)},
};
enum { CASES = sizeof cases / sizeof cases[0] };

// -- the scene ---------------------------------------------------------------------------------

static const sr_box object = {58, 31, 97, 74, OBJECT};

// With a mask as a frame, and a version without the object for the foreign samples.
typedef struct scene {
    uint8_t *pixels, *empty_pixels;
    void *mask, *empty_mask;
    size_t mask_bytes, empty_mask_bytes;
} scene;

static void scene_make(scene *s) {
    sr_zstd zstd = {0};
    size_t capacity = 0, empty_capacity = 0;
    uint8_t mask[WIDTH * HEIGHT];
    *s = (scene){.pixels = picture_make(WIDTH, HEIGHT, 4),
                 .empty_pixels = picture_make(WIDTH, HEIGHT, 8)};
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH; x++) {
            uint8_t *p = s->pixels + 3 * (size_t)(y * WIDTH + x);
            const bool inside = (float)x >= object.x1 && (float)x < object.x2 &&
                                (float)y >= object.y1 && (float)y < object.y2;
            for (int c = 0; c < 3; c++)
                p[c] = (uint8_t)(p[c] / 4 + 10);
            if (inside)
                p[0] = (uint8_t)(p[0] / 4 + 225);
            mask[y * WIDTH + x] = inside ? OBJECT : 0;
        }
    }
    assert_ok(sr_zstd_compress(&zstd, mask, sizeof mask, &s->mask, &capacity, &s->mask_bytes));
    memset(mask, 0, sizeof mask);
    assert_ok(sr_zstd_compress(&zstd, mask, sizeof mask, &s->empty_mask, &empty_capacity,
                               &s->empty_mask_bytes));
    for (int i = 0; i < WIDTH * HEIGHT * 3; i++)
        s->empty_pixels[i] /= 3;
    sr_zstd_release(&zstd);
}

static void scene_free(scene *s) {
    sr_free(s->pixels);
    sr_free(s->empty_pixels);
    sr_free(s->mask);
    sr_free(s->empty_mask);
}

// Foreign samples: the scene without the object; the last one is damaged.
static sr_status open_foreign(void *user, int number, sr_canvas *canvas, bool *there) {
    const scene *s = user;
    const sr_encoded picture = {.data = s->empty_pixels,
                                .bytes = (size_t)WIDTH * HEIGHT * 3,
                                .raw = true,
                                .width = number % 2 ? HEIGHT : WIDTH,
                                .height = number % 2 ? WIDTH : HEIGHT,
                                .channels = 3};
    *there = number < 2;
    if (!*there)
        return SR_OK;
    SR_TRY(sr_canvas_open(canvas, &picture, &(sr_canvas_identity){0}, SIDE, SIDE, NULL));
    return sr_canvas_open_mask(canvas, s->empty_mask, s->empty_mask_bytes, NULL);
}

// The labels that one application transforms along with the picture.
typedef enum form { PICTURE_ONLY, WITH_BOX, WITH_BOX_AND_MASK, FORMS } form;
typedef struct result {
    uint8_t image[SIDE * SIDE * 3], mask[SIDE * SIDE];
    sr_box box;
    int64_t boxes;
} result;

static void apply(const scene *s, sr_canvas *canvas, const sr_transform_chain *chain,
                  const sr_canvas_identity *who, form f, result *out) {
    const sr_encoded picture = {.data = s->pixels,
                                .bytes = (size_t)WIDTH * HEIGHT * 3,
                                .raw = true,
                                .width = WIDTH,
                                .height = HEIGHT,
                                .channels = 3};
    *out = (result){0};
    assert_ok(sr_canvas_open(canvas, &picture, who, SIDE, SIDE, out->image));
    if (f >= WITH_BOX)
        assert_ok(sr_canvas_add_box(canvas, &object));
    if (f >= WITH_BOX_AND_MASK)
        assert_ok(sr_canvas_open_mask(canvas, s->mask, s->mask_bytes, out->mask));
    assert_ok(sr_transform_chain_apply(chain, canvas));
    const sr_box *boxes = sr_canvas_boxes(canvas, &out->boxes);
    if (out->boxes > 0)
        out->box = boxes[0];
}

// -- the properties ----------------------------------------------------------------------------

// The class that the mask has at a pixel and at all around it; -1: several classes, or the border.
static int class_around(const uint8_t *mask, int x, int y) {
    const int class_number = mask[y * SIDE + x];
    if (x < 1 || y < 1 || x > SIDE - 2 || y > SIDE - 2)
        return -1;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (mask[(y + dy) * SIDE + x + dx] != class_number)
                return -1;
    return class_number;
}

static void check_seen(const struct table_case *c, const result *r) {
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            const int class_number = class_around(r->mask, x, y);
            const bool bright = r->image[3 * (y * SIDE + x)] > BRIGHT;
            if ((class_number == OBJECT && !bright) || (class_number == 0 && bright))
                fail_msg("%s: class %d at (%d, %d), red %d", c->first.name, class_number, x, y,
                         r->image[3 * (y * SIDE + x)]);
        }
    }
}

// The rectangle that the object's mask fills.
static bool extent_of(const uint8_t *mask, sr_box *out) {
    *out = (sr_box){SIDE, SIDE, 0, 0, OBJECT};
    for (int i = 0; i < SIDE * SIDE; i++) {
        if (mask[i] != OBJECT)
            continue;
        const float x = (float)(i % SIDE), y = (float)(i / SIDE);
        out->x1 = x < out->x1 ? x : out->x1;
        out->y1 = y < out->y1 ? y : out->y1;
        out->x2 = x + 1 > out->x2 ? x + 1 : out->x2;
        out->y2 = y + 1 > out->y2 ? y + 1 : out->y2;
    }
    return out->x2 > out->x1;
}

static bool is_near(float a, float b) {
    return a - b < 1.01f && b - a < 1.01f;
}

static float area(const sr_box *b) {
    return b->x2 > b->x1 && b->y2 > b->y1 ? (b->x2 - b->x1) * (b->y2 - b->y1) : 0;
}

// Within a pixel on all sides, or an IoU of 0.9: the tip of a rotated object may be between pixels.
static bool is_same(const sr_box *a, const sr_box *b) {
    const sr_box both = {a->x1 > b->x1 ? a->x1 : b->x1, a->y1 > b->y1 ? a->y1 : b->y1,
                         a->x2 < b->x2 ? a->x2 : b->x2, a->y2 < b->y2 ? a->y2 : b->y2, 0};
    return (is_near(a->x1, b->x1) && is_near(a->y1, b->y1) && is_near(a->x2, b->x2) &&
            is_near(a->y2, b->y2)) ||
           area(&both) >= 0.9f * (area(a) + area(b) - area(&both));
}

// Returns false if there is nothing to compare.
static bool check_box(const struct table_case *c, const result *r) {
    sr_box seen;
    const sr_box *b = &r->box;
    const bool cut = b->x1 <= 0 || b->y1 <= 0 || b->x2 >= SIDE || b->y2 >= SIDE;
    if (r->boxes == 0 || (cut && (c->holds & TURNED)))
        return false;
    if (!extent_of(r->mask, &seen))
        fail_msg("%s: a box, but no mask", c->first.name);
    if (!is_same(b, &seen))
        fail_msg("%s: box (%g, %g, %g, %g), mask (%g, %g, %g, %g)", c->first.name, (double)b->x1,
                 (double)b->y1, (double)b->x2, (double)b->y2, (double)seen.x1, (double)seen.y1,
                 (double)seen.x2, (double)seen.y2);
    return true;
}

static bool is_equal(const sr_box *a, const sr_box *b) {
    return a->x1 == b->x1 && a->y1 == b->y1 && a->x2 == b->x2 && a->y2 == b->y2;
}

static void check_stays(const struct table_case *c, const result *r, const result *without) {
    if (r->boxes != without->boxes || !is_equal(&r->box, &without->box) ||
        memcmp(r->mask, without->mask, sizeof r->mask) != 0)
        fail_msg("%s: labels have moved", c->first.name);
}

// Applies a case once in all forms; returns the hash. Boxes may determine the transform (iou_crop),
// masks only where the case says so.
static uint64_t check_one(const struct table_case *c, const scene *s, sr_canvas *canvas,
                          sr_transform_chain *const chains[2], const sr_canvas_identity *who,
                          int *compared) {
    result forms[FORMS], without;
    for (int f = 0; f < FORMS; f++)
        apply(s, canvas, chains[0], who, (form)f, &forms[f]);
    const result *all = &forms[WITH_BOX_AND_MASK];
    if (!(c->holds & CHOSEN)) {
        assert_memory_equal(forms[WITH_BOX].image, all->image, sizeof all->image);
        assert_memory_equal(&forms[WITH_BOX].box, &all->box, sizeof all->box);
    }
    if (c->holds & STAYS) {
        apply(s, canvas, chains[1], who, WITH_BOX_AND_MASK, &without);
        check_stays(c, all, &without);
    }
    if (c->holds & SEEN)
        check_seen(c, all);
    if (!(c->holds & REPEATED))
        *compared += check_box(c, all);
    return sr_hash64(forms, sizeof forms);
}

static uint64_t check_case(const struct table_case *c, const scene *s, sr_canvas *canvas) {
    sr_transform_spec specs[2] = {c->first, c->second};
    const int count = c->second.name ? 2 : 1;
    uint64_t hashes[SEEDS * POSITIONS];
    sr_transform_chain *chains[2];
    int compared = 0;
    assert_ok(sr_transform_chain_create(specs, count, &chains[0]));
    assert_ok(sr_transform_chain_create(specs + 1, count - 1, &chains[1]));
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < SEEDS * POSITIONS; i++) {
            const int at =
                again ? SEEDS * POSITIONS - 1 - i : i; // the order of application does not matter
            const sr_canvas_identity who = {
                .seed = 5 + (uint64_t)(at % SEEDS), .position = at / SEEDS, .sample = at / SEEDS};
            const uint64_t hash = check_one(c, s, canvas, chains, &who, &compared);
            if (again && hash != hashes[at])
                fail_msg("%s: different bits the second time", c->first.name);
            hashes[at] = hash;
        }
    }
    if (compared == 0 && !(c->holds & REPEATED))
        fail_msg("%s: no box was compared", c->first.name);
    sr_transform_chain_free(chains[0]);
    sr_transform_chain_free(chains[1]);
    return sr_hash64(hashes, sizeof hashes);
}

static void test_table(void **state) {
    (void)state;
    sr_canvas *canvas;
    scene s;
    int changed = 0;
    scene_make(&s);
    assert_ok(sr_canvas_create(16, &canvas));
    const sr_foreign_source source = {.open = open_foreign, .user = &s};
    sr_canvas_set_foreign(canvas, &source);
    for (size_t i = 0; i < CASES; i++) {
        const uint64_t hash = check_case(&cases[i], &s, canvas);
        if (hash != cases[i].golden) {
            print_message("case %zu, %s: UINT64_C(0x%016llx)\n", i, cases[i].first.name,
                          (unsigned long long)hash);
            changed++;
        }
    }
    assert_int_equal(0, changed);
    sr_canvas_free(canvas);
    scene_free(&s);
}

// A transform without a case above is not tested.
static void test_complete(void **state) {
    (void)state;
    size_t count;
    const sr_transform *const *all = sr_transforms(&count);
    for (size_t t = 0; t < count; t++) {
        bool found = false;
        for (size_t i = 0; i < CASES; i++)
            found = found || strcmp(cases[i].first.name, all[t]->name) == 0;
        if (!found)
            fail_msg("transform '%s' has no case in test_transform_table.c", all[t]->name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
