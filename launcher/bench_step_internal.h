// SPDX-License-Identifier: Apache-2.0
// serried bench step: what it was asked for, what it found, and how that is told.
#ifndef SR_LAUNCHER_BENCH_STEP_INTERNAL_H
#define SR_LAUNCHER_BENCH_STEP_INTERNAL_H

#include "kernels/cpu/machine_limits.h"
#include "launcher/bench_internal.h"
#include "trainer/engine.h"

typedef struct sr_step_options {
    const char *recipe;
    const char **overrides; // key=value of the command line
    int override_count;
    const char *precision;
    int64_t batch, lanes, image, classes; // 0: see cmd_bench_step.c
    int threads, blocks, steps;           // steps of a block; 0: so many that it takes two seconds
    double seconds;                       // no block begins later
    bool no_peer, needs_peer, profile, json;
} sr_step_options;

typedef struct sr_step_result {
    sr_recipe *recipe;
    const char *model, *precision;
    int64_t batch, lanes, image, classes;
    int threads, cores, steps;
    sr_series ours, theirs;              // images/s of each block
    sr_series our_cpu, their_cpu;        // processor seconds of a step, of all threads
    int peer_count;                      // processes, each with its share of lanes
    char peer_about[512];                // JSON of the peer; "" where it was not measured
    char peer_reason[512];               // why not
    sr_machine_limits limits;            // of 'threads' threads
    int operators;                       // of a lane
    double flops, bytes;                 // of a step
    size_t peak_bytes, live_bound_bytes; // of a lane, planned
    double allocations;                  // of a step after warm-up
    double record_ns, hash_ns;           // of an operator of a step
    double first_seconds; // first step: recording, compiling, preparing kernels, running
    double others;        // share of the cores that other processes used, most of all blocks
} sr_step_result;

void sr_step_report(const sr_step_result *result);
SR_NODISCARD sr_status sr_step_report_json(const sr_step_result *result);

// Where the time of a lane program goes: one row for each operator and kernel, from the profile of
// all executors; 'seconds' is what 'steps' steps took.
SR_NODISCARD sr_status sr_step_profile(const sr_engine *engine, int steps, double seconds);

// Processor time of this process, of all its threads.
double sr_own_cpu_seconds(void);
// Share (0..1) of the machine's cores that other processes used since the last call of this
// process; 0 where /proc/stat cannot be read.
double sr_load_of_others(void);

#endif
