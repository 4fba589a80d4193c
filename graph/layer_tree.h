// SPDX-License-Identifier: Apache-2.0
// Layers as a tree, for summaries, profiles and drawings.
#ifndef SR_GRAPH_LAYER_TREE_H
#define SR_GRAPH_LAYER_TREE_H

#include "graph/call_layers.h"

// A layer, or something else that is listed among layers (an operator): then layer.name is NULL.
typedef struct sr_layer_node {
    sr_layer layer;
    int depth;                     // 0: the first
    int parent, first, last, next; // -1: none; children in the order in which they were added
    int layers;                    // its index among its parent's children
} sr_layer_node;

// nodes[0] is the network. Nodes keep their numbers.
typedef struct sr_layer_tree {
    sr_layer_node *nodes;
    int count;
    size_t capacity;
} sr_layer_tree;

// A tree of one node. SR_E_MEMORY, here and below.
SR_NODISCARD sr_status sr_layer_tree_init(sr_layer_tree *tree, sr_layer network);
// Legal for a zeroed tree and after a failure.
void sr_layer_tree_release(sr_layer_tree *tree);
// The node of a layer within the network; those on the way that are missing are added.
SR_NODISCARD sr_status sr_layer_tree_find(sr_layer_tree *tree, sr_layer layer, int *out);
// Adds a child.
SR_NODISCARD sr_status sr_layer_tree_add(sr_layer_tree *tree, int parent, sr_layer layer, int *out);
// Whether 'outer' is 'inner' or above it; inner -1: no.
bool sr_layer_tree_is_around(const sr_layer_tree *tree, int outer, int inner);
// The node after this one in the order in which each is before its children; -1: none.
int sr_layer_tree_next(const sr_layer_tree *tree, int node);
// The name of a layer within the one around it: 'conv1' of 'layer1.0.conv1'. Not terminated.
sr_layer sr_layer_tree_name(const sr_layer_tree *tree, int node);

#endif
