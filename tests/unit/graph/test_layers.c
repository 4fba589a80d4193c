// SPDX-License-Identifier: Apache-2.0
// The layers of recorded calls (graph/call_layers.h).
#include "tests/unit/support/test_support.h"

#include "autograd/gradients.h"
#include "graph/layer_tree.h"

enum { MOST = 64, BLOCKS = 3 };

static const sr_info shape = {.dtype = SR_F32, .rank = 2, .dim = {4, 4}};

static sr_context *begin(void) {
    sr_context *context;
    assert_ok(sr_context_create(NULL, &context));
    return context;
}

static sr_tensor weight(sr_context *context, const char *name) {
    return sr_variable(context, name, &shape, NULL);
}

static void expect(const sr_context *context, const char *const *want, int count) {
    sr_layer layers[MOST];
    char got[128];
    assert_int_equal(sr_call_count(context), count);
    assert_ok(sr_call_layers(context, layers));
    for (int i = 0; i < count; i++) {
        snprintf(got, sizeof got, "%.*s", layers[i].name ? layers[i].length : 6,
                 layers[i].name ? layers[i].name : sr_no_layer);
        sr_call_view view;
        sr_call_get(context, i, &view);
        if (strcmp(got, want[i]) != 0)
            print_error("call %d, %s: '%s', not '%s'\n", i, view.op->name, got, want[i]);
        assert_string_equal(got, want[i]);
    }
}

static sr_tensor block(sr_tensor x, sr_tensor a, sr_tensor b) {
    sr_tensor y = sr_relu(sr_linear(x, a, SR_NONE));
    return sr_relu(sr_add(sr_linear(y, b, SR_NONE), x));
}

// A stem, blocks and a head, each in its own lines.
static void test_lines_of_blocks(void **state) {
    (void)state;
    sr_context *context = begin();
    char name[64];
    sr_tensor x = sr_linear(sr_input(context, 0, &shape), weight(context, "stem.weight"), SR_NONE);
    x = sr_relu(x);
    for (int i = 0; i < BLOCKS; i++) {
        snprintf(name, sizeof name, "blocks.%d.a.weight", i);
        const sr_tensor a = weight(context, name);
        snprintf(name, sizeof name, "blocks.%d.b.weight", i);
        x = block(x, a, weight(context, name));
    }
    x = sr_tanh_op(x);
    (void)sr_linear(x, weight(context, "head.weight"), SR_NONE);
    assert_ok(sr_context_status(context));
    static const char *const want[] = {
        "stem",       "",         "blocks.0.a", "blocks.0", "blocks.0.b", "blocks.0",   "blocks.0",
        "blocks.1.a", "blocks.1", "blocks.1.b", "blocks.1", "blocks.1",   "blocks.2.a", "blocks.2",
        "blocks.2.b", "blocks.2", "blocks.2",   "",         "head"};
    expect(context, want, (int)(sizeof want / sizeof *want));
    sr_context_free(context);
}

// Gradients belong to what they differentiate, wherever they are recorded.
static void test_gradients(void **state) {
    (void)state;
    sr_context *context = begin();
    const sr_tensor w = weight(context, "a.weight");
    (void)sr_layer_use(context, "");
    sr_tensor x = sr_square(sr_linear(sr_input(context, 0, &shape), w, SR_NONE)), grad;
    (void)sr_layer_use(context, sr_no_layer);
    sr_tensor loss = sr_reduce_sum(x);
    sr_gradients(loss, SR_NONE, &w, 1, &grad);
    assert_ok(sr_context_status(context));
    sr_layer layers[MOST];
    const int count = sr_call_count(context);
    assert_ok(sr_call_layers(context, layers));
    assert_null(layers[2].name);
    int of_a = 0, outside = 0;
    for (int i = 3; i < count; i++) {
        sr_call_view view;
        sr_call_get(context, i, &view);
        assert_true(view.backward);
        of_a += sr_layer_within(layers[i], (sr_layer){"a", 1});
        outside += layers[i].name == NULL;
    }
    sr_call_view last;
    sr_call_get(context, count - 1, &last);
    assert_string_equal(last.op->name, "linear_dw");
    assert_int_equal(of_a, 1);
    assert_true(outside >= 1);
    sr_context_free(context);
}

// A mean that is read belongs to the normalisation; names given by hand win over those around.
static void test_statistics_and_names(void **state) {
    (void)state;
    static const sr_info channels = {.dtype = SR_F32, .rank = 1, .dim = {4}};
    sr_context *context = begin();
    const sr_tensor gamma = sr_variable(context, "n.bn.weight", &channels, NULL);
    const sr_tensor x = sr_input(context, 0, &shape);
    const sr_batchnorm_out out = sr_batchnorm_train(x, gamma, SR_NONE, 1e-5);
    (void)sr_scale(out.var, 2, 0);
    assert_string_equal(sr_layer_use(context, "head"), "");
    const sr_tensor y = sr_square(out.y);
    (void)sr_linear(y, weight(context, "head.fc.weight"), SR_NONE);
    (void)sr_linear(y, weight(context, "tail.weight"), SR_NONE);
    assert_string_equal(sr_layer_use(context, sr_no_layer), "head");
    (void)sr_abs(y);
    assert_ptr_equal(sr_layer_use(context, ""), sr_no_layer);
    assert_ok(sr_context_status(context));
    static const char *const want[] = {"n.bn", "n.bn", "head", "head.fc", "head", "(none)"};
    expect(context, want, (int)(sizeof want / sizeof *want));
    // A step begins without a name.
    (void)sr_layer_use(context, "head");
    sr_context_begin_step(context);
    assert_string_equal(sr_layer_use(context, ""), "");
    sr_context_free(context);
}

static sr_layer layer(const char *name) {
    return (sr_layer){name, (int)strlen(name)};
}

static void test_tree(void **state) {
    (void)state;
    static const char *const want[] = {"a", "b", "c", "d"};
    sr_layer_tree tree;
    int c, other, operator_of_b;
    assert_int_equal(sr_layer_depth(layer("a.b.c")), 3);
    assert_int_equal(sr_layer_depth(layer("")), 0);
    assert_int_equal(sr_layer_cut(layer("a.bc.d"), 2).length, 4);
    assert_int_equal(sr_layer_cut(layer("a.bc"), 7).length, 4);
    assert_false(sr_layer_within(layer("ab.c"), layer("a")));
    assert_true(sr_layer_within(layer("a.c"), layer("a")));
    assert_false(sr_layer_within((sr_layer){0}, layer("")));
    assert_ok(sr_layer_tree_init(&tree, layer("")));
    assert_ok(sr_layer_tree_find(&tree, layer("a.b.c"), &c));
    assert_ok(sr_layer_tree_find(&tree, layer("d"), &other));
    assert_int_equal(tree.count, 5);
    assert_true(sr_layer_tree_is_around(&tree, 0, c));
    assert_false(sr_layer_tree_is_around(&tree, other, c));
    assert_false(sr_layer_tree_is_around(&tree, 0, -1));
    int i = 0;
    for (int n = sr_layer_tree_next(&tree, 0); n >= 0; n = sr_layer_tree_next(&tree, n))
        assert_memory_equal(sr_layer_tree_name(&tree, n).name, want[i++], 1);
    assert_int_equal(i, 4);
    assert_ok(sr_layer_tree_add(&tree, tree.nodes[c].parent, (sr_layer){0}, &operator_of_b));
    assert_int_equal(tree.nodes[operator_of_b].depth, 3);
    assert_int_equal(tree.nodes[tree.nodes[c].parent].layers, 1);
    sr_layer_tree_release(&tree);
}

// Plans keep the names: profiles have them.
static void test_profile(void **state) {
    (void)state;
    sr_context *context = begin();
    sr_executor *executor;
    sr_plan *plan;
    sr_node_profile rows[8];
    assert_ok(sr_executor_create(sr_context_device(context), 1, &executor));
    const sr_tensor w = weight(context, "a.weight");
    const sr_target target = {.tensor = sr_linear(w, w, SR_NONE)};
    const sr_run run = {0};
    assert_ok(sr_compile(context, &target, 1, &plan));
    sr_executor_set_profiling(executor, true);
    assert_ok(sr_executor_begin(executor, plan, &run));
    assert_ok(sr_executor_wait(executor));
    assert_int_equal(sr_executor_get_profile(executor, rows, 8), 1);
    assert_int_equal(rows[0].layer_length, 1);
    assert_memory_equal(rows[0].layer, "a", 1);
    assert_false(rows[0].backward);
    sr_executor_free(executor);
    sr_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_of_blocks),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_statistics_and_names),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_profile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
