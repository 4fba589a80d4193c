// SPDX-License-Identifier: Apache-2.0
// Inspection of a plan, for reports and traces: its launches, and the values in the range with
// their offsets. Results are borrowed from the plan, which is immutable.
#ifndef SR_GRAPH_PLAN_VIEW_H
#define SR_GRAPH_PLAN_VIEW_H

#include "graph/call_layers.h"
#include "kernels/kernel.h"

#define SR_PLAN_NO_VALUE UINT32_MAX

// A kernel that a replay runs, in order.
typedef struct sr_plan_launch_view {
    const char *op, *kernel, *file;
    int line;
    sr_layer layer;                     // of the network
    bool backward;                      // a gradient, or a value that is computed again for one
    sr_kernel_id id;                    // of what 'kernel' computes
    const void *params;                 // its struct of kernels/kernel_params.h
    double flops, bytes;                // of all lanes
    int runs;                           // of the kernel in a replay: one for each lane, or 1
    int args, inputs;                   // the first 'inputs' arguments are read, the others written
    uint32_t varies;                    // bit i: each lane has its own argument i
    sr_info info[SR_KERNEL_MAX_ARGS];   // of a lane; dtype SR_DTYPE_COUNT: absent
    uint32_t value[SR_KERNEL_MAX_ARGS]; // the value whose memory it uses; SR_PLAN_NO_VALUE: absent
    uint32_t workspace;                 // likewise
    uint32_t packed;           // likewise: what it packs of an argument and others use, too
    bool packs;                // it is the first of them
    int first_step, last_step; // the steps in which its stages run
} sr_plan_launch_view;

// launch: 0 .. sr_plan_node_count - 1.
void sr_plan_get_launch(const sr_plan *plan, int launch, sr_plan_launch_view *out);

// Number of steps of a replay; the stages of a step run together, unit by unit
// (graph/pass_chain.c).
int sr_plan_step_count(const sr_plan *plan);
// The first launch of a step.
int sr_plan_step_launch(const sr_plan *plan, int step);

// Memory of one value in the range, or of several that reuse it in place.
typedef struct sr_plan_memory_view {
    size_t offset, bytes; // bytes are rounded up, as planned
    int first, last;      // steps between which the memory is in use, inclusive
    bool workspace;       // of one kernel
} sr_plan_memory_view;

uint32_t sr_plan_value_count(const sr_plan *plan);
// Returns false if the value has no memory in the range: variables, inputs, and values that use the
// memory of another.
bool sr_plan_get_memory(const sr_plan *plan, uint32_t value, sr_plan_memory_view *out);

// A planner of the range that was tried, with the memory that it needs; the smallest result is
// used.
typedef struct sr_planner_view {
    const char *name;
    size_t bytes;
    bool taken;
} sr_planner_view;

// Returns false after the last one.
bool sr_plan_get_planner(const sr_plan *plan, int planner, sr_planner_view *out);

#endif
