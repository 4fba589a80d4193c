// SPDX-License-Identifier: Apache-2.0
// Growing strings, JSON output (RFC 8259) and near-miss search (see text.h).
//
// Deliberately not a JSON reader: the rooms that read JSON use yajl.
#include "kernels/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/memory.h"

// What 'data' points at before the first growth; never written, because capacity is 0.
static char empty[1];

void sr_text_init(sr_text *text) {
    *text = (sr_text){.data = empty};
}

void sr_text_release(sr_text *text) {
    if (text->capacity > 0)
        sr_free(text->data);
    sr_text_init(text);
}

void sr_text_clear(sr_text *text) {
    text->length = 0;
    text->failed = false;
    if (text->capacity > 0)
        text->data[0] = '\0';
}

// Room for n more bytes and the terminator.
static bool reserve(sr_text *text, size_t n) {
    if (text->failed)
        return false;
    if (n >= SIZE_MAX - text->length) {
        text->failed = true;
        return false;
    }
    void *data = text->capacity > 0 ? text->data : NULL;
    if (sr_grow(&data, &text->capacity, text->length + n + 1, 1, "a text") != SR_OK) {
        text->failed = true;
        return false;
    }
    text->data = data;
    return true;
}

void sr_text_add(sr_text *text, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0)
        text->failed = true;
    else if (reserve(text, (size_t)n)) {
        (void)vsnprintf(text->data + text->length, (size_t)n + 1, fmt, again);
        text->length += (size_t)n;
    }
    va_end(again);
}

void sr_text_add_bytes(sr_text *text, const void *bytes, size_t n) {
    if (n == 0 || !reserve(text, n))
        return;
    memcpy(text->data + text->length, bytes, n);
    text->length += n;
    text->data[text->length] = '\0';
}

sr_status sr_text_check(const sr_text *text) {
    if (text->failed)
        return SR_FAIL(SR_E_MEMORY, "out of memory while building a text (%zu bytes so far)",
                       text->length);
    return SR_OK;
}

bool sr_text_ends_with(const char *s, const char *ending) {
    const size_t n = strlen(s), m = strlen(ending);
    return n > m && strcasecmp(s + n - m, ending) == 0;
}

// Stops at the terminator, which no continuation byte equals.
size_t sr_text_utf8_length(const char *s) {
    const unsigned char *b = (const unsigned char *)s;
    unsigned char low = 0x80, high = 0xbf;
    size_t n;
    if (b[0] < 0x80)
        return 1;
    if (b[0] >= 0xc2 && b[0] <= 0xdf)
        n = 2;
    else if (b[0] >= 0xe0 && b[0] <= 0xef)
        n = 3;
    else if (b[0] >= 0xf0 && b[0] <= 0xf4)
        n = 4;
    else
        return 0;
    if (b[0] == 0xe0)
        low = 0xa0;
    else if (b[0] == 0xed)
        high = 0x9f;
    else if (b[0] == 0xf0)
        low = 0x90;
    else if (b[0] == 0xf4)
        high = 0x8f;
    if (b[1] < low || b[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if (b[i] < 0x80 || b[i] > 0xbf)
            return 0;
    return n;
}

bool sr_text_is_utf8(const char *s) {
    size_t n = 1;
    for (; *s != '\0' && n > 0; s += n)
        n = sr_text_utf8_length(s);
    return n > 0;
}

// The control character that s begins with, whose sequence has n bytes; 0: none. U+0080 to U+009F
// are such, too: many terminals take U+009B for the beginning of a command.
static unsigned char control_at(const char *s, size_t n) {
    const unsigned char *b = (const unsigned char *)s;
    if (n == 2 && b[0] == 0xc2 && b[1] < 0xa0)
        return b[1];
    return n == 1 && (b[0] < 0x20 || b[0] == 0x7f) ? b[0] : 0;
}

// The visible form of the character that s begins with, into out; *taken: its bytes in s.
static size_t visible_character(const char *s, char out[8], size_t *taken) {
    const size_t n = sr_text_utf8_length(s);
    const unsigned char code = n == 0 ? (unsigned char)*s : control_at(s, n);
    *taken = n ? n : 1;
    if (code > 0) {
        (void)snprintf(out, 8, "\\x%02x", code);
        return 4;
    }
    memcpy(out, s, n);
    return n;
}

void sr_text_add_visible(sr_text *text, const char *s) {
    char out[8];
    for (size_t taken; *s != '\0'; s += taken) {
        const size_t n = visible_character(s, out, &taken);
        sr_text_add_bytes(text, out, n);
    }
}

char *sr_text_visible_message(const char *s, char *out, size_t capacity) {
    size_t length = 0, n;
    char character[8];
    for (size_t taken; *s != '\0'; s += taken, length += n) {
        n = visible_character(s, character, &taken);
        if (*s == '\n' || *s == '\t') {
            n = 1;
            character[0] = *s;
        }
        if (length + n >= capacity)
            break;
        memcpy(out + length, character, n);
    }
    out[length] = '\0';
    return out;
}

static void add_json_control(sr_text *text, unsigned char c) {
    static const char codes[] = "\b\f\n\r\t", letters[] = "bfnrt";
    const char *found = strchr(codes, c);
    if (found != NULL)
        sr_text_add(text, "\\%c", letters[found - codes]);
    else
        sr_text_add(text, "\\u%04x", c);
}

void sr_text_add_csv_cell(sr_text *text, const char *s) {
    sr_text cell;
    sr_text_init(&cell);
    sr_text_add_visible(&cell, s);
    const bool quoted = strpbrk(cell.data, ",\"") != NULL;
    sr_text_add(text, quoted ? "\"" : "");
    for (const char *c = cell.data; *c != '\0'; c++)
        sr_text_add(text, *c == '"' ? "\"\"" : "%c", *c);
    sr_text_add(text, quoted ? "\"" : "");
    text->failed = text->failed || cell.failed;
    sr_text_release(&cell);
}

void sr_text_add_json_string(sr_text *text, const char *s) {
    sr_text_add_bytes(text, "\"", 1);
    for (size_t n; *s != '\0'; s += n ? n : 1) {
        n = sr_text_utf8_length(s);
        const unsigned char control = control_at(s, n);
        if (n == 0)
            sr_text_add_bytes(text, "\xef\xbf\xbd", 3);
        else if (*s == '"' || *s == '\\')
            sr_text_add(text, "\\%c", *s);
        else if (control > 0)
            add_json_control(text, control);
        else
            sr_text_add_bytes(text, s, n);
    }
    sr_text_add_bytes(text, "\"", 1);
}

void sr_text_add_json_number(sr_text *text, double value) {
    char digits[32];
    if (!isfinite(value)) {
        sr_text_add(text, "null");
        return;
    }
    for (int precision = 15; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    sr_text_add(text, "%s", digits);
}

void sr_text_add_json_string_member(sr_text *text, const char *name, const char *value) {
    sr_text_add(text, ", \"%s\": ", name);
    if (value)
        sr_text_add_json_string(text, value);
    else
        sr_text_add(text, "null");
}

void sr_text_add_json_number_member(sr_text *text, const char *name, double value) {
    sr_text_add(text, ", \"%s\": ", name);
    sr_text_add_json_number(text, value);
}

char *sr_text_bytes(uint64_t bytes, char *out) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        (void)snprintf(out, 16, "%u B", (unsigned)bytes);
        return out;
    }
    double value = (double)bytes / 1024.0;
    size_t unit = 0;
    // 1023.95 would print as 1024.0
    for (; value >= 1023.95 && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1024.0;
    (void)snprintf(out, 16, "%.1f %s", value, units[unit]);
    return out;
}

enum { WORD_MAX = 63 };

static size_t smallest(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

// Edit distance with swaps of neighbours (optimal string alignment), three rows at a time.
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t rows[3][WORD_MAX + 1];
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t change = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = smallest(above[j] + 1, row[j - 1] + 1, change);
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && above2[j - 2] + 1 < row[j])
                row[j] = above2[j - 2] + 1;
        }
    }
    return rows[a_length % 3][b_length];
}

// The word in lower case, without dashes and underscores, into 'out' (WORD_MAX + 1 bytes); its
// length, or WORD_MAX + 1 where it is longer.
static size_t fold(const char *word, char *out) {
    size_t length = 0;
    for (; *word && length <= WORD_MAX; word++) {
        if (*word == '-' || *word == '_')
            continue;
        const char upper = *word >= 'A' && *word <= 'Z';
        if (length < WORD_MAX)
            out[length] = (char)(upper ? *word - 'A' + 'a' : *word);
        length++;
    }
    out[length < WORD_MAX ? length : WORD_MAX] = '\0';
    return length;
}

bool sr_text_same_word(const char *a, const char *b) {
    char left[WORD_MAX + 1], right[WORD_MAX + 1];
    return fold(a, left) <= WORD_MAX && fold(b, right) <= WORD_MAX && strcmp(left, right) == 0;
}

// Whether the candidate begins with a folded word that is too long for that to be chance.
static bool continues(const char *candidate, const char *word, size_t length) {
    char other[WORD_MAX + 1];
    return length >= 6 && fold(candidate, other) > length && strncmp(other, word, length) == 0;
}

const char *sr_text_nearest(const char *word, const char *const *candidates, size_t count) {
    char folded[WORD_MAX + 1], other[WORD_MAX + 1];
    size_t length = fold(word, folded), continued = 0;
    if (length > WORD_MAX)
        return NULL;
    size_t limit = length / 3 > 1 ? length / 3 : 1;
    const char *best = NULL, *only = NULL;
    for (size_t i = 0; i < count; i++) {
        const bool longer = continues(candidates[i], folded, length);
        only = longer ? candidates[i] : only;
        continued += longer;
    }
    for (size_t i = 0; i < count; i++) {
        size_t n = fold(candidates[i], other);
        if (n > WORD_MAX || (continued > 0 && strcmp(folded, other) != 0 &&
                             !continues(candidates[i], folded, length)))
            continue;
        size_t distance = edit_distance(folded, length, other, n);
        if (distance <= limit && (best == NULL || distance < limit)) {
            best = candidates[i];
            limit = distance;
        }
    }
    return best == NULL && continued == 1 ? only : best;
}
