// SPDX-License-Identifier: Apache-2.0
// Layer norm, and sums over rows, in numerics class "tensor" on the test's device
// (SERRIED_TEST_DEVICE), within derived bounds of double arithmetic, for rows and channels around
// the sizes of their vectors, warps, blocks and units (kernels/cuda/tensor_groupnorm.cu,
// kernels/cuda/tensor_sums.cu); with sums before and behind layer norm, the bits of both one after
// the other (norm_sum.h). The bits are the same for any number of blocks, in place, in repeated
// runs, and in lanes side by side as in each alone.
//
// The bounds of layer norm, with u = 2^-24:
//   sums over a row: a term is in at most D = 25 additions: 12 in a thread and one between its two
//     sums, 5 in a warp, 7 between warps.
//   mean: D and two roundings of the mean absolute value.
//   variance: a difference makes one rounding and counts twice, its product none, as it is fused
//     with the sum; the division makes two. A mean that is wrong by e adds e^2.
//   gradient: xhat has two roundings, g one. Means of g, and of g xhat, have D + 3 and D + 6; they
//     are multiplied by rstd, and added with one more for each of three steps.
//   sums over rows: a term is in at most 8 additions in a thread, 8 between threads, and those of
//     the tree of units. A thread has at least two rows, and a row of n vectors at most n threads,
//     or all 256.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "kernels/cuda/cuda_plan.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/library_kernels.h"
#include "tests/unit/kernels/norm_sum.h"
#include "tests/unit/support/device_run.h"

#define TENSOR "tensor"
#define U 0x1p-24
static const double eps = 1e-5, D = 25;
static const sr_dtype types[] = {SR_F32, SR_BF16, SR_F16};
enum { TYPES = 3 };

static bool is_skipped(void) {
    if (provider_of_test(TENSOR))
        return false;
    test_skip("this device has no kernels of class " TENSOR);
    return true;
}

// Elements of 16 bytes.
static int64_t vector_of(sr_dtype type) {
    return 16 / (int64_t)sr_dtype_size(type);
}

typedef enum data_kind { NOISE, FAR_FROM_ZERO, CONSTANT, STRAY_CHANNELS, KINDS } data_kind;

static test_array *rows_of(data_kind kind, sr_dtype type, int64_t rows, int64_t channels,
                           uint32_t seed) {
    test_array *x = array_random(SR_F32, rows * channels, seed, -1, 1);
    test_array *to = array_new(type, rows * channels);
    for (int64_t i = 0; i < rows * channels; i++) {
        const double noise = array_get(x, i), row = (double)(i / channels % 7);
        const double value = kind == NOISE           ? noise + row / 4
                             : kind == FAR_FROM_ZERO ? 577 + row + noise // 1,000 deviations
                             : kind == CONSTANT      ? 0.1 + row
                             : i % channels < 2      ? 300 + row
                                                     : noise;
        array_set(to, i, value);
    }
    return to;
}

typedef struct row_case {
    sr_groupnorm_params params;
    sr_dtype type;
    test_array *x, *dy, *gamma, *beta; // gamma, beta: NULL without
    test_array *y, *mean, *rstd, *dx, *dgamma, *dbeta;
} row_case;

#define RUN(kernel, c, ...)                                                                        \
    kernel_run(TENSOR, SR_KERNEL_##kernel, &(c)->params, sizeof(c)->params,                        \
               (int)(sizeof((test_array *[]){__VA_ARGS__}) / sizeof(test_array *)),                \
               (test_array *[]){__VA_ARGS__})

static void check_near(const row_case *c, const char *what, int64_t i, double got, double want,
                       double bound) {
    if (!(fabs(got - want) <= bound))
        fail_msg("%s %s [%lld, %lld], element %lld: %.9g, not %.9g within %.3g", what,
                 sr_dtype_name(c->type), (long long)c->params.samples,
                 (long long)c->params.channels, (long long)i, got, want, bound);
}

static double rounding_of(sr_dtype type, double value) {
    return 1.01 * unit_roundoff(type) * fabs(value) + (type == SR_F16 ? 0x1p-24 : 1e-37);
}

static double parameter(const test_array *p, int64_t channel, double absent) {
    return p ? array_get(p, channel) : absent;
}

static void check_forward(const row_case *c, int64_t row) {
    const int64_t n = c->params.channels, first = row * n;
    double mean = 0, size = 0, var = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = array_get(c->x, first + i);
        mean += c->params.uncentred ? 0 : x / (double)n;
        size += c->params.uncentred ? 0 : fabs(x) / (double)n;
    }
    for (int64_t i = 0; i < n; i++)
        var += pow(array_get(c->x, first + i) - mean, 2) / (double)n;
    const double wrong_mean = (D + 2) * U * size;
    const double wrong_var = (D + 4) * U * var + wrong_mean * wrong_mean + 1e-37;
    const double s = 1 / sqrt(var + (double)(float)eps);
    const double least = fmax(var - wrong_var, 0) + (double)(float)eps;
    const double wrong_s = sqrt((var + (double)(float)eps) / least) - 1 + 4 * U;
    check_near(c, "mean", row, array_get(c->mean, row), mean, wrong_mean);
    check_near(c, "rstd", row, array_get(c->rstd, row), s, s * wrong_s);
    for (int64_t i = 0; i < n; i++) {
        const double d = array_get(c->x, first + i) - mean;
        const double gamma = parameter(c->gamma, i, 1), beta = parameter(c->beta, i, 0);
        const double want = d * s * gamma + beta;
        const double wrong_d = wrong_mean + U * (fabs(d) + wrong_mean);
        const double bound =
            fabs(gamma) * s * (wrong_d * (1 + wrong_s) + fabs(d) * (wrong_s + 2 * U)) +
            2 * U * fabs(want);
        check_near(c, "y", first + i, array_get(c->y, first + i), want,
                   bound + rounding_of(c->type, fabs(want) + bound));
    }
}

// From the computed mean and rstd.
static void check_dx(const row_case *c, int64_t row) {
    const int64_t n = c->params.channels, first = row * n;
    const double mean = array_get(c->mean, row), s = array_get(c->rstd, row);
    double plain = 0, plain_size = 0, product = 0, product_size = 0;
    for (int64_t i = 0; i < n; i++) {
        const double g = array_get(c->dy, first + i) * parameter(c->gamma, i, 1) / (double)n;
        const double xhat = (array_get(c->x, first + i) - mean) * s;
        plain += c->params.uncentred ? 0 : g;
        plain_size += c->params.uncentred ? 0 : fabs(g);
        product += g * xhat;
        product_size += fabs(g * xhat);
    }
    for (int64_t i = 0; i < n; i++) {
        const double g = array_get(c->dy, first + i) * parameter(c->gamma, i, 1);
        const double xhat = (array_get(c->x, first + i) - mean) * s;
        const double want = s * (g - plain - xhat * product);
        const double bound = 1.01 * U * s *
                             (3 * fabs(g) + (D + 3 + 1 + 2) * plain_size +
                              (D + 6 + 1 + 2 + 3) * fabs(xhat) * product_size);
        check_near(c, "dx", first + i, array_get(c->dx, first + i), want,
                   bound + rounding_of(c->type, fabs(want) + bound));
    }
}

static void check_columns(const row_case *c) {
    const int64_t n = c->params.channels, vectors = n / vector_of(c->type);
    const int64_t units = c->params.samples * (vectors < 256 ? vectors : 256) / 512 + 1;
    const double additions = 8 + 8 + ceil(log2((double)units));
    for (int64_t channel = 0; channel < n; channel++) {
        double dbeta = 0, dbeta_size = 0, dgamma = 0, dgamma_size = 0;
        for (int64_t row = 0; row < c->params.samples; row++) {
            const double dy = array_get(c->dy, row * n + channel);
            const double d = array_get(c->x, row * n + channel) - array_get(c->mean, row);
            dbeta += dy;
            dbeta_size += fabs(dy);
            dgamma += dy * d * array_get(c->rstd, row);
            dgamma_size += fabs(dy * d * array_get(c->rstd, row));
        }
        check_near(c, "dbeta", channel, array_get(c->dbeta, channel), dbeta,
                   additions * U * dbeta_size);
        check_near(c, "dgamma", channel, array_get(c->dgamma, channel), dgamma,
                   1.01 * (additions + 3) * U * dgamma_size + 1e-37);
    }
}

static void assert_same(const row_case *c, const char *what, const void *got,
                        const test_array *want) {
    if (memcmp(got, want->data, (size_t)want->count * sr_dtype_size(want->dtype)) != 0)
        fail_msg("%s of %s [%lld, %lld] has other bits", what, sr_dtype_name(c->type),
                 (long long)c->params.samples, (long long)c->params.channels);
}

static void assert_equal(const row_case *c, const char *what, const test_array *a,
                         const test_array *b) {
    assert_same(c, what, a->data, b);
}

static test_array *copy_of(const test_array *from) {
    test_array *to = array_new(from->dtype, from->count);
    memcpy(to->data, from->data, (size_t)from->count * sr_dtype_size(from->dtype));
    return to;
}

static void check_in_place(const row_case *c) {
    const int64_t rows = c->params.samples, channels = c->params.channels;
    test_array *mean = array_new(SR_F32, rows), *rstd = array_new(SR_F32, rows);
    test_array *dgamma = array_new(SR_F32, channels), *dbeta = array_new(SR_F32, channels);
    test_array *y = copy_of(c->x), *dx = copy_of(c->dy);
    RUN(groupnorm, c, y, c->gamma, c->beta, y, mean, rstd);
    assert_equal(c, "y in place", y, c->y);
    assert_equal(c, "rstd in place", rstd, c->rstd);
    RUN(groupnorm_grad, c, c->x, dx, c->gamma, c->mean, c->rstd, dx, dgamma, dbeta);
    assert_equal(c, "dx in place", dx, c->dx);
    assert_equal(c, "dgamma in place", dgamma, c->dgamma);
}

static sr_kernel_request request_with(sr_kernel_id kernel, sr_dtype type, const void *params,
                                      size_t bytes) {
    sr_kernel_request request;
    sr_kernel_request_init(&request, sr_device_get_properties(device_of_test())->kind, kernel, type,
                           params, bytes);
    return request;
}
#define REQUEST(kernel, type, params) request_with(kernel, type, &(params), sizeof(params))

// The last 'results' of the arguments have the same bits, however many blocks the function has
// that reads rows.
static void check_blocks(const row_case *c, sr_kernel_id kernel, int count, test_array *const *args,
                         int results) {
    sr_kernel_request request = REQUEST(kernel, c->type, c->params);
    void *p[SR_KERNEL_MAX_ARGS] = {NULL};
    sr_prepared prepared;
    for (int i = 0; i < count; i++) {
        if (!args[i])
            request.dtype[i] = SR_DTYPE_COUNT;
        else if (i < count - results)
            p[i] = args[i]->data;
        else
            p[i] = array_new(args[i]->dtype, args[i]->count)->data;
    }
    assert_ok(sr_kernel_prepare_as(&request, sr_kernel_find_in(&request, TENSOR), 0, &prepared));
    sr_cuda_plan *plan = prepared.state;
    uint32_t *const blocks = &plan->part[0].blocks[0];
    const uint32_t planned = *blocks, numbers[] = {1, 2, planned + 3};
    for (int i = 0; i < 3; i++) {
        *blocks = numbers[i];
        device_run(device_of_test(), &prepared, &request, p, 0xff);
        for (int k = count - results; k < count; k++)
            if (args[k])
                assert_same(c, prepared.entry->name, p[k], args[k]);
    }
    *blocks = planned;
    sr_prepared_release(&prepared);
}

static row_case run_rows(data_kind kind, sr_dtype type, int64_t rows, int64_t channels, bool affine,
                         bool uncentred) {
    row_case c = {.params = {.samples = rows,
                             .pixels = 1,
                             .channels = channels,
                             .groups = 1,
                             .eps = eps,
                             .uncentred = uncentred},
                  .type = type,
                  .x = rows_of(kind, type, rows, channels, 1),
                  .dy = rows_of(NOISE, type, rows, channels, 2),
                  .gamma = affine ? array_random(SR_F32, channels, 3, -1, 1.5) : NULL,
                  .beta = affine ? array_random(SR_F32, channels, 4, -1, 1) : NULL,
                  .y = array_new(type, rows * channels),
                  .mean = array_new(SR_F32, rows),
                  .rstd = array_new(SR_F32, rows),
                  .dx = array_new(type, rows * channels),
                  .dgamma = array_new(SR_F32, channels),
                  .dbeta = array_new(SR_F32, channels)};
    RUN(groupnorm, &c, c.x, c.gamma, c.beta, c.y, c.mean, c.rstd);
    RUN(groupnorm_grad, &c, c.x, c.dy, c.gamma, c.mean, c.rstd, c.dx, c.dgamma, c.dbeta);
    return c;
}

// The largest divisor of the rows up to 5.
static int64_t drop_rows_of(int64_t rows) {
    int64_t most = 5;
    while (rows % most != 0)
        most--;
    return most;
}

static void check_rows(void **state, data_kind kind, sr_dtype type, int64_t rows, int64_t channels,
                       bool affine, bool uncentred) {
    const row_case c = run_rows(kind, type, rows, channels, affine, uncentred);
    for (int64_t row = 0; row < rows; row++) {
        check_forward(&c, row);
        check_dx(&c, row);
    }
    check_columns(&c);
    check_in_place(&c);
    check_blocks(&c, SR_KERNEL_groupnorm, 6,
                 (test_array *[]){c.x, c.gamma, c.beta, c.y, c.mean, c.rstd}, 3);
    check_blocks(&c, SR_KERNEL_groupnorm_grad, 8,
                 (test_array *[]){c.x, c.dy, c.gamma, c.mean, c.rstd, c.dx, c.dgamma, c.dbeta}, 3);
    arrays_free(state);
}

// Rows of one vector, of one to three of each thread, of a warp and of several, and of a block.
static const int64_t vectors_of_rows[] = {1,  2,  3,   5,   12,  33,  48, 64,
                                          96, 97, 128, 193, 384, 400, 512};
static const int64_t some_rows[] = {1, 7, 18};
enum { WIDTHS = sizeof vectors_of_rows / sizeof *vectors_of_rows };

static void test_widths(void **state) {
    if (is_skipped())
        return;
    for (size_t i = 0; i < WIDTHS; i++) {
        const sr_dtype type = types[i % TYPES];
        check_rows(state, NOISE, type, some_rows[i % 3], vectors_of_rows[i] * vector_of(type),
                   i % 4 != 0, i % 4 == 1);
    }
    check_rows(state, NOISE, SR_F32, 3, 4096, true, false);
}

static void test_sums_with_norms(void **state) {
    if (is_skipped())
        return;
    for (size_t i = 0; i < WIDTHS; i++) {
        const int64_t rows = some_rows[(i + 1) % 3];
        const sr_dtype type = types[(i + i / 3) % TYPES];
        const row_case c = run_rows(NOISE, type, rows, vectors_of_rows[i] * vector_of(type),
                                    i % 4 != 0, i % 4 == 1);
        check_norm_sum(TENSOR, &(sum_arguments){.params = c.params,
                                                .x = c.x,
                                                .dy = c.dy,
                                                .gamma = c.gamma,
                                                .beta = c.beta,
                                                .drop_rows = drop_rows_of(rows)});
        arrays_free(state);
    }
}

// The last unit of each has other rows than the others; so many units that their tree has
// several batches (kernels/cuda/cuda_sum.h).
static void test_units(void **state) {
    static const struct {
        sr_dtype type;
        int64_t rows, vectors;
    } shapes[] = {{SR_BF16, 1030, 1},
                  {SR_F32, 259, 12},
                  {SR_F16, 131, 48},
                  {SR_BF16, 67, 96},
                  {SR_F32, 150, 200}};
    if (is_skipped())
        return;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_rows(state, NOISE, shapes[i].type, shapes[i].rows,
                   shapes[i].vectors * vector_of(shapes[i].type), true, false);
    check_rows(state, NOISE, SR_F32, 601, 400 * 4, false, false);
}

// So many rows that a thread has more than two of a unit.
static void test_many_rows(void **state) {
    static const int64_t ROWS = 768 * 4 * 256 + 5; // 769 units of four rows of each of 256 threads
    (void)state;
    if (is_skipped())
        return;
    const row_case c = run_rows(NOISE, SR_F32, ROWS, 4, true, false);
    for (int64_t row = 0; row < ROWS; row += 997)
        check_dx(&c, row);
    check_columns(&c);
}

static void test_difficult_data(void **state) {
    static const int64_t vectors[] = {2, 24, 130};
    if (is_skipped())
        return;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        for (int kind = 0; kind < KINDS; kind++)
            check_rows(state, (data_kind)kind, types[(i + (size_t)kind) % TYPES], 20,
                       vectors[i] * vector_of(types[(i + (size_t)kind) % TYPES]), kind % 2 == 0,
                       false);
}

// One element that is no number spoils its row and no other one.
static void test_infinite_elements(void **state) {
    static const double values[] = {(double)INFINITY, (double)-INFINITY, (double)NAN};
    static const int64_t ROWS = 9, CHANNELS = 88, SPOILT = 5;
    if (is_skipped())
        return;
    for (int v = 0; v < 3; v++) {
        const row_case c = run_rows(NOISE, types[v], ROWS, CHANNELS, true, false);
        test_array *y = array_new(types[v], ROWS * CHANNELS);
        test_array *mean = array_new(SR_F32, ROWS), *rstd = array_new(SR_F32, ROWS);
        array_set(c.x, SPOILT * CHANNELS + 43, values[v]);
        RUN(groupnorm, &c, c.x, c.gamma, c.beta, y, mean, rstd);
        for (int64_t i = 0; i < ROWS * CHANNELS; i++)
            assert_true(i / CHANNELS == SPOILT ? isnan(array_get(y, i))
                                               : array_get(y, i) == array_get(c.y, i));
        for (int64_t row = 0; row < ROWS; row++)
            assert_true(isfinite(array_get(mean, row)) == (row != SPOILT));
        arrays_free(state);
    }
}

static void check_lanes_of(const sr_kernel_request *lane, uint32_t varies, uint32_t parameters) {
    sr_kernel_request all;
    for (int lanes = 2; lanes <= 3; lanes++) {
        const sr_kernel_entry *entry = check_lanes(lane, lanes, varies);
        (void)arrays_free(NULL);
        if (!entry || !entry->lanes || strcmp(entry->provider, TENSOR) != 0)
            fail_msg("lanes of %s are not served by class " TENSOR, sr_kernel_name(lane->kernel));
    }
    assert_false(sr_kernel_join_lanes(lane, 2, varies | parameters, &all));
}

// With a key of each lane, behind each other or apart, or without.
static void check_lanes_of_sums(sr_dtype type, const sr_groupnorm_params *norm, bool drops) {
    const sr_add_groupnorm_params p = {.norm = *norm,
                                       .drop_rows = drops ? drop_rows_of(norm->samples) : 0,
                                       .probability = drops ? 0.5 : 0};
    sr_kernel_request lane = REQUEST(SR_KERNEL_add_groupnorm, type, p), all;
    if (!drops)
        lane.dtype[2] = SR_DTYPE_COUNT;
    for (int apart = 0; apart <= (drops ? 1 : 0); apart++) {
        lane.apart = apart ? 1 << 2 : 0;
        check_lanes_of(&lane, drops ? 0x1e7 : 0x1e3, 0x18);
    }
    assert_true(!drops || !sr_kernel_join_lanes(&lane, 2, 0x1e3, &all)); // one key
}

// All but gamma and beta vary; dgamma and dbeta are of each lane.
static void test_lanes(void **state) {
    static const int64_t rows[] = {1, 37, 300}, vectors[] = {1, 12, 70};
    static const struct {
        sr_kernel_id kernel;
        uint32_t varies, parameters; // parameters: gamma and beta
    } kernels[] = {{SR_KERNEL_groupnorm, 0x39, 0x06},
                   {SR_KERNEL_groupnorm_grad, 0xfb, 0x04},
                   {SR_KERNEL_groupnorm_add_grad, 0x1f7, 0x08}};
    (void)state;
    if (is_skipped())
        return;
    for (int i = 0; i < 3; i++) {
        const sr_dtype type = types[i];
        const sr_groupnorm_params p = {.samples = rows[i],
                                       .pixels = 1,
                                       .channels = vectors[i] * vector_of(type),
                                       .groups = 1,
                                       .eps = eps};
        for (int k = 0; k < 3; k++) {
            const sr_kernel_request lane = REQUEST(kernels[k].kernel, type, p);
            check_lanes_of(&lane, kernels[k].varies, kernels[k].parameters);
        }
        check_lanes_of_sums(type, &p, false);
        check_lanes_of_sums(type, &p, true);
    }
}

// What the class leaves to the reference.
static void test_other_groups(void **state) {
    static const sr_kernel_id kernels[] = {SR_KERNEL_groupnorm, SR_KERNEL_groupnorm_grad,
                                           SR_KERNEL_add_groupnorm, SR_KERNEL_groupnorm_add_grad};
    static const struct {
        sr_groupnorm_params params;
        bool f32, bf16;
    } cases[] = {{{.samples = 2, .pixels = 1, .channels = 4, .groups = 1}, true, false},
                 {{.samples = 2, .pixels = 1, .channels = 8, .groups = 1}, true, true},
                 {{.samples = 2, .pixels = 1, .channels = 33, .groups = 1}, false, false},
                 {{.samples = 2, .pixels = 1, .channels = 4096, .groups = 1}, true, true},
                 {{.samples = 2, .pixels = 1, .channels = 6144, .groups = 1}, false, true},
                 {{.samples = 2, .pixels = 1, .channels = 6152, .groups = 1}, false, false},
                 {{.samples = 2, .pixels = 9, .channels = 16, .groups = 1}, false, false},
                 {{.samples = 2, .pixels = 1, .channels = 64, .groups = 2}, false, false},
                 {{.samples = 0, .pixels = 1, .channels = 64, .groups = 1}, false, false}};
    (void)state;
    if (is_skipped())
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
            const sr_add_groupnorm_params params = {.norm = cases[i].params};
            for (int wide = 0; wide < 2; wide++) {
                const sr_kernel_request request = request_with(
                    kernels[k], wide ? SR_F32 : SR_BF16, &params,
                    kernels[k] == SR_KERNEL_add_groupnorm ? sizeof params : sizeof params.norm);
                assert_true((sr_kernel_find_in(&request, TENSOR) != NULL) ==
                            (wide ? cases[i].f32 : cases[i].bf16));
            }
        }
    }
}

// ---- Sums over rows ----

// A term is in at most 32 additions in a thread, 8 between threads, and those of the tree of units,
// which have at least four rows. Products, and differences in them, are rounded.
static void check_sums(void **state, sr_dtype type, int64_t rows, int64_t channels, int inputs) {
    const sr_rows_params p = {.rows = rows, .channels = channels};
    const double roundings = 32 + 8 + ceil(log2((double)(rows / 4 + 1))) + (inputs > 1 ? 2 : 0);
    const bool shifted = inputs > 2;
    test_array *a = rows_of(STRAY_CHANNELS, type, rows, channels, 5);
    test_array *b = rows_of(NOISE, type, rows, channels, 6);
    test_array *shift = shifted ? array_random(SR_F32, channels, 7, -1, 1) : NULL;
    test_array *s[] = {array_new(SR_F32, channels), array_new(SR_F32, channels)};
    for (int turn = 0; turn < 2; turn++) {
        if (inputs == 1)
            kernel_run(TENSOR, SR_KERNEL_channel_sum, &p, sizeof p, 2,
                       (test_array *[]){a, s[turn]});
        else
            kernel_run(TENSOR, SR_KERNEL_channel_dot, &p, sizeof p, 4,
                       (test_array *[]){a, b, shift, s[turn]});
    }
    assert_memory_equal(s[0]->data, s[1]->data, (size_t)channels * sizeof(float));
    for (int64_t channel = 0; channel < channels; channel++) {
        double sum = 0, size = 0;
        for (int64_t row = 0; row < rows; row++) {
            const int64_t i = row * channels + channel;
            const double factor =
                inputs == 1 ? 1 : array_get(b, i) - (shifted ? array_get(shift, channel) : 0);
            sum += array_get(a, i) * factor;
            size += fabs(array_get(a, i) * factor);
        }
        if (!(fabs(array_get(s[0], channel) - sum) <= 1.01 * roundings * U * size))
            fail_msg("a sum of %d inputs of %s [%lld, %lld], channel %lld: %.9g, not %.9g", inputs,
                     sr_dtype_name(type), (long long)rows, (long long)channels, (long long)channel,
                     array_get(s[0], channel), sum);
    }
    arrays_free(state);
}

// Rows that are whole vectors and others, less than a slab and several; less rows than threads, a
// last unit that is not full, and so many units that their tree has several batches.
static void test_sums(void **state) {
    static const int64_t channels[] = {1, 3, 8, 31, 40, 96, 100, 200, 264, 384, 1000};
    static const int64_t rows[] = {1, 5, 33, 130, 257, 1029};
    if (is_skipped())
        return;
    for (size_t c = 0; c < sizeof channels / sizeof *channels; c++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            for (int inputs = 1; inputs <= 3; inputs++)
                check_sums(state, types[(c + r) % TYPES], rows[r], channels[c], inputs);
    check_sums(state, SR_BF16, 8 * 32 * 66 + 7, 256, 1);
    check_sums(state, SR_F32, 256 * 32 * 9 + 3, 1, 3);
}

static void test_lanes_of_sums(void **state) {
    static const int64_t rows[] = {1, 37, 300}, channels[] = {16, 7, 384};
    (void)state;
    if (is_skipped())
        return;
    for (int i = 0; i < 9; i++) {
        const sr_rows_params p = {.rows = rows[i % 3], .channels = channels[i / 3]};
        const sr_kernel_request sum = REQUEST(SR_KERNEL_channel_sum, types[i % TYPES], p);
        const sr_kernel_entry *entry = check_lanes(&sum, 2 + i % 2, 0x03);
        assert_true(entry && strcmp(entry->provider, TENSOR) == 0);
        sr_kernel_request dot = REQUEST(SR_KERNEL_channel_dot, types[i % TYPES], p);
        if (i % 2 == 0)
            dot.dtype[2] = SR_DTYPE_COUNT;
        entry = check_lanes(&dot, 2 + i % 2, 0x0b);
        assert_true(entry && strcmp(entry->provider, TENSOR) == 0);
        (void)arrays_free(NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_widths, arrays_free),
        cmocka_unit_test_teardown(test_sums_with_norms, arrays_free),
        cmocka_unit_test_teardown(test_units, arrays_free),
        cmocka_unit_test_teardown(test_many_rows, arrays_free),
        cmocka_unit_test_teardown(test_difficult_data, arrays_free),
        cmocka_unit_test_teardown(test_infinite_elements, arrays_free),
        cmocka_unit_test_teardown(test_lanes, arrays_free),
        cmocka_unit_test(test_other_groups),
        cmocka_unit_test_teardown(test_sums, arrays_free),
        cmocka_unit_test(test_lanes_of_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
