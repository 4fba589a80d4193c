// SPDX-License-Identifier: Apache-2.0
// Layer norm in numerics class "tensor": groupnorm and groupnorm_grad where a group has all
// channels of a single pixel, a row; and the same with a sum before or behind (add_groupnorm,
// groupnorm_add_grad). Each tensor is read once.
//
// A row is in the registers of 2^wide_bits neighbouring threads, each of which has at most
// MOST_VECTORS vectors of 16 bytes, as far apart as the threads are many. A sum over a row is
// joined by a tree of the places in a vector, a butterfly in the warp, and one warp after the
// other. The mean comes first, then the squares of what differs from it, so that no variance
// cancels. With at most D additions between a term and its sum, the mean has an error of at most (D
// + 2) 2^-24 of the mean absolute value.
//
// dgamma and dbeta are sums over the rows of a lane, which the shape of the lane alone cuts into
// units. A block has one unit at a time, and a thread its columns of 'turns' rows, which it adds
// one after the other. Threads are joined by a tree, and units by a function of its own, by the
// binary tree. So lanes side by side have the sums that each has alone.
//
// The limit is memory, so the loads of a row must be under way together, x and dy of it beside the
// sums of its columns. __syncwarp before each vector keeps the loads of later parameters behind it:
// they would take the registers.
#include "kernels/cuda/cuda_drop.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_tensor.h"
#include "kernels/cuda/cuda_vector.h"

enum {
    THREADS = 256,
    THREAD_BITS = 8, // THREADS = 2^8
    LANES = 32,      // of a warp
    WARPS = THREADS / LANES,
    PLACES = 2,        // of a vector, with sums of their own in the gradient
    LEAST_VECTORS = 2, // of a thread and a row
    MOST_VECTORS = 4,
    MOST_COLUMN_SUMS = 2 * 3 * 8, // of a thread
    LEAST_TURNS = 2,              // rows of a thread in a unit
    MOST_TURNS = 8,
    ENOUGH_UNITS = 768 // three for each block that an H100 runs at once
};
static const unsigned ALL = 0xffffffffu;

// How the rows of a request are cut. A lane is cut as if it were alone.
struct row_cut {
    int32_t rows;              // of a lane
    int32_t lanes;             // that have sums of their own
    int32_t channels, vectors; // of a row
    int32_t wide_bits;
    int32_t turns, units; // units: of a lane
    int32_t uncentred;
    float inverse; // 1 / channels
};

static __device__ int wide_of(const row_cut &s) {
    return 1 << s.wide_bits;
}

// Rows that a block has at a time.
static __host__ __device__ int high_of(const row_cut &s) {
    return THREADS >> s.wide_bits;
}

// What a thread has of a row: 'vectors' of N channels, the first one from 'channel' on, which is
// element 'first'; the next ones are 'step' elements apart.
struct row_part {
    int64_t row, first;
    int channel, step, vectors;
};

// The part of this thread in the row with this number; exists: whether there is such a row.
template <int N>
static __device__ __forceinline__ row_part part_of(const row_cut &s, int64_t row, bool exists) {
    const int thread = (int)threadIdx.x & (wide_of(s) - 1), left = s.vectors - thread;
    row_part part;
    part.row = row;
    part.channel = thread * N;
    part.step = wide_of(s) * N;
    part.vectors = exists && left > 0 ? (left + wide_of(s) - 1) >> s.wide_bits : 0;
    part.first = row * s.channels + part.channel;
    return part;
}

// A thread's vectors of a row, zeros where it has none.
template <class T, int V> struct row_vectors {
    enum { N = sr_lanes<T> };
    typedef typename T::type element;
    sr_packed<element, N> vector[V];

    __device__ __forceinline__ void load(const void *p, const row_part &part) {
        SR_UNROLL
        for (int v = 0; v < V; v++)
            vector[v].load((const element *)p + part.first + v * part.step, v < part.vectors, true);
    }
};

// to = the parameters of vector v, or 'absent' where there are none.
template <int N>
static __device__ __forceinline__ void load_parameters(const float *p, const row_part &part, int v,
                                                       float absent, float (&to)[N]) {
    if (p && v < part.vectors) {
        sr_get(p + part.channel + v * part.step, to);
        return;
    }
    SR_UNROLL
    for (int k = 0; k < N; k++)
        to[k] = absent;
}

// ---- Sums over a row ----

// What warps that share rows write, and the columns of dgamma and dbeta.
struct shared_sums {
    float row[2][2][WARPS]; // in turn, as a thread may still read some while others are written
    float column[MOST_COLUMN_SUMS * THREADS / 2]; // as many of them as a function needs
};

static __device__ shared_sums &shared(void) {
    return *(shared_sums *)(void *)sr_cuda_shared;
}

template <int N> static __device__ __forceinline__ float tree_of(float (&v)[N]) {
    SR_UNROLL
    for (int step = 1; step < N; step *= 2) {
        SR_UNROLL
        for (int k = 0; k + step < N; k += 2 * step)
            v[k] += v[k + step];
    }
    return v[0];
}

// Each sum of the threads that have a row, for all of them. All threads of the block take part;
// turn: 0 and 1 in turn.
template <int SUMS>
static __device__ __forceinline__ void join_row(const row_cut &s, int &turn, float (&sum)[SUMS]) {
    const int warp = (int)threadIdx.x / LANES, warps = wide_of(s) / LANES;
    for (int step = 1; step < wide_of(s) && step < LANES; step *= 2) {
        SR_UNROLL
        for (int i = 0; i < SUMS; i++)
            sum[i] += __shfl_xor_sync(ALL, sum[i], step);
    }
    if (warps <= 1)
        return;
    float(&row)[2][WARPS] = shared().row[turn];
    turn ^= 1;
    if (threadIdx.x % LANES == 0) {
        SR_UNROLL
        for (int i = 0; i < SUMS; i++)
            row[i][warp] = sum[i];
    }
    __syncthreads();
    const int first = warp & ~(warps - 1);
    SR_UNROLL
    for (int i = 0; i < SUMS; i++) {
        sum[i] = row[i][first];
        SR_UNROLL_BY(1)
        for (int k = 1; k < warps; k++)
            sum[i] += row[i][first + k];
    }
}

// ---- groupnorm: x, gamma, beta, y, mean, rstd ----

struct tensor_groupnorm_args {
    const void *x;
    const float *gamma, *beta;
    void *y;
    float *mean, *rstd;
    void *workspace;
    row_cut cut;
    float eps;
};

template <class T, int V>
static __device__ __forceinline__ float mean_of(const row_cut &s, int &turn,
                                                const row_vectors<T, V> &x) {
    constexpr int N = sr_lanes<T>;
    float place[N] = {}, sum[1];
    SR_UNROLL
    for (int v = 0; v < V; v++) {
        SR_UNROLL
        for (int k = 0; k < N; k++)
            place[k] += sr_element<T, N>(x.vector[v], k);
    }
    sum[0] = tree_of(place);
    join_row(s, turn, sum);
    return sum[0] * s.inverse;
}

template <class T, int V>
static __device__ __forceinline__ float variance_of(const row_cut &s, int &turn,
                                                    const row_part &part,
                                                    const row_vectors<T, V> &x, float mean) {
    constexpr int N = sr_lanes<T>;
    float place[N] = {}, sum[1];
    SR_UNROLL
    for (int v = 0; v < V; v++) {
        const float centre = v < part.vectors ? mean : 0.0f;
        SR_UNROLL
        for (int k = 0; k < N; k++) {
            const float d = sr_element<T, N>(x.vector[v], k) - centre;
            place[k] = __fmaf_rn(d, d, place[k]);
        }
    }
    sum[0] = tree_of(place);
    join_row(s, turn, sum);
    return sum[0] * s.inverse;
}

// A thread's part of what is normalised.
template <class T, int V>
static __device__ __forceinline__ void load_row(const tensor_groupnorm_args &a,
                                                const row_part &part, row_vectors<T, V> &x) {
    x.load(a.x, part);
}

template <class T, int V, class A> static __device__ void normalise_rows(const A &a) {
    constexpr int N = sr_lanes<T>;
    const row_cut &s = a.cut;
    int turn = 0;
    for (int64_t begin = (int64_t)blockIdx.x * high_of(s); begin < s.rows;
         begin += (int64_t)gridDim.x * high_of(s)) {
        const int64_t row = begin + (threadIdx.x >> s.wide_bits);
        const row_part part = part_of<N>(s, row, row < s.rows);
        row_vectors<T, V> x;
        load_row<T, V>(a, part, x);
        const float mean = s.uncentred ? 0.0f : mean_of(s, turn, x);
        const float rstd = 1.0f / sqrtf(variance_of(s, turn, part, x, mean) + a.eps);
        if (part.channel == 0 && part.vectors > 0) {
            a.mean[row] = mean;
            a.rstd[row] = rstd;
        }
        SR_UNROLL
        for (int v = 0; v < V; v++) {
            float value[N], gamma[N], beta[N];
            load_parameters(a.gamma, part, v, 1.0f, gamma);
            load_parameters(a.beta, part, v, 0.0f, beta);
            sr_unpack<T>(x.vector[v], value);
            SR_UNROLL
            for (int k = 0; k < N; k++)
                value[k] = __fmaf_rn((value[k] - mean) * rstd, gamma[k], beta[k]);
            sr_pack<T>(x.vector[v], value);
            if (v < part.vectors)
                x.vector[v].store((typename T::type *)a.y + part.first + v * part.step, false);
        }
    }
}

// ---- add_groupnorm: a, b, key, gamma, beta, s, y, mean, rstd ----

struct tensor_add_groupnorm_args {
    const void *a, *b;
    const int32_t *key;
    const float *gamma, *beta;
    void *s, *y;
    float *mean, *rstd;
    void *workspace;
    row_cut cut;
    float eps;
    sr_drop drop;
    int32_t drop_rows; // of a sample that is dropped or kept
};

// Writes the sum, which is rounded.
template <class T, int V>
static __device__ __forceinline__ void load_row(const tensor_add_groupnorm_args &a,
                                                const row_part &part, row_vectors<T, V> &x) {
    constexpr int N = sr_lanes<T>;
    row_vectors<T, V> branch;
    branch.load(a.b, part);
    x.load(a.a, part);
    const bool draws = a.key && part.vectors > 0;
    const bool keep = !draws || a.drop.keeps(a.key, (int32_t)part.row / a.drop_rows);
    SR_UNROLL
    for (int v = 0; v < V; v++) {
        float sum[N];
        SR_UNROLL
        for (int k = 0; k < N; k++) {
            const float b = sr_element<T, N>(branch.vector[v], k);
            const float kept = draws ? T::rounded(keep ? b * a.drop.scale : 0.0f) : b;
            sum[k] = sr_element<T, N>(x.vector[v], k) + kept;
        }
        sr_pack<T>(x.vector[v], sum);
        if (v < part.vectors)
            x.vector[v].store((typename T::type *)a.s + part.first + v * part.step, false);
    }
}

// ---- groupnorm_grad: x, dy, gamma, mean, rstd, dx, dgamma, dbeta ----
// With xhat = (x - mean) rstd and g = gamma dy: dgamma = sum dy xhat, dbeta = sum dy,
// dx = rstd (g - sum g / C - xhat sum (g xhat) / C).

struct tensor_groupnorm_grad_args {
    const void *x, *dy;
    const float *gamma, *mean, *rstd;
    void *dx;
    float *dgamma, *dbeta;
    float *unit; // sums of dy, then of dy xhat, of each unit [lanes][units][2][C]
    row_cut cut;
};

// Sums of a thread's columns: of dy, then of dy xhat.
template <class T, int V> struct column_sums {
    enum { N = sr_lanes<T>, COUNT = 2 * V * N };
    float at[COUNT];

    static __device__ constexpr int plain(int v, int k) { return v * N + k; }
    static __device__ constexpr int product(int v, int k) { return (V + v) * N + k; }
};

// What is added to dx.
template <class T, int V, class A> struct other_gradients {
    __device__ __forceinline__ void load(const A &a, const row_part &part) {
        (void)a;
        (void)part;
    }
    template <int N> __device__ __forceinline__ void add(int v, float (&dx)[N]) const {
        (void)v;
        (void)dx;
    }
};

// dx of a row; adds its terms to 'columns'.
template <class T, int V, class A>
static __device__ __forceinline__ void
differentiate_row(const A &a, int &turn, const row_part &part, column_sums<T, V> &columns) {
    constexpr int N = sr_lanes<T>;
    row_vectors<T, V> x, dy;
    other_gradients<T, V, A> others;
    dy.load(a.dy, part);
    x.load(a.x, part);
    others.load(a, part);
    const bool exists = part.vectors > 0;
    const float mean = exists ? a.mean[part.row] : 0.0f, rstd = exists ? a.rstd[part.row] : 0.0f;
    float plain[PLACES] = {}, product[PLACES] = {}, sum[2];
    SR_UNROLL
    for (int v = 0; v < V; v++) {
        float gamma[N];
        __syncwarp();
        load_parameters(a.gamma, part, v, 1.0f, gamma);
        SR_UNROLL
        for (int k = 0; k < N; k++) {
            const float y = sr_element<T, N>(dy.vector[v], k), g = y * gamma[k];
            const float xhat = (sr_element<T, N>(x.vector[v], k) - mean) * rstd;
            float &of_xhat = columns.at[columns.product(v, k)];
            columns.at[columns.plain(v, k)] += y;
            of_xhat = __fmaf_rn(y, xhat, of_xhat);
            plain[k % PLACES] += g;
            product[k % PLACES] = __fmaf_rn(g, xhat, product[k % PLACES]);
        }
    }
    sum[0] = tree_of(plain);
    sum[1] = tree_of(product);
    join_row(a.cut, turn, sum);
    const float constant = a.cut.uncentred ? 0.0f : -(sum[0] * a.cut.inverse) * rstd;
    const float factor = -(sum[1] * a.cut.inverse) * rstd;
    SR_UNROLL
    for (int v = 0; v < V; v++) {
        float gamma[N], dx[N];
        __syncwarp();
        load_parameters(a.gamma, part, v, 1.0f, gamma);
        SR_UNROLL
        for (int k = 0; k < N; k++) {
            const float g = sr_element<T, N>(dy.vector[v], k) * gamma[k];
            const float xhat = (sr_element<T, N>(x.vector[v], k) - mean) * rstd;
            dx[k] = __fmaf_rn(g, rstd, __fmaf_rn(xhat, factor, constant));
        }
        others.add(v, dx);
        sr_pack<T>(x.vector[v], dx);
        if (v < part.vectors)
            x.vector[v].store((typename T::type *)a.dx + part.first + v * part.step, false);
    }
}

// Adds the sums of the thread that is 'step' after this one; for the first 'step' threads of the
// block, or for all where that is a thread of the warp. All threads of the block take part.
template <int COUNT>
static __device__ __forceinline__ void add_threads(int step, float (&sum)[COUNT]) {
    const int thread = (int)threadIdx.x;
    if (step < LANES) {
        SR_UNROLL
        for (int i = 0; i < COUNT; i++)
            sum[i] += __shfl_xor_sync(ALL, sum[i], step);
        return;
    }
    float *const other = shared().column; // [COUNT][step]
    __syncthreads();
    if (thread >= step && thread < 2 * step) {
        SR_UNROLL
        for (int i = 0; i < COUNT; i++)
            other[i * step + thread - step] = sum[i];
    }
    __syncthreads();
    if (thread < step) {
        SR_UNROLL
        for (int i = 0; i < COUNT; i++)
            sum[i] += other[i * step + thread];
    }
}

template <class T, int V, class A> static __device__ void differentiate_units(const A &a) {
    constexpr int N = sr_lanes<T>;
    const row_cut &s = a.cut;
    int turn = 0;
    for (int item = (int)blockIdx.x; item < s.lanes * s.units; item += (int)gridDim.x) {
        const int lane = item / s.units, begin = (item - lane * s.units) * s.turns * high_of(s);
        const int left = s.rows - begin, rows = s.turns * high_of(s);
        const int64_t first = (int64_t)lane * s.rows + begin;
        column_sums<T, V> columns = {};
        for (int row = (int)threadIdx.x >> s.wide_bits; row < rows; row += high_of(s))
            differentiate_row<T, V>(a, turn, part_of<N>(s, first + row, row < left), columns);
        for (int step = wide_of(s); step < LANES; step *= 2)
            add_threads(step, columns.at);
        for (int step = THREADS / 2; step >= LANES && step >= wide_of(s); step /= 2)
            add_threads(step, columns.at);
        if ((int)threadIdx.x >= wide_of(s))
            continue;
        float *const to = a.unit + 2 * (int64_t)item * s.channels;
        const row_part part = part_of<N>(s, 0, true);
        SR_UNROLL
        for (int v = 0; v < V; v++) {
            SR_UNROLL
            for (int i = 0; i < 2; i++) {
                float sum[N];
                SR_UNROLL
                for (int k = 0; k < N; k++)
                    sum[k] = columns.at[(i * V + v) * N + k];
                if (v < part.vectors)
                    sr_put(to + i * s.channels + part.channel + v * part.step, sum);
            }
        }
    }
}

// dgamma and dbeta of the lanes: the sums of their units.
template <class A> static __device__ void fold_units(const A &a) {
    const int64_t channels = a.cut.channels;
    sr_sum_lanes(a.cut.lanes, a.cut.units, a.unit, 2 * channels, [&](int64_t lane, int64_t i) {
        return i < channels ? a.dbeta + lane * channels + i
                            : a.dgamma + lane * channels + i - channels;
    });
}

SR_CUDA_KERNEL(tensor_groupnorm_grad_fold, tensor_groupnorm_grad_args, SR_CUDA_COLUMN, 1) {
    fold_units(a);
}

// ---- groupnorm_add_grad: x, dy, z, gamma, mean, rstd, dx, dgamma, dbeta ----

struct tensor_groupnorm_add_grad_args {
    const void *x, *dy, *z;
    const float *gamma, *mean, *rstd;
    void *dx;
    float *dgamma, *dbeta;
    float *unit;
    row_cut cut;
};

template <class T, int V> struct other_gradients<T, V, tensor_groupnorm_add_grad_args> {
    row_vectors<T, V> z;

    __device__ __forceinline__ void load(const tensor_groupnorm_add_grad_args &a,
                                         const row_part &part) {
        z.load(a.z, part);
    }
    template <int N> __device__ __forceinline__ void add(int v, float (&dx)[N]) const {
        SR_UNROLL
        for (int k = 0; k < N; k++)
            dx[k] = sr_element<T, N>(z.vector[v], k) + T::rounded(dx[k]);
    }
};

SR_CUDA_KERNEL(tensor_groupnorm_add_grad_fold, tensor_groupnorm_add_grad_args, SR_CUDA_COLUMN, 1) {
    fold_units(a);
}

// ---- Functions, by the vectors of a thread ----

#define ROW_KERNEL(name, body, vectors, blocks)                                                    \
    template <class T> static __device__ void name##_##vectors(const name##_args &a) {             \
        body<T, vectors>(a);                                                                       \
    }                                                                                              \
    SR_CUDA_TYPED_WITH(name##_##vectors, name##_args, THREADS, 1, (THREADS, blocks))
// With 2-byte elements, sums of four vectors would not be in registers.
#define ROW_KERNELS(name, body, blocks)                                                            \
    ROW_KERNEL(name, body, 2, blocks)                                                              \
    ROW_KERNEL(name, body, 3, blocks)                                                              \
    SR_CUDA_KERNEL_WITH(name##_4_f32, name##_args, THREADS, 1, (THREADS, blocks)) {                \
        body<sr_f32, 4>(a);                                                                        \
    }                                                                                              \
    static const sr_cuda_kernel *const name##_4_kernels[] = {&name##_4_f32_kernel};                \
    static const sr_cuda_kernel *const *const name##_kernels[] = {                                 \
        name##_2_kernels, name##_3_kernels, name##_4_kernels};
ROW_KERNELS(tensor_groupnorm, normalise_rows, 4)
ROW_KERNELS(tensor_add_groupnorm, normalise_rows, 4)
ROW_KERNELS(tensor_groupnorm_grad, differentiate_units, 2)
ROW_KERNELS(tensor_groupnorm_add_grad, differentiate_units, 2)

// ---- Plans ----

static int wide_bits_for(int64_t vectors, int of_thread) {
    int bits = 0;
    while ((int64_t)of_thread << bits < vectors)
        bits++;
    return bits;
}

static int most_vectors(sr_dtype dtype) {
    return dtype == SR_F32 ? MOST_VECTORS : MOST_VECTORS - 1;
}

// The vectors of a thread for which the fewest threads have none; of equals, those for which a warp
// has a row.
static int vectors_of_thread(sr_dtype dtype, int64_t vectors) {
    int best = 0;
    int64_t least = INT64_MAX;
    for (int n = LEAST_VECTORS; n <= most_vectors(dtype); n++) {
        const int bits = wide_bits_for(vectors, n);
        const int64_t all = 2 * ((int64_t)n << bits) + (1 << bits > LANES ? 1 : 0);
        if (bits <= THREAD_BITS && all < least) {
            best = n;
            least = all;
        }
    }
    return best;
}

bool sr_tensor_holds_row(sr_dtype dtype, int64_t channels) {
    const int64_t n = sr_cuda_lanes(dtype);
    return channels % n == 0 && channels / n <= (int64_t)most_vectors(dtype) * THREADS;
}

// lanes: that have sums of their own.
static row_cut cut_of(const sr_groupnorm_params *p, sr_dtype dtype, int lanes) {
    row_cut s = {};
    s.rows = (int32_t)(p->samples / lanes);
    s.lanes = lanes;
    s.channels = (int32_t)p->channels;
    s.vectors = s.channels / (int32_t)sr_cuda_lanes(dtype);
    s.wide_bits = wide_bits_for(s.vectors, vectors_of_thread(dtype, s.vectors));
    s.uncentred = p->uncentred;
    s.inverse = 1.0f / (float)s.channels;
    for (s.turns = MOST_TURNS;; s.turns /= 2) {
        s.units = (int32_t)sr_blocks_for(s.rows, (int64_t)s.turns * high_of(s));
        if (s.turns == LEAST_TURNS || s.units >= ENOUGH_UNITS)
            return s;
    }
}

// The function of a kernel for rows that are cut like this.
static const sr_cuda_kernel *function_of(const sr_cuda_kernel *const *const *kernels,
                                         sr_dtype dtype, const row_cut &s) {
    return kernels[vectors_of_thread(dtype, s.vectors) - LEAST_VECTORS][dtype];
}

template <class A>
static sr_status prepare_rows(const sr_kernel_request *request, const sr_groupnorm_params *p, A a,
                              const sr_cuda_kernel *const *const *kernels, sr_prepared *out) {
    const sr_dtype dtype = request->dtype[0];
    a.cut = cut_of(p, dtype, 1);
    a.eps = (float)p->eps;
    sr_cuda_making making(request, a, out);
    making.add(function_of(kernels, dtype, a.cut), sr_blocks_for(a.cut.rows, high_of(a.cut)),
               THREADS, offsetof(shared_sums, column));
    return making.done();
}

sr_status sr_tensor_prepare_groupnorm(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_rows(request, sr_cuda_params<sr_groupnorm_params>(request),
                        tensor_groupnorm_args{}, tensor_groupnorm_kernels, out);
}

sr_status sr_tensor_prepare_add_groupnorm(const sr_kernel_request *request, sr_prepared *out) {
    const sr_add_groupnorm_params *p = sr_cuda_params<sr_add_groupnorm_params>(request);
    tensor_add_groupnorm_args a = {};
    a.drop_rows = (int32_t)p->drop_rows;
    if (p->drop_rows > 0)
        a.drop = sr_drop_of(request, 2, p->norm.samples / p->drop_rows, p->probability, p->scope);
    return prepare_rows(request, &p->norm, a, tensor_add_groupnorm_kernels, out);
}

template <class A>
static sr_status prepare_gradients(const sr_kernel_request *request, A a,
                                   const sr_cuda_kernel *const *const *kernels,
                                   const sr_cuda_kernel *fold, sr_prepared *out) {
    const sr_dtype dtype = request->dtype[0];
    a.cut = cut_of(sr_cuda_params<sr_groupnorm_params>(request), dtype,
                   request->lanes > 0 ? request->lanes : 1);
    const row_cut &s = a.cut;
    const int64_t sums =
        2 * vectors_of_thread(dtype, s.vectors) * sr_cuda_lanes(dtype) * (THREADS / 2);
    sr_cuda_making making(request, a, out);
    making.add(function_of(kernels, dtype, s), (int64_t)s.lanes * s.units, THREADS,
               offsetof(shared_sums, column) + (size_t)sums * sizeof(float));
    making.add_columns(fold, 2 * (int64_t)s.lanes * s.channels, s.units);
    out->workspace = (size_t)(2 * (int64_t)s.lanes * s.units * s.channels) * sizeof(float);
    return making.done();
}

sr_status sr_tensor_prepare_groupnorm_grad(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_gradients(request, tensor_groupnorm_grad_args{}, tensor_groupnorm_grad_kernels,
                             &tensor_groupnorm_grad_fold_kernel, out);
}

sr_status sr_tensor_prepare_groupnorm_add_grad(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_gradients(request, tensor_groupnorm_add_grad_args{},
                             tensor_groupnorm_add_grad_kernels,
                             &tensor_groupnorm_add_grad_fold_kernel, out);
}
