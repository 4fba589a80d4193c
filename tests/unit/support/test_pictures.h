// SPDX-License-Identifier: Apache-2.0
// Pictures for tests of packing: JPEG of all kinds through libjpeg, PNG through libspng. Contents
// are a smooth ramp with some texture, from a seed.
#ifndef SR_TESTS_UNIT_TEST_PICTURES_H
#define SR_TESTS_UNIT_TEST_PICTURES_H

#include "tests/unit/support/test_support.h"

#include <stdbool.h>

#include <jpeglib.h>
#include <spng.h>

typedef struct test_picture {
    unsigned width, height, seed;
    int components; // 1, 3, 4 (CMYK); 0: 3
    bool ycck, progressive, arithmetic, no_subsampling;
    int orientation; // 0: no EXIF
} test_picture;

static inline uint8_t test_pixel(const test_picture *p, unsigned x, unsigned y, unsigned c) {
    unsigned noise = (x * 2654435761u ^ y * 40503u ^ (c + p->seed) * 69069u) >> 7 & 31;
    return (uint8_t)((x * 3 + y * 2 + c * 60 + p->seed * 17 + noise) & 255);
}

static inline void test_put_exif(struct jpeg_compress_struct *info, int orientation) {
    JOCTET exif[] = {'E',  'x',  'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1,
                     0x01, 0x12, 0,   3,   0, 0, 0,   1,   0, 0,  0, 0, 0, 0, 0, 0};
    exif[25] = (JOCTET)orientation;
    jpeg_write_marker(info, JPEG_APP0 + 1, exif, sizeof exif);
}

// Freed with free().
static inline uint8_t *test_jpeg(const test_picture *p, size_t *bytes) {
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long length = 0;
    unsigned components = p->components ? (unsigned)p->components : 3;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &out, &length);
    info.image_width = p->width;
    info.image_height = p->height;
    info.input_components = (int)components;
    info.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, 90, TRUE);
    if (p->ycck)
        jpeg_set_colorspace(&info, JCS_YCCK);
    if (p->no_subsampling)
        info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 1;
    if (p->progressive)
        jpeg_simple_progression(&info);
    info.arith_code = p->arithmetic;
    jpeg_start_compress(&info, TRUE);
    if (p->orientation)
        test_put_exif(&info, p->orientation);
    JSAMPLE *row = malloc((size_t)p->width * components);
    assert_non_null(row);
    while (info.next_scanline < info.image_height) {
        for (unsigned i = 0; i < p->width * components; i++)
            row[i] = test_pixel(p, i / components, info.next_scanline, i % components);
        (void)jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    free(row);
    *bytes = length;
    return out;
}

// Any colour type and depth; freed with free().
static inline uint8_t *test_png(const test_picture *p, unsigned color_type, unsigned depth,
                                size_t *bytes) {
    static const unsigned channels_of[] = {1, 0, 3, 1, 2, 0, 4};
    spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
    struct spng_ihdr header = {.width = p->width,
                               .height = p->height,
                               .bit_depth = (uint8_t)depth,
                               .color_type = (uint8_t)color_type};
    size_t n = (size_t)p->width * p->height * channels_of[color_type] * (depth / 8);
    uint8_t *data = malloc(n);
    int error;
    assert_true(png != NULL && data != NULL);
    for (size_t i = 0; data && i < n; i++)
        data[i] = test_pixel(p, (unsigned)(i % 100), (unsigned)(i / 100), 0);
    assert_int_equal(0, spng_set_option(png, SPNG_ENCODE_TO_BUFFER, 1));
    assert_int_equal(0, spng_set_ihdr(png, &header));
    if (color_type == SPNG_COLOR_TYPE_INDEXED) {
        struct spng_plte palette = {.n_entries = 256};
        for (unsigned i = 0; i < 256; i++)
            palette.entries[i] = (struct spng_plte_entry){
                .red = (uint8_t)i, .green = (uint8_t)(255 - i), .blue = (uint8_t)(i / 2)};
        assert_int_equal(0, spng_set_plte(png, &palette));
    }
    assert_int_equal(0, spng_encode_image(png, data, n, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE));
    uint8_t *out = spng_get_png_buffer(png, bytes, &error);
    assert_non_null(out);
    spng_ctx_free(png);
    free(data);
    return out;
}

#endif
