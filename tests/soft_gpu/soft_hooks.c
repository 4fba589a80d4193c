// SPDX-License-Identifier: Apache-2.0
// The functions that code compiled with -fsanitize=thread calls at each access of memory, in place
// of those of ThreadSanitizer, which is not linked: accesses to shared memory are checked for races
// between the threads of a block (soft_races.c), and bytes of the memory of devices are counted.
// Linked with kernels that are compiled this way.
#include "tests/soft_gpu/soft_gpu.h"

#define HOOK(name, parameters)                                                                     \
    void name parameters;                                                                          \
    void name parameters

static inline void check(const void *address, size_t bytes, soft_gpu_access_kind kind) {
    if ((uintptr_t)address - (uintptr_t)soft_gpu_now.shared < soft_gpu_now.shared_bytes) {
        soft_gpu_access(address, bytes, kind);
        return;
    }
    if ((uintptr_t)address - (uintptr_t)soft_gpu_now.memory >= soft_gpu_now.memory_bytes)
        return;
    if (kind == SOFT_GPU_READ)
        soft_gpu_now.loaded += bytes;
    else if (kind == SOFT_GPU_WRITE)
        soft_gpu_now.stored += bytes;
}

HOOK(__tsan_init, (void)) {}
HOOK(__tsan_func_entry, (void *pc)) {
    (void)pc;
}
HOOK(__tsan_func_exit, (void)) {}

#define ACCESS(bytes)                                                                              \
    HOOK(__tsan_read##bytes, (void *p)) {                                                          \
        check(p, bytes, SOFT_GPU_READ);                                                            \
    }                                                                                              \
    HOOK(__tsan_write##bytes, (void *p)) {                                                         \
        check(p, bytes, SOFT_GPU_WRITE);                                                           \
    }                                                                                              \
    HOOK(__tsan_unaligned_read##bytes, (void *p)) {                                                \
        check(p, bytes, SOFT_GPU_READ);                                                            \
    }                                                                                              \
    HOOK(__tsan_unaligned_write##bytes, (void *p)) {                                               \
        check(p, bytes, SOFT_GPU_WRITE);                                                           \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

HOOK(__tsan_read_range, (void *p, size_t bytes)) {
    check(p, bytes, SOFT_GPU_READ);
}
HOOK(__tsan_write_range, (void *p, size_t bytes)) {
    check(p, bytes, SOFT_GPU_WRITE);
}

// Atomic operations are checked, and done.
#define ATOMIC_FETCH(bits, type, operation)                                                        \
    type __tsan_atomic##bits##_fetch_##operation(type *p, type v, int order);                      \
    type __tsan_atomic##bits##_fetch_##operation(type *p, type v, int order) {                     \
        (void)order;                                                                               \
        check(p, sizeof *p, SOFT_GPU_ATOMIC);                                                      \
        return __atomic_fetch_##operation(p, v, __ATOMIC_SEQ_CST);                                 \
    }
#define ATOMICS(bits, type)                                                                        \
    ATOMIC_FETCH(bits, type, add)                                                                  \
    ATOMIC_FETCH(bits, type, sub)                                                                  \
    ATOMIC_FETCH(bits, type, and)                                                                  \
    ATOMIC_FETCH(bits, type, or)                                                                   \
    ATOMIC_FETCH(bits, type, xor)                                                                  \
    type __tsan_atomic##bits##_load(type *p, int order);                                           \
    type __tsan_atomic##bits##_load(type *p, int order) {                                          \
        (void)order;                                                                               \
        check(p, sizeof *p, SOFT_GPU_ATOMIC);                                                      \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                               \
    }                                                                                              \
    type __tsan_atomic##bits##_exchange(type *p, type v, int order);                               \
    type __tsan_atomic##bits##_exchange(type *p, type v, int order) {                              \
        (void)order;                                                                               \
        check(p, sizeof *p, SOFT_GPU_ATOMIC);                                                      \
        return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                        \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_strong(type *p, type *expected, type v, int order,  \
                                                      int failure_order);                          \
    int __tsan_atomic##bits##_compare_exchange_strong(type *p, type *expected, type v, int order,  \
                                                      int failure_order) {                         \
        (void)order;                                                                               \
        (void)failure_order;                                                                       \
        check(p, sizeof *p, SOFT_GPU_ATOMIC);                                                      \
        return __atomic_compare_exchange_n(p, expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    }
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

HOOK(__tsan_atomic_signal_fence, (int order)) {
    (void)order;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
