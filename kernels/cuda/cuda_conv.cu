// SPDX-License-Identifier: Apache-2.0
// Convolutions and linear layers: kernels/cpu/reference/reference_conv.c, as implicit matrix
// products. The three kernels are one: an output is the sum of its terms,
//
//   output[row][column] = sum over terms  gathered[row][term]  dense[term][column]
//
//               row          term         column   gathered   dense
//   conv2d      pixel of y   tap of x     k        x          weights, packed [R,S,C/G][K]
//   conv2d_dx   pixel of x   tap of dy    c        dy         weights, packed [R,S,K/G][C]
//   conv2d_dw   tap of x     pixel of y   k        x          dy
//
// where a tap is (r, s, channel of the group) and one of row and term is a pixel, the other one a
// tap: they give the gathered element, or none in the padding. Terms come in lines (the channels of
// one r and s, or the pixels of one row of the picture); a line is cut, or as many as fit are
// joined, to chunks of at most SR_REFERENCE_TERMS terms, which are added in order. Chunks are added
// by the tree. A leaf is a power of two of chunks; where there are several, their sums are in the
// workspace and added by a kernel of their own.
//
// Outputs are computed by tiles (cuda_conv_tile.h). Where groups have few columns, each thread has
// one output instead, or some neighbouring channels of a depthwise convolution.
#include "kernels/cuda/cuda_conv_cut.h"

// ---- Some outputs to a thread ----

// sum += the terms of a line of a chunk, or of the part of it. TAPS: a tap of 'pixel'; else pixels
// of 'tap'.
template <class T, class D, bool TAPS, int N>
static __device__ void add_line(const conv_shape &s, const void *gathered, const void *dense,
                                const conv_chunk &chunk, int line, int64_t column,
                                const conv_pixel &pixel, const conv_tap &tap, float (&sum)[N]) {
    const int n = chunk.terms_of_line(s);
    const int64_t begin = chunk.part * SR_REFERENCE_TERMS, first = chunk.first(s) + line * s.line;
    const conv_pixel p =
        TAPS ? pixel : pixel_of(s, chunk.line + line, begin, sr_divide(column, s.columns));
    const conv_tap t = TAPS ? tap_of(s, (int32_t)chunk.line + line, begin) : tap;
    const int32_t h = p.h + t.h, step = TAPS ? 0 : s.scale_w;
    int32_t w = p.w + t.w;
    int64_t at = TAPS ? gathered_at(s, p, t) : p.at + t.at;
    if (TAPS ? at < 0 : h < 0 || h >= s.height)
        return;
    SR_UNROLL_BY(N == 1 ? 4 : 1)
    for (int i = 0; i < n; i++, w += step, at += TAPS ? 1 : step * s.channels) {
        float g[N], d[N];
        if (!TAPS && (w < 0 || w >= s.width))
            continue;
        sr_load_vector<T>(gathered, at, g);
        sr_load_vector<D>(dense, (first + i) * s.all_columns + column, d);
        SR_UNROLL
        for (int k = 0; k < N; k++)
            sum[k] += g[k] * d[k];
    }
}

// N neighbouring columns of a row: more than one of depthwise convolutions alone, which gather
// neighbouring channels for them.
template <class T, class D, bool TAPS, int N, class Out>
static __device__ void multiply_some(const conv_shape &s, const void *gathered, const void *dense,
                                     float *workspace, const Out &out) {
    const int64_t i = sr_thread() * N;
    if (i >= s.rows * s.all_columns * s.leaves)
        return;
    const int64_t line = sr_divide(i, s.all_columns), column = i - line * s.all_columns;
    const int64_t leaf = sr_divide(line, s.rows), row = line - leaf * s.rows;
    const int64_t begin = leaf * s.leaf_chunks, end = last_chunk_of(s, leaf);
    conv_pixel pixel = {};
    conv_tap tap = {};
    if (TAPS)
        pixel = pixel_of_row(s, row, sr_divide(column, s.columns));
    else
        tap = tap_of_row(s, row);
    sr_tree<NARROW_LEVELS, sr_sums<N>> sums;
    sr_sums<N> sum = {};
    conv_chunk chunk(s, begin);
    for (int64_t number = begin; number < end; number++, chunk.next(s)) {
        if (number > begin)
            sums.push(sum);
        sum = {};
        for (int k = 0, lines = chunk.lines(s); k < lines; k++)
            add_line<T, D, TAPS>(s, gathered, dense, chunk, k, column, pixel, tap, sum.at);
    }
    store(s, workspace, leaf, row, column, N, sums.total(sum).at, out);
}

template <class T, class D, bool TAPS, class Out>
static __device__ void multiply_narrow(const conv_shape &s, const void *gathered, const void *dense,
                                       float *workspace, const Out &out) {
    if (s.lanes == 1)
        multiply_some<T, D, TAPS, 1>(s, gathered, dense, workspace, out);
    else
        multiply_some<T, D, TAPS, LANES>(s, gathered, dense, workspace, out);
}

// The outputs of a block of tiles: (tile of rows and leaf, tile of columns, group).
static __device__ tile_place conv_place(void) {
    return {(int64_t)blockIdx.x, (int64_t)blockIdx.y, (int64_t)blockIdx.z};
}

// ---- With weights: conv2d and linear, x, w, bias, y; conv2d_dx and linear_dx, dy, w, dx ----

struct conv_args {
    const void *gathered;
    const float *w, *bias;
    void *result;
    float *workspace; // packed weights, sums of leaves
    conv_shape shape;

    __device__ float with_bias(float v, int64_t column) const {
        return bias ? v + bias[column] : v;
    }
};

struct conv_dx_args {
    const void *gathered;
    const float *w;
    void *result;
    float *workspace; // packed weights, sums of leaves
    conv_shape shape;

    __device__ float with_bias(float v, int64_t) const { return v; }
};

// w[K,C/G,R,S], rounded to T, to [R,S,channel of a group][column]
template <class T, class A> static __device__ void pack(const A &a) {
    const conv_shape &s = a.shape;
    const int64_t i = sr_thread();
    if (i >= s.taps * s.group_channels * s.all_columns)
        return;
    const int64_t term = sr_divide(i, s.all_columns), column = i - term * s.all_columns;
    const int64_t tap = sr_divide(term, s.group_channels), group = sr_divide(column, s.columns);
    a.workspace[i] = T::rounded(a.w[group * s.w_group + (column - group * s.columns) * s.w_column +
                                    (term - tap * s.group_channels) * s.w_channel + tap]);
}

template <class T, class A> struct conv_out {
    const A &a;
    template <int N>
    __device__ void operator()(int64_t row, int64_t column, int columns,
                               const float (&v)[N]) const {
        float y[N];
        SR_UNROLL
        for (int k = 0; k < N; k++)
            y[k] = k < columns ? a.with_bias(v[k], column + k) : 0.0f;
        store_columns<T>(a.result, row * a.shape.all_columns + column, columns, y);
    }
};

#define CONV_WITH_WEIGHTS(name, args, divides)                                                     \
    template <class T> static __device__ void name##_pack(const args &a) {                         \
        pack<T>(a);                                                                                \
    }                                                                                              \
    SR_CUDA_TYPED(name##_pack, args, 256, 0)                                                       \
    template <class T> static __device__ void name(const args &a) {                                \
        multiply_tile<T, sr_f32, true, divides>(a.shape, conv_place(), a.gathered, a.workspace,    \
                                                a.workspace, conv_out<T, args>{a});                \
    }                                                                                              \
    SR_CUDA_TYPED_WITH(name, args, 128, 1, (128, 3))                                               \
    template <class T> static __device__ void name##_narrow(const args &a) {                       \
        multiply_narrow<T, sr_f32, true>(a.shape, a.gathered, a.workspace, a.workspace,            \
                                         conv_out<T, args>{a});                                    \
    }                                                                                              \
    SR_CUDA_TYPED(name##_narrow, args, 128, 0)                                                     \
    template <class T> static __device__ void name##_leaves(const args &a) {                       \
        add_leaves(a.shape, sr_thread(), a.workspace, conv_out<T, args>{a});                       \
    }                                                                                              \
    SR_CUDA_TYPED(name##_leaves, args, 128, 0)

CONV_WITH_WEIGHTS(cuda_conv2d, conv_args, false)
CONV_WITH_WEIGHTS(cuda_conv2d_dx, conv_dx_args, true)

// ---- conv2d_dw, linear_dw: x, dy, dw ----

struct conv_dw_args {
    const void *x, *dy;
    float *dw;
    float *workspace; // sums of leaves
    conv_shape shape;
};

// Row (r, s, c) and column k to dw[K,C/G,R,S].
struct conv_dw_out {
    const conv_dw_args &a;
    template <int N>
    __device__ void operator()(int64_t row, int64_t column, int columns,
                               const float (&v)[N]) const {
        const int64_t tap = sr_divide(row, a.shape.group_channels);
        const int64_t c = row - tap * a.shape.group_channels;
        SR_UNROLL
        for (int k = 0; k < N; k++)
            if (k < columns)
                a.dw[((column + k) * a.shape.group_channels + c) * a.shape.taps + tap] = v[k];
    }
};

template <class T> static __device__ void cuda_conv2d_dw(const conv_dw_args &a) {
    multiply_tile<T, T, false, false>(a.shape, conv_place(), a.x, a.dy, a.workspace,
                                      conv_dw_out{a});
}
SR_CUDA_TYPED_WITH(cuda_conv2d_dw, conv_dw_args, 128, 1, (128, 3))

template <class T> static __device__ void cuda_conv2d_dw_narrow(const conv_dw_args &a) {
    multiply_narrow<T, T, false>(a.shape, a.x, a.dy, a.workspace, conv_dw_out{a});
}
SR_CUDA_TYPED_WITH(cuda_conv2d_dw_narrow, conv_dw_args, 128, 0, (128, 6))

SR_CUDA_KERNEL(cuda_conv2d_dw_leaves, conv_dw_args, 128, 0) {
    add_leaves(a.shape, sr_thread(), a.workspace, conv_dw_out{a});
}

// ---- Preparing ----

// The picture dy, gathered for the pixels of x.
static conv_shape shape_of_dy(const sr_conv_params *p) {
    conv_shape s = {};
    s.all_columns = p->c;
    s.height = p->p;
    s.width = p->q;
    s.channels = p->k;
    set_filter(p, &s);
    s.pixels_h = p->h;
    s.pixels_w = p->w;
    s.scale_h = s.scale_w = 1;
    s.offset_h = p->pad_top;
    s.offset_w = p->pad_left;
    s.step_h = -p->dilation_h;
    s.step_w = -p->dilation_w;
    s.divisor_h = p->stride_h;
    s.divisor_w = p->stride_w;
    s.w_column = s.taps;
    s.w_channel = s.columns * s.taps;
    return s;
}

// The product and the sum of its leaves; fills the workspace.
static void add_product(sr_cuda_making *making, const conv_shape *s, const sr_cuda_kernel *tiles,
                        const sr_cuda_kernel *narrow, const sr_cuda_kernel *leaves) {
    const int64_t outputs = s->rows * s->all_columns;
    size_t floats = (size_t)s->partials;
    if (s->narrow)
        making->add(narrow, sr_blocks_of(outputs * s->leaves / s->lanes, THREADS), THREADS);
    else
        making->add_grid(tiles, row_tiles(s) * s->leaves, sr_blocks_of(s->columns, COLUMNS),
                         s->groups, THREADS, 1, tile_bytes(s));
    if (s->leaves > 1) {
        making->add(leaves, sr_blocks_of(outputs, THREADS), THREADS);
        floats += (size_t)(s->leaves * outputs);
    }
    making->out->workspace = floats * sizeof(float);
}

// Kernels of a product with weights, by dtype.
struct conv_kernels {
    const sr_cuda_kernel *const *pack, *const *tiles, *const *narrow, *const *leaves;
};

template <class A>
static sr_status prepare_with_weights(const sr_kernel_request *request, const conv_shape &shape,
                                      int64_t images, const conv_kernels &kernels,
                                      sr_prepared *out) {
    const sr_dtype dtype = request->dtype[0];
    A a = {};
    a.shape = shape;
    sum_over_taps(&a.shape, images);
    sr_cuda_making making(request, a, out);
    making.add_elements(kernels.pack[dtype], a.shape.partials);
    add_product(&making, &a.shape, kernels.tiles[dtype], kernels.narrow[dtype],
                kernels.leaves[dtype]);
    return making.done();
}

static sr_status prepare_y(const sr_kernel_request *request, const sr_conv_params *p,
                           sr_prepared *out) {
    return prepare_with_weights<conv_args>(request, shape_of_x(p), p->n,
                                           {cuda_conv2d_pack_kernels, cuda_conv2d_kernels,
                                            cuda_conv2d_narrow_kernels, cuda_conv2d_leaves_kernels},
                                           out);
}

static sr_status prepare_dx(const sr_kernel_request *request, const sr_conv_params *p,
                            sr_prepared *out) {
    return prepare_with_weights<conv_dx_args>(request, shape_of_dy(p), p->n,
                                              {cuda_conv2d_dx_pack_kernels, cuda_conv2d_dx_kernels,
                                               cuda_conv2d_dx_narrow_kernels,
                                               cuda_conv2d_dx_leaves_kernels},
                                              out);
}

static sr_status prepare_dw(const sr_kernel_request *request, const sr_conv_params *p,
                            sr_prepared *out) {
    const sr_dtype dtype = request->dtype[0];
    conv_dw_args a = {};
    conv_shape &s = a.shape;
    s = shape_of_x(p);
    s.rows = s.taps * s.group_channels;
    s.lines = p->n * p->p;
    s.line = p->q;
    cut(&s);
    sr_cuda_making making(request, a, out);
    add_product(&making, &s, cuda_conv2d_dw_kernels[dtype], cuda_conv2d_dw_narrow_kernels[dtype],
                &cuda_conv2d_dw_leaves_kernel);
    return making.done();
}

sr_status sr_cuda_prepare_conv2d(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_y(request, sr_cuda_params<sr_conv_params>(request), out);
}

sr_status sr_cuda_prepare_conv2d_dx(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_dx(request, sr_cuda_params<sr_conv_params>(request), out);
}

sr_status sr_cuda_prepare_conv2d_dw(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_dw(request, sr_cuda_params<sr_conv_params>(request), out);
}

sr_status sr_cuda_prepare_linear(const sr_kernel_request *request, sr_prepared *out) {
    const sr_conv_params p = sr_linear_as_conv(sr_cuda_params<sr_linear_params>(request));
    return prepare_y(request, &p, out);
}

sr_status sr_cuda_prepare_linear_dx(const sr_kernel_request *request, sr_prepared *out) {
    const sr_conv_params p = sr_linear_as_conv(sr_cuda_params<sr_linear_params>(request));
    return prepare_dx(request, &p, out);
}

sr_status sr_cuda_prepare_linear_dw(const sr_kernel_request *request, sr_prepared *out) {
    const sr_conv_params p = sr_linear_as_conv(sr_cuda_params<sr_linear_params>(request));
    return prepare_dw(request, &p, out);
}
