// SPDX-License-Identifier: Apache-2.0
// Waits under way, and the clock of their deadlines (see watch.h). The thread that checks them is
// in watchdog.c.
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "kernels/base/watch_internal.h"

sr_watch_state sr_watch_shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

int64_t sr_watch_clock_ns(void) {
    for (;;) {
        uint64_t turn = atomic_load(&sr_watch_shared.turn);
        int64_t look = atomic_load(&sr_watch_shared.look_ns),
                lost = atomic_load(&sr_watch_shared.lost_ns);
        int64_t now = sr_clock_ns();
        if (turn % 2 != 0 || atomic_load(&sr_watch_shared.turn) != turn)
            continue;
        if (look != 0 && now - look > SR_WATCH_GAP_NS)
            now = look + SR_WATCH_GAP_NS;
        return now - lost;
    }
}

int64_t sr_watch_report_ns(const sr_watch *w) {
    double seconds = sr_watch_shared.report_seconds * w->reports_after;
    return (int64_t)(seconds * (double)SR_NS_PER_S);
}

const char *sr_watch_who(void) {
    return sr_watch_shared.who;
}

static SR_PRINTF(4, 0) void begin(sr_watch *w, int reports_after, int ends_after, const char *what,
                                  va_list args) {
    (void)vsnprintf(w->what, sizeof w->what, what, args);
    w->reports_after = reports_after;
    w->ends_after = ends_after;
    w->begin_ns = sr_watch_clock_ns();
    (void)pthread_mutex_lock(&sr_watch_shared.lock);
    w->report_ns = w->begin_ns + sr_watch_report_ns(w);
    w->link = &sr_watch_shared.first;
    w->next = sr_watch_shared.first;
    if (w->next)
        w->next->link = &w->next;
    sr_watch_shared.first = w;
    (void)pthread_mutex_unlock(&sr_watch_shared.lock);
}

void sr_watch_begin(sr_watch *w, const char *what, ...) {
    va_list args;
    va_start(args, what);
    begin(w, 1, SR_PATIENCE, what, args);
    va_end(args);
}

void sr_watch_begin_work(sr_watch *w, const char *what, ...) {
    va_list args;
    va_start(args, what);
    begin(w, SR_PATIENCE, SR_PATIENCE, what, args);
    va_end(args);
}

void sr_watch_begin_end(sr_watch *w, const char *what, ...) {
    va_list args;
    va_start(args, what);
    begin(w, 1, 1, what, args);
    va_end(args);
}

void sr_watch_end(sr_watch *w) {
    (void)pthread_mutex_lock(&sr_watch_shared.lock);
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    (void)pthread_mutex_unlock(&sr_watch_shared.lock);
}
