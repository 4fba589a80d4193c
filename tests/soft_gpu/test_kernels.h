// SPDX-License-Identifier: Apache-2.0
// Kernels for the tests of the software GPU (test_kernels.cu), as C calls them by their functions.
#ifndef SR_TESTS_SOFT_GPU_TEST_KERNELS_H
#define SR_TESTS_SOFT_GPU_TEST_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vector_args {
    float *y;
    const float *x;
    int64_t count; // y[0 .. count)
    int shift;     // of the element read, or another number
    float value;
} vector_args;

typedef struct large_args {
    float *y;
    unsigned char rest[5000];
} large_args;

typedef struct small_args {
    float *y;
} small_args;

typedef struct language_args {
    float *y;
    const float *x;
    int *out;
    int64_t count;
} language_args;

void fill(const vector_args a);            // y[i] = value
void add(const vector_args a);             // y[i] = x[i] + value
void add_at_once(const vector_args a);     // the same without waiting for the kernel in front
void read_shifted(const vector_args a);    // y[i] = x[i + shift]
void numbers(const vector_args a);         // y of the thread's number = number, in three dimensions
void block_sums(const vector_args a);      // y[block] = sum of the block's x, in shared memory
void block_sums_racy(const vector_args a); // the same without the last barriers
void warp_sums(const vector_args a);       // y[warp] = sum by shuffles
void warp_sums_partial(const vector_args a); // the same, but lane 'shift' has ended
void warp_mask(const vector_args a);         // a ballot whose mask is ~shift
void uneven_barrier(const vector_args a);    // thread 'shift' reaches no barrier
void two_barriers(const vector_args a);      // thread 'shift' waits at another barrier
void undeclared_barrier(const vector_args a);
void write_shared(const vector_args a);   // byte 'shift' of shared memory
void reverse_phases(const vector_args a); // neighbours exchange 'shift' times through shared memory
// Threads write bytes of shared memory and read those 'shift' lanes away, in the way 'count' says:
// 0: __syncthreads is between; 1: __syncwarp; 2: a shuffle, which orders nothing; 3: nothing.
void neighbours(const vector_args a);
void count_shared(const vector_args a);   // y[0] = threads of the block, counted by atomicAdd
void collide_shared(const vector_args a); // all threads write one element
void fresh_shared(const vector_args a);   // reads what nobody wrote
// y[32][16] = a b of one block of 64 threads, where x has the bf16 a[PRODUCT_ROWS][count] and then
// the transposed b[16][count]; further rows of a are 0. shift: the mistake that is made.
enum { PRODUCT_ROWS = 29, PRODUCT_BYTES = 3 * (32 + 16) * 24 * 2 }; // bytes: of shared memory
typedef enum product_mistake {
    PRODUCT_RIGHT,
    PRODUCT_WITHOUT_WAIT,
    PRODUCT_WITHOUT_BARRIER,
    PRODUCT_WRONG_STAGE,
    PRODUCT_ROW_OUTSIDE,
    PRODUCT_WITHOUT_LANE,
    PRODUCT_NEVER_WAITS
} product_mistake;
void staged_product(const vector_args a);
void transpose(const vector_args a); // of four matrices of 8 x 8 elements of 16 bits, to floats
void shuffles(const language_args a);
void language(const language_args a);
void conversions(const language_args a);
void take_large(const large_args a);
void take_small(const small_args a);
void nothing(const vector_args a);
void only_barriers(const vector_args a); // 'shift' of them

#ifdef __cplusplus
}
#endif
#endif
