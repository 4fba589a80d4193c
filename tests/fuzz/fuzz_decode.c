// SPDX-License-Identifier: Apache-2.0
// Fuzzes decoding as in training: a record with a valid checksum whose picture, row index,
// orientation and shape are arbitrary. The input is 16 bytes of choices, then the row index, then
// the picture. What decodes must have the requested region, in readable memory.
#include "dataio/jpeg/decode.h"
#include "kernels/base/memory.h"
#include "tests/fuzz/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHOICES = 16, MOST_PIXELS = 1 << 20 };

static uint64_t touch(const sr_pixels *p) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < p->width * p->height * p->channels; i++)
        sum += p->data[i];
    return sum;
}

static void decode(const sr_encoded *encoded, const uint8_t *choices) {
    sr_decoder *decoder;
    sr_pixels out;
    int64_t width, height;
    require(sr_decoder_create(&decoder) == SR_OK);
    if (sr_decoder_open(decoder, encoded, &width, &height) == SR_OK &&
        width <= MOST_PIXELS / height) {
        sr_region r = {.x = choices[4] * width / 256, .y = choices[5] * height / 256};
        r.width = 1 + choices[6] * (width - r.x - 1) / 256;
        r.height = 1 + choices[7] * (height - r.y - 1) / 256;
        int most = sr_decoder_max_scale(decoder), scale = 1 << choices[8] % 4;
        require(most == 1 || most == 2 || most == 4 || most == 8);
        scale = scale < most ? scale : most;
        if (sr_decoder_read(decoder, &r, scale, &out) == SR_OK) {
            require(out.x <= r.x / scale && out.y <= r.y / scale);
            require(out.x + out.width >= (r.x + r.width + scale - 1) / scale);
            require(out.y + out.height >= (r.y + r.height + scale - 1) / scale);
            require(touch(&out) <= UINT64_C(255) * (uint64_t)(out.width * out.height) * 4);
        }
    }
    sr_decoder_free(decoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < CHOICES)
        return 0;
    size_t segments = data[0] % 64, index = 4 * segments;
    if (size - CHOICES < index)
        return 0;
    // Allocated with exact lengths, so that a read beyond their end is detected.
    uint8_t *table = sr_alloc(index, "row index");
    uint8_t *picture = sr_alloc(size - CHOICES - index, "picture");
    require(table != NULL && picture != NULL);
    memcpy(table, data + CHOICES, index);
    memcpy(picture, data + CHOICES + index, size - CHOICES - index);
    const sr_encoded encoded = {.data = picture,
                                .bytes = size - CHOICES - index,
                                .raw = data[1] % 4 == 3,
                                .height = data[10] | (int64_t)(data[11] % 4) << 8,
                                .width = data[12] + (int8_t)data[13] * INT64_C(256),
                                .channels = (int8_t)data[14],
                                .orientation = data[2] % 10,
                                .segments = segments > 0 ? table : NULL,
                                .segment_count = segments};
    decode(&encoded, data);
    sr_free(table);
    sr_free(picture);
    return 0;
}
