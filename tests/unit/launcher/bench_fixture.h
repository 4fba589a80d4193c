// SPDX-License-Identifier: Apache-2.0
// Benchmarks in tests: a folder where shell scripts take the part of the peers' programs, and the
// command run by its line.
#ifndef SR_TESTS_BENCH_FIXTURE_H
#define SR_TESTS_BENCH_FIXTURE_H

#include "kernels/base/memory.h"
#include "trainer/checkpoint/json_tree.h"

extern const char *bench_program;  // path of serried; main sets it
extern char bench_folder[];        // of scripts, and for what a test writes
extern char bench_output[1 << 16]; // stdout of the last run

// Of a group: peers are shell scripts of the folder.
int bench_set_up(void **state);
int bench_tear_down(void **state);
// Puts a script in the place of a peer's program, e.g. "torch_step.py".
void bench_write_peer(const char *name, const char *script);
// Runs the program with 'line' behind it; returns the exit code.
int bench_run(const char *line);
// The last run's output as JSON.
const sr_json *bench_json(sr_arena *arena);
double bench_number(const sr_json *json, const char *key);

#endif
