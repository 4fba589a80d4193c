// SPDX-License-Identifier: Apache-2.0
// The watchdog of a process: every wait has a name and two deadlines, and those that last too long
// are told, or end the process, without the help of the thread that waits.
//
// A wait that can give up by itself does so, against sr_watch_clock_ns. One that cannot (a system
// call on a file system that hangs, a library, a thread to join) stands between sr_watch_begin and
// sr_watch_end.
#ifndef SR_KERNELS_BASE_WATCH_H
#define SR_KERNELS_BASE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Times as long as usual may last what happens seldom: starting, the first step, a checkpoint.
#define SR_PATIENCE 5

// Nanoseconds that deadlines count: as sr_clock_ns, but while the watchdog runs, time in which this
// process was stopped (SIGSTOP, Ctrl-Z, a paused machine) is left out, so that a job that was
// stopped as a whole goes on as if nothing had been.
int64_t sr_watch_clock_ns(void);

typedef struct sr_watch_options {
    double report_seconds, act_seconds; // 0: 10, 120
    const char *who;                    // begins each message: "rank 1 (host b, pid 7)"; copied
    uint64_t *beats;                    // raised atomically about 20 times a second; NULL: nothing
} sr_watch_options;

// Starts the watchdog's thread; where it runs already only the options change. SR_E_SYSTEM.
SR_NODISCARD sr_status sr_watch_start(const sr_watch_options *options);
// Ends it. No wait may be under way.
void sr_watch_stop(void);

// What this process calls itself in messages about waits: "rank 1 (host b, pid 7): ", or "".
const char *sr_watch_who(void);

// One wait; on the caller's stack. The fields are the watchdog's.
typedef struct sr_watch {
    struct sr_watch *next, **link;
    bool is_work;
    int64_t begin_ns, report_ns;
    char what[256];
} sr_watch;

// From here to sr_watch_end this thread may be stuck in 'what' ("MPI to start"). After
// report_seconds it is told, after SR_PATIENCE times act_seconds the process ends with exit code 6.
// Without a watchdog nothing happens.
void sr_watch_begin(sr_watch *watch, const char *what, ...) SR_PRINTF(2, 3);
// The same for work that may well last ("lane 3 to be computed"): told SR_PATIENCE times later.
void sr_watch_begin_work(sr_watch *watch, const char *what, ...) SR_PRINTF(2, 3);
void sr_watch_end(sr_watch *watch);

#ifdef __cplusplus
}
#endif
#endif
