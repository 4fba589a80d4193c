// SPDX-License-Identifier: Apache-2.0
// Operators over a group of lanes. One lane: batchnorm_group is batchnorm_train. Several lanes,
// here one after the other with the statistics and sums of all of them computed by the test: y and
// gradients are those of batchnorm_train on the rows of all lanes.
#include <math.h>

#include "autograd/gradients.h"
#include "graph/op.h"
#include "graph/recording_internal.h"
#include "tests/unit/graph/tensor_values.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/device_run.h"
#include "tests/unit/support/test_support.h"

enum { LANES = 3, ROWS = 40, CHANNELS = 5, COUNT = LANES * ROWS * CHANNELS };
static const double eps = 1e-3;

// On the device of the tests, or where that has no f64, on the CPU.
static sr_context *context_new(sr_dtype type) {
    sr_context *context;
    const sr_context_options options = {.device = device_for(type), .threads = 1};
    assert_ok(sr_context_create(&options, &context));
    sr_context_begin_step(context);
    return context;
}

static sr_tensor rows_of(sr_context *context, const test_array *a, int64_t first, int64_t rows) {
    const size_t size = sr_dtype_size(a->dtype);
    const sr_info info = {.dtype = a->dtype, .rank = 2, .dim = {rows, CHANNELS}};
    return sr_constant(context, &info, (char *)a->data + (size_t)(first * CHANNELS) * size);
}

static sr_tensor vector_of(sr_context *context, const test_array *a) {
    const sr_info info = {.dtype = a->dtype, .rank = 1, .dim = {CHANNELS}};
    return sr_constant(context, &info, a->data);
}

static void expect_near(const char *what, const test_array *got, const test_array *want,
                        int64_t first, double tolerance) {
    for (int64_t i = 0; i < got->count; i++) {
        const double wanted = array_get(want, first + i);
        if (!(fabs(array_get(got, i) - wanted) <= tolerance * (1 + fabs(wanted))))
            fail_msg("%s in %s [%lld]: %.17g, not %.17g", what, sr_dtype_name(got->dtype),
                     (long long)i, array_get(got, i), wanted);
    }
}

// What is normalised, and the results: y, mean, var, then the gradients of x, gamma and beta.
typedef struct norm_data {
    test_array *x, *dy, *gamma, *beta;
} norm_data;
enum { RESULTS = 6 };
static const char *const names[RESULTS] = {"y", "mean", "var", "dx", "dgamma", "dbeta"};

static norm_data data_of(sr_dtype type) {
    const sr_dtype wide = parameter_type(type);
    return (norm_data){array_random(type, COUNT, 1, -1, 3), array_random(type, COUNT, 2, -1, 1),
                       array_random(wide, CHANNELS, 3, 0.5, 1.5),
                       array_random(wide, CHANNELS, 4, -1, 1)};
}

static void read_results(sr_batchnorm_out out, const sr_tensor *in, sr_tensor dy,
                         test_array **results) {
    sr_tensor grad[3] = {SR_NONE, SR_NONE, SR_NONE};
    sr_gradients(out.y, dy, in, 3, grad);
    const sr_tensor all[RESULTS] = {out.y, out.mean, out.var, grad[0], grad[1], grad[2]};
    for (int i = 0; i < RESULTS; i++)
        results[i] = read_value(all[i]);
}

static void run(const norm_data *d, bool group, test_array **results) {
    sr_context *context = context_new(d->x->dtype);
    const sr_tensor in[3] = {rows_of(context, d->x, 0, LANES * ROWS), vector_of(context, d->gamma),
                             vector_of(context, d->beta)};
    const sr_batchnorm_out out = group ? sr_batchnorm_group(in[0], in[1], in[2], eps, 1)
                                       : sr_batchnorm_train(in[0], in[1], in[2], eps);
    read_results(out, in, rows_of(context, d->dy, 0, LANES * ROWS), results);
    sr_context_free(context);
}

// Of one lane: statistics and sums have the bits of batchnorm_train, and so has dx; y is that of
// given statistics, whose factors may be rounded otherwise.
static void test_one_lane(void **state) {
    for (int t = 0; t < 4; t++) {
        const norm_data d = data_of(fixture_types[t]);
        test_array *want[RESULTS], *got[RESULTS];
        run(&d, false, want);
        run(&d, true, got);
        expect_near("y", got[0], want[0], 0, 4 * unit_roundoff(fixture_types[t]));
        for (int i = 1; i < RESULTS; i++)
            if (memcmp(want[i]->data, got[i]->data,
                       (size_t)got[i]->count * sr_dtype_size(got[i]->dtype)) != 0)
                fail_msg("%s in %s has other bits", names[i], sr_dtype_name(fixture_types[t]));
        arrays_free(state);
    }
}

typedef struct group_attr {
    double eps;
    int64_t lanes;
} group_attr;

// One lane's part, with the statistics and sums of all: y, dgamma, dbeta and dx.
static void run_lane(const norm_data *d, int lane, test_array *const *all, test_array **got) {
    const group_attr attr = {eps, LANES};
    sr_context *context = context_new(SR_F64);
    const int64_t first = (int64_t)lane * ROWS;
    const sr_tensor x = rows_of(context, d->x, first, ROWS),
                    dy = rows_of(context, d->dy, first, ROWS), gamma = vector_of(context, d->gamma),
                    beta = vector_of(context, d->beta), mean = vector_of(context, all[1]),
                    var = vector_of(context, all[2]);
    const sr_tensor y = sr_op_record_one(sr_op_find("batchnorm_group"), &attr,
                                         (sr_tensor[]){x, gamma, beta, mean, var});
    sr_tensor own[2] = {SR_NONE, SR_NONE};
    sr_gradients(y, dy, (sr_tensor[]){gamma, beta}, 2, own);
    const sr_tensor dx =
        sr_op_record_one(sr_op_find("batchnorm_dx"), &attr,
                         (sr_tensor[]){x, dy, gamma, mean, var, vector_of(context, all[4]),
                                       vector_of(context, all[5])});
    got[0] = read_value(y);
    got[1] = read_value(own[0]);
    got[2] = read_value(own[1]);
    got[3] = read_value(dx);
    sr_context_free(context);
}

static void test_lanes_make_the_whole(void **state) {
    (void)state;
    const norm_data d = data_of(SR_F64);
    test_array *all[RESULTS], *got[4];
    test_array *sum[2] = {array_new(SR_F64, CHANNELS), array_new(SR_F64, CHANNELS)};
    run(&d, false, all);
    for (int lane = 0; lane < LANES; lane++) {
        const int64_t first = (int64_t)lane * ROWS * CHANNELS;
        run_lane(&d, lane, all, got);
        expect_near("y of a lane", got[0], all[0], first, 1e-12);
        expect_near("dx of a lane", got[3], all[3], first, 1e-12);
        for (int i = 0; i < 2; i++)
            for (int64_t c = 0; c < CHANNELS; c++)
                array_set(sum[i], c, array_get(sum[i], c) + array_get(got[1 + i], c));
    }
    expect_near("dgamma", sum[0], all[4], 0, 1e-12);
    expect_near("dbeta", sum[1], all[5], 0, 1e-12);
}

static int recorded(sr_context *context, const char *name) {
    int count = 0;
    for (size_t n = 0; n < context->recording.node_count; n++)
        count += strcmp(context->recording.nodes[n].op->name, name) == 0;
    return count;
}

// dgamma and dbeta are summed one directly after the other; one lane has nothing to sum.
static void test_sums_are_neighbours(void **state) {
    (void)state;
    const norm_data d = data_of(SR_F32);
    for (int64_t lanes = 1; lanes <= 2; lanes++) {
        sr_context *context = context_new(SR_F32);
        const sr_tensor x = rows_of(context, d.x, 0, ROWS), gamma = vector_of(context, d.gamma);
        sr_tensor dx = SR_NONE;
        const sr_batchnorm_out out = sr_batchnorm_group(x, gamma, SR_NONE, eps, lanes);
        sr_gradients(out.y, rows_of(context, d.dy, 0, ROWS), &x, 1, &dx);
        assert_false(sr_is_none(dx));
        assert_int_equal(lanes == 1 ? 0 : 2, recorded(context, "lane_sum"));
        for (size_t n = 0; n + 1 < context->recording.node_count; n++)
            if (strcmp(context->recording.nodes[n].op->name, "batchnorm_sums") == 0 && lanes > 1)
                for (size_t k = 1; k <= 2; k++)
                    assert_string_equal("lane_sum", context->recording.nodes[n + k].op->name);
        sr_context_free(context);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_one_lane, arrays_free),
        cmocka_unit_test_teardown(test_lanes_make_the_whole, arrays_free),
        cmocka_unit_test_teardown(test_sums_are_neighbours, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
