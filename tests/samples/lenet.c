// SPDX-License-Identifier: Apache-2.0
// LeNet-5 (LeCun et al. 1998, with ReLU and maximum pooling), using only the imperative interface:
// variables, operators, gradients, updates, read. It learns which quarter of a picture is bright,
// and exits with 1 if it does not.
#include <serried.h>
#include <stdio.h>

enum { N = 32, SIDE = 32, CLASSES = 4, STEPS = 30, WEIGHTS = 5, VARIABLES = 2 * WEIGHTS };

typedef struct net {
    sr_tensor p[VARIABLES], momentum[VARIABLES]; // weight and bias of c1, c2, f3, f4, f5
} net;

static void make(sr_context *c, net *n, sr_rng *rng) {
    static const int64_t shapes[WEIGHTS][4] = {
        {6, 1, 5, 5}, {16, 6, 5, 5}, {120, 400}, {84, 120}, {CLASSES, 84}};
    static float values[120 * 400];
    for (int i = 0; i < VARIABLES; i++) {
        const int64_t *d = shapes[i / 2];
        bool weight = i % 2 == 0;
        sr_info info = {.dtype = SR_F32, .rank = weight ? d[2] ? 4 : 2 : 1};
        for (int k = 0; k < info.rank; k++)
            info.dim[k] = d[k];
        int64_t count = sr_info_count(&info);
        double scale = weight ? sr_pow(2.0 / (double)(count / d[0]), 0.5) : 0; // He et al. 2015
        for (int64_t k = 0; k < count; k++)
            values[k] = (float)(sr_rng_normal(rng) * scale);
        n->p[i] = sr_variable(c, "parameter", &info, values);
        n->momentum[i] = sr_variable(c, "momentum", &info, NULL);
    }
}

static sr_tensor forward(const net *n, sr_tensor x) {
    const sr_pool2d_opts half = {.window = 2};
    const sr_conv2d_opts plain = {0};
    x = sr_maxpool2d(sr_relu(sr_conv2d_bias(x, n->p[0], n->p[1], plain)), half);
    x = sr_maxpool2d(sr_relu(sr_conv2d_bias(x, n->p[2], n->p[3], plain)), half);
    x = sr_relu(sr_linear(sr_flatten(x), n->p[4], n->p[5]));
    x = sr_relu(sr_linear(x, n->p[6], n->p[7]));
    return sr_linear(x, n->p[8], n->p[9]);
}

static void draw(sr_rng *rng, float *x, int32_t *labels) {
    for (int i = 0; i < N; i++) {
        labels[i] = (int32_t)sr_rng_below(rng, CLASSES);
        for (int k = 0; k < SIDE * SIDE; k++) {
            int quarter = (k / SIDE >= SIDE / 2) * 2 + (k % SIDE >= SIDE / 2);
            *x++ = (float)(sr_rng_normal(rng) * 0.5 + (quarter == labels[i] ? 1 : 0));
        }
    }
}

static sr_status step(sr_context *c, const net *n, sr_rng *rng, float *loss) {
    static float x[N * SIDE * SIDE];
    int32_t labels[N];
    const float hyper[8] = {0.05f, 0.9f, 0, 0, 1.0f / N, 0, 0, 0}; // rate, momentum, ..., scale
    const sr_info image = {.dtype = SR_F32, .rank = 4, .dim = {N, SIDE, SIDE, 1}};
    const sr_info label = {.dtype = SR_I32, .rank = 1, .dim = {N}};
    const sr_info eight = {.dtype = SR_F32, .rank = 1, .dim = {8}};
    sr_tensor grads[VARIABLES];
    draw(rng, x, labels);
    sr_context_begin_step(c);
    sr_tensor logits = forward(n, sr_constant(c, &image, x));
    sr_tensor l = sr_softmax_cross_entropy(logits, sr_constant(c, &label, labels), 0);
    sr_gradients(l, SR_NONE, n->p, VARIABLES, grads);
    sr_read_later(sr_scale(sr_reduce_sum(l), 1.0 / N, 0), loss, sizeof *loss);
    for (int i = 0; i < VARIABLES; i++)
        sr_sgd_update(n->p[i], n->momentum[i], grads[i], sr_constant(c, &eight, hyper));
    return sr_context_run(c);
}

int main(void) {
    sr_context *c;
    sr_rng rng;
    net n;
    float loss = 0, first = 0;
    sr_status status = sr_context_create(NULL, &c);
    if (status == SR_OK) {
        sr_rng_init(&rng, 1, 0, 0, 0);
        make(c, &n, &rng);
    }
    for (int i = 0; i < STEPS && status == SR_OK; i++) {
        status = step(c, &n, &rng, &loss);
        first = i == 0 ? loss : first;
    }
    if (status != SR_OK)
        SR_ERROR("%s", sr_error_message());
    else
        sr_context_free(c);
    printf("loss %.4f, then %.4f\n", (double)first, (double)loss);
    return status == SR_OK && loss < first / 4 ? 0 : 1;
}
