// SPDX-License-Identifier: Apache-2.0
// An engine in a trace: the step as its caller sees it, the threads of all executors, the exchanges
// of all phases.
#ifndef SR_TRAINER_ENGINE_TRACE_H
#define SR_TRAINER_ENGINE_TRACE_H

#include "kernels/base/trace.h"
#include "trainer/engine/engine.h"

// From the next step on, until it is set to NULL; the trace must live as long. Between steps.
// SR_E_MEMORY.
SR_NODISCARD sr_status sr_engine_set_trace(sr_engine *engine, sr_trace *trace);

// Per-node times of all executors: on or off, between steps.
void sr_engine_set_profiling(sr_engine *engine, bool on);
// Those of an executor, as sr_executor_get_profile.
int sr_engine_get_profile(const sr_engine *engine, int executor, sr_node_profile *out,
                          int capacity);

#endif
