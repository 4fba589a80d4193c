// SPDX-License-Identifier: Apache-2.0
// The recipe of a run as hyper-parameters of its event file (run_events.h).
#include "trainer/run/run_events.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/log.h"
#include "trainer/checkpoint/json_tree.h"

enum { SETTINGS_MAX = 1024, JSON_NODES = 1 << 16 };

typedef struct setting_list {
    sr_event_setting items[SETTINGS_MAX];
    size_t count;
    sr_arena *arena;
    bool failed; // no memory
} setting_list;

static void add(setting_list *list, const char *name, const sr_json *node) {
    sr_event_setting s = {.name = name, .text = node->text};
    switch (node->type) {
    case SR_JSON_NUMBER:
        if (!sr_json_double(node, &s.number))
            return;
        break;
    case SR_JSON_BOOL:
        s.type = SR_EVENT_BOOL;
        s.number = strcmp(node->text, "true") == 0;
        break;
    case SR_JSON_STRING:
        s.type = SR_EVENT_STRING;
        break;
    case SR_JSON_ARRAY:
    case SR_JSON_OBJECT: // an empty one: a transform without options
        s.type = SR_EVENT_STRING;
        s.text = "";
        break;
    case SR_JSON_NULL:
    default:
        return;
    }
    if (list->count < SETTINGS_MAX)
        list->items[list->count++] = s;
}

static const char *name_of(const setting_list *list, const char *parent, const sr_json *child,
                           size_t index) {
    const size_t bytes = strlen(parent) + (child->key ? strlen(child->key) : 0) + 32;
    char *name = sr_arena_alloc(list->arena, bytes);
    if (name && child->key)
        (void)snprintf(name, bytes, "%s%s%s", parent, *parent ? "." : "", child->key);
    else if (name)
        (void)snprintf(name, bytes, "%s[%zu]", parent, index);
    return name;
}

// The parser limits the depth.
static void add_tree(setting_list *list, const char *name, const sr_json *node) {
    size_t index = 0;
    if (!node->first) {
        add(list, name, node);
        return;
    }
    for (const sr_json *child = node->first; child; child = child->next) {
        const char *inner = name_of(list, name, child, index++);
        list->failed = list->failed || !inner;
        if (inner)
            add_tree(list, inner, child);
    }
}

static sr_status add_recipe(const sr_recipe *recipe, setting_list *list) {
    const sr_json *tree;
    sr_text text;
    sr_text_init(&text);
    sr_status status = sr_recipe_print_json(recipe, &text);
    if (status == SR_OK)
        status = sr_json_parse(text.data, text.length, JSON_NODES, "recipe", list->arena, &tree);
    if (status == SR_OK)
        add_tree(list, "", tree);
    sr_text_release(&text);
    return status == SR_OK && list->failed ? SR_E_MEMORY : status;
}

sr_event_file *sr_run_events_open(const char *folder, int64_t step, const sr_recipe *recipe) {
    sr_event_file *file = NULL;
    sr_arena arena;
    sr_arena_init(&arena);
    setting_list *list = sr_arena_alloc(&arena, sizeof *list);
    sr_status status = list ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK) {
        list->arena = &arena;
        status = add_recipe(recipe, list);
    }
    if (status == SR_OK)
        status = sr_event_file_create(folder, step, &file);
    if (status == SR_OK)
        sr_event_file_add_settings(file, list->items, list->count);
    else
        SR_WARN("%s; TensorBoard will not show this run", sr_error_message());
    sr_arena_release(&arena);
    return file;
}
