// SPDX-License-Identifier: Apache-2.0
// Malformed and unusual pictures on their way into a shard: the same pixels come out, damage and
// excess are refused.
#include "dataio/image/picture.h"
#include "dataio/jpeg/decode.h"
#include "dataio/jpeg/exif.h"
#include "tests/unit/support/test_pictures.h"

static const sr_picture_options as_it_is = {0};

typedef struct picture_fixture {
    sr_picture_worker *worker;
    sr_decoder *decoder, *other;
} picture_fixture;

static int make(void **state) {
    picture_fixture *f = calloc(1, sizeof *f);
    if (f == NULL || sr_picture_worker_create(&f->worker) || sr_decoder_create(&f->decoder) ||
        sr_decoder_create(&f->other))
        return -1;
    *state = f;
    return 0;
}

static int unmake(void **state) {
    picture_fixture *f = *state;
    sr_picture_worker_free(f->worker);
    sr_decoder_free(f->decoder);
    sr_decoder_free(f->other);
    free(f);
    return 0;
}

static void decode_all(sr_decoder *decoder, const void *data, size_t bytes, int orientation,
                       sr_pixels *out) {
    sr_encoded encoded = {.data = data, .bytes = bytes, .orientation = orientation};
    int64_t width, height;
    assert_ok(sr_decoder_open(decoder, &encoded, &width, &height));
    assert_ok(sr_decoder_read(decoder, &(sr_region){.width = width, .height = height}, 1, out));
    assert_true(out->x == 0 && out->y == 0 && out->width == width && out->height == height);
}

// Checks that the stored picture decodes to the source's pixels, bit for bit.
static void check_same_pixels(picture_fixture *f, const uint8_t *source, size_t bytes,
                              const sr_sample *stored) {
    sr_pixels a, b;
    decode_all(f->decoder, source, bytes, stored->orientation, &a);
    decode_all(f->other, stored->data, stored->bytes, stored->orientation, &b);
    assert_int_equal(a.width, b.width);
    assert_int_equal(a.height, b.height);
    assert_memory_equal(a.data, b.data, (size_t)(a.width * a.height * 3));
}

// The index gives each row's segment: the markers are in sequence, and the last entry is the end.
static void check_index(const sr_sample *s, int64_t mcu_rows) {
    const uint8_t *data = s->data;
    assert_int_equal(mcu_rows + 1, s->segment_count);
    for (size_t i = 1; i + 1 < s->segment_count; i++) {
        uint32_t at = sr_sample_segment(s, i);
        assert_true(at > sr_sample_segment(s, i - 1) && at < s->bytes);
        assert_int_equal(0xff, data[at - 2]);
        assert_int_equal(0xd0 + (i - 1) % 8, data[at - 1]);
    }
    assert_int_equal(s->bytes - 2, sr_sample_segment(s, s->segment_count - 1));
    assert_memory_equal("\xff\xd9", data + s->bytes - 2, 2);
}

static void test_jpeg_kinds(void **state) {
    static const struct {
        test_picture picture;
        unsigned flags;
        int64_t rows; // of MCUs; 0: no index
    } cases[] = {
        {{.width = 64, .height = 48}, 0, 0},
        {{.width = 1, .height = 1}, 0, 0},
        {{.width = 127, .height = 300}, 0, 0},
        {{.width = 128, .height = 128}, 0, 8},
        {{.width = 301, .height = 203}, 0, 13},
        {{.width = 301, .height = 203, .no_subsampling = true}, 0, 26},
        {{.width = 200, .height = 131, .components = 1}, SR_PICTURE_IS_GREY, 17},
        {{.width = 301, .height = 203, .progressive = true}, SR_PICTURE_IS_PROGRESSIVE, 13},
        {{.width = 40, .height = 20, .progressive = true}, SR_PICTURE_IS_PROGRESSIVE, 0},
        {{.width = 150, .height = 140, .arithmetic = true}, 0, 9},
        {{.width = 160, .height = 140, .orientation = 6}, SR_PICTURE_IS_ORIENTED, 9},
        {{.width = 16, .height = 14, .orientation = 3}, SR_PICTURE_IS_ORIENTED, 0},
    };
    picture_fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const test_picture *p = &cases[i].picture;
        size_t bytes;
        unsigned flags;
        uint8_t *source = test_jpeg(p, &bytes);
        sr_sample stored = {.label = 5};
        assert_ok(sr_picture_normalise(f->worker, source, bytes, &as_it_is, &stored, &flags));
        assert_int_equal(cases[i].flags, flags);
        assert_int_equal(5, stored.label);
        assert_true(stored.encoded && stored.width == p->width && stored.height == p->height);
        assert_int_equal(p->components ? p->components : 3, stored.channels);
        assert_int_equal(p->orientation ? p->orientation : 1, stored.orientation);
        check_same_pixels(f, source, bytes, &stored);
        assert_ok(sr_picture_check(f->worker, source, bytes));
        if (cases[i].rows == 0)
            assert_null(stored.segments);
        else
            check_index(&stored, cases[i].rows);
        const uint8_t *data = stored.data; // sequential Huffman: SOF0 or SOF1, no SOF2, no SOF9
        for (size_t at = 2; data[at + 1] != 0xda;
             at += 2 + ((size_t)data[at + 2] << 8 | data[at + 3]))
            assert_true(data[at + 1] != 0xc2 && data[at + 1] != 0xc9 && data[at + 1] != 0xca);
        free(source);
    }
}

static void test_cmyk(void **state) {
    picture_fixture *f = *state;
    for (int ycck = 0; ycck < 2; ycck++) {
        test_picture p = {.width = 140, .height = 130, .components = 4, .ycck = ycck != 0};
        size_t bytes;
        unsigned flags;
        uint8_t *source = test_jpeg(&p, &bytes);
        sr_sample stored;
        assert_ok(sr_picture_normalise(f->worker, source, bytes, &as_it_is, &stored, &flags));
        assert_int_equal(SR_PICTURE_IS_CMYK, flags);
        assert_int_equal(3, stored.channels);
        check_index(&stored, 17);
        sr_pixels a, b;
        decode_all(f->decoder, source, bytes, 1, &a);
        decode_all(f->other, stored.data, stored.bytes, 1, &b);
        double sum = 0;
        for (int64_t i = 0; i < a.width * a.height * 3; i++)
            sum += abs(a.data[i] - b.data[i]);
        assert_true(sum / (double)(a.width * a.height * 3) < 4.0); // quality 95 on noise
        free(source);
    }
}

static void test_png_kinds(void **state) {
    static const struct {
        unsigned type, depth, channels, flags;
    } cases[] = {
        {SPNG_COLOR_TYPE_TRUECOLOR, 8, 3, 0},
        {SPNG_COLOR_TYPE_GRAYSCALE, 8, 1, SR_PICTURE_IS_GREY},
        {SPNG_COLOR_TYPE_INDEXED, 8, 3, SR_PICTURE_WAS_REDUCED},
        {SPNG_COLOR_TYPE_TRUECOLOR, 16, 3, SR_PICTURE_WAS_REDUCED},
        {SPNG_COLOR_TYPE_GRAYSCALE, 16, 1, SR_PICTURE_WAS_REDUCED | SR_PICTURE_IS_GREY},
        {SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, 8, 3, SR_PICTURE_WAS_REDUCED},
        {SPNG_COLOR_TYPE_GRAYSCALE_ALPHA, 8, 1, SR_PICTURE_WAS_REDUCED | SR_PICTURE_IS_GREY},
    };
    picture_fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_picture p = {.width = 150, .height = 33};
        size_t bytes;
        unsigned flags;
        uint8_t *source = test_png(&p, cases[i].type, cases[i].depth, &bytes);
        sr_sample stored;
        assert_ok(sr_picture_normalise(f->worker, source, bytes, &as_it_is, &stored, &flags));
        assert_int_equal(cases[i].flags | SR_PICTURE_IS_PNG, flags);
        assert_int_equal(cases[i].channels, stored.channels);
        assert_memory_equal("\x89PNG", stored.data, 4);
        check_same_pixels(f, source, bytes, &stored);
        for (size_t cut = 0; cut < bytes; cut += cut < 200 ? 1 : 97) {
            sr_status status =
                sr_picture_normalise(f->worker, source, cut, &as_it_is, &stored, &flags);
            assert_status(SR_E_DATA, status);
        }
        source[bytes / 2] ^= 1;
        assert_status(SR_E_DATA,
                      sr_picture_normalise(f->worker, source, bytes, &as_it_is, &stored, &flags));
        free(source);
    }
}

// Stored pixels instead of a stream: those of the decoder, rotated upright or not as the record
// says.
static void test_raw(void **state) {
    picture_fixture *f = *state;
    const test_picture pictures[] = {{.width = 150, .height = 140},
                                     {.width = 150, .height = 140, .components = 1},
                                     {.width = 140, .height = 130, .components = 4},
                                     {.width = 160, .height = 140, .orientation = 6}};
    for (size_t i = 0; i < sizeof pictures / sizeof pictures[0]; i++) {
        const test_picture *p = &pictures[i];
        const sr_picture_options raw = {.raw = true}, smaller = {.raw = true, .max_side = 70};
        size_t bytes;
        unsigned flags;
        sr_sample stored;
        sr_pixels pixels;
        uint8_t *source = test_jpeg(p, &bytes);
        assert_ok(sr_picture_normalise(f->worker, source, bytes, &raw, &stored, &flags));
        assert_false(stored.encoded);
        assert_null(stored.segments);
        assert_true(stored.width == p->width && stored.height == p->height && stored.channels == 3);
        assert_int_equal(p->width * p->height * 3, stored.bytes);
        assert_int_equal(p->orientation ? p->orientation : 1, stored.orientation);
        decode_all(f->decoder, source, bytes, 1, &pixels);
        if (p->components != 4) // CMYK pixels went through a JPEG of quality 95
            assert_memory_equal(pixels.data, stored.data, stored.bytes);
        assert_ok(sr_picture_normalise(f->worker, source, bytes, &smaller, &stored, &flags));
        assert_true((flags & (unsigned)SR_PICTURE_WAS_RESIZED) != 0);
        assert_int_equal(70, stored.width < stored.height ? stored.width : stored.height);
        assert_int_equal(stored.width * stored.height * 3, stored.bytes);
        free(source);
    }
}

// Segments per row of MCUs: the largest number up to the requested one that divides them evenly.
static void test_segments(void **state) {
    picture_fixture *f = *state;
    const struct {
        unsigned width;
        int wanted, segments; // per row
    } cases[] = {{192, 0, 1},
                 {192, 1, 1},
                 {192, 4, 4},
                 {192, 5, 4},
                 {208, 8, 1},
                 {208, 13, 13},
                 {192, SR_PICTURE_NO_INDEX, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const test_picture p = {.width = cases[i].width, .height = 160};
        const sr_picture_options options = {.segments = cases[i].wanted};
        size_t bytes;
        unsigned flags;
        sr_sample stored;
        uint8_t *source = test_jpeg(&p, &bytes);
        assert_ok(sr_picture_normalise(f->worker, source, bytes, &options, &stored, &flags));
        if (cases[i].segments == 0)
            assert_null(stored.segments);
        else
            check_index(&stored, 10 * cases[i].segments);
        check_same_pixels(f, source, bytes, &stored);
        free(source);
    }
}

static void test_max_side(void **state) {
    picture_fixture *f = *state;
    test_picture p = {.width = 640, .height = 400};
    const sr_picture_options options = {.max_side = 150, .quality = 80};
    size_t bytes;
    unsigned flags;
    sr_sample stored;
    uint8_t *source = test_jpeg(&p, &bytes);
    assert_ok(sr_picture_normalise(f->worker, source, bytes, &options, &stored, &flags));
    assert_int_equal(SR_PICTURE_WAS_RESIZED, flags);
    assert_true(stored.width == 240 && stored.height == 150);
    check_index(&stored, 10);
    sr_pixels pixels;
    decode_all(f->decoder, stored.data, stored.bytes, 1, &pixels);
    assert_true(pixels.width == 240 && pixels.height == 150);
    free(source);

    p = (test_picture){.width = 100, .height = 400, .components = 1};
    source = test_jpeg(&p, &bytes); // already small enough
    assert_ok(sr_picture_normalise(f->worker, source, bytes, &options, &stored, &flags));
    assert_int_equal(SR_PICTURE_IS_GREY, flags);
    check_same_pixels(f, source, bytes, &stored);
    free(source);

    p = (test_picture){.width = 300, .height = 400};
    source = test_png(&p, SPNG_COLOR_TYPE_GRAYSCALE, 8, &bytes);
    assert_ok(sr_picture_normalise(f->worker, source, bytes, &options, &stored, &flags));
    assert_true(stored.width == 150 && stored.height == 200 && stored.channels == 1);
    assert_memory_equal("\xff\xd8", stored.data, 2);
    free(source);
}

static void test_truncated(void **state) {
    picture_fixture *f = *state;
    for (int progressive = 0; progressive < 2; progressive++) {
        test_picture p = {.width = 50, .height = 40, .progressive = progressive != 0};
        size_t bytes;
        unsigned flags;
        sr_sample stored;
        uint8_t *source = test_jpeg(&p, &bytes);
        for (size_t cut = 0; cut < bytes; cut++) {
            assert_status(SR_E_DATA,
                          sr_picture_normalise(f->worker, source, cut, &as_it_is, &stored, &flags));
            assert_status(SR_E_DATA, sr_picture_check(f->worker, source, cut));
        }
        assert_ok(sr_picture_normalise(f->worker, source, bytes, &as_it_is, &stored, &flags));
        free(source);
    }
}

// Flipped bits cause an error or leave a picture that decodes; both end with a normal answer.
static void test_flipped(void **state) {
    picture_fixture *f = *state;
    test_picture p = {.width = 40, .height = 30, .orientation = 5};
    size_t bytes;
    unsigned flags, refused = 0;
    sr_sample stored;
    uint8_t *source = test_jpeg(&p, &bytes);
    for (size_t bit = 0; bit < 8 * bytes; bit += 3) {
        source[bit / 8] ^= (uint8_t)(1u << bit % 8);
        sr_status status =
            sr_picture_normalise(f->worker, source, bytes, &as_it_is, &stored, &flags);
        assert_true(status == SR_OK || status == SR_E_DATA || status == SR_E_LIMIT);
        if (status == SR_OK) {
            sr_pixels pixels;
            decode_all(f->decoder, stored.data, stored.bytes, stored.orientation, &pixels);
        }
        refused += status != SR_OK;
        source[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(refused > 100);
    free(source);
}

static void test_limits(void **state) {
    picture_fixture *f = *state;
    test_picture p = {.width = 32, .height = 32};
    size_t bytes;
    unsigned flags;
    sr_sample stored;
    uint8_t *source = test_jpeg(&p, &bytes);
    for (size_t at = 2; at + 8 < bytes; at++) // SOF0: length, precision, height, width
        if (source[at] == 0xff && source[at + 1] == 0xc0) {
            memset(source + at + 5, 0xea, 4); // 60138 x 60138
            break;
        }
    assert_status(SR_E_LIMIT,
                  sr_picture_normalise(f->worker, source, bytes, &as_it_is, &stored, &flags));
    assert_message("Mpx");
    free(source);

    // 150 scans: the last scan of a progressive picture is repeated before EOI. libjpeg reports the
    // progression first or counts scans: refused in either case, and quickly.
    p.progressive = true;
    source = test_jpeg(&p, &bytes);
    size_t scan = 0;
    for (size_t at = 2; at + 2 < bytes; at++)
        if (source[at] == 0xff && source[at + 1] == 0xda)
            scan = at;
    size_t length = bytes - 2 - scan;
    uint8_t *many = malloc(bytes + 150 * length);
    assert_non_null(many);
    memcpy(many, source, bytes - 2);
    for (size_t i = 0; i < 150; i++)
        memcpy(many + bytes - 2 + i * length, source + scan, length);
    memcpy(many + bytes - 2 + 150 * length, "\xff\xd9", 2);
    sr_status status =
        sr_picture_normalise(f->worker, many, bytes + 150 * length, &as_it_is, &stored, &flags);
    assert_true(status == SR_E_LIMIT || status == SR_E_DATA);
    free(many);
    free(source);
}

static void test_not_pictures(void **state) {
    picture_fixture *f = *state;
    static const struct {
        const char *data;
        size_t bytes;
        const char *message;
    } cases[] = {
        {"", 0, "empty"},
        {"<html>404</html>", 16, "not a picture"},
        {"GIF89a..........", 16, "GIF is not supported"},
        {"RIFF....WEBPVP8 ", 16, "WebP is not supported"},
        {"BM....\0\0\0\0......", 16, "BMP is not supported"},
        {"BMW is a car....", 16, "not a picture"},
    };
    unsigned flags;
    sr_sample stored;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_status(SR_E_DATA, sr_picture_normalise(f->worker, (const uint8_t *)cases[i].data,
                                                      cases[i].bytes, &as_it_is, &stored, &flags));
        assert_message(cases[i].message);
    }
    assert_true(sr_picture_named("a/b.JPEG") && sr_picture_named("x.png"));
    assert_false(sr_picture_named("notes.txt") || sr_picture_named("jpg"));
}

static void test_exif(void **state) {
    (void)state;
    uint8_t exif[] = {'I', 'I', 42, 0, 8, 0,    0, 0, 2, 0, 1, 1, 3, 0, 1, 0, 0,
                      0,   9,   0,  0, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 7, 0, 0, 0};
    assert_int_equal(7, sr_exif_orientation(exif, sizeof exif));
    for (size_t n = 0; n < sizeof exif; n++) {
        uint8_t *cut = malloc(n);
        assert_true(cut != NULL || n == 0);
        if (n > 0)
            memcpy(cut, exif, n);
        assert_int_equal(1, sr_exif_orientation(cut, n));
        free(cut);
    }
    exif[30] = 9;
    assert_int_equal(1, sr_exif_orientation(exif, sizeof exif));
    exif[4] = 0xff; // the directory is out of bounds
    exif[7] = 0xff;
    assert_int_equal(1, sr_exif_orientation(exif, sizeof exif));
}

static void test_sums(void **state) {
    picture_fixture *f = *state;
    test_picture p = {.width = 20, .height = 10};
    size_t bytes;
    unsigned flags;
    sr_sample stored;
    uint8_t *source = test_jpeg(&p, &bytes);
    sr_channel_sums sums = {0}, expected = {0};
    sr_pixels pixels;
    assert_ok(sr_picture_normalise(f->worker, source, bytes, &as_it_is, &stored, &flags));
    assert_ok(sr_picture_sum(f->worker, &stored, &sums));
    decode_all(f->decoder, source, bytes, 1, &pixels);
    sr_channel_sums_add_rgb(&expected, pixels.data, 200);
    assert_memory_equal(&expected, &sums, sizeof sums);
    free(source);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jpeg_kinds), cmocka_unit_test(test_cmyk),
        cmocka_unit_test(test_png_kinds),  cmocka_unit_test(test_max_side),
        cmocka_unit_test(test_raw),        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_truncated),  cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_limits),     cmocka_unit_test(test_not_pictures),
        cmocka_unit_test(test_exif),       cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
