// SPDX-License-Identifier: Apache-2.0
// Huffman decoding of blocks (ITU-T T.81, F.2.2).
//
// One look-up of the next bits tells a code and the number behind it, so that the way from one
// coefficient to the next is a shift, a load and a shift. Where both together are longer, a second
// look-up tells the lengths, and the number is made. Refilling is without branches: 56 bits or
// more, enough for two coefficients. What ends a block is the only other branch.
#ifndef SR_DATAIO_JPEG_ENTROPY_INTERNAL_H
#define SR_DATAIO_JPEG_ENTROPY_INTERNAL_H

#include "dataio/jpeg_set_internal.h"

#define JD_INLINE static inline __attribute__((always_inline))
#define JD_RARE(condition) __builtin_expect(condition, 0)

JD_INLINE uint64_t jd_load(const uint8_t *p) {
    return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 |
           (uint64_t)p[3] << 32 | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 |
           (uint64_t)p[6] << 8 | (uint64_t)p[7];
}

// At least 56 bits from now on.
JD_INLINE void jd_refill(sr_jpeg_bits *b) {
    b->buffer |= jd_load(b->next) >> b->count;
    b->next += (63 - b->count) >> 3;
    b->count |= 56;
}

// The next symbol, and the number behind it.
JD_INLINE sr_jpeg_symbol jd_symbol(sr_jpeg_bits *b, const sr_jpeg_huffman *table, int *number) {
    sr_jpeg_symbol symbol = table->look[b->buffer >> (64 - SR_JPEG_LOOK_BITS)];
    if (JD_RARE(symbol == 0))
        symbol = sr_jpeg_long_symbol(table, (uint32_t)(b->buffer >> 48));
    const uint64_t rest = b->buffer << (symbol >> 8 & 63);
    const int negative = (int)(~(int64_t)rest >> 63);
    *number = (int)(rest >> 1 >> (symbol >> 16 & 63)) + (negative & (int)(symbol >> 32));
    b->buffer <<= symbol & 63;
    b->count -= (int)(symbol & 63);
    return symbol;
}

// The next coefficient: how many places it lies ahead, and its number.
JD_INLINE int jd_coefficient(sr_jpeg_bits *b, const sr_jpeg_huffman *table, int *number) {
    const sr_jpeg_whole whole = table->whole[b->buffer >> (64 - SR_JPEG_WHOLE_BITS)];
    if (JD_RARE(whole == 0))
        return SR_JPEG_SKIP(jd_symbol(b, table, number));
    b->buffer <<= whole & 63;
    b->count -= (int)(whole & 63);
    *number = (int16_t)(whole >> 16);
    return (int)(whole >> 8 & 255);
}

// One block; 'out' is its lane of its group where it is stored.
JD_INLINE bool jd_block(sr_jpeg_bits *b, const sr_jpeg_huffman *dc, const sr_jpeg_huffman *ac,
                        const uint8_t *place, int32_t *last, int16_t *out, bool store) {
    const int end = SR_JPEG_BLOCK - 1;
    int number, skip, k = 0;
    jd_refill(b);
    if (JD_RARE(SR_JPEG_SKIP(jd_symbol(b, dc, &number)) != 0))
        return false;
    *last = (int32_t)((uint32_t)*last + (uint32_t)number);
    if (store)
        out[0] = (int16_t)*last;
    for (;;) {
        jd_refill(b);
        k += skip = jd_coefficient(b, ac, &number);
        if (k >= end)
            break;
        if (store)
            out[place[k]] = (int16_t)number;
        k += skip = jd_coefficient(b, ac, &number);
        if (k >= end)
            break;
        if (store)
            out[place[k]] = (int16_t)number;
    }
    if (k == end && store)
        out[place[k]] = (int16_t)number;
    return k == end || skip == SR_JPEG_SKIP_END;
}

typedef struct jd_part { // a block of an MCU
    const sr_jpeg_huffman *dc, *ac;
    int component, row, column, across;
} jd_part;

static int jd_parts(const sr_jpeg_stream *s, jd_part *parts) {
    int count = 0;
    for (int c = 0; c < s->components; c++) {
        const sr_jpeg_component *component = &s->component[c];
        for (int i = 0; i < component->v * component->h; i++) {
            parts[count++] = (jd_part){.dc = &s->dc[component->dc],
                                       .ac = &s->ac[component->ac],
                                       .component = c,
                                       .row = i / component->h,
                                       .column = i % component->h,
                                       .across = component->h};
        }
    }
    return count;
}

// Places in a group for 'lanes' lanes.
JD_INLINE void jd_places(int lanes, uint8_t *place) {
    for (int i = 0; i < SR_JPEG_BLOCK; i++) {
        const int row = sr_jpeg_zigzag[i] / SR_JPEG_SIDE, column = sr_jpeg_zigzag[i] % SR_JPEG_SIDE;
        place[i] = (uint8_t)(row * SR_JPEG_SIDE * lanes + column);
    }
}

JD_INLINE bool jd_read(const sr_jpeg_stream *s, sr_jpeg_bits *bits, int32_t *dc, int64_t count,
                       sr_jpeg_target *target, int lanes, bool store) {
    jd_part parts[SR_JPEG_MCU_BLOCKS];
    uint8_t place[SR_JPEG_BLOCK];
    sr_jpeg_bits b = *bits;
    const int n = jd_parts(s, parts);
    jd_places(lanes, place);
    for (int64_t m = 0; m < count; m++) {
        for (int i = 0; i < n; i++) {
            const jd_part *p = &parts[i];
            int16_t *out = NULL;
            if (store) {
                const int64_t column = (target->column + m) * p->across + p->column;
                out = target->row[p->component][p->row] +
                      (column / lanes * SR_JPEG_BLOCK * lanes + column % lanes * SR_JPEG_SIDE);
            }
            if (JD_RARE(!jd_block(&b, p->dc, p->ac, place, &dc[p->component], out, store)))
                return false;
        }
        if (JD_RARE(b.next > b.end + sizeof b.buffer))
            return false;
    }
    if (store)
        target->column += count;
    *bits = b;
    return true;
}

#endif
