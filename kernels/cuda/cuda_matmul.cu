// SPDX-License-Identifier: Apache-2.0
// Matrix products of batches: kernels/cpu/reference/reference_matmul.inc, by the tiles of
// convolutions (cuda_conv_tile.h). Of a matrix a, the rows are pixels whose channels are the terms;
// of a transposed one, as of the gradient of weights, the terms are pixels whose channels are the
// rows. A transposed matrix b is copied to the workspace first.
#include "kernels/cuda/cuda_conv_cut.h"

struct matmul_args {
    const void *a, *b;
    void *c;
    float *workspace; // sums of leaves [batches][leaves][rows][columns]; then transposed matrices b
    conv_shape shape; // of one product
    sr_matmul_params p;
    int64_t batches;
    int64_t batch_blocks, batch_sums; // of each: tiles of rows and leaves, and sums of leaves
    int64_t packed;                   // floats before the matrices b
    float alpha;
};

// Element 'first' of an argument of type T.
template <class T> static __device__ const void *element_of(const void *p, int64_t first) {
    return (const typename T::type *)p + first;
}

static __device__ int64_t result_elements(const matmul_args &a) {
    return a.p.rows * a.p.columns;
}

// ---- Transposed matrices b ----

template <class T> static __device__ void cuda_matmul_pack(const matmul_args &a) {
    typedef typename T::type type;
    const int64_t i = sr_thread(), size = a.p.terms * a.p.columns;
    if (i >= a.p.b_count * size)
        return;
    const int64_t matrix = sr_divide(i, size), at = i - matrix * size;
    const int64_t term = sr_divide(at, a.p.columns), column = at - term * a.p.columns;
    const type *from = (const type *)a.b + matrix * size;
    ((type *)(void *)(a.workspace + a.packed))[i] = from[column * a.p.terms + term];
}
SR_CUDA_TYPED(cuda_matmul_pack, matmul_args, 256, 0)

// ---- Products ----

template <class T> struct matmul_out {
    const matmul_args &a;
    int64_t first; // element of c
    template <int N>
    __device__ void operator()(int64_t row, int64_t column, int columns,
                               const float (&v)[N]) const {
        float y[N];
        SR_UNROLL
        for (int k = 0; k < N; k++)
            y[k] = v[k] * a.alpha;
        store_columns<T>(a.c, first + row * a.p.columns + column, columns, y);
    }
};

// Two blocks of a multiprocessor: the addresses of a batch take registers that three do not have.
template <class T, bool TAPS> static __device__ void multiply_batch(const matmul_args &a) {
    const int64_t batch = sr_divide(blockIdx.x, a.batch_blocks);
    const tile_place place = {blockIdx.x - batch * a.batch_blocks, (int64_t)blockIdx.y, 0};
    const sr_matmul_pair matrix = sr_matmul_pair_of(&a.p, batch);
    const void *b = a.p.transpose_b ? a.workspace + a.packed : a.b;
    multiply_tile<T, T, TAPS, false>(
        a.shape, place, element_of<T>(a.a, matrix.a * a.p.rows * a.p.terms),
        element_of<T>(b, matrix.b * a.p.terms * a.p.columns), a.workspace + batch * a.batch_sums,
        matmul_out<T>{a, batch * result_elements(a)});
}

template <class T> static __device__ void cuda_matmul(const matmul_args &a) {
    multiply_batch<T, true>(a);
}
SR_CUDA_TYPED_WITH(cuda_matmul, matmul_args, 128, 1, (128, 2))

template <class T> static __device__ void cuda_matmul_transposed(const matmul_args &a) {
    multiply_batch<T, false>(a);
}
SR_CUDA_TYPED_WITH(cuda_matmul_transposed, matmul_args, 128, 1, (128, 2))

template <class T> static __device__ void cuda_matmul_leaves(const matmul_args &a) {
    const int64_t i = sr_thread(), size = result_elements(a), batch = sr_divide(i, size);
    if (i < a.batches * size)
        add_leaves(a.shape, i - batch * size, a.workspace + batch * a.batch_sums,
                   matmul_out<T>{a, batch * size});
}
SR_CUDA_TYPED(cuda_matmul_leaves, matmul_args, 128, 0)

// ---- Preparing ----

static conv_shape shape_of_product(const sr_matmul_params *p) {
    const sr_conv_params conv = sr_matmul_as_conv(p);
    conv_shape s = shape_of_x(&conv);
    s.narrow = false;
    s.groups = sr_matmul_batches(p);
    if (p->transpose_a) {
        s.rows = p->rows;
        s.lines = 1;
        s.line = p->terms;
        cut(&s);
    } else {
        sum_over_taps(&s, 1);
    }
    s.partials = 0;
    return s;
}

sr_status sr_cuda_prepare_matmul(const sr_kernel_request *request, sr_prepared *out) {
    const sr_dtype dtype = request->dtype[0];
    matmul_args a = {};
    a.p = *sr_cuda_params<sr_matmul_params>(request);
    a.shape = shape_of_product(&a.p);
    a.alpha = (float)a.p.alpha;
    const conv_shape &s = a.shape;
    const int64_t batches = a.batches = s.groups, results = a.p.rows * a.p.columns;
    a.batch_blocks = row_tiles(&s) * s.leaves;
    // Those of each product begin at whole vectors.
    a.batch_sums = s.leaves > 1 ? sr_blocks_of(s.leaves * results, 4) * 4 : 0;
    a.packed = sr_blocks_of(batches * a.batch_sums, 16) * 16;
    const int64_t elements = a.p.transpose_b ? a.p.b_count * a.p.terms * a.p.columns : 0;
    sr_cuda_making making(request, a, out);
    if (a.p.transpose_b)
        making.add_elements(cuda_matmul_pack_kernels[dtype], elements);
    making.add_grid(
        a.p.transpose_a ? cuda_matmul_transposed_kernels[dtype] : cuda_matmul_kernels[dtype],
        batches * a.batch_blocks, sr_blocks_of(s.columns, COLUMNS), 1, THREADS, 1, tile_bytes(&s));
    if (s.leaves > 1)
        making.add(cuda_matmul_leaves_kernels[dtype], sr_blocks_of(batches * results, THREADS),
                   THREADS);
    out->workspace = (size_t)a.packed * sizeof(float) + (size_t)elements * sr_dtype_size(dtype);
    return making.done();
}
