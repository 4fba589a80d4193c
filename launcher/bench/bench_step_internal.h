// SPDX-License-Identifier: Apache-2.0
// serried bench step: what it was asked for, what it found, and how that is told.
#ifndef SR_LAUNCHER_BENCH_STEP_INTERNAL_H
#define SR_LAUNCHER_BENCH_STEP_INTERNAL_H

#include "kernels/base/cores.h"
#include "kernels/base/text.h"
#include "kernels/cpu/machine_limits.h"
#include "launcher/bench/bench_internal.h"
#include "trainer/engine/engine.h"

enum { SR_STEP_PEERS = 64, SR_STEP_TRIES = 64, SR_STEP_FINALS = 4, SR_STEP_TEXT = 128 };

// Of batch norm, on PyTorch's side: those of our lanes, others, or both in turns.
typedef enum sr_step_groups {
    SR_STEP_GROUPS_BOTH,
    SR_STEP_GROUPS_EQUAL,
    SR_STEP_GROUPS_OTHER
} sr_step_groups;

typedef struct sr_step_options {
    const char *recipe;
    const char **overrides; // key=value of the command line
    int override_count;
    const char *precision;
    int64_t batch, lanes, image, classes; // 0: see cmd_bench_step.c
    int threads, blocks, steps;           // steps of a block; 0: so many that it takes two seconds
    double seconds;                       // no block begins later
    bool no_peer, needs_peer, profile, memory, plan, json, markdown, serve;
    // Of PyTorch; what is not said is the usual, or tried.
    const char *peer_mode, *peer_malloc, *peer_pinned; // NULL: not said
    int peer_processes;                                // 0: not said
    sr_step_groups peer_groups;
    bool peer_best;                     // try what is not said
    int peer_resident;                  // settings in memory at a time while they are tried
    const char *memory_picture, *trace; // files to write, or NULL
} sr_step_options;

// One way to run PyTorch beside ours.
typedef struct sr_step_setting {
    const char *mode, *malloc, *precision; // malloc: "auto" is tcmalloc where it is installed
    int processes, threads;                // threads of each process
    int passes;                            // forward and backward passes of a process in each step
    bool equal_groups; // a pass takes a lane's samples: batch norm sees the groups of ours
    bool pinned;       // each thread has a processor of its own
} sr_step_setting;

// The processes of a setting, in memory.
typedef struct sr_step_peers {
    sr_peer *list[SR_STEP_PEERS];
    int count;
    char about[512];                           // JSON of the first
    char name[48], malloc[24], capability[24]; // the same in words
} sr_step_peers;

// A setting in question.
typedef struct sr_step_try {
    sr_step_setting setting;
    char text[SR_STEP_TEXT];
    sr_series per_s, share; // images/s of each turn, and beside ours of the same turn
    char reason[256];       // why it was not measured; "": it was
} sr_step_try;

// A setting that takes its blocks in turns with ours.
typedef struct sr_step_final {
    sr_step_setting setting;
    char text[SR_STEP_TEXT];
    sr_step_peers peers;
    sr_series per_s, cpu; // images/s and processor seconds of a step, of each block
    char reason[256];     // why it was not measured; "": it was
} sr_step_final;

typedef struct sr_step_result {
    sr_recipe *recipe;
    const char *model, *precision;
    int64_t batch, lanes, image, classes;
    int threads, cores, steps;
    int cpus[SR_CPUS], cpu_count; // processors that both sides keep to, in the order of taking them
    sr_series ours, our_cpu;      // images/s of each block; processor seconds of a step
    sr_step_final finals[SR_STEP_FINALS];
    int final_count;                  // 0 where PyTorch was not measured
    char peer_reason[512];            // why not
    sr_step_try tries[SR_STEP_TRIES]; // where several settings were in question
    int try_count;
    int setting_count;                   // of all that --peer-best would measure
    const char *mask;                    // SERRIED_CPU_MASK where it is set, NULL
    double our_memory, their_memory;     // bytes, see sr_process_memory; 0 where not measured
    char memory_reason[256];             // why PyTorch's was not measured
    sr_machine_limits limits;            // of 'threads' threads
    int operators;                       // of a lane
    double flops, bytes;                 // of a step
    size_t peak_bytes, live_bound_bytes; // of a lane, planned
    double allocations;                  // of a step after warm-up
    double record_ns, hash_ns;           // of an operator of a step
    double repeated;                     // share of operators that stood in the record already
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

// ---- bench_step_setting.c: the settings in question ----

// SR_E_USAGE where lanes or samples do not divide by the processes asked for.
SR_NODISCARD sr_status sr_step_settings_check(const sr_step_options *options,
                                              const sr_step_result *result);
// Every combination of what is not said where 'best', else the usual ones: at most SR_STEP_FINALS.
// Into out[SR_STEP_TRIES]; returns how many. The allocator is "auto" where it is not said.
int sr_step_settings_list(const sr_step_options *options, const sr_step_result *result, bool best,
                          sr_step_setting *out);
// "eager, tcmalloc, 2 processes of 1 thread, pinned, other groups"; the precision where it is not
// 'own'. 'malloc' is the allocator that was found, or the setting's. Returns 'out'.
const char *sr_step_setting_text(const sr_step_setting *setting, const char *own,
                                 char out[SR_STEP_TEXT]);
// The processors that 'threads' threads keep to: one of each core first.
SR_NODISCARD sr_status sr_step_choose_cpus(int threads, sr_step_result *result);

// ---- bench_step_choice.c: which of them count ----

// The fastest two tries beside ours and, of each kind that is shown, the fastest: with equal groups
// and with others in the precision of ours, and any in another precision. Indices, fastest first,
// into out[SR_STEP_FINALS]; returns how many.
int sr_step_choose_finals(const sr_step_try *tries, int count, const char *precision, int *out);
// The fastest of the finals for which 'want' holds; NULL: of all. -1 where none was measured.
int sr_step_fastest(const sr_step_result *result,
                    bool (*want)(const sr_step_setting *setting, const char *precision));
bool sr_step_equal_groups(const sr_step_setting *setting, const char *precision);
bool sr_step_other_groups(const sr_step_setting *setting, const char *precision);
bool sr_step_other_precision(const sr_step_setting *setting, const char *precision);
// Our speed over theirs, of medians.
double sr_step_ratio(const sr_step_result *result, int final);
// One sentence: what is claimed, beside which setting, and what was not measured.
void sr_step_headline(const sr_step_result *result, sr_text *out);

// ---- bench_step_peer.c: PyTorch's processes ----

// Starts and warms the processes of a setting. After a failure *out is to be stopped, too.
SR_NODISCARD sr_status sr_step_peers_start(const sr_step_result *result,
                                           const sr_step_setting *setting, sr_step_peers *out);
// A block of result->steps steps; 'our_seconds' is what ours take. *seconds is the slowest
// process's, *cpu that of all.
SR_NODISCARD sr_status sr_step_peers_block(sr_step_peers *peers, const sr_step_result *result,
                                           double our_seconds, double *seconds, double *cpu);
// result->their_memory: eager PyTorch's with equal groups, whatever was fastest.
SR_NODISCARD sr_status sr_step_peers_memory(sr_step_result *result);
void sr_step_peers_stop(sr_step_peers *peers);

// ---- bench_step_turns.c: who takes turns with whom ----

// A block of ours, as a part of the result or only to compare with; *images_per_s of it.
typedef struct sr_step_own {
    sr_status (*block)(void *user, bool counts, double *images_per_s);
    void *user;
    double block_seconds; // that one takes about
} sr_step_own;

// Tries the settings in turns with ours where there are more than SR_STEP_FINALS, then starts those
// that are measured. SR_E_PEER where none can be.
SR_NODISCARD sr_status sr_step_finals_start(const sr_step_options *options, const sr_step_own *own,
                                            sr_step_result *result);
// options->blocks blocks of ours, each followed by one of every final.
SR_NODISCARD sr_status sr_step_take_turns(const sr_step_options *options, const sr_step_own *own,
                                          sr_step_result *result);
void sr_step_finals_stop(sr_step_result *result);

// ---- Others ----

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
