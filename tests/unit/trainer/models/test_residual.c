// SPDX-License-Identifier: Apache-2.0
// Residual networks beside their comparison with PyTorch: stochastic depth, whose rule is timm's,
// and where maps are blurred.
#include "tests/unit/support/test_support.h"

#include "graph/plan_view.h"
#include "kernels/kernel_params.h"
#include "tests/unit/trainer/network_fixture.h"

enum { SAMPLES = 2, SIDE = 32, BLOCKS = 16 };

// What a network records with one option.
typedef struct network_case {
    const char *model, *option, *value; // option NULL: none
    bool training;
} network_case;

static sr_plan *compile(const network_case *c, network **net) {
    const char *set[] = {c->option, c->value, NULL};
    const network_options options = {.model = c->model,
                                     .set = c->option ? set : NULL,
                                     .classes = 3,
                                     .side = SIDE,
                                     .device = "cpu",
                                     .dtype = SR_F32};
    const sr_info info = {.dtype = SR_F32, .rank = 4, .dim = {SAMPLES, SIDE, SIDE, 3}};
    const sr_info key = {.dtype = SR_I32, .rank = 1, .dim = {4}};
    sr_plan *plan;
    assert_ok(network_create(&options, net));
    sr_context *context = (*net)->context;
    const sr_model *model = (*net)->model;
    sr_context_begin_step(context);
    assert_ok(network_bind(*net));
    sr_outputs outputs = {0};
    sr_forward f = {.context = context,
                    .outputs = &outputs,
                    .training = c->training,
                    .dtype = SR_F32,
                    .key = sr_input(context, 1, &key)};
    const sr_tensor x = sr_input(context, 0, &info);
    model->desc->forward(&f, model->state, &x);
    const sr_target target = {.tensor = sr_output_find(&outputs, "logits")};
    assert_ok(sr_context_status(context));
    assert_ok(sr_compile(context, &target, 1, &plan));
    return plan;
}

// Probabilities of the plan's drop_path kernels, by their scopes.
static int drops_of(const network_case *c, double *probability) {
    network *net;
    const sr_plan *plan = compile(c, &net);
    int count = 0;
    for (int i = 0; i < sr_plan_node_count(plan); i++) {
        sr_plan_launch_view launch;
        sr_plan_get_launch(plan, i, &launch);
        if (launch.id != SR_KERNEL_drop_path)
            continue;
        const sr_drop_path_params *p = launch.params;
        assert_in_range(p->scope, 0, BLOCKS - 1);
        assert_int_equal(p->samples, SAMPLES);
        probability[p->scope] = p->probability;
        count++;
    }
    network_free(net);
    return count;
}

// Block i of n drops with i / (n - 1) of the given probability; the first one never does.
static void drop_path_is_linear(void **state) {
    (void)state;
    const network_case trained = {"resnet50", "drop_path", "0.3", true};
    const network_case evaluated = {"resnet50", "drop_path", "0.3", false};
    const network_case plain = {"resnet50", NULL, NULL, true};
    const network_case split = {"resnest50d", "drop_path", "0.1", true};
    const network_case basic = {"resnet18", "drop_path", "0.1", true};
    double probability[BLOCKS] = {0};
    assert_int_equal(drops_of(&trained, probability), BLOCKS - 1);
    for (int i = 1; i < BLOCKS; i++)
        assert_true(probability[i] == 0.3 * i / (BLOCKS - 1));
    assert_int_equal(drops_of(&evaluated, probability), 0);
    assert_int_equal(drops_of(&plain, probability), 0);
    assert_int_equal(drops_of(&split, probability), BLOCKS - 1);
    assert_int_equal(drops_of(&basic, probability), 7);
}

static int convolutions(const char *model, const char *option) {
    const network_case c = {model, option, "true", true};
    network *net;
    const sr_plan *plan = compile(&c, &net);
    int count = 0;
    for (int i = 0; i < sr_plan_node_count(plan); i++) {
        sr_plan_launch_view launch;
        sr_plan_get_launch(plan, i, &launch);
        count += strcmp(launch.op, "conv2d") == 0;
    }
    network_free(net);
    return count;
}

// In each of three stages the first block and its shortcut have a stride; the 7x7 convolution of
// pictures is not blurred, and ResNeSt averages in the place of strides.
static void strides_are_blurred(void **state) {
    (void)state;
    static const char *const models[] = {"resnet18", "resnet50", "seresnet50", "skresnet50"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        assert_int_equal(convolutions(models[i], "blurpool"), convolutions(models[i], NULL) + 6);
    assert_int_equal(convolutions("resnest50d", "blurpool"), convolutions("resnest50d", NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(drop_path_is_linear),
                                       cmocka_unit_test(strides_are_blurred)};
    return cmocka_run_group_tests_name("residual", tests, NULL, NULL);
}
