// SPDX-License-Identifier: Apache-2.0
// Normalisation over groups of channels: kernels/cpu/reference/reference_groupnorm.inc.
//
// A block has one leaf of some groups of a sample: a warp has a part of the leaf, and a lane the
// terms of one column. The parts and the columns are joined in shared memory and in the warp. Where
// a group is one leaf, the same block writes the results, and finds x in the first-level cache.
// Otherwise the leaves' numbers are in the workspace, joined by a kernel of their own, and x is
// read again to apply them. The gradients of gamma and beta are sums over rows (cuda_row_sums.h).
#include "kernels/cuda/cuda_drop.h"
#include "kernels/cuda/cuda_row_sums.h"

enum {
    LANES = 32, // of a warp
    TERMS = SR_REFERENCE_TERMS,
    PART_LEVELS = 4 // of the tree of a leaf's parts
};
static_assert(SR_REFERENCE_COLUMNS <= LANES, "the columns of a group are in a warp");
static_assert(SR_REFERENCE_PARTS <= 1 << PART_LEVELS, "levels of a leaf");

struct group_shape {
    sr_group_order order;
    int64_t samples, channels, groups;
    int64_t warp_groups, chunks; // groups of a warp; of each leaf there is a block for each chunk
    float eps;
    int32_t uncentred;
};

// ---- The terms of a lane ----

// 'terms' elements of each pixel, 'columns' apart, 'count' of them in all.
struct group_part {
    int64_t sample, leaf, group, first, channel; // first element, and its channel
    int32_t column, terms, count;
    bool exists; // the group
};

static __device__ group_part group_part_of(const group_shape &s) {
    const sr_group_order &o = s.order;
    const int lane = (int)threadIdx.x, in_warp = lane / (int)o.columns;
    const int64_t leaf = sr_divide(blockIdx.x, s.chunks);
    group_part p;
    p.sample = sr_divide(leaf, o.leaves);
    p.leaf = leaf - p.sample * o.leaves;
    p.group = (blockIdx.x - leaf * s.chunks) * s.warp_groups + in_warp;
    p.column = lane - in_warp * (int)o.columns;
    p.exists = in_warp < s.warp_groups && p.group < s.groups;
    const int64_t part = p.leaf * SR_REFERENCE_PARTS + threadIdx.y;
    const int64_t number = sr_divide(part, o.pixel_parts), pixel = number * o.part_pixels;
    const int64_t cut = (part - number * o.pixel_parts) * (TERMS * SR_REFERENCE_COLUMNS);
    const int64_t in_group = cut + p.column, left = o.width - in_group;
    const int64_t pixels = o.pixels - pixel < o.part_pixels ? o.pixels - pixel : o.part_pixels;
    const int64_t terms = left > 0 ? sr_divide(left + o.columns - 1, o.columns) : 0;
    p.terms = terms < TERMS ? (int32_t)terms : (int32_t)TERMS;
    p.count = p.exists && part < o.parts ? (int32_t)pixels * p.terms : 0;
    p.channel = p.group * o.width + in_group;
    p.first = (p.sample * o.pixels + pixel) * s.channels + p.channel;
    return p;
}

// Passes each term of a lane, in order, to use(element, channel, numbers): N numbers that
// load(element, channel, numbers) gives. The loads of a batch are under way together.
template <int N, class Load, class Use>
static __device__ void each_term(const group_shape &s, const group_part &p, const Load &load,
                                 const Use &use) {
    const int64_t columns = s.order.columns, next_pixel = s.channels - (p.terms - 1) * columns;
    constexpr int ROUND = BATCH / N;
    int64_t element = p.first;
    int32_t k = 0;
    for (int32_t done = 0; done < p.count; done += ROUND) {
        float numbers[ROUND][N] = {};
        int64_t elements[ROUND], channels[ROUND];
        SR_UNROLL
        for (int i = 0; i < ROUND; i++) {
            elements[i] = element;
            channels[i] = p.channel + k * columns;
            if (done + i < p.count)
                load(elements[i], channels[i], numbers[i]);
            k++;
            element += k == p.terms ? next_pixel : columns;
            k = k == p.terms ? 0 : k;
        }
        SR_UNROLL
        for (int i = 0; i < ROUND; i++)
            if (done + i < p.count)
                use(elements[i], channels[i], numbers[i]);
    }
}

// The sum of a group's leaf of the lanes' sums, for all of its lanes. All threads of the block take
// part. Parts and columns that do not exist have zeros, or are left out: no sum is -0, so zeros
// change no bit. Shared: a float for each thread.
static __device__ float join_group(const group_shape &s, const group_part &p, float sum) {
    float *sums = (float *)(void *)sr_cuda_shared; // [parts][LANES]
    const int last = (int)blockDim.y - 1, lane = (int)threadIdx.x;
    sums[threadIdx.y * LANES + threadIdx.x] = sum;
    __syncthreads();
    sr_tree<PART_LEVELS> parts;
    for (int i = 0; i < last; i++)
        parts.push(sums[i * LANES + lane]);
    sum = parts.total(sums[last * LANES + lane]);
    __syncthreads();
    for (int step = 1; step < s.order.columns; step *= 2) {
        const float other = __shfl_down_sync(0xffffffffu, sum, (unsigned)step, LANES);
        sum = p.column + step < s.order.columns ? sum + other : sum;
    }
    return __shfl_sync(0xffffffffu, sum, lane - p.column, LANES);
}

// Whether this lane stores the numbers of its group.
static __device__ bool is_first(const group_part &p) {
    return threadIdx.y == 0 && p.column == 0 && p.exists;
}

// Where the two numbers of a leaf are, [2][G].
static __device__ float *leaf_of(const group_shape &s, float *leaves, int64_t sample,
                                 int64_t leaf) {
    return leaves + 2 * (sample * s.order.leaves + leaf) * s.groups;
}

// ---- groupnorm: x, gamma, beta, y, mean, rstd ----

struct groupnorm_args {
    const void *x;
    const float *gamma, *beta;
    void *y;
    float *mean, *rstd;
    float *leaf; // mean and centred squares of each leaf
    group_shape shape;
};

// What is normalised.
static __device__ const void *input_of(const groupnorm_args &a) {
    return a.x;
}

template <class T, class A> static __device__ void normalise_leaf(const A &a) {
    const group_shape &s = a.shape;
    const group_part p = group_part_of(s);
    const float count = (float)sr_group_leaf_elements(&s.order, p.leaf, 1);
    const void *const input = input_of(a);
    const auto load = [=](int64_t i, int64_t, float *x) { x[0] = sr_load<T>(input, i); };
    float mean = 0, squares = 0;
    if (!s.uncentred) {
        each_term<1>(s, p, load, [&](int64_t, int64_t, const float *x) { mean += x[0]; });
        mean = join_group(s, p, mean) * (1.0f / count);
    }
    each_term<1>(s, p, load, [&](int64_t, int64_t, const float *x) {
        const float d = x[0] - mean;
        squares += d * d;
    });
    squares = join_group(s, p, squares);
    if (s.order.leaves > 1) {
        float *leaf = leaf_of(s, a.leaf, p.sample, p.leaf) + p.group;
        if (is_first(p)) {
            leaf[0] = mean;
            leaf[s.groups] = squares;
        }
        return;
    }
    const float rstd = 1.0f / sqrtf(squares / count + s.eps);
    if (is_first(p)) {
        a.mean[p.sample * s.groups + p.group] = mean;
        a.rstd[p.sample * s.groups + p.group] = rstd;
    }
    each_term<1>(s, p, load, [&](int64_t i, int64_t channel, const float *x) {
        float v = (x[0] - mean) * rstd;
        if (a.gamma)
            v *= a.gamma[channel];
        if (a.beta)
            v += a.beta[channel];
        sr_store<T>(a.y, i, v);
    });
}

template <class T> static __device__ void cuda_groupnorm_leaf(const groupnorm_args &a) {
    normalise_leaf<T>(a);
}
SR_CUDA_TYPED(cuda_groupnorm_leaf, groupnorm_args, 512, 1)

// Leaf 'right' and its neighbours, 'count' of them at most, join as many before them.
struct join_leaves {
    const sr_group_order &order;

    __device__ statistics operator()(const statistics &a, const statistics &b, int64_t right,
                                     int64_t count) const {
        return merge_statistics(a, b, sr_group_leaf_elements(&order, right - count, count),
                                sr_group_leaf_elements(&order, right, count));
    }
};

template <class A> static __device__ void join_statistics(const A &a) {
    const group_shape &s = a.shape;
    const int64_t i = sr_thread(), sample = sr_divide(i, s.groups), leaves = s.order.leaves;
    const bool exists = sample < s.samples;
    float *leaf = leaf_of(s, a.leaf, sample, 0) + (i - sample * s.groups);
    const int64_t pair = 2 * s.groups, second = s.groups;
    sr_merge_column<statistics>(
        exists, leaves,
        [=](int64_t k) -> statistics {
            return {leaf[k * pair], leaf[k * pair + second]};
        },
        [=](int64_t k, const statistics &sum) {
            leaf[k * pair] = sum.mean;
            leaf[k * pair + second] = sum.squares;
        },
        join_leaves{s.order});
    if (threadIdx.y == 0 && exists) {
        const float count = (float)sr_group_leaf_elements(&s.order, 0, leaves);
        a.mean[i] = leaf[0];
        a.rstd[i] = 1.0f / sqrtf(leaf[second] / count + s.eps);
    }
}

SR_CUDA_KERNEL(cuda_groupnorm_tree, groupnorm_args, 512, 1) {
    join_statistics(a);
}

// Numbers of the groups of N neighbouring elements, the first of which is element i.
template <int N>
static __device__ void load_groups(const group_shape &s, const float *numbers, int64_t step,
                                   int64_t i, float (&v)[N]) {
    int64_t row = sr_divide(i, s.channels), channel = i - row * s.channels;
    SR_UNROLL
    for (int k = 0; k < N; k++) {
        const int64_t sample = sr_divide(row, s.order.pixels);
        v[k] =
            sample < s.samples ? numbers[sample * step + sr_divide(channel, s.order.width)] : 0.0f;
        if (++channel == s.channels) {
            channel = 0;
            row++;
        }
    }
}

static __device__ int64_t elements_of(const group_shape &s) {
    return s.samples * s.order.pixels * s.channels;
}

template <class T, class A> static __device__ void normalise_elements(const A &a) {
    constexpr int N = sr_lanes<T>;
    const int64_t i = sr_thread() * N, count = elements_of(a.shape),
                  c = channel_of(i, a.shape.channels);
    if (i >= count)
        return;
    float v[N], mean[N], rstd[N], p[N];
    sr_load_vector<T>(input_of(a), i, count, v);
    load_groups(a.shape, a.mean, a.shape.groups, i, mean);
    load_groups(a.shape, a.rstd, a.shape.groups, i, rstd);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        v[k] = (v[k] - mean[k]) * rstd[k];
    if (a.gamma) {
        load_channels(a.gamma, c, a.shape.channels, p);
        SR_UNROLL
        for (int k = 0; k < N; k++)
            v[k] *= p[k];
    }
    if (a.beta) {
        load_channels(a.beta, c, a.shape.channels, p);
        SR_UNROLL
        for (int k = 0; k < N; k++)
            v[k] += p[k];
    }
    sr_store_vector<T>(a.y, i, count, v);
}

template <class T> static __device__ void cuda_groupnorm(const groupnorm_args &a) {
    normalise_elements<T>(a);
}
SR_CUDA_TYPED(cuda_groupnorm, groupnorm_args, 256, 0)

// ---- add_groupnorm: a, b, key, gamma, beta, s, y, mean, rstd ----
// The sum, which functions of the same bodies normalise.

struct add_groupnorm_args {
    const void *a, *b;
    const int32_t *key;
    const float *gamma, *beta;
    void *s, *y;
    float *mean, *rstd;
    float *leaf;
    group_shape shape;
    sr_drop drop;
    int64_t drop_size; // elements of a sample that is dropped or kept
};

static __device__ const void *input_of(const add_groupnorm_args &a) {
    return a.s;
}

template <class T> static __device__ void cuda_add_groupnorm_sum(const add_groupnorm_args &a) {
    constexpr int N = sr_lanes<T>;
    const int64_t i = sr_thread() * N, count = elements_of(a.shape);
    if (i >= count)
        return;
    float sum[N], branch[N];
    sr_load_vector<T>(a.a, i, count, sum);
    sr_load_vector<T>(a.b, i, count, branch);
    int64_t sample = -1;
    bool keep = true;
    SR_UNROLL
    for (int k = 0; k < N; k++) {
        if (a.key && i + k < count && sr_divide(i + k, a.drop_size) != sample) {
            sample = sr_divide(i + k, a.drop_size);
            keep = a.drop.keeps(a.key, sample);
        }
        if (a.key)
            branch[k] = T::rounded(keep ? branch[k] * a.drop.scale : 0.0f);
        sum[k] += branch[k];
    }
    sr_store_vector<T>(a.s, i, count, sum);
}
SR_CUDA_TYPED(cuda_add_groupnorm_sum, add_groupnorm_args, 256, 0)

template <class T> static __device__ void cuda_add_groupnorm_leaf(const add_groupnorm_args &a) {
    normalise_leaf<T>(a);
}
SR_CUDA_TYPED(cuda_add_groupnorm_leaf, add_groupnorm_args, 512, 1)

SR_CUDA_KERNEL(cuda_add_groupnorm_tree, add_groupnorm_args, 512, 1) {
    join_statistics(a);
}

template <class T> static __device__ void cuda_add_groupnorm(const add_groupnorm_args &a) {
    normalise_elements<T>(a);
}
SR_CUDA_TYPED(cuda_add_groupnorm, add_groupnorm_args, 256, 0)

// ---- Preparing ----

static group_shape group_shape_of(const sr_groupnorm_params *p) {
    group_shape s = {};
    s.order = sr_group_order_of(p);
    s.samples = p->samples;
    s.channels = p->channels;
    s.groups = p->groups;
    s.warp_groups = LANES / s.order.columns;
    s.chunks = sr_blocks_of(s.groups, s.warp_groups);
    s.eps = (float)p->eps;
    s.uncentred = p->uncentred;
    return s;
}

// The leaves of groups and, where there are several, their tree and the elements.
static void add_groups(sr_cuda_making *making, const group_shape &s, sr_dtype dtype,
                       const sr_cuda_kernel *const *leaf, const sr_cuda_kernel *tree,
                       const sr_cuda_kernel *const *elements) {
    const int64_t parts = s.order.parts < SR_REFERENCE_PARTS ? s.order.parts : SR_REFERENCE_PARTS;
    making->add_grid(leaf[dtype], s.samples * s.order.leaves * s.chunks, 1, 1, LANES, (int)parts,
                     (size_t)(parts * LANES) * sizeof(float));
    if (s.order.leaves == 1)
        return;
    making->add_columns(tree, s.samples * s.groups, s.order.leaves);
    making->add_elements(elements[dtype],
                         sr_cuda_vectors(dtype, s.samples * s.order.pixels * s.channels));
}

// Numbers of the leaves in the workspace.
static int64_t leaf_numbers(const group_shape &s) {
    return s.order.leaves > 1 ? 2 * s.samples * s.order.leaves * s.groups : 0;
}

sr_status sr_cuda_prepare_groupnorm(const sr_kernel_request *request, sr_prepared *out) {
    groupnorm_args a = {};
    a.shape = group_shape_of(sr_cuda_params<sr_groupnorm_params>(request));
    sr_cuda_making making(request, a, out);
    add_groups(&making, a.shape, request->dtype[0], cuda_groupnorm_leaf_kernels,
               &cuda_groupnorm_tree_kernel, cuda_groupnorm_kernels);
    out->workspace = (size_t)leaf_numbers(a.shape) * sizeof(float);
    return making.done();
}

sr_status sr_cuda_prepare_add_groupnorm(const sr_kernel_request *request, sr_prepared *out) {
    const sr_add_groupnorm_params *p = sr_cuda_params<sr_add_groupnorm_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t rows = p->norm.samples * p->norm.pixels;
    add_groupnorm_args a = {};
    a.shape = group_shape_of(&p->norm);
    if (p->drop_rows > 0)
        a.drop = sr_drop_of(request, 2, rows / p->drop_rows, p->probability, p->scope);
    a.drop_size = p->drop_rows * p->norm.channels;
    sr_cuda_making making(request, a, out);
    making.add_elements(cuda_add_groupnorm_sum_kernels[dtype],
                        sr_cuda_vectors(dtype, rows * p->norm.channels));
    add_groups(&making, a.shape, dtype, cuda_add_groupnorm_leaf_kernels,
               &cuda_add_groupnorm_tree_kernel, cuda_add_groupnorm_kernels);
    out->workspace = (size_t)leaf_numbers(a.shape) * sizeof(float);
    return making.done();
}

// ---- groupnorm_grad: x, dy, gamma, mean, rstd, dx, dgamma, dbeta ----

struct groupnorm_grad_args {
    const void *x, *dy;
    const float *gamma, *mean, *rstd;
    void *dx;
    float *dgamma, *dbeta;
    float *rows; // sums of dy and of dy xhat of the leaves of rows, then those of the groups
    group_shape shape;
    rows_shape row_shape;
    int64_t leaf; // where those of the groups begin: of g and of g (x - mean)
};

// Adds other gradients to dx of the norm, from element i on.
template <class T, int N>
static __device__ void add_others(const groupnorm_grad_args &a, int64_t i, int64_t count,
                                  float (&dx)[N]) {
    (void)a;
    (void)i;
    (void)count;
    (void)dx;
}

template <class T, class A> static __device__ void sum_rows(const A &a) {
    const leaf_part part = part_of(a.row_shape);
    const group_shape &s = a.shape;
    const int64_t sample_elements = s.order.pixels * s.channels;
    const int64_t group = sr_divide(part.channel, s.order.width);
    float sum[2];
    sum_part(
        part,
        [&](int64_t i, float *terms) {
            const int64_t at = sr_divide(i, sample_elements) * s.groups + group;
            terms[0] = sr_load<T>(a.dy, i);
            terms[1] = terms[0] * ((sr_load<T>(a.x, i) - a.mean[at]) * a.rstd[at]);
        },
        sum);
    const float plain = join_parts(sum[0]);
    store_pair(a.row_shape, a.rows, part, plain, join_parts(sum[1]));
}

template <class T> static __device__ void cuda_groupnorm_grad_rows(const groupnorm_grad_args &a) {
    sum_rows<T>(a);
}
SR_CUDA_TYPED(cuda_groupnorm_grad_rows, groupnorm_grad_args, 512, 1)

template <class A> static __device__ void join_rows(const A &a) {
    const int64_t channel = sr_thread(), channels = a.shape.channels, leaves = a.row_shape.leaves;
    const bool exists = channel < channels;
    float *sums = a.rows + channel;
    const float plain = sr_sum_column(exists, leaves, sums, 2 * channels);
    const float product = sr_sum_column(exists, leaves, sums + channels, 2 * channels);
    if (threadIdx.y == 0 && exists) {
        a.dbeta[channel] = plain;
        a.dgamma[channel] = product;
    }
}

SR_CUDA_KERNEL(cuda_groupnorm_grad_parameters, groupnorm_grad_args, 512, 1) {
    join_rows(a);
}

// What dx subtracts: of the sums of a group's g and g (x - mean).
struct group_gradient {
    float plain, product;

    __device__ group_gradient(const group_shape &s, float sum, float products, float rstd) {
        const float inverse = 1.0f / (float)sr_group_leaf_elements(&s.order, 0, s.order.leaves);
        plain = s.uncentred ? 0.0f : sum * inverse;
        product = products * rstd * inverse;
    }
};

template <class T, class A> static __device__ void differentiate_leaf(const A &a) {
    const group_shape &s = a.shape;
    const group_part p = group_part_of(s);
    const int64_t own = p.sample * s.groups + p.group;
    const float mean = p.exists ? a.mean[own] : 0.0f, rstd = p.exists ? a.rstd[own] : 0.0f;
    float sum = 0, products = 0;
    // g, and x - mean
    const auto load = [&](int64_t i, int64_t channel, float *v) {
        const float dy = sr_load<T>(a.dy, i);
        v[0] = a.gamma ? dy * a.gamma[channel] : dy;
        v[1] = sr_load<T>(a.x, i) - mean;
    };
    each_term<2>(s, p, load, [&](int64_t, int64_t, const float *v) {
        sum += v[0];
        products += v[0] * v[1];
    });
    sum = join_group(s, p, sum);
    products = join_group(s, p, products);
    if (s.order.leaves > 1) {
        float *leaf = leaf_of(s, a.rows + a.leaf, p.sample, p.leaf) + p.group;
        if (is_first(p)) {
            leaf[0] = sum;
            leaf[s.groups] = products;
        }
        return;
    }
    const group_gradient minus(s, sum, products, rstd);
    each_term<2>(s, p, load, [&](int64_t i, int64_t, const float *v) {
        const float inner = v[0] - minus.plain - v[1] * rstd * minus.product;
        float dx[1] = {rstd * inner};
        add_others<T>(a, i, i + 1, dx);
        sr_store<T>(a.dx, i, dx[0]);
    });
}

template <class T> static __device__ void cuda_groupnorm_grad_leaf(const groupnorm_grad_args &a) {
    differentiate_leaf<T>(a);
}
SR_CUDA_TYPED(cuda_groupnorm_grad_leaf, groupnorm_grad_args, 512, 1)

template <class A> static __device__ void join_groups(const A &a) {
    const group_shape &s = a.shape;
    const int64_t i = sr_thread(), sample = sr_divide(i, s.groups);
    const bool exists = sample < s.samples;
    float *leaf = leaf_of(s, a.rows + a.leaf, sample, 0) + (i - sample * s.groups);
    const float sum = sr_sum_column(exists, s.order.leaves, leaf, 2 * s.groups);
    const float products = sr_sum_column(exists, s.order.leaves, leaf + s.groups, 2 * s.groups);
    if (threadIdx.y == 0 && exists) {
        const group_gradient minus(s, sum, products, a.rstd[i]);
        leaf[0] = minus.plain;
        leaf[s.groups] = minus.product;
    }
}

SR_CUDA_KERNEL(cuda_groupnorm_grad_tree, groupnorm_grad_args, 512, 1) {
    join_groups(a);
}

template <class T, class A> static __device__ void differentiate_elements(const A &a) {
    constexpr int N = sr_lanes<T>;
    const group_shape &s = a.shape;
    const int64_t i = sr_thread() * N, count = elements_of(s), step = 2 * s.order.leaves * s.groups;
    if (i >= count)
        return;
    float v[N], g[N], rstd[N], p[N];
    sr_load_vector<T>(a.x, i, count, v);
    sr_load_vector<T>(a.dy, i, count, g);
    if (a.gamma) {
        load_channels(a.gamma, channel_of(i, s.channels), s.channels, p);
        SR_UNROLL
        for (int k = 0; k < N; k++)
            g[k] = g[k] * p[k];
    }
    load_groups(s, a.mean, s.groups, i, p);
    load_groups(s, a.rstd, s.groups, i, rstd);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        v[k] = (v[k] - p[k]) * rstd[k]; // xhat
    load_groups(s, a.rows + a.leaf, step, i, p);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        g[k] = g[k] - p[k];
    load_groups(s, a.rows + a.leaf + s.groups, step, i, p);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        g[k] = rstd[k] * (g[k] - v[k] * p[k]);
    add_others<T>(a, i, count, g);
    sr_store_vector<T>(a.dx, i, count, g);
}

template <class T> static __device__ void cuda_groupnorm_grad(const groupnorm_grad_args &a) {
    differentiate_elements<T>(a);
}
SR_CUDA_TYPED(cuda_groupnorm_grad, groupnorm_grad_args, 256, 0)

// ---- groupnorm_add_grad: x, dy, z, gamma, mean, rstd, dx, dgamma, dbeta ----

struct groupnorm_add_grad_args {
    const void *x, *dy, *z;
    const float *gamma, *mean, *rstd;
    void *dx;
    float *dgamma, *dbeta;
    float *rows;
    group_shape shape;
    rows_shape row_shape;
    int64_t leaf;
};

template <class T, int N>
static __device__ void add_others(const groupnorm_add_grad_args &a, int64_t i, int64_t count,
                                  float (&dx)[N]) {
    float z[N];
    sr_load_vector<T>(a.z, i, count, z);
    SR_UNROLL
    for (int k = 0; k < N; k++)
        dx[k] = z[k] + T::rounded(dx[k]);
}

template <class T>
static __device__ void cuda_groupnorm_add_grad_rows(const groupnorm_add_grad_args &a) {
    sum_rows<T>(a);
}
SR_CUDA_TYPED(cuda_groupnorm_add_grad_rows, groupnorm_add_grad_args, 512, 1)

SR_CUDA_KERNEL(cuda_groupnorm_add_grad_parameters, groupnorm_add_grad_args, 512, 1) {
    join_rows(a);
}

template <class T>
static __device__ void cuda_groupnorm_add_grad_leaf(const groupnorm_add_grad_args &a) {
    differentiate_leaf<T>(a);
}
SR_CUDA_TYPED(cuda_groupnorm_add_grad_leaf, groupnorm_add_grad_args, 512, 1)

SR_CUDA_KERNEL(cuda_groupnorm_add_grad_tree, groupnorm_add_grad_args, 512, 1) {
    join_groups(a);
}

template <class T>
static __device__ void cuda_groupnorm_add_grad(const groupnorm_add_grad_args &a) {
    differentiate_elements<T>(a);
}
SR_CUDA_TYPED(cuda_groupnorm_add_grad, groupnorm_add_grad_args, 256, 0)

// ---- Preparing gradients ----

// The functions of a kernel; those with types by dtype.
struct gradient_functions {
    const sr_cuda_kernel *const *rows, *parameters;
    const sr_cuda_kernel *const *leaf, *tree;
    const sr_cuda_kernel *const *elements;
};

// dgamma and dbeta come first, as dx may be dy.
template <class A>
static sr_status prepare_gradients(const sr_kernel_request *request, A a,
                                   const gradient_functions &functions, sr_prepared *out) {
    const sr_groupnorm_params *p = sr_cuda_params<sr_groupnorm_params>(request);
    const sr_dtype dtype = request->dtype[0];
    a.shape = group_shape_of(p);
    a.row_shape = shape_of(p->samples * p->pixels, p->channels);
    a.leaf = 2 * a.row_shape.leaves * p->channels;
    sr_cuda_making making(request, a, out);
    add_leaves(&making, functions.rows[dtype], a.row_shape);
    making.add_columns(functions.parameters, p->channels, a.row_shape.leaves);
    add_groups(&making, a.shape, dtype, functions.leaf, functions.tree, functions.elements);
    out->workspace = (size_t)(a.leaf + leaf_numbers(a.shape)) * sizeof(float);
    return making.done();
}

sr_status sr_cuda_prepare_groupnorm_grad(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_gradients(request, groupnorm_grad_args{},
                             {cuda_groupnorm_grad_rows_kernels,
                              &cuda_groupnorm_grad_parameters_kernel,
                              cuda_groupnorm_grad_leaf_kernels, &cuda_groupnorm_grad_tree_kernel,
                              cuda_groupnorm_grad_kernels},
                             out);
}

sr_status sr_cuda_prepare_groupnorm_add_grad(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_gradients(
        request, groupnorm_add_grad_args{},
        {cuda_groupnorm_add_grad_rows_kernels, &cuda_groupnorm_add_grad_parameters_kernel,
         cuda_groupnorm_add_grad_leaf_kernels, &cuda_groupnorm_add_grad_tree_kernel,
         cuda_groupnorm_add_grad_kernels},
        out);
}
