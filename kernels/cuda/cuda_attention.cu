// SPDX-License-Identifier: Apache-2.0
// Multi-head attention and its gradients: kernels/cpu/reference/reference_attention.c. All results
// but the bias's gradient are weighted sums of rows,
//
//   out[own] = sum over others  weight(own, other)  row[other]
//
//         own      other   weight                          row   first
//   y     query    key     exp(score - max)                v     max, by a pass over the scores
//   dq    query    key     dscore                          k
//   dk    key      query   dscore                          q
//   dv    key      query   exp(score - lse)                dy
//
// A block has 32 own tokens of a head and 64 columns of the rows. For each 32 others it computes
// the weights, which go through shared memory, and adds their leaf to the tree of its outputs.
#include <math.h>

#include "kernels/base/math_inline.h"
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_sum.h"

enum {
    THREADS = 256,
    TOKENS = SR_REFERENCE_TERMS, // of a tile, own and others
    PITCH = TOKENS + 1,
    PARTS = THREADS / TOKENS,  // threads of an own token
    SCORES = TOKENS / PARTS,   // weights of a thread
    COLUMNS = 64,              // of a block
    OUTPUTS = COLUMNS / PARTS, // of a thread
    DEPTH_LEVELS = 6,          // of the tree of a product: 2,048 channels
    LEVELS = 11                // of the tree of the outputs: 65,536 tokens
};

enum attention_sum { OF_Y, OF_Q, OF_K, OF_V };

struct attention_shape {
    int64_t batches, queries, keys, heads, depth, biases;
    float scale;
};

static attention_shape shape_of(const sr_attention_params *p) {
    return {p->batches, p->queries, p->keys, p->heads, p->depth, p->biases, (float)p->scale};
}

// The arguments that weights are made of, of one head.
template <class T> struct attention_head {
    const typename T::type *q, *k, *v, *dy;
    const float *bias, *lse, *mean;
    int64_t stride, keys, depth; // stride: of tokens
    float scale;

    __device__ attention_head(const attention_shape &s, int64_t number, const void *all_q,
                              const void *all_k, const void *all_v, const float *all_biases,
                              const float *all_lse, const void *all_dy, const float *all_means)
        : stride(s.heads * s.depth), keys(s.keys), depth(s.depth), scale(s.scale) {
        const int64_t batch = sr_divide(number, s.heads), head = number - batch * s.heads;
        const int64_t query = batch * s.queries * stride + head * depth,
                      key = batch * s.keys * stride + head * depth;
        q = (const typename T::type *)all_q + query;
        k = (const typename T::type *)all_k + key;
        v = (const typename T::type *)all_v + key;
        dy = all_dy ? (const typename T::type *)all_dy + query : NULL;
        lse = all_lse ? all_lse + number * s.queries : NULL;
        mean = all_means ? all_means + number * s.queries : NULL;
        bias = NULL;
        if (s.biases > 0)
            bias = all_biases + (batch % s.biases * s.heads + head) * s.queries * s.keys;
    }

    __device__ float score(float product, int64_t query, int64_t key) const {
        const float scaled = scale * product;
        return bias ? scaled + bias[query * keys + key] : scaled;
    }
};

struct attention_tile {
    float own[TOKENS][PITCH], other[TOKENS][PITCH]; // of a leaf of the depth
    float weight[TOKENS][PITCH];                    // [own][other]
    float row[TOKENS];                              // max, then the sum, of an own token
};

// Tokens first .. first + TOKENS - 1 of 'count'.
struct attention_tokens {
    int64_t first, count;
    __device__ int size() const {
        const int64_t left = count - first;
        return left < TOKENS ? (int)left : TOKENS;
    }
};

// Loads a leaf of the depth of some tokens; zeros beyond the last one.
template <class T>
static __device__ void load_leaf(const typename T::type *rows, const attention_tokens &tokens,
                                 int64_t stride, int64_t leaf, int terms, float (*to)[PITCH]) {
    const int column = threadIdx.x % TOKENS;
    SR_UNROLL
    for (int i = 0; i < SCORES; i++) {
        const int row = (int)threadIdx.x / TOKENS + i * PARTS;
        if (column < terms)
            to[row][column] = row < tokens.size()
                                  ? T::load(rows + (tokens.first + row) * stride + leaf + column)
                                  : 0.0f;
    }
}

// The products of this thread's own token with SCORES others.
template <class T>
static __device__ sr_sums<SCORES>
products(attention_tile *tile, const typename T::type *own, const attention_tokens &owns,
         const typename T::type *other, const attention_tokens &others, int64_t stride,
         int64_t depth) {
    const int row = threadIdx.x / PARTS, part = threadIdx.x % PARTS;
    sr_tree<DEPTH_LEVELS, sr_sums<SCORES>> leaves;
    sr_sums<SCORES> sum = {};
    for (int64_t leaf = 0; leaf < depth; leaf += SR_REFERENCE_TERMS) {
        const int terms =
            (int)(depth - leaf < SR_REFERENCE_TERMS ? depth - leaf : SR_REFERENCE_TERMS);
        if (leaf > 0)
            leaves.push(sum);
        __syncthreads();
        load_leaf<T>(own, owns, stride, leaf, terms, tile->own);
        load_leaf<T>(other, others, stride, leaf, terms, tile->other);
        __syncthreads();
        sum = {};
        for (int t = 0; t < terms; t++) {
            SR_UNROLL
            for (int i = 0; i < SCORES; i++)
                sum.at[i] += tile->own[row][t] * tile->other[part + i * PARTS][t];
        }
    }
    return leaves.total(sum);
}

// The scores of this thread. Queries are the own tokens, or the others.
template <class T, bool OWN_QUERIES>
static __device__ sr_sums<SCORES> scores(const attention_head<T> &h, attention_tile *tile,
                                         const attention_tokens &owns,
                                         const attention_tokens &others) {
    const int64_t own = owns.first + threadIdx.x / PARTS;
    sr_sums<SCORES> score = products<T>(tile, OWN_QUERIES ? h.q : h.k, owns,
                                        OWN_QUERIES ? h.k : h.q, others, h.stride, h.depth);
    SR_UNROLL
    for (int i = 0; i < SCORES; i++) {
        const int64_t other = others.first + threadIdx.x % PARTS + i * PARTS;
        if (own < owns.count && other < others.count)
            score.at[i] =
                OWN_QUERIES ? h.score(score.at[i], own, other) : h.score(score.at[i], other, own);
    }
    return score;
}

// tile->row[own] = the largest of its scores
template <class T>
static __device__ void find_largest(const attention_head<T> &h, attention_tile *tile,
                                    const attention_tokens &owns, attention_tokens others) {
    const int row = threadIdx.x / PARTS, part = threadIdx.x % PARTS;
    float largest = -INFINITY;
    for (others.first = 0; others.first < others.count; others.first += TOKENS) {
        const sr_sums<SCORES> score = scores<T, true>(h, tile, owns, others);
        SR_UNROLL
        for (int i = 0; i < SCORES; i++)
            if (part + i * PARTS < others.size() && score.at[i] > largest)
                largest = score.at[i];
    }
    tile->weight[row][part] = largest;
    __syncthreads();
    for (int i = 1; part == 0 && i < PARTS; i++)
        largest = tile->weight[row][i] > largest ? tile->weight[row][i] : largest;
    if (part == 0)
        tile->row[row] = largest;
    __syncthreads();
}

// Puts the weights of a tile into shared memory.
template <class T, attention_sum SUM>
static __device__ void put_weights(const attention_head<T> &h, attention_tile *tile,
                                   const attention_tokens &owns, const attention_tokens &others) {
    const bool own_queries = SUM == OF_Y || SUM == OF_Q;
    const int row = threadIdx.x / PARTS, part = threadIdx.x % PARTS;
    const sr_sums<SCORES> score = scores<T, own_queries>(h, tile, owns, others);
    sr_sums<SCORES> dweight = {};
    if (SUM == OF_Q || SUM == OF_K)
        dweight = products<T>(tile, own_queries ? h.dy : h.v, owns, own_queries ? h.v : h.dy,
                              others, h.stride, h.depth);
    SR_UNROLL
    for (int i = 0; i < SCORES; i++) {
        const int at = part + i * PARTS;
        const int64_t query = own_queries ? owns.first + row : others.first + at;
        if (row >= owns.size() || at >= others.size())
            continue;
        const float weight =
            sr_expf_inline(score.at[i] - (SUM == OF_Y ? tile->row[row] : h.lse[query]));
        tile->weight[row][at] =
            SUM == OF_Q || SUM == OF_K ? weight * (dweight.at[i] - h.mean[query]) : weight;
    }
    __syncthreads();
}

// sum = the leaf of the tile's weights and rows, for this thread's columns.
template <class T>
static __device__ sr_sums<OUTPUTS>
add_rows(const attention_tile *tile, const typename T::type *rows, const attention_tokens &others,
         int64_t stride, int columns, bool vectors) {
    const int row = threadIdx.x / PARTS;
    sr_sums<OUTPUTS> sum = {};
    for (int t = 0; columns > 0 && t < others.size(); t++) {
        const typename T::type *from = rows + (others.first + t) * stride;
        float v[OUTPUTS];
        if (vectors)
            sr_load_vector<T>(from, 0, v);
        SR_UNROLL
        for (int i = 0; i < OUTPUTS; i++)
            if (i < columns)
                sum.at[i] += tile->weight[row][t] * (vectors ? v[i] : T::load(from + i));
    }
    return sum;
}

// The weighted sums of a block, and the sums of their weights for the first threads of own tokens.
template <class T, attention_sum SUM>
static __device__ void weighted_sums(const attention_shape &s, const attention_head<T> &h,
                                     int64_t number, int64_t tile_number, void *out, float *lse) {
    attention_tile *tile = (attention_tile *)(void *)sr_cuda_shared;
    const bool own_queries = SUM == OF_Y || SUM == OF_Q;
    const attention_tokens owns = {tile_number * TOKENS, own_queries ? s.queries : s.keys};
    attention_tokens others = {0, own_queries ? s.keys : s.queries};
    const int row = threadIdx.x / PARTS, part = threadIdx.x % PARTS;
    const int64_t column = (int64_t)blockIdx.y * COLUMNS + part * OUTPUTS, left = s.depth - column;
    const bool exists = row < owns.size();
    const int columns = !exists || left < 0 ? 0 : left < OUTPUTS ? (int)left : OUTPUTS;
    const typename T::type *rows = SUM == OF_Y ? h.v : SUM == OF_Q ? h.k : SUM == OF_K ? h.q : h.dy;
    sr_tree<LEVELS, sr_sums<OUTPUTS>> leaves;
    sr_tree<LEVELS> leaves_of_weights;
    sr_sums<OUTPUTS> sum = {};
    float weights = 0;
    if (SUM == OF_Y)
        find_largest<T>(h, tile, owns, others);
    const float largest = SUM == OF_Y ? tile->row[row] : 0.0f;
    for (others.first = 0; others.first < others.count; others.first += TOKENS) {
        if (others.first > 0) {
            leaves.push(sum);
            leaves_of_weights.push(weights);
        }
        put_weights<T, SUM>(h, tile, owns, others);
        sum = add_rows<T>(tile, rows + column, others, h.stride, columns, s.depth % OUTPUTS == 0);
        weights = 0;
        for (int t = 0; SUM == OF_Y && exists && part == 0 && t < others.size(); t++)
            weights += tile->weight[row][t];
    }
    sum = leaves.total(sum);
    weights = leaves_of_weights.total(weights);
    __syncthreads();
    if (part == 0)
        tile->row[row] = weights;
    __syncthreads();
    if (!exists)
        return;
    const int64_t own = owns.first + row, batch = sr_divide(number, s.heads);
    const int64_t at = (batch * owns.count + own) * h.stride + (number - batch * s.heads) * s.depth;
    SR_UNROLL
    for (int i = 0; i < OUTPUTS; i++)
        if (i < columns)
            sr_store<T>(out, at + column + i,
                        SUM == OF_Y   ? sum.at[i] / tile->row[row]
                        : SUM == OF_V ? sum.at[i]
                                      : h.scale * sum.at[i]);
    if (SUM == OF_Y && part == 0 && blockIdx.y == 0)
        lse[number * s.queries + own] = largest + sr_logf_inline(weights);
}

// The head of this block, and the tile of its own tokens.
static __device__ int64_t head_of_block(int64_t tokens, int64_t *tile) {
    const int64_t tiles = (tokens + TOKENS - 1) / TOKENS, number = sr_divide(blockIdx.x, tiles);
    *tile = blockIdx.x - number * tiles;
    return number;
}

static void add_tiles(sr_cuda_making *making, const attention_shape &s, int64_t tokens,
                      const sr_cuda_kernel *kernel) {
    making->add_grid(kernel, sr_blocks_for(tokens, TOKENS) * s.batches * s.heads,
                     sr_blocks_for(s.depth, COLUMNS), 1, THREADS, 1, sizeof(attention_tile));
}

static sr_status expect_levels(const sr_kernel_request *request) {
    const sr_attention_params *p = sr_cuda_params<sr_attention_params>(request);
    const int64_t most = (int64_t)TOKENS << LEVELS, deepest = (int64_t)TOKENS << DEPTH_LEVELS;
    if (p->queries <= most && p->keys <= most && p->depth <= deepest &&
        (p->biases == 0 || p->batches / p->biases <= most))
        return SR_OK;
    return SR_FAIL(
        SR_E_UNSUPPORTED,
        "%s on a GPU: %lld queries, %lld keys, %lld batches, %lld channels of a head; at "
        "most %lld queries, keys and batches of one bias, and %lld channels",
        sr_kernel_name(request->kernel), (long long)p->queries, (long long)p->keys,
        (long long)p->batches, (long long)p->depth, (long long)most, (long long)deepest);
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

template <class T> static __device__ void cuda_attention(const attention_args &a) {
    int64_t tile;
    const int64_t number = head_of_block(a.s.queries, &tile);
    const attention_head<T> h(a.s, number, a.q, a.k, a.v, a.bias, NULL, NULL, NULL);
    weighted_sums<T, OF_Y>(a.s, h, number, tile, a.y, a.lse);
}
SR_CUDA_TYPED(cuda_attention, attention_args, 256, 1)

sr_status sr_cuda_prepare_attention(const sr_kernel_request *request, sr_prepared *out) {
    attention_args a = {};
    a.s = shape_of(sr_cuda_params<sr_attention_params>(request));
    SR_TRY(expect_levels(request));
    sr_cuda_making making(request, a, out);
    add_tiles(&making, a.s, a.s.queries, cuda_attention_kernels[request->dtype[0]]);
    return making.done();
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

// The product of two rows, by one thread.
template <class T>
static __device__ float product(const typename T::type *a, const typename T::type *b, int64_t n) {
    sr_tree<DEPTH_LEVELS> leaves;
    float sum = 0;
    for (int64_t i = 0; i < n; i += SR_REFERENCE_TERMS) {
        const int64_t end = i + SR_REFERENCE_TERMS < n ? i + SR_REFERENCE_TERMS : n;
        if (i > 0)
            leaves.push(sum);
        sum = 0;
        for (int64_t k = i; k < end; k++)
            sum += T::load(a + k) * T::load(b + k);
    }
    return leaves.total(sum);
}

template <class T>
static __device__ void find_mean(const attention_shape &s, const void *y, const void *dy,
                                 float *mean) {
    const int64_t i = sr_thread(); // batch, head, query
    if (i >= s.batches * s.heads * s.queries)
        return;
    const int64_t number = sr_divide(i, s.queries), query = i - number * s.queries;
    const int64_t batch = sr_divide(number, s.heads), head = number - batch * s.heads;
    const int64_t at = ((batch * s.queries + query) * s.heads + head) * s.depth;
    mean[i] =
        product<T>((const typename T::type *)dy + at, (const typename T::type *)y + at, s.depth);
}

template <class T> static __device__ void cuda_attention_mean(const attention_grad_args &a) {
    find_mean<T>(a.s, a.y, a.dy, a.mean);
}
SR_CUDA_TYPED(cuda_attention_mean, attention_grad_args, 256, 0)

template <class T, attention_sum SUM>
static __device__ void gradient(const attention_grad_args &a, int64_t tokens, void *out) {
    int64_t tile;
    const int64_t number = head_of_block(tokens, &tile);
    const attention_head<T> h(a.s, number, a.q, a.k, a.v, a.bias, a.lse, a.dy, a.mean);
    weighted_sums<T, SUM>(a.s, h, number, tile, out, NULL);
}

template <class T> static __device__ void cuda_attention_dq(const attention_grad_args &a) {
    gradient<T, OF_Q>(a, a.s.queries, a.dq);
}
SR_CUDA_TYPED(cuda_attention_dq, attention_grad_args, 256, 1)

template <class T> static __device__ void cuda_attention_dk(const attention_grad_args &a) {
    gradient<T, OF_K>(a, a.s.keys, a.dk);
}
SR_CUDA_TYPED(cuda_attention_dk, attention_grad_args, 256, 1)

template <class T> static __device__ void cuda_attention_dv(const attention_grad_args &a) {
    gradient<T, OF_V>(a, a.s.keys, a.dv);
}
SR_CUDA_TYPED(cuda_attention_dv, attention_grad_args, 256, 1)

sr_status sr_cuda_prepare_attention_grad(const sr_kernel_request *request, sr_prepared *out) {
    attention_grad_args a = {};
    a.s = shape_of(sr_cuda_params<sr_attention_params>(request));
    const sr_dtype dtype = request->dtype[0];
    const int64_t rows = a.s.batches * a.s.heads * a.s.queries;
    SR_TRY(expect_levels(request));
    sr_cuda_making making(request, a, out);
    making.add_elements(cuda_attention_mean_kernels[dtype], rows);
    add_tiles(&making, a.s, a.s.queries, cuda_attention_dq_kernels[dtype]);
    add_tiles(&making, a.s, a.s.keys, cuda_attention_dk_kernels[dtype]);
    add_tiles(&making, a.s, a.s.keys, cuda_attention_dv_kernels[dtype]);
    out->workspace = (size_t)rows * sizeof(float);
    return making.done();
}

// ---- attention_bias_grad: q, k, v, y, lse, dy, bias, dbias ----

struct attention_bias_args {
    const void *q, *k, *v, *y;
    const float *lse;
    const void *dy;
    const float *bias;
    float *dbias, *mean;
    attention_shape s;
};

template <class T> static __device__ void cuda_attention_bias_mean(const attention_bias_args &a) {
    find_mean<T>(a.s, a.y, a.dy, a.mean);
}
SR_CUDA_TYPED(cuda_attention_bias_mean, attention_bias_args, 256, 0)

// A thread has an element of the bias, and sums over the batches that have it.
template <class T> static __device__ void cuda_attention_dbias(const attention_bias_args &a) {
    const attention_shape &s = a.s;
    const int64_t i = sr_thread(); // bias, head, query, key
    if (i >= s.biases * s.heads * s.queries * s.keys)
        return;
    const int64_t row = sr_divide(i, s.keys), key = i - row * s.keys;
    const int64_t number = sr_divide(row, s.queries), query = row - number * s.queries;
    sr_tree<LEVELS> leaves;
    float sum = 0;
    for (int64_t first = 0, terms = 0; first < s.batches; first += s.biases, terms++) {
        const attention_head<T> h(s, first * s.heads + number, a.q, a.k, a.v, a.bias, a.lse, a.dy,
                                  a.mean);
        const int64_t of_query = query * h.stride, of_key = key * h.stride;
        if (terms == SR_REFERENCE_TERMS) {
            leaves.push(sum);
            sum = 0;
            terms = 0;
        }
        const float score = h.score(product<T>(h.q + of_query, h.k + of_key, s.depth), query, key);
        const float weight = sr_expf_inline(score - h.lse[query]);
        sum += weight * (product<T>(h.dy + of_query, h.v + of_key, s.depth) - h.mean[query]);
    }
    a.dbias[i] = leaves.total(sum);
}
SR_CUDA_TYPED(cuda_attention_dbias, attention_bias_args, 256, 0)

sr_status sr_cuda_prepare_attention_bias_grad(const sr_kernel_request *request, sr_prepared *out) {
    attention_bias_args a = {};
    a.s = shape_of(sr_cuda_params<sr_attention_params>(request));
    const sr_dtype dtype = request->dtype[0];
    const int64_t rows = a.s.batches * a.s.heads * a.s.queries;
    SR_TRY(expect_levels(request));
    sr_cuda_making making(request, a, out);
    making.add_elements(cuda_attention_bias_mean_kernels[dtype], rows);
    making.add_elements(cuda_attention_dbias_kernels[dtype],
                        a.s.biases * a.s.heads * a.s.queries * a.s.keys);
    out->workspace = (size_t)rows * sizeof(float);
    return making.done();
}
