// SPDX-License-Identifier: Apache-2.0
// Whole networks compared with PyTorch (tests/golden/network_golden.py, which also specifies how
// both sides generate weights, inputs and labels): outputs, losses, every gradient, every
// statistic.
//
// 1. In f64, on the CPU's reference kernels, they equal PyTorch's: the root mean square of the
//    differences of 16 random projections is at most 1e-9 of a tensor's norm.
// 2. In fp32 and bf16, on the kernels that training uses, the error is at most twice PyTorch's own
//    in that precision (four times where Winograd's filtering is used, whose error is larger by
//    design), or 8 units of roundoff. The exact values are the f64 network of 1 with the rounded
//    network's sides of ReLUs and positions of maxima (network_choices.h), so the error is that of
//    rounding alone, and a wrong derivative exceeds it by orders of magnitude. In f16, with scaled
//    losses, the error is held to an eighth of bf16's bound, as its roundoff is an eighth.
// 3. Recording these choices, which keeps values that a plan would overwrite or recompute, changes
//    no bit.
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/graph/network_choices.h"
#include "tests/unit/support/device_run.h"
#include "tests/unit/trainer/golden_fill.h"
#include "tests/unit/trainer/network_fixture.h"

enum { PROJECTIONS = GOLDEN_PROJECTIONS, NOISE = 32, MOST = 400 };

// Relative to a norm: the allowed difference in f64; and the fraction of the largest gradient's
// norm that replaces the norm of a gradient that is zero except for rounding (a bias before batch
// norm).
static const double exact_tolerance = 1e-9, least_norm = 1e-4;
static const double factor = 2, winograd_factor = 4, roundoffs = 8;
// Of summed losses in f16: about 1024 for the mean of a batch.
static const double loss_scale = 128;

typedef struct golden_tensor {
    char kind[16], name[128];
    int index;
    double norm, projection[PROJECTIONS];
    double error[2]; // PyTorch's own norm of the error, in fp32 and bf16
} golden_tensor;

typedef struct golden {
    const char *name;
    char model[64], stem[32];
    int64_t side, classes, samples;
    int count;
    golden_tensor tensors[MOST];
    double largest; // norm of a gradient
    network_pass pass;
    uint8_t *images;
    float *noise;
    int32_t *labels;
    double *factors;
} golden;

// ---- The golden file and the inputs that the script generates ----

static void read_tensor(golden *g, FILE *file) {
    golden_tensor *t = &g->tensors[g->count++];
    assert_true(g->count < MOST);
    assert_int_equal(fscanf(file, "%d %127s %lf", &t->index, t->name, &t->norm), 3);
    for (int k = 0; k < PROJECTIONS; k++)
        assert_int_equal(fscanf(file, "%lf", &t->projection[k]), 1);
    assert_int_equal(fscanf(file, "%lf %lf", &t->error[0], &t->error[1]), 2);
    if (strcmp(t->kind, "gradient") == 0 && t->norm > g->largest)
        g->largest = t->norm;
}

static void *memory(size_t count, size_t size) {
    void *made = sr_alloc_array(count, size, "golden inputs");
    assert_non_null(made);
    return made;
}

static void make_pictures(golden *g) {
    static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    g->images = memory((size_t)(g->samples * g->side * g->side * 3), 1);
    g->labels = memory((size_t)g->samples, sizeof *g->labels);
    golden_fill_pictures(0, g->samples, g->side, g->images);
    golden_fill_labels(0, g->samples, g->classes, g->labels);
    g->pass.images = g->images;
    g->pass.mean = mean;
    g->pass.std = std;
    if (g->classes > 1)
        g->pass.labels = g->labels;
}

static void make_noise(golden *g) {
    size_t count = (size_t)g->samples * NOISE, pixels = (size_t)(g->samples * g->side * g->side);
    golden_words noise = {.tensor = GOLDEN_INPUT}, signs = {.tensor = GOLDEN_SEED, .k = 1};
    g->noise = memory(count, sizeof *g->noise);
    g->factors = memory(3 * pixels, sizeof *g->factors);
    for (size_t i = 0; i < count; i++)
        g->noise[i] = (float)golden_unit(&noise);
    for (size_t i = 0; i < 3 * pixels; i++)
        g->factors[i] = golden_sign(golden_word(&signs), GOLDEN_PROJECTIONS - 1);
    g->pass.noise = g->noise;
    g->pass.noise_values = NOISE;
    g->pass.factors = g->factors;
}

static golden *open_golden(const char *name) {
    char path[128];
    golden *g = memory(1, sizeof *g);
    g->name = name;
    (void)snprintf(path, sizeof path, "tests/golden/network_%s.txt", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%63s %31s %" SCNd64 " %" SCNd64 " %" SCNd64 " %lf", g->model,
                            g->stem, &g->classes, &g->side, &g->samples, &g->pass.smoothing),
                     6);
    while (fscanf(file, "%15s", g->tensors[g->count].kind) == 1)
        read_tensor(g, file);
    (void)fclose(file);
    g->pass.samples = g->samples;
    g->pass.side = g->side;
    if (g->classes > 0)
        make_pictures(g);
    else
        make_noise(g);
    return g;
}

static void close_golden(golden *g) {
    sr_free(g->images);
    sr_free(g->noise);
    sr_free(g->labels);
    sr_free(g->factors);
    sr_free(g);
}

static void fill(network *net) {
    for (int i = 0; i < net->model->param_count; i++)
        golden_fill_param(net->model, i, net->values[i]);
}

// ---- Runs ----

static network *create(const golden *g, sr_dtype dtype) {
    network *net;
    network_options options = {
        .model = g->model, .classes = g->classes, .device = device_for(dtype), .dtype = dtype};
    const char *const stem[] = {"stem", g->stem, NULL};
    if (strcmp(g->stem, "-") != 0)
        options.set = stem;
    if (network_create(&options, &net) != SR_OK)
        fail_msg("%s", sr_error_message());
    fill(net);
    return net;
}

static network *run(const golden *g, sr_dtype dtype, choices *given, sr_text *plan) {
    network *net = create(g, dtype);
    network_pass pass = g->pass;
    pass.plan = plan;
    if (given)
        choices_give(given, net->context);
    if (network_run(net, &pass) != SR_OK)
        fail_msg("%s: %s", g->name, sr_error_message());
    return net;
}

static network *run_noting(const golden *g, sr_dtype dtype, choices *noted, sr_text *plan) {
    choices_note(noted);
    network *net = run(g, dtype, NULL, plan);
    choices_end();
    return net;
}

static network *run_given(const golden *g, choices *given) {
    network *net = run(g, SR_F64, given, NULL);
    assert_true(choices_all_given(given));
    choices_end();
    return net;
}

static const double *values_of(const network *net, const golden_tensor *t, int64_t *count) {
    if (t->index == GOLDEN_OUTPUT || t->index == GOLDEN_LOSS) {
        *count =
            t->index == GOLDEN_OUTPUT ? sr_info_count(&net->output_info) : net->output_info.dim[0];
        return t->index == GOLDEN_OUTPUT ? net->output : net->loss;
    }
    assert_true(t->index < net->model->param_count);
    assert_string_equal(t->name, net->model->params[t->index].name);
    *count = network_count(net, t->index);
    return net->results[t->index];
}

// ---- Comparisons ----

// The larger one; NaN if either is NaN.
static double larger(double a, double b) {
    return a >= b ? a : b;
}

static void check_exact(const golden *g, const network *net) {
    double worst = 0;
    for (int i = 0; i < g->count; i++) {
        const golden_tensor *t = &g->tensors[i];
        int64_t count;
        const double *values = values_of(net, t, &count);
        double scale = larger(t->norm, least_norm * g->largest), projection[PROJECTIONS];
        golden_project(values, count, t->index, PROJECTIONS, projection);
        double error = golden_norm(projection, t->projection, PROJECTIONS);
        error /= sqrt(PROJECTIONS) * scale;
        error = larger(fabs(golden_norm(values, NULL, count) - t->norm) / scale, error);
        if (!(error <= exact_tolerance))
            print_error("%s f64: %s of %s: error %.2e\n", g->name, t->kind, t->name, error);
        worst = larger(error, worst);
    }
    assert_true(worst <= exact_tolerance);
}

static void check_equal(const golden *g, const network *a, const network *b) {
    for (int i = 0; i < g->count; i++) {
        int64_t count;
        const double *left = values_of(a, &g->tensors[i], &count);
        const double *right = values_of(b, &g->tensors[i], &count);
        if (memcmp(left, right, (size_t)count * sizeof *left) != 0)
            fail_msg("%s: %s depends on which values are kept", g->name, g->tensors[i].name);
    }
}

static void check_rounded(const golden *g, const network *net, const network *truth, double most) {
    const bool half = net->dtype != SR_F32;
    const double share = net->dtype == SR_F16 ? 0x1p-3 : 1; // of the error in bf16
    const double roundoff = net->dtype == SR_F32 ? 0x1p-24 : share * 0x1p-8;
    double worst = 0;
    for (int i = 0; i < g->count; i++) {
        const golden_tensor *t = &g->tensors[i];
        int64_t count;
        const double *exact = values_of(truth, t, &count), *values = values_of(net, t, &count);
        double size = golden_norm(exact, NULL, count), error = golden_norm(values, exact, count);
        double bound = larger(most * share * t->error[half], roundoffs * roundoff * size);
        if (!(error <= bound))
            print_error("%s %s: %s of %s: error %.2e, bound %.2e, norm %.2e\n", g->name,
                        sr_dtype_name(net->dtype), t->kind, t->name, error, bound, size);
        worst = larger(error / bound, worst);
    }
    print_message("%s %s: errors are at most %.2f of their bounds (%g times PyTorch's)\n", g->name,
                  sr_dtype_name(net->dtype), worst, most);
    assert_true(worst <= 1);
}

static void check_precision(const golden *g, sr_dtype dtype) {
    choices *chosen = choices_create();
    sr_text plan;
    assert_non_null(chosen);
    sr_text_init(&plan);
    network *net = run(g, dtype, NULL, NULL), *noted = run_noting(g, dtype, chosen, &plan);
    network *truth = run_given(g, chosen);
    const bool winograd = strstr(plan.data, "winograd") != NULL;
    check_equal(g, net, noted);
    check_rounded(g, net, truth, winograd ? winograd_factor : factor);
    network_free(net);
    network_free(noted);
    network_free(truth);
    choices_free(chosen);
    sr_text_release(&plan);
}

static void check(const char *name) {
    golden *g = open_golden(name);
    network *net = run(g, SR_F64, NULL, NULL);
    check_exact(g, net);
    network_free(net);
    check_precision(g, SR_F32);
    check_precision(g, SR_BF16);
    g->pass.scale = loss_scale;
    check_precision(g, SR_F16);
    close_golden(g);
}

// Devices with kernels of their own may be the software GPU, where these take minutes.
static bool all;
static void check_large(const char *name) {
    if (all || !device_of_test())
        check(name);
}

#define NETWORK(function, check, name)                                                             \
    static void function(void **state) {                                                           \
        (void)state;                                                                               \
        check(name);                                                                               \
    }
NETWORK(test_tiny, check, "tiny")
NETWORK(test_toy_generator, check, "toy-generator")
NETWORK(test_toy_critic, check, "toy-critic")
NETWORK(test_cifar_fast, check, "cifar-fast")
NETWORK(test_resnet18, check_large, "resnet18")
NETWORK(test_resnet18_cifar, check_large, "resnet18-cifar")
NETWORK(test_resnet50, check_large, "resnet50")

int main(int argc, char **argv) {
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    if (argc > 1 && !all)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny),       cmocka_unit_test(test_toy_generator),
        cmocka_unit_test(test_toy_critic), cmocka_unit_test(test_cifar_fast),
        cmocka_unit_test(test_resnet18),   cmocka_unit_test(test_resnet18_cifar),
        cmocka_unit_test(test_resnet50),
    };
    return cmocka_run_group_tests_name("network_golden", tests, NULL, NULL);
}
