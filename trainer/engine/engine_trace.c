// SPDX-License-Identifier: Apache-2.0
// Records an engine into a trace (engine_trace.h).
#include "trainer/engine/engine_trace.h"

#include <stdio.h>

#include "graph/executor_trace.h"
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "trainer/engine/engine_internal.h"
#include "trainer/engine/engine_trace_internal.h"
#include "trainer/exchange/exchange_internal.h"

static const char *const part_names[SR_STEP_PARTS] = {
    [SR_STEP_RECORDS] = "records and compiles",
    [SR_STEP_LANES] = "waits for lanes",
    [SR_STEP_WAITS] = "waits for the exchange",
};

static sr_status add_step_row(sr_engine_trace *t, sr_trace *trace) {
    SR_TRY(sr_trace_add_row(trace, "step", 0, &t->row));
    for (int i = 0; i < SR_STEP_PARTS; i++)
        SR_TRY(sr_trace_add_label(trace, part_names[i], "", &t->labels[i]));
    return SR_OK;
}

static sr_status set_parts(sr_engine *e, sr_trace *trace) {
    char name[SR_NAME_BYTES + 32];
    for (int i = 0; i < e->executor_count; i++) {
        (void)snprintf(name, sizeof name, "executor %d", i);
        SR_TRY(sr_executor_set_trace(e->executors[i], trace, name));
    }
    for (int s = 0; s < e->set_count; s++) {
        const char *set = e->sets[s]->name;
        (void)snprintf(name, sizeof name, "exchange%s%s", set[0] ? " " : "", set);
        SR_TRY(sr_exchange_set_trace(e->sets[s]->exchange, trace, name));
    }
    return SR_OK;
}

sr_status sr_engine_set_trace(sr_engine *e, sr_trace *trace) {
    sr_free(e->trace);
    e->trace = NULL;
    if (trace) {
        sr_engine_trace *t = sr_alloc(sizeof *t, "trace");
        if (!t)
            return SR_E_MEMORY;
        e->trace = t;
        SR_TRY(add_step_row(t, trace));
    }
    return set_parts(e, trace);
}

void sr_engine_set_profiling(sr_engine *e, bool on) {
    for (int i = 0; i < e->executor_count; i++)
        sr_executor_set_profiling(e->executors[i], on);
}

int sr_engine_get_profile(const sr_engine *e, int executor, sr_node_profile *out, int capacity) {
    return sr_executor_get_profile(e->executors[executor], out, capacity);
}

sr_status sr_engine_trace_begin(sr_engine_trace *t) {
    if (!t)
        return SR_OK;
    t->since_ns = sr_clock_ns();
    return sr_trace_reserve(t->row, SR_STEP_PARTS);
}

void sr_engine_trace_end(sr_engine_trace *t, sr_step_part part) {
    if (!t)
        return;
    const int64_t now = sr_clock_ns();
    sr_trace_span(t->row, t->labels[part], t->since_ns, now);
    t->since_ns = now;
}
