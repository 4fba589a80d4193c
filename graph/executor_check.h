// SPDX-License-Identifier: Apache-2.0
// Checked replays: find the first value that is not finite, and the operator that computed it. For
// debugging: every value of every operator is read by the host.
#ifndef SR_GRAPH_EXECUTOR_CHECK_H
#define SR_GRAPH_EXECUTOR_CHECK_H

#include "graph/context.h"

#ifdef __cplusplus
extern "C" {
#endif

// From the next replay on, variables and inputs are examined before the first operator, and the
// results of every operator when it has run. A replay that meets a NaN or an infinity ends there
// with SR_E_NON_FINITE: operator, line of model code, the parameter that it reads (or that the
// operators before it read), and the element. context: that of the plans, for the names of
// variables; NULL: off. A context with 'optimize' -1 compiles plans in which no operator overwrites
// the result of another one and operators do not run interleaved; otherwise a later operator may be
// named.
SR_NODISCARD sr_status sr_executor_set_checking(sr_executor *executor, const sr_context *context);

#ifdef __cplusplus
}
#endif
#endif
