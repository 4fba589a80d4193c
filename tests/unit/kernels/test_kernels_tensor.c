// SPDX-License-Identifier: Apache-2.0
// Kernels of numerics class "tensor" of the test's device (SERRIED_TEST_DEVICE): within bounds of
// the reference on the problems of kernel_cases.c; and batch norm within derived bounds of double
// arithmetic for rows and channels around the sizes of its vectors, units, slabs and groups. The
// bits are the same for any number of blocks, in place, in repeated runs (on the software GPU each
// has another order of blocks and threads), in lanes side by side as in each alone, and where one
// kernel promises the bits of another one, or of two.
//
// The bounds, with u = 2^-24 and at most D joins between a row and the total of all
// (kernels/cuda/tensor_batchnorm.cu): 9 in a unit, and 17 more each where there are several units,
// or more than 64. A unit has at least 64 rows.
//   mean: the sum of 4 terms makes 3 roundings, its mean two. A join forms a + (b - a) share, with
//     four roundings of at most |a| (1 - share) + |b| share, as b has no more rows than a.
//   variance: the centred squares of 4 terms make 7 roundings, and a join adds 6. Means that are
//     wrong by e change differences delta of means in joins by 2 e, hence squares by
//     4 e |delta| weight and 4 e^2 weight. The weights of a level add up to half of the rows, and
//     all delta^2 weight to no more than the sum of squares.
//   sums: 7 roundings of 8 terms in a thread, and one in each join; a difference makes one more,
//     and its product none, as it is fused with the sum.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "graph/op.h"
#include "kernels/cuda/cuda_plan.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/kernel_problem.h"
#include "tests/unit/kernels/library_kernels.h"
#include "tests/unit/kernels/norm_relu.h"
#include "tests/unit/support/device_run.h"

#define TENSOR "tensor"
#define U 0x1p-24
static const double eps = 1e-5;
static const sr_dtype types[] = {SR_F32, SR_BF16, SR_F16};
enum { TYPES = 3 };

static const sr_provider *provider(void) {
    return provider_of_test(TENSOR);
}

static bool is_skipped(void) {
    if (provider())
        return false;
    test_skip("this device has no kernels of class " TENSOR);
    return true;
}

// ---- The problems of kernel_cases.c ----

static int checked;

static arrays run_prepared(const problem *c, const sr_kernel_request *request,
                           const sr_prepared *prepared, const arrays *inputs, int fill) {
    arrays a = copy_arrays(c, inputs);
    device_run(device_of_test(), prepared, request, a.p, fill);
    check_guards(c, &a, prepared->entry->name);
    return a;
}

static arrays run_reference(const problem *c, const arrays *inputs) {
    arrays a = copy_arrays(c, inputs);
    sr_prepared prepared;
    assert_ok(sr_kernel_prepare_as(&c->request, sr_kernel_find_in(&c->request, SR_KERNEL_REFERENCE),
                                   0, &prepared));
    void *workspace = sr_alloc(prepared.workspace + 1, "test workspace");
    void *scratch = sr_alloc(prepared.scratch + 1, "test scratch");
    assert_true(workspace && scratch);
    assert_ok(sr_prepared_run(&prepared, &c->request, a.p, workspace, scratch));
    sr_free(workspace);
    sr_free(scratch);
    sr_prepared_release(&prepared);
    return a;
}

// Whether the last function of a plan adds sums, a column by each thread, so that it must have as
// many blocks as are planned.
static bool ends_with_columns(sr_kernel_id kernel) {
    return kernel == SR_KERNEL_conv2d_dw || kernel == SR_KERNEL_groupnorm_grad ||
           kernel == SR_KERNEL_groupnorm_add_grad || kernel == SR_KERNEL_channel_sum ||
           kernel == SR_KERNEL_channel_dot;
}

// Other last functions do the work, however many blocks they have.
static void check_blocks(const problem *c, const sr_kernel_request *request, sr_prepared *prepared,
                         const arrays *inputs, const arrays *want) {
    sr_cuda_plan *plan = prepared->state;
    uint32_t *const blocks = &plan->part[plan->parts - 1].blocks[0];
    const uint32_t planned = *blocks, numbers[] = {1, 2, planned + 3};
    for (int i = 0; i < 3 && !ends_with_columns(request->kernel); i++) {
        *blocks = numbers[i];
        arrays a = run_prepared(c, request, prepared, inputs, 0xff);
        assert_same_bits(c, &a, want, prepared->entry->name, "depends on the number of blocks");
        free_arrays(&a);
    }
    *blocks = planned;
}

static void check_in_place(const problem *c, const sr_kernel_request *request,
                           const sr_prepared *prepared, const arrays *inputs, const arrays *want) {
    const sr_op *op = sr_op_find(sr_kernel_name(request->kernel));
    for (int bit = 0; op && bit < 32; bit++) {
        const int in = bit % 8, out = op->inputs + bit / 8;
        if (!(op->in_place >> bit & 1) || bytes_of(c, in) != bytes_of(c, out))
            continue;
        arrays a = copy_arrays(c, inputs);
        void *const own = a.p[out];
        a.p[out] = a.p[in];
        device_run(device_of_test(), prepared, request, a.p, 0xff);
        assert_same_bits(c, &a, want, prepared->entry->name, "in place differs");
        a.p[out] = own;
        free_arrays(&a);
    }
}

// Called by the cases of kernel_cases.c.
void check_problem(const problem *c) {
    sr_kernel_request request = c->request;
    request.device = sr_device_get_properties(device_of_test())->kind;
    const sr_kernel_entry *entry = sr_kernel_find_in(&request, TENSOR);
    if (!entry)
        return;
    sr_prepared prepared;
    assert_ok(sr_kernel_prepare_as(&request, entry, 0, &prepared));
    arrays inputs = make_inputs(c), absolute = copy_arrays(c, &inputs);
    make_absolute(c, &absolute);
    arrays want = run_reference(c, &inputs), magnitude = run_reference(c, &absolute);
    arrays got = run_prepared(c, &request, &prepared, &inputs, 0);
    assert_close(c, &got, &want, &magnitude, entry);
    check_blocks(c, &request, &prepared, &inputs, &got);
    check_in_place(c, &request, &prepared, &inputs, &got);
    sr_prepared_release(&prepared);
    free_arrays(&inputs);
    free_arrays(&absolute);
    free_arrays(&want);
    free_arrays(&magnitude);
    free_arrays(&got);
    checked++;
}

static void test_problems(void **state) {
    (void)state;
    if (is_skipped())
        return;
    for (size_t i = 0; i < provider()->count; i++) {
        const sr_kernel_id kernel = provider()->entries[i].kernel;
        const int before = checked;
        assert_non_null(kernel_cases[kernel]);
        kernel_cases[kernel](kernel);
        if (checked == before)
            fail_msg("%s has no case", provider()->entries[i].name);
    }
}

// ---- Batch norm ----

typedef enum data_kind { NOISE, FAR_FROM_ZERO, CONSTANT, STRAY_FIRST_ROWS, KINDS } data_kind;

// Every channel has its own mean.
static test_array *rows_of(data_kind kind, sr_dtype type, int64_t rows, int64_t channels,
                           uint32_t seed) {
    test_array *x = array_random(SR_F32, rows * channels, seed, -1, 1);
    test_array *to = array_new(type, rows * channels);
    for (int64_t i = 0; i < rows * channels; i++) {
        const double noise = array_get(x, i), c = (double)(i % channels % 7);
        const double value = kind == NOISE           ? noise + c / 4
                             : kind == FAR_FROM_ZERO ? 577 + c + noise // 1,000 deviations
                             : kind == CONSTANT      ? 0.1 + c
                             : i / channels < 3      ? 300 + c
                                                     : noise;
        array_set(to, i, value);
    }
    return to;
}

typedef struct norm_case {
    sr_dtype type;
    int64_t rows, channels;
    test_array *x, *dy, *gamma, *beta;          // gamma, beta: NULL without
    test_array *y, *mean, *var;                 // of batchnorm_train
    test_array *dx, *dgamma, *dbeta;            // of batchnorm_grad
    test_array *other, *other_mean, *other_var; // of another kernel
} norm_case;

#define RUN(kernel, params, ...)                                                                   \
    kernel_run(TENSOR, SR_KERNEL_##kernel, &(params), sizeof(params),                              \
               (int)(sizeof((test_array *[]){__VA_ARGS__}) / sizeof(test_array *)),                \
               (test_array *[]){__VA_ARGS__})

static double joins_of(int64_t rows) {
    assert_true(rows <= 64 * 64 * 64);
    return 9 + (rows > 64 ? 17 : 0) + (rows > 64 * 64 ? 17 : 0);
}

static void check_near(const norm_case *n, const char *what, int64_t i, double got, double want,
                       double bound) {
    if (!(fabs(got - want) <= bound))
        fail_msg("%s %s [%lld, %lld], element %lld: %.9g, not %.9g within %.3g", what,
                 sr_dtype_name(n->type), (long long)n->rows, (long long)n->channels, (long long)i,
                 got, want, bound);
}

// Sums that doubles have of a channel.
typedef struct exact_channel {
    double mean, var, size;                              // size: of |x|
    double dbeta, dbeta_size, dgamma, dgamma_size, sinv; // from the computed mean and variance
} exact_channel;

static exact_channel exact_of(const norm_case *n, int64_t c) {
    exact_channel e = {0};
    const double rows = (double)n->rows, mean = array_get(n->mean, c);
    e.sinv = 1 / sqrt(array_get(n->var, c) + (double)(float)eps);
    for (int64_t i = c; i < n->x->count; i += n->channels) {
        const double x = array_get(n->x, i), dy = array_get(n->dy, i);
        e.mean += x / rows;
        e.size += fabs(x) / rows;
        e.dbeta += dy;
        e.dbeta_size += fabs(dy);
        e.dgamma += dy * (x - mean) * e.sinv;
        e.dgamma_size += fabs(dy * (x - mean)) * e.sinv;
    }
    for (int64_t i = c; i < n->x->count; i += n->channels) {
        const double d = array_get(n->x, i) - e.mean;
        e.var += d * d / rows;
    }
    return e;
}

static double rounding_of(sr_dtype type, double value) {
    return 1.01 * unit_roundoff(type) * fabs(value) + (type == SR_F16 ? 0x1p-24 : 1e-37);
}

static void check_forward(const norm_case *n, int64_t c, const exact_channel *e) {
    const double joins = joins_of(n->rows), wrong_mean = (5 + 4 * joins) * U * e->size;
    const double wrong_var = (7 + 6 * joins) * U * e->var +
                             4 * wrong_mean * sqrt(e->var * joins / 2) +
                             (1 + 2 * joins) * wrong_mean * wrong_mean;
    check_near(n, "mean", c, array_get(n->mean, c), e->mean, wrong_mean);
    check_near(n, "var", c, array_get(n->var, c), e->var, wrong_var + 1e-37);
    const double least = fmax(e->var - wrong_var, 0) + eps, s = 1 / sqrt(e->var + eps);
    const double wrong_factor = sqrt((e->var + eps) / least) - 1 + 8 * U;
    const double gamma = n->gamma ? array_get(n->gamma, c) : 1;
    const double beta = n->beta ? array_get(n->beta, c) : 0;
    for (int64_t i = c; i < n->x->count; i += n->channels) {
        const double d = array_get(n->x, i) - e->mean, want = d * s * gamma + beta;
        const double wrong_d = wrong_mean + U * (fabs(d) + wrong_mean);
        const double bound =
            fabs(gamma) * s * (wrong_d * (1 + wrong_factor) + fabs(d) * wrong_factor) +
            4 * U * (fabs(want) + fabs(beta));
        check_near(n, "y", i, array_get(n->y, i), want,
                   bound + rounding_of(n->type, fabs(want) + bound));
    }
}

static void check_backward(const norm_case *n, int64_t c, const exact_channel *e) {
    const double joins = joins_of(n->rows), rows = (double)n->rows;
    const double wrong_dbeta = (7 + joins) * U * e->dbeta_size;
    const double wrong_dgamma = (7 + joins + 5) * U * e->dgamma_size;
    check_near(n, "dbeta", c, array_get(n->dbeta, c), e->dbeta, wrong_dbeta);
    check_near(n, "dgamma", c, array_get(n->dgamma, c), e->dgamma, wrong_dgamma + 1e-37);
    const double scale = (n->gamma ? array_get(n->gamma, c) : 1) * e->sinv;
    for (int64_t i = c; i < n->x->count; i += n->channels) {
        const double d = (array_get(n->x, i) - array_get(n->mean, c)) * e->sinv;
        const double dy = array_get(n->dy, i);
        const double want = scale * (dy - e->dbeta / rows - d * e->dgamma / rows);
        const double parts = fabs(dy) + (fabs(e->dbeta) + fabs(d * e->dgamma)) / rows;
        const double bound =
            fabs(scale) * ((wrong_dbeta + fabs(d) * wrong_dgamma) / rows + 12 * U * parts);
        check_near(n, "dx", i, array_get(n->dx, i), want,
                   bound + rounding_of(n->type, fabs(want) + bound));
    }
}

static void assert_equal(const norm_case *n, const char *what, const test_array *a,
                         const test_array *b, int64_t count) {
    if (memcmp(a->data, b->data, (size_t)count * sr_dtype_size(a->dtype)) != 0)
        fail_msg("%s of %s [%lld, %lld] has other bits", what, sr_dtype_name(n->type),
                 (long long)n->rows, (long long)n->channels);
}

static void copy_array(test_array *to, const test_array *from) {
    memcpy(to->data, from->data, (size_t)to->count * sr_dtype_size(to->dtype));
}

// What kernel_list.def says of bits.
static void check_promises(const norm_case *n) {
    const sr_rows_params plain = {n->rows, n->channels};
    const sr_batchnorm_params norm = {n->rows, n->channels, eps};
    sr_batchnorm_dx_params part = {n->rows, n->channels, eps, n->rows};
    const int64_t count = n->x->count;
    RUN(batchnorm_moments, plain, n->x, n->other_mean, n->other_var);
    assert_equal(n, "mean of batchnorm_moments", n->mean, n->other_mean, n->channels);
    assert_equal(n, "var of batchnorm_moments", n->var, n->other_var, n->channels);
    RUN(batchnorm_sums, norm, n->x, n->dy, n->mean, n->var, n->other_mean, n->other_var);
    assert_equal(n, "dgamma of batchnorm_sums", n->dgamma, n->other_mean, n->channels);
    assert_equal(n, "dbeta of batchnorm_sums", n->dbeta, n->other_var, n->channels);
    RUN(batchnorm_infer, norm, n->x, n->gamma, n->beta, n->mean, n->var, n->other);
    assert_equal(n, "y of batchnorm_infer", n->y, n->other, count);
    RUN(batchnorm_dx, part, n->x, n->dy, n->gamma, n->mean, n->var, n->dgamma, n->dbeta, n->other);
    assert_equal(n, "dx of batchnorm_dx", n->dx, n->other, count);
    part.rows = (n->rows + 1) / 2;
    test_array x = *n->x, dy = *n->dy, other = *n->other;
    x.count = dy.count = other.count = part.rows * n->channels;
    RUN(batchnorm_dx, part, &x, &dy, n->gamma, n->mean, n->var, n->dgamma, n->dbeta, &other);
    assert_equal(n, "dx of some rows", n->dx, &other, other.count);
}

static void check_own_memory(const norm_case *n) {
    const sr_batchnorm_params norm = {n->rows, n->channels, eps};
    const sr_batchnorm_dx_params part = {n->rows, n->channels, eps, n->rows};
    test_array *const at = n->other;
    copy_array(at, n->x);
    RUN(batchnorm_train, norm, at, n->gamma, n->beta, at, n->other_mean, n->other_var);
    assert_equal(n, "y in place", n->y, at, at->count);
    copy_array(at, n->x);
    RUN(batchnorm_infer, norm, at, n->gamma, n->beta, n->mean, n->var, at);
    assert_equal(n, "y of batchnorm_infer in place", n->y, at, at->count);
    copy_array(at, n->dy);
    RUN(batchnorm_grad, norm, n->x, at, n->gamma, n->mean, n->var, at, n->other_mean, n->other_var);
    assert_equal(n, "dx in place", n->dx, at, at->count);
    copy_array(at, n->dy);
    RUN(batchnorm_dx, part, n->x, at, n->gamma, n->mean, n->var, n->dgamma, n->dbeta, at);
    assert_equal(n, "dx of batchnorm_dx in place", n->dx, at, at->count);
}

static norm_case run_norm(data_kind kind, sr_dtype type, int64_t rows, int64_t channels,
                          bool affine) {
    const sr_batchnorm_params norm = {rows, channels, eps};
    norm_case n = {.type = type, .rows = rows, .channels = channels};
    n.x = rows_of(kind, type, rows, channels, 1);
    n.dy = rows_of(NOISE, type, rows, channels, 2);
    n.gamma = affine ? array_random(SR_F32, channels, 3, -1, 1.5) : NULL;
    n.beta = affine ? array_random(SR_F32, channels, 4, -1, 1) : NULL;
    test_array **const wide[] = {&n.y, &n.dx, &n.other};
    test_array **const parameters[] = {&n.mean,  &n.var,        &n.dgamma,
                                       &n.dbeta, &n.other_mean, &n.other_var};
    for (int i = 0; i < 3; i++)
        *wide[i] = array_new(type, rows * channels);
    for (int i = 0; i < 6; i++)
        *parameters[i] = array_new(SR_F32, channels);
    RUN(batchnorm_train, norm, n.x, n.gamma, n.beta, n.y, n.mean, n.var);
    RUN(batchnorm_grad, norm, n.x, n.dy, n.gamma, n.mean, n.var, n.dx, n.dgamma, n.dbeta);
    return n;
}

static void check_norm(void **state, data_kind kind, sr_dtype type, int64_t rows, int64_t channels,
                       bool affine) {
    const norm_case n = run_norm(kind, type, rows, channels, affine);
    for (int64_t c = 0; c < channels; c++) {
        const exact_channel e = exact_of(&n, c);
        check_forward(&n, c, &e);
        check_backward(&n, c, &e);
    }
    check_promises(&n);
    check_own_memory(&n);
    arrays_free(state);
}

// A unit has 64 to 2,048 rows; a slab one element to 64 channels.
static void test_remainders(void **state) {
    static const int64_t rows[] = {1, 2, 7, 63, 65, 257, 513, 1030};
    static const int64_t channels[] = {1, 3, 8, 12, 31, 33, 40, 64, 72, 136};
    if (is_skipped())
        return;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t c = 0; c < sizeof channels / sizeof *channels; c++)
            check_norm(state, NOISE, types[(r + c) % TYPES], rows[r], channels[c], r % 2 == 0);
}

static void test_difficult_data(void **state) {
    static const int64_t shapes[][2] = {{1, 5}, {3, 16}, {9, 64}, {600, 24}, {2051, 9}};
    if (is_skipped())
        return;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int t = 0; t < TYPES; t++)
                check_norm(state, (data_kind)kind, types[t], shapes[k][0], shapes[k][1], t == 1);
}

// Units that are joined in groups.
static void test_many_units(void **state) {
    if (is_skipped())
        return;
    check_norm(state, FAR_FROM_ZERO, SR_F32, 4200, 33, true);
    check_norm(state, NOISE, SR_BF16, 4200, 33, false);
}

// More groups; more statistics than run ahead of what is applied.
static void test_large_tensors(void **state) {
    if (is_skipped())
        return;
    check_norm(state, NOISE, SR_BF16, 17000, 64, true);
    check_norm(state, NOISE, SR_F16, 520, 5760, true);
    check_norm(state, NOISE, SR_F32, 520, 2880, false);
}

// 128 bytes of each row of a large tensor are two slabs.
static void test_narrow_slabs(void **state) {
    if (is_skipped())
        return;
    check_norm(state, NOISE, SR_F32, 132000, 32, true);
}

// One element that is no number spoils its channel and no other one.
static void test_infinite_elements(void **state) {
    static const double values[] = {(double)INFINITY, (double)-INFINITY, (double)NAN};
    static const int64_t ROWS = 700, CHANNELS = 24, SPOILT = 13;
    const sr_batchnorm_params norm = {ROWS, CHANNELS, eps};
    if (is_skipped())
        return;
    for (int t = 0; t < TYPES; t++) {
        for (int v = 0; v < 3; v++) {
            const norm_case n = run_norm(NOISE, types[t], ROWS, CHANNELS, true);
            test_array *y = array_new(types[t], n.x->count), *dx = array_new(types[t], n.x->count);
            array_set(n.x, 421 * CHANNELS + SPOILT, values[v]);
            RUN(batchnorm_train, norm, n.x, n.gamma, n.beta, y, n.other_mean, n.other_var);
            assert_true(!isfinite(array_get(n.other_mean, SPOILT)));
            assert_true(isnan(array_get(n.other_var, SPOILT)));
            RUN(batchnorm_grad, norm, n.x, n.dy, n.gamma, n.mean, n.var, dx, n.other_mean,
                n.other_var);
            for (int64_t i = 0; i < n.x->count; i++) {
                const bool spoilt = i % CHANNELS == SPOILT;
                assert_true(spoilt ? isnan(array_get(y, i)) : array_get(y, i) == array_get(n.y, i));
                assert_true(spoilt ? !isfinite(array_get(dx, i))
                                   : array_get(dx, i) == array_get(n.dx, i));
            }
            for (int64_t c = 0; c < CHANNELS; c++)
                assert_true(!isfinite(array_get(n.other_mean, c)) == (c == SPOILT));
            arrays_free(state);
        }
    }
}

// Units, slabs and groups that are not whole, with and without counters.
static const int64_t remainders[][2] = {{1, 5},    {7, 33},   {65, 64},   {257, 3},
                                        {513, 72}, {600, 24}, {4200, 33}, {17000, 16}};
enum { REMAINDERS = sizeof remainders / sizeof *remainders };

static void check_relu(sr_dtype type, int64_t rows, int64_t channels, bool affine) {
    const norm_arguments n = {.rows = rows,
                              .channels = channels,
                              .eps = eps,
                              .x = rows_of(NOISE, type, rows, channels, 1),
                              .dy = rows_of(NOISE, type, rows, channels, 2),
                              .gamma = affine ? array_random(SR_F32, channels, 3, -1, 1.5) : NULL,
                              .beta = affine ? array_random(SR_F32, channels, 4, -1, 1) : NULL};
    check_norm_relu(TENSOR, &n);
    (void)arrays_free(NULL);
}

// In all types where there are signs, but for the largest ones.
static void test_relu(void **state) {
    (void)state;
    if (is_skipped())
        return;
    for (int k = 0; k < REMAINDERS; k++) {
        const int64_t rows = remainders[k][0], channels = remainders[k][1];
        for (int t = 0; t < TYPES; t++)
            if (t == (k + 1) % TYPES || (channels % 8 == 0 && rows < 1000))
                check_relu(types[t], rows, channels, k % 2 == 0);
    }
}

// Lanes with statistics of their own in one launch; without signs of rows that are no whole bytes.
static void check_lanes_with(sr_kernel_request *lane, uint32_t varies, bool without_signs) {
    int args;
    const sr_kernel_argument *arguments = sr_kernel_arguments(lane->kernel, &args);
    for (int i = 0; i < args && without_signs; i++) {
        if (arguments[i].type != SR_ARG_U8)
            continue;
        if (arguments[i].role == SR_ARG_IN)
            return;
        lane->dtype[i] = SR_DTYPE_COUNT;
        varies &= ~(1U << i);
    }
    for (int lanes = 2; lanes <= 3; lanes++) {
        const sr_kernel_entry *entry = check_lanes(lane, lanes, varies);
        (void)arrays_free(NULL);
        if (!entry || !entry->lanes || strcmp(entry->provider, TENSOR) != 0)
            fail_msg("lanes of %s are not served by class tensor", sr_kernel_name(lane->kernel));
    }
}

static void check_lanes_of(sr_dtype type, int64_t rows, int64_t channels) {
    static const struct {
        sr_kernel_id kernel;
        uint32_t varies; // all but gamma and beta; statistics that are given may be shared, too
    } kernels[] = {
        {SR_KERNEL_batchnorm_train, 0x39},          {SR_KERNEL_batchnorm_moments, 0x07},
        {SR_KERNEL_batchnorm_grad, 0xfb},           {SR_KERNEL_batchnorm_sums, 0x3f},
        {SR_KERNEL_batchnorm_infer, 0x21},          {SR_KERNEL_batchnorm_dx, 0x83},
        {SR_KERNEL_batchnorm_infer, 0x39},          {SR_KERNEL_batchnorm_dx, 0xfb},
        {SR_KERNEL_batchnorm_infer_relu, 0xf3},     {SR_KERNEL_batchnorm_train_relu, 0xf3},
        {SR_KERNEL_batchnorm_infer_relu, 0xc3},     {SR_KERNEL_batchnorm_relu_grad, 0x1f3},
        {SR_KERNEL_batchnorm_add_relu_grad, 0x7ef}, {SR_KERNEL_batchnorm_train_pair_relu, 0xfc3}};
    const sr_batchnorm_dx_params params = {rows, channels, eps, rows};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        const sr_kernel_id k = kernels[i].kernel;
        const size_t bytes = k == SR_KERNEL_batchnorm_dx        ? sizeof params
                             : k == SR_KERNEL_batchnorm_moments ? sizeof(sr_rows_params)
                                                                : sizeof(sr_batchnorm_params);
        sr_kernel_request lane;
        sr_kernel_request_init(&lane, sr_device_get_properties(device_of_test())->kind, k, type,
                               &params, bytes);
        check_lanes_with(&lane, kernels[i].varies, channels % 8 != 0);
    }
}

static void test_lanes(void **state) {
    (void)state;
    if (is_skipped())
        return;
    for (int k = 0; k < REMAINDERS; k++)
        check_lanes_of(types[k % TYPES], remainders[k][0], remainders[k][1]);
}

// Other arguments of each lane than those that depend on its samples are refused.
static void test_other_lanes(void **state) {
    const sr_batchnorm_params params = {9, 8, eps};
    sr_kernel_request lane, all;
    (void)state;
    if (is_skipped())
        return;
    sr_kernel_request_init(&lane, sr_device_get_properties(device_of_test())->kind,
                           SR_KERNEL_batchnorm_train, SR_F32, &params, sizeof params);
    assert_true(sr_kernel_join_lanes(&lane, 2, 0x39, &all));
    assert_false(sr_kernel_join_lanes(&lane, 2, 0x3b, &all)); // gamma, too
    assert_false(sr_kernel_join_lanes(&lane, 2, 0x19, &all)); // one variance
    lane.kernel = SR_KERNEL_batchnorm_infer;
    assert_true(sr_kernel_join_lanes(&lane, 2, 0x21, &all));
    assert_true(sr_kernel_join_lanes(&lane, 2, 0x39, &all));  // statistics
    assert_false(sr_kernel_join_lanes(&lane, 2, 0x29, &all)); // the mean alone
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_problems, arrays_free),
        cmocka_unit_test_teardown(test_remainders, arrays_free),
        cmocka_unit_test_teardown(test_difficult_data, arrays_free),
        cmocka_unit_test_teardown(test_many_units, arrays_free),
        cmocka_unit_test_teardown(test_large_tensors, arrays_free),
        cmocka_unit_test_teardown(test_narrow_slabs, arrays_free),
        cmocka_unit_test_teardown(test_infinite_elements, arrays_free),
        cmocka_unit_test_teardown(test_relu, arrays_free),
        cmocka_unit_test_teardown(test_lanes, arrays_free),
        cmocka_unit_test(test_other_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
