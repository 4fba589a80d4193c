// SPDX-License-Identifier: Apache-2.0
// Networks with an eighth of their channels, and others: the channels that a layer has, the heads
// of attention, and that the whole network can be recorded.
#include "tests/unit/support/test_support.h"

#include "graph/plan_view.h"
#include "kernels/kernel_params.h"
#include "tests/unit/trainer/network_fixture.h"

typedef struct width_case {
    const char *model, *factor;
    const char *weight; // of a layer
    int64_t channels;   // that it has
    int heads;          // of attention; 0: none
} width_case;

static const sr_param *find_param(const sr_model *model, const char *name) {
    for (int i = 0; i < model->param_count; i++)
        if (strcmp(model->params[i].name, name) == 0)
            return &model->params[i];
    fail_msg("%s has no %s", model->desc->name, name);
    return NULL;
}

static void check_heads(const width_case *c, network *net) {
    enum { SIDE = 32 };
    const sr_info info = {.dtype = SR_F32, .rank = 4, .dim = {1, SIDE, SIDE, 3}};
    sr_outputs outputs = {0};
    sr_plan *plan;
    sr_context_begin_step(net->context);
    assert_ok(network_bind(net));
    sr_forward f = {.context = net->context, .outputs = &outputs, .dtype = SR_F32};
    const sr_tensor x = sr_input(net->context, 0, &info);
    net->model->desc->forward(&f, net->model->state, &x);
    const sr_target target = {.tensor = sr_output_find(&outputs, "logits")};
    assert_ok(sr_context_status(net->context));
    assert_ok(sr_compile(net->context, &target, 1, &plan));
    int attentions = 0;
    for (int i = 0; i < sr_plan_node_count(plan); i++) {
        sr_plan_launch_view launch;
        sr_plan_get_launch(plan, i, &launch);
        if (launch.id != SR_KERNEL_attention)
            continue;
        const sr_attention_params *p = launch.params;
        assert_int_equal(p->heads, c->heads);
        assert_int_equal(p->heads * p->depth, c->channels);
        attentions++;
    }
    assert_true((attentions > 0) == (c->heads > 0));
}

static void channels_are_scaled(void **state) {
    static const width_case cases[] = {
        {"resnet18", "0.125", "layer4.1.conv2.weight", 64, 0},
        {"resnet50", "0.125", "layer4.2.conv3.weight", 256, 0},
        {"resnet50", "2", "conv1.weight", 128, 0},
        {"resnext50_32x4d", "0.125", "layer1.0.conv1.weight", 32, 0}, // a channel in each group
        {"wide_resnet50_2", "0.5", "layer2.0.conv2.weight", 128, 0},
        {"seresnet50", "0.125", "layer1.0.conv3.weight", 32, 0},
        {"skresnet50", "0.25", "layer1.0.conv3.conv.weight", 64, 0},
        {"resnest50d", "0.125", "conv1.3.weight", 4, 0}, // half as many as the stem has
        {"mobilenet_v2", "0.125", "features.17.conv.2.weight", 40, 0},
        {"mobilenet_v3_large", "0.125", "features.16.0.weight", 144, 0}, // 6 x 24
        {"convnext_tiny", "0.125", "features.7.2.block.5.weight", 96, 0},
        {"deit_small_patch16_224", "0.125", "patch_embed.proj.weight", 48, 1},
        {"deit_small_patch16_224", "1", "patch_embed.proj.weight", 384, 6},
        {"vit_small_patch16_224", "0.5", "patch_embed.proj.weight", 192, 3},
        {"vit_b_16", "0.45", "conv_proj.weight", 344, 4}, // of which 5 heads are no divisor
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const width_case *c = &cases[i];
        const network_options options = {.model = c->model,
                                         .set = (const char *[]){"width_mult", c->factor, NULL},
                                         .classes = 3,
                                         .side = 32,
                                         .device = "cpu",
                                         .dtype = SR_F32};
        network *net;
        assert_ok(network_create(&options, &net));
        assert_int_equal(find_param(net->model, c->weight)->info.dim[0], c->channels);
        check_heads(c, net);
        network_free(net);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(channels_are_scaled)};
    return cmocka_run_group_tests_name("width", tests, NULL, NULL);
}
