// SPDX-License-Identifier: Apache-2.0
// serried bench step --memory: which values occupy the memory range of a lane, step by step.
#ifndef SR_LAUNCHER_BENCH_MEMORY_INTERNAL_H
#define SR_LAUNCHER_BENCH_MEMORY_INTERNAL_H

#include "graph/plan_view.h"

// One operator of the legend; workspaces are a separate kind.
typedef struct sr_memory_kind {
    const char *name;
    double area;          // bytes times steps
    size_t bytes_at_peak; // of all 'spans_at_peak'
    int spans_at_peak;
} sr_memory_kind;

// Memory that the output (or workspace) of one launch occupies. An in-place successor is another
// span.
typedef struct sr_memory_span {
    size_t offset, bytes;
    int first, last; // steps, both included
    int writer;      // launch
    int kind;        // index in kinds
    sr_info info;    // of the output; of a workspace: bytes
} sr_memory_span;

typedef struct sr_memory_timeline {
    sr_memory_span *spans;
    int span_count;
    sr_memory_kind *kinds; // the largest area first
    int kind_count;
    size_t *live; // at each step
    int step_count;
    int peak; // step at which most is live
    size_t range_bytes;
} sr_memory_timeline;

// SR_E_MEMORY.
SR_NODISCARD sr_status sr_memory_timeline_build(const sr_plan *plan, sr_memory_timeline *out);
void sr_memory_timeline_release(sr_memory_timeline *timeline);

// Writes a PNG: x is the step, y the offset in the range, a rectangle is a span in the colour of
// its kind, the line shows the live bytes. 'title' is printed above.
SR_NODISCARD sr_status sr_memory_picture(const sr_memory_timeline *timeline, const char *title,
                                         const char *path);

#endif
