// SPDX-License-Identifier: Apache-2.0
// Words, numbers and attributes of a program's text.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/program_read_internal.h"

sr_status sr_reader_fail(const sr_program_reader *r, const char *where, const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return SR_FAIL(SR_E_DATA, "%s:%d:%d: %s", r->name, r->line, (int)(where - r->line_begin) + 1,
                   text);
}

sr_status sr_reader_check_context(sr_program_reader *r, const char *where) {
    char place[256], message[512];
    if (sr_context_status(r->context) == SR_OK)
        return SR_OK;
    if (sr_context_status(r->context) == SR_E_MEMORY)
        return SR_E_MEMORY;
    (void)snprintf(place, sizeof place, "%s:%d: ", r->name, r->line);
    const char *told = sr_error_message();
    if (strncmp(told, place, strlen(place)) == 0)
        told += strlen(place);
    (void)snprintf(message, sizeof message, "%s", told);
    return sr_reader_fail(r, where, "%s", message);
}

// ---- Words ----

void sr_reader_skip(sr_program_reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

bool sr_reader_at_line_end(sr_program_reader *r) {
    sr_reader_skip(r);
    return r->at == r->end || *r->at == '\n' || *r->at == '#';
}

bool sr_reader_accept(sr_program_reader *r, char c) {
    sr_reader_skip(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

sr_status sr_reader_expect(sr_program_reader *r, char c, const char *after) {
    if (sr_reader_accept(r, c))
        return SR_OK;
    return sr_reader_fail(r, r->at, "'%c' is missing after %s", c, after);
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

sr_status sr_reader_word(sr_program_reader *r, const char *what, char out[SR_PROGRAM_WORD]) {
    size_t length = 0;
    sr_reader_skip(r);
    const char *begin = r->at;
    while (r->at < r->end && is_word(*r->at) && length + 1 < SR_PROGRAM_WORD)
        out[length++] = *r->at++;
    out[length] = '\0';
    if (length == 0 || (r->at < r->end && is_word(*r->at)))
        return sr_reader_fail(r, begin, "expected %s", what);
    return SR_OK;
}

sr_status sr_reader_number(sr_program_reader *r, char out[SR_NUMBER_TEXT]) {
    size_t length = 0;
    sr_reader_skip(r);
    const char *begin = r->at;
    while (r->at < r->end && !strchr(",]} \t\r\n#", *r->at) && *r->at &&
           length + 1 < SR_NUMBER_TEXT)
        out[length++] = *r->at++;
    out[length] = '\0';
    return length > 0 ? SR_OK : sr_reader_fail(r, begin, "expected a number");
}

sr_status sr_reader_integer(sr_program_reader *r, const char *what, int64_t low, int64_t high,
                            int64_t *out) {
    int64_t value = 0;
    sr_reader_skip(r);
    const char *begin = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && r->at - begin < 15)
        value = 10 * value + (*r->at++ - '0');
    if (r->at == begin || value < low || value > high)
        return sr_reader_fail(r, begin, "expected %s, %lld to %lld", what, (long long)low,
                              (long long)high);
    *out = value;
    return SR_OK;
}

sr_status sr_reader_dtype(sr_program_reader *r, sr_dtype *out) {
    char word[SR_PROGRAM_WORD];
    sr_reader_skip(r);
    const char *begin = r->at;
    SR_TRY(sr_reader_word(r, "a dtype", word));
    for (int i = 0; i < SR_DTYPE_COUNT; i++) {
        if (strcmp(sr_dtype_name((sr_dtype)i), word) == 0) {
            *out = (sr_dtype)i;
            return SR_OK;
        }
    }
    return sr_reader_fail(r, begin, "unknown dtype '%s'", word);
}

sr_status sr_reader_info(sr_program_reader *r, sr_info *out) {
    sr_reader_skip(r);
    const char *begin = r->at;
    *out = (sr_info){0};
    SR_TRY(sr_reader_dtype(r, &out->dtype));
    SR_TRY(sr_reader_expect(r, '[', "the dtype"));
    while (!sr_reader_accept(r, ']')) {
        if (out->rank > 0)
            SR_TRY(sr_reader_expect(r, ',', "a dimension"));
        if (out->rank == SR_MAX_RANK)
            return sr_reader_fail(r, r->at, "a tensor has at most %d dimensions", SR_MAX_RANK);
        SR_TRY(sr_reader_integer(r, "a dimension", 1, INT32_MAX, &out->dim[out->rank]));
        out->rank++;
    }
    if (sr_info_check(out) == SR_OK)
        return SR_OK;
    return sr_reader_fail(r, begin, "a tensor has at most 2^48 elements");
}

static int hex_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The character after a backslash; -1: none.
static int escaped(sr_program_reader *r) {
    const char c = r->at < r->end ? *r->at++ : '\0';
    if (c == '"' || c == '\\')
        return c;
    if (c != 'x' || r->end - r->at < 2)
        return -1;
    const int high = hex_of(r->at[0]), low = hex_of(r->at[1]);
    r->at += 2;
    return high < 0 || low < 0 || high + low == 0 ? -1 : 16 * high + low;
}

sr_status sr_reader_quoted(sr_program_reader *r, const char **out) {
    SR_TRY(sr_reader_expect(r, '"', "this"));
    const char *begin = r->at;
    const char *close = begin;
    while (close < r->end && *close != '"' && *close != '\n')
        close += *close == '\\' && close + 1 < r->end ? 2 : 1;
    if (close >= r->end || *close != '"')
        return sr_reader_fail(r, begin, "a text ends with '\"' in the same line");
    char *text = sr_arena_alloc(r->arena, (size_t)(close - begin) + 1);
    if (!text)
        return SR_E_MEMORY;
    *out = text;
    while (r->at < close) {
        const char *where = r->at;
        int c = (unsigned char)*r->at++;
        if (c == '\\')
            c = escaped(r);
        if (c <= 0 || r->at > close)
            return sr_reader_fail(r, where, "invalid character in a text");
        *text++ = (char)c;
    }
    r->at = close + 1;
    return SR_OK;
}

// ---- Attributes ----

static size_t size_of(const sr_attr_field *f) {
    return f->type == SR_ATTR_I64 || f->type == SR_ATTR_F64 ? 8 : 4;
}

static size_t count_of(const sr_attr_field *f, const sr_op *op) {
    return f->count ? f->count : (op->attr_size - f->offset) / size_of(f);
}

static bool in_range(const sr_attr_field *f, double value) {
    return (value >= f->low && value <= f->high) || !(f->low > -HUGE_VAL);
}

static sr_status read_element(sr_program_reader *r, const sr_attr_field *f, unsigned char *out) {
    static const sr_dtype dtypes[] = {[SR_ATTR_I32] = SR_I32,
                                      [SR_ATTR_U32] = SR_I64,
                                      [SR_ATTR_I64] = SR_I64,
                                      [SR_ATTR_F64] = SR_F64};
    char text[SR_NUMBER_TEXT];
    int64_t integer = 0;
    int32_t narrow = 0;
    double number = 0;
    sr_reader_skip(r);
    const char *where = r->at;
    if (f->type == SR_ATTR_DTYPE) {
        sr_dtype dtype;
        SR_TRY(sr_reader_dtype(r, &dtype));
        narrow = (int32_t)dtype;
        memcpy(out, &narrow, sizeof narrow);
        return SR_OK;
    }
    SR_TRY(sr_reader_number(r, text));
    void *element = f->type == SR_ATTR_F64 ? (void *)&number : (void *)&integer;
    bool valid = sr_program_read_number(dtypes[f->type], text, element);
    if (valid && f->type == SR_ATTR_I32) {
        memcpy(&narrow, &integer, sizeof narrow);
        integer = narrow;
    }
    valid = valid && in_range(f, f->type == SR_ATTR_F64 ? number : (double)integer);
    if (!valid)
        return sr_reader_fail(r, where, "'%s' is not a valid value of '%s' (%g to %g)", text,
                              f->name, f->low, f->high);
    memcpy(out, element, size_of(f));
    return SR_OK;
}

static sr_status read_value(sr_program_reader *r, const sr_op *op, const sr_attr_field *f,
                            unsigned char *attr) {
    const size_t count = count_of(f, op);
    unsigned char *at = attr + f->offset;
    if (f->count == 1)
        return read_element(r, f, at);
    SR_TRY(sr_reader_expect(r, '[', "'='"));
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            SR_TRY(sr_reader_expect(r, ',', "an element"));
        SR_TRY(read_element(r, f, at + i * size_of(f)));
    }
    if (sr_reader_accept(r, ']'))
        return SR_OK;
    return sr_reader_fail(r, r->at, "'%s' has %zu elements, then ']'", f->name, count);
}

// Reads the attributes of an operator that has no names for them.
static sr_status read_bytes(sr_program_reader *r, const sr_op *op, unsigned char *attr) {
    sr_reader_skip(r);
    const char *where = r->at;
    bool valid =
        r->end - r->at >= 2 + 2 * (ptrdiff_t)op->attr_size && r->at[0] == '0' && r->at[1] == 'x';
    r->at += valid ? 2 : 0;
    for (size_t i = 0; valid && i < op->attr_size; i++, r->at += 2) {
        const int high = hex_of(r->at[0]), low = hex_of(r->at[1]);
        valid = high >= 0 && low >= 0;
        attr[i] = (unsigned char)(valid ? 16 * high + low : 0);
    }
    return valid ? SR_OK
                 : sr_reader_fail(r, where, "expected 0x and %zu hexadecimal digits",
                                  2 * op->attr_size);
}

static const sr_attr_field *find_field(const sr_op *op, const char *name, int *index) {
    for (int i = 0; op->fields && op->attr_size && op->fields[i].name; i++) {
        if (strcmp(op->fields[i].name, name) != 0)
            continue;
        *index = i;
        return &op->fields[i];
    }
    return NULL;
}

static sr_status no_field(const sr_program_reader *r, const char *where, const sr_op *op,
                          const char *name) {
    const char *names[SR_OP_ATTR_BYTES / 4], *nearest;
    size_t count = 0;
    for (; op->fields && op->attr_size && op->fields[count].name; count++)
        names[count] = op->fields[count].name;
    nearest = sr_text_nearest(name, names, count);
    return sr_reader_fail(r, where, "%s has no attribute '%s'%s%s%s", op->name, name,
                          nearest ? "; did you mean '" : "", nearest ? nearest : "",
                          nearest ? "'?" : "");
}

static sr_status read_attribute(sr_program_reader *r, const sr_op *op, uint64_t *seen,
                                unsigned char *attr) {
    char name[SR_PROGRAM_WORD];
    int index = 0;
    sr_reader_skip(r);
    const char *where = r->at;
    SR_TRY(sr_reader_word(r, "an attribute", name));
    const bool bytes = !op->fields && op->attr_size && strcmp(name, "bytes") == 0;
    const sr_attr_field *field = find_field(op, name, &index);
    if (!field && !bytes)
        return no_field(r, where, op, name);
    if (*seen >> index & 1)
        return sr_reader_fail(r, where, "'%s' is given twice", name);
    *seen |= UINT64_C(1) << index;
    SR_TRY(sr_reader_expect(r, '=', "the attribute"));
    return bytes ? read_bytes(r, op, attr) : read_value(r, op, field, attr);
}

// Attributes that are not written are 0, which must be valid.
static sr_status check_absent(const sr_program_reader *r, const char *where, const sr_op *op,
                              uint64_t seen) {
    for (int i = 0; op->fields && op->attr_size && op->fields[i].name; i++) {
        const sr_attr_field *f = &op->fields[i];
        if (!(seen >> i & 1) && (f->type == SR_ATTR_DTYPE || !in_range(f, 0)))
            return sr_reader_fail(r, where, "%s needs the attribute '%s'", op->name, f->name);
    }
    if (!op->fields && op->attr_size && !seen)
        return sr_reader_fail(r, where, "%s needs its attributes, as bytes=0x...", op->name);
    return SR_OK;
}

sr_status sr_reader_attributes(sr_program_reader *r, const char *where, const sr_op *op,
                               unsigned char *attr) {
    uint64_t seen = 0;
    if (sr_reader_accept(r, '{')) {
        bool first = true;
        while (!sr_reader_accept(r, '}')) {
            if (!first)
                SR_TRY(sr_reader_expect(r, ',', "an attribute"));
            first = false;
            SR_TRY(read_attribute(r, op, &seen, attr));
        }
    }
    return check_absent(r, where, op, seen);
}
