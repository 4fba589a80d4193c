// SPDX-License-Identifier: Apache-2.0
// Reads the headers of baseline JPEGs (see jpeg_stream_internal.h).
#include "dataio/jpeg/jpeg_stream_internal.h"

#include <string.h>

#include "dataio/jpeg/exif.h"

enum { CODE_LENGTHS = 16, MAX_DC = 11, MAX_AC = 10, ZEROS = 16 };

const uint8_t sr_jpeg_zigzag[SR_JPEG_BLOCK] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// The state of reading, except tables.
typedef struct headers {
    sr_jpeg_stream *s;
    bool frame, jfif, adobe, strange;
    int transform; // of Adobe's marker
    uint8_t id[SR_JPEG_COMPONENTS];
} headers;

// The content of a marker.
typedef struct marker_data {
    const uint8_t *data;
    size_t bytes;
} marker_data;

static unsigned u16(const uint8_t *p) {
    return (unsigned)p[0] << 8 | p[1];
}

// ---- Tables ----

static bool read_quant(sr_jpeg_stream *s, marker_data p) {
    while (p.bytes > 0) {
        const int table = p.data[0] & 15, wide = p.data[0] >> 4;
        const size_t size = 1 + SR_JPEG_BLOCK * (size_t)(1 + wide);
        if (table >= SR_JPEG_TABLES || wide > 1 || p.bytes < size)
            return false;
        for (int i = 0; i < SR_JPEG_BLOCK; i++) {
            const unsigned q = wide ? u16(p.data + 1 + 2 * i) : p.data[1 + i];
            if (q == 0 || q > INT16_MAX)
                return false;
            s->quant[table][sr_jpeg_zigzag[i]] = (uint16_t)q;
        }
        s->quant_defined[table] = true;
        p.data += size;
        p.bytes -= size;
    }
    return true;
}

// The decoded symbol of a value in the file; 0 where it is invalid.
static sr_jpeg_symbol symbol_of(int code, uint8_t value, bool ac) {
    const int run = value >> 4, size = value & 15;
    if (!ac)
        return value > MAX_DC ? 0 : SR_JPEG_SYMBOL(code, 0, value);
    if (size > MAX_AC)
        return 0;
    if (size > 0 || run == ZEROS - 1)
        return SR_JPEG_SYMBOL(code, run + 1, size);
    return run == 0 ? SR_JPEG_SYMBOL(code, SR_JPEG_SKIP_END, 0) : 0;
}

// Fills the entries of a code with all numbers after it, from index 'at' on; returns the index
// after them.
static uint32_t fill_whole(sr_jpeg_huffman *h, uint32_t at, int code, uint8_t value) {
    const int size = value & 15, total = code + size;
    const int skip = value == 0 ? SR_JPEG_SKIP_END : (value >> 4) + 1;
    if (code > SR_JPEG_WHOLE_BITS)
        return at;
    if (total > SR_JPEG_WHOLE_BITS) {
        const uint32_t count = 1u << (SR_JPEG_WHOLE_BITS - code);
        memset(h->whole + at, 0, count * sizeof h->whole[0]);
        return at + count;
    }
    for (int i = 0; i < 1 << size; i++) {
        const int number = size == 0 || i >> (size - 1) ? i : i + 1 - (1 << size);
        const sr_jpeg_whole whole = SR_JPEG_WHOLE(total, skip, number);
        for (uint32_t n = 1u << (SR_JPEG_WHOLE_BITS - total); n > 0; n--)
            h->whole[at++] = whole;
    }
    return at;
}

static bool fill_huffman(sr_jpeg_huffman *h, const uint8_t *counts, const uint8_t *values,
                         bool ac) {
    uint32_t code = 0, index = 0, look = 0, whole = 0;
    for (int length = 1; length <= CODE_LENGTHS; length++, code <<= 1) {
        h->offset[length] = (int32_t)index - (int32_t)code;
        for (int i = 0; i < counts[length - 1]; i++, index++, code++) {
            const sr_jpeg_symbol symbol = symbol_of(length, values[index], ac);
            // A code of ones only is invalid: it could not be distinguished from padding bits.
            if (symbol == 0 || code + 1 >= UINT32_C(1) << length)
                return false;
            h->symbols[index] = symbol;
            if (length <= SR_JPEG_LOOK_BITS)
                for (uint32_t n = 1u << (SR_JPEG_LOOK_BITS - length); n > 0; n--)
                    h->look[look++] = symbol;
            if (ac)
                whole = fill_whole(h, whole, length, values[index]);
        }
        h->first[length] = code << (CODE_LENGTHS - length);
    }
    h->first[CODE_LENGTHS + 1] = UINT32_MAX;
    memset(h->look + look, 0, sizeof h->look - look * sizeof h->look[0]);
    memset(h->whole + whole, 0, sizeof h->whole - whole * sizeof h->whole[0]);
    h->defined = true;
    return true;
}

static bool read_huffman(sr_jpeg_stream *s, marker_data p) {
    while (p.bytes > 0) {
        if (p.bytes < 1 + CODE_LENGTHS)
            return false;
        const int table = p.data[0] & 15, ac = p.data[0] >> 4;
        size_t count = 0;
        for (int i = 0; i < CODE_LENGTHS; i++)
            count += p.data[1 + i];
        if (table >= SR_JPEG_TABLES || ac > 1 || count > 256 || p.bytes < 1 + CODE_LENGTHS + count)
            return false;
        sr_jpeg_huffman *h = ac ? &s->ac[table] : &s->dc[table];
        if (!fill_huffman(h, p.data + 1, p.data + 1 + CODE_LENGTHS, ac))
            return false;
        p.data += 1 + CODE_LENGTHS + count;
        p.bytes -= 1 + CODE_LENGTHS + count;
    }
    return true;
}

// ---- The frame ----

static bool read_frame(headers *h, marker_data p) {
    sr_jpeg_stream *s = h->s;
    if (h->frame || p.bytes < 6 || p.data[0] != 8)
        return false;
    s->height = u16(p.data + 1);
    s->width = u16(p.data + 3);
    s->components = p.data[5];
    if (s->height == 0 || s->width == 0 || (s->components != 1 && s->components != 3) ||
        p.bytes != 6 + 3 * (size_t)s->components)
        return false;
    for (int c = 0; c < s->components; c++) {
        const uint8_t *at = p.data + 6 + 3 * c;
        h->id[c] = at[0];
        // A scan of one component has MCUs of one block, whatever its factors.
        s->component[c].h = s->components == 1 ? 1 : at[1] >> 4;
        s->component[c].v = s->components == 1 ? 1 : at[1] & 15;
        s->component[c].quant = at[2];
        if (at[2] >= SR_JPEG_TABLES)
            return false;
    }
    h->frame = true;
    return true;
}

// Lists luma's one or two blocks in each direction, and chroma's one block.
static void list_mcu_blocks(sr_jpeg_stream *s) {
    s->mcu_blocks = 0;
    for (int c = 0; c < s->components; c++) {
        const sr_jpeg_component *component = &s->component[c];
        for (int i = 0; i < component->v * component->h; i++) {
            s->mcu_block[s->mcu_blocks++] = (sr_jpeg_mcu_block){.dc = &s->dc[component->dc],
                                                                .ac = &s->ac[component->ac],
                                                                .component = c,
                                                                .row = i / component->h,
                                                                .column = i % component->h,
                                                                .across = component->h};
        }
    }
}

static bool plan_frame(sr_jpeg_stream *s) {
    const int h = s->component[0].h, v = s->component[0].v;
    if (h < 1 || h > 2 || v < 1 || v > 2)
        return false;
    s->mcu_width = (int64_t)h * SR_JPEG_SIDE;
    s->mcu_height = (int64_t)v * SR_JPEG_SIDE;
    s->columns = sr_jpeg_ceil_div(s->width, s->mcu_width);
    s->rows = sr_jpeg_ceil_div(s->height, s->mcu_height);
    for (int c = 1; c < s->components; c++) {
        sr_jpeg_component *chroma = &s->component[c];
        if (chroma->h != 1 || chroma->v != 1)
            return false;
    }
    list_mcu_blocks(s);
    return true;
}

// Whether three components are YCbCr, by libjpeg-turbo's rules.
static bool is_ycc(const headers *h) {
    if (h->jfif)
        return true;
    if (h->adobe)
        return h->transform == 1;
    return h->id[0] == 1 && h->id[1] == 2 && h->id[2] == 3;
}

static bool read_scan(headers *h, marker_data p) {
    sr_jpeg_stream *s = h->s;
    if (!h->frame || p.bytes != 4 + 2 * (size_t)s->components || p.data[0] != s->components)
        return false;
    for (int c = 0; c < s->components; c++) {
        const uint8_t *at = p.data + 1 + 2 * c;
        sr_jpeg_component *component = &s->component[c];
        component->dc = at[1] >> 4;
        component->ac = at[1] & 15;
        if (at[0] != h->id[c] || component->dc >= SR_JPEG_TABLES ||
            component->ac >= SR_JPEG_TABLES || !s->dc[component->dc].defined ||
            !s->ac[component->ac].defined || !s->quant_defined[component->quant])
            return false;
    }
    const uint8_t *band = p.data + p.bytes - 3;
    return !h->strange && band[0] == 0 && band[1] == SR_JPEG_BLOCK - 1 && band[2] == 0 &&
           (s->components == 1 || is_ycc(h)) && plan_frame(s);
}

// ---- Markers ----

static void read_app(headers *h, int marker, marker_data p) {
    if (marker == SR_JPEG_APP0 && p.bytes >= 14 && memcmp(p.data, "JFIF", 5) == 0) {
        h->jfif = true;
        h->strange = h->strange || p.data[5] != 1; // libjpeg-turbo warns about other revisions
    }
    if (marker == SR_JPEG_APP14 && p.bytes >= 12 && memcmp(p.data, "Adobe", 5) == 0) {
        h->adobe = true;
        h->transform = p.data[11];
    }
    if (marker == SR_JPEG_APP1 && h->s->orientation == 1)
        h->s->orientation = sr_exif_of_marker(p.data, p.bytes);
}

static bool read_marker(headers *h, int marker, marker_data p) {
    switch (marker) {
    case SR_JPEG_SOF0:
    case SR_JPEG_SOF1:
        return read_frame(h, p);
    case SR_JPEG_DHT:
        return read_huffman(h->s, p);
    case SR_JPEG_DQT:
        return read_quant(h->s, p);
    case SR_JPEG_DRI:
        h->s->restart = p.bytes == 2 ? u16(p.data) : 0;
        return p.bytes == 2;
    case SR_JPEG_SOS:
        return read_scan(h, p);
    default:
        read_app(h, marker, p);
        return marker == SR_JPEG_COM || (marker >= SR_JPEG_APP0 && marker <= SR_JPEG_APP15);
    }
}

bool sr_jpeg_stream_read(sr_jpeg_stream *s, const uint8_t *data, size_t bytes) {
    headers h = {.s = s};
    size_t at = 2;
    s->data = data;
    s->bytes = bytes;
    s->orientation = 1;
    s->restart = 0;
    for (int i = 0; i < SR_JPEG_TABLES; i++)
        s->quant_defined[i] = s->dc[i].defined = s->ac[i].defined = false;
    if (bytes < 4 || data[0] != SR_JPEG_MARK || data[1] != SR_JPEG_SOI)
        return false;
    for (;;) {
        if (bytes - at < 4 || data[at] != SR_JPEG_MARK)
            return false;
        const int marker = data[at + 1];
        const size_t length = u16(data + at + 2);
        if (length < 2 || length > bytes - at - 2)
            return false;
        if (!read_marker(&h, marker, (marker_data){data + at + 4, length - 2}))
            return false;
        at += 2 + length;
        if (marker == SR_JPEG_SOS)
            break;
    }
    s->scan = at;
    return true;
}
