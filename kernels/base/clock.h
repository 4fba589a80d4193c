// SPDX-License-Identifier: Apache-2.0
// Monotonic time and deadlines. Wall-clock time is for labels only.
#ifndef SR_KERNELS_BASE_CLOCK_H
#define SR_KERNELS_BASE_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SR_NS_PER_S INT64_C(1000000000)
#define SR_NS_PER_MS INT64_C(1000000)

// Nanoseconds of CLOCK_MONOTONIC.
int64_t sr_clock_ns(void);
// Processor time of the calling thread in nanoseconds (CLOCK_THREAD_CPUTIME_ID); a system call.
int64_t sr_clock_thread_ns(void);
// Sleeps; returns early on a signal.
void sr_clock_sleep_ns(int64_t ns);
// "2026-01-31T12:00:00Z" of the wall clock into out (at least 21 bytes).
void sr_clock_utc_label(char *out);

#ifdef __cplusplus
}
#endif
#endif
