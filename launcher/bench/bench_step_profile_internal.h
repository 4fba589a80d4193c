// SPDX-License-Identifier: Apache-2.0
// serried bench step --profile: the times of a lane program's kernels, summed by operator and by
// layer.
//
// Times of nodes are measured by the executors and summed over all of them; an executor with
// several threads counts once. With E concurrent executors the sum is E times the step, minus what
// is not spent in nodes: exchanging gradients, updates, recording. Printed times are those of a
// step and one executor.
#ifndef SR_LAUNCHER_BENCH_STEP_PROFILE_INTERNAL_H
#define SR_LAUNCHER_BENCH_STEP_PROFILE_INTERNAL_H

#include "graph/layer_tree.h"
#include "launcher/bench/bench_step_internal.h"

// An operator with a kernel; sums over all runs.
typedef struct sr_profile_row {
    const char *op, *kernel;
    int64_t ns;
    double calls, flops, bytes;
} sr_profile_row;

// A layer with those within it.
typedef struct sr_profile_times {
    int64_t forward_ns, backward_ns;
    double calls;
} sr_profile_times;

struct sr_step_profile {
    sr_profile_row *rows; // the slowest first
    int row_count;
    sr_layer_tree layers;
    sr_profile_times *times; // of each layer
    size_t time_capacity;
    int time_count;
    sr_profile_times outside; // of all layers: inputs, loss, metrics
    int steps, executors;
    double seconds; // of all steps
};

// Adds a node's times to its layer and those around it. SR_E_MEMORY.
SR_NODISCARD sr_status sr_step_profile_add_layer(sr_step_profile *profile,
                                                 const sr_node_profile *node);
// Milliseconds of a step and executor.
static inline double sr_step_profile_ms(const sr_step_profile *profile, int64_t ns) {
    return (double)ns * 1e-6 / profile->steps / profile->executors;
}
// The table of layers down to a depth (0: all), and as a member of a JSON object.
void sr_step_profile_print_layers(const sr_step_profile *profile, int depth);
void sr_step_profile_add_layers_json(const sr_step_profile *profile, int depth, sr_text *out);

#endif
