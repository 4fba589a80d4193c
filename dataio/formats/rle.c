// SPDX-License-Identifier: Apache-2.0
// Run lengths of masks (rle.h). There are no operations on masks such as union, area or overlap.
#include "dataio/formats/rle.h"

#include <stdbool.h>
#include <string.h>

#include "kernels/base/memory.h"

#define GROUP_MAX 7 // of five bits: 33 bits and a sign are enough for a u32

void sr_rle_release(sr_rle *rle) {
    sr_free(rle->counts);
    sr_free(rle->text);
    sr_free(rle->pixels);
    *rle = (sr_rle){0};
}

sr_status sr_rle_add(sr_rle *rle, uint32_t length) {
    SR_TRY(sr_grow(&rle->counts, &rle->capacity, rle->count + 1, sizeof(uint32_t), "run lengths"));
    ((uint32_t *)rle->counts)[rle->count++] = length;
    return SR_OK;
}

sr_status sr_rle_parse(sr_rle *rle, const void *text, size_t bytes) {
    const uint8_t *at = text, *end = at + bytes;
    rle->count = 0;
    while (at < end) {
        int64_t value = 0;
        int groups = 0;
        bool more = true;
        while (more) {
            if (at == end || *at < 48 || *at >= 48 + 64 || groups == GROUP_MAX)
                return SR_FAIL(SR_E_DATA, "damaged run lengths at character %zu of %zu",
                               (size_t)(at - (const uint8_t *)text) + 1, bytes);
            const unsigned c = *at++ - 48u;
            value |= (int64_t)(c & 31) << (5 * groups++);
            more = (c & 32) != 0;
            if (!more && (c & 16) != 0)
                value -= INT64_C(1) << (5 * groups);
        }
        if (rle->count > 2)
            value += ((const uint32_t *)rle->counts)[rle->count - 2];
        if (value < 0 || value > UINT32_MAX)
            return SR_FAIL(SR_E_DATA, "run length %zu is %lld", rle->count + 1, (long long)value);
        SR_TRY(sr_rle_add(rle, (uint32_t)value));
    }
    return SR_OK;
}

sr_status sr_rle_print(sr_rle *rle) {
    const uint32_t *counts = rle->counts;
    SR_TRY(sr_grow(&rle->text, &rle->text_capacity, rle->count * GROUP_MAX + 1, 1, "run lengths"));
    char *out = rle->text;
    for (size_t i = 0; i < rle->count; i++) {
        int64_t value = (int64_t)counts[i] - (i > 2 ? (int64_t)counts[i - 2] : 0);
        bool more = true;
        while (more) {
            const unsigned group = (unsigned)(value & 31);
            // Floor division by 32, for either sign.
            value = (value - (int64_t)group) / 32;
            more = (group & 16) != 0 ? value != -1 : value != 0;
            *out++ = (char)(48 + (group | (more ? 32u : 0u)));
        }
    }
    rle->text_bytes = (size_t)(out - (char *)rle->text);
    return SR_OK;
}

sr_status sr_rle_check(const sr_rle *rle, uint64_t height, uint64_t width) {
    uint64_t sum = 0;
    for (size_t i = 0; i < rle->count; i++)
        sum += ((const uint32_t *)rle->counts)[i];
    if (sum != height * width)
        return SR_FAIL(SR_E_DATA, "run lengths cover %llu pixels, not %llu x %llu",
                       (unsigned long long)sum, (unsigned long long)height,
                       (unsigned long long)width);
    return SR_OK;
}

// One byte for each pixel, column by column.
static sr_status expand(sr_rle *rle, size_t pixels) {
    SR_TRY(sr_grow(&rle->pixels, &rle->pixel_capacity, pixels, 1, "mask"));
    uint8_t *at = rle->pixels;
    for (size_t i = 0; i < rle->count; i++) {
        const uint32_t length = ((const uint32_t *)rle->counts)[i];
        memset(at, (int)(i & 1), length);
        at += length;
    }
    return SR_OK;
}

sr_status sr_rle_resize(sr_rle *rle, int64_t height, int64_t width, int64_t new_height,
                        int64_t new_width) {
    SR_TRY(expand(rle, (size_t)(height * width)));
    const uint8_t *pixels = rle->pixels;
    uint32_t run = 0;
    uint8_t value = 0;
    rle->count = 0;
    for (int64_t x = 0; x < new_width; x++) {
        const uint8_t *column = pixels + (2 * x + 1) * width / (2 * new_width) * height;
        for (int64_t y = 0; y < new_height; y++) {
            if (column[(2 * y + 1) * height / (2 * new_height)] != value) {
                SR_TRY(sr_rle_add(rle, run));
                run = 0;
                value = !value;
            }
            run++;
        }
    }
    return sr_rle_add(rle, run);
}
