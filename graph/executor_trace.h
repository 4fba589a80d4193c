// SPDX-License-Identifier: Apache-2.0
// Records replays into a trace: a row for each thread of an executor's team, and in it a span for
// each kernel's blocks.
#ifndef SR_GRAPH_EXECUTOR_TRACE_H
#define SR_GRAPH_EXECUTOR_TRACE_H

#include "graph/context.h"
#include "kernels/base/trace.h"

// Sets the trace that replays are recorded into, from the next one on; NULL ends it, and the trace
// must remain valid until then. 'name' is the heading of the rows. Not while a replay is under way.
// SR_E_MEMORY.
SR_NODISCARD sr_status sr_executor_set_trace(sr_executor *executor, sr_trace *trace,
                                             const char *name);

#endif
