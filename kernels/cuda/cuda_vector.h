// SPDX-License-Identifier: Apache-2.0
// Neighbouring elements that one thread has, moved 16 bytes at a time: kernels that do little with
// each element are limited by memory, and 2 or 4 bytes of each thread do not keep it busy.
//
// Tensors and workspaces are aligned to at least 64 bytes, so a vector is aligned whose first
// element's number is a multiple of its length. Parts of flat arrays (trainer/exchange) may begin
// anywhere: where a count is given, the alignment is looked at, too.
#ifndef SR_KERNELS_CUDA_VECTOR_H
#define SR_KERNELS_CUDA_VECTOR_H

#include <string.h>

#include "kernels/cuda/cuda_kernel.h"

// Before a loop: all its rounds are written out, so that arrays indexed by it are registers; or
// some at a time, so that their loads are under way together.
#ifdef __CUDACC__
#define SR_PRAGMA(text) _Pragma(#text)
#define SR_UNROLL SR_PRAGMA(unroll)
#define SR_UNROLL_BY(rounds) SR_PRAGMA(unroll rounds)
#else
#define SR_UNROLL
#define SR_UNROLL_BY(rounds)
#endif

// Elements of 16 bytes.
template <class T> constexpr int sr_lanes = 16 / (int)sizeof(typename T::type);

// An integer of so many bytes.
template <int BYTES> struct sr_word { typedef uint4 type; };
template <> struct sr_word<8> { typedef uint2 type; };
template <> struct sr_word<4> { typedef uint32_t type; };
template <> struct sr_word<2> { typedef uint16_t type; };
template <> struct sr_word<1> { typedef uint8_t type; };

// v = p[0 .. N-1], as they are; 'load' loads a word.
template <class E, int N, class Load>
static __device__ __forceinline__ void sr_get_by(const E *p, E (&v)[N], const Load &load) {
    typedef typename sr_word<(int)sizeof(E) * N>::type word;
    SR_UNROLL
    for (int i = 0; i < (int)sizeof v / (int)sizeof(word); i++) {
        const word w = load((const word *)(const void *)p + i);
        memcpy((char *)(void *)v + i * sizeof w, &w, sizeof w);
    }
}
template <class E, int N> static __device__ __forceinline__ void sr_get(const E *p, E (&v)[N]) {
    sr_get_by(p, v, [](const auto *word) { return *word; });
}
// The same for what is not needed again: caches drop it before anything else.
template <class E, int N>
static __device__ __forceinline__ void sr_get_last(const E *p, E (&v)[N]) {
    sr_get_by(p, v, [](const auto *word) { return __ldcs(word); });
}

// p[0 .. N-1] = v; 'store' stores a word.
template <class E, int N, class Store>
static __device__ __forceinline__ void sr_put_by(E *p, const E (&v)[N], const Store &store) {
    typedef typename sr_word<(int)sizeof(E) * N>::type word;
    SR_UNROLL
    for (int i = 0; i < (int)sizeof v / (int)sizeof(word); i++) {
        word w;
        memcpy(&w, (const char *)(const void *)v + i * sizeof w, sizeof w);
        store((word *)(void *)p + i, w);
    }
}
template <class E, int N> static __device__ __forceinline__ void sr_put(E *p, const E (&v)[N]) {
    sr_put_by(p, v, [](auto *to, const auto &word) { *to = word; });
}
// The same for what this kernel does not read: caches drop it before its inputs.
template <class E, int N>
static __device__ __forceinline__ void sr_put_last(E *p, const E (&v)[N]) {
    sr_put_by(p, v, [](auto *to, const auto &word) { __stcs(to, word); });
}

// N elements as they are in memory, in as few registers: arrays of 2-byte elements have a register
// for each.
template <class E, int N> struct sr_packed {
    static constexpr int bytes = (int)sizeof(E) * N, word_bytes = bytes < 4 ? bytes : 4;
    typedef typename sr_word<word_bytes>::type word_type;
    word_type word[bytes / word_bytes];

    // Those from p on; zeros if they do not exist; 'last': they are not needed again.
    __device__ __forceinline__ void load(const E *p, bool exist, bool last) {
        const word_type *const from = (const word_type *)(const void *)p;
        if (!exist)
            memset((void *)word, 0, sizeof word);
        else if (last)
            sr_get_last(from, word);
        else
            sr_get(from, word);
    }
    // 'last': this kernel does not read them.
    __device__ __forceinline__ void store(E *p, bool last) const {
        word_type *const to = (word_type *)(void *)p;
        if (last)
            sr_put_last(to, word);
        else
            sr_put(to, word);
    }
};

// Element k, in float.
template <class T, int N>
static __device__ __forceinline__ float sr_element(const sr_packed<typename T::type, N> &packed,
                                                   int k) {
    typedef typename T::type element;
    if constexpr (sizeof(element) == 2 && N % 2 == 0) {
        return T::of_pair(packed.word[k / 2], k % 2 != 0);
    } else {
        element e;
        memcpy((void *)&e, &packed.word[k], sizeof e);
        return T::load(&e);
    }
}

// v = the elements, in float.
template <class T, int N>
static __device__ __forceinline__ void sr_unpack(const sr_packed<typename T::type, N> &packed,
                                                 float (&v)[N]) {
    SR_UNROLL
    for (int k = 0; k < N; k++)
        v[k] = sr_element<T, N>(packed, k);
}

// The elements = v, rounded.
template <class T, int N>
static __device__ __forceinline__ void sr_pack(sr_packed<typename T::type, N> &packed,
                                               const float (&v)[N]) {
    typename T::type element[N];
    SR_UNROLL
    for (int k = 0; k < N; k++)
        T::store(&element[k], v[k]);
    memcpy((void *)packed.word, (const void *)element, sizeof element);
}

// Elements i .. i + N - 1 of an argument of type T, in float.
template <class T, int N>
static __device__ __forceinline__ void sr_load_vector(const void *p, int64_t i, float (&v)[N]) {
    typename T::type raw[N];
    sr_get((const typename T::type *)p + i, raw);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        v[k] = T::load(&raw[k]);
}

// Stores them, rounded.
template <class T, int N>
static __device__ __forceinline__ void sr_store_vector(void *p, int64_t i, const float (&v)[N]) {
    typename T::type raw[N];
    SR_UNROLL
    for (int k = 0; k < N; k++)
        T::store(&raw[k], v[k]);
    sr_put((typename T::type *)p + i, raw);
}

template <class T, int N> static __device__ __forceinline__ bool sr_is_aligned(const void *p) {
    return (uintptr_t)p % sizeof(typename sr_word<(int)sizeof(typename T::type) * N>::type) == 0;
}

// The same of an argument of 'count' elements, i < count: those beyond are 0, and not stored.
template <class T, int N>
static __device__ __forceinline__ void sr_load_vector(const void *p, int64_t i, int64_t count,
                                                      float (&v)[N]) {
    if (i + N <= count && sr_is_aligned<T, N>(p)) {
        sr_load_vector<T>(p, i, v);
        return;
    }
    SR_UNROLL
    for (int k = 0; k < N; k++)
        v[k] = i + k < count ? sr_load<T>(p, i + k) : 0.0f;
}

template <class T, int N>
static __device__ __forceinline__ void sr_store_vector(void *p, int64_t i, int64_t count,
                                                       const float (&v)[N]) {
    if (i + N <= count && sr_is_aligned<T, N>(p)) {
        sr_store_vector<T>(p, i, v);
        return;
    }
    SR_UNROLL
    for (int k = 0; k < N; k++)
        if (i + k < count)
            sr_store<T>(p, i + k, v[k]);
}

#endif
