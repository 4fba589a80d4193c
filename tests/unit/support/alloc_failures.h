// SPDX-License-Identifier: Apache-2.0
// Runs a part of serried again and again, each time with another allocation failing.
//
// Which ones: every n-th up to 1,000, then the first, second and last hit of each call site (a site
// being the six innermost callers). Each time: either the failure comes out as SR_E_MEMORY with a
// message that says so, or the run ends well all the same; no block of memory is left; and
// whatever the scenario checks holds.
#ifndef SR_TESTS_ALLOC_FAILURES_H
#define SR_TESTS_ALLOC_FAILURES_H

#include <stdbool.h>

#include "kernels/base/status.h"

typedef struct alloc_scenario {
    const char *name;
    sr_status (*run)(void);         // everything from nothing to the last release
    void (*check)(bool ended_well); // what must hold after each run, without allocations failing
    int sample;                     // so many of the failures in a short run
    // Ways to end well although an allocation failed: what it was for is done without, or later.
    bool may_end_well;
} alloc_scenario;

// Fails the calling test where a run breaks these rules, naming the allocation. everything: all of
// the failures above, not a sample.
void alloc_failures_run(const alloc_scenario *scenario, bool everything);

#endif
