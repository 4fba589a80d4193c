// SPDX-License-Identifier: Apache-2.0
// Numbers, texts and arrays as bytes, and back (picture_bytes_internal.h).
#include "trainer/draw/picture_bytes_internal.h"

#include <string.h>

enum { ABSENT = -1 }; // the length of what is NULL

// -- writing ---------------------------------------------------------------------------------

void sr_bytes_put(sr_text *out, int64_t number) {
    sr_text_add_bytes(out, &number, sizeof number);
}

void sr_bytes_put_double(sr_text *out, double number) {
    sr_text_add_bytes(out, &number, sizeof number);
}

void sr_bytes_put_block(sr_text *out, const void *bytes, size_t count) {
    static const char zeros[8];
    sr_bytes_put(out, bytes ? (int64_t)count : ABSENT);
    if (bytes)
        sr_text_add_bytes(out, bytes, count);
    if (bytes && count % 8 != 0) // numbers stay aligned
        sr_text_add_bytes(out, zeros, 8 - count % 8);
}

void sr_bytes_put_string(sr_text *out, const char *text) {
    sr_bytes_put_block(out, text, text ? strlen(text) + 1 : 0);
}

void sr_bytes_put_strings(sr_text *out, const char *const *texts, int count) {
    sr_bytes_put(out, texts ? count : 0);
    for (int i = 0; texts && i < count; i++)
        sr_bytes_put_string(out, texts[i]);
}

// -- reading ---------------------------------------------------------------------------------

// The next bytes with their padding; NULL if there are not as many.
static const void *take(sr_bytes_reader *r, size_t count) {
    const size_t padded = count + (8 - count % 8) % 8;
    const char *bytes = r->at;
    r->failed = r->failed || padded < count || padded > r->left;
    if (r->failed)
        return NULL;
    r->at += padded;
    r->left -= padded;
    return bytes;
}

int64_t sr_bytes_get(sr_bytes_reader *r) {
    int64_t number = 0;
    const void *bytes = take(r, sizeof number);
    if (bytes)
        memcpy(&number, bytes, sizeof number);
    return number;
}

double sr_bytes_get_double(sr_bytes_reader *r) {
    double number = 0;
    const void *bytes = take(r, sizeof number);
    if (bytes)
        memcpy(&number, bytes, sizeof number);
    return number;
}

int64_t sr_bytes_get_within(sr_bytes_reader *r, int64_t low, int64_t high) {
    const int64_t number = sr_bytes_get(r);
    r->failed = r->failed || number < low || number > high;
    return r->failed ? 0 : number;
}

int sr_bytes_get_count(sr_bytes_reader *r) {
    const int64_t count = sr_bytes_get(r);
    r->failed =
        r->failed || count < 0 || count > INT32_MAX || (uint64_t)count > r->left / sizeof count;
    return r->failed ? 0 : (int)count;
}

const void *sr_bytes_get_block(sr_bytes_reader *r, size_t count) {
    const int64_t length = sr_bytes_get(r);
    if (r->failed || length == ABSENT)
        return NULL;
    r->failed = length < 0 || (uint64_t)length != count;
    return take(r, count);
}

const char *sr_bytes_get_string(sr_bytes_reader *r) {
    const int64_t length = sr_bytes_get(r);
    if (r->failed || length == ABSENT)
        return NULL;
    r->failed = length < 1 || (uint64_t)length > SIZE_MAX;
    const char *text = take(r, (size_t)length);
    r->failed = r->failed || text[length - 1] != '\0';
    return r->failed ? NULL : text;
}

const char *sr_bytes_get_text(sr_bytes_reader *r) {
    const char *text = sr_bytes_get_string(r);
    r->failed = r->failed || !text;
    return text;
}

void *sr_bytes_new_array(sr_bytes_reader *r, int count, size_t bytes) {
    void *array = count > 0 && !r->failed ? sr_arena_alloc(r->arena, (size_t)count * bytes) : NULL;
    r->failed = r->failed || (count > 0 && !array);
    return array;
}

const char *const *sr_bytes_get_strings(sr_bytes_reader *r, int *count) {
    const int found = sr_bytes_get_count(r);
    const char **texts = sr_bytes_new_array(r, found, sizeof *texts);
    for (int i = 0; i < found && !r->failed; i++)
        texts[i] = sr_bytes_get_text(r);
    *count = r->failed ? 0 : found;
    return texts;
}
