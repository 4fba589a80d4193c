// SPDX-License-Identifier: Apache-2.0
// The watchdog's thread (see watch.h): it keeps the clock of the deadlines, reports long waits and
// ends the process.
//
// The thread looks 20 times a second. After a gap of more than half a second between two looks, the
// time beyond half a second counts as time in which the process did not run and is subtracted from
// the clock, also for readers that run before the thread does. On a machine so busy that the thread
// is late, the clock runs slow, which only lengthens deadlines. The process ends through _exit:
// whatever hangs may hold any lock.
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "kernels/base/thread.h"
#include "kernels/base/watch_internal.h"

#define TICK_NS (50 * SR_NS_PER_MS)
#define LAST_WORDS_NS (100 * SR_NS_PER_MS) // for the message to reach the log file
#define REPORT_SECONDS 10
#define ACT_SECONDS 120

// Under the lock of sr_watch_shared.
static struct {
    pthread_cond_t wake;
    bool runs, stops;
    pthread_t thread;
    double act_seconds;
    uint64_t *beats;
} watchdog = {.wake = PTHREAD_COND_INITIALIZER};

static void set_clock(int64_t look, int64_t lost) {
    atomic_fetch_add(&sr_watch_shared.turn, 1);
    atomic_store(&sr_watch_shared.look_ns, look);
    atomic_store(&sr_watch_shared.lost_ns, lost);
    atomic_fetch_add(&sr_watch_shared.turn, 1);
}

static void look_at_clock(void) {
    int64_t now = sr_clock_ns(), look = atomic_load(&sr_watch_shared.look_ns);
    int64_t lost = atomic_load(&sr_watch_shared.lost_ns);
    set_clock(now, now - look > SR_WATCH_GAP_NS ? lost + (now - look - SR_WATCH_GAP_NS) : lost);
}

// With the lock held.
static void look_at_waits(int64_t now) {
    for (sr_watch *w = sr_watch_shared.first; w; w = w->next) {
        double seconds = (double)(now - w->begin_ns) / (double)SR_NS_PER_S;
        if (seconds >= w->ends_after * watchdog.act_seconds) {
            sr_log_alarm("%swaited %.0f s (deadline.act) for %s: ended", sr_watch_shared.who,
                         seconds, w->what);
            sr_clock_sleep_ns(LAST_WORDS_NS);
            _exit(sr_status_exit_code(SR_E_TIMEOUT));
        }
        if (now < w->report_ns)
            continue;
        sr_log_alarm("%swaiting %.0f s for %s", sr_watch_shared.who, seconds, w->what);
        w->report_ns = now + sr_watch_report_ns(w);
    }
}

static void pause_for_tick(void) {
    struct timespec until;
    int64_t end = sr_clock_ns() + TICK_NS;
    until.tv_sec = (time_t)(end / SR_NS_PER_S);
    until.tv_nsec = (long)(end % SR_NS_PER_S);
    (void)pthread_cond_clockwait(&watchdog.wake, &sr_watch_shared.lock, CLOCK_MONOTONIC, &until);
}

static void *watch(void *unused) {
    (void)unused;
    (void)pthread_mutex_lock(&sr_watch_shared.lock);
    while (!watchdog.stops) {
        look_at_clock();
        if (watchdog.beats)
            (void)__atomic_add_fetch(watchdog.beats, 1, __ATOMIC_RELAXED);
        look_at_waits(sr_watch_clock_ns());
        pause_for_tick();
    }
    (void)pthread_mutex_unlock(&sr_watch_shared.lock);
    return NULL;
}

sr_status sr_watch_start(const sr_watch_options *o) {
    sr_status status = SR_OK;
    (void)pthread_mutex_lock(&sr_watch_shared.lock);
    sr_watch_shared.report_seconds = o->report_seconds > 0 ? o->report_seconds : REPORT_SECONDS;
    watchdog.act_seconds = o->act_seconds > 0 ? o->act_seconds : ACT_SECONDS;
    bool named = o->who && o->who[0];
    (void)snprintf(sr_watch_shared.who, sizeof sr_watch_shared.who, "%s%s", named ? o->who : "",
                   named ? ": " : "");
    watchdog.beats = o->beats;
    if (!watchdog.runs) {
        watchdog.stops = false;
        set_clock(sr_clock_ns(), atomic_load(&sr_watch_shared.lost_ns));
        status = sr_thread_start(&watchdog.thread, "sr-watch", watch, NULL);
        watchdog.runs = status == SR_OK;
        if (!watchdog.runs)
            set_clock(0, atomic_load(&sr_watch_shared.lost_ns));
    }
    (void)pthread_mutex_unlock(&sr_watch_shared.lock);
    return status;
}

void sr_watch_stop(void) {
    (void)pthread_mutex_lock(&sr_watch_shared.lock);
    bool runs = watchdog.runs;
    watchdog.stops = true;
    (void)pthread_cond_signal(&watchdog.wake);
    (void)pthread_mutex_unlock(&sr_watch_shared.lock);
    if (!runs)
        return;
    (void)pthread_join(watchdog.thread, NULL);
    set_clock(0, atomic_load(&sr_watch_shared.lost_ns));
    watchdog.runs = false;
    watchdog.beats = NULL;
}
