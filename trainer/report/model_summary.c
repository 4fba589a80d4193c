// SPDX-License-Identifier: Apache-2.0
// Makes the summary of a model (model_summary.h) from the calls that the context of an engine has
// recorded: graph/call_layers.h says which layer each belongs to.
#include "trainer/report/model_summary.h"

#include <string.h>

#include "graph/layer_tree.h"

typedef struct tree {
    const sr_context *context;
    sr_arena *arena;
    const sr_layer *layers; // of all calls
    int *part_of;           // of each call: its layer, or its own part; -1: none of the model
    sr_layer_tree tree;     // layers, and operators between them
    sr_summary_row *rows;   // of all parts
    int *output_call;       // of each part: the last call whose result other layers read
    size_t row_capacity, output_capacity;
    int count; // of parts that have rows
    sr_summary *out;
} tree;

static sr_status name_layer(const tree *t, int part, sr_summary_row *row) {
    const sr_layer layer = t->tree.nodes[part].layer, name = sr_layer_tree_name(&t->tree, part);
    char *path = sr_arena_alloc(t->arena, (size_t)layer.length + 1);
    if (!path)
        return SR_E_MEMORY;
    memcpy(path, layer.name, (size_t)layer.length);
    row->path = path;
    row->name = path + (name.name - layer.name);
    return SR_OK;
}

// Gives rows to parts that have been added.
static sr_status add_rows(tree *t) {
    void *rows = t->rows, *outputs = t->output_call;
    SR_TRY(sr_grow(&rows, &t->row_capacity, (size_t)t->tree.count, sizeof *t->rows, "summary"));
    t->rows = rows;
    SR_TRY(sr_grow(&outputs, &t->output_capacity, (size_t)t->tree.count, sizeof *t->output_call,
                   "summary"));
    t->output_call = outputs;
    for (; t->count < t->tree.count; t->count++) {
        sr_summary_row *row = &t->rows[t->count];
        *row = (sr_summary_row){.name = "", .type = "", .depth = t->tree.nodes[t->count].depth};
        t->output_call[t->count] = -1;
        if (t->tree.nodes[t->count].layer.name)
            SR_TRY(name_layer(t, t->count, row));
    }
    return SR_OK;
}

static sr_status find_layer(tree *t, sr_layer layer, int *out) {
    SR_TRY(sr_layer_tree_find(&t->tree, layer, out));
    return add_rows(t);
}

static int around(const tree *t, int part) {
    return t->tree.nodes[part].parent;
}

// ---- Calls ----

static double macs_of(const sr_call_view *call) {
    const sr_node_view view = {.op = call->op,
                               .attr = call->attr,
                               .inputs = call->op->inputs,
                               .in = call->in,
                               .out = call->out};
    double flops = 0, bytes = 0;
    if (call->op->cost)
        call->op->cost(&view, &flops, &bytes);
    return flops / 2;
}

static double bytes_of(const sr_info *info) {
    return (double)sr_info_count(info) * (double)sr_dtype_size(info->dtype);
}

static bool reads_variable(const sr_call_view *call) {
    for (int i = 0; i < call->op->inputs; i++)
        if (call->variable[i])
            return true;
    return false;
}

static sr_status add_call(tree *t, int index, const sr_call_view *call) {
    int at;
    SR_TRY(find_layer(t, t->layers[index], &at));
    const double macs = macs_of(call);
    for (int p = at; p >= 0; p = around(t, p))
        t->rows[p].multiply_adds += macs;
    for (int i = 0; i < call->op->outputs && !call->op->alias; i++)
        t->out->output_bytes += bytes_of(&call->out[i]);
    if (reads_variable(call)) {
        if (!*t->rows[at].type)
            t->rows[at].type = call->op->name;
    } else {
        SR_TRY(sr_layer_tree_add(&t->tree, at, (sr_layer){0}, &at));
        SR_TRY(add_rows(t));
        sr_summary_row *row = &t->rows[at];
        row->name = row->type = call->op->name;
        row->multiply_adds = macs;
        row->has_output = true;
        row->output = call->out[0];
    }
    t->part_of[index] = at;
    return SR_OK;
}

// A result is the output of all layers around it that its reader is outside of.
static void note_reader(tree *t, int reader, const sr_call_view *call) {
    for (int i = 0; i < call->op->inputs; i++) {
        if (call->from[i] < 0)
            continue;
        for (int p = t->part_of[call->from[i]]; p >= 0; p = around(t, p)) {
            if (sr_layer_tree_is_around(&t->tree, p, reader))
                break;
            if (!t->tree.nodes[p].layer.name || call->from[i] < t->output_call[p])
                continue;
            t->output_call[p] = call->from[i];
            t->rows[p].output = call->in[i];
            t->rows[p].has_output = true;
        }
    }
}

// The first picture or vector that comes from outside the model.
static void note_input(tree *t, const sr_call_view *call) {
    for (int i = 0; i < call->op->inputs && !t->out->has_input; i++) {
        if (call->variable[i] || !sr_dtype_is_float(call->in[i].dtype) || call->in[i].rank < 2 ||
            (call->from[i] >= 0 && t->part_of[call->from[i]] >= 0))
            continue;
        t->out->has_input = true;
        t->out->input = call->in[i];
        t->out->input_bytes = bytes_of(&call->in[i]);
    }
}

static sr_status add_calls(tree *t) {
    for (int i = 0; i < sr_call_count(t->context); i++) {
        sr_call_view call;
        sr_call_get(t->context, i, &call);
        t->part_of[i] = -1;
        if (call.backward)
            continue;
        if (sr_layer_within(t->layers[i], t->tree.nodes[0].layer)) {
            note_input(t, &call);
            SR_TRY(add_call(t, i, &call));
        }
        note_reader(t, t->part_of[i], &call);
    }
    return SR_OK;
}

// ---- Parameters ----

static sr_status add_param(tree *t, const sr_param *p, bool trained) {
    const char *dot = strrchr(p->name, '.');
    int at;
    if (p->kind == SR_PARAM_BUFFER) {
        t->out->buffers += sr_info_count(&p->info);
        return SR_OK;
    }
    SR_TRY(find_layer(t, (sr_layer){p->name, dot ? (int)(dot - p->name) : 0}, &at));
    for (; at >= 0; at = around(t, at)) {
        t->rows[at].parameters += sr_info_count(&p->info);
        t->rows[at].trained += trained ? sr_info_count(&p->info) : 0;
    }
    return SR_OK;
}

// ---- Rows ----

// An operator is shown if there are layers next to it.
static bool is_shown(const tree *t, int part) {
    const sr_layer_node *node = &t->tree.nodes[part];
    return node->layer.name || node->parent == 0 || t->tree.nodes[node->parent].layers > 0;
}

static sr_status finish(tree *t) {
    sr_summary *out = t->out;
    out->rows = sr_arena_alloc(t->arena, (size_t)t->count * sizeof *out->rows);
    if (!out->rows)
        return SR_E_MEMORY;
    for (int part = 0; part >= 0; part = sr_layer_tree_next(&t->tree, part)) {
        if (!is_shown(t, part))
            continue;
        out->rows[out->count] = t->rows[part];
        if (t->tree.nodes[part].layers > 0)
            out->rows[out->count].type = "";
        out->count++;
    }
    out->parameters = out->rows[0].parameters;
    out->trained = out->rows[0].trained;
    out->multiply_adds = out->rows[0].multiply_adds;
    out->parameter_bytes = (double)out->parameters * sizeof(float);
    return SR_OK;
}

static sr_status make(tree *t, const sr_param_set *set, const sr_model *model) {
    const size_t calls = (size_t)sr_call_count(t->context) + 1;
    sr_layer *layers = sr_arena_alloc(t->arena, calls * sizeof *layers), network = {"", 0};
    t->part_of = sr_arena_alloc(t->arena, calls * sizeof *t->part_of);
    if (!layers || !t->part_of)
        return SR_E_MEMORY;
    if (model->prefix_length > 0 && model->param_count > 0)
        network = (sr_layer){model->params[0].name, (int)model->prefix_length - 1};
    t->layers = layers;
    SR_TRY(sr_call_layers(t->context, layers));
    SR_TRY(sr_layer_tree_init(&t->tree, network));
    SR_TRY(add_rows(t));
    t->rows[0].name = model->desc->name;
    SR_TRY(add_calls(t));
    for (int i = 0; i < model->param_count; i++)
        SR_TRY(add_param(t, &model->params[i], sr_param_set_trains(set, i)));
    return finish(t);
}

sr_status sr_summary_make(sr_engine *engine, int phase, sr_arena *arena, sr_summary *out) {
    const sr_param_set *of =
        sr_engine_get_set(engine, sr_phase_get_info(sr_engine_get_phase(engine, phase)).set);
    const sr_model *model = sr_param_set_get_info(of).model;
    sr_plan *plan;
    *out = (sr_summary){.model = model->desc->name};
    SR_TRY(sr_engine_compile(engine, phase, &plan));
    tree t = {.context = sr_engine_get_info(engine).context, .arena = arena, .out = out};
    const sr_status status = make(&t, of, model);
    out->planned_bytes = (double)sr_plan_peak_bytes(plan);
    sr_layer_tree_release(&t.tree);
    sr_free(t.rows);
    sr_free(t.output_call);
    return status;
}
