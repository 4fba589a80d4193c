// SPDX-License-Identifier: Apache-2.0
// Layers of recorded calls: which part of a network an operator belongs to, for messages, summaries
// and profiles. Names are those of variables without their last part: "layer1.0.conv1" of
// "layer1.0.conv1.weight".
//
// A call that reads a variable belongs to its layer, and one that computes a gradient to the layer
// of the call that it differentiates. Any other belongs to a layer around the last one that was
// read: to the innermost whose instances the line of model code runs in once each. The line of a
// residual addition runs once in every block, so it belongs to the block; that of the last pooling
// runs once, so it belongs to the network. (A call without variables at the beginning of a block is
// counted in the block before.) sr_layer_use is for programs that name their layers themselves.
#ifndef SR_GRAPH_CALL_LAYERS_H
#define SR_GRAPH_CALL_LAYERS_H

#include "graph/context.h"
#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

// A layer: the first 'length' characters of 'name'; "" is the whole network, NULL none. Borrowed
// until sr_context_free.
typedef struct sr_layer {
    const char *name;
    int length;
} sr_layer;

// For sr_layer_use: the calls belong to no layer, as those of losses and metrics.
extern const char sr_no_layer[];
// Calls from here to the end of the step belong to this layer, or to one within it ("": to any).
// Returns what was used before; "" at the beginning of a step. Borrowed until sr_context_free.
const char *sr_layer_use(sr_context *context, const char *name);

// Whether 'inner' is 'outer' or a layer within it; every layer is within "".
bool sr_layer_within(sr_layer inner, sr_layer outer);
// Number of names that a layer's consists of: 3 for "layer1.0.conv1", 0 for "" and none.
int sr_layer_depth(sr_layer layer);
// The layer around it that has 'depth' names; the layer itself if it has no more than that.
sr_layer sr_layer_cut(sr_layer layer, int depth);

// A call of the step that is being recorded.
typedef struct sr_call_view {
    const sr_op *op;
    const void *attr;
    const char *file;
    int line;
    bool backward;                          // it computes a gradient
    sr_info in[SR_OP_MAX_INPUTS];           // dtype SR_DTYPE_COUNT: absent
    int from[SR_OP_MAX_INPUTS];             // the call whose result it reads; -1: none
    int from_output[SR_OP_MAX_INPUTS];      // and which result
    const char *variable[SR_OP_MAX_INPUTS]; // name of the variable that it reads; NULL: none
    sr_info out[SR_OP_MAX_OUTPUTS];
} sr_call_view;

// Number of calls of the step so far.
int sr_call_count(const sr_context *context);
// One of them.
void sr_call_get(const sr_context *context, int call, sr_call_view *out);
// The layers of all calls of the step so far: out[sr_call_count].
SR_NODISCARD sr_status sr_call_layers(const sr_context *context, sr_layer *out);

#ifdef __cplusplus
}
#endif
#endif
