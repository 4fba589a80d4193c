// SPDX-License-Identifier: Apache-2.0
// Measured limits of this machine (see machine_limits.h).
//
// The arithmetic limit is a loop of independent fused multiply-adds, one in four with an operand
// from memory, as matrix kernels have at best: processors lower their clock in such loops, so a
// loop on registers only would overestimate. The best of several short runs counts, as other
// processes may use the machine.
#include "kernels/cpu/machine_limits.h"

#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/cpuid.h"
#include "kernels/base/memory.h"

#define ROUNDS 8
#define LOOPS 200000
#define COPY_BYTES ((size_t)64 << 20)

// Each returns the number of its floating-point operations.
typedef double (*flop_loop)(float *buffer);

static double plain_loop(float *buffer) {
    float sum[16];
    memcpy(sum, buffer, sizeof sum);
    for (int n = 0; n < LOOPS; n++)
        for (int i = 0; i < 16; i++)
            sum[i] = sum[i] * 0.999f + 0.001f;
    memcpy(buffer, sum, sizeof sum);
    return LOOPS * 32.0;
}

#if defined(__x86_64__)
#include <immintrin.h>

// Twelve independent chains; every fourth multiply-add reads memory.
#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

__attribute__((target("avx512f"))) static double avx512_loop(float *buffer) {
#define DECLARE(i) __m512 s##i = _mm512_loadu_ps(buffer + (i)*16);
#define STEP(i)                                                                                    \
    s##i = _mm512_fmadd_ps(s##i, factor, (i) % 4 == 0 ? _mm512_loadu_ps(buffer + (i)*16) : add);   \
    __asm__ volatile("" : "+v"(s##i));
#define KEEP(i) _mm512_storeu_ps(buffer + 256 + (i)*16, s##i);
    CHAINS(DECLARE)
    const __m512 factor = _mm512_set1_ps(0.999f), add = _mm512_set1_ps(0.001f);
    for (int n = 0; n < LOOPS; n++) {
        CHAINS(STEP)
    }
    CHAINS(KEEP)
#undef DECLARE
#undef STEP
#undef KEEP
    return LOOPS * 12.0 * 32.0;
}

__attribute__((target("avx2,fma"))) static double avx2_loop(float *buffer) {
#define DECLARE(i) __m256 s##i = _mm256_loadu_ps(buffer + (i)*16);
#define STEP(i)                                                                                    \
    s##i = _mm256_fmadd_ps(s##i, factor, (i) % 4 == 0 ? _mm256_loadu_ps(buffer + (i)*16) : add);   \
    __asm__ volatile("" : "+x"(s##i));
#define KEEP(i) _mm256_storeu_ps(buffer + 256 + (i)*16, s##i);
    CHAINS(DECLARE)
    const __m256 factor = _mm256_set1_ps(0.999f), add = _mm256_set1_ps(0.001f);
    for (int n = 0; n < LOOPS; n++) {
        CHAINS(STEP)
    }
    CHAINS(KEEP)
#undef DECLARE
#undef STEP
#undef KEEP
    return LOOPS * 12.0 * 16.0;
}

static flop_loop best_loop(void) {
    const uint32_t features = sr_cpu_features();
    return features & SR_CPU_AVX512 ? avx512_loop : features & SR_CPU_AVX2 ? avx2_loop : plain_loop;
}
#else
static flop_loop best_loop(void) {
    return plain_loop;
}
#endif

typedef struct probe {
    float *buffer; // [threads][512]
    char *copy;    // [threads][2][COPY_BYTES]
    flop_loop loop;
    double flops; // of one thread
} probe;

static void run_flops(void *user, int64_t item, int worker) {
    (void)worker;
    probe *p = user;
    const double flops = p->loop(p->buffer + item * 512);
    if (item == 0)
        p->flops = flops;
}

static void run_copy(void *user, int64_t item, int worker) {
    (void)worker;
    const probe *p = user;
    char *from = p->copy + (size_t)item * 2 * COPY_BYTES;
    memcpy(from + COPY_BYTES, from, COPY_BYTES);
}

static double best_seconds(sr_pool *pool, sr_pool_fn fn, probe *p) {
    double best = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t begin = sr_clock_ns();
        sr_pool_run(pool, sr_pool_size(pool), fn, p);
        const double seconds = (double)(sr_clock_ns() - begin) / (double)SR_NS_PER_S;
        best = seconds < best ? seconds : best;
    }
    return best;
}

sr_status sr_machine_limits_measure(sr_pool *pool, sr_machine_limits *out) {
    const size_t threads = (size_t)sr_pool_size(pool);
    probe p = {.loop = best_loop(),
               .buffer = sr_alloc_array(threads * 512, sizeof(float), "a measure of arithmetic"),
               .copy = sr_alloc_array(threads * 2, COPY_BYTES, "a measure of memory")};
    if (p.buffer == NULL || p.copy == NULL) {
        sr_free(p.buffer);
        sr_free(p.copy);
        return SR_E_MEMORY;
    }
    memset(p.copy, 1, threads * 2 * COPY_BYTES);
    const double flop_seconds = best_seconds(pool, run_flops, &p);
    const double copy_seconds = best_seconds(pool, run_copy, &p);
    out->flops = p.flops * (double)threads / flop_seconds;
    out->copy_rate = 2.0 * (double)COPY_BYTES * (double)threads / copy_seconds;
    sr_free(p.buffer);
    sr_free(p.copy);
    return SR_OK;
}
