// SPDX-License-Identifier: Apache-2.0
// Whole networks against what PyTorch computed for them in float64: logits, and norm and random
// projections of every gradient (tests/golden/network_golden.py, which also says how weights,
// pictures and labels are filled here and there).
//
// Tolerances. Rounding grows with depth, and batch norm over few values amplifies it, so the
// yardstick is the distance D of PyTorch's own float32 logits from its float64 ones, which the file
// tells: the worst of three orders of summation that are as good as ours (they differ by a factor
// of 2.5 among themselves), and ours are within delta = 2 D. A gradient is not continuous: where
// the input of a ReLU (or two candidates of a maximum) lies within delta of zero, fp32 may take the
// other side. The share of such elements is at most delta (density 0.4 on either side of zero), and
// each changes the gradient by its own size, so that the relative distance of gradients is
// sqrt(delta) for each layer, sqrt(layers delta) for independent ones. A projection with random
// signs of a difference of norm n is a random number of standard deviation n: 5 of them.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/base/rng.h"
#include "tests/unit/network_fixture.h"

enum { PICTURES = 1 << 20, LABELS = PICTURES + 1, PROJECTIONS = 2 };

static const double deviations = 5, factor = 2, flips = 3;

typedef struct golden {
    network *net;
    FILE *file;
    char name[64];
    int side, classes, samples;
    double logits_tolerance, gradient_tolerance;
    int gradients;
} golden;

// The words w(t, 0, k), w(t, 1, k), ... of the script, one after the other.
typedef struct words {
    uint32_t tensor, k;
    int64_t next;
    sr_rng4 block;
} words;

static uint32_t next_word(words *w) {
    if (w->next % 4 == 0)
        w->block = sr_philox(1, (uint32_t)(w->next / 4), w->tensor, w->k, 0);
    return w->block.v[w->next++ % 4];
}

static void fill(network *net) {
    for (int t = 0; t < net->model->param_count; t++) {
        const sr_param *p = &net->model->params[t];
        int64_t count = network_count(net, t);
        size_t length = strlen(p->name);
        bool scales = length >= 6 && strcmp(p->name + length - 6, "weight") == 0;
        words w = {.tensor = (uint32_t)t};
        double limit = p->info.rank > 1 ? sqrt(6.0 / (double)(count / p->info.dim[0])) : 0;
        for (int64_t i = 0; i < count; i++) {
            double u = (double)(next_word(&w) >> 8) * 2 / 16777216 - 1;
            double value = p->info.rank > 1 ? u * limit : scales ? 1 + u / 5 : u / 5;
            net->values[t][i] = (float)value;
        }
    }
}

static sr_status run(golden *g) {
    static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    int64_t count = (int64_t)g->samples * g->side * g->side * 3;
    uint8_t *images = sr_alloc((size_t)count, "pictures");
    int32_t *labels = sr_alloc_array((size_t)g->samples, sizeof *labels, "labels");
    assert_true(images && labels);
    words pictures = {.tensor = PICTURES}, classes = {.tensor = LABELS};
    for (int64_t i = 0; i < count; i++)
        images[i] = (uint8_t)(next_word(&pictures) >> 24);
    for (int64_t i = 0; i < g->samples; i++)
        labels[i] = (int32_t)(next_word(&classes) % (uint32_t)g->classes);
    sr_status status = network_run(g->net, g->samples, g->side, images, labels, mean, std);
    sr_free(images);
    sr_free(labels);
    return status;
}

// Layers are what adds rounding: convolutions and linear maps.
static int count_layers(const network *net) {
    int layers = 0;
    for (int i = 0; i < net->model->param_count; i++)
        layers += net->model->params[i].info.rank > 1;
    return layers;
}

static void check_logits(golden *g, int sample) {
    double size = 0, distance = 0;
    for (int c = 0; c < g->classes; c++) {
        double want, got = (double)g->net->logits[sample * g->classes + c];
        assert_int_equal(fscanf(g->file, "%lf", &want), 1);
        size += want * want;
        distance += (got - want) * (got - want);
    }
    double relative = sqrt(distance / size);
    if (!(relative <= g->logits_tolerance))
        print_error("%s: logits of sample %d: distance %.2e, tolerance %.2e\n", g->name, sample,
                    relative, g->logits_tolerance);
    assert_true(relative <= g->logits_tolerance);
}

static double project(const float *values, int64_t count, uint32_t tensor, uint32_t k) {
    words w = {.tensor = tensor, .k = k};
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += next_word(&w) >> 31 ? -(double)values[i] : (double)values[i];
    return sum;
}

static void check_gradient(golden *g) {
    char name[128];
    int t;
    double norm, got = 0, worst;
    assert_int_equal(fscanf(g->file, "%d %127s %lf", &t, name, &norm), 3);
    assert_true(t < g->net->model->param_count);
    assert_string_equal(name, g->net->model->params[t].name);
    const float *values = g->net->results[t];
    int64_t count = network_count(g->net, t);
    for (int64_t i = 0; i < count; i++)
        got += (double)values[i] * (double)values[i];
    worst = fabs(sqrt(got) - norm) / norm;
    for (uint32_t k = 1; k <= PROJECTIONS; k++) {
        double want;
        assert_int_equal(fscanf(g->file, "%lf", &want), 1);
        double distance = fabs(project(values, count, (uint32_t)t, k) - want) / (deviations * norm);
        worst = distance > worst ? distance : worst;
    }
    if (!(worst <= g->gradient_tolerance))
        print_error("%s: gradient of %s: distance %.2e, tolerance %.2e\n", g->name, name, worst,
                    g->gradient_tolerance);
    assert_true(worst <= g->gradient_tolerance);
    g->gradients++;
}

static int trained(const network *net) {
    int count = 0;
    for (int i = 0; i < net->model->param_count; i++)
        count += net->model->params[i].kind < SR_PARAM_BUFFER;
    return count;
}

static void open_golden(golden *g, const char *path) {
    double distance;
    *g = (golden){.file = fopen(path, "r")};
    assert_non_null(g->file);
    assert_int_equal(fscanf(g->file, "%63s %d %d %d", g->name, &g->side, &g->classes, &g->samples),
                     4);
    assert_int_equal(fscanf(g->file, " float32 %lf", &distance), 1);
    assert_int_equal(network_create(g->name, g->classes, &g->net), SR_OK);
    g->logits_tolerance = factor * distance;
    g->gradient_tolerance = flips * sqrt(count_layers(g->net) * g->logits_tolerance);
}

static void check(const char *path) {
    golden g;
    char line[16];
    int samples = 0;
    open_golden(&g, path);
    fill(g.net);
    if (run(&g) != SR_OK)
        fail_msg("%s", sr_error_message());
    while (fscanf(g.file, "%15s", line) == 1) {
        if (strcmp(line, "logits") == 0)
            check_logits(&g, samples++);
        else
            check_gradient(&g);
    }
    assert_int_equal(samples, g.samples);
    assert_int_equal(g.gradients, trained(g.net));
    network_free(g.net);
    (void)fclose(g.file);
}

static void test_resnet18(void **state) {
    (void)state;
    check("tests/golden/network_resnet18.txt");
}

static void test_cifar_fast(void **state) {
    (void)state;
    check("tests/golden/network_cifar-fast.txt");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resnet18),
        cmocka_unit_test(test_cifar_fast),
    };
    return cmocka_run_group_tests_name("network_golden", tests, NULL, NULL);
}
