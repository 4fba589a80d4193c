// SPDX-License-Identifier: Apache-2.0
// Numbers, texts and arrays as bytes, and back: what a process that draws is given. All begin at
// multiples of eight bytes and have their length before them. Reader and writer are of one build.
#ifndef SR_TRAINER_PICTURE_BYTES_INTERNAL_H
#define SR_TRAINER_PICTURE_BYTES_INTERNAL_H

#include <stdbool.h>

#include "kernels/base/memory.h"
#include "kernels/base/text.h"

void sr_bytes_put(sr_text *out, int64_t number);
void sr_bytes_put_double(sr_text *out, double number);
// NULL is kept as NULL, here and below.
void sr_bytes_put_block(sr_text *out, const void *bytes, size_t count);
void sr_bytes_put_string(sr_text *out, const char *text);
void sr_bytes_put_strings(sr_text *out, const char *const *texts, int count);

// Reads in the same order. Nothing outside the bytes is read, whatever they are: what they do not
// contain sets 'failed', after which every call returns 0 or NULL.
typedef struct sr_bytes_reader {
    const char *at;
    size_t left;
    sr_arena *arena; // of arrays
    bool failed;
} sr_bytes_reader;

int64_t sr_bytes_get(sr_bytes_reader *r);
// Fails for a number outside.
int64_t sr_bytes_get_within(sr_bytes_reader *r, int64_t low, int64_t high);
double sr_bytes_get_double(sr_bytes_reader *r);
// Of something that follows with at least a number for each.
int sr_bytes_get_count(sr_bytes_reader *r);
// A block of exactly 'count' bytes, which stays where it is, or NULL.
const void *sr_bytes_get_block(sr_bytes_reader *r, size_t count);
// A terminated text, which stays where it is, or NULL.
const char *sr_bytes_get_string(sr_bytes_reader *r);
// The same, but NULL fails.
const char *sr_bytes_get_text(sr_bytes_reader *r);
// 'count' texts, none of which is NULL, or NULL.
const char *const *sr_bytes_get_strings(sr_bytes_reader *r, int *count);
// Memory of the arena, zero-filled, for what follows; NULL if 'count' is 0.
void *sr_bytes_new_array(sr_bytes_reader *r, int count, size_t bytes);

#endif
