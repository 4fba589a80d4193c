// SPDX-License-Identifier: Apache-2.0
// What benchmarks share: series of measurements, and peers that run beside us.
#ifndef SR_LAUNCHER_BENCH_INTERNAL_H
#define SR_LAUNCHER_BENCH_INTERNAL_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Series of measurements of one thing ----

#define SR_SERIES_MAX 256

typedef struct sr_series {
    double values[SR_SERIES_MAX]; // in the order they were taken
    int count;
} sr_series;

// Further values of a full series are left out.
void sr_series_add(sr_series *series, double value);
// NaN of an empty series, as the two below.
double sr_series_median(const sr_series *series);
double sr_series_min(const sr_series *series);
double sr_series_max(const sr_series *series);

// ---- Peers ----

// A resident program of tests/peers: prints "ready JSON", then answers "run K" with seconds and
// "memory" with bytes.
typedef struct sr_peer sr_peer;

// Starts PYTHON tests/peers/SCRIPT ARGS... (NULL-terminated). PYTHON is SERRIED_PEER_PYTHON, else
// /usr/bin/python3; the folder is SERRIED_PEERS, else in the source tree of this build.
// SR_E_NOT_FOUND where one of them is missing.
SR_NODISCARD sr_status sr_peer_start(const char *script, const char *const *args, sr_peer **out);
// Waits until it is ready; *about is the JSON object it says about itself, borrowed. SR_E_PEER
// (with the last line of its messages) or SR_E_TIMEOUT.
SR_NODISCARD sr_status sr_peer_ready(sr_peer *peer, double limit_seconds, const char **about);
// Asks for 'steps' steps, and waits for their seconds: several peers can run at a time.
SR_NODISCARD sr_status sr_peer_begin(sr_peer *peer, int steps);
SR_NODISCARD sr_status sr_peer_wait(sr_peer *peer, double limit_seconds, double *seconds);
// Its resident set at its peak, less what was resident before it made its model.
SR_NODISCARD sr_status sr_peer_memory(sr_peer *peer, double limit_seconds, double *bytes);
// Processor time that it has used so far, of all its threads.
double sr_peer_cpu_seconds(const sr_peer *peer);
// Holds it, so that what it does on its own account takes nothing from others; sr_peer_begin wakes
// it.
void sr_peer_pause(sr_peer *peer);
// Ends it; NULL is legal.
void sr_peer_stop(sr_peer *peer);

#ifdef __cplusplus
}
#endif
#endif
