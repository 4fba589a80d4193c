// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/cuda_mma.h for a host compiler, which takes its place (device_language.h).
#ifndef SR_TESTS_SOFT_GPU_DEVICE_MMA_H
#define SR_TESTS_SOFT_GPU_DEVICE_MMA_H

#define SR_KERNELS_CUDA_MMA_H

// The place of the caller.
#define SOFT_GPU_CALLER const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SOFT_GPU_CALLED(operation) (soft_gpu_place{operation, file, line, 0xffffffffu})

struct sr_bf16;
struct sr_f16;

namespace soft_gpu_language {
#ifdef SOFT_GPU_RACES
static const bool reports = true;
#else
static const bool reports = false;
#endif

static inline void load_matrix(const soft_gpu_place &place, uint32_t (&r)[4], const void *row,
                               bool transposed) {
    soft_gpu_matrix frame = {r, row, {}, transposed};
    soft_gpu_check_row(place, row);
    soft_gpu_together(place, &frame, soft_gpu_compute_matrix);
    for (int i = 0; reports && i < 8; i++)
        soft_gpu_access(frame.piece[i], 2, SOFT_GPU_READ);
}
} // namespace soft_gpu_language

template <class T>
static inline void sr_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                          SOFT_GPU_CALLER) {
    static_assert(std::is_same<T, sr_bf16>::value || std::is_same<T, sr_f16>::value,
                  "no type of tensor cores");
    soft_gpu_mma frame = {c, a, {b0, b1}, std::is_same<T, sr_f16>::value};
    soft_gpu_together(SOFT_GPU_CALLED("mma.sync"), &frame, soft_gpu_compute_mma);
}

static inline void sr_load_matrix(uint32_t (&r)[4], const void *row, SOFT_GPU_CALLER) {
    soft_gpu_language::load_matrix(SOFT_GPU_CALLED("ldmatrix"), r, row, false);
}
static inline void sr_load_matrix_transposed(uint32_t (&r)[4], const void *row, SOFT_GPU_CALLER) {
    soft_gpu_language::load_matrix(SOFT_GPU_CALLED("ldmatrix.trans"), r, row, true);
}

template <int BYTES>
static inline void sr_copy_async(void *to, const void *from, bool exists, SOFT_GPU_CALLER) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "no size of cp.async");
    soft_gpu_copy_async(SOFT_GPU_CALLED("cp.async"), to, from, BYTES, exists ? BYTES : 0,
                        soft_gpu_language::reports);
}
static inline void sr_copy_commit(void) {
    soft_gpu_copy_commit();
}
template <int LEFT> static inline void sr_copy_wait(void) {
    soft_gpu_copy_wait(LEFT);
}

static inline float sr_exp2(float x) {
    return x < -126.0f ? 0.0f : exp2f(x);
}

#endif
