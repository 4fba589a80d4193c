// SPDX-License-Identifier: Apache-2.0
// Decoding and transforms: regions have the whole picture's bits, resizing compared with its
// formula in doubles, properties and golden bytes of every transform, boxes, damage and limits.
#include <math.h>
#include <stdbool.h>

#include "dataio/image/canvas.h"
#include "dataio/image/picture.h"
#include "dataio/image/resample.h"
#include "dataio/image/resample_rows_internal.h"
#include "dataio/jpeg/decode.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"

// -- decoding ----------------------------------------------------------------------------------

static const uint8_t *pixel(const sr_pixels *p, int64_t x, int64_t y) {
    return p->data + 3 * ((y - p->y) * p->width + x - p->x);
}

// A region decoded alone has the bits of the whole picture, at every scale.
static void check_regions(const sr_encoded *encoded) {
    sr_decoder *whole, *part;
    int64_t w, h;
    assert_ok(sr_decoder_create(&whole));
    assert_ok(sr_decoder_create(&part));
    assert_ok(sr_decoder_open(whole, encoded, &w, &h));
    assert_ok(sr_decoder_open(part, encoded, &w, &h));
    for (int scale = 1; scale <= sr_decoder_max_scale(whole); scale *= 2) {
        sr_region all = {0, 0, w, h};
        sr_pixels a, b;
        assert_ok(sr_decoder_read(whole, &all, scale, &a));
        assert_int_equal((w + scale - 1) / scale, a.width);
        for (uint32_t i = 0; i < 40; i++) {
            sr_rng rng;
            sr_rng_init(&rng, 3, i, 0, 0);
            sr_region r = {.width = 1 + sr_rng_below(&rng, (uint32_t)w),
                           .height = 1 + sr_rng_below(&rng, (uint32_t)h)};
            r.x = sr_rng_below(&rng, (uint32_t)(w - r.width + 1));
            r.y = sr_rng_below(&rng, (uint32_t)(h - r.height + 1));
            assert_ok(sr_decoder_read(part, &r, scale, &b));
            int64_t x0 = r.x / scale, x1 = (r.x + r.width + scale - 1) / scale;
            int64_t y1 = (r.y + r.height + scale - 1) / scale;
            assert_true(b.x <= x0 && b.x + b.width >= x1);
            for (int64_t y = r.y / scale; y < y1; y++)
                assert_memory_equal(pixel(&a, x0, y), pixel(&b, x0, y), (size_t)(x1 - x0) * 3);
        }
    }
    sr_decoder_free(whole);
    sr_decoder_free(part);
}

static void check_jpeg(const picture_jpeg *jpeg, int width, int height) {
    size_t bytes;
    uint8_t *data = picture_encode(width, height, 5, jpeg, &bytes);
    check_regions(&(sr_encoded){.data = data, .bytes = bytes});
    sr_free(data);
}

static void test_regions(void **state) {
    (void)state;
    const picture_jpeg kinds[] = {{.subsample = 2},
                                  {.subsample = 1},
                                  {.color = PICTURE_GREY},
                                  {.color = PICTURE_CMYK},
                                  {.progressive = 1},
                                  {.orientation = 6},
                                  {.subsample = 2, .orientation = 3}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        check_jpeg(&kinds[i], 157, 101);
    check_jpeg(&kinds[0], 5, 3);
}

// With the row index that packing makes, only some rows are decoded, to the same bits.
static void test_row_index(void **state) {
    (void)state;
    const picture_jpeg kinds[] = {{.subsample = 2},
                                  {.subsample = 1},
                                  {.color = PICTURE_GREY},
                                  {.subsample = 2, .quality = 30}};
    const int segments[] = {0, 1, 4, 11};
    sr_picture_worker *worker;
    assert_ok(sr_picture_worker_create(&worker));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t bytes;
        unsigned flags;
        sr_sample sample;
        uint8_t *data = picture_encode(171, 233, 5, &kinds[i], &bytes);
        assert_ok(sr_picture_normalise(
            worker, data, bytes, &(sr_picture_options){.segments = segments[i]}, &sample, &flags));
        assert_non_null(sample.segments);
        sr_encoded e = {.data = sample.data,
                        .bytes = sample.bytes,
                        .segments = sample.segments,
                        .segment_count = sample.segment_count};
        check_regions(&e);
        // A false index is detected.
        sr_decoder *decoder;
        sr_pixels p;
        int64_t w, h;
        uint32_t *wrong = sr_alloc(4 * sample.segment_count, "index");
        assert_ok(sr_decoder_create(&decoder));
        for (uint32_t k = 0; k < 4 * sample.segment_count; k += 3) {
            memcpy(wrong, sample.segments, 4 * sample.segment_count);
            ((uint8_t *)wrong)[k] ^= 0x41;
            e.segments = wrong;
            assert_ok(sr_decoder_open(decoder, &e, &w, &h));
            sr_status status = sr_decoder_read(decoder, &(sr_region){20, 90, 30, 40}, 1, &p);
            assert_true(status == SR_OK || status == SR_E_DATA);
        }
        e.segments = sample.segments;
        e.segment_count--;
        assert_ok(sr_decoder_open(decoder, &e, &w, &h));
        assert_status(SR_E_DATA, sr_decoder_read(decoder, &(sr_region){20, 90, 30, 40}, 1, &p));
        assert_message("row index");
        sr_decoder_free(decoder);
        sr_free(wrong);
        sr_free(data);
    }
    sr_picture_worker_free(worker);
}

// A stored picture with its row index, in memory of its own; the first 'before' bytes are unused.
typedef struct stored_picture {
    uint8_t *data;
    uint8_t index[4 * 64];
    sr_encoded encoded;
} stored_picture;

static stored_picture store(size_t before) {
    stored_picture s = {0};
    sr_picture_worker *worker;
    sr_sample sample;
    unsigned flags;
    size_t bytes;
    uint8_t *data = picture_encode(171, 233, 5, &(picture_jpeg){0}, &bytes);
    assert_ok(sr_picture_worker_create(&worker));
    assert_ok(sr_picture_normalise(worker, data, bytes, &(sr_picture_options){0}, &sample, &flags));
    s.data = sr_alloc(before + sample.bytes, "picture");
    memcpy(s.data + before, sample.data, sample.bytes);
    assert_in_range(sample.segment_count, 5, 64);
    memcpy(s.index, sample.segments, 4 * sample.segment_count);
    s.encoded = (sr_encoded){.data = s.data,
                             .bytes = before + sample.bytes,
                             .orientation = 8,
                             .segment_count = sample.segment_count};
    sr_picture_worker_free(worker);
    sr_free(data);
    return s;
}

static void read_middle(const sr_encoded *picture, const char *refusal) {
    sr_decoder *decoder;
    sr_pixels p;
    int64_t w, h;
    assert_ok(sr_decoder_create(&decoder));
    assert_ok(sr_decoder_open(decoder, picture, &w, &h));
    sr_status status = sr_decoder_read(decoder, &(sr_region){100, 20, 40, 30}, 1, &p);
    assert_status(refusal ? SR_E_DATA : SR_OK, status);
    if (refusal)
        assert_message(refusal);
    sr_decoder_free(decoder);
}

// Offsets near the end of their range.
static void test_row_index_numbers(void **state) {
    (void)state;
    stored_picture s = store(0);
    s.encoded.segments = s.index;
    read_middle(&s.encoded, NULL);
    memset(s.index + 4, 0xff, 4 * s.encoded.segment_count - 4);
    read_middle(&s.encoded, "order of offsets");
    for (size_t i = 1; i < s.encoded.segment_count; i++)
        s.index[4 * i] = i % 2 ? 0xff : (uint8_t)i,
                    memset(s.index + 4 * i + 1, i % 2 ? 0xff : 0, 3);
    read_middle(&s.encoded, "row index");
    sr_free(s.data);
}

// A marker without a length, and apparent frame headers inside comments: libjpeg-turbo and the
// search for the height find different headers.
static void test_two_frame_headers(void **state) {
    (void)state;
    enum { COMMENT = 0xc000, BEFORE = 2 + 2 * (2 + COMMENT), FAKE = 4 + 0xfffe };
    stored_picture s = store(BEFORE);
    s.data[0] = 0xff, s.data[1] = 0xd8;
    s.data[2] = 0xff, s.data[3] = 0x01; // TEM; the rest of the stream's SOI is overwritten
    for (size_t i = 0; i < 2; i++) {
        uint8_t *comment = s.data + 4 + i * (2 + COMMENT);
        comment[0] = 0xff, comment[1] = 0xfe, comment[2] = COMMENT >> 8, comment[3] = 0;
    }
    s.data[FAKE] = 0xff, s.data[FAKE + 1] = 0xc0;
    for (size_t i = 0; i < s.encoded.segment_count; i++) {
        uint8_t *o = s.index + 4 * i;
        uint32_t offset = BEFORE + ((uint32_t)o[0] | (uint32_t)o[1] << 8 | (uint32_t)o[2] << 16 |
                                    (uint32_t)o[3] << 24);
        for (unsigned k = 0; k < 4; k++)
            o[k] = (uint8_t)(offset >> 8 * k);
    }
    read_middle(&s.encoded, NULL); // without the index it decodes
    s.encoded.segments = s.index;
    read_middle(&s.encoded, "two frame headers");
    sr_free(s.data);
}

// EXIF code -> where the top left and top right of the stored picture appear.
static void test_orientation(void **state) {
    (void)state;
    enum { W = 3, H = 2 };
    uint8_t stored[W * H * 3];
    for (int i = 0; i < W * H * 3; i++)
        stored[i] = (uint8_t)(i / 3);
    const uint8_t seen[9][W * H] = {{0},
                                    {0, 1, 2, 3, 4, 5},
                                    {2, 1, 0, 5, 4, 3},
                                    {5, 4, 3, 2, 1, 0},
                                    {3, 4, 5, 0, 1, 2},
                                    {0, 3, 1, 4, 2, 5},
                                    {3, 0, 4, 1, 5, 2},
                                    {5, 2, 4, 1, 3, 0},
                                    {2, 5, 1, 4, 0, 3}};
    sr_decoder *decoder;
    assert_ok(sr_decoder_create(&decoder));
    for (int code = 1; code <= 8; code++) {
        sr_encoded e = {.data = stored,
                        .bytes = sizeof stored,
                        .raw = true,
                        .height = H,
                        .width = W,
                        .channels = 3,
                        .orientation = code};
        sr_pixels p;
        int64_t w, h;
        assert_ok(sr_decoder_open(decoder, &e, &w, &h));
        assert_int_equal(code >= 5 ? H : W, w);
        assert_ok(sr_decoder_read(decoder, &(sr_region){0, 0, w, h}, 1, &p));
        for (int i = 0; i < W * H; i++)
            assert_int_equal(seen[code][i], p.data[3 * (size_t)i]);
    }
    sr_decoder_free(decoder);
}

static void test_colours(void **state) {
    (void)state;
    sr_decoder *decoder;
    sr_pixels p;
    int64_t w, h;
    assert_ok(sr_decoder_create(&decoder));
    const uint8_t grey[4] = {1, 2, 3, 4}, rgba[8] = {9, 8, 7, 0, 6, 5, 4, 255};
    sr_encoded e = {.data = grey, .bytes = 4, .raw = true, .height = 2, .width = 2, .channels = 1};
    assert_ok(sr_decoder_open(decoder, &e, &w, &h));
    assert_ok(sr_decoder_read(decoder, &(sr_region){0, 0, 2, 2}, 1, &p));
    assert_memory_equal(p.data, ((const uint8_t[]){1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4}), 12);
    e = (sr_encoded){.data = rgba, .bytes = 8, .raw = true, .height = 1, .width = 2, .channels = 4};
    assert_ok(sr_decoder_open(decoder, &e, &w, &h));
    assert_ok(sr_decoder_read(decoder, &(sr_region){0, 0, 2, 1}, 1, &p));
    assert_memory_equal(p.data, ((const uint8_t[]){9, 8, 7, 6, 5, 4}), 6);
    size_t bytes; // Adobe's marker inverts values (255: white); RGB is scaled by 200 / 255
    uint8_t *cmyk = picture_encode(64, 64, 1, &(picture_jpeg){.color = PICTURE_CMYK}, &bytes);
    e = (sr_encoded){.data = cmyk, .bytes = bytes};
    assert_ok(sr_decoder_open(decoder, &e, &w, &h));
    assert_ok(sr_decoder_read(decoder, &(sr_region){0, 0, 64, 64}, 1, &p));
    uint8_t *made = picture_make(64, 64, 1);
    int64_t off = 0;
    for (int i = 0; i < 64 * 64 * 3; i++)
        off += abs(made[i] * 200 / 255 - p.data[i]);
    assert_true(off < INT64_C(3) * 64 * 64 * 3);
    sr_free(made);
    sr_free(cmyk);
    sr_decoder_free(decoder);
}

static sr_status decode_all(sr_decoder *decoder, const uint8_t *data, size_t bytes) {
    sr_encoded e = {.data = data, .bytes = bytes};
    sr_pixels p;
    int64_t w, h;
    SR_TRY(sr_decoder_open(decoder, &e, &w, &h));
    return sr_decoder_read(decoder, &(sr_region){0, 0, w, h}, 1, &p);
}

// Truncated anywhere, or with any byte changed: an error or a picture, never a crash; truncation is
// detected.
static void test_damage(void **state) {
    (void)state;
    sr_decoder *decoder;
    size_t bytes;
    uint8_t *data = picture_encode(48, 48, 2, &(picture_jpeg){0}, &bytes);
    uint8_t *copy = sr_alloc(bytes, "copy");
    assert_ok(sr_decoder_create(&decoder));
    for (size_t cut = 0; cut + 2 < bytes; cut += 7) {
        memcpy(copy, data, cut);
        assert_status(SR_E_DATA, decode_all(decoder, copy, cut));
    }
    for (size_t i = 0; i < bytes; i++) {
        memcpy(copy, data, bytes);
        copy[i] ^= 0x55;
        sr_status status = decode_all(decoder, copy, bytes);
        assert_true(status == SR_OK || status == SR_E_DATA || status == SR_E_LIMIT);
    }
    assert_ok(decode_all(decoder, data, bytes)); // the decoder still works
    // The header of a picture that would take gigabytes is refused.
    memcpy(copy, data, bytes);
    for (size_t i = 0; i + 9 < bytes; i++)
        if (copy[i] == 0xff && copy[i + 1] == 0xc0)
            memcpy(copy + i + 5, "\x7f\xff\x7f\xff", 4);
    assert_status(SR_E_LIMIT, decode_all(decoder, copy, bytes));
    assert_status(SR_E_DATA, decode_all(decoder, (const uint8_t *)"GIF89a..", 8));
    sr_free(copy);
    sr_free(data);
    sr_decoder_free(decoder);
}

// -- resizing ----------------------------------------------------------------------------------

static double weight(int64_t in, double centre, double support) {
    double d = fabs((double)in - centre + 0.5) / support;
    return d < 1 ? 1 - d : 0;
}

// The formula in doubles, without intermediate rounding.
static double resized(const uint8_t *in, int64_t w, const sr_resize *r, int64_t ox, int64_t oy,
                      int c) {
    double sx = r->width / (double)r->output_width, sy = r->height / (double)r->output_height;
    double cx = r->x + ((double)ox + 0.5) * sx, cy = r->y + ((double)oy + 0.5) * sy;
    double ux = sx > 1 ? sx : 1, uy = sy > 1 ? sy : 1, sum = 0, total = 0;
    for (int64_t y = (int64_t)floor(r->y); y < (int64_t)ceil(r->y + r->height); y++) {
        for (int64_t x = (int64_t)floor(r->x); x < (int64_t)ceil(r->x + r->width); x++) {
            double k = weight(x, cx, ux) * weight(y, cy, uy);
            sum += k * in[3 * (y * w + x) + c];
            total += k;
        }
    }
    return sum / total;
}

static void test_resize_rule(void **state) {
    (void)state;
    enum { W = 61, H = 43 };
    uint8_t *in = picture_make(W, H, 3);
    sr_pixels pixels = {.data = in, .width = W, .height = H, .channels = 3};
    const sr_resize cases[] = {
        {.width = W, .height = H, .output_width = 20, .output_height = 17},
        {.width = W, .height = H, .output_width = 90, .output_height = 70},
        {.x = 7, .y = 9, .width = 30, .height = 21, .output_width = 24, .output_height = 40},
        {.x = 3.25,
         .y = 0.5,
         .width = 40.5,
         .height = 33.75,
         .output_width = 11,
         .output_height = 12},
        {.x = 5, .y = 5, .width = 1, .height = 1, .output_width = 4, .output_height = 4},
        {.width = W, .height = H, .output_width = 1, .output_height = 1},
        {.width = W, .height = H, .output_width = W, .output_height = H},
    };
    sr_resampler *resampler;
    assert_ok(sr_resampler_create(&resampler));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sr_resize r = cases[i];
        r.window = (sr_region){0, 0, r.output_width, r.output_height};
        uint8_t *out = sr_alloc((size_t)(r.output_width * r.output_height) * 3, "out");
        uint8_t *part = sr_alloc((size_t)(r.output_width * r.output_height) * 3, "part");
        assert_ok(sr_resample(resampler, &pixels, &r, out));
        for (int64_t y = 0; y < r.output_height; y++) {
            for (int64_t x = 0; x < r.output_width; x++)
                for (int c = 0; c < 3; c++) {
                    double want = resized(in, W, &r, x, y, c);
                    assert_true(fabs(want - out[3 * (y * r.output_width + x) + c]) < 1.0);
                }
        }
        // A mirrored window is the same part of the whole, mirrored.
        sr_resize q = r;
        q.flip = true;
        q.window =
            (sr_region){r.output_width / 3, r.output_height / 2,
                        r.output_width - r.output_width / 3, r.output_height - r.output_height / 2};
        assert_ok(sr_resample(resampler, &pixels, &q, part));
        for (int64_t y = 0; y < q.window.height; y++)
            for (int64_t x = 0; x < q.window.width; x++)
                assert_memory_equal(part + 3 * (y * q.window.width + q.window.width - 1 - x),
                                    out + 3 * ((y + q.window.y) * r.output_width + x + q.window.x),
                                    3);
        sr_free(out);
        sr_free(part);
    }
    memset(in, 201, (size_t)W * H * 3); // a constant picture stays constant
    uint8_t flat[23 * 31 * 3];
    sr_resize r = {.x = 1.5,
                   .width = W - 3.25,
                   .height = H,
                   .output_width = 23,
                   .output_height = 31,
                   .window = {0, 0, 23, 31}};
    assert_ok(sr_resample(resampler, &pixels, &r, flat));
    for (size_t i = 0; i < sizeof flat; i++)
        assert_int_equal(201, flat[i]);
    sr_resampler_free(resampler);
    sr_free(in);
}

// -- transforms --------------------------------------------------------------------------------

enum { SIDE = 32 };

typedef struct bench {
    sr_canvas *canvas;
    sr_transform_chain *chain;
    uint8_t target[SIDE * SIDE * 3];
    uint8_t *data; // JPEG, or raw pixels where a raw size is given
    size_t bytes;
    int raw_width, raw_height;
} bench;

static void setup(bench *b, const sr_transform_spec *specs, int count, int width, int height) {
    b->raw_width = b->raw_height = 0;
    assert_ok(sr_canvas_create(16, &b->canvas));
    assert_ok(sr_transform_chain_create(specs, count, &b->chain));
    b->data = picture_encode(width, height, 9, &(picture_jpeg){.quality = 95}, &b->bytes);
}

static void teardown(bench *b) {
    sr_canvas_free(b->canvas);
    sr_transform_chain_free(b->chain);
    sr_free(b->data);
}

static void open_at(bench *b, int64_t position, int64_t sample, int64_t epoch) {
    sr_encoded e = {.data = b->data, .bytes = b->bytes};
    if (b->raw_width > 0) {
        e = (sr_encoded){.data = b->data,
                         .bytes = (size_t)(3 * b->raw_width * b->raw_height),
                         .raw = true,
                         .height = b->raw_height,
                         .width = b->raw_width,
                         .channels = 3};
    }
    sr_canvas_identity who = {.seed = 11, .position = position, .sample = sample, .epoch = epoch};
    assert_ok(sr_canvas_open(b->canvas, &e, &who, SIDE, SIDE, b->target));
}

static uint64_t apply_at(bench *b, int64_t position, int64_t sample, int64_t epoch) {
    open_at(b, position, sample, epoch);
    assert_ok(sr_transform_chain_apply(b->chain, b->canvas));
    return sr_hash64(b->target, sizeof b->target);
}

typedef struct golden_case {
    sr_transform_spec specs[2];
    int count, width, height;
} golden_case;

// The pixels are part of the numerics: a change here changes the results of all recipes. The
// pictures are raw, so that they do not depend on a decoder.
static const golden_case golden[] = {
    {{{"random_resized_crop", NULL}}, 1, 150, 90},
    {{{"random_resized_crop", "scale=[0.5,1]"}, {"flip", NULL}}, 2, 150, 90},
    {{{"resize", "size=40"}, {"center_crop", NULL}}, 2, 151, 90},
    {{{"pad_crop", NULL}, {"flip", NULL}}, 2, SIDE, SIDE},
    {{{"pad_crop", "pad=2 mode=reflect"}, {"alternating_flip", NULL}}, 2, SIDE, SIDE},
    {{{"cutout", "size=9 fill=[1, 2, 3]"}}, 1, SIDE, SIDE},
    {{{"color_jitter", "hue=0.5"}}, 1, SIDE, SIDE},
};
static const uint64_t golden_hashes[] = {UINT64_C(0x2727ef12e4d72035), UINT64_C(0xae3dcd119721dac2),
                                         UINT64_C(0x9775015884871882), UINT64_C(0xdbad22fef8ee4e68),
                                         UINT64_C(0x6e91f9c90e40ea3a), UINT64_C(0x7081956bfc922b2d),
                                         UINT64_C(0x678df93652be12d1)};

static void test_golden(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        const golden_case *g = &golden[i];
        bench b;
        uint64_t hashes[20];
        setup(&b, g->specs, g->count, g->width, g->height);
        sr_free(b.data);
        b.data = picture_make(g->width, g->height, 9);
        b.raw_width = g->width;
        b.raw_height = g->height;
        for (int64_t p = 0; p < 20; p++)
            hashes[p] = apply_at(&b, p, p, 0);
        for (int64_t p = 19; p >= 0; p--) // the order of application does not matter
            assert_int_equal(hashes[p], apply_at(&b, p, p, 0));
        uint64_t hash = sr_hash64(hashes, sizeof hashes);
        if (hash != golden_hashes[i])
            fail_msg("case %zu (%s): 0x%016llx", i, g->specs[0].name, (unsigned long long)hash);
        teardown(&b);
    }
}

static void test_alternating_flip(void **state) {
    (void)state;
    sr_transform_spec spec = {.name = "alternating_flip"};
    bench b;
    setup(&b, &spec, 1, SIDE, SIDE);
    int flipped = 0;
    uint64_t plain = 0, first = apply_at(&b, 0, 0, 0);
    for (int64_t sample = 0; sample < 400; sample++) {
        uint64_t even = apply_at(&b, 5 * sample, sample, 0), odd = apply_at(&b, 7, sample, 1);
        assert_int_not_equal(even, odd);
        assert_int_equal(even, apply_at(&b, 12345, sample, 2)); // whatever the position
        plain = plain ? plain : first;
        flipped += even == plain;
    }
    assert_in_range(flipped, 140, 260);
    teardown(&b);
}

// Whether the target is the picture, moved by (dx, dy) and mirrored at its border.
static bool is_moved(const uint8_t *target, const uint8_t *plain, int dx, int dy) {
    for (int i = 0; i < SIDE * SIDE; i++) {
        int sy = i / SIDE + dy, sx = i % SIDE + dx;
        sy = sy < 0 ? -sy : sy >= SIDE ? 2 * SIDE - 2 - sy : sy;
        sx = sx < 0 ? -sx : sx >= SIDE ? 2 * SIDE - 2 - sx : sx;
        if (memcmp(target + 3 * (size_t)i, plain + 3 * (size_t)(sy * SIDE + sx), 3) != 0)
            return false;
    }
    return true;
}

static void test_pad_crop(void **state) {
    (void)state;
    sr_transform_spec spec = {.name = "pad_crop", .arguments = "pad=4 mode=reflect"};
    bench b;
    setup(&b, &spec, 1, SIDE, SIDE);
    sr_transform_chain *none;
    uint8_t plain[SIDE * SIDE * 3];
    assert_ok(sr_transform_chain_create(NULL, 0, &none));
    open_at(&b, 0, 0, 0);
    assert_ok(sr_transform_chain_apply(none, b.canvas));
    memcpy(plain, b.target, sizeof plain);
    int places[81] = {0}, used = 0;
    for (int64_t p = 0; p < 500; p++) {
        (void)apply_at(&b, p, 0, 0);
        int matches = 0;
        for (int k = 0; k < 81; k++) {
            bool same = is_moved(b.target, plain, k % 9 - 4, k / 9 - 4);
            matches += same;
            places[k] += same;
        }
        assert_int_equal(1, matches);
    }
    for (int k = 0; k < 81; k++)
        used += places[k] > 0;
    assert_in_range(used, 75, 81);
    sr_transform_chain_free(none);
    teardown(&b);
}

static const sr_box three_boxes[] = {{10, 20, 30, 40, 1}, {60, 5, 90, 70, 2}, {0, 0, 4, 4, 3}};

static void test_boxes(void **state) {
    (void)state;
    bench b;
    int64_t n;
    setup(&b, NULL, 0, 100, 80);
    open_at(&b, 0, 0, 0);
    for (int i = 0; i < 3; i++)
        assert_ok(sr_canvas_add_box(b.canvas, &three_boxes[i]));
    sr_canvas_flip(b.canvas); // 70..90, 10..40, 96..100
    // The third box is removed, the first one is cut.
    assert_ok(sr_canvas_crop(b.canvas, &(sr_region){20, 10, 64, 64}));
    assert_ok(sr_canvas_resize(b.canvas, SIDE, SIDE, SR_FILTER_BILINEAR, true));
    const sr_box *got = sr_canvas_boxes(b.canvas, &n);
    assert_int_equal(2, n);
    assert_memory_equal(&got[0], &((sr_box){25, 5, 32, 15, 1}), sizeof(sr_box));
    assert_memory_equal(&got[1], &((sr_box){0, 0, 10, 30, 2}), sizeof(sr_box));
    open_at(&b, 0, 0, 0);
    for (int i = 0; i < 16; i++)
        assert_ok(sr_canvas_add_box(b.canvas, &three_boxes[0]));
    assert_status(SR_E_LIMIT, sr_canvas_add_box(b.canvas, &three_boxes[0]));
    teardown(&b);
}

// The same geometry, deferred and applied to decoded pixels.
static void test_noted_or_done(void **state) {
    (void)state;
    bench b;
    uint8_t first[sizeof b.target], *pixels;
    setup(&b, NULL, 0, 100, 80);
    for (int done = 0; done <= 1; done++) {
        open_at(&b, 0, 0, 0);
        if (done)
            assert_ok(sr_canvas_pixels(b.canvas, &pixels));
        sr_canvas_flip(b.canvas);
        assert_ok(sr_canvas_crop(b.canvas, &(sr_region){20, 10, 64, 64}));
        assert_ok(sr_canvas_resize(b.canvas, SIDE, SIDE, SR_FILTER_BILINEAR, true));
        assert_ok(sr_canvas_finish(b.canvas));
        if (!done)
            memcpy(first, b.target, sizeof first);
    }
    for (size_t i = 0; i < sizeof first; i++)
        assert_in_range(b.target[i] + 1 - first[i], 0, 2);
    teardown(&b);
}

// A centre crop decodes less than the whole, to the same pixels as cropping afterwards.
static void test_window(void **state) {
    (void)state;
    bench b;
    setup(&b, NULL, 0, 300, 200);
    for (int exact = 0; exact <= 1; exact++) {
        uint8_t first[sizeof b.target], *pixels;
        sr_region r = {40, 20, SIDE, SIDE};
        for (int forced = 0; forced <= 1; forced++) {
            open_at(&b, 0, 0, 0);
            assert_ok(sr_canvas_resize(b.canvas, 105, 70, SR_FILTER_BILINEAR, exact != 0));
            if (forced)
                assert_ok(sr_canvas_pixels(b.canvas, &pixels));
            assert_ok(sr_canvas_crop(b.canvas, &r));
            assert_ok(sr_canvas_finish(b.canvas));
            if (!forced)
                memcpy(first, b.target, sizeof first);
        }
        assert_memory_equal(first, b.target, sizeof first);
    }
    teardown(&b);
}

// The relative area and the aspect ratio of random crops, derived from a single marked pixel's box.
static void test_random_resized_crop(void **state) {
    (void)state;
    sr_transform_spec spec = {.name = "random_resized_crop", .arguments = "scale=[0.25, 0.36]"};
    bench b;
    setup(&b, &spec, 1, 200, 200);
    int kept = 0;
    for (int64_t p = 0; p < 300; p++) {
        int64_t n;
        const sr_box whole = {90, 90, 110, 110, 0};
        open_at(&b, p, 0, 0);
        assert_ok(sr_canvas_add_box(b.canvas, &whole));
        assert_ok(sr_transform_chain_apply(b.chain, b.canvas));
        const sr_box *box = sr_canvas_boxes(b.canvas, &n);
        if (n == 0)
            continue;
        kept++;
        const float edge = SIDE - 0.01f;
        if (box->x1 <= 0 || box->y1 <= 0 || box->x2 >= edge || box->y2 >= edge)
            continue; // cut
        float w = SIDE * 20.0f / (box->x2 - box->x1), h = SIDE * 20.0f / (box->y2 - box->y1);
        assert_true(w * h > 0.24f * 40000 && w * h < 0.37f * 40000);
        assert_true(w / h > 0.73f && w / h < 1.36f);
    }
    assert_in_range(kept, 200, 299);
    teardown(&b);
}

static void test_options(void **state) {
    (void)state;
    sr_transform_chain *chain;
    const struct {
        sr_transform_spec spec;
        const char *message;
    } bad[] = {
        {{"flipp", NULL}, "did you mean 'flip'"},
        {{"flip", "probability=2"}, "probability"},
        {{"flip", "probabilty=0.5"}, "did you mean 'probability'"},
        {{"flip", "0.5"}, "key=value"},
        {{"random_resized_crop", "scale=[0.5]"}, "scale"},
        {{"random_resized_crop", "ratio=[2, 1]"}, "ratio"},
        {{"cutout", "fill=[1, 2]"}, "three"},
        {{"cutout", "fill=[1, 2, 256]"}, "256"},
        {{"pad_crop", "mode=reflekt"}, "reflect"},
        {{"rotate", "degrees=[20, 10]"}, "degrees"},
        {{"rotate", "fill=[1, 2]"}, "three"},
        {{"shear", "x=[-90, 10]"}, "-80"},
        {{"random_affine", "translate=[0.1]"}, "translate"},
        {{"random_affine", "shear=[1, 2, 3]"}, "two or four"},
        {{"random_affine", "shear=[1, 2, 3, 99]"}, "80"},
        {{"random_affine", "scale=[0, 1]"}, "scale"},
        {{"pad", "size=[1, 2]"}, "one or four"},
        {{"pad", "size=[5000]"}, "4096"},
        {{"letterbox", "fill=[300, 1, 1]"}, "300"},
        {{"scale_jitter", "scale=[2]"}, "scale"},
        {{"multi_scale", "sizes=[]"}, "sizes"},
        {{"multi_scale", "sizes=[0]"}, "16384"},
        {{"multi_scale", "scale=[2, 1]"}, "scale"},
        {{"random_crop", "cat_max_ratio=1.5"}, "cat_max_ratio"},
        {{"random_crop", "fill=[1]"}, "three"},
        {{"photometric_distort", "rule=mmdet"}, "mmseg"},
        {{"photometric_distort", "hue=[0.1]"}, "hue"},
        {{"expand", "ratio=[0.5, 2]"}, "ratio"},
        {{"iou_crop", "overlaps=[]"}, "overlaps"},
        {{"iou_crop", "scale=[0.5, 2]"}, "scale"},
        {{"gaussian_blur", "size=4"}, "even"},
        {{"gaussian_blur", "sigma=[0, 1]"}, "sigma"},
        {{"random_erasing", "mode=nois"}, "noise"},
        {{"random_erasing", "ratio=[1]"}, "ratio"},
        {{"auto_augment", "policy=cifar"}, "cifar10"},
        {{"rand_augment", "magnitude=31"}, "levels"},
        {{"rand_augment_timm", "magnitude=11"}, "magnitude"},
        {{"trivial_augment", "fill=[]"}, "three"},
        {{"resize", "filter=bicubik"}, "bicubic"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status(SR_E_USAGE, sr_transform_chain_create(&bad[i].spec, 1, &chain));
        assert_message(bad[i].message);
    }
    size_t transforms;
    const sr_transform *const *all = sr_transforms(&transforms);
    for (const sr_transform *const *t = all; t < all + transforms; t++) {
        assert_int_equal(sizeof(sr_transform), (*t)->struct_size);
        assert_int_equal(SR_TRANSFORM_ABI, (*t)->abi);
        assert_true(strlen((*t)->help) > 5);
    }
}

static void test_small_pictures(void **state) {
    (void)state;
    const sr_transform_spec chains[][2] = {
        {{.name = "random_resized_crop"}, {.name = "flip"}},
        {{.name = "center_crop"}, {.name = "color_jitter"}},
        {{.name = "resize", .arguments = "stretch=true"}, {.name = "cutout"}},
    };
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        for (int side = 1; side < 40; side += 6) {
            bench b;
            setup(&b, chains[i], 2, side, 41 - side);
            for (int64_t p = 0; p < 5; p++)
                (void)apply_at(&b, p, 0, 0);
            teardown(&b);
        }
    }
}

// All sets of inner loops give the same bytes: reduced and enlarged, windows, mirrored, any width.
static void test_resample_sets(void **state) {
    (void)state;
    enum { CASES = 300, MOST_SIDE = 150 };
    const sr_resample_set *sets[SR_RESAMPLE_MOST_SETS];
    const int count = sr_resample_sets(sets);
    sr_resampler *resampler[SR_RESAMPLE_MOST_SETS];
    uint8_t *out[SR_RESAMPLE_MOST_SETS], *in = picture_make(MOST_SIDE, MOST_SIDE, 3);
    for (int s = 0; s < count; s++) {
        assert_ok(sr_resampler_create_with(sets[s], &resampler[s]));
        out[s] = sr_alloc(3 * MOST_SIDE * MOST_SIDE + 1, "pixels");
    }
    for (uint32_t i = 0; i < CASES; i++) {
        sr_rng rng;
        sr_rng_init(&rng, 17, i, 0, 0);
        const sr_pixels pixels = {.data = in,
                                  .width = 1 + sr_rng_below(&rng, MOST_SIDE),
                                  .height = 1 + sr_rng_below(&rng, MOST_SIDE),
                                  .channels = 3};
        sr_resize r = {.width = sr_rng_uniform(&rng, 0.3, (double)pixels.width),
                       .height = sr_rng_uniform(&rng, 0.3, (double)pixels.height),
                       .output_width = 1 + sr_rng_below(&rng, MOST_SIDE),
                       .output_height = 1 + sr_rng_below(&rng, MOST_SIDE),
                       .flip = sr_rng_below(&rng, 2) == 1,
                       .filter = (sr_resize_filter)(i % 3)};
        r.x = sr_rng_uniform(&rng, 0, (double)pixels.width - r.width);
        r.y = sr_rng_uniform(&rng, 0, (double)pixels.height - r.height);
        r.window = (sr_region){.width = 1 + sr_rng_below(&rng, (uint32_t)r.output_width),
                               .height = 1 + sr_rng_below(&rng, (uint32_t)r.output_height)};
        r.window.x = sr_rng_below(&rng, (uint32_t)(r.output_width - r.window.width + 1));
        r.window.y = sr_rng_below(&rng, (uint32_t)(r.output_height - r.window.height + 1));
        const size_t bytes = (size_t)(3 * r.window.width * r.window.height);
        for (int s = 0; s < count; s++) {
            out[s][bytes] = 0x5a;
            assert_ok(sr_resample(resampler[s], &pixels, &r, out[s]));
            assert_int_equal(0x5a, out[s][bytes]); // nothing beyond the window is written
            assert_memory_equal(out[0], out[s], bytes);
        }
    }
    for (int s = 0; s < count; s++) {
        sr_resampler_free(resampler[s]);
        sr_free(out[s]);
    }
    sr_free(in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resample_sets),
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_row_index),
        cmocka_unit_test(test_row_index_numbers),
        cmocka_unit_test(test_two_frame_headers),
        cmocka_unit_test(test_orientation),
        cmocka_unit_test(test_colours),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_resize_rule),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_alternating_flip),
        cmocka_unit_test(test_pad_crop),
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_noted_or_done),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_random_resized_crop),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_small_pictures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
