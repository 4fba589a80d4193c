// SPDX-License-Identifier: Apache-2.0
// The watchdog of a process: every wait has a name and two deadlines. Waits that last too long are
// reported or end the process, without help from the waiting thread.
//
// A wait that can time out by itself measures its deadline with sr_watch_clock_ns. A wait that
// cannot (a system call on a hanging file system, a library call, joining a thread) is enclosed in
// sr_watch_begin and sr_watch_end.
#ifndef SR_KERNELS_BASE_WATCH_H
#define SR_KERNELS_BASE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Factor by which rare operations may take longer: start-up, the first step, a checkpoint.
#define SR_PATIENCE 5

// The clock of deadlines, in nanoseconds: like sr_clock_ns, but while the watchdog runs it excludes
// the time in which this process was stopped (SIGSTOP, Ctrl-Z, a paused virtual machine). So a job
// that was stopped as a whole continues without a timeout.
int64_t sr_watch_clock_ns(void);

typedef struct sr_watch_options {
    double report_seconds, act_seconds; // 0: 10, 120
    const char *who;                    // begins each message: "rank 1 (host b, pid 7)"; copied
    uint64_t *beats; // incremented atomically about 20 times a second; may be NULL
} sr_watch_options;

// Starts the watchdog's thread; if it is running already, only changes the options. SR_E_SYSTEM.
SR_NODISCARD sr_status sr_watch_start(const sr_watch_options *options);
// Stops the watchdog. No wait may be in progress.
void sr_watch_stop(void);

// The name of this process in messages about waits: "rank 1 (host b, pid 7): ", or "".
const char *sr_watch_who(void);

// One wait, on the caller's stack. The fields belong to the watchdog.
typedef struct sr_watch {
    struct sr_watch *next, **link;
    int reports_after, ends_after; // times report_seconds and act_seconds
    int64_t begin_ns, report_ns;
    char what[256];
} sr_watch;

// Begins a wait of this thread for 'what' ("MPI to start"), until sr_watch_end. The wait is
// reported after report_seconds; after SR_PATIENCE times act_seconds the process ends with exit
// code 6. Does nothing without a watchdog.
void sr_watch_begin(sr_watch *watch, const char *what, ...) SR_PRINTF(2, 3);
// The same for work that may take long ("lane 3 to be computed"): reported after SR_PATIENCE times
// report_seconds.
void sr_watch_begin_work(sr_watch *watch, const char *what, ...) SR_PRINTF(2, 3);
// The same for the remaining work of a failed job ("MPI to abort"): the process ends after
// act_seconds, without the factor SR_PATIENCE.
void sr_watch_begin_end(sr_watch *watch, const char *what, ...) SR_PRINTF(2, 3);
void sr_watch_end(sr_watch *watch);

#ifdef __cplusplus
}
#endif
#endif
