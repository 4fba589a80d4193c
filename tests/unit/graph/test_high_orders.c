// SPDX-License-Identifier: Apache-2.0
// Derivatives of higher order: sums, differences and products have them to any order, with the
// values of calculus; the operators whose second derivatives users rely on have rules for them.
// That second derivatives are right is checked for every operator in test_ops.c.
#include "tests/unit/support/test_support.h"

#include "autograd/gradients.h"
#include "graph/context.h"
#include "graph/op.h"
#include "graph/ops.h"

enum { COUNT = 4, ORDERS = 7 };
static const double points[COUNT] = {-2, -0.5, 1, 3};

static sr_context *context_new(void) {
    sr_context *context;
    assert_ok(sr_context_create(&(sr_context_options){.device = "cpu", .threads = 1}, &context));
    sr_context_begin_step(context);
    return context;
}

static sr_tensor variable_points(sr_context *context) {
    const sr_info info = {.dtype = SR_F64, .rank = 1, .dim = {COUNT}};
    return sr_constant(context, &info, points);
}

// Coefficients c of a polynomial: the sum of c[i] x^i.
static double polynomial(const double *c, int degree, double x) {
    double sum = 0;
    for (int i = degree; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

static void differentiate(double *c, int degree) {
    for (int i = 0; i < degree; i++)
        c[i] = (i + 1) * c[i + 1];
    c[degree] = 0;
}

// All numbers are multiples of 2^-6 far below 2^53, so that every operation is exact.
static void test_polynomials(void **state) {
    (void)state;
    enum { DEGREE = 6 };
    double c[DEGREE + 1] = {0, 0, -1, 3, 0, 0, 1}; // x^6 + 3 x^3 - x^2
    sr_context *context = context_new();
    const sr_tensor x = variable_points(context);
    const sr_tensor square = sr_mul(x, x), cube = sr_mul(square, x);
    sr_tensor y = sr_sub(sr_add(sr_mul(cube, cube), sr_add(cube, sr_add(cube, cube))), square);
    for (int order = 0; order <= ORDERS; order++) {
        double got[COUNT];
        assert_ok(sr_read(y, got, sizeof got));
        for (int i = 0; i < COUNT; i++)
            if (got[i] != polynomial(c, DEGREE, points[i]))
                fail_msg("derivative %d at %g: %.17g, not %.17g", order, points[i], got[i],
                         polynomial(c, DEGREE, points[i]));
        sr_gradients(y, SR_NONE, &x, 1, &y);
        differentiate(c, DEGREE);
    }
    assert_ok(sr_context_status(context));
    sr_context_free(context);
}

// The gradient of a product with respect to both factors, again and again: d^4 (a^2 b^2) / da^2
// db^2.
static void test_mixed(void **state) {
    (void)state;
    sr_context *context = context_new();
    const sr_tensor a = variable_points(context), b = variable_points(context);
    const sr_tensor order[4] = {a, b, b, a};
    sr_tensor y = sr_mul(sr_mul(a, b), sr_mul(b, a));
    for (int i = 0; i < 4; i++)
        sr_gradients(y, SR_NONE, &order[i], 1, &y);
    double got[COUNT];
    assert_ok(sr_read(y, got, sizeof got));
    for (int i = 0; i < COUNT; i++)
        assert_true(got[i] == 4);
    sr_context_free(context);
}

static void test_promised_second_derivatives(void **state) {
    (void)state;
    static const char *const names[] = {
        "div",        "sin", "cos",  "tanh",    "relu",    "log",   "square", "sqrt",
        "reciprocal", "abs", "clip", "dropout", "sigmoid", "rsqrt", "linear", "conv2d"};
    size_t count;
    const sr_op *const *ops = sr_ops(&count);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const sr_op *op = NULL;
        for (size_t k = 0; k < count; k++)
            if (strcmp(ops[k]->name, names[i]) == 0)
                op = ops[k];
        if (!op || !op->derivative || op->once)
            fail_msg("%s has no second derivative", names[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_polynomials),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_promised_second_derivatives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
