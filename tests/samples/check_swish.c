// SPDX-License-Identifier: Apache-2.0
// The library's gradient check, applied to one's own operator, first and second derivative; built
// together with op_swish.c.
#include <serried.h>
#include <stdio.h>

sr_tensor swish(sr_tensor x);

static sr_tensor once(sr_context *context, const sr_tensor *inputs, void *user) {
    (void)context, (void)user;
    return swish(inputs[0]);
}

static sr_tensor gradient(sr_context *context, const sr_tensor *inputs, void *user) {
    sr_tensor g;
    (void)context, (void)user;
    sr_gradients(swish(inputs[0]), SR_NONE, inputs, 1, &g);
    return g;
}

int main(void) {
    enum { COUNT = 60 };
    static const bool differentiable[] = {true};
    const sr_check_fn functions[] = {once, gradient};
    const sr_info info = {.dtype = SR_F64, .rank = 2, .dim = {6, 10}};
    double x[COUNT];
    const double *values[] = {x};
    for (int i = 0; i < COUNT; i++)
        x[i] = (i - COUNT / 2) * 0.15;
    sr_context *context;
    sr_status status = sr_context_create(NULL, &context);
    for (int i = 0; i < 2 && status == SR_OK; i++) {
        double worst;
        status = sr_gradient_check(context, &info, values, 1, differentiable, functions[i], NULL, 1,
                                   4, &worst);
        if (status == SR_OK)
            printf("derivative %d: largest relative error %.1e\n", i + 1, worst);
        if (status == SR_OK && !(worst < 1e-6))
            status = SR_FAIL(SR_E_NUMERICS, "the derivative is wrong");
    }
    if (status != SR_OK)
        SR_ERROR("%s", sr_error_message());
    return sr_status_exit_code(status);
}
