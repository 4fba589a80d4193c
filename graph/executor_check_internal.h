// SPDX-License-Identifier: Apache-2.0
// The state of an executor whose replays are checked.
#ifndef SR_GRAPH_EXECUTOR_CHECK_INTERNAL_H
#define SR_GRAPH_EXECUTOR_CHECK_INTERNAL_H

#include "graph/executor_check.h"
#include "graph/plan_internal.h"

typedef struct sr_executor_checking {
    const sr_context *context;
    void *copy; // of a value, where the host cannot read it in place
    size_t capacity;
    const char *last; // the last variable that an operator read in this replay; NULL: none
} sr_executor_checking;

// The address at which the host can read a value, once all work on the executor's stream is
// complete.
typedef sr_status (*sr_check_fetch)(sr_executor *executor, sr_address value, size_t bytes,
                                    const void **out);

// Before the first step of a replay: variables and inputs. SR_E_NON_FINITE.
SR_NODISCARD sr_status sr_executor_check_leaves(sr_executor *executor, sr_check_fetch fetch);
// After step 'number': the results of the operators that are complete.
SR_NODISCARD sr_status sr_executor_check_step(sr_executor *executor, uint32_t number,
                                              sr_check_fetch fetch);
// Memory for 'bytes' bytes of a copy.
SR_NODISCARD sr_status sr_executor_check_reserve(sr_executor_checking *checking, size_t bytes);
// NULL is legal.
void sr_executor_checking_free(sr_executor_checking *checking);

#endif
