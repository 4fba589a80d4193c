// SPDX-License-Identifier: Apache-2.0
// Monotonic time (see clock.h): CLOCK_MONOTONIC, which clock corrections never set back.
#include "kernels/base/clock.h"

#include <string.h>
#include <time.h>

static int64_t read_clock(clockid_t clock) {
    struct timespec now;
    (void)clock_gettime(clock, &now); // cannot fail with these clocks
    return (int64_t)now.tv_sec * SR_NS_PER_S + now.tv_nsec;
}

int64_t sr_clock_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

int64_t sr_clock_thread_ns(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

void sr_clock_sleep_ns(int64_t ns) {
    if (ns <= 0)
        return;
    struct timespec pause = {.tv_sec = (time_t)(ns / SR_NS_PER_S), .tv_nsec = ns % SR_NS_PER_S};
    (void)nanosleep(&pause, NULL);
}

void sr_clock_utc_label(char *out) {
    time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) == NULL || strftime(out, 21, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        memcpy(out, "1970-01-01T00:00:00Z", 21);
}
