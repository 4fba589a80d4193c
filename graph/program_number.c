// SPDX-License-Identifier: Apache-2.0
// Numbers of programs as text: with the fewest digits that read back to the same bits.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/program_text_internal.h"

enum { MOST_DIGITS = 17 };

// How a float type is converted; integers have their bounds.
typedef struct number_type {
    size_t bytes;
    bool is_float;
    int64_t low, high;
} number_type;

static const number_type types[SR_DTYPE_COUNT] = {
    [SR_F32] = {4, true, 0, 0},
    [SR_BF16] = {2, true, 0, 0},
    [SR_F16] = {2, true, 0, 0},
    [SR_F64] = {8, true, 0, 0},
    [SR_U8] = {1, false, 0, UINT8_MAX},
    [SR_I8] = {1, false, INT8_MIN, INT8_MAX},
    [SR_I32] = {4, false, INT32_MIN, INT32_MAX},
    [SR_I64] = {8, false, INT64_MIN, INT64_MAX},
};

static double widen(sr_dtype dtype, const void *element) {
    uint16_t half;
    float single;
    double wide;
    if (dtype == SR_F64) {
        memcpy(&wide, element, sizeof wide);
        return wide;
    }
    if (dtype == SR_F32) {
        memcpy(&single, element, sizeof single);
        return (double)single;
    }
    memcpy(&half, element, sizeof half);
    return (double)(dtype == SR_BF16 ? sr_bf16_to_f32(half) : sr_f16_to_f32(half));
}

static bool narrow(sr_dtype dtype, const char *text, void *element) {
    char *end;
    if (dtype == SR_F64) {
        const double wide = strtod(text, &end);
        memcpy(element, &wide, sizeof wide);
        return end != text && *end == '\0' && !isnan(wide);
    }
    const float single = strtof(text, &end);
    const uint16_t half = dtype == SR_BF16 ? sr_f32_to_bf16(single) : sr_f32_to_f16(single);
    if (dtype == SR_F32)
        memcpy(element, &single, sizeof single);
    else
        memcpy(element, &half, sizeof half);
    return end != text && *end == '\0' && !isnan(single);
}

static uint64_t bits_of(size_t bytes, const void *element) {
    uint64_t bits = 0;
    memcpy(&bits, element, bytes);
    return bits;
}

static int64_t integer_of(sr_dtype dtype, const void *element) {
    int64_t wide;
    int32_t value;
    switch (types[dtype].bytes) {
    case 8:
        memcpy(&wide, element, sizeof wide);
        return wide;
    case 4:
        memcpy(&value, element, sizeof value);
        return value;
    default:
        return dtype == SR_U8 ? *(const uint8_t *)element : *(const int8_t *)element;
    }
}

void sr_program_add_number(sr_dtype dtype, const void *element, sr_text *out) {
    const number_type *t = &types[dtype];
    char digits[SR_NUMBER_TEXT];
    uint64_t again = 0;
    if (!t->is_float) {
        sr_text_add(out, "%lld", (long long)integer_of(dtype, element));
        return;
    }
    const double value = widen(dtype, element);
    if (isnan(value)) {
        sr_text_add(out, "nan:%llx", (unsigned long long)bits_of(t->bytes, element));
        return;
    }
    if (isinf(value)) {
        sr_text_add(out, value > 0 ? "inf" : "-inf");
        return;
    }
    for (int precision = 1; precision <= MOST_DIGITS; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (narrow(dtype, digits, &again) &&
            bits_of(t->bytes, &again) == bits_of(t->bytes, element))
            break;
    }
    sr_text_add(out, "%s", digits);
}

static bool read_integer(const number_type *t, const char *text, void *element) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < t->low || value > t->high)
        return false;
    const int64_t wide = value;
    const int32_t small = (int32_t)value;
    const int8_t byte = (int8_t)(uint8_t)(value & 0xff);
    if (t->bytes == 8)
        memcpy(element, &wide, sizeof wide);
    else if (t->bytes == 4)
        memcpy(element, &small, sizeof small);
    else
        memcpy(element, &byte, sizeof byte);
    return true;
}

static bool read_nan(sr_dtype dtype, const char *digits, void *element) {
    const size_t bytes = types[dtype].bytes;
    char *end;
    errno = 0;
    const uint64_t bits = strtoull(digits, &end, 16);
    if (end == digits || *end != '\0' || errno != 0 || *digits == '-' || *digits == '+' ||
        (bytes < sizeof bits && bits >> (8 * bytes) != 0))
        return false;
    memcpy(element, &bits, bytes);
    return isnan(widen(dtype, element));
}

bool sr_program_read_number(sr_dtype dtype, const char *text, void *element) {
    if (!types[dtype].is_float)
        return read_integer(&types[dtype], text, element);
    if (strncmp(text, "nan:", 4) == 0)
        return read_nan(dtype, text + 4, element);
    return narrow(dtype, text, element);
}
