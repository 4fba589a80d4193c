// SPDX-License-Identifier: Apache-2.0
// What the files of the pass that joins operators share: pass_fuse.c has the walk over the nodes
// and ReLUs, pass_fuse_norm.c normalisations over groups of channels, pass_fuse_values.c what both
// ask.
#ifndef SR_GRAPH_PASS_FUSE_INTERNAL_H
#define SR_GRAPH_PASS_FUSE_INTERNAL_H

#include "graph/plan_internal.h"

typedef struct sr_fusion {
    const sr_context *context;
    sr_program *p;
    uint32_t moments; // attributes of batchnorm_moments
    uint8_t *uses;    // of values by nodes and targets, at most a few
    bool *gone;       // nodes
    sr_status status; // of memory for attributes
} sr_fusion;

// The node that writes a value, if exactly one node reads it; otherwise NULL.
sr_program_node *sr_fusion_inner(const sr_fusion *f, uint32_t value);
// Whether a node is a sum of two tensors of its result's shape.
bool sr_fusion_is_sum(const sr_fusion *f, const sr_program_node *node);
// Whether a value, or none, is there for a node.
bool sr_fusion_is_before(const sr_fusion *f, uint32_t value, const sr_program_node *node);
// Whether a node would have a kernel of the numerics class of another one's.
bool sr_fusion_has_class_of(const sr_fusion *f, const sr_program_node *node,
                            const sr_program_node *of);
// Notes that a node's operator is part of a joined one.
void sr_fusion_note(sr_fusion *f, const sr_program_node *node);
// Removes a node that has become part of another one, and notes it.
void sr_fusion_remove(sr_fusion *f, const sr_program_node *node);

// Joins a sum with a normalisation that reads it, if there is one.
void sr_fuse_sum_norm(sr_fusion *f, sr_program_node *sum);
// Joins the gradient of a normalisation with a sum that reads it, if there is one.
void sr_fuse_norm_sum(sr_fusion *f, sr_program_node *gradient);
// Joins max pooling with the batch norm before it, and their gradients, once all others are joined.
void sr_fuse_pool(sr_fusion *f, const sr_program_node *pool);

#endif
