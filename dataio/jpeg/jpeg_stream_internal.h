// SPDX-License-Identifier: Apache-2.0
// The headers of a baseline JPEG, converted to tables for decoding.
//
// Baseline here means baseline or extended sequential Huffman coding of 8 bits, one scan, greyscale
// or YCbCr with chroma at full or half resolution in each direction. libjpeg-turbo decodes
// everything else and reports errors of invalid files. Results are bit-identical to
// libjpeg-turbo's. Source: ITU-T T.81, B.2 (markers), C and F.2.2 (Huffman tables); JFIF 1.02.
#ifndef SR_DATAIO_JPEG_STREAM_INTERNAL_H
#define SR_DATAIO_JPEG_STREAM_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SR_JPEG_COMPONENTS 3
#define SR_JPEG_TABLES 4
#define SR_JPEG_BLOCK 64      // coefficients, or pixels, of a block
#define SR_JPEG_SIDE 8        // of a block
#define SR_JPEG_MCU_BLOCKS 6  // at most: four of luma, two of chroma
#define SR_JPEG_LOOK_BITS 10  // longest code in the symbol table
#define SR_JPEG_WHOLE_BITS 11 // longest code with its number in the combined table

enum { // markers (T.81, table B.1), after SR_JPEG_MARK
    SR_JPEG_MARK = 0xff,
    SR_JPEG_STUFFED = 0x00, // no marker: a data byte 0xff
    SR_JPEG_SOF0 = 0xc0,    // baseline
    SR_JPEG_SOF1 = 0xc1,    // extended sequential
    SR_JPEG_DHT = 0xc4,
    SR_JPEG_RST0 = 0xd0,
    SR_JPEG_SOI = 0xd8,
    SR_JPEG_EOI = 0xd9,
    SR_JPEG_SOS = 0xda,
    SR_JPEG_DQT = 0xdb,
    SR_JPEG_DRI = 0xdd,
    SR_JPEG_APP0 = 0xe0,
    SR_JPEG_APP1 = 0xe1,
    SR_JPEG_APP14 = 0xee,
    SR_JPEG_APP15 = 0xef,
    SR_JPEG_COM = 0xfe,
};

static inline int64_t sr_jpeg_ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

// A table entry for the next bits: bits 0..5 length of code and number together, 8..13 length of
// the code, 16..21 right shift of the number, 24..31 positions to advance in the block, 32..63
// addend of a number that begins with 0 (T.81, F.2.2.1: EXTEND). 0: the code is longer than
// SR_JPEG_LOOK_BITS, or invalid.
typedef uint64_t sr_jpeg_symbol;
#define SR_JPEG_SYMBOL(code, skip, size)                                                           \
    ((uint64_t)((code) + (size)) | (uint64_t)(code) << 8 | (uint64_t)(63 - (size)) << 16 |         \
     (uint64_t)(skip) << 24 | (uint64_t)(1 - (1 << (size))) << 32)
#define SR_JPEG_SKIP(symbol) ((int)((symbol) >> 24 & 255))
#define SR_JPEG_SKIP_END 128  // positions that an end of block advances
#define SR_JPEG_SKIP_NONE 255 // of an invalid code

// A code with its number: bits 0..7 length of both, 8..15 positions to advance, 16..31 the number.
// 0: they are longer than SR_JPEG_WHOLE_BITS.
typedef uint32_t sr_jpeg_whole;
#define SR_JPEG_WHOLE(bits, skip, number)                                                          \
    ((uint32_t)(bits) | (uint32_t)(skip) << 8 | (uint32_t)(uint16_t)(number) << 16)

typedef struct sr_jpeg_huffman {
    bool defined;
    sr_jpeg_whole whole[1 << SR_JPEG_WHOLE_BITS]; // of AC tables
    sr_jpeg_symbol look[1 << SR_JPEG_LOOK_BITS];
    uint32_t first[18]; // by length: the first longer code, as the upper of 16 bits; beyond 16: all
    int32_t offset[17]; // by length: index of its first code in symbols, minus that code
    sr_jpeg_symbol symbols[256];
} sr_jpeg_huffman;

typedef struct sr_jpeg_component {
    int h, v;          // blocks per MCU in each direction
    int quant, dc, ac; // tables
} sr_jpeg_component;

typedef struct sr_jpeg_mcu_block { // a block of an MCU
    const sr_jpeg_huffman *dc, *ac;
    int component, row, column;
    int across; // blocks of the component in a row of an MCU
} sr_jpeg_mcu_block;

typedef struct sr_jpeg_stream {
    const uint8_t *data;
    size_t bytes, scan; // where entropy-coded data begins
    int64_t width, height;
    int orientation; // EXIF code; 1 where there is none
    int components;  // 1 or 3
    sr_jpeg_component component[SR_JPEG_COMPONENTS];
    sr_jpeg_mcu_block mcu_block[SR_JPEG_MCU_BLOCKS]; // in the order of the file
    int mcu_blocks;
    int64_t restart;                               // MCUs of a segment; 0: all
    int64_t mcu_width, mcu_height, columns, rows;  // pixels of an MCU; MCUs
    uint16_t quant[SR_JPEG_TABLES][SR_JPEG_BLOCK]; // in row-major order
    bool quant_defined[SR_JPEG_TABLES];
    sr_jpeg_huffman dc[SR_JPEG_TABLES], ac[SR_JPEG_TABLES];
} sr_jpeg_stream;

// Positions of coefficients in the order of the file (T.81, figure A.6): row * 8 + column.
extern const uint8_t sr_jpeg_zigzag[SR_JPEG_BLOCK];

// Reads the headers; the bytes are borrowed. False where the stream is not baseline (see above) or
// incomplete.
bool sr_jpeg_stream_read(sr_jpeg_stream *stream, const uint8_t *data, size_t bytes);

// The symbol of a code longer than SR_JPEG_LOOK_BITS, from the next 16 bits; SR_JPEG_SKIP_NONE for
// an invalid code.
static inline sr_jpeg_symbol sr_jpeg_long_symbol(const sr_jpeg_huffman *table, uint32_t bits) {
    int length = SR_JPEG_LOOK_BITS + 1;
    while (bits >= table->first[length])
        length++;
    if (length > 16)
        return SR_JPEG_SYMBOL(0, SR_JPEG_SKIP_NONE, 0);
    return table->symbols[(uint8_t)((int32_t)(bits >> (16 - length)) + table->offset[length])];
}

#endif
