// SPDX-License-Identifier: Apache-2.0
// serried bench step --profile: how the time of a step is distributed over the layers of the
// network, forward and backward. Each row has the layers within it; their sums are those of the
// operators.
#include <stdio.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "launcher/bench/bench_step_profile_internal.h"

enum { NAME_MIN = 24, NAME_MAX = 44 };

static const char network[] = "network", outside[] = "inputs, loss, metrics";

static void add_times(sr_profile_times *times, const sr_node_profile *node) {
    *(node->backward ? &times->backward_ns : &times->forward_ns) += node->ns;
    times->calls += (double)node->runs;
}

sr_status sr_step_profile_add_layer(sr_step_profile *p, const sr_node_profile *node) {
    int at;
    if (!p->layers.nodes)
        SR_TRY(sr_layer_tree_init(&p->layers, (sr_layer){"", 0}));
    if (!node->layer) {
        add_times(&p->outside, node);
        return SR_OK;
    }
    SR_TRY(sr_layer_tree_find(&p->layers, (sr_layer){node->layer, node->layer_length}, &at));
    void *times = p->times;
    SR_TRY(
        sr_grow(&times, &p->time_capacity, (size_t)p->layers.count, sizeof *p->times, "profile"));
    p->times = times;
    while (p->time_count < p->layers.count)
        p->times[p->time_count++] = (sr_profile_times){0};
    for (; at >= 0; at = p->layers.nodes[at].parent)
        add_times(&p->times[at], node);
    return SR_OK;
}

static bool is_shown(const sr_step_profile *p, int node, int depth) {
    return depth == 0 || p->layers.nodes[node].depth <= depth;
}

static void name_of(const sr_step_profile *p, int node, char *out, size_t bytes) {
    const sr_layer name = sr_layer_tree_name(&p->layers, node);
    (void)snprintf(out, bytes, "%*s%.*s", 2 * p->layers.nodes[node].depth, "",
                   node == 0 ? (int)sizeof network : name.length, node == 0 ? network : name.name);
}

static void print_row(const sr_step_profile *p, const char *name, int width,
                      const sr_profile_times *times) {
    const double forward = sr_step_profile_ms(p, times->forward_ns);
    const double backward = sr_step_profile_ms(p, times->backward_ns);
    (void)printf("%-*s %6.0f %10.2f %11.2f %9.2f %5.1f%%\n", width, name,
                 times->calls / (double)p->steps, forward, backward, forward + backward,
                 100 * (forward + backward) / (1e3 * p->seconds / p->steps));
}

void sr_step_profile_print_layers(const sr_step_profile *p, int depth) {
    char name[256];
    int width = NAME_MIN;
    for (int i = 0; i < p->time_count; i++) {
        name_of(p, i, name, sizeof name);
        const int length = (int)strlen(name);
        if (is_shown(p, i, depth) && length > width)
            width = length < NAME_MAX ? length : NAME_MAX;
    }
    (void)printf("\n%-*s %6s %10s %11s %9s %6s\n", width, "layer", "calls", "forward ms",
                 "backward ms", "ms", "share");
    sr_profile_times all = p->outside;
    for (int i = 0; i >= 0 && p->time_count > 0; i = sr_layer_tree_next(&p->layers, i)) {
        name_of(p, i, name, sizeof name);
        if (is_shown(p, i, depth))
            print_row(p, name, width, &p->times[i]);
    }
    print_row(p, outside, width, &p->outside);
    if (p->time_count > 0) {
        all.forward_ns += p->times[0].forward_ns;
        all.backward_ns += p->times[0].backward_ns;
        all.calls += p->times[0].calls;
    }
    print_row(p, "all kernels", width, &all);
}

static void add_row(const sr_step_profile *p, const sr_layer *layer, int depth,
                    const sr_profile_times *times, sr_text *out) {
    sr_text name;
    sr_text_init(&name);
    if (layer)
        sr_text_add(&name, "%.*s", layer->length, layer->name);
    sr_text_add(out, "{\"depth\": %d", depth);
    sr_text_add_json_string_member(out, "layer", layer ? name.data : NULL);
    sr_text_add_json_number_member(out, "calls", times->calls / (double)p->steps);
    sr_text_add_json_number_member(out, "forward_ms", sr_step_profile_ms(p, times->forward_ns));
    sr_text_add_json_number_member(out, "backward_ms", sr_step_profile_ms(p, times->backward_ns));
    sr_text_add(out, "}");
    out->failed |= name.failed;
    sr_text_release(&name);
}

void sr_step_profile_add_layers_json(const sr_step_profile *p, int depth, sr_text *out) {
    sr_text_add(out, ", \"layers\": [");
    for (int i = 0; i >= 0 && p->time_count > 0; i = sr_layer_tree_next(&p->layers, i)) {
        if (!is_shown(p, i, depth))
            continue;
        add_row(p, &p->layers.nodes[i].layer, p->layers.nodes[i].depth, &p->times[i], out);
        sr_text_add(out, ", ");
    }
    add_row(p, NULL, 0, &p->outside, out);
    sr_text_add(out, "]");
}
