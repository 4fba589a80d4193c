// SPDX-License-Identifier: Apache-2.0
// Runs a piece of serried repeatedly, each time with another allocation failing.
//
// Which allocations: every n-th up to 1,000, then the first, second and last of each call site (the
// six innermost callers). In each run, either the failure is returned as SR_E_MEMORY with a message
// about it, or the run succeeds all the same; no memory block is leaked; and the scenario's own
// check passes.
#ifndef SR_TESTS_ALLOC_FAILURES_H
#define SR_TESTS_ALLOC_FAILURES_H

#include <stdbool.h>

#include "kernels/base/status.h"

typedef struct alloc_scenario {
    const char *name;
    sr_status (*run)(void);         // everything from set-up to the last release
    void (*check)(bool ended_well); // run after each run, while no allocation fails
    int sample;                     // the number of failures in a short test
    // The run may succeed although an allocation failed, by doing without the memory or retrying.
    bool may_end_well;
} alloc_scenario;

// Fails the calling test if a run breaks these rules, naming the allocation. everything: all of the
// failures above, not a sample.
void alloc_failures_run(const alloc_scenario *scenario, bool everything);

#endif
