// SPDX-License-Identifier: Apache-2.0
// What `serried bench op` measures: kernels with the shapes of ResNet-50 at 224 pixels, and the
// overhead of an operator.
#ifndef SR_LAUNCHER_BENCH_OP_INTERNAL_H
#define SR_LAUNCHER_BENCH_OP_INTERNAL_H

#include <stdbool.h>

#include "kernels/device/device.h"
#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

typedef struct sr_bench_case {
    char shape[64]; // "56x56 64->256 1x1 /2"
    sr_kernel_request request;
    uint32_t twice; // bit i: argument i is read in two passes
    double flops;   // 0: only bytes are counted
} sr_bench_case;

// Calls 'visit' for every case with T = dtype and 'batch' images, until it returns false. joined:
// also kernels of several operators, which devices with streams run (graph/pass_fuse.c).
typedef bool (*sr_bench_visit)(void *user, const sr_bench_case *c);
void sr_bench_op_cases(sr_dtype dtype, int64_t batch, bool joined, sr_bench_visit visit,
                       void *user);
// Random numbers in [-1, 1) for float types; bytes from 0 to 8; other types random bits.
void sr_bench_op_fill(sr_dtype dtype, void *data, int64_t count, uint64_t seed);
// Bytes that the kernel has to read and write.
double sr_bench_case_bytes(const sr_bench_case *c);

// A device whose kernels are enqueued on streams (bench_op_device.c).
typedef struct sr_bench_op_device sr_bench_op_device;
// SR_E_USAGE if the device runs kernels in threads, or cannot be used.
SR_NODISCARD sr_status sr_bench_op_device_open(const char *name, sr_bench_op_device **out);
void sr_bench_op_device_close(sr_bench_op_device *device);
const sr_device_properties *sr_bench_op_device_properties(const sr_bench_op_device *device);
// Runs a kernel for so many seconds, at least 3 and at most 'most' times; times[*runs] in seconds.
// The caches have nothing of its arguments.
SR_NODISCARD sr_status sr_bench_op_device_time(sr_bench_op_device *device,
                                               const sr_kernel_request *request,
                                               const sr_prepared *prepared, double seconds,
                                               double *times, int most, int *runs);

// Host nanoseconds that one operator costs in addition to its kernel (bench_op_cost.c).
typedef struct sr_bench_overhead {
    int operators;        // of the program
    double record_ns;     // calling it in model code
    double find_ns;       // its share of the time to find the plan of an unchanged step
    double start_ns;      // a replay without operators: to the executor's thread and back
    double replay_ns;     // run by an executor with one thread on sixteen numbers, without start_ns
    double kernel_ns;     // the kernel's part of replay_ns
    double compile_ns;    // compiling it into a new plan, without preparing kernels
    uint64_t allocations; // of all steps after the first two
} sr_bench_overhead;
// In a chain of 'operators' operators.
SR_NODISCARD sr_status sr_bench_overhead_measure(int operators, sr_bench_overhead *out);

#endif
