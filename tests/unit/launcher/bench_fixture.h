// SPDX-License-Identifier: Apache-2.0
// Benchmarks in tests: a folder of shell scripts that stand in for the peers' programs, and a
// function that runs a command line.
#ifndef SR_TESTS_BENCH_FIXTURE_H
#define SR_TESTS_BENCH_FIXTURE_H

#include "kernels/base/memory.h"
#include "trainer/checkpoint/json_tree.h"

extern const char *bench_program;  // path of serried; main sets it
extern char bench_folder[];        // for scripts and the files of tests
extern char bench_output[1 << 22]; // stdout of the last run

// Set-up of a group of tests: peers are shell scripts of the folder.
int bench_set_up(void **state);
int bench_tear_down(void **state);
// Replaces a peer's program, e.g. "torch_step.py", by a script.
void bench_write_peer(const char *name, const char *script);
// Runs the program with the arguments 'line'; returns the exit code.
int bench_run(const char *line);
// The last run's output as JSON.
const sr_json *bench_json(sr_arena *arena);
double bench_number(const sr_json *json, const char *key);

#endif
