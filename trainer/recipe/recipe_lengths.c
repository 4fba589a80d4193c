// SPDX-License-Identifier: Apache-2.0
// Lengths of a base in a recipe of another length.
//
// What a recipe says in epochs or steps (a warm-up, the end of a transform) is meant for the length
// of its own run. Where a recipe sets another length of the run than its base, what it inherits in
// the unit of that length keeps its share of the run: 5ep of 90 epochs become 5.55...%. What it
// sets itself is as it says: milestones of its own drop a schedule.of that was meant for those of
// the base. The command line changes the length alone, so that a run can be extended; intervals
// such as checkpoint.every stay.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/recipe/recipe_internal.h"

// The length of a run that a layer gives.
typedef struct run_length {
    double count;     // 0: none
    const char *unit; // of lengths that are a share of it: "ep" or "it"
    sr_recipe_position at;
} run_length;

// A number, after which *end is the rest of the text.
static bool read_number(const char *text, double *out, const char **end) {
    char *rest;
    errno = 0;
    *out = strtod(text, &rest);
    *end = rest;
    return rest != text && errno == 0 && isfinite(*out);
}

static run_length length_of(const sr_recipe_node *layer) {
    static const char *const keys[2] = {"epochs", "steps"}, *const units[2] = {"ep", "it"};
    for (int i = 0; i < 2; i++) {
        const sr_recipe_node *node = sr_recipe_node_child(layer, keys[i]);
        double count;
        const char *end;
        if (node && node->kind == SR_RECIPE_NODE_TEXT && read_number(node->text, &count, &end) &&
            *end == '\0' && count > 0)
            return (run_length){count, units[i], node->at};
    }
    return (run_length){.unit = ""};
}

static void scale_text(sr_recipe_internal *in, sr_recipe_node *node, const run_length *from,
                       const run_length *to) {
    double count;
    const char *unit;
    if (!read_number(node->text, &count, &unit) || !(count > 0) || strcmp(unit, from->unit) != 0)
        return;
    node->text = sr_recipe_format(in, "%.15g%%", 100 * count / from->count);
    node->at = to->at;
}

// Scales the values of a map or list of the base that 'over' does not replace; NULL: it is not
// there.
static void scale_values(sr_recipe_internal *in, sr_recipe_node *below, const sr_recipe_node *over,
                         const run_length *from, const run_length *to) {
    for (sr_recipe_node *node = below->first; node; node = node->next) {
        const sr_recipe_node *by = over && node->key ? sr_recipe_node_child(over, node->key) : NULL;
        if (node->kind == SR_RECIPE_NODE_TEXT && !by)
            scale_text(in, node, from, to);
        else if (node->kind != SR_RECIPE_NODE_TEXT && (!by || by->kind == SR_RECIPE_NODE_MAP))
            scale_values(in, node, by, from, to);
    }
}

static void scale_sections(sr_recipe_internal *in, const sr_recipe_node *below,
                           const sr_recipe_node *layer) {
    static const char *const sections[] = {"schedule", "ema",    "mix",      "progressive",
                                           "augment",  "phases", "optimizer"};
    const run_length from = length_of(below), to = length_of(layer);
    const bool on_command_line = to.at.source && to.at.source->is_override;
    if (on_command_line || !(from.count > 0) || !(to.count > 0) ||
        (strcmp(from.unit, to.unit) == 0 && from.count == to.count))
        return;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        sr_recipe_node *section = sr_recipe_node_child(below, sections[i]);
        const sr_recipe_node *over = sr_recipe_node_child(layer, sections[i]);
        if (section && section->kind != SR_RECIPE_NODE_TEXT &&
            (!over || over->kind == SR_RECIPE_NODE_MAP))
            scale_values(in, section, over, &from, &to);
    }
}

static sr_recipe_node *map_at(const sr_recipe_node *map, const char *key) {
    sr_recipe_node *node = map ? sr_recipe_node_child(map, key) : NULL;
    return node && node->kind == SR_RECIPE_NODE_MAP ? node : NULL;
}

// 'below' and 'layer' contain schedules: whole recipes, or phases.
static void drop_of(const sr_recipe_node *below, const sr_recipe_node *layer) {
    sr_recipe_node *schedule = map_at(below, "schedule");
    const sr_recipe_node *over = map_at(layer, "schedule");
    if (schedule && over && !sr_recipe_node_child(over, "of") &&
        (sr_recipe_node_child(over, "milestones") || sr_recipe_node_child(over, "every")))
        sr_recipe_node_remove(schedule, "of");
}

void sr_recipe_scale_lengths(sr_recipe_internal *in, sr_recipe_node *below,
                             const sr_recipe_node *layer) {
    const sr_recipe_node *phases = map_at(below, "phases"), *over = map_at(layer, "phases");
    scale_sections(in, below, layer);
    drop_of(below, layer);
    for (const sr_recipe_node *p = phases ? phases->first : NULL; p; p = p->next)
        if (p->kind == SR_RECIPE_NODE_MAP)
            drop_of(p, map_at(over, p->key));
}
