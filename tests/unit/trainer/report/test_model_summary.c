// SPDX-License-Identifier: Apache-2.0
// The summary of a model: figures of torchvision's pages, layers with the names of its modules.
#include "tests/unit/support/test_support.h"

#include <stdlib.h>

#include "trainer/report/model_summary.h"
#include "trainer/run/plan_report.h"
#include "trainer/tasks/task.h"

static char *summary(const char *model, const char *const *overrides, int count, int depth,
                     bool json) {
    const sr_plan_summary_options options = {.depth = depth, .json = json};
    sr_recipe *recipe;
    sr_text text;
    assert_ok(sr_recipe_for_model(model, overrides, count, &recipe));
    sr_text_init(&text);
    assert_ok(sr_plan_summary(recipe, &options, &text));
    sr_recipe_free(recipe);
    char *copy = test_calloc(1, text.length + 1);
    memcpy(copy, text.data, text.length);
    sr_text_release(&text);
    return copy;
}

static bool is_among(const char *name, const char *const *list) {
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

static double number(const char *json, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(json, key);
    assert_non_null(at);
    return strtod(at + strlen(key), NULL);
}

// Parameters and billions of multiply-adds as torchvision's pages list them ("GFLOPS" there).
static void test_published(void **state) {
    (void)state;
    static const struct {
        const char *model;
        double parameters, billions;
    } published[] = {
        {"resnet18", 11689512, 1.81},      {"resnet50", 25557032, 4.09},
        {"mobilenet_v2", 3504872, 0.30},   {"efficientnet_b0", 5288548, 0.39},
        {"squeezenet1_1", 1235496, 0.35},  {"densenet121", 7978856, 2.83},
        {"convnext_tiny", 28589128, 4.46}, {"regnet_y_400mf", 4344144, 0.40},
    };
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        char *json = summary(published[i].model, NULL, 0, 1, true);
        assert_int_equal(number(json, "parameters"), published[i].parameters);
        assert_int_equal(number(json, "trained"), published[i].parameters);
        const double billions = number(json, "multiply_adds") * 1e-9;
        if (billions < published[i].billions - 0.0051 || billions > published[i].billions + 0.0051)
            fail_msg("%s: %.4f, not %.2f", published[i].model, billions, published[i].billions);
        test_free(json);
    }
}

static void expect_line(const char *text, const char *line) {
    if (!strstr(text, line))
        fail_msg("missing: %s\nin:\n%s", line, text);
}

static void test_layers(void **state) {
    (void)state;
    static const char *const overrides[] = {"batch=2", "image=64"};
    char *json = summary("resnet18", overrides, 2, 0, true);
    expect_line(json, "{\"name\": \"conv1\", \"layer\": \"layer1.0.conv1\", \"type\": \"conv2d\", "
                      "\"depth\": 3, \"output\": {\"dtype\": \"f32\", \"shape\": [2, 16, 16, 64]}, "
                      "\"parameters\": 36864, \"trained\": 36864, \"multiply_adds\": 18874368}");
    expect_line(json, "{\"name\": \"layer2\", \"layer\": \"layer2\", \"type\": \"\", \"depth\": 1, "
                      "\"output\": {\"dtype\": \"f32\", \"shape\": [2, 8, 8, 128]}, "
                      "\"parameters\": 525568,");
    expect_line(json, "{\"name\": \"add\", \"layer\": null, \"type\": \"add\", \"depth\": 3");
    expect_line(json, "{\"name\": \"maxpool2d\", \"layer\": null, \"type\": \"maxpool2d\", "
                      "\"depth\": 1");
    expect_line(json, "\"input\": {\"dtype\": \"f32\", \"shape\": [2, 64, 64, 3]}");
    assert_null(strstr(json, "softmax"));   // the loss is no layer
    assert_null(strstr(json, "\"scale\"")); // running statistics are part of theirs
    test_free(json);
}

static void test_text(void **state) {
    (void)state;
    static const char *const frozen[] = {"image=64", "batch=4",
                                         "optimizer.groups=[{match: [\"layer*\"], frozen: true}]"};
    char *text = summary("resnet18", frozen, 3, 1, false);
    expect_line(text, "layer             type");
    expect_line(text, "trained    M mult-adds\n");
    expect_line(text, "\nresnet18 ");
    expect_line(text, " partly ");
    expect_line(text, " frozen ");
    expect_line(text, " yes ");
    expect_line(text, "  input of a lane [4, 64, 64, 3] f32\n");
    expect_line(text, " frozen; ");
    expect_line(text, "  parameters                      ");
    expect_line(text, "M multiply-adds of a lane, forward\n");
    test_free(text);
}

// Each network of a step has its own summary, with its own layers alone.
static void test_phases(void **state) {
    (void)state;
    const sr_plan_summary_options options = {.json = true};
    sr_recipe *recipe;
    sr_text text;
    assert_ok(sr_recipe_load("toy-gan", NULL, 0, &recipe));
    sr_text_init(&text);
    assert_ok(sr_plan_summary(recipe, &options, &text));
    char *end = strchr(text.data, '\n'), *second = end + 1;
    *end = '\0';
    assert_non_null(strstr(text.data, "{\"model\": \"toy-critic\""));
    assert_ptr_equal(strstr(second, "{\"model\": \"toy-generator\""), second);
    assert_null(strstr(text.data, "\"layer\": \"G"));
    assert_null(strstr(second, "\"layer\": \"D"));
    sr_text_release(&text);
    sr_recipe_free(recipe);
}

// Every model is described by its name alone, but for those that a GAN needs together.
static void test_every_model_has_a_task(void **state) {
    static const char *const segment[] = {"fcn",    "deeplabv3", "deeplabv3plus", "lraspp", "unet",
                                          "pspnet", "upernet",   "segformer",     "ocrnet", NULL};
    static const char *const none[] = {"toy-generator", "toy-critic", NULL};
    size_t count;
    const sr_model_desc *const *models = sr_models(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        const char *const name = models[i]->name;
        const sr_task_desc *task = sr_plan_task_of(name);
        if (is_among(name, none)) {
            assert_null(task);
            continue;
        }
        if (!task)
            print_error("no task for %s: %s\n", name, sr_error_message());
        assert_string_equal(task ? task->name : "none",
                            is_among(name, segment) ? "segment" : "classify");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_every_model_has_a_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
