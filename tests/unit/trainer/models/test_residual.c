// SPDX-License-Identifier: Apache-2.0
// What a comparison with PyTorch does not reach in residual networks: stochastic depth, whose rule
// is timm's.
#include "tests/unit/support/test_support.h"

#include "graph/plan_view.h"
#include "kernels/kernel_params.h"
#include "tests/unit/trainer/network_fixture.h"

enum { SAMPLES = 2, SIDE = 32, BLOCKS = 16, LAST_DROP = BLOCKS };

// Probabilities of the plan's drop_path kernels, by their scopes.
static int drops_of(const char *model, const char *option, bool training, double *probability) {
    const char *set[] = {"drop_path", option, NULL};
    const network_options options = {.model = model,
                                     .set = option ? set : NULL,
                                     .classes = 3,
                                     .side = SIDE,
                                     .device = "cpu",
                                     .dtype = SR_F32};
    const sr_info info = {.dtype = SR_F32, .rank = 4, .dim = {SAMPLES, SIDE, SIDE, 3}};
    const sr_info key = {.dtype = SR_I32, .rank = 1, .dim = {4}};
    sr_statistics statistics = {0};
    network *net;
    sr_plan *plan;
    int count = 0;
    assert_ok(network_create(&options, &net));
    sr_context_begin_step(net->context);
    assert_ok(network_bind(net));
    sr_forward f = {.context = net->context,
                    .training = training,
                    .dtype = SR_F32,
                    .key = sr_input(net->context, 1, &key),
                    .statistics = &statistics};
    const sr_tensor x = sr_input(net->context, 0, &info);
    const sr_target target = {.tensor = net->model->desc->forward(&f, net->model->state, &x)};
    assert_ok(sr_context_status(net->context));
    assert_ok(sr_compile(net->context, &target, 1, &plan));
    for (int i = 0; i < sr_plan_node_count(plan); i++) {
        sr_plan_launch_view launch;
        sr_plan_get_launch(plan, i, &launch);
        if (launch.id != SR_KERNEL_drop_path)
            continue;
        const sr_drop_path_params *p = launch.params;
        assert_in_range(p->scope, 0, LAST_DROP - 1);
        assert_int_equal(p->samples, SAMPLES);
        probability[p->scope] = p->probability;
        count++;
    }
    sr_free(statistics.items);
    network_free(net);
    return count;
}

// Block i of n drops with i / (n - 1) of the given probability; the first one never does.
static void drop_path_is_linear(void **state) {
    (void)state;
    double probability[LAST_DROP] = {0};
    assert_int_equal(drops_of("resnet50", "0.3", true, probability), BLOCKS - 1);
    for (int i = 1; i < BLOCKS; i++)
        assert_true(probability[i] == 0.3 * i / (BLOCKS - 1));
    assert_int_equal(drops_of("resnet50", "0.3", false, probability), 0);
    assert_int_equal(drops_of("resnet50", NULL, true, probability), 0);
    assert_int_equal(drops_of("resnest50d", "0.1", true, probability), BLOCKS - 1);
    assert_int_equal(drops_of("resnet18", "0.1", true, probability), 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(drop_path_is_linear)};
    return cmocka_run_group_tests_name("residual", tests, NULL, NULL);
}
