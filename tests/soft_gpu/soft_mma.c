// SPDX-License-Identifier: Apache-2.0
// Operations of tensor cores, and the copies that feed them: ldmatrix, mma.sync, cp.async (PTX
// ISA 9.0, sections "Warp-level matrix load instruction" and "Matrix fragments for mma.m16n8k16").
//
// PTX leaves open how mma.sync rounds. By default each product is added by itself and rounded to
// nearest. With SOFT_GPU_SUMS=toward-zero sums are those of tensor cores at their coarsest: nine
// terms at a time, the sum so far and eight products, are cut to the last place of the largest of
// them, and their sum is cut to a float.
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/math_inline.h"
#include "tests/soft_gpu/soft_f16.h"
#include "tests/soft_gpu/soft_gpu_internal.h"

enum { LANES = 32, M = 16, N = 8, K = 16, AT_ONCE = 8 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool toward_zero;

static void read_mode(void) {
    const char *mode = getenv("SOFT_GPU_SUMS");
    if (mode && strcmp(mode, "toward-zero") != 0 && strcmp(mode, "nearest") != 0)
        soft_mistake("SOFT_GPU_SUMS=%s: not nearest or toward-zero", mode);
    toward_zero = mode && strcmp(mode, "toward-zero") == 0;
}

static float element(uint32_t pair, int i, bool half) {
    const uint32_t bits = pair >> 16 * i & 0xffff;
    return half ? soft_f16_to_f32((uint16_t)bits) : soft_f32_of(bits << 16);
}

#define SIGN (UINT64_C(1) << 63)
#define FRACTION_BITS 52
#define FRACTION_MASK ((UINT64_C(1) << FRACTION_BITS) - 1)

// The bits of a finite double, without what is below 2^e, where its exponent is at most 23 above.
static double cut(double x, int e) {
    const uint64_t bits = sr_math_to_bits(x);
    const int below = e - ((int)(bits >> FRACTION_BITS & 2047) - 1023);
    if (below > 0)
        return sr_math_from_bits(bits & SIGN);
    return sr_math_from_bits(bits & ~(FRACTION_MASK >> -below));
}

static float cut_to_float(double x) {
    const float near = (float)x;
    return fabs((double)near) > fabs(x) ? nextafterf(near, 0.0f) : near;
}

// Products of two floats of 16 bits, and floats, are 0 or normal doubles.
static float add_cut(float sum, const float *a, const float *b) {
    double terms[1 + AT_ONCE] = {(double)sum}, total = 0;
    for (int k = 0; k < AT_ONCE; k++)
        terms[1 + k] = (double)a[k] * (double)b[k];
    uint64_t largest = 0;
    for (int k = 0; k <= AT_ONCE; k++) {
        const uint64_t size = sr_math_to_bits(terms[k]) & ~SIGN;
        largest = size > largest ? size : largest;
    }
    const int exponent = (int)(largest >> FRACTION_BITS) - 1023; // 1024: infinite, or NaN
    const bool cuts = largest > 0 && exponent < 1024;
    for (int k = 0; k <= AT_ONCE; k++)
        total += cuts ? cut(terms[k], exponent - 23) : terms[k];
    return cut_to_float(total);
}

static float sum_of(float sum, const float *a, const float *b) {
    if (toward_zero) {
        for (int k = 0; k < K; k += AT_ONCE)
            sum = add_cut(sum, a + k, b + k);
        return sum;
    }
    for (int k = 0; k < K; k++)
        sum += a[k] * b[k];
    return sum;
}

void soft_gpu_compute_mma(void *const frames[32]) {
    float a[M][K], b[N][K];
    (void)pthread_once(&once, read_mode);
    for (int lane = 0; lane < LANES; lane++) {
        const soft_gpu_mma *f = frames[lane];
        const int row = lane / 4, k = lane % 4 * 2;
        for (int i = 0; i < 2; i++) {
            for (int part = 0; part < 4; part++)
                a[row + part % 2 * 8][k + part / 2 * 8 + i] = element(f->a[part], i, f->half);
            for (int part = 0; part < 2; part++)
                b[row][k + part * 8 + i] = element(f->b[part], i, f->half);
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        const soft_gpu_mma *f = frames[lane];
        for (int i = 0; i < 4; i++)
            f->c[i] = sum_of(f->c[i], a[lane / 4 + i / 2 * 8], b[lane % 4 * 2 + i % 2]);
    }
}

// Lane l has row l % 8 of matrix l / 8, and gets the elements (l / 4, l % 4 * 2 + 0..1) of each.
void soft_gpu_compute_matrix(void *const frames[32]) {
    for (int lane = 0; lane < LANES; lane++) {
        soft_gpu_matrix *to = frames[lane];
        for (int i = 0; i < 8; i++) {
            const int own = lane / 4, other = lane % 4 * 2 + i % 2;
            const soft_gpu_matrix *from = frames[i / 2 * 8 + (to->transposed ? other : own)];
            to->piece[i] = (const unsigned char *)from->row + 2 * (to->transposed ? own : other);
            memcpy((unsigned char *)&to->r[i / 2] + i % 2 * 2, to->piece[i], 2);
        }
    }
}

void soft_gpu_check_row(soft_gpu_place place, const void *row) {
    if (!soft_is_shared(row, 16) || (uintptr_t)row % 16 != 0)
        soft_mistake(
            "%s (%s:%d): its row at %p is not 16 aligned bytes of the shared memory of the "
            "block, which begins at %p",
            place.operation, place.file, place.line, row, soft_gpu_now.shared);
}

// ---- Copies by cp.async ----

// Each is made at once or when its group is waited for, as the seed says, so that a missing wait
// reads what was there before, and a stage that is filled too early is overwritten under its
// readers.
#define COPIES ((int)(sizeof((soft_copies *)0)->copy / sizeof(soft_copy)))

void soft_copies_begin(soft_copies *copies) {
    copies->count = copies->group = copies->begun = copies->waited = 0;
}

void soft_copies_end(const soft_copies *copies) {
    if (copies->begun > copies->waited)
        soft_mistake("has ended without waiting for its copies by cp.async");
}

bool soft_is_shared(const void *address, size_t bytes) {
    const uintptr_t offset = (uintptr_t)address - (uintptr_t)soft_gpu_now.shared;
    return offset < soft_gpu_now.shared_bytes && bytes <= soft_gpu_now.shared_bytes - offset;
}

static void make(const soft_copy *c) {
    if (c->reports)
        soft_gpu_access(c->to, c->bytes, SOFT_GPU_WRITE);
    memcpy(c->to, c->from, c->from_bytes);
    memset((unsigned char *)c->to + c->from_bytes, 0, c->bytes - c->from_bytes);
}

SOFT_TAKES_TURNS void soft_gpu_copy_async(soft_gpu_place place, void *to, const void *from,
                                          size_t bytes, size_t from_bytes, bool reports) {
    soft_rng *rng;
    soft_copies *copies = soft_own_copies(place.operation, &rng);
    if (!soft_is_shared(to, bytes))
        soft_mistake("%s (%s:%d): to what is not the shared memory of the block", place.operation,
                     place.file, place.line);
    if ((uintptr_t)to % bytes != 0 || (uintptr_t)from % bytes != 0 || from_bytes > bytes)
        soft_mistake("%s (%s:%d): %zu bytes of %zu, from %p to %p, are not aligned",
                     place.operation, place.file, place.line, from_bytes, bytes, from, to);
    const soft_copy copy = {to,     from, (uint32_t)bytes, (uint32_t)from_bytes, copies->group,
                            reports};
    copies->begun = copies->group + 1;
    soft_gpu_now.loaded += reports ? from_bytes : 0;
    if (soft_below(rng, 2) == 1) {
        make(&copy);
        return;
    }
    if (copies->count == (uint32_t)COPIES)
        soft_mistake("%s (%s:%d): more than %d copies under way", place.operation, place.file,
                     place.line, COPIES);
    copies->copy[copies->count++] = copy;
}

void soft_gpu_copy_commit(void) {
    soft_rng *rng;
    soft_own_copies("cp.async.commit_group", &rng)->group++;
}

void soft_gpu_copy_wait(unsigned left) {
    soft_rng *rng;
    soft_copies *copies = soft_own_copies("cp.async.wait_group", &rng);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < copies->count; i++) {
        const soft_copy *c = &copies->copy[i];
        if (c->group + left < copies->group)
            make(c);
        else
            copies->copy[kept++] = *c;
    }
    copies->count = kept;
    const uint32_t made = copies->group > left ? copies->group - left : 0;
    copies->waited = made > copies->waited ? made : copies->waited;
}
