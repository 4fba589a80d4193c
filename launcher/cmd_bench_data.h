// SPDX-License-Identifier: Apache-2.0
// serried bench data.
#ifndef SR_LAUNCHER_CMD_BENCH_DATA_H
#define SR_LAUNCHER_CMD_BENCH_DATA_H

#ifdef __cplusplus
extern "C" {
#endif

// Runs with argv[0] being "serried bench data"; returns the process's exit code.
int sr_bench_data(int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
