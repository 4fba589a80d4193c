// SPDX-License-Identifier: Apache-2.0
// Protobuf's wire format with bounds checks: varints, tags, lengths. Source:
// https://protobuf.dev/programming-guides/encoding/
#ifndef SR_DATAIO_WIRE_INTERNAL_H
#define SR_DATAIO_WIRE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

#define WIRE_VARINT_MAX 10

// One field: its number, wire type and value; data is set for WIRE_BYTES, else value.
typedef struct wire_field {
    uint32_t number;
    unsigned type;
    uint64_t value;
    const uint8_t *data;
    size_t bytes;
} wire_field;

static inline bool wire_varint(const uint8_t **at, const uint8_t *end, uint64_t *out) {
    uint64_t value = 0;
    const uint8_t *p = *at;
    for (unsigned shift = 0; p < end && shift < 70; shift += 7) {
        uint64_t byte = *p++;
        if (shift == 63 && byte > 1)
            return false; // more than 64 bits
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *at = p;
            *out = value;
            return true;
        }
    }
    return false;
}

static inline bool wire_fixed(const uint8_t **at, const uint8_t *end, unsigned bytes,
                              uint64_t *out) {
    if ((size_t)(end - *at) < bytes)
        return false;
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)(*at)[i] << 8 * i;
    *at += bytes;
    *out = value;
    return true;
}

// The next field of a message; false for bytes that are not a field (groups are not supported).
static inline bool wire_next(const uint8_t **at, const uint8_t *end, wire_field *field) {
    uint64_t tag;
    const uint8_t *p = *at;
    if (!wire_varint(&p, end, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
        return false;
    *field = (wire_field){.number = (uint32_t)(tag >> 3), .type = (unsigned)(tag & 7)};
    switch (field->type) {
    case WIRE_VARINT:
        if (!wire_varint(&p, end, &field->value))
            return false;
        break;
    case WIRE_FIXED64:
        if (!wire_fixed(&p, end, 8, &field->value))
            return false;
        break;
    case WIRE_FIXED32:
        if (!wire_fixed(&p, end, 4, &field->value))
            return false;
        break;
    case WIRE_BYTES:
        if (!wire_varint(&p, end, &field->value) || field->value > (uint64_t)(end - p))
            return false;
        field->data = p;
        field->bytes = (size_t)field->value;
        p += field->bytes;
        break;
    default:
        return false;
    }
    *at = p;
    return true;
}

// Writes at most WIRE_VARINT_MAX bytes; returns their number.
static inline size_t wire_put_varint(uint8_t *out, uint64_t value) {
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        out[n++] = (uint8_t)(value | 0x80);
    out[n++] = (uint8_t)value;
    return n;
}

static inline size_t wire_varint_size(uint64_t value) {
    size_t n = 1;
    while (value >>= 7)
        n++;
    return n;
}

#endif
