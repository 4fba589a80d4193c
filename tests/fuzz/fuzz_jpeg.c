// SPDX-License-Identifier: Apache-2.0
// Compares our own decoding of JPEGs with libjpeg-turbo's on fuzzed files. What ours decodes, with
// any set of inner loops, with and without a row index, at any scale, libjpeg-turbo decodes to the
// same pixels without a warning.
#include "dataio/image/picture_internal.h"
#include "dataio/jpeg/jpeg_region_internal.h"
#include "kernels/base/memory.h"
#include "tests/fuzz/scratch.h"
#include "tests/unit/support/library_jpeg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_PIXELS = 1 << 18, MOST_SCALE = 8 };

static void require_equal(const sr_encoded *encoded, int scale, const sr_pixels *ours) {
    int64_t width, height;
    uint8_t *pixels = library_jpeg(encoded->data, encoded->bytes, scale, &width, &height);
    require(pixels != NULL && width == ours->width && height == ours->height);
    require(memcmp(pixels, ours->data, (size_t)(3 * width * height)) == 0);
    sr_free(pixels);
}

static void decode(const sr_jpeg_set *set, const sr_encoded *encoded) {
    sr_jpeg_region *decoder;
    sr_decode_times times = {0};
    sr_pixel_buffer buffer = {0};
    int64_t width, height;
    int orientation;
    require(sr_jpeg_region_create(set, &times, &decoder) == SR_OK);
    if (sr_jpeg_region_open(decoder, encoded, &width, &height, &orientation) &&
        width <= MOST_PIXELS / height) {
        const sr_region all = {.width = width, .height = height};
        for (int scale = 1; scale <= MOST_SCALE; scale *= 2) {
            sr_pixels out;
            bool done;
            require(sr_jpeg_region_read(decoder, &all, scale, &buffer, &out, &done) == SR_OK);
            if (done)
                require_equal(encoded, scale, &out);
        }
    }
    sr_pixel_buffer_release(&buffer);
    sr_jpeg_region_free(decoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const sr_jpeg_set *sets[SR_JPEG_MOST_SETS];
    const int count = sr_jpeg_sets(sets);
    uint8_t *copy = sr_alloc(size, "file"); // exact length: a read beyond its end is detected
    picture_bytes index = {0};
    require(copy != NULL);
    memcpy(copy, data, size);
    sr_encoded encoded = {.data = copy, .bytes = size};
    for (int i = 0; i < count; i++)
        decode(sets[i], &encoded);
    if (sr_picture_jpeg_index(copy, size, &index) == SR_OK) {
        encoded.segments = index.data;
        encoded.segment_count = index.bytes / 4;
        for (int i = 0; i < count; i++)
            decode(sets[i], &encoded);
    }
    sr_free(index.data);
    sr_free(copy);
    return 0;
}
