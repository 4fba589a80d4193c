// SPDX-License-Identifier: Apache-2.0
// Recipes that are printed and load again, and their identity.
#include "tests/unit/support/test_support.h"
#include "tests/unit/trainer/recipe_fixture.h"

typedef struct sgd_options {
    double momentum, dampening, added;
} sgd_options;

static const sr_option sgd_rows[] = {
    {"momentum", "", SR_OPT_FLOAT, offsetof(sgd_options, momentum), "0", 0, 1, NULL,
     SR_OPTION_NUMERICS},
    {"dampening", "", SR_OPT_FLOAT, offsetof(sgd_options, dampening), "0.25", 0, 1, NULL,
     SR_OPTION_NEUTRAL},
    {"added", "", SR_OPT_FLOAT, offsetof(sgd_options, added), "1", 0, 9, NULL, SR_OPTION_ADDED},
};
static const sr_option_table sgd_table = {
    .name = "optimizer.sgd", .options = sgd_rows, .count = 3, .struct_size = sizeof(sgd_options)};
static const sr_option_table older_table = {
    .name = "optimizer.sgd", .options = sgd_rows, .count = 2, .struct_size = sizeof(sgd_options)};

static void identity_by(const sr_option_table *table, sr_recipe *r, char hex[65]) {
    sgd_options options;
    assert_int_equal(sr_recipe_options_parse(r, "optimizer", table, &options), SR_OK);
    assert_int_equal(sr_recipe_identity(r, "data", hex), SR_OK);
    sr_recipe_free(r);
}

static void identity_of(sr_recipe *r, char hex[65]) {
    identity_by(&sgd_table, r, hex);
}

static void test_print_loads_again(void **state) {
    (void)state;
    static const char *const texts[] = {
        RECIPE_BASIS
        "augment: [flip, {crop: {pad: 4, at: [1, 2]}}, {erase: {}}]\nabout: \"a: #b\"\n"
        "loss: {name: ce, label_smoothing: 0.1}\nexpected: {a: [1, {b: c}], d: {}}\n"
        "plugins: [\"x, y.so\", z]\n",
        RECIPE_BASIS "loss: [ce, {name: dice, weight: 3}, {name: dice, as: d2, smooth: 2}]\n",
        ("task: gan\nsteps: 10\nseed: 5\noptimizer: {lr: 2e-4, groups: [{match: \"*.bias\"}]}\n"
         "phases:\n  G: {model: gen}\n  D: {model: disc, optimizer: {lr: 1e-4}}\n"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char before[65], after[65];
        sr_text first, second;
        sr_text_init(&first);
        sr_text_init(&second);
        sr_recipe *r = recipe_load_text(texts[i]);
        assert_int_equal(sr_recipe_print_yaml(r, false, &first), SR_OK);
        assert_int_equal(sr_recipe_identity(r, "d", before), SR_OK);
        sr_recipe_free(r);
        r = recipe_load_text(first.data);
        assert_int_equal(sr_recipe_print_yaml(r, false, &second), SR_OK);
        assert_int_equal(sr_recipe_identity(r, "d", after), SR_OK);
        sr_recipe_free(r);
        assert_string_equal(first.data, second.data);
        assert_string_equal(before, after);
        sr_text_release(&first);
        sr_text_release(&second);
    }
}

static void check_identity(const char *override, bool same) {
    char plain[65], changed[65];
    identity_of(recipe_load("plain", NULL, 0), plain);
    identity_of(recipe_load("plain", &override, 1), changed);
    if ((strcmp(plain, changed) == 0) != same)
        print_error("%s\n", override);
    assert_true((strcmp(plain, changed) == 0) == same);
}

static void test_identity(void **state) {
    (void)state;
    static const char *const neutral[] = {
        "data.train=/x",
        "data.val=/y",
        "data.workers=3",
        "data.processes=0",
        "data.memory=1MiB",
        "data.on_corrupt=skip:3",
        "exchange.bucket=1MiB",
        "checkpoint.every=[5it]",
        "checkpoint.keep=9",
        "deadline.act=1h",
        "deadline.report=1s",
        "chooser=off",
        "chooser=class",
        "chooser_workspace=1MiB",
        "profile=1:2",
        "about=else",
        "numerics.strict=true",
        "numerics.portable=false",
        "device=cpu",
        "plugins=[a.so]",
        "batch=64",
        "lanes=2",
        "sync_bn=1",
        "optimizer.lr_per=64",
        "optimizer.lr=1e-1",
        "optimizer.momentum=0",
        "optimizer.dampening=0.5",
        "optimizer.added=1.0",
        "image=[224,224]",
        "schedule=constant",
        "expected={a: b}",
        "augment=[]",
        "mix={cutmix: 1, probability: 0}",
        "mix.until=90%",
        "data.repeats=1",
        "data.balance=0",
        "progressive.step=16",
        "eval.flip=true",
        "eval.shift=2",
        "eval.every=3",
        "eval.crop=200",
        "eval.filter=bicubic",
        "eval.exact=true",
    };
    static const char *const numerics[] = {
        "seed=1",
        "lanes=4",
        "sync_bn=2",
        "sync_bn=all",
        "batch=128",
        "epochs=3",
        "steps=9",
        "image=32",
        "task=gan",
        "precision=bf16",
        "numerics.portable=true",
        "data.order=chunks",
        "data.repeats=2",
        "progressive.from=160",
        "data.balance=0.5",
        "data.mean=[0,0,0]",
        "ema=0.9",
        "optimizer.lr=0.2",
        "optimizer.lr_per=256",
        "optimizer.momentum=0.5",
        "optimizer.added=2",
        "optimizer.weight_decay=1",
        "optimizer.groups=[{match: bias}]",
        "schedule.warmup=1ep",
        "schedule=cosine",
        "model=other",
        "model.width=2",
        "loss=ce",
        "loss=[{name: ce}]",
        "loss=[{name: ce, weight: 2}]",
        "augment=[flip]",
        "mix.cutmix=1",
        "weights_reset=[fc]",
    };
    for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++)
        check_identity(neutral[i], true);
    for (size_t i = 0; i < sizeof numerics / sizeof *numerics; i++)
        check_identity(numerics[i], false);
}

// Earlier builds counted the keys of evaluation.
static void test_identity_with_evaluation(void **state) {
    (void)state;
    char with[2][65];
    for (int i = 0; i < 2; i++) {
        sr_recipe *r =
            recipe_load("plain", (const char *const[]){i ? "eval.crop=200" : "seed=0"}, 1);
        assert_ok(sr_recipe_identity_with_eval(r, "data", with[i]));
        sr_recipe_free(r);
    }
    assert_string_not_equal(with[0], with[1]);
}

// The content of the weights counts, not their path.
static void test_identity_of_weights(void **state) {
    (void)state;
    char a[65], b[65], c[65];
    recipe_put("w1", "one");
    recipe_put("w2", "one");
    recipe_put("w3", "two");
    identity_of(recipe_load("plain", (const char *const[]){"weights=w1"}, 1), a);
    identity_of(recipe_load("plain", (const char *const[]){"weights=w2"}, 1), b);
    identity_of(recipe_load("plain", (const char *const[]){"weights=w3"}, 1), c);
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
}

// Names by which losses are logged are no part of it.
static void test_identity_of_losses(void **state) {
    (void)state;
    char a[65], b[65], c[65];
    identity_of(recipe_load("plain", (const char *const[]){"loss=[a, b]"}, 1), a);
    identity_of(recipe_load("plain", (const char *const[]){"loss=[a, {name: b, as: c}]"}, 1), b);
    identity_of(recipe_load("plain", (const char *const[]){"loss=[b, a]"}, 1), c);
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
}

// An option that was added is no part of it with its default.
static void test_identity_of_added_options(void **state) {
    (void)state;
    char a[65], b[65];
    identity_by(&older_table, recipe_load("plain", NULL, 0), a);
    identity_of(recipe_load("plain", NULL, 0), b);
    assert_string_equal(a, b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print_loads_again),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_identity_with_evaluation),
        cmocka_unit_test(test_identity_of_weights),
        cmocka_unit_test(test_identity_of_losses),
        cmocka_unit_test(test_identity_of_added_options),
    };
    return cmocka_run_group_tests(tests, recipe_enter, recipe_leave);
}
