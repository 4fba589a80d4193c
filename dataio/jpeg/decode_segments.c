// SPDX-License-Identifier: Apache-2.0
// Extracts rows of a JPEG as a new JPEG, by the row index that packing stored (see
// dataio/record/record.h).
//
// Entropy decoding is most of the cost of a JPEG. It can be skipped only where the beginning of a
// row is known; with a restart marker at the end of each row of MCUs, or several in it, it is. The
// extract is a complete JPEG, so the library decodes it like any other. Rejected: libjpeg-turbo
// decodes streams with restart markers symbol by symbol; clearing its restart interval within rows
// saves another 6 %, but depends on the library's internals. Source: ITU-T T.81, B.1 and B.2
// (markers, frame header, restart).
#include <string.h>

#include "dataio/jpeg/decode_internal.h"

uint32_t sr_jpeg_segment(const sr_encoded *encoded, int64_t i) {
    const uint8_t *p = (const uint8_t *)encoded->segments + 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static sr_status no_fit(const char *what) {
    return SR_FAIL(SR_E_DATA, "the picture's row index does not match it (%s); pack it again",
                   what);
}

// Finds the offset of the frame header's height, before the scan.
static bool find_height(const uint8_t *data, size_t bytes, size_t *position) {
    size_t at = 2;
    while (at + 9 <= bytes && data[at] == 0xff) {
        unsigned marker = data[at + 1];
        if (marker == 0xc0 || marker == 0xc1) { // baseline, extended sequential
            *position = at + 5;
            return true;
        }
        at += 2 + ((size_t)data[at + 2] << 8 | data[at + 3]);
    }
    return false;
}

static sr_status check_index(const sr_encoded *encoded, const sr_jpeg_row_range *range) {
    int64_t all = (range->height + range->mcu_height - 1) / range->mcu_height;
    const int64_t begin = range->first * range->row_segments,
                  end = begin + range->rows * range->row_segments;
    if (encoded->segment_count != (size_t)(all * range->row_segments) + 1)
        return no_fit("number of rows");
    size_t header = sr_jpeg_segment(encoded, 0), last = sr_jpeg_segment(encoded, begin);
    if (header > encoded->bytes || last < header)
        return no_fit("header");
    for (int64_t i = begin + 1; i <= end; i++) {
        size_t next = sr_jpeg_segment(encoded, i);
        if (next < last + 2 || next > encoded->bytes)
            return no_fit("order of offsets");
        last = next;
    }
    return SR_OK;
}

sr_status sr_jpeg_extract_rows(const sr_encoded *encoded, const sr_jpeg_row_range *range,
                               sr_pixel_buffer *buffer, size_t *bytes) {
    SR_TRY(check_index(encoded, range));
    size_t header = sr_jpeg_segment(encoded, 0), position;
    const int64_t first = range->first * range->row_segments,
                  count = range->rows * range->row_segments;
    size_t begin = sr_jpeg_segment(encoded, first), end = sr_jpeg_segment(encoded, first + count);
    if (!find_height(encoded->data, header, &position))
        return no_fit("frame header");
    SR_TRY(sr_pixel_buffer_fit(buffer, header + end - begin + 2));
    uint8_t *out = buffer->data;
    memcpy(out, encoded->data, header);
    memcpy(out + header, encoded->data + begin, end - begin);
    int64_t bottom = (range->first + range->rows) * range->mcu_height;
    int64_t height =
        (bottom < range->height ? bottom : range->height) - range->first * range->mcu_height;
    out[position] = (uint8_t)(height >> 8);
    out[position + 1] = (uint8_t)height;
    bool to_the_end = first + count + 1 == (int64_t)encoded->segment_count;
    size_t used = header + end - begin;
    for (int64_t i = 0; i + (to_the_end ? 1 : 0) < count; i++) {
        size_t mark = header + sr_jpeg_segment(encoded, first + i + 1) - begin - 2;
        if (out[mark] != 0xff || (out[mark + 1] & 0xf8) != 0xd0)
            return no_fit("restart marker");
        out[mark + 1] = (uint8_t)(0xd0 | (i & 7));
    }
    if (!to_the_end)
        used -= 2; // the end marker replaces the last row's marker
    out[used] = 0xff;
    out[used + 1] = 0xd9;
    *bytes = used + 2;
    return SR_OK;
}
