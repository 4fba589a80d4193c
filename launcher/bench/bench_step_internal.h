// SPDX-License-Identifier: Apache-2.0
// serried bench step: its options, its result, and the functions that report it.
#ifndef SR_LAUNCHER_BENCH_STEP_INTERNAL_H
#define SR_LAUNCHER_BENCH_STEP_INTERNAL_H

#include "kernels/base/cores.h"
#include "kernels/base/text.h"
#include "kernels/cpu/machine_limits.h"
#include "launcher/bench/bench_internal.h"
#include "trainer/engine/engine.h"

enum { SR_STEP_PEERS = 64, SR_STEP_TRIES = 64, SR_STEP_FINALS = 4, SR_STEP_TEXT = 128 };

// Groups of samples that batch norm of PyTorch normalises over: those of our lanes, others, or
// both.
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
    int threads, blocks, steps;           // steps of a block; 0: as many as take two seconds
    int depth;                            // of the layers in a profile; 0: all
    double seconds;                       // no block begins after this time
    bool names_peer;                      // by a setting of it, which is useless without one
    bool no_peer, needs_peer, profile, memory, plan, json, markdown, serve;
    // For PyTorch; what is not given takes its default, or all values are tried.
    const char *peer_mode, *peer_malloc, *peer_pinned, *peer_precision; // NULL: not given
    int peer_processes;                                                 // 0: not given
    sr_step_groups peer_groups;
    bool peer_best;                     // try all values of what is not given
    int peer_resident;                  // settings in memory at a time during the trials
    const char *memory_picture, *trace; // files to write, or NULL
    const char *gpu;                    // to plan for, or NULL (bench_gpu_internal.h)
} sr_step_options;

// One way to run PyTorch.
typedef struct sr_step_setting {
    const char *mode, *malloc, *precision; // malloc: "auto" is tcmalloc if it is installed
    int processes, threads;                // threads of each process
    int passes;                            // forward and backward passes of a process in each step
    bool equal_groups; // a pass takes the samples of a lane, so batch norm has our groups
    bool pinned;       // each thread has its own processor
} sr_step_setting;

// The running processes of a setting.
typedef struct sr_step_peers {
    sr_peer *list[SR_STEP_PEERS];
    int count;
    char about[512];                           // JSON of the first
    char name[48], malloc[24], capability[24]; // the same in words
} sr_step_peers;

// A setting that is tried.
typedef struct sr_step_try {
    sr_step_setting setting;
    char text[SR_STEP_TEXT];
    sr_series per_s, share; // images/s of each turn, absolute and relative to ours of the same turn
    char reason[256];       // why it was not measured; "": it was
} sr_step_try;

// A setting whose blocks alternate with ours.
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
    const char *peer_precision;         // the narrowest that PyTorch is measured in
    const sr_device_properties *device; // of our engine; NULL: processors
    int64_t batch, lanes, image, classes;
    int lanes_at_once; // side by side, by our engine
    int threads, cores, steps;
    int cpus[SR_CPUS], cpu_count; // processors that both sides use, in the order of assignment
    sr_series ours, our_cpu;      // images/s of each block; processor seconds of a step
    sr_step_final finals[SR_STEP_FINALS];
    int final_count;                  // 0 if PyTorch was not measured
    char peer_reason[512];            // why not
    sr_step_try tries[SR_STEP_TRIES]; // empty unless several settings were tried
    int try_count;
    int setting_count;                   // number of settings that --peer-best would measure
    const char *mask;                    // SERRIED_CPU_MASK, or NULL
    double our_memory, their_memory;     // bytes, see sr_process_memory; 0 if not measured
    char memory_reason[256];             // why PyTorch's was not measured
    sr_machine_limits limits;            // of 'threads' threads, or of the GPU; 0: unknown
    const char *limit_products;          // what limits.flops counts
    int operators;                       // of a lane
    double flops, bytes;                 // of a step
    size_t peak_bytes, live_bound_bytes; // of a lane, planned
    double allocations;                  // of a step after warm-up
    double record_ns, hash_ns;           // of an operator of a step
    double repeated;                     // share of operators that repeat the previous step
    double compile_ns;      // of an operator of the first step, without 'prepare_seconds'
    double prepare_seconds; // of the first step: preparing kernels
    double first_seconds;   // first step: recording, compiling, preparing kernels, running
    double others; // highest share of the cores, over all blocks, that other processes used
} sr_step_result;

// Whether our kernels are those of processors, whose limits are measured here.
bool sr_step_is_on_cpu(const sr_step_result *result);
// Prints a table and lines of text, or Markdown.
SR_NODISCARD sr_status sr_step_report(const sr_step_result *result, bool markdown);
typedef struct sr_step_profile sr_step_profile;
// profile: NULL: none.
SR_NODISCARD sr_status sr_step_report_json(const sr_step_result *result,
                                           const sr_step_profile *profile, int depth);
// "reference, oneDNN 2.6.3, x86".
void sr_step_add_providers(sr_text *out);
// The step's share of the measured limits; NaN if a limit is unknown.
double sr_step_flop_share(const sr_step_result *result);
double sr_step_byte_share(const sr_step_result *result);

// ---- bench_step_setting.c: the settings to measure ----

// SR_E_USAGE if the requested processes do not divide the lanes or samples, or PyTorch's precision
// is narrower than ours.
SR_NODISCARD sr_status sr_step_settings_check(const sr_step_options *options,
                                              const sr_step_result *result);
// If 'best', every combination of the options that are not given, otherwise the usual ones, at most
// SR_STEP_FINALS. Writes them to out[SR_STEP_TRIES] and returns the number. The allocator is "auto"
// if it is not given.
int sr_step_settings_list(const sr_step_options *options, const sr_step_result *result, bool best,
                          sr_step_setting *out);
// "eager, tcmalloc, 2 processes of 1 thread, pinned, other groups", preceded by the precision if it
// is not 'own'. Returns 'out'.
const char *sr_step_setting_text(const sr_step_setting *setting, const char *own,
                                 char out[SR_STEP_TEXT]);
// Binds this process to processors for 'threads' threads: one of each core first.
SR_NODISCARD sr_status sr_step_choose_cpus(int threads, sr_step_result *result);

// ---- bench_step_choice.c: the settings to measure again and to report ----

// The two fastest tries relative to ours, and the fastest of each kind that is reported: with equal
// groups and with others in 'precision', and in another one. Writes indices, the fastest first, to
// out[SR_STEP_FINALS]; returns the number.
int sr_step_choose_finals(const sr_step_try *tries, int count, const char *precision, int *out);
// The fastest of the finals for which 'want' is true (NULL: of all). -1 if none was measured.
int sr_step_fastest(const sr_step_result *result,
                    bool (*want)(const sr_step_setting *setting, const char *precision));
bool sr_step_equal_groups(const sr_step_setting *setting, const char *precision);
bool sr_step_other_groups(const sr_step_setting *setting, const char *precision);
bool sr_step_other_precision(const sr_step_setting *setting, const char *precision);
// Our median speed divided by that of the final.
double sr_step_ratio(const sr_step_result *result, int final);
// One sentence: the ratio, the setting it refers to, and what was not measured.
void sr_step_headline(const sr_step_result *result, sr_text *out);

// ---- bench_step_peer.c: the processes of PyTorch ----

// Starts the processes of a setting and warms them up. *out must be stopped even after a failure.
SR_NODISCARD sr_status sr_step_peers_start(const sr_step_result *result,
                                           const sr_step_setting *setting, sr_step_peers *out);
// A block of result->steps steps; 'our_seconds' is the time of our block. *seconds: of the slowest
// process, *cpu: processor seconds of all.
SR_NODISCARD sr_status sr_step_peers_block(sr_step_peers *peers, const sr_step_result *result,
                                           double our_seconds, double *seconds, double *cpu);
// Sets result->their_memory: that of eager PyTorch with equal groups, whichever setting was
// fastest.
SR_NODISCARD sr_status sr_step_peers_memory(sr_step_result *result);
void sr_step_peers_stop(sr_step_peers *peers);

// ---- bench_step_turns.c: alternating blocks ----

// Runs one of our blocks, which is part of the result if 'counts'; *images_per_s: its speed.
typedef struct sr_step_own {
    sr_status (*block)(void *user, bool counts, double *images_per_s);
    void *user;
    double block_seconds; // approximate duration of a block
} sr_step_own;

// If there are more than SR_STEP_FINALS settings, tries them, alternating with ours; then starts
// those that are measured. SR_E_PEER if none can be measured.
SR_NODISCARD sr_status sr_step_finals_start(const sr_step_options *options, const sr_step_own *own,
                                            sr_step_result *result);
// Runs options->blocks of our blocks, each followed by one of every final.
SR_NODISCARD sr_status sr_step_take_turns(const sr_step_options *options, const sr_step_own *own,
                                          sr_step_result *result);
void sr_step_finals_stop(sr_step_result *result);

// ---- Others ----

// How the time of a lane program is distributed, from the profiles of all executors; 'steps' steps
// took 'seconds'. Borrows names from the engine.
SR_NODISCARD sr_status sr_step_profile_take(const sr_engine *engine, int steps, double seconds,
                                            sr_step_profile **out);
void sr_step_profile_free(sr_step_profile *profile); // NULL is legal
// Prints a row for each operator and kernel, with its share of the limits, and one for each layer
// down to a depth (0: all).
void sr_step_profile_print(const sr_step_profile *profile, const sr_step_result *result, int depth);
// The same as a member of a JSON object, without the limits.
void sr_step_profile_add_json(const sr_step_profile *profile, int depth, sr_text *out);

// Prints the memory of the largest lane program, the values live at its peak, and the owners of the
// memory of the process. 'picture': a PNG to write, or NULL.
SR_NODISCARD sr_status sr_step_memory(sr_engine *engine, const sr_step_result *result,
                                      const char *picture);

// The resident set of this process now and at its peak, in bytes (proc(5): VmRSS, VmHWM); 0 if they
// cannot be read. The memory of a training run is the peak minus what was resident before its
// engine.
typedef struct sr_process_memory {
    double resident, peak;
} sr_process_memory;
sr_process_memory sr_process_memory_get(void);

// Processor time of all threads of this process.
double sr_own_cpu_seconds(void);
// Share (0..1) of the machine's cores that other processes used since the last call; 0 if
// /proc/stat cannot be read.
double sr_load_of_others(void);

#endif
