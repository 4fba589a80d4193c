// SPDX-License-Identifier: Apache-2.0
// Parameter groups of an optimizer: what their patterns match, patterns that match nothing, and the
// report.
#include <math.h>
#include <unistd.h>

#include "tests/unit/support/test_support.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/param_groups.h"

static char folder[256];

static int set_up(void **state) {
    (void)state;
    test_folder_make(folder);
    return chdir(folder);
}

static int tear_down(void **state) {
    (void)state;
    test_folder_remove(folder);
    return 0;
}

typedef struct subject {
    sr_arena arena;
    sr_recipe *recipe;
    sr_model *model;
} subject;

// Of a model, with these lines of the optimizer's section.
static subject make_of(const char *model, const char *lines) {
    char text[512];
    subject s = {0};
    sr_choice_model chosen;
    sr_arena_init(&s.arena);
    (void)snprintf(text, sizeof text,
                   "model: %s\nepochs: 1\noptimizer:\n  name: sgd\n  lr: 0.1\n  %s\n", model,
                   lines);
    assert_ok(sr_file_write_atomic("r.yaml", text, strlen(text)));
    assert_ok(sr_recipe_load("r.yaml", NULL, 0, &s.recipe));
    assert_ok(sr_choose_model(s.recipe, 0, &s.arena, &chosen));
    const sr_model_build build = {
        .desc = chosen.desc, .options = chosen.options, .prefix = "", .classes = 10};
    assert_ok(sr_model_create(&build, &s.model));
    return s;
}

static subject make(const char *groups) {
    char text[384];
    (void)snprintf(text, sizeof text, "groups: %s", groups);
    return make_of("resnet18", text);
}

static void release(subject *s) {
    sr_model_free(s->model);
    sr_recipe_free(s->recipe);
    sr_arena_release(&s->arena);
}

static int group_of(const subject *s, const char *name) {
    for (int i = 0; i < s->model->param_count; i++)
        if (strcmp(s->model->params[i].name, name) == 0)
            return sr_param_group_of(&s->recipe->sets[0].optimizer, &s->model->params[i]);
    fail_msg("no tensor %s", name);
    return -1;
}

static void words(void **state) {
    (void)state;
    subject s = make("[{match: [layer1, fc.weight], frozen: true}, {match: 'layer[23]*.conv?.*'}, "
                     "{match: norm}, {match: bias}]");
    assert_ok(sr_param_groups_check(s.recipe, 0, s.model));
    assert_int_equal(1, group_of(&s, "layer1.0.conv1.weight"));
    assert_int_equal(1, group_of(&s, "layer1.1.bn2.bias")); // the first group that matches
    assert_int_equal(1, group_of(&s, "fc.weight"));
    assert_int_equal(2, group_of(&s, "layer3.1.conv2.weight"));
    assert_int_equal(3, group_of(&s, "layer2.0.bn1.weight"));
    assert_int_equal(4, group_of(&s, "fc.bias"));
    assert_int_equal(0, group_of(&s, "conv1.weight")); // no group's pattern begins with "conv1"
    release(&s);
    s = make("[{match: layer1.0.conv}]"); // no prefix that ends before a dot
    assert_int_equal(0, group_of(&s, "layer1.0.conv1.weight"));
    release(&s);
}

static void refused(const char *groups, const char *message) {
    subject s = make(groups);
    assert_status(SR_E_USAGE, sr_param_groups_check(s.recipe, 0, s.model));
    assert_message("r.yaml:6:");
    assert_message(message);
    release(&s);
}

static void words_that_match_nothing(void **state) {
    (void)state;
    refused("[{match: layr1}]",
            "'layr1' matches no tensor of model resnet18; did you mean 'layer1'?");
    refused("[{match: [norm]}, {match: [bias, fc.wieght]}]", "did you mean 'fc.weight'?");
    refused("[{match: 'stem*'}]", "; its tensors begin with conv1, bn1, layer1, layer2, layer3, "
                                  "layer4, fc; 'groups: ~' removes the groups of a base");
    subject s = make("[{match: [bias, norm]}]");
    const int count = s.model->param_count;
    s.model->param_count = 1; // conv1.weight: a model without them
    assert_ok(sr_param_groups_check(s.recipe, 0, s.model));
    s.model->param_count = 0;
    sr_text text;
    sr_text_init(&text);
    assert_ok(sr_param_groups_describe(&s.recipe->sets[0].optimizer, s.model, &text));
    assert_non_null(strstr(text.data, "0 tensors"));
    sr_text_release(&text);
    s.model->param_count = count;
    release(&s);
}

static void expect_report(subject s, const char *want) {
    sr_text text;
    sr_text_init(&text);
    assert_ok(sr_param_groups_check(s.recipe, 0, s.model));
    assert_ok(sr_param_groups_describe(&s.recipe->sets[0].optimizer, s.model, &text));
    assert_string_equal(want, text.data);
    sr_text_release(&text);
    release(&s);
}

static void report(void **state) {
    (void)state;
    expect_report(
        make("[{match: fc, frozen: true}, {match: [bias, norm], lr_scale: 2, decay_scale: "
             "0, until: 3ep}]"),
        "\ngroups of parameters\n  fc                                2 tensors,       5130 "
        "elements: frozen\n  bias, norm                       40 tensors,       9600 elements: "
        "learning rate x 2, weight decay x 0, until 3ep\n  the rest                         20 "
        "tensors,   11166912 elements: as set for the optimizer\n");
    expect_report(make("[]"), "");
}

// ---- Parameters without decay, and by layers ----

static sr_param_group settings_of(const subject *s, const char *name) {
    sr_param_groups groups;
    sr_param_group found = {0};
    assert_ok(sr_param_groups_make(&s->recipe->sets[0].optimizer, s->model, &groups));
    for (int i = 0; i < s->model->param_count; i++)
        if (strcmp(s->model->params[i].name, name) == 0)
            found = groups.items[groups.of[i]];
    sr_param_groups_free(&groups);
    return found;
}

static void no_decay(void **state) {
    (void)state;
    subject s = make_of("tiny", "no_decay: [bias, norm, embedding, 'conv2*']\n"
                                "  groups: [{match: [fc], decay_scale: 0.5, lr_scale: 3}]");
    assert_ok(
        sr_param_groups_check(s.recipe, 0, s.model)); // of a kind that the model does not have
    assert_true(settings_of(&s, "conv1.weight").decay_scale == 1);
    assert_true(settings_of(&s, "conv2.weight").decay_scale == 0);
    assert_true(settings_of(&s, "bn3.bias").decay_scale == 0);
    assert_true(settings_of(&s, "bn3.bias").lr_scale == 1);
    assert_true(settings_of(&s, "fc.weight").decay_scale == 0.5);
    assert_true(settings_of(&s, "fc.bias").decay_scale == 0);
    assert_true(settings_of(&s, "fc.bias").lr_scale == 3);
    expect_report(s, "\ngroups of parameters\n"
                     "  fc (no_decay)                     1 tensors,         10 elements: "
                     "learning rate x 3, weight decay x 0\n"
                     "  fc                                1 tensors,        320 elements: "
                     "learning rate x 3, weight decay x 0.5\n"
                     "  the rest (no_decay)               7 tensors,       2432 elements: "
                     "learning rate x 1, weight decay x 0\n"
                     "  the rest                          2 tensors,       5040 elements: "
                     "as set for the optimizer\n");
    s = make_of("tiny", "no_decay: [bias, cnov1]");
    assert_status(SR_E_USAGE, sr_param_groups_check(s.recipe, 0, s.model));
    assert_message(
        "r.yaml:6:13: error: 'cnov1' matches no tensor of model tiny; did you mean 'conv1'?");
    release(&s);
}

static void layer_decay(void **state) {
    (void)state;
    subject s =
        make_of("tiny", "layer_decay: 0.5\n"
                        "  groups: [{match: [conv1], lr_scale: 2}, {match: bn2, frozen: true}]");
    assert_ok(sr_param_groups_check(s.recipe, 0, s.model));
    assert_true(settings_of(&s, "conv1.weight").lr_scale == 0.25);
    assert_true(settings_of(&s, "bn1.weight").lr_scale == 0.125);
    assert_true(settings_of(&s, "conv3.weight").lr_scale == 0.5);
    assert_true(settings_of(&s, "fc.bias").lr_scale == 1);
    assert_true(settings_of(&s, "bn2.bias").frozen);
    expect_report(s, "\ngroups of parameters\n"
                     "  conv1 at depth 0                  1 tensors,        432 elements: "
                     "learning rate x 0.25, weight decay x 1\n"
                     "  bn2                               2 tensors,         32 elements: frozen\n"
                     "  the rest at depth 0               2 tensors,         32 elements: "
                     "learning rate x 0.125, weight decay x 1\n"
                     "  the rest at depth 1               1 tensors,       2304 elements: "
                     "learning rate x 0.25, weight decay x 1\n"
                     "  the rest at depth 2               3 tensors,       4672 elements: "
                     "learning rate x 0.5, weight decay x 1\n"
                     "  the rest at depth 3               2 tensors,        330 elements: "
                     "as set for the optimizer\n");
    // As timm's ResNet.group_matcher: the stem, each residual block, and the head.
    s = make_of("resnet18", "layer_decay: 0.5");
    assert_ok(sr_param_groups_check(s.recipe, 0, s.model));
    assert_int_equal(0, settings_of(&s, "bn1.weight").depth);
    assert_int_equal(1, settings_of(&s, "layer1.0.conv2.weight").depth);
    assert_int_equal(4, settings_of(&s, "layer2.1.bn1.bias").depth);
    assert_int_equal(9, settings_of(&s, "fc.weight").depth);
    assert_true(settings_of(&s, "layer4.1.conv1.weight").lr_scale == 0.5);
    release(&s);
    s = make_of("toy-generator", "layer_decay: 0.9");
    assert_status(SR_E_USAGE, sr_param_groups_check(s.recipe, 0, s.model));
    assert_message("r.yaml:6:16: error: model toy-generator declares no depth for");
    assert_message("which layer_decay needs; remove it, set lr_scale in groups, or call "
                   "sr_build_depth in the model");
    release(&s);
}

// ---- timm's groups ----

enum { VIT_BLOCKS = 12, SWIN_BLOCKS = 12 };

// The rules of timm's VisionTransformer.group_matcher.
static int vit_depth(const char *name) {
    int block;
    if (sscanf(name, "blocks.%d.", &block) == 1)
        return 1 + block;
    if (strncmp(name, "norm.", 5) == 0) // of the group before it
        return VIT_BLOCKS;
    return strncmp(name, "head.", 5) == 0 ? VIT_BLOCKS + 1 : 0;
}

// Those of its SwinTransformer, with torchvision's names: features.0 is the stem, 1, 3, 5 and 7 are
// stages, and what is between them is of the first block after it.
static int swin_depth(const char *name) {
    static const int before[] = {0, 2, 4, 10};
    int part, block;
    if (sscanf(name, "features.%d.%d.", &part, &block) == 2 && part % 2 == 1)
        return 1 + before[part / 2] + block;
    if (sscanf(name, "features.%d.", &part) == 1)
        return part == 0 ? 0 : 1 + before[part / 2];
    return strncmp(name, "norm.", 5) == 0 ? SWIN_BLOCKS : SWIN_BLOCKS + 1;
}

// The last part of a name is one of these words.
static bool ends_in(const char *name, const char *const *words) {
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    for (; *words; words++)
        if (strcmp(last, *words) == 0)
            return true;
    return false;
}

// timm's param_groups_layer_decay: a rate for each depth, and no decay for what has one dimension
// or is in the model's no_weight_decay.
static void check_timm(const char *model, int (*depth_of)(const char *), int last,
                       const char *const *undecayed) {
    subject s = make_of(model, "layer_decay: 0.5\n  no_decay: [bias, norm, embedding, scale]");
    sr_param_groups groups;
    const sr_recipe_optimizer *settings = &s.recipe->sets[0].optimizer;
    assert_ok(sr_param_groups_check(s.recipe, 0, s.model));
    assert_ok(sr_param_groups_make(settings, s.model, &groups));
    for (int i = 0; i < s.model->param_count; i++) {
        const sr_param *p = &s.model->params[i];
        const sr_param_group *g = &groups.items[groups.of[i]];
        const int depth = depth_of(p->name);
        if (g->depth != depth || g->lr_scale != ldexp(1, depth - last))
            fail_msg("%s: %s is at depth %d", model, p->name, g->depth);
        const bool decays = p->info.rank > 1 && !ends_in(p->name, undecayed);
        if (g->decay_scale != decays)
            fail_msg("%s: weight decay of %s is x %g", model, p->name, g->decay_scale);
    }
    // Each depth has weights with and others without decay.
    assert_int_equal(groups.count, 2 * (last + 1));
    sr_param_groups_free(&groups);
    release(&s);
}

static void groups_are_timms(void **state) {
    (void)state;
    static const char *const vit[] = {"cls_token", "pos_embed", NULL},
                             *const swin[] = {"relative_position_bias_table", NULL};
    check_timm("vit_tiny_patch16_224", vit_depth, VIT_BLOCKS + 1, vit);
    check_timm("swin_t", swin_depth, SWIN_BLOCKS + 1, swin);
    // ConvNeXt's, likewise; and its factors of blocks have one dimension in timm.
    subject s = make_of("convnext_tiny", "layer_decay: 0.5\n  no_decay: [scale]");
    assert_ok(sr_param_groups_check(s.recipe, 0, s.model));
    assert_int_equal(0, settings_of(&s, "features.0.0.weight").depth);
    assert_int_equal(3, settings_of(&s, "features.1.2.block.0.weight").depth);
    assert_int_equal(4, settings_of(&s, "features.2.1.weight").depth);
    assert_int_equal(4, settings_of(&s, "features.3.0.layer_scale").depth);
    assert_int_equal(18, settings_of(&s, "features.7.2.block.5.bias").depth);
    assert_int_equal(19, settings_of(&s, "classifier.0.weight").depth);
    assert_true(settings_of(&s, "features.3.0.layer_scale").decay_scale == 0);
    assert_true(settings_of(&s, "features.3.0.block.3.weight").decay_scale == 1);
    release(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),       cmocka_unit_test(words_that_match_nothing),
        cmocka_unit_test(report),      cmocka_unit_test(no_decay),
        cmocka_unit_test(layer_decay), cmocka_unit_test(groups_are_timms),
    };
    return cmocka_run_group_tests_name("param_groups", tests, set_up, tear_down);
}
