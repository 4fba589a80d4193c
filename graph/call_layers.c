// SPDX-License-Identifier: Apache-2.0
// Names the layers of recorded calls (call_layers.h).
#include "graph/call_layers.h"

#include <string.h>

#include "graph/recording_internal.h"

const char sr_no_layer[] = "(none)";

// ---- Names ----

// The one copy of a name; NULL if memory is out.
const char *sr_layer_keep_name(sr_context *context, const char *name) {
    for (size_t i = 0; i < context->layer_name_count; i++)
        if (strcmp(context->layer_names[i], name) == 0)
            return context->layer_names[i];
    void *names = context->layer_names;
    if (sr_grow(&names, &context->layer_name_capacity, context->layer_name_count + 1,
                sizeof *context->layer_names, "names of layers") != SR_OK)
        return NULL;
    context->layer_names = names;
    char *copy = sr_strdup(name);
    if (copy)
        context->layer_names[context->layer_name_count++] = copy;
    return copy;
}

const char *sr_layer_use(sr_context *context, const char *name) {
    const char *before = context->layer ? context->layer : "";
    if (name == sr_no_layer || *name == '\0') {
        context->layer = *name ? sr_no_layer : NULL;
        return before;
    }
    const char *kept = sr_layer_keep_name(context, name);
    if (kept)
        context->layer = kept;
    else
        sr_context_stick(context, SR_E_MEMORY);
    return before;
}

void sr_layer_use_exactly(sr_context *context, const char *name) {
    const char *kept = name ? sr_layer_keep_name(context, name) : sr_no_layer;
    context->layer = kept;
    context->layer_exact = true;
    if (!kept)
        sr_context_stick(context, SR_E_MEMORY);
}

bool sr_layer_within(sr_layer inner, sr_layer outer) {
    if (!inner.name || !outer.name || inner.length < outer.length)
        return false;
    return outer.length == 0 || (memcmp(inner.name, outer.name, (size_t)outer.length) == 0 &&
                                 (inner.length == outer.length || inner.name[outer.length] == '.'));
}

int sr_layer_depth(sr_layer layer) {
    int depth = layer.name && layer.length > 0;
    for (int i = 0; depth > 0 && i < layer.length; i++)
        depth += layer.name[i] == '.';
    return depth;
}

sr_layer sr_layer_cut(sr_layer layer, int depth) {
    int end = 0;
    if (!layer.name || depth <= 0)
        return (sr_layer){layer.name, 0};
    for (; end < layer.length; end++)
        if (layer.name[end] == '.' && --depth == 0)
            break;
    return (sr_layer){layer.name, end};
}

// The number of leading names that two layers have in common.
static int common_depth(sr_layer a, sr_layer b) {
    int depth = 0;
    for (int i = 0; i <= a.length && i <= b.length; i++) {
        const bool end_a = i == a.length || a.name[i] == '.';
        const bool end_b = i == b.length || b.name[i] == '.';
        if (end_a != end_b || (!end_a && a.name[i] != b.name[i]))
            break;
        depth += end_a && i > 0;
    }
    return depth;
}

// ---- Deriving layers ----

// A line of model code with an operator that reads no variable.
typedef struct site {
    const char *file;
    const sr_op *op;
    int line, depth; // depth: of the layers in each of which it runs once
    sr_layer last;   // read before its last call
} site;

typedef struct derivation {
    const sr_context *context;
    sr_layer *out; // for calls of sites: the layer that was read last, until pass 2
    site *sites;
    size_t site_count;
    int *site_of; // of each call; -1: of none
} derivation;

static sr_layer layer_of_variable(const sr_context *context, uint32_t ref) {
    const char *name = context->variables[ref & ~SR_REF_VARIABLE].name;
    const char *dot = strrchr(name, '.');
    return (sr_layer){name, dot ? (int)(dot - name) : 0};
}

// The layer of the first variable that a call reads; false if it reads none.
static bool own_layer(const sr_context *context, const sr_node *node, sr_layer *out) {
    for (int i = 0; i < node->op->inputs; i++) {
        if (node->input[i] == SR_REF_NONE || !(node->input[i] & SR_REF_VARIABLE))
            continue;
        *out = layer_of_variable(context, node->input[i]);
        return true;
    }
    return false;
}

// The layer of a call of which a result other than the first is read, as the mean of a
// normalisation: running statistics are part of it.
static bool layer_of_statistic(const derivation *d, const sr_node *node, sr_layer *out) {
    for (int i = 0; i < node->op->inputs; i++) {
        if (node->input[i] == SR_REF_NONE || (node->input[i] & SR_REF_VARIABLE))
            continue;
        const sr_value *value = &d->context->recording.values[node->input[i]];
        if (value->node == SR_REF_NONE || value->output == 0 || d->site_of[value->node] >= 0)
            continue;
        *out = d->out[value->node];
        return true;
    }
    return false;
}

static int find_site(derivation *d, const sr_node *node) {
    size_t i = 0;
    while (i < d->site_count && (d->sites[i].op != node->op || d->sites[i].line != node->line ||
                                 strcmp(d->sites[i].file, node->file) != 0))
        i++;
    if (i == d->site_count)
        d->sites[d->site_count++] =
            (site){.file = node->file, .op = node->op, .line = node->line, .depth = -1};
    return (int)i;
}

// If a line runs again after another layer, its layer has one name more than these two have in
// common.
static void note_site(derivation *d, const sr_node *node, uint32_t call, sr_layer read) {
    const int number = find_site(d, node);
    site *s = &d->sites[number];
    const int depth = s->depth < 0 ? 0 : common_depth(s->last, read) + 1;
    s->depth = depth > s->depth ? depth : s->depth;
    s->last = read;
    d->site_of[call] = number;
    d->out[call] = read;
}

static sr_layer within_given(sr_layer layer, const sr_node *node) {
    const sr_layer given = {node->layer, (int)strlen(node->layer)};
    return !node->layer_exact && sr_layer_within(layer, given) ? layer : given;
}

// Pass 1: layers that variables give, and what the other calls of each line have in common.
static void read_variables(derivation *d) {
    const sr_recording *r = &d->context->recording;
    sr_layer read = {"", 0};
    for (uint32_t i = 0; i < r->node_count; i++) {
        const sr_node *node = &r->nodes[i];
        d->site_of[i] = -1;
        if (node->layer == sr_no_layer || node->source)
            d->out[i] = (sr_layer){0};
        else if (own_layer(d->context, node, &d->out[i]))
            read = d->out[i];
        else if (!layer_of_statistic(d, node, &d->out[i]))
            note_site(d, node, i, read);
    }
}

// Pass 2.
static void place_others(derivation *d) {
    const sr_recording *r = &d->context->recording;
    for (uint32_t i = 0; i < r->node_count; i++) {
        const sr_node *node = &r->nodes[i];
        if (d->site_of[i] >= 0) {
            const int around = sr_layer_depth(d->out[i]) - 1;
            const int depth = d->sites[d->site_of[i]].depth;
            d->out[i] = sr_layer_cut(d->out[i], depth < around ? depth : around);
        } else if (node->source && node->source <= i && !node->layer_exact) {
            d->out[i] = d->out[node->source - 1];
            continue;
        }
        if (node->layer && node->layer != sr_no_layer)
            d->out[i] = within_given(d->out[i], node);
    }
}

sr_status sr_call_layers(const sr_context *context, sr_layer *out) {
    const size_t count = context->recording.node_count;
    derivation d = {.context = context, .out = out};
    d.sites = sr_alloc_array(count + 1, sizeof *d.sites, "layers");
    d.site_of = sr_alloc_array(count + 1, sizeof *d.site_of, "layers");
    const sr_status status = d.sites && d.site_of ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK) {
        read_variables(&d);
        place_others(&d);
    }
    sr_free(d.sites);
    sr_free(d.site_of);
    return status;
}

// ---- Calls ----

int sr_call_count(const sr_context *context) {
    return (int)context->recording.node_count;
}

static void view_input(const sr_context *context, uint32_t ref, int i, sr_call_view *out) {
    out->in[i] = (sr_info){.dtype = SR_DTYPE_COUNT};
    out->from[i] = -1;
    if (ref == SR_REF_NONE)
        return;
    out->in[i] = *sr_context_info(context, ref);
    if (ref & SR_REF_VARIABLE) {
        out->variable[i] = context->variables[ref & ~SR_REF_VARIABLE].name;
        return;
    }
    const sr_value *value = &context->recording.values[ref];
    if (value->node == SR_REF_NONE)
        return;
    out->from[i] = (int)value->node;
    out->from_output[i] = (int)value->output;
}

void sr_call_get(const sr_context *context, int call, sr_call_view *out) {
    const sr_recording *r = &context->recording;
    const sr_node *node = &r->nodes[call];
    *out = (sr_call_view){.op = node->op,
                          .attr = r->attrs + node->attr,
                          .file = node->file,
                          .line = node->line,
                          .backward = node->source != 0};
    for (int i = 0; i < node->op->inputs; i++)
        view_input(context, node->input[i], i, out);
    for (int i = 0; i < node->op->outputs; i++)
        out->out[i] = r->values[node->first_output + (uint32_t)i].info;
}
