// SPDX-License-Identifier: Apache-2.0
// Softmax, its logarithm, cross-entropy, gradients, counts of hits:
// kernels/cpu/reference/reference_softmax.c.
//
// A block has one row; of rows that are one chunk of a sum it has one for each SR_REFERENCE_WAYS
// threads. A row is read again for each sum and for the result, from caches. The CPU refuses a
// label beyond the classes; here its loss, and the counts of hits, are NaN, as a kernel has no
// other way to say so.
#include <math.h>

#include "kernels/base/math_inline.h"
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_sum.h"

enum { GROUP = 8, LEVELS = 20, THREADS = 128 }; // GROUP: chunks that are summed at a time

static_assert(THREADS == GROUP * SR_REFERENCE_WAYS, "a thread for each sum of a group");

// ---- Sums over classes, by all threads of a block ----

// The largest of this block's logits; NaN if the first one is. Shared: THREADS floats.
template <class T> static __device__ float largest(const void *logits, int64_t row, int64_t k) {
    float *found = (float *)(void *)sr_cuda_shared;
    float most = sr_load<T>(logits, row);
    for (int64_t i = threadIdx.x; i < k; i += THREADS) {
        const float v = sr_load<T>(logits, row + i);
        most = v > most ? v : most;
    }
    found[threadIdx.x] = most;
    __syncthreads();
    for (unsigned step = THREADS / 2; step > 0; step /= 2) {
        if (threadIdx.x < step && found[threadIdx.x + step] > found[threadIdx.x])
            found[threadIdx.x] = found[threadIdx.x + step];
        __syncthreads();
    }
    most = found[0];
    __syncthreads();
    return most;
}

// The sum of term(class), for every thread. Shared: GROUP floats.
template <class Term> static __device__ float sum_classes(int64_t k, const Term &term) {
    float *chunk = (float *)(void *)sr_cuda_shared;
    const int way = threadIdx.x % SR_REFERENCE_WAYS, number = threadIdx.x / SR_REFERENCE_WAYS;
    sr_tree<LEVELS> groups;
    for (int64_t group = 0; group < k; group += GROUP * SR_REFERENCE_CHUNK) {
        const int64_t first = group + number * SR_REFERENCE_CHUNK, left = k - first;
        const float sum = sr_sum_chunk<float>(left < SR_REFERENCE_CHUNK ? left : SR_REFERENCE_CHUNK,
                                              way, [&](int64_t i) { return term(first + i); });
        if (way == 0)
            chunk[number] = sum;
        __syncthreads();
        groups.push(((chunk[0] + chunk[1]) + (chunk[2] + chunk[3])) +
                    ((chunk[4] + chunk[5]) + (chunk[6] + chunk[7])));
        __syncthreads();
    }
    return groups.total(0);
}

// ---- softmax, log_softmax, logsumexp: x, y ----

struct softmax_args {
    const void *x;
    void *y, *workspace;
    int64_t rows, channels;
};

// A row, and the threads that have it: a block, or SR_REFERENCE_WAYS of them.
template <bool BLOCK> struct row_threads {
    static constexpr int step = BLOCK ? THREADS : SR_REFERENCE_WAYS;
    int64_t row, base, n; // its first element; its elements, none where there is no row
    int first;            // element of this thread, which has every step-th one from there

    __device__ row_threads(int64_t rows, int64_t channels) {
        row = BLOCK ? (int64_t)blockIdx.x : sr_thread() / SR_REFERENCE_WAYS;
        base = row * channels;
        n = row < rows ? channels : 0;
        first = (int)threadIdx.x % step;
    }

    template <class T> __device__ float largest_of(const void *x) const {
        if constexpr (BLOCK) {
            return largest<T>(x, base, n);
        } else {
            float most = n > 0 ? sr_load<T>(x, base) : 0.0f;
            for (int64_t i = first; i < n; i += step) {
                const float v = sr_load<T>(x, base + i);
                most = v > most ? v : most;
            }
            for (int distance = 1; distance < step; distance *= 2) {
                const float v = __shfl_xor_sync(0xffffffffu, most, distance, step);
                most = v > most ? v : most;
            }
            return most;
        }
    }

    // The sum of term(element), for every thread.
    template <class Term> __device__ float sum(const Term &term) const {
        if constexpr (BLOCK) {
            return sum_classes(n, term);
        } else {
            const float sum = sr_sum_chunk<float>(n, first, term);
            return __shfl_sync(0xffffffffu, sum, 0, step);
        }
    }

    // y = value(element)
    template <class T, class Value> __device__ void store(void *y, const Value &value) const {
        for (int64_t i = first; i < n; i += step)
            sr_store<T>(y, base + i, value(i));
    }
};

// The sum of exp(x - most) over a row.
template <class T, bool BLOCK>
static __device__ float sum_exponentials(const row_threads<BLOCK> &row, const void *x, float most) {
    return row.sum([&](int64_t i) { return sr_expf_inline(sr_load<T>(x, row.base + i) - most); });
}

template <class T, bool BLOCK> static __device__ void softmax_of(const softmax_args &a) {
    const row_threads<BLOCK> row(a.rows, a.channels);
    const float most = row.template largest_of<T>(a.x);
    const float sum = sum_exponentials<T>(row, a.x, most);
    row.template store<T>(
        a.y, [&](int64_t i) { return sr_expf_inline(sr_load<T>(a.x, row.base + i) - most) / sum; });
}

template <class T, bool BLOCK> static __device__ void log_softmax_of(const softmax_args &a) {
    const row_threads<BLOCK> row(a.rows, a.channels);
    const float most = row.template largest_of<T>(a.x);
    const float lse = sr_logf_inline(sum_exponentials<T>(row, a.x, most));
    row.template store<T>(a.y,
                          [&](int64_t i) { return sr_load<T>(a.x, row.base + i) - most - lse; });
}

template <class T, bool BLOCK> static __device__ void logsumexp_of(const softmax_args &a) {
    const row_threads<BLOCK> row(a.rows, a.channels);
    const float most = row.template largest_of<T>(a.x);
    const float from = most - most == 0 ? most : 0.0f;
    const float sum = sum_exponentials<T>(row, a.x, from);
    if (row.first == 0 && row.n > 0)
        sr_store<T>(a.y, row.row, from + sr_logf_inline(sum));
}

// ---- softmax_grad, log_softmax_grad: y, dy, dx ----

struct softmax_grad_args {
    const void *y, *dy;
    void *dx, *workspace;
    int64_t rows, channels;
};

template <class T, bool BLOCK> static __device__ void softmax_grad_of(const softmax_grad_args &a) {
    const row_threads<BLOCK> row(a.rows, a.channels);
    const float sum = row.sum(
        [&](int64_t i) { return sr_load<T>(a.y, row.base + i) * sr_load<T>(a.dy, row.base + i); });
    row.template store<T>(a.dx, [&](int64_t i) {
        return sr_load<T>(a.y, row.base + i) * (sr_load<T>(a.dy, row.base + i) - sum);
    });
}

template <class T, bool BLOCK>
static __device__ void log_softmax_grad_of(const softmax_grad_args &a) {
    const row_threads<BLOCK> row(a.rows, a.channels);
    const float sum = row.sum([&](int64_t i) { return sr_load<T>(a.dy, row.base + i); });
    row.template store<T>(a.dx, [&](int64_t i) {
        return sr_load<T>(a.dy, row.base + i) - sr_expf_inline(sr_load<T>(a.y, row.base + i)) * sum;
    });
}

// ---- Both ways to assign rows ----

#define ROWS_KERNEL(name, args)                                                                    \
    template <class T> static __device__ void cuda_##name(const args &a) {                         \
        if (a.channels <= SR_REFERENCE_CHUNK)                                                      \
            name##_of<T, false>(a);                                                                \
        else                                                                                       \
            name##_of<T, true>(a);                                                                 \
    }                                                                                              \
    SR_CUDA_TYPED(cuda_##name, args, 128, 1)                                                       \
    sr_status sr_cuda_prepare_##name(const sr_kernel_request *request, sr_prepared *out) {         \
        return prepare_rows<args>(request, cuda_##name##_kernels, out);                            \
    }

template <class A>
static sr_status prepare_rows(const sr_kernel_request *request,
                              const sr_cuda_kernel *const *kernels, sr_prepared *out) {
    const sr_rows_params *p = sr_cuda_params<sr_rows_params>(request);
    const bool chunks = p->channels <= SR_REFERENCE_CHUNK;
    A a = {};
    a.rows = p->rows;
    a.channels = p->channels;
    sr_cuda_making making(request, a, out);
    making.add(kernels[request->dtype[0]], chunks ? sr_blocks_for(p->rows, GROUP) : p->rows,
               THREADS, THREADS * sizeof(float));
    return making.done();
}

ROWS_KERNEL(softmax, softmax_args)
ROWS_KERNEL(log_softmax, softmax_args)
ROWS_KERNEL(logsumexp, softmax_args)
ROWS_KERNEL(softmax_grad, softmax_grad_args)
ROWS_KERNEL(log_softmax_grad, softmax_grad_args)

// ---- softmax_xent: logits, labels, loss, prob ----

struct xent_args {
    const void *logits;
    const int32_t *labels;
    float *loss, *prob;
    void *workspace;
    int64_t k;
    float smoothing;
};

// Fills prob; log sum exp of (x - most), for every thread.
template <class T>
static __device__ float softmax_row(const void *logits, float *prob, int64_t row, int64_t k,
                                    float most) {
    float *p = prob + row;
    for (int64_t i = threadIdx.x; i < k; i += THREADS)
        p[i] = sr_expf_inline(sr_load<T>(logits, row + i) - most);
    __syncthreads();
    const float sum = sum_classes(k, [=](int64_t i) { return p[i]; });
    for (int64_t i = threadIdx.x; i < k; i += THREADS)
        p[i] /= sum;
    return sr_logf_inline(sum);
}

template <class T> static __device__ void cuda_softmax_xent(const xent_args &a) {
    const int64_t row = (int64_t)blockIdx.x * a.k;
    const void *logits = a.logits;
    const int32_t label = a.labels[blockIdx.x];
    const float most = largest<T>(logits, row, a.k);
    const float lse = softmax_row<T>(logits, a.prob, row, a.k, most);
    float loss = 0;
    if (label >= a.k)
        loss = NAN;
    else if (label >= 0)
        loss = lse - (sr_load<T>(logits, row + label) - most);
    if (a.smoothing > 0 && label >= 0 && label < a.k) {
        const float sum =
            sum_classes(a.k, [=](int64_t i) { return sr_load<T>(logits, row + i) - most; });
        loss = (1.0f - a.smoothing) * loss + a.smoothing * (lse - sum / (float)a.k);
    }
    if (threadIdx.x == 0)
        a.loss[blockIdx.x] = loss;
}
SR_CUDA_TYPED(cuda_softmax_xent, xent_args, 128, 1)

sr_status sr_cuda_prepare_softmax_xent(const sr_kernel_request *request, sr_prepared *out) {
    const sr_xent_params *p = sr_cuda_params<sr_xent_params>(request);
    const xent_args a = {NULL, NULL, NULL, NULL, NULL, p->k, (float)p->smoothing};
    sr_cuda_making making(request, a, out);
    making.add(cuda_softmax_xent_kernels[request->dtype[0]], p->n, THREADS,
               THREADS * sizeof(float));
    return making.done();
}

// ---- softmax_xent_grad: prob, labels, dloss, dlogits ----

struct xent_grad_args {
    const float *prob;
    const int32_t *labels;
    const float *dloss;
    void *dlogits, *workspace;
    int64_t count, k;
    float target, share;
};

template <class T> static __device__ void cuda_softmax_xent_grad(const xent_grad_args &a) {
    const int64_t i = sr_thread();
    if (i >= a.count)
        return;
    const int64_t n = sr_divide(i, a.k);
    const int32_t label = a.labels[n];
    const float wanted = a.share + (i - n * a.k == label ? a.target : 0.0f);
    sr_store<T>(a.dlogits, i, label < 0 ? 0.0f : a.dloss[n] * (a.prob[i] - wanted));
}
SR_CUDA_TYPED(cuda_softmax_xent_grad, xent_grad_args, 256, 0)

sr_status sr_cuda_prepare_softmax_xent_grad(const sr_kernel_request *request, sr_prepared *out) {
    const sr_xent_params *p = sr_cuda_params<sr_xent_params>(request);
    const xent_grad_args a = {NULL,
                              NULL,
                              NULL,
                              NULL,
                              NULL,
                              p->n * p->k,
                              p->k,
                              (float)(1.0 - p->smoothing),
                              (float)(p->smoothing / (double)p->k)};
    return sr_cuda_elementwise(request, a, cuda_softmax_xent_grad_kernels[request->dtype[3]],
                               a.count, out);
}

// ---- topk_hits: logits, labels, hits ----

struct topk_args {
    const void *logits;
    const int32_t *labels;
    float *hits;
    uint32_t *found; // of each sample: a sum of the following
    int64_t n, k;
};
enum { BEST = 1, AMONG_FIVE = 2, NO_CLASS = 4 };

template <class T> static __device__ void cuda_topk_hits(const topk_args &a) {
    uint32_t *ahead = (uint32_t *)(void *)sr_cuda_shared; // classes that rank before the label
    const int64_t row = (int64_t)blockIdx.x * a.k;
    const int32_t label = a.labels[blockIdx.x];
    const bool counts = label >= 0 && label < a.k;
    const float mine = counts ? sr_load<T>(a.logits, row + label) : 0.0f;
    uint32_t count = 0;
    for (int64_t i = threadIdx.x; counts && i < a.k; i += THREADS) {
        const float v = sr_load<T>(a.logits, row + i);
        count += v > mine || (v == mine && i < label);
    }
    if (threadIdx.x == 0)
        *ahead = 0;
    __syncthreads();
    if (count > 0)
        atomicAdd(ahead, count);
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    uint32_t found = label >= a.k ? NO_CLASS : 0;
    if (counts && mine == mine) // a NaN is not a hit
        found = (*ahead == 0 ? BEST : 0) + (*ahead < 5 ? AMONG_FIVE : 0);
    a.found[blockIdx.x] = found;
}
SR_CUDA_TYPED(cuda_topk_hits, topk_args, 128, 1)

SR_CUDA_KERNEL(cuda_topk_hits_sum, topk_args, 128, 1) {
    uint32_t *sums = (uint32_t *)(void *)sr_cuda_shared;
    uint32_t best = 0, five = 0, wrong = 0;
    for (int64_t i = threadIdx.x; i < a.n; i += THREADS) {
        const uint32_t found = a.found[i];
        best += (found & BEST) != 0;
        five += (found & AMONG_FIVE) != 0;
        wrong += (found & NO_CLASS) != 0;
    }
    if (threadIdx.x < 3)
        sums[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&sums[0], best);
    atomicAdd(&sums[1], five);
    atomicAdd(&sums[2], wrong);
    __syncthreads();
    if (threadIdx.x < 2)
        a.hits[threadIdx.x] = sums[2] > 0 ? NAN : (float)sums[threadIdx.x];
}

sr_status sr_cuda_prepare_topk_hits(const sr_kernel_request *request, sr_prepared *out) {
    const sr_xent_params *p = sr_cuda_params<sr_xent_params>(request);
    const topk_args a = {NULL, NULL, NULL, NULL, p->n, p->k};
    sr_cuda_making making(request, a, out);
    making.add(cuda_topk_hits_kernels[request->dtype[0]], p->n, THREADS, sizeof(uint32_t));
    making.add(&cuda_topk_hits_sum_kernel, 1, THREADS, 3 * sizeof(uint32_t));
    out->workspace = (size_t)p->n * sizeof(uint32_t);
    return making.done();
}
