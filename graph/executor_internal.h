// SPDX-License-Identifier: Apache-2.0
// Executors and the launchers behind them.
//
// The executor determines addresses: in its range, and of variables, inputs and bindings. A
// launcher runs the plan's launches with them: executor_cpu.c walks blocks over a team,
// executor_stream.c enqueues one launch after the other on a stream.
#ifndef SR_GRAPH_EXECUTOR_INTERNAL_H
#define SR_GRAPH_EXECUTOR_INTERNAL_H

#include "graph/executor_check_internal.h"
#include "graph/executor_trace_internal.h"
#include "kernels/device/stream.h"

typedef struct sr_launcher {
    // Sets the executor's stream, and 'state' for the calls below.
    sr_status (*create)(sr_executor *e, int threads);
    // Waits for the replay that is running.
    void (*free)(sr_executor *e);
    // Called when all arguments are those of another plan than before.
    sr_status (*prepare)(sr_executor *e, const sr_plan *plan);
    // Called when argument 'index' of the plan has moved.
    sr_status (*moved)(sr_executor *e, uint32_t index);
    // Enqueues steps [e->step_begin, e->step_end) of e->plan.
    sr_status (*replay)(sr_executor *e);
    sr_status (*wait)(sr_executor *e);
    // Workers that a trace has rows for.
    int (*workers)(const sr_executor *e);
} sr_launcher;

extern const sr_launcher sr_launcher_cpu, sr_launcher_stream;

typedef struct sr_profiled_plan {
    uint64_t number; // of the plan, which may be gone from the cache
    uint32_t first;  // of its rows
} sr_profiled_plan;

struct sr_executor {
    sr_device *device;
    const sr_launcher *launcher;
    void *state; // of the launcher
    sr_stream *stream;

    sr_address range;
    size_t range_bytes, range_limit; // in use; reserved
    uint64_t filled;                 // number of the plan that the tables are of; 0: none
    sr_address *table;               // of every root of the plan
    size_t table_capacity;
    sr_address *arguments; // of all launches
    size_t argument_capacity;

    sr_plan *plan;
    sr_run run;
    bool running; // between begin and wait
    // The part of the replay that runs, or ran last: up to stop 'stop', or the end.
    uint32_t stop, step_begin, step_end;

    bool profiling;
    sr_profiled_plan *profiled; // in the order of their first replays
    size_t profiled_capacity;
    uint32_t profiled_count;
    sr_node_profile *profile; // rows of all of them
    size_t profile_capacity;
    uint32_t profile_count, profile_first; // first: of the rows of 'plan'
    sr_executor_tracing *tracing;          // NULL: none
    sr_executor_checking *checking;        // NULL: none
};

// The address of the workspace of a run of a launch; none if it needs none.
static inline sr_address sr_executor_workspace(const sr_executor *e, const sr_launch *l,
                                               uint32_t run) {
    if (l->workspace == SR_REF_NONE)
        return sr_address_none();
    return sr_address_add(e->table[l->workspace],
                          run * sr_plan_stride(&e->plan->values[l->workspace]));
}
// Calls the sink for targets, which are complete for all work that it enqueues on 'stream'.
SR_NODISCARD static inline sr_status sr_executor_deliver(const sr_executor *e,
                                                         const sr_sink_entry *sinks, uint32_t count,
                                                         sr_stream *stream) {
    for (uint32_t i = 0; e->run.sink && i < count; i++) {
        const sr_plan_value *value = &e->plan->values[sinks[i].value];
        SR_TRY(e->run.sink(e->run.user, (int)sinks[i].target, e->table[value->root],
                           value->lane_bytes, stream));
    }
    return e->run.sink_end && count > 0 ? e->run.sink_end(e->run.user, stream) : SR_OK;
}
// The targets that are complete before the part of the replay begins: those of no step, or of the
// step before a stop, whose values lanes have joined meanwhile.
SR_NODISCARD static inline sr_status sr_executor_deliver_first(const sr_executor *e,
                                                               sr_stream *stream) {
    const sr_plan *plan = e->plan;
    if (e->step_begin == 0)
        return sr_executor_deliver(e, plan->sinks, plan->leading_sinks, stream);
    const sr_step *before = &plan->steps[e->step_begin - 1];
    return sr_executor_deliver(e, plan->sinks + before->first_sink, before->sink_count, stream);
}
// The same behind step i of the part.
SR_NODISCARD static inline sr_status sr_executor_deliver_step(const sr_executor *e, uint32_t i,
                                                              sr_stream *stream) {
    const sr_step *step = &e->plan->steps[i];
    const bool stops = i + 1 == e->step_end && e->stop < e->plan->stop_count;
    return stops ? SR_OK
                 : sr_executor_deliver(e, e->plan->sinks + step->first_sink, step->sink_count,
                                       stream);
}

#endif
