// SPDX-License-Identifier: Apache-2.0
// The state of an executor that is being traced.
#ifndef SR_GRAPH_EXECUTOR_TRACE_INTERNAL_H
#define SR_GRAPH_EXECUTOR_TRACE_INTERNAL_H

#include "graph/executor_trace.h"
#include "graph/plan_internal.h"

typedef struct sr_executor_tracing {
    sr_trace *trace;
    sr_trace_row **rows; // of each worker
    int workers;
    const sr_trace_label **labels; // of each launch of the plan
    size_t label_capacity;
    uint64_t plan; // number of the plan whose labels these are
} sr_executor_tracing;

// Rows for 'workers' threads.
SR_NODISCARD sr_status sr_executor_tracing_create(sr_trace *trace, const char *name, int workers,
                                                  sr_executor_tracing **out);
// NULL is legal.
void sr_executor_tracing_free(sr_executor_tracing *tracing);
// Called before a replay: names its launches and reserves memory.
SR_NODISCARD sr_status sr_executor_tracing_begin(sr_executor_tracing *tracing, const sr_plan *plan);

// A block of a launch has run on a worker.
static inline void sr_executor_tracing_add(const sr_executor_tracing *tracing, int worker,
                                           uint32_t launch, int64_t begin, int64_t end) {
    sr_trace_part(tracing->rows[worker], tracing->labels[launch], begin, end);
}

#endif
