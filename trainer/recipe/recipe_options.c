// SPDX-License-Identifier: Apache-2.0
// Reads nodes of a recipe through option tables: the recipe's own rows, and those of descriptors.
//
// A value that was read is stored in the resolved tree as the table formats it, so that "1e-1" and
// "0.1" print alike and have the same identity.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/recipe/recipe_internal.h"

// Puts a node at a dotted path below 'map', making maps on the way; replaces one that exists.
static sr_status put_node(sr_recipe_internal *in, sr_recipe_node *map, const char *path,
                          sr_recipe_node *node) {
    const char *dot;
    while ((dot = strchr(path, '.')) != NULL) {
        const char *key = sr_recipe_format(in, "%.*s", (int)(dot - path), path);
        sr_recipe_node *child = sr_recipe_node_child(map, key);
        if (!child) {
            child = sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, key, (sr_recipe_position){0});
            if (!child)
                return SR_E_MEMORY;
            sr_recipe_node_append(map, child);
        }
        map = child;
        path = dot + 1;
    }
    sr_recipe_node *old = sr_recipe_node_child(map, path);
    node->key = path;
    if (old) {
        sr_recipe_node *next = old->next;
        *old = *node;
        old->next = next;
    } else {
        sr_recipe_node_append(map, node);
    }
    return SR_OK;
}

static bool is_list(sr_option_type type) {
    return type == SR_OPT_INTS || type == SR_OPT_FLOATS || type == SR_OPT_STRINGS;
}

// In a recipe "~" means no value; a shell replaces it by the home folder.
static bool is_expanded_tilde(const sr_recipe_node *node) {
    const char *home = getenv("HOME");
    return node->at.source && node->at.source->is_override && home && node->text &&
           strcmp(node->text, home) == 0;
}

// Sets one field from its node. Reports a mistake and returns false if the value does not fit.
static bool set_option(sr_recipe_internal *in, const sr_option_table *table, void *options,
                       const char *name, const sr_recipe_node *node) {
    const sr_option *option = sr_options_find(table, name);
    const char *value = sr_recipe_node_value(in, node);
    if (node->kind == SR_RECIPE_NODE_LIST && option && !is_list(option->type)) {
        sr_recipe_mistake(in, node->at, "%s: expected one value, not a list", name);
        return false;
    }
    if (!value) {
        sr_recipe_mistake(in, node->at, "%s: expected a %s, not a %s", name,
                          option && is_list(option->type) ? "list of values" : "value",
                          node->kind == SR_RECIPE_NODE_MAP ? "map" : "list of maps or lists");
        return false;
    }
    sr_status status = sr_options_set(table, options, name, value, &in->arena);
    if (status == SR_OK)
        return true;
    if (status == SR_E_MEMORY) {
        in->out_of_memory = true;
        return false;
    }
    // The table's message begins with the table's name; here a position replaces it.
    const char *message = sr_error_message();
    size_t prefix = strlen(table->name);
    if (strncmp(message, table->name, prefix) == 0 && message[prefix] == '.')
        message += prefix + 1;
    sr_recipe_mistake(in, node->at, "%s%s", message,
                      is_expanded_tilde(node) ? "; the shell expanded '~' to it, so quote it: '~'"
                                              : "");
    return false;
}

static bool is_set(const sr_option *option, const void *options) {
    const char *field = (const char *)options + option->offset;
    if (option->type == SR_OPT_STRING) {
        const char *text;
        memcpy(&text, field, sizeof text);
        return text != NULL;
    }
    return true;
}

static sr_recipe_node *list_node(sr_recipe_internal *in, sr_recipe_node *node, const char *field) {
    sr_string_list list;
    memcpy(&list, field, sizeof list);
    node->kind = SR_RECIPE_NODE_LIST;
    for (size_t i = 0; i < list.count; i++) {
        sr_recipe_node *item = sr_recipe_node_new(in, SR_RECIPE_NODE_TEXT, NULL, node->at);
        if (!item)
            return NULL;
        item->text = list.items[i];
        sr_recipe_node_append(node, item);
    }
    return node;
}

// The resolved node of a row; 'written' is NULL if the default applies.
static sr_recipe_node *option_node(sr_recipe_internal *in, const sr_option *option,
                                   const void *options, const sr_recipe_node *written) {
    sr_recipe_node *node =
        sr_recipe_node_new(in, SR_RECIPE_NODE_TEXT, option->name, (sr_recipe_position){0});
    if (!node)
        return NULL;
    if (written) {
        node->at = written->at;
        node->key_at = written->key_at;
    }
    node->note = written ? NULL : "default";
    node->option_class = option->option_class;
    node->verbatim = is_list(option->type);
    node->text = NULL;
    if ((!written && !option->default_text) || !is_set(option, options))
        return node;
    if (option->type == SR_OPT_STRINGS)
        return list_node(in, node, (const char *)options + option->offset);
    sr_text text;
    sr_text_init(&text);
    sr_options_format(option, options, &text);
    node->text = text.failed ? NULL : sr_arena_strdup(&in->arena, text.data);
    sr_text_release(&text);
    if (option->option_class == SR_OPTION_ADDED && option->default_text && node->text &&
        strcmp(node->text, option->default_text) == 0)
        node->option_class = SR_OPTION_NEUTRAL;
    node->plain =
        option->type == SR_OPT_BOOL || option->type == SR_OPT_INT || option->type == SR_OPT_FLOAT;
    return node->text ? node : NULL;
}

sr_status sr_recipe_read_table(sr_recipe_internal *in, const sr_option_table *table, void *options,
                               sr_recipe_node *written, sr_recipe_node *resolved) {
    SR_TRY(sr_options_defaults(table, options, &in->arena));
    for (size_t i = 0; i < table->count; i++) {
        const sr_option *option = &table->options[i];
        sr_recipe_node *node = written ? sr_recipe_node_find(written, option->name) : NULL;
        if (node)
            node->used = true;
        if (node &&
            (sr_recipe_node_is_null(node) || !set_option(in, table, options, option->name, node)))
            node = NULL;
        sr_recipe_node *result = option_node(in, option, options, node);
        if (!result)
            return SR_E_MEMORY;
        SR_TRY(put_node(in, resolved, option->name, result));
    }
    return SR_OK;
}

// ---- options of descriptors -----------------------------------------------------------------

// The map of options at a path; that of an augment item is below its name.
static sr_recipe_node *section_at(const sr_recipe_internal *in, const char *path) {
    sr_recipe_node *node = sr_recipe_node_find(in->resolved, path);
    if (node && strncmp(path, "augment[", 8) == 0)
        node = node->first;
    return node && node->kind == SR_RECIPE_NODE_MAP ? node : NULL;
}

// Whether the recipe reads this key of the section itself. Inside a model's options, that is the
// name of an alternative.
static bool is_own_key(const char *path, const char *key) {
    return sr_recipe_knows(path, key) ||
           (strcmp(key, "name") == 0 && strchr(path, '.') && strncmp(path, "augment[", 8) != 0);
}

// Whether the section is a loss that is not in a list.
static bool is_loss(const char *path) {
    const char *dot = strrchr(path, '.');
    return strcmp(dot ? dot + 1 : path, "loss") == 0;
}

static void refuse_unknown(sr_recipe_internal *in, const char *path, const sr_option_table *table,
                           const sr_recipe_node *node, const char *key) {
    static const char *const own[] = {"name",         "lr",         "lr_per", "weight_decay",
                                      "clip_norm",    "clip_value", "groups", "warmup",
                                      "warmup_start", "weight",     "as",     NULL};
    size_t room = table->count + sizeof own / sizeof *own, count = 0;
    const char **names = sr_arena_alloc(&in->arena, room * sizeof *names);
    for (size_t i = 0; names && i < table->count; i++)
        names[count++] = table->options[i].name;
    for (size_t i = 0; names && own[i]; i++) {
        if (is_own_key(path, own[i]))
            names[count++] = own[i];
    }
    const char *hint = names ? sr_recipe_hint(in, key, names, count) : "";
    if (hint[0] == '\0' && table->count == 0)
        hint = "; it has no options";
    else if (hint[0] == '\0')
        hint = sr_recipe_hint_elsewhere(in, key);
    if (is_loss(path) && sr_options_find(sr_recipe_loss_keys(), key))
        hint = "; a loss of a list has it, such as [{name: dice, weight: 3}]";
    sr_recipe_mistake(in, node->key_at, "unknown key '%s' of %s%s", key, table->name, hint);
}

// What is written for a row of 'map', or NULL.
static sr_recipe_node *written_row(sr_recipe_node *map, const char *name) {
    sr_recipe_node *node = map ? sr_recipe_node_find(map, name) : NULL;
    return node && (node->note || sr_recipe_node_is_null(node)) ? NULL : node;
}

static void set_from(sr_recipe_internal *in, const char *path, const sr_option_table *table,
                     void *options, sr_recipe_node *map, const char *prefix);

// Sets an alternative from its name, or from a map of its name and its options, and reads these.
static bool set_alternative(sr_recipe_internal *in, const char *path, const sr_option_table *table,
                            void *options, const sr_option *option, sr_recipe_node *node) {
    sr_alternative chosen;
    const sr_recipe_node *name =
        node->kind == SR_RECIPE_NODE_MAP ? written_row(node, "name") : node;
    if (node->kind == SR_RECIPE_NODE_LIST) {
        sr_recipe_mistake(in, node->at, "%s: expected a name, or a map with a name; not a list",
                          option->name);
        return false;
    }
    if (name && !set_option(in, table, options, option->name, name))
        return false;
    memcpy(&chosen, (const char *)options + option->offset, sizeof chosen);
    const sr_option_table none = {.name = chosen.name ? chosen.name : option->name};
    const sr_option_table *inner = sr_options_of(table->alternatives, chosen.name);
    if (node->kind == SR_RECIPE_NODE_MAP)
        set_from(in, sr_recipe_format(in, "%s.%s", path, option->name), inner ? inner : &none,
                 chosen.options, node, "");
    return true;
}

static void set_from(sr_recipe_internal *in, const char *path, const sr_option_table *table,
                     void *options, sr_recipe_node *map, const char *prefix) {
    for (sr_recipe_node *node = map->first; node; node = node->next) {
        const char *key = *prefix ? sr_recipe_format(in, "%s.%s", prefix, node->key) : node->key;
        if (node->note ||
            (node->kind == SR_RECIPE_NODE_TEXT && (!node->text || sr_recipe_node_is_null(node))))
            continue; // a default, or no value
        const sr_option *option = sr_options_find(table, key);
        if (option && option->type == SR_OPT_ALTERNATIVE)
            node->used = set_alternative(in, path, table, options, option, node);
        else if (option)
            node->used = set_option(in, table, options, key, node);
        else if (!*prefix && is_own_key(path, key))
            continue;
        else if (node->kind == SR_RECIPE_NODE_MAP)
            set_from(in, path, table, options, node, key);
        else
            refuse_unknown(in, path, table, node, key);
    }
}

static sr_status add_rows(sr_recipe_internal *in, const sr_option_table *table, const void *options,
                          sr_recipe_node *written, sr_recipe_node *section);

// The node of an alternative: a map of its name and its options. 'written' may be its name alone.
static sr_status alternative_node(sr_recipe_internal *in, const sr_option_table *table,
                                  const sr_option *option, const void *options,
                                  sr_recipe_node *written, sr_recipe_node **out) {
    const bool is_map = written && written->kind == SR_RECIPE_NODE_MAP;
    sr_recipe_node *map = sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, option->name,
                                             written ? written->at : (sr_recipe_position){0});
    sr_recipe_node *name =
        option_node(in, option, options, is_map ? written_row(written, "name") : written);
    sr_alternative chosen;
    if (!map || !name)
        return SR_E_MEMORY;
    memcpy(&chosen, (const char *)options + option->offset, sizeof chosen);
    map->option_class = option->option_class;
    name->key = "name";
    sr_recipe_node_append(map, name);
    *out = map;
    const sr_option_table *inner = sr_options_of(table->alternatives, chosen.name);
    return inner ? add_rows(in, inner, chosen.options, is_map ? written : NULL, map) : SR_OK;
}

// Adds a node for every row of the table to the section that has none yet.
static sr_status add_rows(sr_recipe_internal *in, const sr_option_table *table, const void *options,
                          sr_recipe_node *written, sr_recipe_node *section) {
    for (size_t i = 0; i < table->count; i++) {
        const sr_option *option = &table->options[i];
        if (sr_recipe_node_child(section, option->name))
            continue; // the recipe's own node stays
        sr_recipe_node *row = written_row(written, option->name), *node = NULL;
        if (option->type == SR_OPT_ALTERNATIVE)
            SR_TRY(alternative_node(in, table, option, options, row, &node));
        else
            node = option_node(in, option, options, row);
        if (!node)
            return SR_E_MEMORY;
        SR_TRY(put_node(in, section, option->name, node));
    }
    return SR_OK;
}

// Rebuilds the section: the keys that the recipe itself reads, then a node for every row of the
// table.
static sr_status complete(sr_recipe_internal *in, const char *path, const sr_option_table *table,
                          const void *options, sr_recipe_node *section) {
    sr_recipe_node *old = sr_recipe_node_copy(in, section), *child = section->first;
    if (!old)
        return SR_E_MEMORY;
    section->first = section->last = NULL;
    section->count = 0;
    while (child) {
        sr_recipe_node *next = child->next;
        if (sr_recipe_knows(path, child->key))
            sr_recipe_node_append(section, child);
        child = next;
    }
    return add_rows(in, table, options, old, section);
}

sr_status sr_recipe_options_parse(sr_recipe *recipe, const char *path, const sr_option_table *table,
                                  void *options) {
    sr_recipe_internal *in = recipe->internal;
    int before = in->mistakes;
    SR_TRY(sr_options_defaults(table, options, &in->arena));
    sr_recipe_node *named = sr_recipe_node_find(in->resolved, path);
    if (named && named->kind == SR_RECIPE_NODE_TEXT && table->count > 0 &&
        sr_recipe_node_is_choice(path))
        SR_TRY(sr_recipe_node_wrap(in, named, "name"));
    sr_recipe_node *section = section_at(in, path);
    if (!section)
        return SR_OK;
    set_from(in, path, table, options, section, "");
    if (in->mistakes > before)
        return sr_recipe_verdict(in);
    return complete(in, path, table, options, section);
}
