// SPDX-License-Identifier: Apache-2.0
// The watchdog's thread and its clock (see watch.h).
//
// The thread looks 20 times a second. A gap of more than half a second between two looks is time in
// which the process did not run, and is taken off the clock; so is the part of it that readers see
// before the thread itself comes back. On a machine so busy that the thread is late the clock runs
// slow, which only makes deadlines patient.
// The end is _exit: whatever hangs may hold any lock.
#include "kernels/base/watch.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/thread.h"

#define TICK_NS (50 * SR_NS_PER_MS)
#define GAP_NS (500 * SR_NS_PER_MS)
#define LAST_WORDS_NS (100 * SR_NS_PER_MS) // for the message to reach the log file
#define REPORT_SECONDS 10
#define ACT_SECONDS 120

// The clock: read without a lock, between two equal even values of 'turn'.
static struct {
    _Atomic uint64_t turn;
    _Atomic int64_t look_ns; // of the last look; 0: no watchdog
    _Atomic int64_t lost_ns; // in which the process did not run
} ticks;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool runs, stops;
    pthread_t thread;
    double report_seconds, act_seconds;
    char who[128]; // with ": " behind it
    uint64_t *beats;
    sr_watch *first;
} watchdog = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

int64_t sr_watch_clock_ns(void) {
    for (;;) {
        uint64_t turn = atomic_load(&ticks.turn);
        int64_t look = atomic_load(&ticks.look_ns), lost = atomic_load(&ticks.lost_ns);
        int64_t now = sr_clock_ns();
        if (turn % 2 != 0 || atomic_load(&ticks.turn) != turn)
            continue;
        if (look != 0 && now - look > GAP_NS)
            now = look + GAP_NS;
        return now - lost;
    }
}

static void set_clock(int64_t look, int64_t lost) {
    atomic_fetch_add(&ticks.turn, 1);
    atomic_store(&ticks.look_ns, look);
    atomic_store(&ticks.lost_ns, lost);
    atomic_fetch_add(&ticks.turn, 1);
}

static void look_at_clock(void) {
    int64_t now = sr_clock_ns(), look = atomic_load(&ticks.look_ns);
    int64_t lost = atomic_load(&ticks.lost_ns);
    set_clock(now, now - look > GAP_NS ? lost + (now - look - GAP_NS) : lost);
}

// With the lock held.
static int64_t report_ns(const sr_watch *w) {
    double seconds = watchdog.report_seconds * (w->is_work ? SR_PATIENCE : 1);
    return (int64_t)(seconds * (double)SR_NS_PER_S);
}

// With the lock held.
static void look_at_waits(int64_t now) {
    for (sr_watch *w = watchdog.first; w; w = w->next) {
        double seconds = (double)(now - w->begin_ns) / (double)SR_NS_PER_S;
        if (seconds >= SR_PATIENCE * watchdog.act_seconds) {
            sr_log_alarm("%swaited %.0f s (deadline.act) for %s: ended", watchdog.who, seconds,
                         w->what);
            sr_clock_sleep_ns(LAST_WORDS_NS);
            _exit(sr_status_exit_code(SR_E_TIMEOUT));
        }
        if (now < w->report_ns)
            continue;
        sr_log_alarm("%swaiting %.0f s for %s", watchdog.who, seconds, w->what);
        w->report_ns = now + report_ns(w);
    }
}

static void pause_for_tick(void) {
    struct timespec until;
    int64_t end = sr_clock_ns() + TICK_NS;
    until.tv_sec = (time_t)(end / SR_NS_PER_S);
    until.tv_nsec = (long)(end % SR_NS_PER_S);
    (void)pthread_cond_clockwait(&watchdog.wake, &watchdog.lock, CLOCK_MONOTONIC, &until);
}

static void *watch(void *unused) {
    (void)unused;
    (void)pthread_mutex_lock(&watchdog.lock);
    while (!watchdog.stops) {
        look_at_clock();
        if (watchdog.beats)
            (void)__atomic_add_fetch(watchdog.beats, 1, __ATOMIC_RELAXED);
        look_at_waits(sr_watch_clock_ns());
        pause_for_tick();
    }
    (void)pthread_mutex_unlock(&watchdog.lock);
    return NULL;
}

sr_status sr_watch_start(const sr_watch_options *o) {
    sr_status status = SR_OK;
    (void)pthread_mutex_lock(&watchdog.lock);
    watchdog.report_seconds = o->report_seconds > 0 ? o->report_seconds : REPORT_SECONDS;
    watchdog.act_seconds = o->act_seconds > 0 ? o->act_seconds : ACT_SECONDS;
    bool named = o->who && o->who[0];
    (void)snprintf(watchdog.who, sizeof watchdog.who, "%s%s", named ? o->who : "",
                   named ? ": " : "");
    watchdog.beats = o->beats;
    if (!watchdog.runs) {
        watchdog.stops = false;
        set_clock(sr_clock_ns(), atomic_load(&ticks.lost_ns));
        status = sr_thread_start(&watchdog.thread, "sr-watch", watch, NULL);
        watchdog.runs = status == SR_OK;
        if (!watchdog.runs)
            set_clock(0, atomic_load(&ticks.lost_ns));
    }
    (void)pthread_mutex_unlock(&watchdog.lock);
    return status;
}

void sr_watch_stop(void) {
    (void)pthread_mutex_lock(&watchdog.lock);
    bool runs = watchdog.runs;
    watchdog.stops = true;
    (void)pthread_cond_signal(&watchdog.wake);
    (void)pthread_mutex_unlock(&watchdog.lock);
    if (!runs)
        return;
    (void)pthread_join(watchdog.thread, NULL);
    set_clock(0, atomic_load(&ticks.lost_ns));
    watchdog.runs = false;
    watchdog.beats = NULL;
}

const char *sr_watch_who(void) {
    return watchdog.who;
}

static void begin(sr_watch *w) {
    w->begin_ns = sr_watch_clock_ns();
    (void)pthread_mutex_lock(&watchdog.lock);
    w->report_ns = w->begin_ns + report_ns(w);
    w->link = &watchdog.first;
    w->next = watchdog.first;
    if (w->next)
        w->next->link = &w->next;
    watchdog.first = w;
    (void)pthread_mutex_unlock(&watchdog.lock);
}

void sr_watch_begin(sr_watch *w, const char *what, ...) {
    va_list args;
    va_start(args, what);
    (void)vsnprintf(w->what, sizeof w->what, what, args);
    va_end(args);
    w->is_work = false;
    begin(w);
}

void sr_watch_begin_work(sr_watch *w, const char *what, ...) {
    va_list args;
    va_start(args, what);
    (void)vsnprintf(w->what, sizeof w->what, what, args);
    va_end(args);
    w->is_work = true;
    begin(w);
}

void sr_watch_end(sr_watch *w) {
    (void)pthread_mutex_lock(&watchdog.lock);
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    (void)pthread_mutex_unlock(&watchdog.lock);
}
