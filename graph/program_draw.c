// SPDX-License-Identifier: Apache-2.0
// Draws a canonical program in Graphviz's language (program_text.h): values flow from their
// operators to those that read them. Forward and backward operators have clusters of their own,
// since a layer's gradients are computed long after its values.
#include <string.h>

#include "graph/layer_tree.h"
#include "graph/program_text_internal.h"

typedef struct drawing {
    const sr_written_program *w;
    sr_layer_tree trees[2];  // of operators and variables, and of gradients
    int *node_at, *value_at; // in their tree: of each node, and of each variable; -1: outside
    bool *wanted;            // of each value: it is a target
    sr_text *out;
} drawing;

static const char *const colours[2] = {"#cfe2f3", "#f9d9c0"};
static const char *const frames[2] = {"#3d6d99", "#b0662f"};

static void add_label(const char *text, size_t length, sr_text *out) {
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"' || text[i] == '\\')
            sr_text_add(out, "\\");
        sr_text_add_bytes(out, &text[i], 1);
    }
}

// ---- Places ----

static sr_status place_node(drawing *d, size_t node) {
    const sr_layer layer = sr_written_layer(d->w, node);
    d->node_at[node] = -1;
    if (!layer.name)
        return SR_OK;
    return sr_layer_tree_find(&d->trees[sr_written_backward(d->w, node)], layer, &d->node_at[node]);
}

static const char *variable_of(const drawing *d, uint32_t value) {
    const sr_program_value *v = &d->w->p->values[value];
    if (v->node != SR_REF_NONE || v->leaf_kind != SR_LEAF_VARIABLE)
        return NULL;
    return d->w->context->variables[v->leaf].name;
}

static sr_status place_value(drawing *d, uint32_t value) {
    const char *name = variable_of(d, value), *dot = name ? strrchr(name, '.') : NULL;
    d->value_at[value] = -1;
    if (!dot)
        return SR_OK;
    return sr_layer_tree_find(&d->trees[0], (sr_layer){name, (int)(dot - name)},
                              &d->value_at[value]);
}

static sr_status place(drawing *d) {
    const sr_program *p = d->w->p;
    for (int i = 0; i < 2; i++)
        SR_TRY(sr_layer_tree_init(&d->trees[i], (sr_layer){"", 0}));
    for (size_t i = 0; i < p->node_count; i++)
        SR_TRY(place_node(d, i));
    for (uint32_t i = 0; i < p->value_count; i++)
        SR_TRY(place_value(d, i));
    for (size_t i = 0; i < p->target_count; i++)
        d->wanted[p->targets[i].value] = true;
    return SR_OK;
}

// ---- Boxes ----

static sr_status add_node(drawing *d, size_t index) {
    const sr_program_node *node = &d->w->p->nodes[index];
    const int backward = sr_written_backward(d->w, index);
    sr_text attributes;
    bool wanted = false;
    sr_text_init(&attributes);
    sr_status status =
        sr_program_add_attributes(node->op, d->w->p->attrs + node->attr, &attributes);
    sr_text_add(d->out, "n%zu [label=\"%s", index, node->op->name);
    for (int i = 0; i < node->op->outputs; i++) {
        sr_text_add(d->out, "\\n");
        sr_program_add_info(&d->w->p->values[node->output[i]].info, d->out);
        wanted = wanted || d->wanted[node->output[i]];
    }
    sr_text_add(d->out, "\", tooltip=\"%%%u ", node->op->outputs ? node->output[0] : 0);
    add_label(attributes.data, attributes.length, d->out);
    sr_text_add(d->out, "\", fillcolor=\"%s\", color=\"%s\"%s];\n", colours[backward],
                frames[backward], wanted ? ", peripheries=2" : "");
    if (status == SR_OK)
        status = sr_text_check(&attributes);
    sr_text_release(&attributes);
    return status;
}

static void add_leaf(drawing *d, uint32_t value) {
    const sr_program_value *v = &d->w->p->values[value];
    const char *name = variable_of(d, value), *dot = name ? strrchr(name, '.') : NULL;
    sr_text_add(d->out, "v%u [shape=%s, label=\"", value, name ? "note" : "ellipse");
    if (name)
        add_label(dot ? dot + 1 : name, strlen(dot ? dot + 1 : name), d->out);
    else if (v->leaf_kind == SR_LEAF_INPUT)
        sr_text_add(d->out, "input %u", v->leaf);
    else
        sr_text_add(d->out, "constant");
    sr_text_add(d->out, "\\n");
    sr_program_add_info(&v->info, d->out);
    sr_text_add(d->out, "\", fillcolor=\"#eeeeee\", color=\"#777777\"];\n");
}

// The operators and variables of a place in a tree; -1: outside.
static sr_status add_members(drawing *d, int tree, int at) {
    for (uint32_t i = 0; i < d->w->p->value_count; i++)
        if (tree == 0 && d->value_at[i] == at && d->w->p->values[i].node == SR_REF_NONE)
            add_leaf(d, i);
    for (size_t i = 0; i < d->w->p->node_count; i++)
        if (d->node_at[i] == at && sr_written_backward(d->w, i) == (tree == 1))
            SR_TRY(add_node(d, i));
    return SR_OK;
}

static sr_status add_cluster(drawing *d, int tree, int at) {
    const sr_layer_tree *layers = &d->trees[tree];
    const sr_layer name = sr_layer_tree_name(layers, at);
    if (at > 0) {
        sr_text_add(d->out, "subgraph \"cluster_%d_%d\" {\nlabel=\"", tree, at);
        add_label(name.name, (size_t)name.length, d->out);
        sr_text_add(d->out, "%s\"; color=\"%s\";\n", tree ? " (gradient)" : "", frames[tree]);
    }
    SR_TRY(add_members(d, tree, at));
    for (int child = layers->nodes[at].first; child >= 0; child = layers->nodes[child].next)
        SR_TRY(add_cluster(d, tree, child));
    if (at > 0)
        sr_text_add(d->out, "}\n");
    return SR_OK;
}

static void add_edges(drawing *d) {
    const sr_program *p = d->w->p;
    for (size_t i = 0; i < p->node_count; i++) {
        const sr_program_node *node = &p->nodes[i];
        for (int k = 0; k < node->op->inputs; k++) {
            const uint32_t value = node->input[k];
            if (value == SR_REF_NONE)
                continue;
            if (p->values[value].node == SR_REF_NONE)
                sr_text_add(d->out, "v%u -> n%zu;\n", value, i);
            else
                sr_text_add(d->out, "n%u -> n%zu;\n", p->values[value].node, i);
        }
    }
}

static sr_status draw(drawing *d) {
    sr_text_add(d->out,
                "digraph program {\nnewrank=true;\nfontname=\"Helvetica\";\n"
                "node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=11];\n"
                "edge [color=\"#555555\", arrowsize=0.6];\n");
    for (int tree = 0; tree < 2; tree++) {
        SR_TRY(add_members(d, tree, -1));
        SR_TRY(add_cluster(d, tree, 0));
    }
    add_edges(d);
    sr_text_add(d->out, "}\n");
    return sr_text_check(d->out);
}

sr_status sr_program_draw(sr_context *context, const sr_target *targets, int count, sr_text *out) {
    sr_written_program w;
    sr_arena arena;
    drawing d = {.w = &w, .out = out};
    sr_arena_init(&arena);
    sr_status status = sr_written_program_make(context, targets, count, &w);
    if (status == SR_OK) {
        d.node_at = sr_arena_alloc(&arena, (w.p->node_count + 1) * sizeof *d.node_at);
        d.value_at = sr_arena_alloc(&arena, (w.p->value_count + 1) * sizeof *d.value_at);
        d.wanted = sr_arena_alloc(&arena, w.p->value_count + 1);
        status = d.node_at && d.value_at && d.wanted ? place(&d) : SR_E_MEMORY;
    }
    if (status == SR_OK)
        status = draw(&d);
    sr_layer_tree_release(&d.trees[0]);
    sr_layer_tree_release(&d.trees[1]);
    sr_written_program_release(&w);
    sr_arena_release(&arena);
    return status;
}
