// SPDX-License-Identifier: Apache-2.0
// Linear layers, gradients of the filters of 1x1 convolutions and matrix products by cuBLASLt on
// the test's device, beside sums in f64 of the same factors: the problems of kernel_cases.c, and
// sizes with every remainder of 8 and 16, and of the slices of gradients.
//
// Weights and bias are rounded to the type of the activations, so the sums are of rounded ones.
// Products of two factors are exact in fp32. Each of n additions, the one of a bias and the factor
// alpha are rounded, by tensor cores toward zero, to at most 2^-23 of a partial sum in any order,
// and no partial sum exceeds the sum of all absolute values; the result is rounded once more:
//     |got - want| <= roundoff(T) |want| + (n + 2) 2^-23 (sum of |a b| + |bias|)
// Factors of fp32 are cut to TF32, which adds (2 2^-10 + 2^-20) times the same sum.
// Repeated runs with other contents of the workspace have the same bits, and so has each of several
// lanes side by side as alone.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "kernels/kernel_params.h"
#include "kernels/reference_order.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/library_kernels.h"

// Element [row][term] of a matrix of a batch is at 'first' + row row_step + term term_step.
typedef struct factors {
    int64_t rows, terms, columns, batches;
    int a, b, bias, c; // arguments; bias: -1 for none
    int64_t a_row, a_term, b_term, b_column;
    double alpha;
} factors;

static factors factors_of(const problem *c) {
    const sr_linear_params *p = (const void *)c->request.params;
    const sr_matmul_params *m = (const void *)c->request.params;
    if (c->request.kernel == SR_KERNEL_linear)
        return (factors){p->n, p->c, p->k, 1, 0,    1, c->arg[2].role == NONE ? -1 : 2,
                         3,    p->c, 1,    1, p->c, 1};
    if (c->request.kernel == SR_KERNEL_linear_dx)
        return (factors){p->n, p->k, p->c, 1, 0, 1, -1, 2, p->k, 1, p->c, 1, 1};
    const sr_conv_params *conv = (const void *)c->request.params;
    if (c->request.kernel == SR_KERNEL_conv2d_dw) {
        return (factors){.rows = conv->k,
                         .terms = conv->n * conv->p * conv->q,
                         .columns = conv->c,
                         .batches = 1,
                         .a = 1,
                         .b = 0,
                         .bias = -1,
                         .c = 2,
                         .a_row = 1,
                         .a_term = conv->k,
                         .b_term = conv->c,
                         .b_column = 1,
                         .alpha = 1};
    }
    if (c->request.kernel == SR_KERNEL_linear_dw)
        return (factors){p->k, p->n, p->c, 1, 1, 0, -1, 2, 1, p->k, p->c, 1, 1};
    return (factors){m->rows,
                     m->terms,
                     m->columns,
                     sr_matmul_batches(m),
                     0,
                     1,
                     -1,
                     2,
                     m->transpose_a ? 1 : m->terms,
                     m->transpose_a ? m->rows : 1,
                     m->transpose_b ? 1 : m->columns,
                     m->transpose_b ? m->terms : 1,
                     (double)(float)m->alpha};
}

static sr_matmul_pair matrices_of(const problem *c, int64_t batch) {
    const sr_matmul_pair first = {0, 0};
    return c->request.kernel == SR_KERNEL_matmul
               ? sr_matmul_pair_of((const void *)c->request.params, batch)
               : first;
}

static void assert_products(const problem *c, const arrays *inputs, const void *got) {
    const factors f = factors_of(c);
    const sr_dtype result = c->request.dtype[f.c];
    double *a = library_rounded(c, inputs, f.a), *b = library_rounded(c, inputs, f.b),
           *bias = f.bias < 0 ? NULL : library_rounded(c, inputs, f.bias);
    for (int64_t i = 0; i < f.batches * f.rows * f.columns; i++) {
        const int64_t column = i % f.columns, row = i / f.columns % f.rows;
        const sr_matmul_pair matrix = matrices_of(c, i / f.columns / f.rows);
        const double *x = a + matrix.a * f.rows * f.terms + row * f.a_row;
        const double *y = b + matrix.b * f.terms * f.columns + column * f.b_column;
        double sum = 0, magnitude = 0;
        for (int64_t t = 0; t < f.terms; t++) {
            const double product = x[t * f.a_term] * y[t * f.b_term];
            sum += product;
            magnitude += fabs(product);
        }
        const double added = bias ? bias[column] : 0;
        assert_near(sr_kernel_name(c->request.kernel), i, result, library_number(result, got, i),
                    f.alpha * sum + added, 2 * (double)(f.terms + 2) + library_product_roundings(c),
                    fabs(f.alpha) * magnitude + fabs(added));
    }
    test_free(a);
    test_free(b);
    test_free(bias);
}

static library cublaslt = {.provider = "cublaslt",
                           .name = "cuBLASLt",
                           .stand_in = "SOFT_CUBLASLT",
                           .check = assert_products};

// Whether cuBLASLt is no choice: convolutions that are no products of matrices.
static bool is_no_product(const sr_kernel_request *request) {
    const sr_conv_params *p = (const void *)request->params;
    return request->kernel == SR_KERNEL_conv2d_dw &&
           (p->r > 1 || p->s > 1 || p->stride_h > 1 || p->stride_w > 1 || p->pad_top > 0 ||
            p->pad_left > 0 || p->pad_bottom > 0 || p->pad_right > 0 || p->groups > 1);
}

// Called by the cases of kernel_cases.c.
void check_problem(const problem *c) {
    if (!is_no_product(&c->request)) {
        library_check_problem(&cublaslt, c);
        return;
    }
    sr_kernel_request request = c->request;
    request.device = sr_device_get_properties(device_of_test())->kind;
    assert_null(sr_kernel_find_in(&request, cublaslt.provider));
}

static void test_cases(void **state) {
    static const sr_kernel_id kernels[] = {SR_KERNEL_linear, SR_KERNEL_linear_dx,
                                           SR_KERNEL_linear_dw, SR_KERNEL_conv2d_dw,
                                           SR_KERNEL_matmul};
    (void)state;
    if (!library_is_there(&cublaslt))
        return;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        kernel_cases[kernels[i]](kernels[i]);
    library_assert_checked(&cublaslt);
}

static void check_linear(int64_t n, int64_t channels, int64_t k) {
    const sr_linear_params p = {n, channels, k};
    for (sr_dtype t = SR_BF16; t <= SR_F16; t++) {
        library_check(SR_KERNEL_linear, t, &p, sizeof p, true);
        library_check(SR_KERNEL_linear, t, &p, sizeof p, false);
        library_check(SR_KERNEL_linear_dx, t, &p, sizeof p, false);
        library_check(SR_KERNEL_linear_dw, t, &p, sizeof p, false);
    }
}

static void test_remainders_of_linear(void **state) {
    (void)state;
    if (!library_is_there(&cublaslt))
        return;
    for (int64_t r = 1; r <= 17; r++) {
        check_linear(r, 24, 40);
        check_linear(19, 16 + r, 40);
        check_linear(19, 24, 32 + r);
        check_linear(r, r, r);
    }
    check_linear(1, 1, 300);
    check_linear(1, 300, 1);
    check_linear(300, 1, 1);
}

// ---- Gradients of weights in slices ----

// Of 1 x 1, with 'n' pictures.
static sr_conv_params pointwise(int64_t n, int64_t side, int64_t channels, int64_t filters) {
    return (sr_conv_params){.n = n,
                            .h = side,
                            .w = side + 1,
                            .c = channels,
                            .k = filters,
                            .r = 1,
                            .s = 1,
                            .p = side,
                            .q = side + 1,
                            .stride_h = 1,
                            .stride_w = 1,
                            .dilation_h = 1,
                            .dilation_w = 1,
                            .groups = 1};
}

// Terms in slices, which are added by one, some and all rows of a block, and by several rounds of
// one; with results that are whole vectors, or not; and terms that no number of slices divides.
static void check_slices(int64_t rows) {
    static const int64_t widths[][2] = {{8, 8}, {3, 5}, {1, 2}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const sr_linear_params p = {rows, widths[i][0], widths[i][1]};
        for (sr_dtype t = SR_BF16; t <= SR_F16; t++)
            library_check(SR_KERNEL_linear_dw, t, &p, sizeof p, false);
    }
}

static void test_slices(void **state) {
    (void)state;
    if (!library_is_there(&cublaslt))
        return;
    for (int64_t rows = 2047; rows <= 2050; rows++)
        check_slices(rows);
    check_slices(1024 * 8);
    check_slices(1024 * 9);
    check_slices(1024 * 9 + 1);
    check_slices(1024 * 64);
    check_slices(1024 * 65);
    check_slices(1024 * 129);     // the most slices
    check_slices(1024 * 128 + 1); // and a rest
}

// Several tiles of results, which have fewer slices.
static void test_tiles(void **state) {
    static const sr_linear_params wide = {2048, 257, 24}, rest = {2053, 9, 130};
    const sr_conv_params conv = pointwise(6, 20, 24, 40), few = pointwise(2, 3, 9, 17);
    (void)state;
    if (!library_is_there(&cublaslt))
        return;
    for (sr_dtype t = SR_BF16; t <= SR_F16; t++) {
        library_check(SR_KERNEL_linear_dw, t, &wide, sizeof wide, false);
        library_check(SR_KERNEL_linear_dw, t, &rest, sizeof rest, false);
        library_check(SR_KERNEL_conv2d_dw, t, &conv, sizeof conv, false);
        library_check(SR_KERNEL_conv2d_dw, t, &few, sizeof few, false);
    }
}

// cuDNN serves it, too, but not lanes side by side, which must have the class of one.
static void test_choice(void **state) {
    const sr_conv_params p = pointwise(2, 4, 8, 16);
    (void)state;
    if (!library_is_there(&cublaslt))
        return;
    const sr_kernel_request lane =
        library_request(SR_KERNEL_conv2d_dw, SR_BF16, &p, sizeof p, false);
    if (sr_kernel_find_in(&lane, cublaslt.provider))
        assert_string_equal(sr_kernel_find(&lane)->provider, cublaslt.provider);
    library_check_lanes(&cublaslt, &lane, 0, false);
}

// ---- Batches ----

// Steps in matrices for a and b along three dimensions; a and b have so many matrices.
typedef struct batch {
    int64_t dim[SR_MATMUL_DIMS], a_step[SR_MATMUL_DIMS], b_step[SR_MATMUL_DIMS], a_count, b_count;
} batch;

// 'transposed': bit 0: a, bit 1: b.
static sr_matmul_params make_matmul(int64_t rows, int64_t terms, int64_t columns,
                                    const batch *batches, double alpha, int transposed) {
    sr_matmul_params p = {.rows = rows,
                          .terms = terms,
                          .columns = columns,
                          .a_count = batches->a_count,
                          .b_count = batches->b_count,
                          .alpha = alpha,
                          .transpose_a = transposed % 2,
                          .transpose_b = transposed / 2};
    memcpy(p.dim, batches->dim, sizeof p.dim);
    memcpy(p.a_step, batches->a_step, sizeof p.a_step);
    memcpy(p.b_step, batches->b_step, sizeof p.b_step);
    return p;
}

static void check_transposed(int64_t rows, int64_t terms, int64_t columns, const batch *batches,
                             double alpha, int transposed) {
    const sr_matmul_params p = make_matmul(rows, terms, columns, batches, alpha, transposed);
    for (sr_dtype t = SR_BF16; t <= SR_F16; t++)
        library_check(SR_KERNEL_matmul, t, &p, sizeof p, false);
}

static void check_matmul(int64_t rows, int64_t terms, int64_t columns, const batch *batches,
                         double alpha) {
    for (int transposed = 0; transposed < 4; transposed++)
        check_transposed(rows, terms, columns, batches, alpha, transposed);
}

static void test_remainders_of_matmul(void **state) {
    static const batch one = {{1, 1, 1}, {0}, {0}, 1, 1},
                       two = {{1, 1, 2}, {0, 0, 1}, {0, 0, 1}, 2, 2};
    (void)state;
    if (!library_is_there(&cublaslt))
        return;
    for (int64_t r = 1; r <= 17; r++) {
        check_matmul(r, 24, 40, &two, 0.125);
        check_matmul(24, r, 40, &two, 1);
        check_matmul(24, 40, r, &two, -3);
        check_matmul(16 + r, 32 + r, 16 + r, &one, 1);
    }
}

// Each of a and b repeated along none, some or all dimensions, in any combination; matrices in the
// reverse order of the batches, and every second one.
static void test_batches(void **state) {
    static const int64_t dim[SR_MATMUL_DIMS] = {3, 2, 4};
    static const batch reversed = {{2, 3, 2}, {1, 2, 6}, {6, 2, 1}, 12, 12},
                       every_second = {{1, 1, 5}, {0, 0, 2}, {0, 0, 1}, 9, 5},
                       none_but_last = {{1, 1, 5}, {0, 0, 0}, {0, 0, 0}, 1, 1};
    (void)state;
    if (!library_is_there(&cublaslt))
        return;
    for (int repeated = 0; repeated < 64; repeated++) {
        batch b = {.a_count = 1, .b_count = 1};
        memcpy(b.dim, dim, sizeof dim);
        for (int d = SR_MATMUL_DIMS - 1; d >= 0; d--) {
            const bool a_repeats = repeated >> d & 1, b_repeats = repeated >> (d + 3) & 1;
            b.a_step[d] = a_repeats ? 0 : b.a_count;
            b.b_step[d] = b_repeats ? 0 : b.b_count;
            b.a_count *= a_repeats ? 1 : dim[d];
            b.b_count *= b_repeats ? 1 : dim[d];
        }
        check_transposed(5, 8, 3, &b, 1, repeated % 4);
        check_transposed(8, 16, 24, &b, 0.5, repeated / 8 % 4);
    }
    check_matmul(8, 16, 24, &reversed, 1);
    check_matmul(7, 9, 5, &reversed, 1);
    check_matmul(8, 16, 24, &every_second, 1);
    check_matmul(8, 16, 24, &none_but_last, 1);
}

// Sizes of vision transformers: many terms, many rows, a classifier.
static void test_networks(void **state) {
    static const batch heads = {{1, 2, 3}, {0, 3, 1}, {0, 3, 1}, 6, 6};
    (void)state;
    if (!library_is_there(&cublaslt))
        return;
    check_linear(197, 384, 96);
    check_linear(8, 384, 1000);
    check_linear(2500, 64, 24);
    check_matmul(197, 64, 50, &heads, 0.125);
}

static void check_lanes_of_linear(int64_t n, int64_t channels, int64_t k) {
    const sr_linear_params p = {n, channels, k};
    const sr_kernel_id kernels[] = {SR_KERNEL_linear, SR_KERNEL_linear, SR_KERNEL_linear_dx,
                                    SR_KERNEL_linear_dw};
    for (sr_dtype t = SR_BF16; t <= SR_F16; t++) {
        for (int i = 0; i < 4; i++) { // the first one with a bias
            const sr_kernel_request lane = library_request(kernels[i], t, &p, sizeof p, i == 0);
            // Batches of matrices that are less aligned than one may have no algorithm.
            library_check_lanes(&cublaslt, &lane, 0,
                                i == 3 && (n * channels % 32 != 0 || n * k % 32 != 0));
        }
    }
}

static void check_lanes_of_gradients(sr_kernel_id kernel, const void *params, size_t bytes) {
    for (sr_dtype t = SR_BF16; t <= SR_F16; t++) {
        const sr_kernel_request lane = library_request(kernel, t, params, bytes, false);
        library_check_lanes(&cublaslt, &lane, 0, false);
    }
}

// All slices of all lanes are a batch, if there is no rest of their rows.
static void test_lanes_of_slices(void **state) {
    static const sr_linear_params linear[] = {{2048, 24, 40}, {1024 * 9, 8, 8}, {3200, 136, 16}};
    const sr_linear_params rest = {2049, 24, 40};
    const sr_conv_params conv[] = {pointwise(2, 4, 16, 24), pointwise(8, 16, 24, 40)};
    sr_kernel_request all;
    (void)state;
    if (!library_is_there(&cublaslt))
        return;
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++)
        check_lanes_of_gradients(SR_KERNEL_linear_dw, &linear[i], sizeof linear[i]);
    for (size_t i = 0; i < sizeof conv / sizeof *conv; i++)
        check_lanes_of_gradients(SR_KERNEL_conv2d_dw, &conv[i], sizeof conv[i]);
    const sr_kernel_request lane =
        library_request(SR_KERNEL_linear_dw, SR_BF16, &rest, sizeof rest, false);
    assert_string_equal(sr_kernel_find(&lane)->provider, cublaslt.provider);
    assert_false(sr_kernel_join_lanes(&lane, 2, 7, &all));
}

// fp32, whose factors are cut to TF32; weights and bias stay where they are.
static void test_tf32(void **state) {
    const sr_linear_params p = {12, 20, 7};
    const sr_kernel_id kernels[] = {SR_KERNEL_linear, SR_KERNEL_linear, SR_KERNEL_linear_dx,
                                    SR_KERNEL_linear_dw};
    static const batch one = {{1, 1, 1}, {0}, {0}, 1, 1};
    const sr_matmul_params product = make_matmul(7, 12, 5, &one, 0.5, 2);
    (void)state;
    if (!library_is_there(&cublaslt))
        return;
    for (int i = 0; i < 4; i++) { // the first one with a bias
        library_check(kernels[i], SR_F32, &p, sizeof p, i == 0);
        const sr_kernel_request lane = library_request(kernels[i], SR_F32, &p, sizeof p, i == 0);
        library_check_lanes(&cublaslt, &lane, 0, i == 3);
    }
    library_check(SR_KERNEL_matmul, SR_F32, &product, sizeof product, false);
}

// shared: 2: all lanes have the same b.
static void check_lanes_of_matmul(int64_t rows, int64_t terms, int64_t columns,
                                  const batch *batches, uint32_t shared) {
    for (int transposed = 0; transposed < 4; transposed++) {
        const sr_matmul_params p = make_matmul(rows, terms, columns, batches, 0.5, transposed);
        for (sr_dtype t = SR_BF16; t <= SR_F16; t++) {
            const sr_kernel_request lane =
                library_request(SR_KERNEL_matmul, t, &p, sizeof p, false);
            library_check_lanes(&cublaslt, &lane, shared, rows * terms % 32 != 0);
        }
    }
}

static void test_lanes(void **state) {
    static const batch one = {{1, 1, 1}, {0}, {0}, 1, 1},
                       heads = {{1, 2, 3}, {0, 3, 1}, {0, 3, 1}, 6, 6},
                       repeated = {{1, 2, 3}, {0, 0, 1}, {0, 3, 1}, 3, 6};
    (void)state;
    if (!library_is_there(&cublaslt))
        return;
    for (int64_t n = 1; n <= 19; n += 6) {
        check_lanes_of_linear(n, 24, 40);
        check_lanes_of_linear(n, 33, 17);
    }
    for (uint32_t shared = 0; shared <= 2; shared += 2) {
        check_lanes_of_matmul(7, 9, 5, &one, shared);
        check_lanes_of_matmul(8, 16, 24, &one, shared);
        check_lanes_of_matmul(7, 24, 5, &heads, shared);
        check_lanes_of_matmul(8, 16, 24, &repeated, shared);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_tf32, arrays_free),
        cmocka_unit_test_teardown(test_cases, arrays_free),
        cmocka_unit_test_teardown(test_remainders_of_linear, arrays_free),
        cmocka_unit_test_teardown(test_slices, arrays_free),
        cmocka_unit_test_teardown(test_tiles, arrays_free),
        cmocka_unit_test_teardown(test_choice, arrays_free),
        cmocka_unit_test_teardown(test_remainders_of_matmul, arrays_free),
        cmocka_unit_test_teardown(test_batches, arrays_free),
        cmocka_unit_test_teardown(test_networks, arrays_free),
        cmocka_unit_test_teardown(test_lanes, arrays_free),
        cmocka_unit_test_teardown(test_lanes_of_slices, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
