// SPDX-License-Identifier: Apache-2.0
// The gradient check: directional derivatives by central differences against the recorded
// gradients.
//
// In f64 with step h = 1e-5 the truncation error is O(h^2) = 1e-10 and the rounding error about
// 1e-16 / h = 1e-11, relative to the function's scale; operators are expected within 1e-6.
#include <math.h>
#include <string.h>

#include "autograd/gradients.h"
#include "graph/recording_internal.h"
#include "kernels/base/rng.h"

enum { MAX_INPUTS = SR_OP_MAX_INPUTS };
static const double step = 1e-5;

typedef struct gradient_check {
    sr_context *context;
    const sr_info *infos;
    const double *const *values;
    int count;
    const bool *differentiable;
    sr_check_fn build;
    void *user;
    double *point[MAX_INPUTS], *direction[MAX_INPUTS], *gradient[MAX_INPUTS];
    double *weights; // of the outputs: the scalar is sum(weights * y)
    double *output;
    int64_t outputs;
} gradient_check;

static sr_tensor record(gradient_check *c, sr_tensor *inputs) {
    sr_context_begin_step(c->context);
    for (int i = 0; i < c->count; i++) {
        // Integer inputs (labels, keys) pass through unchanged.
        const void *data =
            c->infos[i].dtype == SR_F64 ? (const void *)c->point[i] : (const void *)c->values[i];
        inputs[i] = sr_constant(c->context, &c->infos[i], data);
    }
    return c->build(c->context, inputs, c->user);
}

static sr_status evaluate(gradient_check *c, double t, double *sum) {
    sr_tensor inputs[MAX_INPUTS];
    for (int i = 0; i < c->count; i++)
        for (int64_t k = 0; c->differentiable[i] && k < sr_info_count(&c->infos[i]); k++)
            c->point[i][k] = c->values[i][k] + t * c->direction[i][k];
    sr_tensor y = record(c, inputs);
    SR_TRY(sr_read(y, c->output, (size_t)c->outputs * sizeof(double)));
    *sum = 0;
    for (int64_t k = 0; k < c->outputs; k++)
        *sum += c->weights[k] * c->output[k];
    return SR_OK;
}

static sr_status read_gradients(gradient_check *c) {
    sr_tensor inputs[MAX_INPUTS], xs[MAX_INPUTS], grads[MAX_INPUTS];
    int which[MAX_INPUTS], n = 0;
    sr_tensor y = record(c, inputs);
    sr_info info;
    if (!sr_tensor_info(y, &info))
        return sr_context_status(c->context);
    sr_tensor dy = sr_constant(c->context, &info, c->weights);
    for (int i = 0; i < c->count; i++) {
        if (!c->differentiable[i])
            continue;
        which[n] = i;
        xs[n++] = inputs[i];
    }
    sr_gradients(y, dy, xs, n, grads);
    SR_TRY(sr_context_status(c->context));
    for (int i = 0; i < n; i++) {
        size_t bytes = sr_info_bytes(&c->infos[which[i]]);
        SR_TRY(sr_read(grads[i], c->gradient[which[i]], bytes));
    }
    return SR_OK;
}

static sr_status one_direction(gradient_check *c, sr_rng *rng, double *worst) {
    double up, down, exact = 0, scale = 0;
    for (int i = 0; i < c->count; i++) {
        for (int64_t k = 0; c->differentiable[i] && k < sr_info_count(&c->infos[i]); k++) {
            c->direction[i][k] = sr_rng_uniform(rng, -1, 1);
            double term = c->direction[i][k] * c->gradient[i][k];
            exact += term;
            scale += fabs(term);
        }
    }
    SR_TRY(evaluate(c, step, &up));
    SR_TRY(evaluate(c, -step, &down));
    double numeric = (up - down) / (2 * step);
    double error = fabs(numeric - exact) / (scale + fabs(numeric) + 1e-4);
    if (!(error <= *worst)) // also true for NaN
        *worst = error;
    return SR_OK;
}

static sr_status prepare(gradient_check *c, sr_rng *rng) {
    for (int i = 0; i < c->count; i++) {
        size_t n = (size_t)sr_info_count(&c->infos[i]);
        c->point[i] = sr_alloc_array(n, sizeof(double), "gradient check");
        c->direction[i] = sr_alloc_array(n, sizeof(double), "gradient check");
        c->gradient[i] = sr_alloc_array(n, sizeof(double), "gradient check");
        if (!c->point[i] || !c->direction[i] || !c->gradient[i])
            return SR_E_MEMORY;
        if (c->infos[i].dtype == SR_F64)
            memcpy(c->point[i], c->values[i], n * sizeof(double));
    }
    sr_tensor inputs[MAX_INPUTS];
    sr_info info;
    if (!sr_tensor_info(record(c, inputs), &info))
        return sr_context_status(c->context) != SR_OK
                   ? sr_context_status(c->context)
                   : SR_FAIL(SR_E_ARGUMENT, "gradient check: the function returned no tensor");
    if (info.dtype != SR_F64)
        return SR_FAIL(SR_E_ARGUMENT, "gradient check: the result of the function must be f64");
    c->outputs = sr_info_count(&info);
    c->weights = sr_alloc_array((size_t)c->outputs, sizeof(double), "gradient check");
    c->output = sr_alloc_array((size_t)c->outputs, sizeof(double), "gradient check");
    if (!c->weights || !c->output)
        return SR_E_MEMORY;
    for (int64_t k = 0; k < c->outputs; k++)
        c->weights[k] = sr_rng_uniform(rng, -1, 1);
    return SR_OK;
}

sr_status sr_gradient_check(sr_context *context, const sr_info *infos, const double *const *values,
                            int count, const bool *differentiable, sr_check_fn build, void *user,
                            uint64_t seed, int directions, double *worst) {
    if (count < 1 || count > MAX_INPUTS)
        return SR_FAIL(SR_E_ARGUMENT, "gradient check: 1 to %d inputs, not %d", MAX_INPUTS, count);
    gradient_check c = {.context = context,
                        .infos = infos,
                        .values = values,
                        .count = count,
                        .differentiable = differentiable,
                        .build = build,
                        .user = user};
    sr_rng rng;
    sr_rng_init(&rng, seed, 0, 0, 0);
    *worst = 0;
    sr_status status = prepare(&c, &rng);
    if (status == SR_OK)
        status = read_gradients(&c);
    for (int d = 0; status == SR_OK && d < directions; d++)
        status = one_direction(&c, &rng, worst);
    for (int i = 0; i < count; i++) {
        sr_free(c.point[i]);
        sr_free(c.direction[i]);
        sr_free(c.gradient[i]);
    }
    sr_free(c.weights);
    sr_free(c.output);
    return status;
}
