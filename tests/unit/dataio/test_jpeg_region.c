// SPDX-License-Identifier: Apache-2.0
//   test_jpeg_region [all]   some packed pictures; 'all': 10,000 of them
//
// Our own decoding of baseline JPEGs gives the bits of libjpeg-turbo's accurate decoding of the
// whole picture: every set of inner loops, all samplings, odd sizes, restart intervals, with and
// without a row index, any region.
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "dataio/image/picture.h"
#include "dataio/jpeg/jpeg_region_internal.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/library_jpeg.h"
#include "tests/unit/support/test_support.h"

enum { MAX_SEGMENTS = 4096, SCALES = 4 };

typedef struct kind {
    const char *name;
    int components, h, v; // of luma
    int width, height, quality;
    int restart; // MCUs; -1: a row of them, -2: half a row
    bool noise, default_tables, progressive;
} kind;

typedef struct jpeg {
    unsigned char *data;
    unsigned long bytes;
    uint8_t *pixels[SCALES]; // decoded by libjpeg-turbo at 1, 1/2, 1/4, 1/8
    uint8_t index[4 * MAX_SEGMENTS];
    sr_encoded encoded;
} jpeg;

// ---- Pictures ----

static uint8_t value_at(const kind *k, int x, int y, int c, sr_rng *rng) {
    const int wave = ((x * (c + 2) ^ y * 3) & 63) * 3 + (x / 9 + y / 7) % 2 * 40;
    return k->noise ? (uint8_t)sr_rng_u32(rng) : (uint8_t)wave;
}

static void encode(const kind *k, jpeg *out) {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    out->data = NULL;
    jpeg_mem_dest(&c, &out->data, &out->bytes);
    c.image_width = (JDIMENSION)k->width;
    c.image_height = (JDIMENSION)k->height;
    c.input_components = k->components;
    c.in_color_space = k->components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, k->quality, TRUE);
    c.comp_info[0].h_samp_factor = k->h;
    c.comp_info[0].v_samp_factor = k->v;
    c.optimize_coding = !k->default_tables;
    const int side = k->components == 1 ? 8 : 8 * k->h, columns = (k->width + side - 1) / side;
    c.restart_interval = (unsigned)(k->restart >= 0 ? k->restart : columns / -k->restart);
    if (k->progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    uint8_t *row = sr_alloc((size_t)k->width * (size_t)k->components, "row");
    sr_rng rng;
    sr_rng_init(&rng, 7, (uint32_t)k->width, (uint32_t)k->height, 0);
    for (int y = 0; y < k->height; y++) {
        for (int i = 0; i < k->width * k->components; i++)
            row[i] = value_at(k, i / k->components, y, i % k->components, &rng);
        JSAMPROW pointer = row;
        (void)jpeg_write_scanlines(&c, &pointer, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    sr_free(row);
}

// All pixels as libjpeg-turbo decodes them; NULL if it warns of anything.
static uint8_t *decode(const jpeg *j, int scale) {
    int64_t width, height;
    return library_jpeg(j->data, j->bytes, scale, &width, &height);
}

// The offsets of all segments, as packing stores them.
static void make_index(jpeg *j) {
    size_t at = 2, count = 0;
    while (j->data[at + 1] != 0xda)
        at += 2 + ((size_t)j->data[at + 2] << 8 | j->data[at + 3]);
    at += 2 + ((size_t)j->data[at + 2] << 8 | j->data[at + 3]);
    for (size_t from = at;; at++) {
        const bool marker = j->data[at] == 0xff && j->data[at + 1] != 0;
        if (marker || at == from) {
            const bool end = marker && j->data[at + 1] == 0xd9;
            const uint32_t offset = (uint32_t)(marker && !end ? at + 2 : at);
            assert_true(count < MAX_SEGMENTS);
            memcpy(j->index + 4 * count++, &offset, 4);
            if (end)
                break;
        }
    }
    j->encoded.segments = j->index;
    j->encoded.segment_count = count;
}

static jpeg make(const kind *k) {
    jpeg j = {.data = NULL};
    encode(k, &j);
    for (int i = 0; i < SCALES; i++) {
        j.pixels[i] = decode(&j, 1 << i);
        assert_non_null(j.pixels[i]);
    }
    j.encoded = (sr_encoded){.data = j.data, .bytes = j.bytes};
    return j;
}

static void release(jpeg *j) {
    free(j->data);
    for (int i = 0; i < SCALES; i++)
        sr_free(j->pixels[i]);
}

// ---- Comparing ----

typedef struct checker {
    sr_jpeg_region *decoder;
    sr_pixel_buffer buffer;
    sr_decode_times times;
} checker;

// Our decoding of a region at one scale; false if it is left to libjpeg-turbo.
static bool check_scale(checker *c, const kind *k, const jpeg *j, const sr_region *r, int power) {
    const int scale = 1 << power;
    const int64_t width = (k->width + scale - 1) / scale;
    const int64_t right = (r->x + r->width + scale - 1) / scale;
    const int64_t bottom = (r->y + r->height + scale - 1) / scale;
    bool done = false;
    sr_pixels p = {0};
    assert_ok(sr_jpeg_region_read(c->decoder, r, scale, &c->buffer, &p, &done));
    if (!done)
        return false;
    assert_true(p.x <= r->x / scale && p.y <= r->y / scale);
    assert_true(p.x + p.width >= right && p.y + p.height >= bottom);
    for (int64_t y = 0; y < p.height; y++) {
        const uint8_t *want = j->pixels[power] + 3 * ((p.y + y) * width + p.x);
        const uint8_t *got = p.data + 3 * y * p.width;
        if (memcmp(want, got, (size_t)p.width * 3) != 0)
            fail_msg("%s %dx%d at 1/%d, region (%d, %d, %d, %d): row %d differs", k->name, k->width,
                     k->height, scale, (int)r->x, (int)r->y, (int)r->width, (int)r->height,
                     (int)(p.y + y));
    }
    return true;
}

static void check_region(checker *c, const kind *k, const jpeg *j, const sr_region *r) {
    int64_t w, h;
    int orientation;
    assert_true(sr_jpeg_region_open(c->decoder, &j->encoded, &w, &h, &orientation));
    assert_int_equal(k->width, w);
    assert_int_equal(k->height, h);
    assert_true(check_scale(c, k, j, r, 0));
    const bool equal =
        k->components == 1 || k->h == k->v; // otherwise chroma is resized to luma's size
    for (int power = 1; power < SCALES; power++)
        assert_true(check_scale(c, k, j, r, power) || (!equal && power == SCALES - 1) ||
                    (k->width >> power) < 8);
}

static void check_regions(checker *c, const kind *k, const jpeg *j, int count) {
    check_region(c, k, j, &(sr_region){0, 0, k->width, k->height});
    for (int i = 0; i < count; i++) {
        sr_rng rng;
        sr_rng_init(&rng, 3, (uint32_t)i, 0, 0);
        sr_region r = {.width = 1 + sr_rng_below(&rng, (uint32_t)k->width),
                       .height = 1 + sr_rng_below(&rng, (uint32_t)k->height)};
        r.x = sr_rng_below(&rng, (uint32_t)(k->width - r.width + 1));
        r.y = sr_rng_below(&rng, (uint32_t)(k->height - r.height + 1));
        check_region(c, k, j, &r);
    }
}

// The widths leave 1 to 16 pixels at the end of a row of blocks, which covers every way in which
// vectors overrun it; larger pictures have several segments a row.
static const kind kinds[] = {
    {"4:2:0", 3, 2, 2, 157, 101, 90, 0, false, false, false},
    {"4:2:0, a segment a row", 3, 2, 2, 171, 133, 85, -1, false, false, false},
    {"4:2:0, two segments a row", 3, 2, 2, 192, 97, 75, -2, false, false, false},
    {"4:2:0, segments across rows", 3, 2, 2, 129, 66, 95, 7, true, false, false},
    {"4:2:0, noise", 3, 2, 2, 99, 75, 100, -1, true, false, false},
    {"4:2:0, usual tables", 3, 2, 2, 83, 113, 98, -1, true, true, false},
    {"4:2:2", 3, 2, 1, 145, 77, 90, -1, false, false, false},
    {"4:2:2, noise", 3, 2, 1, 62, 63, 97, 0, true, false, false},
    {"4:4:0", 3, 1, 2, 85, 149, 90, -1, false, false, false},
    {"4:4:0, noise", 3, 1, 2, 64, 64, 60, 0, true, true, false},
    {"4:4:4", 3, 1, 1, 103, 89, 92, -1, false, false, false},
    {"4:4:4, noise", 3, 1, 1, 71, 40, 100, 3, true, false, false},
    {"grey", 1, 1, 1, 161, 47, 90, -1, false, false, false},
    {"grey, noise", 1, 1, 1, 33, 91, 100, 0, true, true, false},
    {"grey, 2x2", 1, 2, 2, 50, 50, 80, -1, false, false, false},
    {"coarse", 3, 2, 2, 200, 200, 3, -1, true, false, false},
};

static void check_kinds(const sr_jpeg_set *set) {
    checker c = {.decoder = NULL};
    assert_ok(sr_jpeg_region_create(set, &c.times, &c.decoder));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        jpeg j = make(&kinds[i]);
        check_regions(&c, &kinds[i], &j, 30);
        if (kinds[i].restart != 0) {
            make_index(&j);
            check_regions(&c, &kinds[i], &j, 30);
        }
        release(&j);
    }
    for (int side = 5; side < 40; side++) {
        const kind k = {"4:2:0, small", 3, 2, 2, side, 45 - side, 90, 0, true, false, false};
        jpeg j = make(&k);
        check_regions(&c, &k, &j, 10);
        release(&j);
    }
    sr_pixel_buffer_release(&c.buffer);
    sr_jpeg_region_free(c.decoder);
}

static void test_sets(void **state) {
    (void)state;
    const sr_jpeg_set *sets[SR_JPEG_MOST_SETS];
    const int count = sr_jpeg_sets(sets);
    for (int i = 0; i < count; i++) {
        print_message("%s\n", sets[i]->name);
        check_kinds(sets[i]);
    }
}

// ---- JPEGs that are not baseline, or damaged ----

// All sets of inner loops give the same pixels, whatever the numbers in a stream are.
static void check_other_sets(const jpeg *j, const sr_pixels *want) {
    const sr_jpeg_set *sets[SR_JPEG_MOST_SETS];
    const int count = sr_jpeg_sets(sets);
    for (int i = 1; i < count; i++) {
        checker c = {.decoder = NULL};
        int64_t w, h;
        int orientation;
        bool done = false;
        sr_pixels p = {0};
        assert_ok(sr_jpeg_region_create(sets[i], &c.times, &c.decoder));
        assert_true(sr_jpeg_region_open(c.decoder, &j->encoded, &w, &h, &orientation));
        assert_ok(
            sr_jpeg_region_read(c.decoder, &(sr_region){0, 0, w, h}, 1, &c.buffer, &p, &done));
        assert_true(done);
        assert_memory_equal(want->data, p.data, (size_t)(w * h * 3));
        sr_pixel_buffer_release(&c.buffer);
        sr_jpeg_region_free(c.decoder);
    }
}

// Either the same pixels as libjpeg-turbo, without a warning from it, or left to libjpeg-turbo.
static bool check_damaged(checker *c, const jpeg *j) {
    int64_t w, h;
    int orientation;
    bool done = false;
    sr_pixels p = {0};
    if (sr_jpeg_region_open(c->decoder, &j->encoded, &w, &h, &orientation))
        assert_ok(
            sr_jpeg_region_read(c->decoder, &(sr_region){0, 0, w, h}, 1, &c->buffer, &p, &done));
    if (!done)
        return false;
    uint8_t *want = decode(j, 1);
    assert_non_null(want);
    assert_memory_equal(want, p.data, (size_t)(w * h * 3));
    sr_free(want);
    check_other_sets(j, &p);
    return true;
}

static void test_damage(void **state) {
    (void)state;
    const kind k = {"damaged", 3, 2, 2, 50, 40, 90, -1, true, false, false};
    checker c = {.decoder = NULL};
    jpeg j = make(&k);
    make_index(&j);
    uint8_t *whole = sr_alloc(j.bytes, "bytes");
    memcpy(whole, j.data, j.bytes);
    assert_ok(sr_jpeg_region_create(&sr_jpeg_plain, &c.times, &c.decoder));
    int left = 0;
    for (size_t i = 0; i < j.bytes; i++) {
        j.data[i] ^= (uint8_t)(1 + i % 255);
        left += !check_damaged(&c, &j);
        j.data[i] = whole[i];
    }
    assert_true(left > 0 && left < (int)j.bytes);
    j.encoded.segments = NULL;
    for (size_t bytes = 0; bytes < j.bytes; bytes++) {
        j.encoded.bytes = bytes;
        assert_false(check_damaged(&c, &j)); // without an end marker
    }
    sr_free(whole);
    sr_pixel_buffer_release(&c.buffer);
    sr_jpeg_region_free(c.decoder);
    release(&j);
}

// ---- Packed pictures ----

// A picture with random properties, like files in the wild.
static kind any_kind(sr_rng *rng) {
    static const struct {
        const char *name;
        int components, h, v;
    } samplings[] = {{"4:2:0", 3, 2, 2},
                     {"4:2:2", 3, 2, 1},
                     {"4:4:0", 3, 1, 2},
                     {"4:4:4", 3, 1, 1},
                     {"grey", 1, 1, 1}};
    const uint32_t i = sr_rng_below(rng, sizeof samplings / sizeof samplings[0]);
    return (kind){.name = samplings[i].name,
                  .components = samplings[i].components,
                  .h = samplings[i].h,
                  .v = samplings[i].v,
                  .width = 1 + (int)sr_rng_below(rng, 300),
                  .height = 1 + (int)sr_rng_below(rng, 300),
                  .quality = 1 + (int)sr_rng_below(rng, 100),
                  .restart = sr_rng_below(rng, 3) ? 0 : (int)sr_rng_below(rng, 40),
                  .noise = sr_rng_below(rng, 4) == 0,
                  .default_tables = sr_rng_below(rng, 2) == 0,
                  .progressive = sr_rng_below(rng, 4) == 0};
}

// A crop of a packed picture, decoded with its row index, equals that part of the source's pixels.
static void check_packed(sr_picture_worker *worker, sr_decoder *decoder, const kind *k,
                         sr_rng *rng) {
    const sr_picture_options options = {.segments = (int)sr_rng_below(rng, 9)};
    sr_region r = {.width = 1 + sr_rng_below(rng, (uint32_t)k->width),
                   .height = 1 + sr_rng_below(rng, (uint32_t)k->height)};
    r.x = sr_rng_below(rng, (uint32_t)(k->width - r.width + 1));
    r.y = sr_rng_below(rng, (uint32_t)(k->height - r.height + 1));
    jpeg j = {.data = NULL};
    sr_sample sample = {.label = 0};
    sr_pixels p;
    unsigned flags;
    int64_t w, h;
    encode(k, &j);
    uint8_t *want = decode(&j, 1);
    assert_non_null(want);
    assert_ok(sr_picture_normalise(worker, j.data, j.bytes, &options, &sample, &flags));
    const sr_encoded encoded = sr_encoded_of(&sample);
    assert_ok(sr_decoder_open(decoder, &encoded, &w, &h));
    assert_ok(sr_decoder_read(decoder, &r, 1, &p));
    for (int64_t y = r.y; y < r.y + r.height; y++) {
        if (memcmp(want + 3 * (y * w + r.x), p.data + 3 * ((y - p.y) * p.width + r.x - p.x),
                   (size_t)r.width * 3) != 0)
            fail_msg("%s %dx%d, quality %d, region (%d, %d, %d, %d): row %d differs", k->name,
                     k->width, k->height, k->quality, (int)r.x, (int)r.y, (int)r.width,
                     (int)r.height, (int)y);
    }
    sr_free(want);
    free(j.data);
}

static void test_packed(void **state) {
    const uint32_t pictures = *(const bool *)*state ? 10000 : 150;
    sr_picture_worker *worker;
    sr_decoder *decoder;
    assert_ok(sr_picture_worker_create(&worker));
    assert_ok(sr_decoder_create(&decoder));
    for (uint32_t i = 0; i < pictures; i++) {
        sr_rng rng;
        sr_rng_init(&rng, 29, i, 0, 0);
        const kind k = any_kind(&rng);
        check_packed(worker, decoder, &k, &rng);
    }
    const sr_decode_times times = sr_decoder_times(decoder);
    assert_true(times.entropy > 0);
    sr_decoder_free(decoder);
    sr_picture_worker_free(worker);
}

int main(int argc, char **argv) {
    bool all = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_damage),
        cmocka_unit_test_prestate(test_packed, &all),
    };
    return cmocka_run_group_tests_name("jpeg_region", tests, NULL, NULL);
}
