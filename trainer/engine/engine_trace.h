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

#endif
