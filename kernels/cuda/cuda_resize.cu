// SPDX-License-Identifier: Apache-2.0
// resize2d and its gradient: kernels/cpu/reference/reference_resize.c. First, one thread for each
// position of a side writes its pixels and weights to the workspace; then one thread computes 16
// bytes of neighbouring channels of a pixel of the output, or one channel. Sides of more than
// SR_REFERENCE_TERMS pixels have functions of their own.
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_vector.h"
#include "kernels/resize.h"

// A side of the output: its positions with at most 'most' pixels of the input, which has 'source'.
struct resize_part {
    sr_resize_side side;
    int64_t positions, most, source;
};

struct resize_args {
    const void *x;
    void *y;
    sr_resize_span *spans; // of rows and columns; then the weights of both
    resize_part rows, columns;
    int64_t n, c, lanes; // lanes: channels of a thread: sr_lanes or 1
};

// Rows and columns with their weights.
struct resize_tables {
    sr_resize_span *rows, *columns;
    float *high, *wide;
};

static __device__ resize_tables tables_of(const resize_args &a) {
    sr_resize_span *const columns = a.spans + a.rows.positions;
    float *const high = (float *)(void *)(columns + a.columns.positions);
    return {a.spans, columns, high, high + a.rows.positions * a.rows.most};
}

static __device__ void fill_position(const resize_part &part, int64_t i, sr_resize_span *spans,
                                     float *weights) {
    const sr_resize_span span = sr_resize_span_of(&part.side, i);
    sr_resize_pixel pixel = {-1, {0, 0, 0}, 1};
    spans[i] = span;
    for (int k = 0; k < span.count; k++)
        weights[i * part.most + k] = (float)sr_resize_weight(&part.side, i, span.first + k, &pixel);
}

SR_CUDA_KERNEL(cuda_resize_table, resize_args, 256, 0) {
    const resize_tables tables = tables_of(a);
    const int64_t i = sr_thread(), column = i - a.rows.positions;
    if (column < 0)
        fill_position(a.rows, i, tables.rows, tables.high);
    else if (column < a.columns.positions)
        fill_position(a.columns, column, tables.columns, tables.wide);
}

template <class T, int N, int LEVELS> static __device__ void resize(const resize_args &a) {
    const int64_t i = sr_thread(), vectors = a.c / N;
    if (i >= a.n * a.rows.positions * a.columns.positions * vectors)
        return;
    const sr_place at = sr_place_of(i, a.rows.positions, a.columns.positions, vectors);
    const resize_tables tables = tables_of(a);
    const sr_resize_span rows = tables.rows[at.h], columns = tables.columns[at.w];
    const float *const high = tables.high + at.h * a.rows.most;
    const float *const wide = tables.wide + at.w * a.columns.most;
    sr_term_sums<N, LEVELS> sums;
    for (int r = 0; r < rows.count; r++) {
        const int64_t row = at.n * a.rows.source + rows.first + r;
        const int64_t from = (row * a.columns.source + columns.first) * a.c + at.c * N;
        sr_term_sums<N, LEVELS> line;
        for (int k = 0; k < columns.count; k++) {
            float x[N];
            sr_load_vector<T>(a.x, from + k * a.c, x);
            sr_add_weighted(line.next(), wide[k], x);
        }
        sr_add_weighted(sums.next(), high[r], line.total().at);
    }
    sr_store_vector<T>(a.y, i * N, sums.total().at);
}

template <class T> static __device__ void cuda_resize(const resize_args &a) {
    if (a.lanes == 1)
        resize<T, 1, 0>(a);
    else
        resize<T, sr_lanes<T>, 0>(a);
}
SR_CUDA_TYPED(cuda_resize, resize_args, 256, 0)

template <class T> static __device__ void cuda_resize_tree(const resize_args &a) {
    if (a.lanes == 1)
        resize<T, 1, SR_LONG_LEVELS>(a);
    else
        resize<T, sr_lanes<T>, SR_SHORT_LEVELS>(a);
}
SR_CUDA_TYPED(cuda_resize_tree, resize_args, 256, 0)

static resize_part part_of(const sr_resize_params *p, int wide, int transposed) {
    const sr_resize_side side = sr_resize_side_of(p, wide, transposed);
    return {side, sr_resize_positions(&side), sr_resize_most(&side),
            transposed ? side.out : side.in};
}

static sr_status prepare(const sr_kernel_request *request, int transposed, sr_prepared *out) {
    const sr_resize_params *p = sr_cuda_params<sr_resize_params>(request);
    const sr_dtype dtype = request->dtype[0];
    const int64_t lanes = sr_cuda_lanes(dtype);
    resize_args a = {};
    a.rows = part_of(p, 0, transposed);
    a.columns = part_of(p, 1, transposed);
    a.n = p->n;
    a.c = p->c;
    const int64_t terms = a.rows.most > a.columns.most ? a.rows.most : a.columns.most;
    a.lanes = p->c % lanes == 0 && sr_fits_vectors(terms) ? lanes : 1;
    const int64_t positions = a.rows.positions + a.columns.positions;
    const int64_t weights = a.rows.positions * a.rows.most + a.columns.positions * a.columns.most;
    sr_cuda_making making(request, a, out);
    making.add_elements(&cuda_resize_table_kernel, positions);
    making.add_elements(
        (sr_needs_tree(terms) ? cuda_resize_tree_kernels : cuda_resize_kernels)[dtype],
        p->n * a.rows.positions * a.columns.positions * (p->c / a.lanes));
    out->workspace = (size_t)positions * sizeof(sr_resize_span) + (size_t)weights * sizeof(float);
    return making.done();
}

sr_status sr_cuda_prepare_resize2d(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(request, 0, out);
}

sr_status sr_cuda_prepare_resize2d_grad(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(request, 1, out);
}
