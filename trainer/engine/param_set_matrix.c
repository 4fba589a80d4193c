// SPDX-License-Identifier: Apache-2.0
// The orthogonal matrix near a direction, for optimisers that treat weights as matrices (Muon).
//
// With X = u / |u|, of which no singular value is above 1, five steps (or as many as the optimiser
// says) of
//
//   X = a X + (b A + c A^2) X,  A = X X^T,  a, b, c = 3.4445, -4.775, 2.0315
//
// bring all singular values that are not tiny into about [0.7, 1.2] and leave the singular vectors
// (Jordan et al. 2024, with their coefficients of the quintic polynomial). If X has more rows than
// columns, A = X^T X and X = a X + X (b A + c A^2), which has the same result with smaller
// products. All of it is f32, by the kernels of matrix products and of averages, on the stream of
// the owner: one rank has the whole matrix, so the order of sums is that of the product's kernel.
#include "kernels/kernel_params.h"
#include "trainer/engine/param_set_internal.h"

static const double quintic[] = {3.4445, -4.775, 2.0315}; // a, b, c

int64_t sr_param_set_matrix(const sr_param_set *set, const sr_param *param, int64_t *columns) {
    const int64_t rows = param->info.dim[0], count = sr_info_count(&param->info);
    if (!set->optimizer->fill_matrix || param->kind != SR_PARAM_WEIGHT || param->info.rank < 2)
        return 0;
    *columns = count / rows;
    return rows;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t sr_param_set_matrix_scratch(int64_t rows, int64_t columns) {
    const int64_t side = smaller(rows, columns);
    return rows * columns + 2 * side * side + 2 * SR_FLAT_ALIGN;
}

void sr_param_set_fill_matrix(double norm, float *row) {
    row[4] = (float)quintic[2]; // A^2 = c A^2 + b A
    row[5] = (float)quintic[1];
    row[6] = 1;
    row[8] = 1; // X' = X' + a X
    row[9] = (float)quintic[0];
    row[10] = 1;
    row[12] = 0; // X = u / |u|
    row[13] = (float)(1 / (norm + 1e-7));
    row[14] = 1;
}

typedef struct iteration {
    sr_param_set *set;
    sr_stream *stream;
    int64_t rows, columns, side;
    sr_address row;                  // of numbers
    sr_address gram, squared, other; // A, A^2, X'
} iteration;

// c [rows,columns] = a b, with sums of 'terms'.
static sr_status multiply(const iteration *it, sr_address a, sr_address b, sr_address c,
                          const sr_matmul_params *shape) {
    sr_matmul_params params = *shape;
    const sr_address p[] = {a, b, c};
    params.a_count = params.b_count = 1;
    params.alpha = 1;
    for (int i = 0; i < SR_MATMUL_DIMS; i++)
        params.dim[i] = 1;
    return sr_param_set_launch(it->set, SR_KERNEL_matmul, &params, sizeof params, p,
                               "orthogonal direction", it->stream);
}

// y = keep y + take x, with the numbers at a place of the row.
static sr_status blend(const iteration *it, sr_address y, sr_address x, int64_t count, int place) {
    const sr_count_params params = {.count = count};
    const sr_address p[] = {y, x, sr_param_set_element(it->row, place)};
    return sr_param_set_launch(it->set, SR_KERNEL_ema, &params, sizeof params, p,
                               "orthogonal direction", it->stream);
}

// X' from X.
static sr_status step(const iteration *it, sr_address x, sr_address next) {
    const bool high = it->rows > it->columns;
    const int64_t side = it->side, terms = high ? it->rows : it->columns;
    SR_TRY(multiply(it, x, x, it->gram,
                    &(sr_matmul_params){.rows = side,
                                        .terms = terms,
                                        .columns = side,
                                        .transpose_a = high,
                                        .transpose_b = !high}));
    SR_TRY(multiply(it, it->gram, it->gram, it->squared,
                    &(sr_matmul_params){.rows = side, .terms = side, .columns = side}));
    SR_TRY(blend(it, it->squared, it->gram, side * side, 4));
    SR_TRY(multiply(it, high ? x : it->squared, high ? it->squared : x, next,
                    &(sr_matmul_params){.rows = it->rows, .terms = side, .columns = it->columns}));
    return blend(it, next, x, it->rows * it->columns, 8);
}

static int64_t aligned(int64_t count) {
    return (count + SR_FLAT_ALIGN - 1) / SR_FLAT_ALIGN * SR_FLAT_ALIGN;
}

sr_status sr_param_set_orthogonalise(sr_param_set *set, int64_t rows, int64_t columns, sr_address u,
                                     sr_address row, sr_stream *stream) {
    const int64_t side = smaller(rows, columns), count = rows * columns;
    const iteration it = {
        .set = set,
        .stream = stream,
        .rows = rows,
        .columns = columns,
        .side = side,
        .row = row,
        .other = set->matrices,
        .gram = sr_param_set_element(set->matrices, aligned(count)),
        .squared = sr_param_set_element(set->matrices, aligned(count) + aligned(side * side))};
    sr_address x = u, next = it.other;
    const sr_optimizer_desc *optimizer = set->optimizer;
    const int steps = optimizer->iterations ? optimizer->iterations(set->optimizer_options)
                                            : SR_MATRIX_ITERATIONS;
    SR_TRY(blend(&it, x, x, count, 12));
    for (int i = 0; i < steps; i++) {
        SR_TRY(step(&it, x, next));
        const sr_address before = x;
        x = next;
        next = before;
    }
    return steps % 2 ? sr_stream_copy(stream, u, x, (size_t)count * sizeof(float)) : SR_OK;
}
