// SPDX-License-Identifier: Apache-2.0
// What benchmarks share: series of measurements, and peers, other software to compare with.
#ifndef SR_LAUNCHER_BENCH_INTERNAL_H
#define SR_LAUNCHER_BENCH_INTERNAL_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Series of measurements of one quantity ----

#define SR_SERIES_MAX 256

typedef struct sr_series {
    double values[SR_SERIES_MAX]; // in the order they were taken
    int count;
} sr_series;

// Values beyond the capacity are dropped.
void sr_series_add(sr_series *series, double value);
// NaN if the series is empty; likewise the two below.
double sr_series_median(const sr_series *series);
double sr_series_min(const sr_series *series);
double sr_series_max(const sr_series *series);

// ---- Peers ----

// A running program of tests/peers: it prints "ready JSON", then answers "run K" with seconds and
// "memory" with bytes.
typedef struct sr_peer sr_peer;

// Starts PYTHON tests/peers/SCRIPT ARGS... (NULL-terminated). PYTHON is SERRIED_PEER_PYTHON, else
// /usr/bin/python3; the folder is SERRIED_PEERS, else that of the source tree of this build.
// SR_E_NOT_FOUND if one of them is missing.
SR_NODISCARD sr_status sr_peer_start(const char *script, const char *const *args, sr_peer **out);
// Waits until it is ready; *about is the JSON object with which it describes itself, borrowed.
// SR_E_PEER (with the last line of its messages) or SR_E_TIMEOUT.
SR_NODISCARD sr_status sr_peer_ready(sr_peer *peer, double limit_seconds, const char **about);
// Requests 'steps' steps, and waits for their seconds. Several peers can run at a time.
SR_NODISCARD sr_status sr_peer_begin(sr_peer *peer, int steps);
SR_NODISCARD sr_status sr_peer_wait(sr_peer *peer, double limit_seconds, double *seconds);
// Its peak resident set minus what was resident before it created its model.
SR_NODISCARD sr_status sr_peer_memory(sr_peer *peer, double limit_seconds, double *bytes);
// Processor time that all its threads have used so far.
double sr_peer_cpu_seconds(const sr_peer *peer);
// Stops it (SIGSTOP), so that its background work takes no time from others; sr_peer_begin
// continues it.
void sr_peer_pause(sr_peer *peer);
// Ends it; NULL is legal.
void sr_peer_stop(sr_peer *peer);

#ifdef __cplusplus
}
#endif
#endif
