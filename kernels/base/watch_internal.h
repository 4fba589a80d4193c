// SPDX-License-Identifier: Apache-2.0
// Shared by watch.c (waits, and the clock for their deadlines) and watchdog.c (the thread).
#ifndef SR_KERNELS_BASE_WATCH_INTERNAL_H
#define SR_KERNELS_BASE_WATCH_INTERNAL_H

#include <pthread.h>

#include "kernels/base/clock.h"
#include "kernels/base/watch.h"

#define SR_WATCH_GAP_NS (500 * SR_NS_PER_MS) // a longer gap between two looks is lost time

// The clock is read without the lock, between two equal even values of 'turn'.
typedef struct sr_watch_state {
    _Atomic uint64_t turn;
    _Atomic int64_t look_ns; // time of the watchdog's last look; 0: no watchdog
    _Atomic int64_t lost_ns; // time in which the process did not run

    pthread_mutex_t lock; // of everything below
    double report_seconds;
    char who[128];   // prefix of messages, ends with ": "; or ""
    sr_watch *first; // waits in progress
} sr_watch_state;

extern sr_watch_state sr_watch_shared;

// Nanoseconds until the first report of a wait, and between later reports. Called with the lock
// held.
int64_t sr_watch_report_ns(const sr_watch *watch);

#endif
