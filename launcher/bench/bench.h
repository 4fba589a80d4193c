// SPDX-License-Identifier: Apache-2.0
// The benchmarks of `serried bench` (bench_list.def): each gets its part of the command line, where
// argv[0] is "serried bench NAME", and returns the exit code of the process.
#ifndef SR_LAUNCHER_BENCH_H
#define SR_LAUNCHER_BENCH_H

#ifdef __cplusplus
extern "C" {
#endif

#define SR_BENCH(name, function, help) int function(int argc, char **argv);
#include "launcher/bench/bench_list.def"
#undef SR_BENCH

#ifdef __cplusplus
}
#endif
#endif
