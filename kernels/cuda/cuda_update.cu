// SPDX-License-Identifier: Apache-2.0
// Updates of parameters in place: kernels/cpu/reference/reference_update.c.
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_sum.h"
#include "kernels/cuda/cuda_vector.h"

enum { LANES = 4 };            // f32 of 16 bytes
enum { PIECE_THREADS = 1024 }; // for the squares of a piece

// What a block has: elements of the arrays, and the row of their numbers.
struct sr_part {
    const float *numbers;
    int64_t begin, count;
};

// Piece 'number'; no elements if it is not to be touched.
static __device__ sr_part part_of_piece(const sr_update_params &u, const float *table,
                                        int64_t number) {
    const sr_update_piece piece =
        ((const sr_update_piece *)(const void *)(table + u.pieces_at))[number];
    const int32_t row = ((const int32_t *)(const void *)(table + u.map_at))[piece.segment];
    const int64_t begin = piece.begin - u.first;
    if (row < 0)
        return {table, begin, 0};
    return {table + (int64_t)row * SR_UPDATE_ROW, begin, piece.count};
}

// Without pieces blocks follow one another; with them they are [place in the piece, piece].
static __device__ sr_part part_of(const sr_update_params &u, const float *numbers) {
    return u.pieces == 0 ? sr_part{numbers, 0, u.count} : part_of_piece(u, numbers, blockIdx.y);
}

struct sgd_args {
    float *p, *m;
    const float *g, *hyper;
    void *workspace;
    sr_update_params update;
};

// hyper: lr, momentum, weight_decay, nesterov, gradient scale, dampening, first step, 0
SR_CUDA_KERNEL(cuda_sgd, sgd_args, 256, 0) {
    const sr_part part = part_of(a.update, a.hyper);
    const int64_t i = sr_thread() * LANES;
    if (i >= part.count)
        return;
    const float *h = part.numbers;
    const float momentum = h[1], fresh = 1.0f - h[5];
    const bool moves = momentum != 0.0f, begins = h[6] != 0.0f, ahead = h[3] != 0.0f;
    float p[LANES], g[LANES], m[LANES] = {};
    sr_load_vector<sr_f32>(a.p + part.begin, i, part.count, p);
    sr_load_vector<sr_f32>(a.g + part.begin, i, part.count, g);
    if (moves && !begins)
        sr_load_vector<sr_f32>(a.m + part.begin, i, part.count, m);
    SR_UNROLL
    for (int k = 0; k < LANES; k++) {
        const float gradient = g[k] * h[4] + h[2] * p[k];
        m[k] = begins ? gradient : momentum * m[k] + fresh * gradient;
        const float step = !moves ? gradient : ahead ? gradient + momentum * m[k] : m[k];
        p[k] = p[k] - h[0] * step;
    }
    if (moves)
        sr_store_vector<sr_f32>(a.m + part.begin, i, part.count, m);
    sr_store_vector<sr_f32>(a.p + part.begin, i, part.count, p);
}

struct states_args {
    float *p, *first, *second, *third;
    const float *g, *hyper;
    void *workspace;
    sr_update_params update;
};

// hyper: b1, 1 - b1, b2, 1 - b2, gradient scale, decay of the gradient, factor of p, step size,
// root of the bias correction, eps, greatest
SR_CUDA_KERNEL(cuda_adam, states_args, 256, 0) {
    const sr_part part = part_of(a.update, a.hyper);
    const int64_t i = sr_thread() * LANES;
    if (i >= part.count)
        return;
    const float *h = part.numbers;
    const bool greatest = h[10] != 0.0f;
    float p[LANES], g[LANES], m[LANES], v[LANES], top[LANES] = {};
    sr_load_vector<sr_f32>(a.p + part.begin, i, part.count, p);
    sr_load_vector<sr_f32>(a.g + part.begin, i, part.count, g);
    sr_load_vector<sr_f32>(a.first + part.begin, i, part.count, m);
    sr_load_vector<sr_f32>(a.second + part.begin, i, part.count, v);
    if (greatest)
        sr_load_vector<sr_f32>(a.third + part.begin, i, part.count, top);
    SR_UNROLL
    for (int k = 0; k < LANES; k++) {
        const float gradient = g[k] * h[4] + h[5] * p[k];
        m[k] = h[0] * m[k] + h[1] * gradient;
        v[k] = h[2] * v[k] + h[3] * (gradient * gradient);
        top[k] = greatest && top[k] > v[k] ? top[k] : v[k];
        p[k] = h[6] * p[k] - h[7] * (m[k] / (sqrtf(top[k]) / h[8] + h[9]));
    }
    sr_store_vector<sr_f32>(a.first + part.begin, i, part.count, m);
    sr_store_vector<sr_f32>(a.second + part.begin, i, part.count, v);
    if (greatest)
        sr_store_vector<sr_f32>(a.third + part.begin, i, part.count, top);
    sr_store_vector<sr_f32>(a.p + part.begin, i, part.count, p);
}

// hyper: alpha, 1 - alpha, momentum, factor into m, gradient scale, decay of the gradient, factor
// of the step, eps in the root, unused, eps, centred, square starts at 1
SR_CUDA_KERNEL(cuda_rmsprop, states_args, 256, 0) {
    const sr_part part = part_of(a.update, a.hyper);
    const int64_t i = sr_thread() * LANES;
    if (i >= part.count)
        return;
    const float *h = part.numbers;
    const bool moves = h[2] != 0.0f, centred = h[10] != 0.0f, begins = h[11] != 0.0f;
    float p[LANES], g[LANES], square[LANES], mean[LANES] = {}, m[LANES] = {};
    sr_load_vector<sr_f32>(a.p + part.begin, i, part.count, p);
    sr_load_vector<sr_f32>(a.g + part.begin, i, part.count, g);
    sr_load_vector<sr_f32>(a.first + part.begin, i, part.count, square);
    if (centred)
        sr_load_vector<sr_f32>(a.second + part.begin, i, part.count, mean);
    if (moves)
        sr_load_vector<sr_f32>(a.third + part.begin, i, part.count, m);
    SR_UNROLL
    for (int k = 0; k < LANES; k++) {
        const float gradient = g[k] * h[4] + h[5] * p[k];
        square[k] = h[0] * (begins ? 1.0f : square[k]) + h[1] * (gradient * gradient);
        float variance = square[k];
        if (centred) {
            mean[k] = h[0] * mean[k] + h[1] * gradient;
            variance = variance - mean[k] * mean[k];
            variance = variance < 0.0f ? 0.0f : variance;
        }
        float step = h[3] * (gradient / (sqrtf(variance + h[7]) + h[9]));
        if (moves)
            m[k] = step = h[2] * m[k] + step;
        p[k] = p[k] - h[6] * step;
    }
    sr_store_vector<sr_f32>(a.first + part.begin, i, part.count, square);
    if (centred)
        sr_store_vector<sr_f32>(a.second + part.begin, i, part.count, mean);
    if (moves)
        sr_store_vector<sr_f32>(a.third + part.begin, i, part.count, m);
    sr_store_vector<sr_f32>(a.p + part.begin, i, part.count, p);
}

// hyper: b1, 1 - b1, b2, 1 - b2, gradient scale, unused, factor of p, lr
SR_CUDA_KERNEL(cuda_lion, sgd_args, 256, 0) {
    const sr_part part = part_of(a.update, a.hyper);
    const int64_t i = sr_thread() * LANES;
    if (i >= part.count)
        return;
    const float *h = part.numbers;
    float p[LANES], g[LANES], m[LANES];
    sr_load_vector<sr_f32>(a.p + part.begin, i, part.count, p);
    sr_load_vector<sr_f32>(a.g + part.begin, i, part.count, g);
    sr_load_vector<sr_f32>(a.m + part.begin, i, part.count, m);
    SR_UNROLL
    for (int k = 0; k < LANES; k++) {
        const float gradient = g[k] * h[4];
        const float c = h[0] * m[k] + h[1] * gradient;
        const float sign = c > 0.0f ? 1.0f : c < 0.0f ? -1.0f : c;
        p[k] = h[6] * p[k] - h[7] * sign;
        m[k] = h[2] * m[k] + h[3] * gradient;
    }
    sr_store_vector<sr_f32>(a.m + part.begin, i, part.count, m);
    sr_store_vector<sr_f32>(a.p + part.begin, i, part.count, p);
}

struct lamb_args {
    const float *p;
    float *m, *v, *g;
    const float *hyper;
    void *workspace;
    sr_update_params update;
};

// hyper: b1, factor of g in m, b2, 1 - b2, gradient scale, decay, 1 / bias correction, unused, root
// of the bias correction, eps
SR_CUDA_KERNEL(cuda_lamb, lamb_args, 256, 0) {
    const sr_part part = part_of(a.update, a.hyper);
    const int64_t i = sr_thread() * LANES;
    if (i >= part.count)
        return;
    const float *h = part.numbers;
    float p[LANES], g[LANES], m[LANES], v[LANES];
    sr_load_vector<sr_f32>(a.p + part.begin, i, part.count, p);
    sr_load_vector<sr_f32>(a.g + part.begin, i, part.count, g);
    sr_load_vector<sr_f32>(a.m + part.begin, i, part.count, m);
    sr_load_vector<sr_f32>(a.v + part.begin, i, part.count, v);
    SR_UNROLL
    for (int k = 0; k < LANES; k++) {
        const float gradient = g[k] * h[4];
        m[k] = h[0] * m[k] + h[1] * gradient;
        v[k] = h[2] * v[k] + h[3] * (gradient * gradient);
        g[k] = h[6] * (m[k] / (sqrtf(v[k]) / h[8] + h[9])) + h[5] * p[k];
    }
    sr_store_vector<sr_f32>(a.m + part.begin, i, part.count, m);
    sr_store_vector<sr_f32>(a.v + part.begin, i, part.count, v);
    sr_store_vector<sr_f32>(a.g + part.begin, i, part.count, g);
}

struct ema_args {
    float *e;
    const float *p, *hyper;
    void *workspace;
    sr_update_params update;
};

// hyper: keep, take, scale
SR_CUDA_KERNEL(cuda_ema, ema_args, 256, 0) {
    const sr_part part = part_of(a.update, a.hyper);
    const int64_t i = sr_thread() * LANES;
    if (i >= part.count)
        return;
    const float *h = part.numbers;
    float e[LANES], p[LANES];
    sr_load_vector<sr_f32>(a.e + part.begin, i, part.count, e);
    sr_load_vector<sr_f32>(a.p + part.begin, i, part.count, p);
    SR_UNROLL
    for (int k = 0; k < LANES; k++)
        e[k] = h[0] * e[k] + h[1] * (p[k] * h[2]);
    sr_store_vector<sr_f32>(a.e + part.begin, i, part.count, e);
}

struct limit_args {
    float *g;
    const float *hyper;
    void *workspace;
    sr_update_params update;
};

// hyper: limit
SR_CUDA_KERNEL(cuda_limit, limit_args, 256, 0) {
    const sr_part part = part_of(a.update, a.hyper);
    const int64_t i = sr_thread() * LANES;
    if (i >= part.count)
        return;
    const float *h = part.numbers;
    const float most = h[0];
    float g[LANES];
    sr_load_vector<sr_f32>(a.g + part.begin, i, part.count, g);
    SR_UNROLL
    for (int k = 0; k < LANES; k++)
        g[k] = g[k] > most ? most : g[k] < -most ? -most : g[k];
    sr_store_vector<sr_f32>(a.g + part.begin, i, part.count, g);
}

static __device__ void copy_vector(const float (&from)[LANES], float (&to)[LANES]) {
    SR_UNROLL
    for (int e = 0; e < LANES; e++)
        to[e] = from[e];
}

static __device__ void add_vector(const float (&x)[LANES], float (&to)[LANES]) {
    SR_UNROLL
    for (int e = 0; e < LANES; e++)
        to[e] = x[e] + to[e];
}

struct fold_args {
    const float *x;
    float *y;
    const float *more[SR_FOLD_PARTS - 1]; // of the parts behind the first
    void *workspace;
    sr_fold_params fold;
};

// Blocks of a part.
static __host__ __device__ int64_t fold_blocks(const sr_fold_part &part) {
    enum { EACH = SR_CUDA_ELEMENTS * LANES };
    return ((int64_t)part.count + EACH - 1) / EACH;
}

// level[k]: the sum of 2^k lanes, if bit k of the number of lanes so far is set.
SR_CUDA_KERNEL(cuda_fold_lanes, fold_args, 256, 0) {
    int64_t block = blockIdx.x;
    int number = 0;
    for (; block >= fold_blocks(a.fold.part[number]); number++)
        block -= fold_blocks(a.fold.part[number]);
    const int64_t count = a.fold.part[number].count, stride = a.fold.part[number].stride;
    const int64_t i = (block * SR_CUDA_ELEMENTS + threadIdx.x) * LANES;
    if (i >= count)
        return;
    float level[SR_FOLD_LEVELS][LANES] = {}, sum[LANES] = {}, before[LANES] = {};
    const float *x = number == 0 ? a.x : a.more[number - 1];
    float *y = a.y + a.fold.part[number].place;
    for (int32_t lane = 0; lane < a.fold.lanes; lane++, x += stride) {
        sr_load_vector<sr_f32>(x, i, count, sum);
        SR_UNROLL
        for (int k = 0; k < SR_FOLD_LEVELS; k++) {
            if (!(lane >> k & 1)) {
                copy_vector(sum, level[k]);
                break;
            }
            add_vector(level[k], sum);
        }
    }
    bool begun = false;
    SR_UNROLL
    for (int k = 0; k < SR_FOLD_LEVELS; k++) {
        if (!(a.fold.lanes >> k & 1))
            continue;
        if (begun)
            add_vector(level[k], sum);
        else
            copy_vector(level[k], sum);
        begun = true;
    }
    if (a.fold.adds) {
        sr_load_vector<sr_f32>(y, i, count, before);
        add_vector(before, sum);
    }
    sr_store_vector<sr_f32>(y, i, count, sum);
}

struct squares_args {
    const float *x;
    double *s;
    const float *table;
    double *sums; // of blocks
    sr_update_params update;
    int64_t blocks;
};

// The square of an f32 is exact in f64.
static __device__ double square_of(float x) {
    return (double)x * (double)x;
}

SR_CUDA_KERNEL(cuda_add_squares, squares_args, 128, 1) {
    const float *x = a.x;
    sr_sum_block(a.update.count, a.sums, [=](int64_t i) { return square_of(x[i]); });
}

SR_CUDA_KERNEL(cuda_add_squares_tree, squares_args, 512, 1) {
    const double sum = sr_sum_column(true, a.blocks, a.sums, 1);
    if (threadIdx.y == 0)
        a.s[0] += sum;
}

// A block has a piece: its threads the chunks, and the first warp the tree of their sums, in which
// those of chunks that do not exist are zeros. Squares have no sum that is -0.
SR_CUDA_KERNEL(cuda_add_squares_piece, squares_args, PIECE_THREADS, 1) {
    enum { CHUNKS = SR_UPDATE_PIECE / SR_REFERENCE_CHUNK };
    double *chunk = (double *)(void *)sr_cuda_shared;
    const int way = threadIdx.x % SR_REFERENCE_WAYS, number = threadIdx.x / SR_REFERENCE_WAYS;
    const sr_part part = part_of_piece(a.update, a.table, blockIdx.x);
    const int64_t first = (int64_t)number * SR_REFERENCE_CHUNK;
    const int64_t left = part.count - first;
    const float *x = a.x + part.begin + first;
    const double sum = sr_sum_chunk<double>(left < SR_REFERENCE_CHUNK ? left : SR_REFERENCE_CHUNK,
                                            way, [=](int64_t i) { return square_of(x[i]); });
    static_assert(CHUNKS * SR_REFERENCE_WAYS == PIECE_THREADS && CHUNKS == 64,
                  "two chunks for each thread of a warp");
    if (way == 0)
        chunk[number] = sum;
    __syncthreads();
    if (threadIdx.x >= CHUNKS / 2)
        return;
    double total = chunk[2 * threadIdx.x] + chunk[2 * threadIdx.x + 1];
    for (int step = 1; step < CHUNKS / 2; step *= 2)
        total += __shfl_down_sync(0xffffffffu, total, step);
    if (threadIdx.x == 0 && part.count > 0)
        a.s[blockIdx.x * a.update.apart] += total;
}

// The update of arrays, or of their pieces, by one kernel.
template <class A>
static sr_status prepare_update(const sr_kernel_request *request, const sr_cuda_kernel *kernel,
                                sr_prepared *out) {
    A a = {};
    a.update = *sr_cuda_params<sr_update_params>(request);
    if (a.update.pieces == 0)
        return sr_cuda_elementwise(request, a, kernel, sr_blocks_for(a.update.count, LANES), out);
    sr_cuda_making making(request, a, out);
    making.add_grid(kernel, SR_UPDATE_PIECE / (LANES * SR_CUDA_ELEMENTS), a.update.pieces, 1,
                    SR_CUDA_ELEMENTS, 1, 0);
    return making.done();
}

sr_status sr_cuda_prepare_sgd(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_update<sgd_args>(request, &cuda_sgd_kernel, out);
}

sr_status sr_cuda_prepare_adam(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_update<states_args>(request, &cuda_adam_kernel, out);
}

sr_status sr_cuda_prepare_rmsprop(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_update<states_args>(request, &cuda_rmsprop_kernel, out);
}

sr_status sr_cuda_prepare_lion(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_update<sgd_args>(request, &cuda_lion_kernel, out);
}

sr_status sr_cuda_prepare_lamb(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_update<lamb_args>(request, &cuda_lamb_kernel, out);
}

sr_status sr_cuda_prepare_ema(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_update<ema_args>(request, &cuda_ema_kernel, out);
}

sr_status sr_cuda_prepare_limit(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_update<limit_args>(request, &cuda_limit_kernel, out);
}

sr_status sr_cuda_prepare_fold_lanes(const sr_kernel_request *request, sr_prepared *out) {
    fold_args a = {};
    int64_t blocks = 0;
    a.fold = *sr_cuda_params<sr_fold_params>(request);
    for (int i = 0; i < a.fold.parts; i++)
        blocks += fold_blocks(a.fold.part[i]);
    sr_cuda_making making(request, a, out);
    making.add(&cuda_fold_lanes_kernel, blocks, SR_CUDA_ELEMENTS);
    return making.done();
}

sr_status sr_cuda_prepare_add_squares(const sr_kernel_request *request, sr_prepared *out) {
    squares_args a = {};
    a.update = *sr_cuda_params<sr_update_params>(request);
    a.blocks = sr_cuda_sum_blocks(a.update.count);
    sr_cuda_making making(request, a, out);
    if (a.update.pieces > 0) {
        making.add(&cuda_add_squares_piece_kernel, a.update.pieces, PIECE_THREADS,
                   PIECE_THREADS / SR_REFERENCE_WAYS * sizeof(double));
        return making.done();
    }
    making.add(&cuda_add_squares_kernel, a.blocks, SR_CUDA_SUM_THREADS,
               SR_CUDA_CHUNKS * sizeof(double));
    making.add_columns(&cuda_add_squares_tree_kernel, 1, a.blocks);
    out->workspace = (size_t)a.blocks * sizeof(double);
    return making.done();
}
