// SPDX-License-Identifier: Apache-2.0
// Replays in a trace: a row for each thread of an executor's team, a span for each kernel's blocks
// there.
#ifndef SR_GRAPH_EXECUTOR_TRACE_H
#define SR_GRAPH_EXECUTOR_TRACE_H

#include "graph/context.h"
#include "kernels/base/trace.h"

// From the next replay on, until it is set to NULL; 'name' heads the rows. The trace must live as
// long. Not while a replay is under way. SR_E_MEMORY.
SR_NODISCARD sr_status sr_executor_set_trace(sr_executor *executor, sr_trace *trace,
                                             const char *name);

#endif
