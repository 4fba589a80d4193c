// SPDX-License-Identifier: Apache-2.0
// Recomputation: cheap values of normalisations and activations are recomputed in the backward pass
// instead of being kept from the forward pass.
//
// A value with a long gap between two uses that spans the peak of memory use is freed in the gap,
// if its operator can recompute it from values that are alive then anyway (sr_op.again). The
// operator's kernels give the same bits, so this is bit-neutral. It costs the memory traffic of one
// more pass over the operator's arrays, which GOAL and COST limit. The largest values are chosen
// first. (Chen et al. 2016 choose segments, which would recompute convolutions, too; here a step
// loses at most a few per cent.)
#include <string.h>

#include "graph/plan_internal.h"

#define LEAST_BYTES ((size_t)64 << 10) // smallest value
#define LEAST_PEAK ((size_t)1 << 20)   // smallest peak
#define GOAL 0.8                       // fraction of the peak without recomputing
#define COST 0.08                      // fraction of all bytes that kernels read and write
#define DEPTH 3                        // operators recomputed for one value

enum { MOST = 256 }; // values that are recomputed

// A gap of a value: it is freed after node 'from' and recomputed for node 'to'.
typedef struct gap {
    uint32_t value, from, to;
} gap;

typedef struct recomputation {
    sr_program *p;
    uint32_t *first, *last; // nodes between which a value is alive; of roots
    uint32_t *root;         // aliases share memory
    uint32_t *from, *to;    // last use before the peak and first one after it; of roots
    size_t *live;           // bytes at each node
    uint32_t *now;          // while nodes are inserted: the value that replaces a value
    gap gaps[MOST];
    uint32_t count;
    uint32_t first_update; // no value is recomputed after a variable was updated
    double cost, most;
} recomputation;

static size_t bytes_of(const recomputation *w, uint32_t value) {
    return sr_info_bytes(&w->p->values[value].info);
}

static bool in_range(const recomputation *w, uint32_t value) {
    return w->p->values[value].node != SR_REF_NONE && !w->p->values[value].kept &&
           w->root[value] == value;
}

static void use(recomputation *w, uint32_t value, uint32_t node) {
    if (value != SR_REF_NONE && node > w->last[w->root[value]])
        w->last[w->root[value]] = node;
}

static void find_lives(recomputation *w) {
    const sr_program *p = w->p;
    for (uint32_t v = 0; v < p->value_count; v++) {
        const uint32_t node = p->values[v].node;
        w->root[v] = v;
        w->first[v] = w->last[v] = node == SR_REF_NONE ? 0 : node;
        if (node != SR_REF_NONE && p->nodes[node].op->alias)
            w->root[v] = w->root[p->nodes[node].input[0]];
    }
    w->first_update = SR_REF_NONE;
    for (uint32_t i = 0; i < p->node_count; i++) {
        const sr_program_node *node = &p->nodes[i];
        if (node->op->updates && w->first_update == SR_REF_NONE)
            w->first_update = i;
        for (int k = 0; k < node->op->inputs; k++)
            use(w, node->input[k], i);
    }
    for (size_t t = 0; t < p->target_count; t++)
        use(w, p->targets[t].value, w->first[w->root[p->targets[t].value]]);
}

// Bytes of one pass over a node's arrays.
static double traffic(const recomputation *w, const sr_program_node *node) {
    double bytes = 0;
    for (int k = 0; k < node->op->inputs; k++)
        if (node->input[k] != SR_REF_NONE)
            bytes += (double)bytes_of(w, node->input[k]);
    for (int k = 0; k < node->op->outputs; k++)
        bytes += (double)bytes_of(w, node->output[k]);
    return bytes;
}

// Fills 'live'; returns the node of the peak.
static uint32_t find_peak(recomputation *w) {
    const uint32_t n = (uint32_t)w->p->node_count;
    memset(w->live, 0, (n + 1) * sizeof *w->live);
    for (uint32_t v = 0; v < w->p->value_count; v++) {
        if (!in_range(w, v))
            continue;
        w->live[w->first[v]] += bytes_of(w, v);
        w->live[w->last[v] + 1] -= bytes_of(w, v);
    }
    for (uint32_t i = 0; i < w->count; i++) {
        w->live[w->gaps[i].from + 1] -= bytes_of(w, w->gaps[i].value);
        w->live[w->gaps[i].to] += bytes_of(w, w->gaps[i].value);
    }
    uint32_t peak = 0;
    for (uint32_t i = 1; i < n; i++) {
        w->live[i] += w->live[i - 1];
        if (w->live[i] > w->live[peak])
            peak = i;
    }
    return peak;
}

static bool is_absent(const recomputation *w, uint32_t value, uint32_t node) {
    for (uint32_t i = 0; i < w->count; i++)
        if (w->gaps[i].value == value && w->gaps[i].from < node && node < w->gaps[i].to)
            return true;
    return false;
}

// Input k of the operator that recomputes output 0 of a node: its inputs, then its outputs after
// the first.
static uint32_t source(const sr_program_node *node, int k) {
    return k < node->op->inputs ? node->input[k] : node->output[k - node->op->inputs + 1];
}

static bool is_there(const recomputation *w, uint32_t value, uint32_t node) {
    const uint32_t root = w->root[value];
    return w->p->values[root].node == SR_REF_NONE || w->p->values[root].kept ||
           (w->last[root] >= node && !is_absent(w, root, node));
}

// Whether a value can be recomputed before a node; adds the bytes of memory traffic.
static bool can_recompute(const recomputation *w, uint32_t value, uint32_t at, int depth,
                          double *cost) {
    if (w->p->values[value].node == SR_REF_NONE)
        return false;
    const sr_program_node *node = &w->p->nodes[w->p->values[value].node];
    if (!node->op->again || node->output[0] != value || depth == 0)
        return false;
    *cost += traffic(w, node);
    for (int k = 0; k < node->op->again->inputs; k++) {
        const uint32_t from = source(node, k);
        if (from != SR_REF_NONE && !is_there(w, from, at) &&
            !can_recompute(w, from, at, depth - 1, cost))
            return false;
    }
    return true;
}

// Finds the last use before the peak and the first one after it, for all values.
static void find_gaps(recomputation *w, uint32_t peak) {
    const sr_program *p = w->p;
    for (uint32_t v = 0; v < p->value_count; v++) {
        w->from[v] = w->first[v];
        w->to[v] = SR_REF_NONE;
    }
    for (uint32_t i = 0; i < p->node_count; i++) {
        for (int k = 0; k < p->nodes[i].op->inputs; k++) {
            const uint32_t value = p->nodes[i].input[k];
            if (value == SR_REF_NONE)
                continue;
            const uint32_t root = w->root[value];
            if (i <= peak)
                w->from[root] = i;
            else if (w->to[root] == SR_REF_NONE)
                w->to[root] = i;
        }
    }
    // Recomputation uses the values that it recomputes from.
    for (uint32_t i = 0; i < w->count; i++) {
        const sr_program_node *node = &p->nodes[p->values[w->gaps[i].value].node];
        for (int k = 0; k < node->op->again->inputs; k++) {
            const uint32_t value = source(node, k);
            if (value != SR_REF_NONE && w->gaps[i].to < w->to[w->root[value]])
                w->to[w->root[value]] = w->gaps[i].to;
        }
    }
}

// Whether freeing the value would lower the peak.
static bool spans(const recomputation *w, uint32_t value, uint32_t peak) {
    return in_range(w, value) && w->p->nodes[w->p->values[value].node].op->again != NULL &&
           w->from[value] < peak && w->last[value] > peak && w->to[value] <= w->first_update &&
           !is_absent(w, value, peak);
}

// Finds the largest value that lowers the peak when it is freed; false if there is none.
static bool choose(recomputation *w, uint32_t peak, gap *out, double *cost) {
    size_t best = LEAST_BYTES;
    bool found = false;
    find_gaps(w, peak);
    for (uint32_t v = 0; v < w->p->value_count; v++) {
        double own = 0;
        if (bytes_of(w, v) <= best || !spans(w, v, peak) ||
            !can_recompute(w, v, w->to[v], DEPTH, &own) || w->cost + own > w->most)
            continue;
        best = bytes_of(w, v);
        *out = (gap){v, w->from[v], w->to[v]};
        *cost = own;
        found = true;
    }
    return found;
}

// ---- Inserting nodes ----

static sr_status recompute_before(recomputation *w, sr_program_node *nodes, uint32_t *count,
                                  uint32_t value, uint32_t at) {
    sr_program *p = w->p;
    const sr_program_node *from = &p->nodes[p->values[value].node];
    sr_program_node node;
    memset(&node, 0xff, sizeof node);
    node.op = from->op->again;
    node.attr = from->attr;
    node.recorded = from->recorded;
    for (int k = 0; k < node.op->inputs; k++) {
        const uint32_t wanted = source(from, k);
        if (wanted == SR_REF_NONE)
            continue;
        if (!is_there(w, wanted, at) && w->now[wanted] == wanted)
            SR_TRY(recompute_before(w, nodes, count, wanted, at));
        node.input[k] = w->now[wanted];
    }
    if (p->value_count == p->value_capacity) {
        void *values = p->values;
        SR_TRY(
            sr_grow(&values, &p->value_capacity, p->value_count + 1, sizeof *p->values, "program"));
        p->values = values;
    }
    node.output[0] = (uint32_t)p->value_count;
    p->values[p->value_count++] = (sr_program_value){.info = p->values[value].info};
    w->now[value] = node.output[0];
    nodes[(*count)++] = node;
    return SR_OK;
}

static sr_status insert(recomputation *w) {
    sr_program *p = w->p;
    const uint32_t before = (uint32_t)p->value_count;
    const size_t room = p->node_count + (size_t)w->count * DEPTH;
    sr_program_node *nodes = sr_alloc_array(room, sizeof *nodes, "program");
    uint32_t count = 0;
    sr_status status = nodes ? SR_OK : SR_E_MEMORY;
    for (uint32_t v = 0; v < before; v++)
        w->now[v] = v;
    for (uint32_t i = 0; status == SR_OK && i < p->node_count; i++) {
        for (uint32_t g = 0; status == SR_OK && g < w->count; g++)
            if (w->gaps[g].to == i && w->now[w->gaps[g].value] == w->gaps[g].value)
                status = recompute_before(w, nodes, &count, w->gaps[g].value, i);
        nodes[count] = p->nodes[i];
        for (int k = 0; k < nodes[count].op->inputs; k++)
            if (nodes[count].input[k] != SR_REF_NONE)
                nodes[count].input[k] = w->now[nodes[count].input[k]];
        count++;
    }
    if (status == SR_OK) {
        sr_free(p->nodes);
        p->nodes = nodes;
        p->node_capacity = room;
        p->node_count = count;
        for (uint32_t i = 0; i < count; i++)
            for (int k = 0; k < nodes[i].op->outputs; k++)
                p->values[nodes[i].output[k]].node = i;
        return SR_OK;
    }
    sr_free(nodes);
    return status;
}

static sr_status recompute(recomputation *w) {
    double all = 0;
    for (uint32_t i = 0; i < w->p->node_count; i++)
        all += traffic(w, &w->p->nodes[i]);
    w->most = COST * all;
    uint32_t peak = find_peak(w);
    const double goal = GOAL * (double)w->live[peak];
    if (w->live[peak] < LEAST_PEAK)
        return SR_OK;
    gap g;
    double cost;
    while (w->count < MOST && (double)w->live[peak] > goal && choose(w, peak, &g, &cost)) {
        w->gaps[w->count++] = g;
        w->cost += cost;
        peak = find_peak(w);
    }
    return w->count ? insert(w) : SR_OK;
}

sr_status sr_pass_recompute(sr_program *p) {
    sr_arena arena;
    sr_arena_init(&arena);
    recomputation w = {.p = p};
    w.first = sr_arena_alloc(&arena, (p->value_count + 1) * sizeof *w.first);
    w.last = sr_arena_alloc(&arena, (p->value_count + 1) * sizeof *w.last);
    w.root = sr_arena_alloc(&arena, (p->value_count + 1) * sizeof *w.root);
    w.now = sr_arena_alloc(&arena, (p->value_count + 1) * sizeof *w.now);
    w.from = sr_arena_alloc(&arena, (p->value_count + 1) * sizeof *w.from);
    w.to = sr_arena_alloc(&arena, (p->value_count + 1) * sizeof *w.to);
    w.live = sr_arena_alloc(&arena, (p->node_count + 2) * sizeof *w.live);
    sr_status status = SR_E_MEMORY;
    if (w.first && w.last && w.root && w.now && w.from && w.to && w.live) {
        find_lives(&w);
        status = recompute(&w);
    }
    sr_arena_release(&arena);
    return status;
}
