// SPDX-License-Identifier: Apache-2.0
// Growing strings, JSON writing, and small helpers for messages.
#ifndef SR_KERNELS_BASE_TEXT_H
#define SR_KERNELS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// A growing, always terminated string. A failure to grow is sticky: 'failed' is set and later calls
// do nothing, so that one check after building a whole text is enough (sr_text_check).
typedef struct sr_text {
    char *data; // never NULL after sr_text_init
    size_t length, capacity;
    bool failed;
} sr_text;

// An empty text.
void sr_text_init(sr_text *text);
// Frees the memory.
void sr_text_release(sr_text *text);
// Empties the text, keeps its memory, and clears a failure.
void sr_text_clear(sr_text *text);
// Appends formatted text, as printf.
void sr_text_add(sr_text *text, const char *fmt, ...) SR_PRINTF(2, 3);
// Appends n bytes as they are.
void sr_text_add_bytes(sr_text *text, const void *bytes, size_t n);
// Appends text from a file or a user for a terminal: control characters and bytes of invalid UTF-8
// become \xNN.
void sr_text_add_visible(sr_text *text, const char *s);
// The same for a whole message, in which line breaks and tabs are kept. The result is truncated to
// 'capacity' bytes with the terminator; allocates nothing. Returns out.
char *sr_text_visible_message(const char *s, char *out, size_t capacity);
// The same as a field of CSV (RFC 4180), in quotes only if necessary.
void sr_text_add_csv_cell(sr_text *text, const char *s);
// A JSON string with quotes and escapes, including those of all control characters; invalid UTF-8
// becomes U+FFFD.
void sr_text_add_json_string(sr_text *text, const char *s);
// Length in bytes of the UTF-8 sequence at the start of s, or 0 if it is invalid (RFC 3629;
// overlong forms, surrogates and values above U+10FFFF are invalid). The terminator is a sequence
// of one byte, and nothing after it is read.
size_t sr_text_utf8_length(const char *s);
// Whether s ends with 'ending', in any letter case, and has something before it: "a.PTH" ends with
// ".pth", ".pth" does not.
bool sr_text_ends_with(const char *s, const char *ending);
// Whether the whole string is valid UTF-8.
bool sr_text_is_utf8(const char *s);
// A JSON number that reads back to the same double; NaN and infinities become null.
void sr_text_add_json_number(sr_text *text, double value);
// A member of a JSON object, not the first one: a comma, the name and the value. NULL becomes null.
void sr_text_add_json_string_member(sr_text *text, const char *name, const char *value);
// The same for a number.
void sr_text_add_json_number_member(sr_text *text, const char *name, double value);
// SR_OK, or SR_E_MEMORY if an earlier call could not grow the text.
SR_NODISCARD sr_status sr_text_check(const sr_text *text);

// "1.5 GiB" into out (at least 16 bytes); returns out.
char *sr_text_bytes(uint64_t bytes, char *out);
// Whether two words are equal, ignoring case, dashes and underscores: adamW, ADAM_W. False for
// words of more than 63 letters.
bool sr_text_same_word(const char *a, const char *b);
// The candidate nearest to 'word' (Damerau-Levenshtein distance <= max(1, len/3)), or NULL; case,
// dashes and underscores are ignored. Of a word of 6 letters or more that candidates begin with,
// one of these, or the only one at any distance: resnext50_32x4d for resnext50, not resnet50.
const char *sr_text_nearest(const char *word, const char *const *candidates, size_t count);

#ifdef __cplusplus
}
#endif
#endif
