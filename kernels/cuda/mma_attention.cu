// SPDX-License-Identifier: Apache-2.0
// Multi-head attention and its gradients by tensor cores, in one pass over the keys, or queries
// (Dao 2023, FlashAttention-2). All results are weighted sums of rows,
//
//   out[own] = sum over others  weight(own, other)  row[other]
//
//         own      others    weight                                row
//   y     query    key       exp(score - largest), over their sum  v
//   dq    query    key       dscore = p (dy v - dy y)              k      p = exp(score - lse)
//   dk    key      query     dscore                                q
//   dv    key      query     p                                     dy
//
// and the gradient of the bias is the sum of dscore over the batches that have it.
//
// A warp has 16 own tokens of a head, a block 64. Its others pass through shared memory, 64 at a
// time, and the next 64 are copied meanwhile. Weights never leave registers: they are products of
// own rows with those of others, which a lane has where the next product wants them. So dq, and dk
// with dv, form the scores anew, and nothing is added by atomics.
//
// Weights are rounded to the type of the activations, as rows are; sums are in fp32, and the
// largest score is that of the tiles so far. A block's work follows from its own head alone, so
// lanes of samples may lie side by side.
#include <math.h>

#include "kernels/base/math_inline.h"
#include "kernels/cuda/cuda_cut.h"
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_mma.h"
#include "kernels/cuda/cuda_mma_provider.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_sum.h"
#include "kernels/cuda/cuda_vector.h"
#include "kernels/kernel_lanes.h"

#define LOG2_E 1.44269504f
#define LN_2 0.693147181f

enum {
    WARP = 32,
    WARPS = 4,
    THREADS = WARPS * WARP,
    SIDE = 16, // own tokens of a warp, others of a product, channels of a step
    TOKENS = WARPS * SIDE,
    STAGES = 2,
};

struct attention_shape {
    int64_t batches, heads, biases, stride; // stride: elements between tokens
    int32_t queries, keys, depth;
    float scale;
};

static attention_shape shape_of(const sr_attention_params *p) {
    return {p->batches,          p->heads,         p->biases,         p->heads * p->depth,
            (int32_t)p->queries, (int32_t)p->keys, (int32_t)p->depth, (float)p->scale};
}

// What a block has in shared memory. A row takes 16 bytes more than a multiple of 64, so that the
// eight rows that are read at once lie in different banks.
template <int DEPTH> struct attention_rows { uint16_t at[TOKENS][DEPTH + 8]; };
template <int DEPTH> struct attention_tiles {
    attention_rows<DEPTH> others[STAGES][2]; // k, v or q, dy
    attention_rows<DEPTH> own;               // q or k
};
template <int DEPTH> struct attention_grad_tiles {
    attention_tiles<DEPTH> rows;
    attention_rows<DEPTH> second;    // own dy or v
    float number[STAGES][2][TOKENS]; // lse and mean of others that are queries
};

// A head, and the first of the block's own tokens.
struct attention_head {
    int64_t number, batch, queries, keys; // queries, keys: where its rows begin
    int32_t first;

    __device__ attention_head(const attention_shape &s, int32_t tokens) {
        const int64_t tiles = (tokens + TOKENS - 1) / TOKENS;
        number = sr_divide(blockIdx.x, tiles);
        first = (int32_t)(blockIdx.x - number * tiles) * TOKENS;
        batch = sr_divide(number, s.heads);
        const int64_t head = number - batch * s.heads;
        queries = batch * s.queries * s.stride + head * s.depth;
        keys = batch * s.keys * s.stride + head * s.depth;
    }

    __device__ const float *bias(const attention_shape &s, const float *all) const {
        const int64_t head = number - batch * s.heads;
        return s.biases > 0 ? all + (batch % s.biases * s.heads + head) * s.queries * s.keys : NULL;
    }
};

static __device__ int warp_number(void) {
    return threadIdx.x / WARP;
}
static __device__ int lane_number(void) {
    return threadIdx.x % WARP;
}

// Begins to copy the rows of tokens first, first + 1, ... of 'count'; zeros beyond.
template <int DEPTH>
static __device__ __forceinline__ void copy_rows(attention_rows<DEPTH> *to, const void *rows,
                                                 const attention_shape &s, int32_t first,
                                                 int32_t count) {
    constexpr int VECTORS = DEPTH / 8, ROWS = THREADS / VECTORS;
    const int row = threadIdx.x / VECTORS, column = threadIdx.x % VECTORS * 8;
    const uint16_t *from = (const uint16_t *)rows + (first + row) * s.stride + column;
    SR_UNROLL
    for (int i = 0; i < TOKENS; i += ROWS, from += ROWS * s.stride) {
        const bool exists = first + row + i < count && column < s.depth;
        sr_copy_async<16>(&to->at[row + i][column], exists ? from : rows, exists);
    }
}

static __device__ void copy_numbers(float *to, const float *from, int32_t first, int32_t count) {
    const int i = threadIdx.x;
    if (i < TOKENS)
        sr_copy_async<4>(&to[i], from + (first + i < count ? first + i : 0), first + i < count);
}

// a: own rows of this warp, channels 16 step ...
template <int DEPTH>
static __device__ void get_own(uint32_t (&a)[4], const attention_rows<DEPTH> &own, int step) {
    const int lane = lane_number();
    sr_load_matrix(a, &own.at[warp_number() * SIDE + lane % 16][step * SIDE + lane / 16 * 8]);
}

// Own rows, which stay in registers if there is room.
template <int DEPTH, bool KEPT> struct own_rows {
    const attention_rows<DEPTH> *rows;
    uint32_t kept[KEPT ? DEPTH / SIDE : 1][4];

    __device__ own_rows(const attention_rows<DEPTH> *from) : rows(from) {}
    // When they have arrived.
    __device__ void keep() {
        SR_UNROLL
        for (int step = 0; KEPT && step < DEPTH / SIDE; step++)
            get_own(kept[step], *rows, step);
    }
    __device__ void get(uint32_t (&a)[4], int step) const {
        if (!KEPT)
            get_own(a, *rows, step);
        SR_UNROLL
        for (int i = 0; KEPT && i < 4; i++)
            a[i] = kept[step][i];
    }
};

// c = the products of own rows with 16 others, in two columns of eight.
template <class T, int DEPTH, bool KEPT>
static __device__ __forceinline__ void products(float (&c)[2][4], const own_rows<DEPTH, KEPT> &own,
                                                const attention_rows<DEPTH> &others, int first) {
    const int lane = lane_number(), row = first + lane % 8 + lane / 16 * 8,
              column = lane / 8 % 2 * 8;
    SR_UNROLL
    for (int i = 0; i < 4; i++)
        c[0][i] = c[1][i] = 0.0f;
    SR_UNROLL
    for (int step = 0; step < DEPTH / SIDE; step++) {
        uint32_t a[4], b[4];
        own.get(a, step);
        sr_load_matrix(b, &others.at[row][step * SIDE + column]);
        sr_mma<T>(c[0], a, b[0], b[1]);
        sr_mma<T>(c[1], a, b[2], b[3]);
    }
}

// out += weights of 16 others times their rows
template <class T, int DEPTH>
static __device__ __forceinline__ void add_rows(float (&out)[DEPTH / 8][4],
                                                const float (&weight)[2][4],
                                                const attention_rows<DEPTH> &others, int first) {
    const int lane = lane_number();
    uint32_t a[4];
    SR_UNROLL
    for (int i = 0; i < 4; i++)
        a[i] = T::pair(weight[i / 2][i % 2 * 2], weight[i / 2][i % 2 * 2 + 1]);
    SR_UNROLL
    for (int step = 0; step < DEPTH / SIDE; step++) {
        uint32_t b[4];
        sr_load_matrix_transposed(b, &others.at[first + lane % 16][step * SIDE + lane / 16 * 8]);
        sr_mma<T>(out[2 * step], a, b[0], b[1]);
        sr_mma<T>(out[2 * step + 1], a, b[2], b[3]);
    }
}

// Of the four lanes that share rows.
static __device__ float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
static __device__ float larger(float a, float b) {
    return b > a ? b : a;
}
static __device__ float quad_largest(float x) {
    x = larger(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return larger(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// Stores own rows times a factor for each of a lane's two. 'rows' is the block's: the part of this
// warp, which no other one reads, is overwritten.
template <class T, int DEPTH>
static __device__ void store_rows(attention_rows<DEPTH> *rows, const float (&out)[DEPTH / 8][4],
                                  const float (&factor)[2], const attention_shape &s,
                                  const attention_head &h, void *to, int64_t begin, int32_t count) {
    constexpr int VECTORS = DEPTH / 8;
    const int lane = lane_number(), own = warp_number() * SIDE;
    __syncwarp();
    SR_UNROLL
    for (int n = 0; n < DEPTH / 8; n++) {
        for (int i = 0; i < 2; i++) {
            const uint32_t pair = T::pair(out[n][2 * i] * factor[i], out[n][2 * i + 1] * factor[i]);
            memcpy((void *)&rows->at[own + lane / 4 + 8 * i][n * 8 + lane % 4 * 2], &pair,
                   sizeof pair);
        }
    }
    __syncwarp();
    for (int i = lane; i < SIDE * VECTORS; i += WARP) {
        const int row = own + i / VECTORS, column = i % VECTORS * 8;
        uint16_t v[8];
        sr_get(&rows->at[row][column], v);
        if (h.first + row < count && column < s.depth)
            sr_put((uint16_t *)to + begin + (h.first + row) * s.stride + column, v);
    }
}

// ---- attention: q, k, v, bias, y, lse ----

struct attention_args {
    const void *q, *k, *v;
    const float *bias;
    void *y;
    float *lse;
    void *workspace;
    attention_shape s;
};

// Of two own tokens, in units of ln 2.
struct attention_softmax {
    float largest[2], sum[2]; // sum: of this lane's weights
};

// Products of rows become scores times log2(e). 'own' is the first of the lane's two own tokens,
// 'other' the first other token of the columns.
template <bool OWN_QUERIES, int COLUMNS>
static __device__ __forceinline__ void to_scores(float (&x)[COLUMNS][4], const attention_shape &s,
                                                 const float *bias, int32_t own, int32_t other) {
    const float scale = s.scale * LOG2_E;
    const int32_t column = other + lane_number() % 4 * 2;
    SR_UNROLL
    for (int n = 0; n < COLUMNS; n++) {
        SR_UNROLL
        for (int i = 0; i < 4; i++)
            x[n][i] *= scale;
    }
    if (!bias)
        return;
    SR_UNROLL
    for (int n = 0; n < COLUMNS; n++) {
        SR_UNROLL
        for (int i = 0; i < 4; i++) {
            const int32_t row = own + i / 2 * 8, at = column + n * 8 + i % 2;
            const int32_t query = OWN_QUERIES ? row : at, key = OWN_QUERIES ? at : row;
            if (query < s.queries && key < s.keys)
                x[n][i] = __fmaf_rn(bias[query * s.keys + key], LOG2_E, x[n][i]);
        }
    }
}

// Scores of others beyond the last one become -infinity.
template <int COLUMNS>
static __device__ __forceinline__ void remove_beyond(float (&x)[COLUMNS][4], int32_t other,
                                                     int32_t count) {
    if (other + COLUMNS * 8 <= count)
        return;
    SR_UNROLL
    for (int n = 0; n < COLUMNS; n++) {
        SR_UNROLL
        for (int i = 0; i < 4; i++)
            x[n][i] = other + n * 8 + lane_number() % 4 * 2 + i % 2 < count ? x[n][i] : -INFINITY;
    }
}

// Scores of a tile become weights; out and sum are made relative to the new largest score.
template <int DEPTH>
static __device__ __forceinline__ void
to_weights(float (&x)[TOKENS / 8][4], attention_softmax *softmax, float (&out)[DEPTH / 8][4]) {
    SR_UNROLL
    for (int i = 0; i < 2; i++) {
        float largest = softmax->largest[i], sum = 0.0f;
        SR_UNROLL
        for (int n = 0; n < TOKENS / 8; n++)
            largest = larger(larger(largest, x[n][2 * i]), x[n][2 * i + 1]);
        largest = quad_largest(largest);
        // All scores so far may be -infinity.
        const float base = largest == -INFINITY ? 0.0f : largest;
        const float factor = sr_exp2(softmax->largest[i] - base);
        SR_UNROLL
        for (int n = 0; n < DEPTH / 8; n++) {
            out[n][2 * i] *= factor;
            out[n][2 * i + 1] *= factor;
        }
        SR_UNROLL
        for (int n = 0; n < TOKENS / 8; n++) {
            x[n][2 * i] = sr_exp2(x[n][2 * i] - base);
            x[n][2 * i + 1] = sr_exp2(x[n][2 * i + 1] - base);
            sum += x[n][2 * i] + x[n][2 * i + 1];
        }
        softmax->largest[i] = largest;
        softmax->sum[i] = __fmaf_rn(softmax->sum[i], factor, sum);
    }
}

template <class T, int DEPTH> static __device__ void attention(const attention_args &a) {
    const attention_shape &s = a.s;
    attention_tiles<DEPTH> *tiles = (attention_tiles<DEPTH> *)(void *)sr_cuda_shared;
    const attention_head h(s, s.queries);
    const float *bias = h.bias(s, a.bias);
    const uint16_t *k = (const uint16_t *)a.k + h.keys, *v = (const uint16_t *)a.v + h.keys;
    const bool works = h.first + warp_number() * SIDE < s.queries; // the whole warp
    const int32_t query = h.first + warp_number() * SIDE + lane_number() / 4;
    own_rows<DEPTH, true> own(&tiles->own);
    float out[DEPTH / 8][4] = {};
    attention_softmax softmax = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    copy_rows(&tiles->own, (const uint16_t *)a.q + h.queries, s, h.first, s.queries);
    copy_rows(&tiles->others[0][0], k, s, 0, s.keys);
    copy_rows(&tiles->others[0][1], v, s, 0, s.keys);
    sr_copy_commit();
    for (int32_t key = 0, stage = 0; key < s.keys; key += TOKENS, stage ^= 1) {
        const attention_rows<DEPTH> *others = tiles->others[stage];
        float weight[TOKENS / 8][4];
        sr_copy_wait<0>();
        __syncthreads();
        if (key + TOKENS < s.keys) {
            copy_rows(&tiles->others[stage ^ 1][0], k, s, key + TOKENS, s.keys);
            copy_rows(&tiles->others[stage ^ 1][1], v, s, key + TOKENS, s.keys);
            sr_copy_commit();
        }
        if (!works)
            continue;
        if (key == 0)
            own.keep();
        SR_UNROLL
        for (int n = 0; n < TOKENS / SIDE; n++) {
            float c[2][4] = {};
            if (key + n * SIDE < s.keys)
                products<T>(c, own, others[0], n * SIDE);
            SR_UNROLL
            for (int i = 0; i < 8; i++)
                weight[2 * n + i / 4][i % 4] = c[i / 4][i % 4];
        }
        to_scores<true>(weight, s, bias, query, key);
        remove_beyond(weight, key, s.keys);
        to_weights<DEPTH>(weight, &softmax, out);
        SR_UNROLL
        for (int n = 0; n < TOKENS / SIDE; n++) {
            float c[2][4];
            SR_UNROLL
            for (int i = 0; i < 8; i++)
                c[i / 4][i % 4] = weight[2 * n + i / 4][i % 4];
            if (key + n * SIDE < s.keys)
                add_rows<T>(out, c, others[1], n * SIDE);
        }
    }
    if (!works)
        return;
    float factor[2];
    SR_UNROLL
    for (int i = 0; i < 2; i++) {
        const float sum = quad_sum(softmax.sum[i]);
        factor[i] = 1.0f / sum;
        if (lane_number() % 4 == 0 && query + 8 * i < s.queries)
            a.lse[h.number * s.queries + query + 8 * i] =
                __fmaf_rn(softmax.largest[i], LN_2, sr_logf_inline(sum));
    }
    store_rows<T>(&tiles->own, out, factor, s, h, a.y, h.queries, s.queries);
}

// ---- attention_grad: q, k, v, y, lse, dy, bias, dq, dk, dv ----

struct attention_grad_args {
    const void *q, *k, *v, *y;
    const float *lse;
    const void *dy;
    const float *bias;
    void *dq, *dk, *dv;
    float *mean; // [batches,heads,queries]: dy y
    attention_shape s;
};

// p, and dscore, of own tokens and 16 others from scores times log2(e) and from dy v. lse and mean
// are those of the queries: of the lane's two own ones, or of its others.
template <bool OWN_QUERIES>
static __device__ __forceinline__ void to_gradients(float (&p)[2][4], float (&d)[2][4],
                                                    const float *lse, const float *mean) {
    SR_UNROLL
    for (int n = 0; n < 2; n++) {
        SR_UNROLL
        for (int i = 0; i < 4; i++) {
            const int query = OWN_QUERIES ? i / 2 : n * 8 + lane_number() % 4 * 2 + i % 2;
            p[n][i] = sr_exp2(__fmaf_rn(lse[query], -LOG2_E, p[n][i]));
            d[n][i] = p[n][i] * (d[n][i] - mean[query]);
        }
    }
}

// The products dy y of the lane's two own queries.
template <class T, int DEPTH, bool KEPT>
static __device__ void find_means(float (&mean)[2], const own_rows<DEPTH, KEPT> &dy,
                                  const uint16_t *y, const attention_shape &s, int32_t query) {
    mean[0] = mean[1] = 0.0f;
    SR_UNROLL
    for (int step = 0; step < DEPTH / SIDE; step++) {
        uint32_t a[4];
        dy.get(a, step);
        SR_UNROLL
        for (int i = 0; i < 4; i++) {
            const int32_t row = query + i % 2 * 8;
            const int column = step * SIDE + i / 2 * 8 + lane_number() % 4 * 2;
            uint32_t pair = 0;
            if (row < s.queries && column < s.depth)
                memcpy(&pair, (const void *)(y + row * s.stride + column), sizeof pair);
            mean[i % 2] = __fmaf_rn(T::of_pair(a[i], false), T::of_pair(pair, false), mean[i % 2]);
            mean[i % 2] = __fmaf_rn(T::of_pair(a[i], true), T::of_pair(pair, true), mean[i % 2]);
        }
    }
    mean[0] = quad_sum(mean[0]);
    mean[1] = quad_sum(mean[1]);
}

// dq, and the means; or dk and dv.
template <class T, int DEPTH, bool OWN_QUERIES>
static __device__ void gradients(const attention_grad_args &a) {
    constexpr int RESULTS = OWN_QUERIES ? 1 : 2;
    constexpr bool KEPT = OWN_QUERIES || DEPTH <= 64;
    const attention_shape &s = a.s;
    attention_grad_tiles<DEPTH> *tiles = (attention_grad_tiles<DEPTH> *)(void *)sr_cuda_shared;
    const int32_t owns = OWN_QUERIES ? s.queries : s.keys,
                  others = OWN_QUERIES ? s.keys : s.queries;
    const attention_head h(s, owns);
    const float *bias = h.bias(s, a.bias);
    const uint16_t *row[2] = {
        OWN_QUERIES ? (const uint16_t *)a.k + h.keys : (const uint16_t *)a.q + h.queries,
        OWN_QUERIES ? (const uint16_t *)a.v + h.keys : (const uint16_t *)a.dy + h.queries};
    const float *lse = a.lse + h.number * s.queries;
    float *mean = a.mean + h.number * s.queries;
    const bool works = h.first + warp_number() * SIDE < owns;
    const int32_t token = h.first + warp_number() * SIDE + lane_number() / 4;
    own_rows<DEPTH, KEPT> own[2] = {&tiles->rows.own, &tiles->second};
    float out[RESULTS][DEPTH / 8][4] = {}, own_lse[2] = {}, own_mean[2] = {};
    const auto copy = [&](int32_t first, int stage) {
        copy_rows(&tiles->rows.others[stage][0], row[0], s, first, others);
        copy_rows(&tiles->rows.others[stage][1], row[1], s, first, others);
        if (!OWN_QUERIES) {
            copy_numbers(tiles->number[stage][0], lse, first, others);
            copy_numbers(tiles->number[stage][1], mean, first, others);
        }
        sr_copy_commit();
    };
    copy_rows(&tiles->rows.own,
              OWN_QUERIES ? (const uint16_t *)a.q + h.queries : (const uint16_t *)a.k + h.keys, s,
              h.first, owns);
    copy_rows(&tiles->second,
              OWN_QUERIES ? (const uint16_t *)a.dy + h.queries : (const uint16_t *)a.v + h.keys, s,
              h.first, owns);
    copy(0, 0);
    for (int32_t first = 0, stage = 0; first < others; first += TOKENS, stage ^= 1) {
        const attention_rows<DEPTH> *rows = tiles->rows.others[stage];
        sr_copy_wait<0>();
        __syncthreads();
        if (first + TOKENS < others)
            copy(first + TOKENS, stage ^ 1);
        if (!works)
            continue;
        if (first == 0) {
            own[0].keep();
            own[1].keep();
        }
        if (OWN_QUERIES && first == 0) {
            find_means<T>(own_mean, own[1], (const uint16_t *)a.y + h.queries, s, token);
            for (int i = 0; i < 2; i++) {
                if (token + 8 * i >= s.queries)
                    continue;
                own_lse[i] = lse[token + 8 * i];
                if (lane_number() % 4 == 0)
                    mean[token + 8 * i] = own_mean[i];
            }
        }
        SR_UNROLL
        for (int n = 0; n < TOKENS / SIDE; n++) {
            if (first + n * SIDE >= others)
                break;
            float p[2][4], d[2][4];
            products<T>(p, own[0], rows[0], n * SIDE);
            products<T>(d, own[1], rows[1], n * SIDE);
            to_scores<OWN_QUERIES>(p, s, bias, token, first + n * SIDE);
            if (OWN_QUERIES) // of others that are queries, rows and numbers beyond are 0
                remove_beyond(p, first + n * SIDE, others);
            to_gradients<OWN_QUERIES>(p, d,
                                      OWN_QUERIES ? own_lse : tiles->number[stage][0] + n * SIDE,
                                      OWN_QUERIES ? own_mean : tiles->number[stage][1] + n * SIDE);
            add_rows<T>(out[0], d, rows[0], n * SIDE);
            if (!OWN_QUERIES)
                add_rows<T>(out[RESULTS - 1], p, rows[1], n * SIDE);
        }
    }
    if (!works)
        return;
    const float scale[2] = {s.scale, s.scale}, one[2] = {1.0f, 1.0f};
    const int64_t begin = OWN_QUERIES ? h.queries : h.keys;
    store_rows<T>(&tiles->rows.own, out[0], scale, s, h, OWN_QUERIES ? a.dq : a.dk, begin, owns);
    if (!OWN_QUERIES)
        store_rows<T>(&tiles->second, out[RESULTS - 1], one, s, h, a.dv, begin, owns);
}

// ---- attention_bias_grad: q, k, v, y, lse, dy, bias, dbias ----

struct attention_bias_args {
    const void *q, *k, *v, *y;
    const float *lse;
    const void *dy;
    const float *bias;
    float *dbias;
    float *sums; // [lanes][slices][biases,heads,queries,keys], where there are several slices
    attention_shape s;
    int64_t lane_batches, lanes;
    int32_t slices, slice; // slice: batches of a slice with the same bias
};

template <int DEPTH> struct attention_bias_tiles {
    attention_rows<DEPTH> rows[STAGES][4]; // of a batch: q, dy, k, v
};

// Where a block's sums are: 64 queries and keys of a head and a bias.
struct attention_square {
    int64_t bias, head;
    int32_t query, key;

    __device__ attention_square(const attention_shape &s) {
        const int32_t wide = (s.keys + TOKENS - 1) / TOKENS,
                      high = (s.queries + TOKENS - 1) / TOKENS;
        const int64_t row = sr_divide(blockIdx.x, wide), all = sr_divide(row, high);
        key = (int32_t)(blockIdx.x - row * wide) * TOKENS;
        query = (int32_t)(row - all * high) * TOKENS;
        bias = sr_divide(all, s.heads);
        head = all - bias * s.heads;
    }
};

template <class T, int DEPTH>
static __device__ void add_dscores(float (&sum)[TOKENS / 8][4], const attention_bias_args &a,
                                   const attention_square &at, const attention_rows<DEPTH> *rows,
                                   int64_t batch) {
    const attention_shape &s = a.s;
    const int32_t query = at.query + warp_number() * SIDE + lane_number() / 4;
    const float *bias = a.bias + (at.bias * s.heads + at.head) * s.queries * s.keys;
    const float *lses = a.lse + (batch * s.heads + at.head) * s.queries;
    const uint16_t *y = (const uint16_t *)a.y + batch * s.queries * s.stride + at.head * s.depth;
    own_rows<DEPTH, true> q(&rows[0]), dy(&rows[1]);
    float mean[2], lse[2];
    q.keep();
    dy.keep();
    find_means<T>(mean, dy, y, s, query);
    SR_UNROLL
    for (int i = 0; i < 2; i++)
        lse[i] = query + 8 * i < s.queries ? lses[query + 8 * i] : 0.0f;
    SR_UNROLL
    for (int n = 0; n < TOKENS / SIDE; n++) {
        const int32_t key = at.key + n * SIDE;
        float p[2][4], d[2][4];
        if (key >= s.keys)
            break;
        products<T>(p, q, rows[2], n * SIDE);
        products<T>(d, dy, rows[3], n * SIDE);
        to_scores<true>(p, s, bias, query, key);
        remove_beyond(p, key, s.keys);
        to_gradients<true>(p, d, lse, mean);
        SR_UNROLL
        for (int i = 0; i < 8; i++)
            sum[2 * n + i / 4][i % 4] += d[i / 4][i % 4];
    }
}

template <class T, int DEPTH> static __device__ void bias_gradient(const attention_bias_args &a) {
    const attention_shape &s = a.s;
    attention_bias_tiles<DEPTH> *tiles = (attention_bias_tiles<DEPTH> *)(void *)sr_cuda_shared;
    const attention_square at(s);
    const int64_t of_lane = sr_divide(blockIdx.y, a.slices),
                  slice = blockIdx.y - of_lane * a.slices;
    const int64_t first = of_lane * a.lane_batches + at.bias,
                  batches = sr_divide(a.lane_batches - at.bias + s.biases - 1, s.biases);
    const int64_t begin = slice * a.slice,
                  end = begin + a.slice < batches ? begin + a.slice : batches;
    const bool works = at.query + warp_number() * SIDE < s.queries;
    float sum[TOKENS / 8][4] = {};
    const auto copy = [&](int64_t i, int stage) {
        const int64_t batch = first + i * s.biases, channel = at.head * s.depth,
                      queries = batch * s.queries * s.stride + channel,
                      keys = batch * s.keys * s.stride + channel;
        attention_rows<DEPTH> *to = tiles->rows[stage];
        copy_rows(&to[0], (const uint16_t *)a.q + queries, s, at.query, s.queries);
        copy_rows(&to[1], (const uint16_t *)a.dy + queries, s, at.query, s.queries);
        copy_rows(&to[2], (const uint16_t *)a.k + keys, s, at.key, s.keys);
        copy_rows(&to[3], (const uint16_t *)a.v + keys, s, at.key, s.keys);
        sr_copy_commit();
    };
    if (begin < end)
        copy(begin, 0);
    for (int64_t i = begin, stage = 0; i < end; i++, stage ^= 1) {
        sr_copy_wait<0>();
        __syncthreads();
        if (i + 1 < end)
            copy(i + 1, (int)stage ^ 1);
        if (works)
            add_dscores<T, DEPTH>(sum, a, at, tiles->rows[stage], first + i * s.biases);
    }
    const int64_t head = at.bias * s.heads + at.head, count = s.biases * s.heads;
    float *to = a.slices > 1 ? a.sums : a.dbias;
    to += (blockIdx.y * count + head) * s.queries * s.keys;
    SR_UNROLL
    for (int n = 0; n < TOKENS / 8; n++) {
        SR_UNROLL
        for (int i = 0; i < 4; i++) {
            const int32_t query = at.query + warp_number() * SIDE + lane_number() / 4 + i / 2 * 8;
            const int32_t key = at.key + n * 8 + lane_number() % 4 * 2 + i % 2;
            if (query < s.queries && key < s.keys)
                to[query * s.keys + key] = sum[n][i];
        }
    }
}

// dbias of the lanes: the sums of their slices.
SR_CUDA_KERNEL(mma_attention_fold, attention_bias_args, SR_CUDA_COLUMN, 1) {
    const int64_t count = a.s.biases * a.s.heads * a.s.queries * a.s.keys;
    sr_sum_lanes(a.lanes, a.slices, a.sums, count,
                 [&](int64_t lane, int64_t i) { return a.dbias + lane * count + i; });
}

// ---- Kernels ----

#define ATTENTION_KERNELS(type, depth, forward_blocks, grad_blocks)                                \
    SR_CUDA_KERNEL_WITH(mma_attention_##depth##_##type, attention_args, THREADS, 1,                \
                        (THREADS, forward_blocks)) {                                               \
        attention<sr_##type, depth>(a);                                                            \
    }                                                                                              \
    SR_CUDA_KERNEL_WITH(mma_attention_dq_##depth##_##type, attention_grad_args, THREADS, 1,        \
                        (THREADS, grad_blocks)) {                                                  \
        gradients<sr_##type, depth, true>(a);                                                      \
    }                                                                                              \
    SR_CUDA_KERNEL_WITH(mma_attention_dkv_##depth##_##type, attention_grad_args, THREADS, 1,       \
                        (THREADS, grad_blocks)) {                                                  \
        gradients<sr_##type, depth, false>(a);                                                     \
    }                                                                                              \
    SR_CUDA_KERNEL_WITH(mma_attention_dbias_##depth##_##type, attention_bias_args, THREADS, 1,     \
                        (THREADS, 2)) {                                                            \
        bias_gradient<sr_##type, depth>(a);                                                        \
    }
#define ATTENTION_TYPES(depth, forward_blocks, grad_blocks)                                        \
    ATTENTION_KERNELS(bf16, depth, forward_blocks, grad_blocks)                                    \
    ATTENTION_KERNELS(f16, depth, forward_blocks, grad_blocks)
ATTENTION_TYPES(32, 4, 3)
ATTENTION_TYPES(64, 4, 3)
ATTENTION_TYPES(128, 2, 2)

// Of the depths that a kernel is for, the first that is not less.
enum { DEPTHS = 3 };
static const int depths[DEPTHS] = {32, 64, 128};
#define OF_TYPES(name, depth)                                                                      \
    { &name##_##depth##_bf16_kernel, &name##_##depth##_f16_kernel }
#define OF_DEPTHS(name)                                                                            \
    { OF_TYPES(name, 32), OF_TYPES(name, 64), OF_TYPES(name, 128) }
static const sr_cuda_kernel *const forward_kernels[DEPTHS][2] = OF_DEPTHS(mma_attention),
                                   *const dq_kernels[DEPTHS][2] = OF_DEPTHS(mma_attention_dq),
                                   *const dkv_kernels[DEPTHS][2] = OF_DEPTHS(mma_attention_dkv),
                                   *const dbias_kernels[DEPTHS][2] = OF_DEPTHS(mma_attention_dbias);
static const size_t forward_shared[DEPTHS] = {sizeof(attention_tiles<32>),
                                              sizeof(attention_tiles<64>),
                                              sizeof(attention_tiles<128>)},
                    grad_shared[DEPTHS] = {sizeof(attention_grad_tiles<32>),
                                           sizeof(attention_grad_tiles<64>),
                                           sizeof(attention_grad_tiles<128>)},
                    bias_shared[DEPTHS] = {sizeof(attention_bias_tiles<32>),
                                           sizeof(attention_bias_tiles<64>),
                                           sizeof(attention_bias_tiles<128>)};

// The numbers of a request's depth and type among kernels.
struct attention_kind {
    int depth, type;
};

// Those of a request, whose shape becomes *s.
static attention_kind kind_of(const sr_kernel_request *request, attention_shape *s) {
    attention_kind kind = {0, request->dtype[0] == SR_F16};
    *s = shape_of(sr_cuda_params<sr_attention_params>(request));
    while (depths[kind.depth] < s->depth)
        kind.depth++;
    return kind;
}

bool sr_mma_supports_attention(const sr_kernel_request *request) {
    const sr_attention_params *p = sr_cuda_params<sr_attention_params>(request);
    const bool of_bias = request->kernel == SR_KERNEL_attention_bias_grad;
    const int64_t biases = p->biases > 0 ? p->biases : 1;
    const int64_t most = INT32_MAX - TOKENS; // the next tile is numbered, too
    if (request->lanes > 0 &&
        (sr_kernel_lane_inputs(request) != 0 || p->batches % (request->lanes * biases) != 0))
        return false;
    return sr_kernel_fits(request) &&
           (request->dtype[0] == SR_BF16 || request->dtype[0] == SR_F16) && p->depth % 8 == 0 &&
           p->depth > 0 && p->depth <= depths[DEPTHS - 1] && p->queries > 0 && p->keys > 0 &&
           p->queries <= most && p->keys <= most &&
           (p->biases == 0 ? !of_bias : p->queries * p->keys <= INT32_MAX);
}

static int64_t blocks_for(const attention_shape &s, int32_t tokens) {
    return sr_blocks_for(tokens, TOKENS) * s.batches * s.heads;
}

sr_status sr_mma_prepare_attention(const sr_kernel_request *request, sr_prepared *out) {
    attention_args a = {};
    const attention_kind kind = kind_of(request, &a.s);
    sr_cuda_making making(request, a, out);
    making.add(forward_kernels[kind.depth][kind.type], blocks_for(a.s, a.s.queries), THREADS,
               forward_shared[kind.depth]);
    return making.done();
}

sr_status sr_mma_prepare_attention_grad(const sr_kernel_request *request, sr_prepared *out) {
    attention_grad_args a = {};
    const attention_kind kind = kind_of(request, &a.s);
    sr_cuda_making making(request, a, out);
    making.add(dq_kernels[kind.depth][kind.type], blocks_for(a.s, a.s.queries), THREADS,
               grad_shared[kind.depth]);
    making.add(dkv_kernels[kind.depth][kind.type], blocks_for(a.s, a.s.keys), THREADS,
               grad_shared[kind.depth]);
    out->workspace = (size_t)(a.s.batches * a.s.heads * a.s.queries) * sizeof(float);
    return making.done();
}

sr_status sr_mma_prepare_attention_bias_grad(const sr_kernel_request *request, sr_prepared *out) {
    attention_bias_args a = {};
    const attention_kind kind = kind_of(request, &a.s);
    a.lanes = request->lanes > 0 ? request->lanes : 1;
    a.lane_batches = a.s.batches / a.lanes;
    const int64_t batches = sr_blocks_for(a.lane_batches, a.s.biases),
                  count = a.s.biases * a.s.heads * a.s.queries * a.s.keys;
    a.slice = (int32_t)sr_bias_slice(batches);
    a.slices = (int32_t)sr_blocks_for(batches, a.slice);
    sr_cuda_making making(request, a, out);
    making.add_grid(dbias_kernels[kind.depth][kind.type],
                    a.s.biases * a.s.heads * sr_blocks_for(a.s.queries, TOKENS) *
                        sr_blocks_for(a.s.keys, TOKENS),
                    a.lanes * a.slices, 1, THREADS, 1, bias_shared[kind.depth]);
    if (a.slices > 1) {
        making.add_columns(&mma_attention_fold_kernel, a.lanes * count, a.slices);
        out->workspace = (size_t)(a.lanes * a.slices * count) * sizeof(float);
    }
    return making.done();
}
