// SPDX-License-Identifier: Apache-2.0
#include "graph/layer_tree.h"

#include <string.h>

#include "kernels/base/memory.h"

sr_status sr_layer_tree_init(sr_layer_tree *tree, sr_layer network) {
    int root;
    *tree = (sr_layer_tree){0};
    return sr_layer_tree_add(tree, -1, network, &root);
}

void sr_layer_tree_release(sr_layer_tree *tree) {
    sr_free(tree->nodes);
    *tree = (sr_layer_tree){0};
}

sr_status sr_layer_tree_add(sr_layer_tree *tree, int parent, sr_layer layer, int *out) {
    void *nodes = tree->nodes;
    SR_TRY(sr_grow(&nodes, &tree->capacity, (size_t)tree->count + 1, sizeof *tree->nodes,
                   "tree of layers"));
    tree->nodes = nodes;
    const int depth = parent < 0 ? 0 : tree->nodes[parent].depth + 1;
    tree->nodes[tree->count] = (sr_layer_node){
        .layer = layer, .depth = depth, .parent = parent, .first = -1, .last = -1, .next = -1};
    if (parent >= 0) {
        sr_layer_node *around = &tree->nodes[parent];
        if (around->last < 0)
            around->first = tree->count;
        else
            tree->nodes[around->last].next = tree->count;
        around->last = tree->count;
        around->layers += layer.name != NULL;
    }
    *out = tree->count++;
    return SR_OK;
}

static bool same(sr_layer a, sr_layer b) {
    return a.name && b.name && a.length == b.length &&
           memcmp(a.name, b.name, (size_t)a.length) == 0;
}

sr_status sr_layer_tree_find(sr_layer_tree *tree, sr_layer layer, int *out) {
    int at = 0;
    for (int depth = sr_layer_depth(tree->nodes[0].layer) + 1; depth <= sr_layer_depth(layer);
         depth++) {
        const sr_layer wanted = sr_layer_cut(layer, depth);
        int child = tree->nodes[at].first;
        while (child >= 0 && !same(tree->nodes[child].layer, wanted))
            child = tree->nodes[child].next;
        if (child < 0)
            SR_TRY(sr_layer_tree_add(tree, at, wanted, &child));
        at = child;
    }
    *out = at;
    return SR_OK;
}

bool sr_layer_tree_is_around(const sr_layer_tree *tree, int outer, int inner) {
    while (inner >= 0 && inner != outer)
        inner = tree->nodes[inner].parent;
    return inner >= 0;
}

int sr_layer_tree_next(const sr_layer_tree *tree, int node) {
    if (tree->nodes[node].first >= 0)
        return tree->nodes[node].first;
    while (node >= 0 && tree->nodes[node].next < 0)
        node = tree->nodes[node].parent;
    return node < 0 ? -1 : tree->nodes[node].next;
}

sr_layer sr_layer_tree_name(const sr_layer_tree *tree, int node) {
    const sr_layer layer = tree->nodes[node].layer;
    const int parent = tree->nodes[node].parent;
    int begin = parent < 0 ? 0 : tree->nodes[parent].layer.length;
    begin += begin > 0; // the dot
    return (sr_layer){layer.name + begin, layer.length - begin};
}
