// SPDX-License-Identifier: Apache-2.0
// Builds JSON trees from the events of yajl.
//
// yajl validates syntax and UTF-8. This file adds limits that RFC 8259 leaves open and a malicious
// file would exploit: nesting depth, number of values, duplicate keys, zero bytes in strings.
// yajl's own tree builder is not used: it frees recursively, converts numbers to doubles and keeps
// duplicates.
#include "trainer/checkpoint/json_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <yajl/yajl_parse.h>

typedef struct tree_builder {
    sr_arena *arena;
    sr_json *stack[SR_JSON_MAX_DEPTH]; // open arrays and objects
    sr_json *last[SR_JSON_MAX_DEPTH];  // last child of each
    int depth;
    const char *key; // whose value follows
    sr_json *root;
    size_t nodes, max_nodes;
    const char *problem; // why the parse was cancelled
    sr_status code;
} tree_builder;

static int cancel(tree_builder *b, sr_status code, const char *problem) {
    b->code = code;
    b->problem = problem;
    return 0;
}

static char *copy_text(tree_builder *b, const char *text, size_t bytes) {
    if (memchr(text, 0, bytes) != NULL) {
        cancel(b, SR_E_DATA, "a zero byte in a string");
        return NULL;
    }
    char *copy = sr_arena_alloc(b->arena, bytes + 1);
    if (copy == NULL) {
        cancel(b, SR_E_MEMORY, NULL);
        return NULL;
    }
    memcpy(copy, text, bytes);
    return copy;
}

static sr_json *add_node(tree_builder *b, sr_json_type type, const char *text) {
    if (++b->nodes > b->max_nodes) {
        cancel(b, SR_E_LIMIT, "more values than this kind of file may contain");
        return NULL;
    }
    sr_json *node = sr_arena_alloc(b->arena, sizeof *node);
    if (node == NULL) {
        cancel(b, SR_E_MEMORY, NULL);
        return NULL;
    }
    node->type = type;
    node->text = text;
    node->key = b->key;
    b->key = NULL;
    if (b->depth == 0) {
        b->root = node;
        return node;
    }
    sr_json *parent = b->stack[b->depth - 1];
    if (b->last[b->depth - 1] == NULL)
        parent->first = node;
    else
        b->last[b->depth - 1]->next = node;
    b->last[b->depth - 1] = node;
    ++parent->count;
    return node;
}

static int on_null(void *context) {
    return add_node(context, SR_JSON_NULL, NULL) != NULL;
}

static int on_bool(void *context, int value) {
    return add_node(context, SR_JSON_BOOL, value ? "true" : "false") != NULL;
}

static int on_number(void *context, const char *text, size_t bytes) {
    char *copy = copy_text(context, text, bytes);
    return copy != NULL && add_node(context, SR_JSON_NUMBER, copy) != NULL;
}

static int on_string(void *context, const unsigned char *text, size_t bytes) {
    char *copy = copy_text(context, (const char *)text, bytes);
    return copy != NULL && add_node(context, SR_JSON_STRING, copy) != NULL;
}

static int on_key(void *context, const unsigned char *text, size_t bytes) {
    tree_builder *b = context;
    b->key = copy_text(b, (const char *)text, bytes);
    return b->key != NULL;
}

static int open_node(tree_builder *b, sr_json_type type) {
    if (b->depth == SR_JSON_MAX_DEPTH)
        return cancel(b, SR_E_DATA, "nested too deeply");
    sr_json *node = add_node(b, type, NULL);
    if (node == NULL)
        return 0;
    b->stack[b->depth] = node;
    b->last[b->depth++] = NULL;
    return 1;
}

static int on_start_map(void *context) {
    return open_node(context, SR_JSON_OBJECT);
}

static int on_start_array(void *context) {
    return open_node(context, SR_JSON_ARRAY);
}

static int on_end_array(void *context) {
    --((tree_builder *)context)->depth;
    return 1;
}

static int compare_keys(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Sorts the keys of one object to find duplicates: n log n, for up to 65,536 tensors.
static int on_end_map(void *context) {
    tree_builder *b = context;
    const sr_json *object = b->stack[--b->depth];
    if (object->count < 2)
        return 1;
    const char **keys = sr_alloc_array(object->count, sizeof *keys, "JSON keys");
    if (keys == NULL)
        return cancel(b, SR_E_MEMORY, NULL);
    size_t n = 0;
    for (const sr_json *child = object->first; child != NULL; child = child->next)
        keys[n++] = child->key;
    qsort(keys, n, sizeof *keys, compare_keys);
    bool twice = false;
    for (size_t i = 1; i < n && !twice; ++i)
        twice = strcmp(keys[i - 1], keys[i]) == 0;
    sr_free(keys);
    return twice ? cancel(b, SR_E_DATA, "duplicate key in the object that ends here") : 1;
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_bool,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_start_map,
    .yajl_map_key = on_key,
    .yajl_end_map = on_end_map,
    .yajl_start_array = on_start_array,
    .yajl_end_array = on_end_array,
};

// The first line of yajl's own description of a syntax error.
static sr_status fail_syntax(yajl_handle parser, const char *text, size_t bytes, const char *what) {
    unsigned char *raw = yajl_get_error(parser, 0, (const unsigned char *)text, bytes);
    sr_status status =
        SR_FAIL(SR_E_DATA, "%s: invalid JSON near byte %zu: %.*s", what,
                yajl_get_bytes_consumed(parser), (int)strcspn((const char *)raw, "\n"), raw);
    yajl_free_error(parser, raw);
    return status;
}

sr_status sr_json_parse(const char *text, size_t bytes, size_t max_nodes, const char *what,
                        sr_arena *arena, const sr_json **out) {
    tree_builder b = {.arena = arena, .max_nodes = max_nodes};
    yajl_handle parser = yajl_alloc(&callbacks, NULL, &b);
    if (parser == NULL)
        return SR_FAIL(SR_E_MEMORY, "%s: no memory for the JSON parser", what);
    yajl_status result = yajl_parse(parser, (const unsigned char *)text, bytes);
    if (result == yajl_status_ok)
        result = yajl_complete_parse(parser);
    sr_status status = SR_OK;
    if (result == yajl_status_client_canceled && b.problem != NULL)
        status = SR_FAIL(b.code, "%s: %s (near byte %zu)", what, b.problem,
                         yajl_get_bytes_consumed(parser));
    else if (result == yajl_status_client_canceled)
        status = b.code; // out of memory: the allocator has the message
    else if (result != yajl_status_ok)
        status = fail_syntax(parser, text, bytes, what);
    else if (b.root == NULL)
        status = SR_FAIL(SR_E_DATA, "%s: empty where JSON is expected", what);
    yajl_free(parser);
    if (status == SR_OK)
        *out = b.root;
    return status;
}

const sr_json *sr_json_get(const sr_json *node, const char *key) {
    if (node == NULL || node->type != SR_JSON_OBJECT)
        return NULL;
    for (const sr_json *child = node->first; child != NULL; child = child->next)
        if (strcmp(child->key, key) == 0)
            return child;
    return NULL;
}

bool sr_json_int64(const sr_json *node, int64_t *out) {
    if (node == NULL || node->type != SR_JSON_NUMBER)
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(node->text, &end, 10);
    if (errno != 0 || *end != 0)
        return false;
    *out = value;
    return true;
}

bool sr_json_uint64(const sr_json *node, uint64_t *out) {
    if (node == NULL || node->type != SR_JSON_NUMBER || node->text[0] == '-')
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(node->text, &end, 10);
    if (errno != 0 || *end != 0)
        return false;
    *out = value;
    return true;
}

bool sr_json_double(const sr_json *node, double *out) {
    if (node == NULL || node->type != SR_JSON_NUMBER)
        return false;
    char *end;
    double value = strtod(node->text, &end);
    if (*end != 0)
        return false;
    *out = value;
    return true;
}

const char *sr_json_string(const sr_json *node) {
    return node != NULL && node->type == SR_JSON_STRING ? node->text : NULL;
}
