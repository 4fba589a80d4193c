// SPDX-License-Identifier: Apache-2.0
// serried bench step --plan --gpu: sums agree, FLOPs and bytes are those of the network, levels of
// fusion agree with the model of ResNet-50, kernels are of the classes that the CUDA module has for
// them, convolutions take the times that were measured, and kernels bound by bytes read nothing
// twice but for the reasons listed here. No GPU is needed and nothing is timed.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/base/memory.h"
#include "tests/unit/launcher/bench_fixture.h"
#include "trainer/checkpoint/json_tree.h"

enum { LEVELS = 6, BATCH = 256 };

static const char *const names[LEVELS] = {"built", "i", "ii", "iii-a", "iii-b", "iii-c"};

static bool is_near(double value, double expected, double share) {
    return fabs(value - expected) <= share * fabs(expected);
}

static bool is_text(const sr_json *json, const char *key, const char *text) {
    return strcmp(sr_json_string(sr_json_get(json, key)), text) == 0;
}

static const sr_json *rows_of(const sr_json *level) {
    return sr_json_get(level, "rows")->first;
}

// Runs a plan and returns its levels.
static const sr_json *plan(const char *line, sr_arena *arena, const sr_json *level[LEVELS]) {
    char text[256];
    (void)snprintf(text, sizeof text, "bench step %s --plan --json", line);
    assert_int_equal(bench_run(text), 0);
    const sr_json *json = bench_json(arena);
    const sr_json *next = sr_json_get(json, "levels")->first;
    for (int i = 0; i < LEVELS; i++, next = next->next) {
        assert_non_null(next);
        assert_true(is_text(next, "name", names[i]));
        level[i] = next;
    }
    assert_null(next);
    return json;
}

// The rows and the families of a level add up to it, and a row takes the longest of three and its
// launches.
static void check_sums(const sr_json *json, const sr_json *level) {
    static const char *const keys[] = {"kernels",     "launches",        "flops",
                                       "bytes",       "cached_bytes",    "executed_flops",
                                       "least_bytes", "workspace_bytes", "flops_s",
                                       "predicted_s", "launch_s",        "measured_s"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double rows = 0, families = 0;
        for (const sr_json *row = rows_of(level); row; row = row->next)
            rows += bench_number(row, keys[i]);
        for (const sr_json *f = sr_json_get(level, "families")->first; f; f = f->next)
            families += bench_number(f, keys[i]);
        assert_true(is_near(rows, bench_number(level, keys[i]), 1e-9));
        assert_true(is_near(families, bench_number(level, keys[i]), 1e-9));
    }
    for (const sr_json *row = rows_of(level); row; row = row->next) {
        const double limits[] = {bench_number(row, "flops_s"), bench_number(row, "bytes_s"),
                                 bench_number(row, "measured_s")};
        assert_true(is_near(
            bench_number(row, "predicted_s"),
            fmax(limits[0], fmax(limits[1], limits[2])) + bench_number(row, "launch_s"), 1e-9));
    }
    assert_true(is_near(bench_number(level, "images_per_s"),
                        bench_number(json, "batch") / bench_number(level, "predicted_s"), 1e-9));
    assert_true(is_near(
        bench_number(level, "share_by_flops") + bench_number(level, "share_by_bytes") +
            bench_number(level, "share_by_measured") + bench_number(level, "share_by_launch"),
        1, 1e-9));
}

// Operators that may move more than 1.1 times the bytes of their inputs and outputs where bytes
// bind: the statistics of a batch norm, and the sums of its gradient, need all of x before the
// first output, which is written in a second pass until these sums come from epilogues (ii);
// gradients of weights are sums of parts; and weights are packed for others, too, of linear layers
// with few rows.
static bool may_move_more(const sr_json *row, int level) {
    static const char *const operators[] = {"batchnorm_train",
                                            "batchnorm_train_relu",
                                            "batchnorm_train_pair_relu",
                                            "batchnorm_grad",
                                            "batchnorm_relu_grad",
                                            "batchnorm_add_relu_grad",
                                            "batchnorm_train_relu_maxpool",
                                            "batchnorm_relu_maxpool_grad"};
    bool is_norm = false;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        is_norm |= is_text(row, "operator", operators[i]);
    if (is_text(row, "operator", "linear"))
        return true;
    return is_norm ? level < 2 : bench_number(row, "workspace_bytes") > 0;
}

static void check_ratios(const sr_json *level, int number) {
    int norms = 0;
    for (const sr_json *row = rows_of(level); row; row = row->next) {
        const double ratio = bench_number(row, "ratio");
        assert_true(
            is_near(ratio, bench_number(row, "bytes") / bench_number(row, "least_bytes"), 1e-9));
        if (!is_text(row, "bound_by", "bytes") || ratio <= 1.1)
            continue;
        if (!may_move_more(row, number))
            fail_msg("level %s: %s %s moves %.2f times its inputs and outputs", names[number],
                     sr_json_string(sr_json_get(row, "operator")),
                     sr_json_string(sr_json_get(row, "in")), ratio);
        assert_non_null(sr_json_get(row, "why"));
        norms += strncmp(sr_json_string(sr_json_get(row, "operator")), "batchnorm", 9) == 0;
    }
    assert_true((norms > 0) == (number < 2)); // otherwise the exceptions are out of date
}

// Elements of "[256, 56, 56, 64] bf16", and bytes of each.
static double elements(const sr_json *row, const char *key, double *bytes) {
    const char *text = sr_json_string(sr_json_get(row, key));
    double count = 1;
    for (const char *at = text; *at && *at != ']'; at++)
        if (*at == '[' || *at == ',')
            count *= strtod(at + 1, NULL);
    *bytes = strstr(text, "f32") ? 4 : strstr(text, "f16") ? 2 : 1; // bf16, too
    return count;
}

// Of y, or of dy, each element is C/groups R S products with an element of x, or of dx. Gradients
// take what the forward pass has packed of the filter, in 16 bits.
static void check_convolution(const sr_json *row) {
    const bool forward = is_text(row, "operator", "conv2d");
    double in_size, out_size, filter_size, filters = 0;
    const double in = elements(row, "in", &in_size), out = elements(row, "out", &out_size),
                 filter = elements(row, "filter", &filter_size);
    const double count = bench_number(row, "kernels");
    assert_true(in_size == 2 && filter_size == 4);
    assert_int_equal(sscanf(sr_json_string(sr_json_get(row, "filter")), "[%lf", &filters), 1);
    if (is_text(row, "operator", "conv2d_dw"))
        return; // dy is not in the row
    assert_true(bench_number(row, "flops") == count * 2 * (forward ? out : in) * filter / filters);
    assert_true(bench_number(row, "least_bytes") ==
                count * (in * in_size + out * out_size + filter * (forward ? filter_size : 2)));
}

static double flops_of(const sr_json *level, const char *operator) {
    double flops = 0;
    for (const sr_json *row = rows_of(level); row; row = row->next)
        if (is_text(row, "operator", operator))
            flops += bench_number(row, "flops");
    return flops;
}

static double bytes_of_family(const sr_json *level, const char *name) {
    for (const sr_json *f = sr_json_get(level, "families")->first; f; f = f->next)
        if (is_text(f, "name", name))
            return bench_number(f, "bytes");
    fail_msg("there is no family '%s'", name);
    return 0;
}

// Forward 4.09 G multiply-adds, and twice as many backward, but for the gradient of the pictures.
static void check_flops(const sr_json *level) {
    const double forward = flops_of(level, "conv2d") + flops_of(level, "batchnorm_relu_linear") +
                           flops_of(level, "linear");
    const double stem = 2.0 * BATCH * 112 * 112 * 64 * 7 * 7 * 3;
    assert_true(is_near(forward, 2 * 4.089e9 * BATCH, 1e-3));
    assert_true(is_near(bench_number(level, "flops"), 3 * forward - stem, 1e-12));
    assert_true(is_near(bench_number(level, "flops"), 24.30e9 * BATCH, 1e-3));
}

// Bytes of batch norms and of all else but updates and sums of parts, for an image, in MB; what the
// second-level cache serves is part of the model.
static double megabytes_of(const sr_json *level) {
    const double bytes = bench_number(level, "bytes") + bench_number(level, "cached_bytes") -
                         bench_number(level, "workspace_bytes");
    return 1e-6 * (bytes - bytes_of_family(level, "gradient sums, update")) / BATCH;
}

static void test_resnet50(void **state) {
    (void)state;
    // MB for an image, of activations in 16 bits: the published model of each level. What is built
    // recomputes some of them. Not in the first two: max pooling in batch norm saves five passes
    // (ii: four) over what it pools for one more over its gradients and indices, and shortcuts that
    // are normalised where they are added save two passes (ii: one).
    const double pooled = 112 * 112 * 64 * 2e-6, read_again = 56 * 56 * 64 * 3e-6;
    const double shortcuts = (56 * 56 * 256 + 28 * 28 * 512 + 14 * 14 * 1024 + 7 * 7 * 2048) * 2e-6;
    const double megabytes[LEVELS] = {
        0,  348 - 5 * pooled + read_again - 2 * shortcuts, 280 - 4 * pooled - shortcuts, 265, 230,
        182};
    const sr_json *level[LEVELS];
    sr_arena arena;
    sr_arena_init(&arena);
    const sr_json *json = plan("resnet50 -b 256 -p bf16 --gpu h200", &arena, level);
    assert_true(bench_number(json, "batch") == BATCH);
    assert_true(is_text(sr_json_get(json, "gpu"), "name", "h200"));
    for (int i = 0; i < LEVELS; i++) {
        check_sums(json, level[i]);
        check_ratios(level[i], i);
        assert_true(bench_number(level[i], "flops") == bench_number(level[0], "flops"));
        const double mb = megabytes_of(level[i]);
        if (i > 0 && !is_near(mb, megabytes[i], 0.04))
            fail_msg("level %s: %.1f MB for an image, not %.0f", names[i], mb, megabytes[i]);
        if (i == 1) { // one lane, of which nothing is recomputed
            assert_true(bench_number(level[1], "bytes") == bench_number(level[0], "bytes"));
        } else if (i > 1) {
            assert_true(bench_number(level[i], "bytes") < bench_number(level[i - 1], "bytes"));
            assert_true(bench_number(level[i], "predicted_s") <
                        bench_number(level[i - 1], "predicted_s"));
        }
    }
    check_flops(level[0]);
    for (const sr_json *row = rows_of(level[0]); row; row = row->next)
        if (strncmp(sr_json_string(sr_json_get(row, "operator")), "conv2d", 6) == 0)
            check_convolution(row);
    // Own kernels are bound by bytes, convolutions by what was measured.
    assert_true(bench_number(level[0], "share_by_bytes") > 0.5);
    assert_true(bench_number(level[0], "share_by_measured") > 0.25);
    assert_true(bench_number(level[0], "share_by_launch") < 0.05);
    // Outputs of convolutions and blocks are kept, 33.9 MB for an image; what is alive beside them
    // at the peak, and parameters, make up the rest.
    assert_true(bench_number(level[LEVELS - 1], "memory_bytes") > 33.9e6 * BATCH);
    assert_true(bench_number(level[LEVELS - 1], "memory_bytes") < 1.25 * 33.9e6 * BATCH);
    assert_true(bench_number(level[3], "memory_bytes") < bench_number(level[2], "memory_bytes"));
    sr_arena_release(&arena);
}

// A number of a class's rows, or of an operator's of it.
static double sum_of(const sr_json *level, const char *operator, const char * class,
                     const char *key) {
    double sum = 0;
    for (const sr_json *row = rows_of(level); row; row = row->next)
        if (is_text(row, "class", class) && (!operator|| is_text(row, "operator", operator)))
            sum += bench_number(row, key);
    return sum;
}

// The sums of tests/gpu/results/cudnn.tsv over the layers of ResNet-50, but for the first one and
// seven that normalise what they read, of batches of 256; of gradients of weights, those that cuDNN
// computes, whose lanes are branches.
static void check_times(const sr_json *level, const sr_json *kept) {
    assert_true(is_near(sum_of(level, "conv2d", "cudnn", "measured_s"), 4.05e-3, 5e-3));
    assert_true(is_near(sum_of(level, "conv2d_dx", "cudnn", "measured_s"), 5.24e-3, 5e-3));
    assert_true(is_near(sum_of(level, "conv2d_dw", "cudnn", "measured_s"), 1.92e-3, 5e-3));
    assert_true(is_near(sum_of(kept, "conv2d_dw", "cudnn", "measured_s"), 1.92e-3, 5e-3));
}

// Lanes of 32 side by side: one launch for all, but for gradients of weights by cuDNN, and the
// second reads of batch norm come from the cache.
static void test_lanes(void **state) {
    (void)state;
    const sr_json *level[LEVELS], *one[LEVELS], *other[LEVELS];
    sr_arena arena;
    sr_arena_init(&arena);
    const sr_json *json = plan("resnet50 -b 256 -l 8 -p bf16 --gpu h100", &arena, level);
    assert_true(bench_number(json, "lanes_at_once") == 8);
    assert_string_equal(sr_json_get(sr_json_get(json, "gpu"), "derived")->text, "false");
    for (int i = 0; i < LEVELS; i++)
        check_sums(json, level[i]);
    check_times(level[0], level[1]);
    assert_true(bench_number(level[0], "predicted_s") <= 32.5e-3);
    assert_true(sum_of(level[0], "conv2d", "cudnn", "kernels") == 52 - 7);
    assert_true(sum_of(level[0], "batchnorm_relu_linear", "mma", "kernels") == 7);
    assert_true(sum_of(level[0], "batchnorm_relu_linear_dw", "mma", "kernels") == 7);
    assert_true(sum_of(level[0], "batchnorm_train_pair_relu", "tensor", "kernels") == 4);
    assert_true(sum_of(level[0], "batchnorm_moments", "tensor", "kernels") == 7 + 4);
    assert_true(sum_of(level[0], "batchnorm_train_relu_maxpool", "tensor", "kernels") == 1);
    assert_true(sum_of(level[0], "batchnorm_relu_maxpool_grad", "tensor", "kernels") == 1);
    assert_true(sum_of(level[0], "conv2d_dw", "cudnn", "kernels") == 8 * (16 + 3));
    assert_true(sum_of(level[0], "conv2d_dw", "cublaslt", "kernels") == 33 - 7);
    assert_true(sum_of(level[0], "conv2d", "mma", "kernels") == 1);
    // Weights are packed by a launch of the forward pass alone.
    assert_true(sum_of(level[0], "conv2d", "cudnn", "launches") == 2 * (52 - 7));
    assert_true(sum_of(level[0], "conv2d_dx", "cudnn", "launches") == 52);
    assert_true(sum_of(level[0], "linear", "cublaslt", "launches") == 2);
    assert_true(sum_of(level[0], "linear_dx", "cublaslt", "launches") == 1);
    // The gradients of 1,000 biases, which have gaps between lanes.
    assert_true(sum_of(level[0], "channel_sum", "tensor", "kernels") == 1);
    assert_true(sum_of(level[0], NULL, "tensor", "kernels") == 53 + 53 + 1);
    (void)plan("resnet50 -b 256 -l 1 -p bf16 --gpu h100", &arena, one);
    assert_true(bench_number(level[0], "cached_bytes") >
                1.5 * bench_number(one[0], "cached_bytes"));
    assert_true(is_near(bench_number(level[0], "flops"), bench_number(one[0], "flops"), 1e-12));
    // What is computed again for the gradient of a ReLU alone, which does so itself, is not.
    const sr_json *again[LEVELS];
    (void)plan("resnet50 -b 256 -l 8 -p bf16 --gpu h100 recompute=always", &arena, again);
    for (const sr_json *row = rows_of(again[0]); row; row = row->next)
        assert_false(is_text(row, "operator", "batchnorm_infer_relu") &&
                     is_text(row, "in", "[32, 112, 112, 64] bf16"));
    assert_true(sum_of(again[0], "batchnorm_infer_relu", "tensor", "kernels") > 20);
    // Derived: the same kernels and bytes, and no time shorter than by 4.8 of 3.35 TB/s.
    json = plan("resnet50 -b 256 -l 8 -p bf16 --gpu h200", &arena, other);
    assert_string_equal(sr_json_get(sr_json_get(json, "gpu"), "derived")->text, "true");
    assert_true(bench_number(other[0], "bytes") == bench_number(level[0], "bytes"));
    for (const sr_json *a = rows_of(level[0]), *b = rows_of(other[0]); a;
         a = a->next, b = b->next) {
        const double seconds = bench_number(b, "predicted_s");
        assert_true(seconds <= bench_number(a, "predicted_s") * (1 + 1e-9));
        assert_true(seconds >= bench_number(a, "predicted_s") * 3.35 / 4.8 * (1 - 1e-9));
    }
    sr_arena_release(&arena);
}

// All launches of an operator are of one of these classes.
static void check_classes(const sr_json *level, const char *operator, const char * class,
                          const char *or_class) {
    const double all = sum_of(level, operator, class, "kernels") +
                       (or_class ? sum_of(level, operator, or_class, "kernels") : 0);
    double kernels = 0;
    for (const sr_json *row = rows_of(level); row; row = row->next)
        kernels += is_text(row, "operator", operator) ? bench_number(row, "kernels") : 0;
    if (!(all > 0) || kernels > all)
        fail_msg("%s: %.0f of %.0f are of class %s", operator, all, kernels, class);
}

static void test_classes(void **state) {
    (void)state;
    const sr_json *level[LEVELS];
    sr_arena arena;
    sr_arena_init(&arena);
    (void)plan("deit-small -b 64 -l 2 -p fp16 --gpu h100", &arena, level);
    check_classes(level[0], "attention", "mma", NULL);
    check_classes(level[0], "attention_grad", "mma", NULL);
    check_classes(level[0], "linear", "cublaslt", NULL);
    check_classes(level[0], "linear_dw", "cublaslt", NULL);
    check_classes(level[0], "groupnorm_grad", "tensor", NULL);
    check_classes(level[0], "add_groupnorm", "tensor", NULL);
    check_classes(level[0], "groupnorm_add_grad", "tensor", NULL);
    assert_true(sum_of(level[0], "add_groupnorm", "tensor", "kernels") == 23);
    assert_true(sum_of(level[0], "groupnorm_add_grad", "tensor", "kernels") == 24);
    // lanes side by side, of the 11 blocks that drop: all backward, one without a norm behind it
    assert_true(sum_of(level[0], "drop_path", "reference", "launches") == 23);
    check_classes(level[0], "gelu", "tensor", NULL);
    check_classes(level[0], "conv2d", "cudnn", NULL);
    (void)plan("mobilenet-v3-large -b 64 -l 2 -p bf16 --gpu h100", &arena, level);
    assert_true(sum_of(level[0], "conv2d", "tensor", "kernels") == 15);
    assert_true(sum_of(level[0], "conv2d", "mma", "kernels") == 1);
    check_classes(level[0], "hard_swish", "reference", NULL);
    (void)plan("mobilenet-v3-large -b 64 -l 2 -p fp32 --gpu h100", &arena, level);
    check_classes(level[0], "conv2d", "reference", "tensor");
    check_classes(level[0], "batchnorm_train", "tensor", NULL);
    check_classes(level[0], "linear", "reference", NULL);
    sr_arena_release(&arena);
}

// Small kernels, other GPUs.
static void test_tiny(void **state) {
    (void)state;
    const sr_json *level[LEVELS], *other[LEVELS];
    sr_arena arena;
    sr_arena_init(&arena);
    const sr_json *json = plan("tests/recipes/tiny.yaml -b 64 --gpu h100", &arena, level);
    assert_true(is_near(bench_number(sr_json_get(json, "gpu"), "bytes_per_s"), 2.9e12, 1e-12));
    for (int i = 0; i < LEVELS; i++) {
        check_sums(json, level[i]);
        assert_true(i == 0 ||
                    bench_number(level[i], "bytes") <= bench_number(level[i - 1], "bytes"));
    }
    json = plan("tests/recipes/tiny.yaml -b 128 -l 2 --gpu a100", &arena, other);
    check_sums(json, other[0]);
    assert_true(is_near(flops_of(other[0], "conv2d"), 2 * flops_of(level[0], "conv2d"), 1e-12));
    // Lanes run side by side.
    assert_true(bench_number(other[0], "memory_bytes") >
                1.5 * bench_number(level[0], "memory_bytes"));
    assert_true(is_near(bench_number(sr_json_get(json, "gpu"), "bytes_per_s"), 2.039e12, 1e-12));
    (void)plan("tests/recipes/tiny.yaml -b 128 -l 2 --gpu a100 lanes_at_once=1", &arena, other);
    assert_true(bench_number(other[0], "memory_bytes") <
                1.5 * bench_number(level[0], "memory_bytes"));
    sr_arena_release(&arena);
}

static void test_text(void **state) {
    (void)state;
    assert_int_equal(bench_run("bench step resnet18 -b 256 -l 2 -p fp16 --plan --gpu h200"), 0);
    for (int i = 0; i < LEVELS; i++) {
        char line[16];
        (void)snprintf(line, sizeof line, "\n%-6s", names[i]);
        assert_non_null(strstr(bench_output, line));
    }
    assert_non_null(
        strstr(bench_output, "in 2 lanes (2 at once), fp16\npredicted for NVIDIA H200"));
    assert_non_null(strstr(bench_output, "(derived from what an H100 was measured to do"));
    assert_non_null(strstr(bench_output, "\nconv2d_dw (cudnn) "));
    assert_non_null(strstr(bench_output, "batchnorm_train_relu_maxpool moves 1.73x"));
    for (const char *line = bench_output; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100);
}

static void check_refused(const char *line, const char *text) {
    char path[80], message[1024];
    assert_int_equal(bench_run(line), 2);
    (void)snprintf(path, sizeof path, "%s/messages", bench_folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    message[fread(message, 1, sizeof message - 1, file)] = '\0';
    (void)fclose(file);
    if (!strstr(message, text))
        fail_msg("'%s' is not in: %s", text, message);
}

static void test_refused(void **state) {
    (void)state;
    check_refused("bench step resnet50 --plan --gpu v100", "which has h200, h100, a100");
    check_refused("bench step resnet50 --gpu h200", "--gpu needs --plan");
    check_refused("bench step resnet50 --plan --gpu h200 --profile", "so --profile has no effect");
    check_refused("bench step resnet50 --plan --gpu h200 --trace x", "so --trace has no effect");
    assert_int_equal(bench_run("bench step --help"), 0);
    assert_non_null(strstr(bench_output, "(h200, h100 or a100)"));
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    bench_program = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resnet50), cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_classes),  cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_text),     cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("bench_gpu", tests, bench_set_up, bench_tear_down);
}
