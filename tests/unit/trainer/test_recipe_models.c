// SPDX-License-Identifier: Apache-2.0
// Recipes of models inside models: options whose alternatives have options of their own, over bases
// and overrides, their mistakes and identity; weights of the models inside.
#include "tests/unit/support/test_support.h"
#include "tests/unit/trainer/recipe_fixture.h"
#include "trainer/models/model.h"

typedef struct net_options {
    sr_alternative backbone;
    double dropout;
} net_options;

static const sr_option net_rows[] = {
    {.name = "backbone",
     .type = SR_OPT_ALTERNATIVE,
     .offset = offsetof(net_options, backbone),
     .default_text = "resnet18"},
    {.name = "dropout",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(net_options, dropout),
     .default_text = "0.5"},
};
static const sr_option_table net_table = {.name = "model.net",
                                          .options = net_rows,
                                          .count = 2,
                                          .struct_size = sizeof(net_options),
                                          .alternatives = &sr_model_alternatives};
#define NET "epochs: 2\noptimizer: {name: sgd, lr: 0.1}\n"

// The backbone and its output_stride that a recipe and overrides lead to.
static void expect_backbone(const char *model, const char *const *overrides, int count,
                            const char *name, const char *stride) {
    net_options options;
    recipe_put("base.yaml", "model: {name: net, dropout: 0.25, backbone: {name: resnet50, "
                            "output_stride: 16}}\n" NET);
    recipe_put("r.yaml", model);
    sr_recipe *r = recipe_load("r.yaml", overrides, count);
    for (int i = 0; i < 2; i++) { // twice is once
        assert_ok(sr_recipe_options_parse(r, "model", &net_table, &options));
        assert_string_equal(options.backbone.name, name);
        assert_string_equal(sr_recipe_get(r, "model.backbone.name"), name);
        assert_string_equal(sr_recipe_get(r, "model.backbone.output_stride"), stride);
        assert_string_equal(sr_recipe_get(r, "model.backbone.stem"), "imagenet");
    }
    sr_recipe_free(r);
}

static void test_alternatives(void **state) {
    (void)state;
    const char *const name = "model.backbone=resnet101", *const stride =
                                                             "model.backbone.output_stride=8";
    expect_backbone("model: net\n" NET, NULL, 0, "resnet18", "32");
    expect_backbone("model: {name: net, backbone: resnet50}\n" NET, NULL, 0, "resnet50", "32");
    expect_backbone("base: base\n", NULL, 0, "resnet50", "16");
    expect_backbone("base: base\n", (const char *const[]){stride}, 1, "resnet50", "8");
    // Another name takes nothing from the base; the order of overrides does not matter.
    expect_backbone("base: base\n", (const char *const[]){name}, 1, "resnet101", "32");
    expect_backbone("base: base\n", (const char *const[]){name, stride}, 2, "resnet101", "8");
    expect_backbone("base: base\n", (const char *const[]){stride, name}, 2, "resnet101", "8");
    expect_backbone("base: base\nmodel: {backbone: {name: resnet101}}\n", NULL, 0, "resnet101",
                    "32");
    // A map over a text: the text is the name.
    expect_backbone("model: {name: net, backbone: resnet50}\n" NET, (const char *const[]){stride},
                    1, "resnet50", "8");
}

static void expect_mistake(const char *model, const char *message) {
    char text[256];
    net_options options;
    (void)snprintf(text, sizeof text, "model: %s\n" NET, model);
    sr_recipe *r = recipe_load_text(text);
    assert_status(SR_E_USAGE, sr_recipe_options_parse(r, "model", &net_table, &options));
    assert_message(message);
    sr_recipe_free(r);
}

static void test_mistakes(void **state) {
    (void)state;
    expect_mistake("{name: net, backbone: resnet5}",
                   "r.yaml:1:30: error: backbone: unknown model 'resnet5'; did you mean "
                   "'resnet50'?");
    expect_mistake("{name: net, backbone: {name: resnet50, stam: cifar}}",
                   "unknown key 'stam' of model.resnet; did you mean 'stem'?");
    expect_mistake("{name: net, backbone: {name: resnet50, stem: x}}", "stem: unknown value 'x'");
    expect_mistake("{name: net, backbone: {name: shufflenet_v2_x1_0, stem: x}}",
                   "unknown key 'stem' of shufflenet_v2_x1_0; it has no options");
    expect_mistake("{name: net, backbone: [a]}",
                   "backbone: expected a name, or a map with a name; not a list");
    expect_mistake("{name: net, bakbone: resnet18}", "did you mean 'backbone'?");
}

static void identity_of_net(const char *model, const char *const *overrides, int count,
                            char hex[65]) {
    net_options options;
    char text[256];
    (void)snprintf(text, sizeof text, "model: %s\n" NET, model);
    recipe_put("r.yaml", text);
    sr_recipe *r = recipe_load("r.yaml", overrides, count), *again;
    sr_text yaml;
    char printed[65];
    sr_text_init(&yaml);
    assert_ok(sr_recipe_options_parse(r, "model", &net_table, &options));
    assert_ok(sr_recipe_identity(r, "data", hex));
    assert_ok(sr_recipe_print_yaml(r, true, &yaml));
    recipe_put("again.yaml", yaml.data);
    again = recipe_load("again.yaml", NULL, 0);
    assert_ok(sr_recipe_options_parse(again, "model", &net_table, &options));
    assert_ok(sr_recipe_identity(again, "data", printed));
    assert_string_equal(printed, hex);
    sr_text_release(&yaml);
    sr_recipe_free(again);
    sr_recipe_free(r);
}

static void test_identity(void **state) {
    (void)state;
    char a[65], b[65], c[65], d[65];
    identity_of_net("net", NULL, 0, a);
    identity_of_net("{name: net, backbone: {name: resnet18, stem: imagenet}}", NULL, 0, b);
    identity_of_net("{name: net, backbone: {stem: cifar}}", NULL, 0, c);
    identity_of_net("{name: net, backbone: resnet34}", NULL, 0, d);
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
    assert_string_not_equal(a, d);
    // Every file counts, and what it is loaded into.
    recipe_put("w1", "one");
    recipe_put("w2", "one");
    recipe_put("w3", "two");
    identity_of_net("net", (const char *const[]){"weights.backbone=w1"}, 1, b);
    identity_of_net("net", (const char *const[]){"weights={backbone: w2}"}, 1, c);
    assert_string_equal(b, c);
    identity_of_net("net", (const char *const[]){"weights.backbone=w3"}, 1, c);
    assert_string_not_equal(b, c);
    identity_of_net("net", (const char *const[]){"weights.head=w1"}, 1, c);
    assert_string_not_equal(b, c);
    identity_of_net("net", (const char *const[]){"weights=w1"}, 1, c);
    assert_string_not_equal(b, c);
    assert_string_not_equal(a, b);
}

static void test_weights_of_parts(void **state) {
    (void)state;
    sr_recipe *r = recipe_load_text("model: net\nweights: {G: {backbone: a.st}, D: b.st}\n" NET);
    assert_int_equal(r->weights_count, 2);
    assert_string_equal(r->weights[0].part, "G.backbone");
    assert_string_equal(r->weights[0].key, "weights.G.backbone");
    assert_string_equal(r->weights[0].path, "a.st");
    assert_string_equal(r->weights[1].part, "D");
    recipe_put("deep/a.st", "");
    assert_ok(sr_recipe_use_folder(r, "deep"));
    assert_string_equal(r->weights[0].path, "deep/a.st");
    assert_string_equal(sr_recipe_get(r, "weights.G.backbone"), "deep/a.st");
    assert_string_equal(r->weights[1].path, "b.st");
    sr_recipe_free(r);
    r = recipe_load_text("model: net\nweights: a.st\n" NET);
    assert_int_equal(r->weights_count, 1);
    assert_null(r->weights[0].part);
    sr_recipe_free(r);
    r = recipe_load("r.yaml", (const char *const[]){"weights=~"}, 1);
    assert_int_equal(r->weights_count, 0);
    sr_recipe_free(r);
    recipe_put("r.yaml", "model: net\nweights: [a]\n" NET);
    assert_status(SR_E_USAGE, sr_recipe_load("r.yaml", NULL, 0, &r));
    assert_message(
        "r.yaml:2:10: error: weights: expected a file, or a map such as {backbone: FILE}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alternatives),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_weights_of_parts),
    };
    return cmocka_run_group_tests(tests, recipe_enter, recipe_leave);
}
