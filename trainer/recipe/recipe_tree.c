// SPDX-License-Identifier: Apache-2.0
// The tree of a recipe: building, searching and merging nodes.
//
// Nodes live in the recipe's arena and are never freed one by one. Maps are short (the parser
// checks it), so children are a linked list in the order of the file.
#include <stdio.h>
#include <string.h>

#include "trainer/recipe/recipe_internal.h"

sr_recipe_node *sr_recipe_node_new(sr_recipe_internal *in, sr_recipe_node_kind kind,
                                   const char *key, sr_recipe_position at) {
    sr_recipe_node *node = sr_arena_alloc(&in->arena, sizeof *node);
    if (!node)
        return NULL;
    node->kind = kind;
    node->key = key;
    node->text = "";
    node->at = node->key_at = at;
    return node;
}

void sr_recipe_node_append(sr_recipe_node *parent, sr_recipe_node *child) {
    child->next = NULL;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

void sr_recipe_node_remove(sr_recipe_node *parent, const char *key) {
    sr_recipe_node *child = parent->first;
    parent->first = parent->last = NULL;
    parent->count = 0;
    while (child) {
        sr_recipe_node *next = child->next;
        if (strcmp(child->key, key) != 0)
            sr_recipe_node_append(parent, child);
        child = next;
    }
}

sr_recipe_node *sr_recipe_node_child(const sr_recipe_node *map, const char *key) {
    for (sr_recipe_node *child = map->first; child; child = child->next) {
        if (child->key && strcmp(child->key, key) == 0)
            return child;
    }
    return NULL;
}

// Takes one step along a path, "key" of a map or "[2]" of a list. Returns the rest of the path.
static const char *step(sr_recipe_node *node, const char *path, sr_recipe_node **next) {
    *next = NULL;
    if (path[0] == '.')
        path++;
    if (path[0] == '[') {
        int index = 0, end = 0;
        if (sscanf(path, "[%d]%n", &index, &end) != 1 || end == 0 ||
            node->kind != SR_RECIPE_NODE_LIST)
            return path;
        sr_recipe_node *child = node->first;
        for (; child && index > 0; index--)
            child = child->next;
        *next = child;
        return path + end;
    }
    size_t length = strcspn(path, ".[");
    char key[SR_RECIPE_MAX_PATH];
    if (length >= sizeof key || node->kind != SR_RECIPE_NODE_MAP)
        return path;
    memcpy(key, path, length);
    key[length] = '\0';
    *next = sr_recipe_node_child(node, key);
    return path + length;
}

sr_recipe_node *sr_recipe_node_find(sr_recipe_node *root, const char *path) {
    sr_recipe_node *node = root;
    while (node && *path) {
        sr_recipe_node *next;
        path = step(node, path, &next);
        if (!next)
            return NULL;
        node = next;
    }
    return node;
}

bool sr_recipe_node_is_null(const sr_recipe_node *node) {
    return node->kind == SR_RECIPE_NODE_TEXT && node->plain &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 ||
            strcmp(node->text, "null") == 0);
}

// Adds an item of a list as option tables read it: quoted if it would be read differently.
static char *add_item(char *end, const char *item) {
    size_t n = strlen(item);
    bool plain = n > 0 && !strpbrk(item, ",\"'[]\\#:{}") && !strchr(" \t", item[0]) &&
                 !strchr(" \t", item[n - 1]);
    if (plain) {
        memcpy(end, item, n);
        return end + n;
    }
    *end++ = '"';
    for (; *item; item++) {
        if (*item == '"' || *item == '\\')
            *end++ = '\\';
        *end++ = *item;
    }
    *end++ = '"';
    return end;
}

const char *sr_recipe_node_value(sr_recipe_internal *in, const sr_recipe_node *node) {
    if (node->kind == SR_RECIPE_NODE_TEXT)
        return node->text;
    if (node->kind != SR_RECIPE_NODE_LIST)
        return NULL;
    size_t bytes = 3;
    for (const sr_recipe_node *item = node->first; item; item = item->next) {
        if (item->kind != SR_RECIPE_NODE_TEXT)
            return NULL;
        bytes += 2 * strlen(item->text) + 4;
    }
    char *text = sr_arena_alloc(&in->arena, bytes);
    if (!text) {
        in->out_of_memory = true;
        return NULL;
    }
    char *end = text;
    *end++ = '[';
    for (const sr_recipe_node *item = node->first; item; item = item->next) {
        if (item != node->first) {
            *end++ = ',';
            *end++ = ' ';
        }
        end = add_item(end, item->text);
    }
    memcpy(end, "]", 2);
    return text;
}

bool sr_recipe_node_is_choice(const char *key) {
    return strcmp(key, "task") == 0 || sr_recipe_node_is_phase_choice(key);
}

bool sr_recipe_node_is_phase_choice(const char *key) {
    static const char *const names[] = {"model", "optimizer", "schedule", "loss"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(key, names[i]) == 0)
            return true;
    }
    return false;
}

sr_status sr_recipe_node_wrap(sr_recipe_internal *in, sr_recipe_node *node, const char *key) {
    sr_recipe_node *inner = sr_recipe_node_new(in, SR_RECIPE_NODE_TEXT, key, node->at);
    if (!inner)
        return SR_E_MEMORY;
    inner->text = node->text;
    inner->plain = node->plain;
    node->kind = SR_RECIPE_NODE_MAP;
    node->text = "";
    node->first = node->last = NULL;
    node->count = 0;
    sr_recipe_node_append(node, inner);
    return SR_OK;
}

static sr_status normalise_section(sr_recipe_internal *in, sr_recipe_node *map) {
    for (sr_recipe_node *child = map->first; child; child = child->next) {
        if (child->kind != SR_RECIPE_NODE_TEXT || sr_recipe_node_is_null(child))
            continue;
        if (sr_recipe_node_is_choice(child->key))
            SR_TRY(sr_recipe_node_wrap(in, child, "name"));
        else if (strcmp(child->key, "ema") == 0)
            SR_TRY(sr_recipe_node_wrap(in, child, "decay"));
    }
    return SR_OK;
}

sr_status sr_recipe_node_normalise(sr_recipe_internal *in, sr_recipe_node *root) {
    SR_TRY(normalise_section(in, root));
    const sr_recipe_node *phases = sr_recipe_node_child(root, "phases");
    if (!phases || phases->kind != SR_RECIPE_NODE_MAP)
        return SR_OK;
    for (sr_recipe_node *phase = phases->first; phase; phase = phase->next) {
        if (phase->kind == SR_RECIPE_NODE_MAP)
            SR_TRY(normalise_section(in, phase));
    }
    return SR_OK;
}

// Does 'over' choose another name than its base? Then it takes nothing from it.
static bool names_another(const sr_recipe_node *base, const sr_recipe_node *over) {
    const sr_recipe_node *a = sr_recipe_node_child(base, "name"),
                         *b = sr_recipe_node_child(over, "name");
    return a && b && strcmp(a->text, b->text) != 0;
}

static void replace(sr_recipe_node *old, const sr_recipe_node *by) {
    sr_recipe_node *next = old->next;
    *old = *by;
    old->next = next;
}

// Puts a map in the place of a text, which becomes its name unless it has one. 'map' is used up.
static void name_map(sr_recipe_node *old, sr_recipe_node *map) {
    sr_recipe_node name = *old;
    replace(old, map);
    if (sr_recipe_node_child(old, "name"))
        return;
    name.key = "name";
    *map = name;
    sr_recipe_node_append(old, map);
}

// in_choice: in the options of a choice, where a map with a name is a choice, too.
static void merge(sr_recipe_node *base, sr_recipe_node *over, bool in_choice) {
    sr_recipe_node *child = over->first;
    while (child) {
        sr_recipe_node *next = child->next, *old = sr_recipe_node_child(base, child->key);
        const bool choice = in_choice || sr_recipe_node_is_choice(child->key);
        const bool map = child->kind == SR_RECIPE_NODE_MAP;
        if (sr_recipe_node_is_null(child))
            sr_recipe_node_remove(base, child->key);
        else if (!old)
            sr_recipe_node_append(base, child);
        else if (old->kind == SR_RECIPE_NODE_MAP && map && !(choice && names_another(old, child))) {
            if (child->at.source && !child->at.source->is_override) {
                old->at = child->at;
                old->key_at = child->key_at;
            }
            merge(old, child, choice);
        } else if (in_choice && map && old->kind == SR_RECIPE_NODE_TEXT)
            name_map(old, child);
        else {
            child->over_list = choice && map && old->kind == SR_RECIPE_NODE_LIST &&
                               !sr_recipe_node_child(child, "name");
            replace(old, child);
        }
        child = next;
    }
}

void sr_recipe_node_merge(sr_recipe_node *base, sr_recipe_node *over) {
    merge(base, over, false);
}

sr_recipe_node *sr_recipe_node_copy(sr_recipe_internal *in, const sr_recipe_node *node) {
    sr_recipe_node *copy = sr_recipe_node_new(in, node->kind, node->key, node->at);
    if (!copy)
        return NULL;
    *copy = *node;
    copy->first = copy->last = copy->next = NULL;
    copy->count = 0;
    for (const sr_recipe_node *child = node->first; child; child = child->next) {
        sr_recipe_node *child_copy = sr_recipe_node_copy(in, child);
        if (!child_copy)
            return NULL;
        sr_recipe_node_append(copy, child_copy);
    }
    return copy;
}
