// SPDX-License-Identifier: Apache-2.0
// serried bench step: what it was asked for, what it found, and how that is told.
#ifndef SR_LAUNCHER_BENCH_STEP_INTERNAL_H
#define SR_LAUNCHER_BENCH_STEP_INTERNAL_H

#include "kernels/base/text.h"
#include "kernels/cpu/machine_limits.h"
#include "launcher/bench_internal.h"
#include "trainer/engine.h"

enum { SR_STEP_PEERS = 64, SR_STEP_TRIES = 8 };

typedef struct sr_step_options {
    const char *recipe;
    const char **overrides; // key=value of the command line
    int override_count;
    const char *precision;
    int64_t batch, lanes, image, classes; // 0: see cmd_bench_step.c
    int threads, blocks, steps;           // steps of a block; 0: so many that it takes two seconds
    double seconds;                       // no block begins later
    bool no_peer, needs_peer, profile, memory, plan, json, markdown, serve;
    const char *peer_mode, *peer_malloc; // of PyTorch; NULL: the default, or tried
    int peer_processes;                  // 0: the same
    bool peer_best;                      // try what is not said
    const char *memory_picture, *trace;  // files to write, or NULL
    bool peer_any_groups;                // processes may split a lane's samples
} sr_step_options;

// The processes of one setting of PyTorch.
typedef struct sr_step_peers {
    sr_peer *list[SR_STEP_PEERS];
    int count;
    char about[512];                                                 // JSON of the first
    char name[48], mode[16], malloc[24], capability[24], layout[48]; // the same in words
} sr_step_peers;

typedef struct sr_step_try {
    char setting[96];
    double images_per_s; // of its fastest block; 0 where it was not measured
    char reason[256];    // why not
} sr_step_try;

typedef struct sr_step_result {
    sr_recipe *recipe;
    const char *model, *precision;
    int64_t batch, lanes, image, classes;
    int threads, cores, steps;
    sr_series ours, theirs;           // images/s of each block
    sr_series our_cpu, their_cpu;     // processor seconds of a step, of all threads
    sr_step_peers peers;              // what was kept; count 0 where it was not measured
    char peer_reason[512];            // why not
    sr_step_try tries[SR_STEP_TRIES]; // where several settings were in question
    int try_count;
    const char *mask;                    // SERRIED_CPU_MASK where it is set, NULL
    double our_memory, their_memory;     // bytes, see sr_process_memory; 0 where not measured
    sr_machine_limits limits;            // of 'threads' threads
    int operators;                       // of a lane
    double flops, bytes;                 // of a step
    size_t peak_bytes, live_bound_bytes; // of a lane, planned
    double allocations;                  // of a step after warm-up
    double record_ns, hash_ns;           // of an operator of a step
    double compile_ns;      // of an operator of the first step, beside 'prepare_seconds'
    double prepare_seconds; // of the first step: providers made their kernels ready
    double first_seconds;   // first step: recording, compiling, preparing kernels, running
    double others;          // share of the cores that other processes used, most of all blocks
} sr_step_result;

// As a table and lines of text, or in Markdown.
SR_NODISCARD sr_status sr_step_report(const sr_step_result *result, bool markdown);
SR_NODISCARD sr_status sr_step_report_json(const sr_step_result *result);
// "reference, oneDNN 2.6.3, x86".
void sr_step_add_providers(sr_text *out);
// What share of the measured limits the step took, 0..1; NaN where there is no limit.
double sr_step_flop_share(const sr_step_result *result);
double sr_step_byte_share(const sr_step_result *result);

// SR_E_USAGE where lanes or samples do not divide by the processes asked for.
SR_NODISCARD sr_status sr_step_peers_check(const sr_step_options *options,
                                           const sr_step_result *result);
// Starts the settings in question, warm; keeps the fastest where there are several.
SR_NODISCARD sr_status sr_step_peers_start(const sr_step_options *options, sr_step_result *result,
                                           double our_seconds, sr_step_peers *out);
// A block of result->steps steps into result->theirs; 'our_seconds' is what ours take.
SR_NODISCARD sr_status sr_step_peers_block(sr_step_peers *peers, double our_seconds,
                                           sr_step_result *result);
// result->their_memory: eager PyTorch's, whatever was kept.
SR_NODISCARD sr_status sr_step_peers_memory(const sr_step_peers *kept, sr_step_result *result);
void sr_step_peers_stop(sr_step_peers *peers);

// Where the time of a lane program goes: one row for each operator and kernel, from the profile of
// all executors, with what it reaches of the limits; 'seconds' is what 'steps' steps took.
SR_NODISCARD sr_status sr_step_profile(const sr_engine *engine, int steps, double seconds,
                                       const sr_machine_limits *limits);

// What the largest lane program takes, what lives at its peak, and who holds the memory of the
// process. 'picture': a PNG to write, or NULL.
SR_NODISCARD sr_status sr_step_memory(sr_engine *engine, const sr_step_result *result,
                                      const char *picture);

// Bytes of this process's resident set, and of it at its peak (proc(5): VmRSS, VmHWM); 0 where they
// cannot be read. What a training takes is the peak less what was resident before its engine.
typedef struct sr_process_memory {
    double resident, peak;
} sr_process_memory;
sr_process_memory sr_process_memory_get(void);

// Processor time of this process, of all its threads.
double sr_own_cpu_seconds(void);
// Share (0..1) of the machine's cores that other processes used since the last call of this
// process; 0 where /proc/stat cannot be read.
double sr_load_of_others(void);

#endif
