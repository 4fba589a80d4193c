// SPDX-License-Identifier: Apache-2.0
// What the software GPU offers beside the calls of CUDA: the functions that device_language.h turns
// kernels' operations into, and the registration of kernels (register_kernels.c).
#ifndef SR_TESTS_SOFT_GPU_H
#define SR_TESTS_SOFT_GPU_H

#include <stddef.h>
#include <stdint.h>
#include <vector_types.h>

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

#define SOFT_GPU_EXPORT __attribute__((visibility("default")))
#define SOFT_GPU_SHARED_MAX 232448 // bytes of shared memory of a block, by opt-in

// What a running thread of a kernel knows about itself. In the static part of thread-local storage,
// so that reading an index is one instruction.
typedef struct soft_gpu_thread {
    uint3 thread, block, block_dim, grid_dim;
    void *shared; // memory of the block
    size_t shared_bytes;
} soft_gpu_thread;

extern SOFT_GPU_EXPORT __thread soft_gpu_thread soft_gpu_now
    __attribute__((tls_model("initial-exec")));

// A call of a barrier or a warp operation. A barrier has no mask.
typedef struct soft_gpu_place {
    const char *operation, *file;
    int line;
    uint32_t mask;
} soft_gpu_place;

// Returns when all threads of the block have called it.
SOFT_GPU_EXPORT void soft_gpu_barrier(soft_gpu_place place);
// Returns when all lanes of the warp have called it: the value of lane 'source'.
SOFT_GPU_EXPORT uint64_t soft_gpu_exchange(soft_gpu_place place, uint64_t value, uint32_t source);
// Returns when all lanes of the warp have called it.
SOFT_GPU_EXPORT void soft_gpu_warp_barrier(soft_gpu_place place);
// The lanes whose predicate is not 0.
SOFT_GPU_EXPORT uint32_t soft_gpu_ballot(soft_gpu_place place, int predicate);
// The calling thread's lane.
SOFT_GPU_EXPORT uint32_t soft_gpu_lane(void);

// An access of the calling thread to the shared memory of its block, where kernels are built to
// report them (soft_hooks.c). Ends the process if it races with another thread's.
typedef enum soft_gpu_access_kind {
    SOFT_GPU_READ,
    SOFT_GPU_WRITE,
    SOFT_GPU_ATOMIC
} soft_gpu_access_kind;
SOFT_GPU_EXPORT void soft_gpu_access(const void *address, size_t bytes, soft_gpu_access_kind kind);

// How many events of a kind there were in this process: those of SOFT_GPU_FAULT (README.md), and
// "made", calls that make something: memory, its addresses and mappings, registrations, streams,
// events, graphs.
SOFT_GPU_EXPORT unsigned long soft_gpu_count(const char *kind);

// ---- For stand-ins of libraries (soft_library.c) ----

// Ends the process with a message: a mistake of the product.
SOFT_GPU_EXPORT __attribute__((format(printf, 1, 2), noreturn)) void
soft_gpu_mistake(const char *format, ...);
// Counts an event. 'kind': static storage.
SOFT_GPU_EXPORT void soft_gpu_count_event(const char *kind);
// SERRIED_TEST_SEED.
SOFT_GPU_EXPORT uint64_t soft_gpu_seed(void);
// The device of a stream, -1 of the default stream. Ends the process if the stream was destroyed.
SOFT_GPU_EXPORT int soft_gpu_stream_device(struct CUstream_st *stream);
// The bytes from an address on that a device may access; 0: none.
SOFT_GPU_EXPORT size_t soft_gpu_bytes_at(const void *address, int device);
// The cudaError that a call which allocates memory meets now, in a capture or after a fault; 0:
// none.
SOFT_GPU_EXPORT int soft_gpu_allocates(const char *call);

// Adds the kernels of a module, an array of sr_cuda_kernel.
SOFT_GPU_EXPORT void soft_gpu_register(const void *begin, const void *end);

#ifdef __cplusplus
}
#endif
#endif
