// SPDX-License-Identifier: Apache-2.0
// mixup and CutMix: partners are a permutation, the weights match the pixels exactly, lambda
// follows Beta(alpha, alpha) (compared with closed forms of its distribution), draws are a function
// of the key alone and the same on every machine, and the loss is that of the mixed targets.
#include <math.h>

#include "kernels/base/math.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/test_support.h"
#include "trainer/tasks/task.h"

typedef struct mixed {
    sr_mix_params p;
    sr_dtype dtype;
    test_array *x, *labels, *key, *y, *partner, *weight;
} mixed;

// Sample i is filled with the value i and has the label i.
static mixed lane_new(sr_dtype dtype, int64_t n, int64_t h, int64_t w, int64_t c) {
    const int64_t size = h * w * c;
    mixed m = {.p = {.n = n, .h = h, .w = w, .c = c, .probability = 1}, .dtype = dtype};
    m.x = array_new(dtype, n * size);
    m.y = array_new(dtype, n * size);
    m.labels = array_new(SR_I32, n);
    m.key = array_of(SR_I32, 4, (const double[]){-7, 3, 0, 0});
    m.partner = array_new(SR_I32, n);
    m.weight = array_new(parameter_type(dtype), n);
    for (int64_t i = 0; i < n * size; i++)
        array_set(m.x, i, (double)(i / size));
    for (int64_t i = 0; i < n; i++)
        array_set(m.labels, i, (double)i);
    return m;
}

static void mix(mixed *m, int step, int lane) {
    array_set(m->key, 2, step);
    array_set(m->key, 3, lane);
    KERNEL_RUN(mix_batch, m->p, m->x, m->labels, m->key, m->y, m->partner, m->weight);
}

static double weight_of(const mixed *m) {
    const double weight = array_get(m->weight, 0);
    for (int64_t i = 1; i < m->p.n; i++)
        assert_true(array_get(m->weight, i) == weight);
    assert_true(weight >= 0 && weight <= 1);
    return weight;
}

// Every sample is the partner of exactly one; returns how many are their own.
static int64_t expect_permutation(const mixed *m) {
    int64_t fixed = 0;
    bool seen[64] = {false};
    for (int64_t i = 0; i < m->p.n; i++) {
        const int64_t partner = (int64_t)array_get(m->partner, i);
        assert_in_range(partner, 0, m->p.n - 1);
        assert_false(seen[partner]);
        seen[partner] = true;
        fixed += partner == i;
    }
    return fixed;
}

// ---- What is mixed ----

static void expect_blend(const mixed *m) {
    const int64_t size = m->p.h * m->p.w * m->p.c;
    const double weight = weight_of(m);
    for (int64_t i = 0; i < m->p.n; i++) {
        const double partner = array_get(m->partner, i);
        for (int64_t k = 0; k < size; k++)
            assert_near("mixup", i, m->dtype, array_get(m->y, i * size + k),
                        weight * (double)i + (1 - weight) * partner, 4, 64);
    }
}

static void test_mixup(void **state) {
    for (int t = 0; t < 4; t++) {
        int64_t fixed = 0;
        mixed m = lane_new(fixture_types[t], 64, 3, 2, 3);
        m.p.mixup = 0.2;
        for (int step = 0; step < 50; step++) {
            mix(&m, step, 1);
            fixed += expect_permutation(&m);
            expect_blend(&m);
        }
        assert_in_range(fixed, 20, 100); // a permutation has one fixed point on average
        arrays_free(state);
    }
}

// The number of the partner's pixels in sample i, which must be a whole rectangle.
static int64_t expect_box(const mixed *m, int64_t i) {
    const int64_t h = m->p.h, w = m->p.w, c = m->p.c;
    int64_t top = h, bottom = 0, left = w, right = 0, count = 0;
    for (int64_t at = 0; at < h * w; at++) {
        const double value = array_get(m->y, (i * h * w + at) * c);
        for (int64_t k = 1; k < c; k++)
            assert_true(array_get(m->y, (i * h * w + at) * c + k) == value);
        if (value == (double)i)
            continue;
        assert_true(value == array_get(m->partner, i));
        count++;
        top = at / w < top ? at / w : top;
        bottom = at / w + 1;
        left = at % w < left ? at % w : left;
        right = at % w + 1 > right ? at % w + 1 : right;
    }
    assert_int_equal(count, count ? (bottom - top) * (right - left) : 0);
    return count;
}

static void test_cutmix_weight_is_the_area(void **state) {
    for (int t = 0; t < 4; t++) {
        mixed m = lane_new(fixture_types[t], 6, 13, 9, 3);
        int boxes = 0;
        m.p.cutmix = 1;
        for (int step = 0; step < 60; step++) {
            mix(&m, step, 0);
            (void)expect_permutation(&m);
            const double weight = weight_of(&m);
            for (int64_t i = 0; i < m.p.n; i++) {
                const int64_t area = expect_box(&m, i);
                const double left = (double)(13 * 9 - area) / (13 * 9);
                boxes += area > 0;
                if (array_get(m.partner, i) != (double)i)
                    assert_true(weight == round_to(parameter_type(m.dtype), left));
            }
        }
        assert_true(boxes > 200);
        arrays_free(state);
    }
}

// The mean share of a square that a CutMix box covers, from eq. 2: the side ratio r has the density
// 2 r for uniform lambda, and of a side r about a uniform centre r - r^2 / 4 remain.
static void test_cutmix_boxes_are_as_large_as_they_should_be(void **state) {
    (void)state;
    enum { STEPS = 1500 };
    const double want = 1.0 / 2 - 1.0 / 5 + 1.0 / 48;
    mixed m = lane_new(SR_F32, 1, 64, 64, 1);
    double sum = 0;
    m.p.cutmix = 1;
    for (int step = 0; step < STEPS; step++) {
        mix(&m, step, 0);
        sum += 1 - weight_of(&m);
    }
    assert_true(fabs(sum / STEPS - want) < 0.025);
}

static void test_probability_and_choice(void **state) {
    (void)state;
    enum { STEPS = 600 };
    mixed m = lane_new(SR_F32, 8, 4, 4, 1);
    int untouched = 0, blended = 0;
    m.p.mixup = m.p.cutmix = 1;
    m.p.probability = 0.7;
    for (int step = 0; step < STEPS; step++) {
        mix(&m, step, 2);
        bool same = weight_of(&m) == 1, whole = true;
        for (int64_t i = 0; i < 8 * 16; i++) {
            const double value = array_get(m.y, i);
            same = same && value == array_get(m.x, i) &&
                   array_get(m.partner, i / 16) == (double)(i / 16);
            whole = whole && value == floor(value);
        }
        untouched += same;
        blended += !whole;
    }
    assert_true(fabs((double)untouched / STEPS - 0.3) < 0.06);
    assert_true(fabs((double)blended / STEPS - 0.35) < 0.06);
    m.p.probability = 0;
    mix(&m, 0, 0);
    assert_memory_equal(m.x->data, m.y->data, 8 * 16 * sizeof(float));
    assert_memory_equal(m.labels->data, m.partner->data, 8 * sizeof(int32_t));
}

static void test_draws_are_a_function_of_the_key(void **state) {
    (void)state;
    double weight[5];
    mixed m = lane_new(SR_F32, 2, 1, 1, 1);
    m.p.mixup = 1;
    for (int i = 0; i < 5; i++) {
        m.p.scope = i == 3;
        mix(&m, 10 + (i == 1), 5 + (i == 2));
        weight[i] = weight_of(&m);
    }
    assert_true(weight[0] == weight[4]);
    for (int i = 1; i < 4; i++)
        assert_true(weight[0] != weight[i]);
}

// ---- lambda ----

enum { DRAWS = 3000 };

static void draw_weights(double alpha, double *weights) {
    mixed m = lane_new(SR_F64, 1, 1, 1, 1);
    m.p.mixup = alpha;
    for (int i = 0; i < DRAWS; i++) {
        mix(&m, i, 0);
        weights[i] = weight_of(&m);
    }
    (void)arrays_free(NULL);
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Closed forms of the cumulative distribution of Beta(alpha, alpha).
static double beta_half(double x) {
    return 2 / acos(-1.0) * asin(sqrt(x));
}
static double beta_one(double x) {
    return x;
}
static double beta_two(double x) {
    return x * x * (3 - 2 * x);
}

// Kolmogorov-Smirnov: sqrt(n) times the largest distance exceeds 1.95 once in a thousand.
static void test_lambda_follows_beta(void **state) {
    (void)state;
    static const struct {
        double alpha;
        double (*below)(double);
    } laws[] = {{0.5, beta_half}, {1, beta_one}, {2, beta_two}};
    double *weights = zeros(DRAWS);
    for (int k = 0; k < 3; k++) {
        double worst = 0;
        draw_weights(laws[k].alpha, weights);
        qsort(weights, DRAWS, sizeof *weights, compare);
        for (int i = 0; i < DRAWS; i++) {
            const double want = laws[k].below(weights[i]);
            worst = fmax(worst, fmax(want - (double)i / DRAWS, (double)(i + 1) / DRAWS - want));
        }
        assert_true(sqrt((double)DRAWS) * worst < 1.95);
    }
    test_free(weights);
}

static void test_moments_of_lambda(void **state) {
    (void)state;
    static const double alphas[] = {1e-300, 0.01, 0.2, 50, 1000};
    double *weights = zeros(DRAWS);
    for (int k = 0; k < 5; k++) {
        const double want = 1 / (4 * (2 * alphas[k] + 1));
        double sum = 0, squares = 0;
        draw_weights(alphas[k], weights);
        for (int i = 0; i < DRAWS; i++) {
            sum += weights[i];
            squares += (weights[i] - 0.5) * (weights[i] - 0.5);
        }
        assert_true(fabs(sum / DRAWS - 0.5) < 4 * sqrt(want / DRAWS));
        assert_true(fabs(squares / DRAWS / want - 1) < 0.12);
    }
    test_free(weights);
}

// ---- The operator ----

static const sr_info picture_of_two = {.dtype = SR_F32, .rank = 4, .dim = {2, 1, 1, 1}};

static void expect_refused(int64_t key_words, sr_mix_opts opts, const char *message) {
    static const float x[2] = {0};
    static const int32_t words[4] = {0};
    const sr_info two = {.dtype = SR_I32, .rank = 1, .dim = {2}};
    const sr_info key = {.dtype = SR_I32, .rank = 1, .dim = {key_words}};
    sr_context *context;
    assert_ok(sr_context_create(NULL, &context));
    sr_context_begin_step(context);
    const sr_mixed m =
        sr_mix_batch(sr_constant(context, &picture_of_two, x), sr_constant(context, &two, words),
                     sr_constant(context, &key, words), opts);
    assert_true(sr_is_none(m.x) && sr_is_none(m.partner) && sr_is_none(m.weight));
    assert_status(SR_E_SHAPE, sr_context_status(context));
    assert_message(message);
    sr_context_free(context);
}

static void test_refused(void **state) {
    (void)state;
    expect_refused(3, (sr_mix_opts){.mixup = 1}, "mix_batch: key [3] i32 must be i32 [4]");
    expect_refused(4, (sr_mix_opts){.mixup = -1}, "alpha -1 of mixup and 0 of cutmix");
    expect_refused(4, (sr_mix_opts){.cutmix = (double)NAN}, "of cutmix must be at least 0");
    expect_refused(4, (sr_mix_opts){.mixup = 1, .probability = 1.5}, "probability 1.5 must lie");
}

// ---- The loss of a task ----

enum { SAMPLES = 8, CLASSES = 3 };
static sr_tensor seen; // the network's output

// A network whose logits are its pixels.
static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    (void)state;
    seen = sr_reshape(inputs[0], 2, (const int64_t[]){SAMPLES, CLASSES});
    sr_forward_output(f, "logits", seen);
}

// The pictures are the one-hot classes, so the mixed pictures are the mixed targets, and a sample's
// loss is log sum exp t - sum t^2.
static void test_loss_is_that_of_mixed_targets(void **state) {
    (void)state;
    static const double zero[3] = {0}, one[3] = {1, 1, 1};
    static const sr_model_desc desc = {.forward = forward};
    sr_model model = {.desc = &desc}, *models[] = {&model};
    uint8_t pixels[SAMPLES][CLASSES] = {{0}};
    int32_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i % CLASSES;
        pixels[i][labels[i]] = 255;
    }
    const sr_info picture = {.dtype = SR_U8, .rank = 4, .dim = {SAMPLES, 1, 1, CLASSES}};
    const sr_info label = {.dtype = SR_I32, .rank = 1, .dim = {SAMPLES}};
    const sr_info four = {.dtype = SR_I32, .rank = 1, .dim = {4}};
    sr_context *context;
    assert_ok(sr_context_create(NULL, &context));
    int between = 0;
    size_t count;
    _Alignas(max_align_t) char options[256];
    sr_arena arena;
    sr_arena_init(&arena);
    assert_true(sr_losses(&count)[0]->options->struct_size <= sizeof options);
    assert_ok(sr_options_defaults(sr_losses(&count)[0]->options, options, &arena));
    const sr_loss_part part = {.weight = 1, .desc = sr_losses(&count)[0], .options = options};
    for (int step = 0; step < 4; step++) {
        float t[SAMPLES][CLASSES], loss[SAMPLES];
        sr_context_begin_step(context);
        sr_lane_recording r = {.context = context,
                               .training = true,
                               .dtype = SR_F32,
                               .models = models,
                               .mean = zero,
                               .std = one,
                               .losses = &part,
                               .loss_count = 1,
                               .mix = {.mixup = 1, .probability = 1},
                               .inputs = {sr_constant(context, &picture, pixels),
                                          sr_constant(context, &label, labels)},
                               .key =
                                   sr_constant(context, &four, (const int32_t[]){1, 2, step, 3})};
        sr_task_find("classify")->record(&r);
        assert_ok(sr_read(r.loss, loss, sizeof loss));
        assert_ok(sr_read(seen, t, sizeof t));
        for (int i = 0; i < SAMPLES; i++) {
            double sum = 0, squares = 0;
            for (int k = 0; k < CLASSES; k++) {
                sum += exp((double)t[i][k]);
                squares += (double)t[i][k] * (double)t[i][k];
            }
            between += squares < 0.99;
            assert_true(fabs((double)loss[i] - (log(sum) - squares)) < 1e-5);
        }
    }
    assert_true(between > 4);
    sr_arena_release(&arena);
    sr_context_free(context);
}

// One hash of everything computed, for every compiler and instruction set.
static void test_same_bits_everywhere(void **state) {
    (void)state;
    assert_digest(7, 0x721d43628c71a33fu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_mixup, arrays_free),
        cmocka_unit_test_teardown(test_cutmix_weight_is_the_area, arrays_free),
        cmocka_unit_test_teardown(test_cutmix_boxes_are_as_large_as_they_should_be, arrays_free),
        cmocka_unit_test_teardown(test_probability_and_choice, arrays_free),
        cmocka_unit_test_teardown(test_draws_are_a_function_of_the_key, arrays_free),
        cmocka_unit_test_teardown(test_lambda_follows_beta, arrays_free),
        cmocka_unit_test_teardown(test_moments_of_lambda, arrays_free),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_loss_is_that_of_mixed_targets),
        cmocka_unit_test(test_same_bits_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
