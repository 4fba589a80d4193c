// SPDX-License-Identifier: Apache-2.0
//   test_crops DATASET   (tests/dist/check_real.py)
//
// Crops of the pictures of a packed data set, decoded with their row index, equal that part of
// libjpeg-turbo's decoding of the whole picture: 100 crops of every picture, and for ten pictures
// every position of each pair of edges within an MCU.
#include <stdio.h>
#include <string.h>

#include "dataio/jpeg/decode.h"
#include "dataio/record/dataset.h"
#include "dataio/record/record.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/library_jpeg.h"
#include "tests/unit/support/test_support.h"

enum { CROPS = 100, THOROUGH = 10, MCU = 16 };

typedef struct picture {
    const char *name;
    sr_encoded encoded;
    int64_t width, height;
    uint8_t *whole;
} picture;

static void check_crop(sr_decoder *decoder, const picture *p, const sr_region *r) {
    int64_t w, h;
    sr_pixels got;
    assert_ok(sr_decoder_open(decoder, &p->encoded, &w, &h));
    assert_true(w == p->width && h == p->height);
    assert_ok(sr_decoder_read(decoder, r, 1, &got));
    assert_true(got.x <= r->x && got.y <= r->y && got.x + got.width >= r->x + r->width &&
                got.y + got.height >= r->y + r->height);
    for (int64_t y = r->y; y < r->y + r->height; y++) {
        if (memcmp(p->whole + 3 * (y * w + r->x),
                   got.data + 3 * ((y - got.y) * got.width + r->x - got.x),
                   (size_t)r->width * 3) != 0)
            fail_msg("%s, region (%d, %d, %d, %d): row %d differs", p->name, (int)r->x, (int)r->y,
                     (int)r->width, (int)r->height, (int)y);
    }
}

static sr_region any_crop(const picture *p, sr_rng *rng) {
    sr_region r = {.width = 1 + sr_rng_below(rng, (uint32_t)p->width),
                   .height = 1 + sr_rng_below(rng, (uint32_t)p->height)};
    r.x = sr_rng_below(rng, (uint32_t)(p->width - r.width + 1));
    r.y = sr_rng_below(rng, (uint32_t)(p->height - r.height + 1));
    return r;
}

// The upper left and the lower right corner at every position within an MCU.
static int64_t check_edges(sr_decoder *decoder, const picture *p) {
    const int64_t x = p->width / 3 / MCU * MCU, y = p->height / 3 / MCU * MCU;
    const int64_t right = p->width * 2 / 3 / MCU * MCU, bottom = p->height * 2 / 3 / MCU * MCU;
    if (right - x < 2 * MCU || bottom - y < 2 * MCU)
        return 0;
    for (int64_t i = 0; i < MCU; i++) {
        for (int64_t k = 0; k < MCU; k++) {
            check_crop(decoder, p, &(sr_region){x + i, y + k, right - x - i, bottom - y - k});
            check_crop(decoder, p, &(sr_region){x, y, right - x + i, bottom - y + k});
        }
    }
    return (int64_t)2 * MCU * MCU;
}

static void test_crops(void **state) {
    const char *path = *state;
    sr_dataset *dataset;
    sr_decoder *decoder;
    int64_t pictures = 0, crops = 0, others = 0;
    assert_ok(sr_dataset_open(path, "train", &dataset));
    assert_ok(sr_decoder_create(&decoder));
    for (int64_t i = 0; i < sr_dataset_count(dataset); i++) {
        const void *data;
        size_t bytes;
        char name[300];
        sr_sample sample;
        picture p = {.name = sr_dataset_sample_name(dataset, i, name)};
        assert_ok(sr_dataset_read(dataset, i, &data, &bytes));
        assert_ok(sr_sample_read(data, bytes, &sample));
        if (!sample.segments) {
            others++;
            continue;
        }
        p.encoded = sr_encoded_of(&sample);
        p.encoded.orientation = 1;
        p.whole = library_jpeg(p.encoded.data, p.encoded.bytes, 1, &p.width, &p.height);
        assert_non_null(p.whole);
        sr_rng rng;
        sr_rng_init(&rng, 41, (uint32_t)i, 0, 0);
        for (int k = 0; k < CROPS; k++) {
            const sr_region r = any_crop(&p, &rng);
            check_crop(decoder, &p, &r);
        }
        crops += CROPS + (pictures < THOROUGH ? check_edges(decoder, &p) : 0);
        pictures++;
        sr_free(p.whole);
    }
    print_message("%lld crops of %lld pictures, %lld pictures without an index\n", (long long)crops,
                  (long long)pictures, (long long)others);
    assert_true(pictures > 0);
    assert_int_equal(sr_decoder_times(decoder).library, 0);
    sr_decoder_free(decoder);
    sr_dataset_free(dataset);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        (void)fputs("usage: test_crops DATASET\n", stderr);
        return 2;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_crops, argv[1])};
    return cmocka_run_group_tests_name("crops", tests, NULL, NULL);
}
