// SPDX-License-Identifier: Apache-2.0
// What the software GPU offers beside the calls of CUDA: the functions that device_language.h turns
// kernels' operations into, and the registration of kernels (register_kernels.c).
#ifndef SR_TESTS_SOFT_GPU_H
#define SR_TESTS_SOFT_GPU_H

#include <stdbool.h>
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
    void *memory; // of all devices, as kernels see it
    size_t memory_bytes;
    uint64_t loaded, stored; // bytes of it in this launch, where kernels report their accesses
} soft_gpu_thread;

extern SOFT_GPU_EXPORT __thread soft_gpu_thread soft_gpu_now
    __attribute__((tls_model("initial-exec")));

// A call of a barrier or a warp operation. A barrier has no mask.
typedef struct soft_gpu_place {
    const char *operation, *file;
    int line;
    uint32_t mask;
} soft_gpu_place;

// The calling thread's block has waited for the kernel in front.
SOFT_GPU_EXPORT void soft_gpu_follow(void);
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
// Returns when all 32 lanes of the warp have called it: the last one calls compute(frames) for all.
typedef void (*soft_gpu_compute)(void *const frames[32]);
SOFT_GPU_EXPORT void soft_gpu_together(soft_gpu_place place, void *frame, soft_gpu_compute compute);

// mma.sync (soft_mma.c): c += a b, for soft_gpu_together.
typedef struct soft_gpu_mma {
    float *c;          // [4]
    const uint32_t *a; // [4]
    uint32_t b[2];
    bool half; // of f16; else of bf16
} soft_gpu_mma;
SOFT_GPU_EXPORT void soft_gpu_compute_mma(void *const frames[32]);
// ldmatrix: 'row' is what the lane gives to it, 'piece' what it read for each half of r.
typedef struct soft_gpu_matrix {
    uint32_t *r; // [4]
    const void *row;
    const void *piece[8];
    bool transposed;
} soft_gpu_matrix;
SOFT_GPU_EXPORT void soft_gpu_compute_matrix(void *const frames[32]);
// Ends the process unless ldmatrix can read this row.
SOFT_GPU_EXPORT void soft_gpu_check_row(soft_gpu_place place, const void *row);

// cp.async: the copy is made at some moment until a wait for its group. What is beyond
// 'from_bytes' becomes 0. Ends the process if it cannot be made. 'reports': whether the kernel is
// built to report accesses.
SOFT_GPU_EXPORT void soft_gpu_copy_async(soft_gpu_place place, void *to, const void *from,
                                         size_t bytes, size_t from_bytes, bool reports);
SOFT_GPU_EXPORT void soft_gpu_copy_commit(void);
// Waits for all groups but the last 'left'.
SOFT_GPU_EXPORT void soft_gpu_copy_wait(unsigned left);

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
// The bytes of memory of devices that all launches so far, which are done, have loaded and stored,
// if the kernels are built to report their accesses; without atomic operations.
SOFT_GPU_EXPORT void soft_gpu_traffic(uint64_t *loaded, uint64_t *stored);

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
