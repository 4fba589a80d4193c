// SPDX-License-Identifier: Apache-2.0
// Layers of vision transformers that no comparison with torchvision reaches: attention with dropout
// of its weights, and pictures of another size in evaluation.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "kernels/base/rng.h"
#include "tests/unit/trainer/golden_fill.h"
#include "tests/unit/trainer/network_fixture.h"
#include "trainer/models/attention_layers.h"

enum { BATCH = 4, QUERIES = 3, KEYS = 5, CHANNELS = 6, HEADS = 2, GROUPS = 2 };

// ---- Attention ----

static sr_tensor values(sr_context *context, uint32_t number, int rank, const int64_t *dim) {
    sr_info info = {.dtype = SR_F64, .rank = rank};
    double data[BATCH * KEYS * CHANNELS];
    sr_rng rng;
    for (int i = 0; i < rank; i++)
        info.dim[i] = dim[i];
    assert_true((size_t)sr_info_count(&info) <= sizeof data / sizeof *data);
    sr_rng_init(&rng, 5, number, 0, 0);
    for (int64_t i = 0; i < sr_info_count(&info); i++)
        data[i] = sr_rng_normal(&rng);
    return sr_constant(context, &info, data);
}

// Attention in training with a probability of dropping weights.
static void attend(double dropout, bool biased, double *out) {
    static const int32_t key[4] = {7, 0, 1, 0};
    const sr_info key_info = {.dtype = SR_I32, .rank = 1, .dim = {4}};
    const int64_t queries[3] = {BATCH, QUERIES, CHANNELS}, keys[3] = {BATCH, KEYS, CHANNELS};
    const int64_t bias[4] = {GROUPS, HEADS, QUERIES, KEYS};
    sr_context *context;
    assert_ok(sr_context_create(&(sr_context_options){.device = "cpu"}, &context));
    sr_context_begin_step(context);
    sr_forward f = {.context = context,
                    .training = true,
                    .dtype = SR_F64,
                    .key = sr_constant(context, &key_info, key)};
    sr_tensor y = sr_layer_attention(&f, values(context, 0, 3, queries),
                                     values(context, 1, 3, keys), values(context, 2, 3, keys),
                                     biased ? values(context, 3, 4, bias) : SR_NONE,
                                     (sr_attend_opts){.heads = HEADS, .dropout = dropout});
    assert_ok(sr_read(y, out, BATCH * QUERIES * CHANNELS * sizeof *out));
    assert_int_equal(f.next_scope, 1);
    sr_context_free(context);
}

enum { RESULTS = BATCH * QUERIES * CHANNELS };

// With a probability so small that nothing is dropped it is the fused operator's result.
static void weights_are_those_of_the_operator(void **state) {
    (void)state;
    for (int biased = 0; biased < 2; biased++) {
        double fused[RESULTS], apart[RESULTS], worst = 0;
        attend(0, biased, fused);
        attend(1e-15, biased, apart);
        for (int i = 0; i < RESULTS; i++)
            worst = fmax(fabs(fused[i] - apart[i]), worst);
        assert_true(worst < 1e-13);
    }
}

// Each result is a sum over keys of which some are dropped: the mean over draws is kept, so results
// differ from the operator's, and the differences have both signs.
static void weights_are_dropped(void **state) {
    (void)state;
    double fused[RESULTS], dropped[RESULTS];
    int larger = 0, smaller = 0;
    attend(0, true, fused);
    attend(0.5, true, dropped);
    for (int i = 0; i < RESULTS; i++) {
        larger += dropped[i] > fused[i] + 1e-6;
        smaller += dropped[i] < fused[i] - 1e-6;
    }
    assert_true(larger + smaller > RESULTS / 2);
    assert_true(larger > RESULTS / 8 && smaller > RESULTS / 8);
}

// ---- Pictures of another size ----

enum { SIDE = 32, LARGE = 48, SAMPLES = 2, CLASSES = 10 };

static const char *const model = "vit_tiny_patch16_224";

// The position embeddings of a network for LARGE x LARGE pixels, resized from those of 'from'.
static void resize(const float *from, const sr_param *p, float *out, int64_t count) {
    sr_context *context;
    assert_ok(sr_context_create(&(sr_context_options){.device = "cpu"}, &context));
    sr_context_begin_step(context);
    sr_tensor x = sr_constant(context, &p->info, from);
    x = sr_layer_resize_grid(x, p->grid, LARGE / 16, LARGE / 16);
    assert_ok(sr_read(x, out, (size_t)count * sizeof *out));
    sr_context_free(context);
}

static void fill(network *net, const network *small) {
    for (int i = 0; i < net->model->param_count; i++) {
        const sr_param *p = &net->model->params[i];
        if (small && p->grid.height > 0)
            resize(small->values[i], &small->model->params[i], net->values[i],
                   network_count(net, i));
        else
            golden_fill_param(net->model, i, net->values[i]);
    }
}

static network *create(int64_t side) {
    network *net;
    const network_options options = {
        .model = model, .classes = CLASSES, .side = side, .device = "cpu", .dtype = SR_F32};
    assert_ok(network_create(&options, &net));
    return net;
}

static void positions_are_resized_in_evaluation(void **state) {
    (void)state;
    static const double mean[] = {0.5, 0.5, 0.5}, std[] = {0.25, 0.25, 0.25};
    static uint8_t images[SAMPLES * LARGE * LARGE * 3];
    const network_pass pass = {.samples = SAMPLES,
                               .side = LARGE,
                               .images = images,
                               .mean = mean,
                               .std = std,
                               .evaluates = true};
    network *small = create(SIDE), *large = create(LARGE);
    golden_fill_pictures(0, SAMPLES, LARGE, images);
    fill(small, NULL);
    fill(large, small);
    assert_ok(network_run(small, &pass));
    assert_ok(network_run(large, &pass));
    assert_memory_equal(small->output, large->output, SAMPLES * CLASSES * sizeof *small->output);
    network_free(small);
    network_free(large);
}

static void pictures_are_whole_patches(void **state) {
    (void)state;
    network *net;
    const network_options options = {
        .model = model, .classes = CLASSES, .side = SIDE + 1, .device = "cpu"};
    assert_status(SR_E_USAGE, network_create(&options, &net));
    assert_message("pictures of 33 x 33 pixels cannot be divided into patches of 16 x 16");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_the_operator),
        cmocka_unit_test(weights_are_dropped),
        cmocka_unit_test(positions_are_resized_in_evaluation),
        cmocka_unit_test(pictures_are_whole_patches),
    };
    return cmocka_run_group_tests_name("attention_layers", tests, NULL, NULL);
}
