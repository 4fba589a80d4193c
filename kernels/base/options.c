// SPDX-License-Identifier: Apache-2.0
// Option tables over plain structs (see options.h): look-up, setting and defaults.
//
// Values are parsed first (option_parse.c) and stored last, so that an invalid text leaves the
// struct unchanged.
#include "kernels/base/options.h"

#include <string.h>

#include "kernels/base/option_internal.h"

enum { NAMES_MAX = 512 };

const sr_option *sr_options_find(const sr_option_table *table, const char *name) {
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->options[i].name, name) == 0)
            return &table->options[i];
    return NULL;
}

static sr_status unknown_key(const sr_option_table *table, const char *name) {
    const char *names[NAMES_MAX] = {NULL};
    size_t count = table->count < NAMES_MAX ? table->count : NAMES_MAX;
    for (size_t i = 0; i < count; i++)
        names[i] = table->options[i].name;
    const char *near = sr_text_nearest(name, names, count);
    if (near != NULL)
        return SR_FAIL(SR_E_USAGE, "%s: unknown key '%s'; did you mean '%s'?", table->name, name,
                       near);
    sr_text list;
    sr_text_init(&list);
    for (size_t i = 0; i < count; i++)
        sr_text_add(&list, "%s%s", i ? ", " : "", names[i]);
    (void)SR_FAIL(SR_E_USAGE, "%s: unknown key '%s'; known keys: %s", table->name, name, list.data);
    sr_text_release(&list);
    return SR_E_USAGE;
}

// The options of an alternative start as their defaults, or as what the table presets.
static sr_status add_defaults(const sr_option_table *table, sr_alternative *chosen,
                              sr_arena *arena) {
    const sr_option_table *inner = sr_options_of(table->alternatives, chosen->name);
    chosen->options = sr_arena_alloc(arena, inner ? inner->struct_size + 1 : 1);
    if (!chosen->options)
        return SR_E_MEMORY;
    if (!inner)
        return SR_OK;
    SR_TRY(sr_options_defaults(inner, chosen->options, arena));
    for (const char *const *preset = table->preset; preset && *preset; preset += 2)
        if (sr_options_find(inner, preset[0]))
            SR_TRY(sr_options_set(inner, chosen->options, preset[0], preset[1], arena));
    return SR_OK;
}

static sr_status set_option(const sr_option_table *table, const sr_option *option, void *options,
                            const char *text, sr_arena *arena) {
    sr_option_value value;
    SR_TRY(sr_option_parse(table, option, text, arena, &value));
    if (option->type == SR_OPT_ALTERNATIVE)
        SR_TRY(add_defaults(table, &value.alternative, arena));
    memcpy((char *)options + option->offset, &value, sr_option_field_size(option->type));
    return SR_OK;
}

// The option "a" of a name "a.b", if it chooses an alternative; *rest is "b".
static const sr_option *parent_of(const sr_option_table *table, const char *name,
                                  const char **rest) {
    const char *dot = strchr(name, '.');
    for (size_t i = 0; dot && i < table->count; i++) {
        const sr_option *option = &table->options[i];
        const size_t length = strlen(option->name);
        *rest = name + length + 1;
        if (option->type == SR_OPT_ALTERNATIVE && strncmp(option->name, name, length) == 0 &&
            name[length] == '.')
            return option;
    }
    return NULL;
}

static sr_status set_inner(const sr_option_table *table, const sr_option *option,
                           const void *options, const char *name, const char *text,
                           sr_arena *arena) {
    sr_alternative chosen;
    memcpy(&chosen, (const char *)options + option->offset, sizeof chosen);
    const sr_option_table *inner = sr_options_of(table->alternatives, chosen.name);
    if (!inner)
        return SR_FAIL(SR_E_USAGE, "%s: %s '%s' has no option '%s'", table->name, option->name,
                       chosen.name ? chosen.name : "", name);
    return sr_options_set(inner, chosen.options, name, text, arena);
}

sr_status sr_options_set(const sr_option_table *table, void *options, const char *name,
                         const char *text, sr_arena *arena) {
    const sr_option *option = sr_options_find(table, name);
    const char *rest;
    const sr_option *parent = option ? NULL : parent_of(table, name, &rest);
    if (parent)
        return set_inner(table, parent, options, rest, text, arena);
    if (option == NULL)
        return unknown_key(table, name);
    return set_option(table, option, options, text, arena);
}

sr_status sr_options_defaults(const sr_option_table *table, void *options, sr_arena *arena) {
    memset(options, 0, table->struct_size);
    for (size_t i = 0; i < table->count; i++) {
        const sr_option *option = &table->options[i];
        if (option->default_text != NULL)
            SR_TRY(set_option(table, option, options, option->default_text, arena));
    }
    return SR_OK;
}
