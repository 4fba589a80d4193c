// SPDX-License-Identifier: Apache-2.0
// See alloc_failures.h. A first run allocates what lives as long as the process, a second one lists
// the allocations by call site, and then the chosen ones fail, one in each run.
#include "tests/unit/support/alloc_failures.h"

#include <execinfo.h>
#include <pthread.h>
#include <stdlib.h>

#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

enum { CALLERS = 6, SKIPPED = 2, MAX_SITES = 4096, EACH_UP_TO = 1000, MAX_ALLOCATIONS = 1 << 20 };

typedef struct site {
    uint64_t callers; // hash of the callers
    long first, second, last;
} site;

static struct {
    pthread_mutex_t lock;
    bool listing; // into sites
    long count;   // allocations so far
    long wanted;  // the one whose purpose and size are noted
    char purpose[64];
    size_t bytes;
    site sites[MAX_SITES];
    int site_count;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note_site(void) {
    void *frames[SKIPPED + CALLERS];
    int depth = backtrace(frames, SKIPPED + CALLERS);
    uint64_t callers = sr_hash64(frames + SKIPPED, (size_t)(depth - SKIPPED) * sizeof *frames);
    site *s = seen.sites;
    while (s < seen.sites + seen.site_count && s->callers != callers)
        s++;
    if (s == seen.sites + MAX_SITES)
        abort();
    if (s == seen.sites + seen.site_count)
        seen.sites[seen.site_count++] = (site){.callers = callers, .first = seen.count};
    else if (s->second == 0)
        s->second = seen.count;
    s->last = seen.count;
}

static void watch(size_t bytes, const char *what) {
    (void)pthread_mutex_lock(&seen.lock);
    seen.count++;
    if (seen.listing)
        note_site();
    if (seen.count == seen.wanted) {
        (void)snprintf(seen.purpose, sizeof seen.purpose, "%s", what);
        seen.bytes = bytes;
    }
    (void)pthread_mutex_unlock(&seen.lock);
}

static sr_status run(const alloc_scenario *scenario, bool listing, long wanted) {
    seen.listing = listing;
    seen.count = seen.site_count = 0;
    seen.wanted = wanted;
    sr_memory_watch(watch);
    if (wanted > 0)
        sr_memory_fail_nth((uint64_t)wanted);
    sr_status status = scenario->run();
    sr_memory_fail_nth(0);
    sr_memory_watch(NULL);
    return status;
}

// Marks the allocations that are to fail; returns their number.
static long choose(bool *chosen, long total) {
    long count = 0;
    for (long n = 1; n <= total && n <= EACH_UP_TO; n++)
        chosen[n] = true;
    for (int i = 0; i < seen.site_count; i++) {
        const site *s = &seen.sites[i];
        chosen[s->first] = chosen[s->last] = true;
        if (s->second > 0)
            chosen[s->second] = true;
    }
    for (long n = 1; n <= total; n++)
        count += chosen[n];
    return count;
}

// Lets one allocation fail; returns true if the run succeeded in spite of it.
static bool fail_one(const alloc_scenario *scenario, long n) {
    uint64_t before = sr_memory_get_stats().live_blocks;
    sr_status status = run(scenario, false, n);
    bool reached = seen.count >= n; // threads may need fewer allocations in another run
    if (status != SR_OK &&
        (status != SR_E_MEMORY || strstr(sr_error_message(), "out of memory") == NULL))
        fail_msg("%s: when allocation %ld (%zu bytes for %s) fails, the run ends with %s: %s",
                 scenario->name, n, seen.bytes, seen.purpose, sr_status_name(status),
                 sr_error_message());
    if (status == SR_OK && reached && !scenario->may_end_well)
        fail_msg("%s: a failure of allocation %ld (%zu bytes for %s) is not reported",
                 scenario->name, n, seen.bytes, seen.purpose);
    uint64_t after = sr_memory_get_stats().live_blocks;
    if (after != before)
        fail_msg("%s: a failure of allocation %ld (%zu bytes for %s) leaks %lld blocks",
                 scenario->name, n, seen.bytes, seen.purpose, (long long)(after - before));
    if (scenario->check != NULL)
        scenario->check(status == SR_OK);
    return status == SR_OK && reached;
}

void alloc_failures_run(const alloc_scenario *scenario, bool everything) {
    if (run(scenario, false, 0) != SR_OK || run(scenario, true, 0) != SR_OK)
        fail_msg("%s: %s", scenario->name, sr_error_message());
    long total = seen.count, done = 0, ended_well = 0, position = 0;
    assert_true(total > 0 && total < MAX_ALLOCATIONS);
    int sites = seen.site_count;
    bool *chosen = calloc((size_t)total + 1, sizeof *chosen);
    assert_non_null(chosen);
    long count = choose(chosen, total);
    long stride = everything || count <= scenario->sample ? 1 : count / scenario->sample;
    for (long n = 1; n <= total; n++) {
        if (!chosen[n] || position++ % stride != 0)
            continue;
        done++;
        ended_well += fail_one(scenario, n);
    }
    free(chosen);
    print_message("%s: %ld allocations at %d call sites; %ld failed, %ld of these runs succeeded\n",
                  scenario->name, total, sites, done, ended_well);
}
