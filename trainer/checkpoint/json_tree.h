// SPDX-License-Identifier: Apache-2.0
// JSON text as a tree in an arena: bounded depth and size, no duplicate keys, numbers as written.
//
// For untrusted files (weights, manifests). Numbers keep their text, so a 64-bit integer never
// passes through a double. Immutable after parsing; freed with the arena.
#ifndef SR_TRAINER_JSON_TREE_H
#define SR_TRAINER_JSON_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/memory.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sr_json_type {
    SR_JSON_NULL = 0,
    SR_JSON_BOOL,
    SR_JSON_NUMBER,
    SR_JSON_STRING,
    SR_JSON_ARRAY,
    SR_JSON_OBJECT,
} sr_json_type;

typedef struct sr_json {
    sr_json_type type;
    const char *key;  // in an object; else NULL
    const char *text; // of strings and numbers; "true" or "false" of a bool
    size_t count;     // children of arrays and objects
    struct sr_json *first, *next;
} sr_json;

#define SR_JSON_MAX_DEPTH 16

// Parses exactly 'bytes' bytes. 'what' names the text in messages ("a.safetensors: header").
// SR_E_DATA with the byte offset for invalid JSON, duplicate keys, zero bytes in strings or nesting
// deeper than SR_JSON_MAX_DEPTH; SR_E_LIMIT for more than max_nodes values.
SR_NODISCARD sr_status sr_json_parse(const char *text, size_t bytes, size_t max_nodes,
                                     const char *what, sr_arena *arena, const sr_json **out);

// The member of an object, or NULL (also if node is NULL or not an object).
const sr_json *sr_json_get(const sr_json *node, const char *key);
// Exact integers; false if node is NULL, not a number, a fraction, or out of range.
bool sr_json_int64(const sr_json *node, int64_t *out);
bool sr_json_uint64(const sr_json *node, uint64_t *out);
bool sr_json_double(const sr_json *node, double *out);
// The text of a string; NULL if node is NULL or not a string.
const char *sr_json_string(const sr_json *node);

#ifdef __cplusplus
}
#endif
#endif
