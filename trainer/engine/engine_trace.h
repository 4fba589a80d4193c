// SPDX-License-Identifier: Apache-2.0
// Records an engine into a trace: the step as its caller sees it, the threads of all executors, the
// exchanges of all sets.
#ifndef SR_TRAINER_ENGINE_TRACE_H
#define SR_TRAINER_ENGINE_TRACE_H

#include "kernels/base/trace.h"
#include "trainer/engine/engine.h"

// Sets the trace that steps are recorded into, from the next step on; NULL ends it. The trace must
// remain valid until then. Called between steps. SR_E_MEMORY.
SR_NODISCARD sr_status sr_engine_set_trace(sr_engine *engine, sr_trace *trace);

// Switches the measurement of per-node times on or off for all executors, between steps.
void sr_engine_set_profiling(sr_engine *engine, bool on);
// The times of one executor, as from sr_executor_get_profile.
int sr_engine_get_profile(const sr_engine *engine, int executor, sr_node_profile *out,
                          int capacity);

#endif
