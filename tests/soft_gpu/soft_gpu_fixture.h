// SPDX-License-Identifier: Apache-2.0
// What the tests of the software GPU share: memory, launches, copies, and processes of their own
// for mistakes.
#ifndef SR_TESTS_SOFT_GPU_FIXTURE_H
#define SR_TESTS_SOFT_GPU_FIXTURE_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/soft_gpu/test_kernels.h"

// Ends the test, in a process of its own, too, unless the call succeeds.
#define OK(call) check_success(call, #call, __FILE__, __LINE__)
void check_success(cudaError_t error, const char *call, const char *file, int line);

// The driver's calls, by entry point.
typedef struct driver_calls {
    CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
    CUresult (*address_free)(CUdeviceptr, size_t);
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                       unsigned long long);
    CUresult (*release)(CUmemGenericAllocationHandle);
    CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
    CUresult (*unmap)(CUdeviceptr, size_t);
    CUresult (*set_access)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
    CUresult (*granularity)(size_t *, const CUmemAllocationProp *,
                            CUmemAllocationGranularity_flags);
    CUresult (*get_access)(unsigned long long *, const CUmemLocation *, CUdeviceptr);
} driver_calls;
driver_calls get_driver(void);

// Memory of the current device. It ends where the bytes, rounded up to pages, end.
void *device_alloc(size_t bytes);
void device_free(void *memory, size_t bytes);
CUmemAllocationProp memory_of(int device);

cudaStream_t make_stream(void);
cudaEvent_t make_event(void);
typedef void (*kernel_function)(const vector_args);
cudaError_t launch(cudaStream_t stream, kernel_function kernel, unsigned blocks, unsigned threads,
                   size_t shared, const vector_args *args);
// The same, but the kernel may begin before the one in front of it has ended.
cudaError_t launch_overlapping(cudaStream_t stream, kernel_function kernel, unsigned blocks,
                               unsigned threads, const vector_args *args);
// With copies through memory that is not registered, which wait.
void upload(void *to, const void *from, size_t bytes, cudaStream_t stream);
void download(void *to, const void *from, size_t bytes, cudaStream_t stream);
// Floats 0, 1, 2, ... on the device.
float *device_iota(int64_t count, cudaStream_t stream);

// Runs a function in a process of its own. Returns how it ended: its exit code, or the signal with
// 1000 added; stderr is in 'text'.
int run_child(void (*function)(void), char *text, size_t bytes);
// Enough for the reports that ThreadSanitizer may put in front of a message.
#define CHILD_TEXT_BYTES 32768
// The process ends by abort(), and its message has this text.
void expect_abort(void (*function)(void), const char *message);
// It ends normally, without a message.
void expect_clean(void (*function)(void));

// Programs with a mistake, each beside the same program without it: 'right' is set while that runs.
extern bool right;
// The mistake ends the process with this message.
void both(void (*function)(void), const char *message);
// It shows in the result, and the process ends with 8; or ThreadSanitizer reports the race first.
void shows(void (*function)(void));

#endif
