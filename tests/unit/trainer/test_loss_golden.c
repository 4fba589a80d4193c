// SPDX-License-Identifier: Apache-2.0
// Twenty steps of training compared with PyTorch (tests/golden/loss_golden.py): the engine with its
// lanes, gradients, exchange and optimiser, on equal weights and pictures.
//
// Losses in fp32 are within 1e-4 of PyTorch's float64 ones. In bf16 a network diverges after a few
// steps, so the root mean square over the steps may be at most twice PyTorch's own in bfloat16.
#include "tests/unit/support/test_support.h"

#include <inttypes.h>
#include <math.h>

#include "tests/unit/trainer/golden_fill.h"
#include "tests/unit/trainer/golden_train.h"

enum { STEPS = 20, SEED = 3 };

static const double fp32_tolerance = 1e-4, bf16_factor = 2;

typedef struct golden {
    const char *name;
    char model[64], stem[32];
    int64_t classes, side, batch;
    int lanes, nesterov;
    double lr, momentum, decay, smoothing;
    double own[2]; // PyTorch's distances in float32 and bfloat16
    double loss[STEPS];
} golden;

static golden read_golden(const char *name) {
    golden g = {.name = name};
    char path[128];
    (void)snprintf(path, sizeof path, "tests/golden/loss_%s.txt", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file,
                            "%63s %31s %" SCNd64 " %" SCNd64 " %" SCNd64 " %d %lf %lf %d %lf %lf",
                            g.model, g.stem, &g.classes, &g.side, &g.batch, &g.lanes, &g.lr,
                            &g.momentum, &g.nesterov, &g.decay, &g.smoothing),
                     11);
    assert_int_equal(fscanf(file, "%lf %lf", &g.own[0], &g.own[1]), 2);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(fscanf(file, "%lf", &g.loss[i]), 1);
    (void)fclose(file);
    return g;
}

static void fill(const void *user, const sr_model *model, int i, float *out) {
    (void)user;
    golden_fill_param(model, i, out);
}

static void train(const golden *g, const char *precision, double *worst, double *rms) {
    char model[160], optimizer[256], loss[128];
    const bool stem = strcmp(g->stem, "-") != 0;
    (void)snprintf(model, sizeof model, "{name: %s%s%s}", g->model, stem ? ", stem: " : "",
                   stem ? g->stem : "");
    (void)snprintf(optimizer, sizeof optimizer,
                   "{name: sgd, lr: %g, momentum: %g, nesterov: %s, weight_decay: %g, "
                   "groups: [{match: [bias, norm], decay_scale: 0}]}",
                   g->lr, g->momentum, g->nesterov ? "true" : "false", g->decay);
    (void)snprintf(loss, sizeof loss, "{name: cross-entropy, label_smoothing: %g}", g->smoothing);
    const golden_training training = {.model = model,
                                      .optimizer = optimizer,
                                      .loss = loss,
                                      .precision = precision,
                                      .classes = g->classes,
                                      .side = g->side,
                                      .batch = g->batch,
                                      .lanes = g->lanes,
                                      .seed = SEED,
                                      .lr = g->lr,
                                      .falling = true,
                                      .fill = fill};
    double squares = 0, losses[STEPS];
    golden_train(&training, STEPS, losses);
    *worst = 0;
    for (int i = 0; i < STEPS; i++) {
        double distance = fabs(losses[i] - g->loss[i]);
        *worst = distance <= *worst ? *worst : distance; // NaN is kept
        squares += distance * distance;
    }
    *rms = sqrt(squares / STEPS);
}

static void check(const char *name) {
    const golden g = read_golden(name);
    double worst, rms;
    train(&g, "fp32", &worst, &rms);
    print_message("%s fp32: losses differ by at most %.1e (PyTorch's by %.1e)\n", name, worst,
                  g.own[0]);
    assert_true(worst <= fp32_tolerance);
    train(&g, "bf16", &worst, &rms);
    print_message("%s bf16: losses differ by %.1e (PyTorch's by %.1e)\n", name, rms, g.own[1]);
    assert_true(rms <= bf16_factor * g.own[1]);
}

#define LOSSES(function, name)                                                                     \
    static void function(void **state) {                                                           \
        (void)state;                                                                               \
        check(name);                                                                               \
    }
LOSSES(test_tiny, "tiny")
LOSSES(test_nesterov, "nesterov")

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_nesterov),
    };
    return cmocka_run_group_tests_name("loss_golden", tests, NULL, NULL);
}
