// SPDX-License-Identifier: Apache-2.0
// Prints a resolved recipe as YAML and JSON, and computes its identity.
//
// The identity is the SHA-256 over "path=value" lines of every option that may change a bit of a
// result, in the order of the resolved tree, which is that of the tables, not of any file.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/hash.h"
#include "trainer/recipe/recipe_internal.h"

#define COMMENT_COLUMN 44

// ---- YAML ---------------------------------------------------------------------------------------

typedef struct yaml_printer {
    sr_text *out;
    bool origins;
} yaml_printer;

// Can the text be written without quotes, also inside [ ] and { }?
static bool is_plain(const char *text) {
    size_t n = strlen(text);
    if (n == 0 || strchr("-?:,[]{}#&*!|>'\"%@` \t~", text[0]) || strchr(" \t:", text[n - 1]))
        return n > 1 && text[0] == '-' && text[1] >= '0' && text[1] <= '9';
    if (strcmp(text, "null") == 0 || strstr(text, ": ") || strstr(text, " #"))
        return false;
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20 || strchr(",[]{}", *c))
            return false;
    }
    return true;
}

static void add_value(sr_text *out, const sr_recipe_node *node) {
    if (node->verbatim || (node->plain && sr_recipe_node_is_null(node)) || is_plain(node->text))
        sr_text_add(out, "%s", node->text);
    else
        sr_text_add_json_string(out, node->text);
}

static void end_line(const yaml_printer *p, size_t begin, const sr_recipe_node *node) {
    if (p->origins && (node->at.source || node->note)) {
        size_t width = p->out->length - begin;
        int gap = width < COMMENT_COLUMN ? (int)(COMMENT_COLUMN - width) : 1;
        const sr_recipe_source *source = node->at.source;
        if (!source)
            sr_text_add(p->out, "%*s# %s", gap, "", node->note);
        else if (source->is_override)
            sr_text_add(p->out, "%*s# %s", gap, "", source->label);
        else
            sr_text_add(p->out, "%*s# %s:%d", gap, "", source->label, node->at.line + 1);
    }
    sr_text_add(p->out, "\n");
}

static bool has_value(const sr_recipe_node *node) {
    if (node->kind == SR_RECIPE_NODE_TEXT)
        return node->text != NULL;
    if (node->kind == SR_RECIPE_NODE_LIST)
        return true;
    if (!node->first)
        return true;
    for (const sr_recipe_node *child = node->first; child; child = child->next) {
        if (has_value(child))
            return true;
    }
    return false;
}

// Lists of plain values are printed on one line.
static bool is_short_list(const sr_recipe_node *node) {
    for (const sr_recipe_node *item = node->first; item; item = item->next) {
        if (item->kind != SR_RECIPE_NODE_TEXT)
            return false;
    }
    return node->kind == SR_RECIPE_NODE_LIST;
}

static void add_short_list(sr_text *out, const sr_recipe_node *node) {
    sr_text_add(out, "[");
    for (const sr_recipe_node *item = node->first; item; item = item->next) {
        sr_text_add(out, "%s", item == node->first ? "" : ", ");
        add_value(out, item);
    }
    sr_text_add(out, "]");
}

static void print_map(const yaml_printer *p, const sr_recipe_node *map, int indent,
                      bool first_in_line);

static void add_key(sr_text *out, const char *key) {
    if (is_plain(key))
        sr_text_add(out, "%s", key);
    else
        sr_text_add_json_string(out, key);
}

// Prints "key: value", or "key:" with its children below. The line is already indented.
static void print_entry(const yaml_printer *p, const sr_recipe_node *node, int indent,
                        size_t begin) {
    sr_text *out = p->out;
    add_key(out, node->key);
    sr_text_add(out, ":");
    if (node->kind == SR_RECIPE_NODE_TEXT) {
        sr_text_add(out, " ");
        add_value(out, node);
        end_line(p, begin, node);
    } else if (is_short_list(node)) {
        sr_text_add(out, " ");
        add_short_list(out, node);
        end_line(p, begin, node);
    } else if (!node->first) {
        sr_text_add(out, " {}\n");
    } else if (node->kind == SR_RECIPE_NODE_MAP) {
        sr_text_add(out, "\n");
        print_map(p, node, indent + 2, false);
    } else {
        sr_text_add(out, "\n");
        for (const sr_recipe_node *item = node->first; item; item = item->next) {
            size_t line = out->length;
            sr_text_add(out, "%*s- ", indent + 2, "");
            if (item->kind == SR_RECIPE_NODE_MAP && item->first && !item->first->next &&
                item->first->kind == SR_RECIPE_NODE_MAP && !item->first->first) {
                add_key(out, item->first->key); // a transform without options
                end_line(p, line, item);
            } else if (item->kind == SR_RECIPE_NODE_MAP && item->first) {
                print_map(p, item, indent + 4, true);
            } else {
                if (item->kind == SR_RECIPE_NODE_TEXT)
                    add_value(out, item);
                else if (item->kind == SR_RECIPE_NODE_MAP)
                    sr_text_add(out, "{}");
                else
                    add_short_list(out, item);
                end_line(p, line, item);
            }
        }
    }
}

static void print_map(const yaml_printer *p, const sr_recipe_node *map, int indent,
                      bool first_in_line) {
    for (const sr_recipe_node *node = map->first; node; node = node->next) {
        if (!has_value(node))
            continue;
        size_t begin = p->out->length - (first_in_line ? (size_t)indent : 0);
        if (!first_in_line)
            sr_text_add(p->out, "%*s", indent, "");
        first_in_line = false;
        print_entry(p, node, indent, begin);
    }
}

sr_status sr_recipe_print_yaml(const sr_recipe *recipe, bool origins, sr_text *out) {
    yaml_printer p = {out, origins};
    print_map(&p, recipe->internal->resolved, 0, false);
    return sr_text_check(out);
}

// ---- JSON ---------------------------------------------------------------------------------------

// Adds what the core schema of YAML 1.2 reads a plain scalar of 'length' bytes as.
static void add_scalar(sr_text *out, const char *from, size_t length) {
    char text[256], *end;
    (void)snprintf(text, sizeof text, "%.*s", (int)length, from);
    const double value = strtod(text, &end);
    const bool is_number = length > 0 && length < sizeof text && *end == '\0' &&
                           strspn(text, "+-.0123456789eE") == length;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        sr_text_add(out, "%s", text);
    else if (is_number && isfinite(value))
        sr_text_add_json_number(out, value);
    else
        sr_text_add_json_string(out, from[length] == '\0' ? from : text);
}

// A list as option tables print it, "[1, 2]": without quotes and nested lists.
static void add_verbatim_list(sr_text *out, const char *text) {
    sr_text_add(out, "[");
    for (const char *at = text + 1; *at != ']' && *at != '\0';) {
        const size_t length = strcspn(at, ",]");
        sr_text_add(out, "%s", at == text + 1 ? "" : ", ");
        add_scalar(out, at, length);
        at += length;
        at += *at == ',';
        at += strspn(at, " ");
    }
    sr_text_add(out, "]");
}

static void add_json(sr_text *out, const sr_recipe_node *node) {
    if (node->kind == SR_RECIPE_NODE_TEXT &&
        (node->text == NULL || (node->plain && sr_recipe_node_is_null(node))))
        sr_text_add(out, "null");
    else if (node->kind == SR_RECIPE_NODE_TEXT && node->verbatim && node->text[0] == '[')
        add_verbatim_list(out, node->text);
    else if (node->kind == SR_RECIPE_NODE_TEXT && (node->plain || node->verbatim))
        add_scalar(out, node->text, strlen(node->text));
    else if (node->kind == SR_RECIPE_NODE_TEXT)
        sr_text_add_json_string(out, node->text);
    if (node->kind == SR_RECIPE_NODE_TEXT)
        return;
    const bool map = node->kind == SR_RECIPE_NODE_MAP;
    sr_text_add(out, map ? "{" : "[");
    for (const sr_recipe_node *child = node->first; child; child = child->next) {
        sr_text_add(out, "%s", child == node->first ? "" : ", ");
        if (map) {
            sr_text_add_json_string(out, child->key);
            sr_text_add(out, ": ");
        }
        add_json(out, child);
    }
    sr_text_add(out, map ? "}" : "]");
}

sr_status sr_recipe_print_json(const sr_recipe *recipe, sr_text *out) {
    add_json(out, recipe->internal->resolved);
    sr_text_add(out, "\n");
    return sr_text_check(out);
}

// ---- identity -----------------------------------------------------------------------------------

typedef bool leaf_filter(const sr_recipe_node *node, const char *path);

static void add_leaves(sr_text *out, const sr_recipe_node *node, const char *path,
                       leaf_filter *wanted) {
    char inner[2 * SR_RECIPE_MAX_PATH];
    if (!wanted(node, path))
        return;
    if (node->kind == SR_RECIPE_NODE_TEXT) {
        const char *text = node->counts_as ? node->counts_as : node->text;
        if (text && !(node->plain && sr_recipe_node_is_null(node)))
            sr_text_add(out, "%s=%s\n", path, text);
        return;
    }
    int index = 0;
    for (const sr_recipe_node *child = node->first; child; child = child->next, index++) {
        if (child->key)
            snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", child->key);
        else
            snprintf(inner, sizeof inner, "%s[%d]", path, index);
        add_leaves(out, child, inner, wanted);
    }
    // A transform without options is part of the identity, too.
    if (node->kind == SR_RECIPE_NODE_MAP && !node->first)
        sr_text_add(out, "%s\n", path);
}

static bool is_numerics(const sr_recipe_node *node, const char *path) {
    (void)path;
    return node->option_class != SR_OPTION_NEUTRAL;
}

static bool is_numerics_or_eval(const sr_recipe_node *node, const char *path) {
    static const char *const keys[] = {"eval.resize", "eval.crop", "eval.batch"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(path, keys[i]) == 0)
            return true;
    if (strcmp(path, "eval.flip") == 0)
        return node->text && strcmp(node->text, "true") == 0;
    if (strcmp(path, "eval.shift") == 0)
        return node->text && strcmp(node->text, "0") != 0;
    return is_numerics(node, path);
}

// Paths and settings of one host; new keys are shared.
static bool is_shared(const sr_recipe_node *node, const char *path) {
    static const char *const own[] = {
        "about",          "expected",          "data.train",     "data.val", "data.workers",
        "data.processes", "data.memory",       "weights",        "device",   "plugins",
        "chooser",        "chooser_workspace", "numerics.strict"};
    (void)node;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(path, own[i]) == 0)
            return false;
    return true;
}

void sr_recipe_add_shared(const sr_recipe *recipe, sr_text *out) {
    add_leaves(out, recipe->internal->resolved, "", is_shared);
}

static sr_status hash_file(const char *path, char hex[SR_SHA256_HEX]) {
    FILE *file = fopen(path, "rbe");
    if (!file)
        return SR_FAIL(SR_E_NOT_FOUND, "weights: cannot read %s: %s", path, strerror(errno));
    enum { CHUNK = 1 << 16 };
    unsigned char buffer[CHUNK], digest[SR_SHA256_BYTES];
    sr_sha256 *sha = NULL;
    sr_status status = sr_sha256_create(&sha);
    size_t bytes;
    while (status == SR_OK && (bytes = fread(buffer, 1, CHUNK, file)) > 0)
        status = sr_sha256_update(sha, buffer, bytes);
    if (status == SR_OK && ferror(file))
        status = SR_FAIL(SR_E_IO, "weights: cannot read %s: %s", path, strerror(errno));
    if (status == SR_OK)
        status = sr_sha256_finish(sha, digest, hex);
    sr_sha256_free(sha);
    (void)fclose(file);
    return status;
}

// A line for each file, and one if there is none.
static sr_status add_weights(const sr_recipe *recipe, sr_text *out) {
    char hash[SR_SHA256_HEX];
    if (recipe->weights_count == 0)
        sr_text_add(out, "weights=\n");
    for (int i = 0; i < recipe->weights_count; i++) {
        SR_TRY(hash_file(recipe->weights[i].path, hash));
        sr_text_add(out, "%s=%s\n", recipe->weights[i].key, hash);
    }
    return SR_OK;
}

static sr_status identity_of(const sr_recipe *recipe, const char *data_identity,
                             leaf_filter *wanted, char hex[65]) {
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, "serried recipe 1\ndata=%s\n", data_identity);
    const sr_status hashed = add_weights(recipe, &text);
    if (hashed != SR_OK) {
        sr_text_release(&text);
        return hashed;
    }
    for (size_t i = 0; recipe->internal->plugins_loaded && i < recipe->plugins.count; i++)
        sr_text_add(&text, "plugin=%s\n", recipe->internal->plugin_hashes[i]);
    add_leaves(&text, recipe->internal->resolved, "", wanted);
    sr_sha256 *sha = NULL;
    unsigned char digest[SR_SHA256_BYTES];
    sr_status status = sr_text_check(&text);
    if (status == SR_OK)
        status = sr_sha256_create(&sha);
    if (status == SR_OK)
        status = sr_sha256_update(sha, text.data, text.length);
    if (status == SR_OK)
        status = sr_sha256_finish(sha, digest, hex);
    sr_sha256_free(sha);
    sr_text_release(&text);
    return status;
}

sr_status sr_recipe_identity(const sr_recipe *recipe, const char *data_identity, char hex[65]) {
    return identity_of(recipe, data_identity, is_numerics, hex);
}

sr_status sr_recipe_identity_with_eval(const sr_recipe *recipe, const char *data_identity,
                                       char hex[65]) {
    return identity_of(recipe, data_identity, is_numerics_or_eval, hex);
}
