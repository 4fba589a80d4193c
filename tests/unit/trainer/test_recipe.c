// SPDX-License-Identifier: Apache-2.0
// Recipes: every kind of error with its exact message and position, resolved values, options of
// descriptors.
#include <unistd.h>

#include "dataio/pipeline/pipeline.h"
#include "dataio/transforms/transform.h"
#include "tests/unit/support/test_support.h"
#include "tests/unit/trainer/recipe_fixture.h"

// ---- errors -------------------------------------------------------------------------------------

typedef struct mistake {
    const char *text, *message;
} mistake;

static const mistake mistakes[] = {
    {RECIPE_BASIS "optimzier: x\n",
     "r.yaml:4:1: error: unknown key 'optimzier'; did you mean 'optimizer'?\n"
     "  optimzier: x\n"
     "  ^"},
    {RECIPE_BASIS "data: {trian: x}\n",
     "r.yaml:4:8: error: unknown key 'trian'; did you mean 'train'?\n"
     "  data: {trian: x}\n"
     "         ^"},
    {RECIPE_BASIS "momentum_of_the_sea: 1\n",
     "r.yaml:4:1: error: unknown key 'momentum_of_the_sea'\n"
     "  momentum_of_the_sea: 1\n"
     "  ^"},
    {RECIPE_BASIS "weight_decay: 1\n",
     "r.yaml:4:1: error: unknown key 'weight_decay'; did you mean 'optimizer.weight_decay'?\n"
     "  weight_decay: 1\n"
     "  ^"},
    {RECIPE_BASIS "batch: many\n", "r.yaml:4:8: error: batch: expected an integer, got 'many'\n"
                                   "  batch: many\n"
                                   "         ^"},
    {RECIPE_BASIS "batch: 0\n", "r.yaml:4:8: error: batch: must be 1 to 16777216, got '0'\n"
                                "  batch: 0\n"
                                "         ^"},
    {RECIPE_BASIS "batch: [1, 2]\n", "r.yaml:4:8: error: batch: expected one value, not a list\n"
                                     "  batch: [1, 2]\n"
                                     "         ^"},
    {RECIPE_BASIS "batch: {a: 2}\n", "r.yaml:4:8: error: batch: expected a value, not a map\n"
                                     "  batch: {a: 2}\n"
                                     "         ^"},
    {RECIPE_BASIS "image: [[1], 2]\n",
     "r.yaml:4:8: error: image: expected a list of values, not a list of maps or lists\n"
     "  image: [[1], 2]\n"
     "         ^"},
    {RECIPE_BASIS "data: x\n",
     "r.yaml:4:7: error: 'data' is a section: give it a map of keys\n  data: x\n        ^"},
    {RECIPE_BASIS "batch: 64\nbatch: 32\n",
     "r.yaml:5:1: error: key 'batch' is given twice, first on line 4\n  batch: 32\n  ^"},
    {RECIPE_BASIS "about: &x y\n", "r.yaml:4:8: error: anchors ('&...') are not allowed in "
                                   "recipes; use 'base:' to share settings\n"
                                   "  about: &x y\n"
                                   "         ^"},
    {RECIPE_BASIS "about: *x\n", "r.yaml:4:8: error: aliases ('*...') are not allowed in recipes; "
                                 "quote text that starts with '*'\n  about: *x\n         ^"},
    {RECIPE_BASIS "about: !!str y\n",
     "r.yaml:4:8: error: tags ('!...') are not allowed in recipes; types come from the key\n"
     "  about: !!str y\n"
     "         ^"},
    {RECIPE_BASIS "<<: {a: 1}\n",
     "r.yaml:4:1: error: merge keys ('<<') are not allowed in recipes; use 'base:'\n"
     "  <<: {a: 1}\n"
     "  ^"},
    {RECIPE_BASIS "---\nbatch: 32\n",
     "r.yaml:4:1: error: a recipe is one document; '---' starts a second one\n  ---\n  ^"},
    {RECIPE_BASIS "? {a: 1}\n: 2\n", "r.yaml:4:3: error: a key must be text, not a map or a list\n"
                                     "  ? {a: 1}\n"
                                     "    ^"},
    {RECIPE_BASIS "eval:\n\tresize: 64\n",
     "r.yaml:5:1: error: this line is indented with a tab; YAML allows only spaces\n"},
    {RECIPE_BASIS "eval: {resize: 64}\nimage:\t[1, 2\n",
     "r.yaml:6:1: error: flow sequence without a closing bracket"},
    {RECIPE_BASIS "about: [1, 2\n", "r.yaml:5:1: error: flow sequence without a closing bracket"},
    {RECIPE_BASIS "about: \xff\n", "r.yaml:4:8: error: byte 0xff is not allowed; a recipe is UTF-8 "
                                   "text\n  about: \xff\n         ^"},
    {RECIPE_BASIS "about: a\x01\n", "r.yaml:4:9: error: byte 0x01 is not allowed; a recipe is "
                                    "UTF-8 text\n  about: a?\n          ^"},
    {RECIPE_BASIS "about: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n",
     "r.yaml:4:39: error: maps and lists are nested deeper than 32 levels\n"
     "  about: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n"
     "                                        ^"},
    {"- a\n- b\n", "r.yaml:1:1: error: a recipe is a map of 'key: value' lines\n"
                   "  - a\n"
                   "  ^"},
    {"", "r.yaml: error: 'model' is missing: name one, such as model: resnet18\nr.yaml: error: the "
         "length of training is missing: give 'epochs' or 'steps'"},
    {"model: net\nsteps: -1\noptimizer: {name: sgd, lr: 1}\n",
     "r.yaml:2:8: error: steps: must be 1 to 9e+15, got '-1'\n  steps: -1\n         ^"},
    {RECIPE_BASIS "steps: 5\n", "r.yaml:4:1: error: 'epochs' and 'steps' are mutually exclusive; "
                                "give one of them\n  steps: 5\n  ^"},
    {RECIPE_BASIS "groups: []\n",
     "r.yaml:4:1: error: unknown key 'groups'; did you mean 'optimizer.groups'?\n"
     "  groups: []\n"
     "  ^"},
    {RECIPE_BASIS "batch: 100\nlanes: 8\n",
     "r.yaml:4:8: error: batch 100 cannot be divided into 8 equal lanes; use batch 96 or 104, or "
     "change lanes\n  batch: 100\n         ^"},
    {RECIPE_BASIS "batch: 4\nlanes: 8\n",
     "r.yaml:4:8: error: batch 4 has fewer samples than its 8 lanes\n"
     "  batch: 4\n"
     "         ^"},
    {RECIPE_BASIS "image: [1, 2, 3]\n",
     "r.yaml:4:8: error: 'image' must be one number or [height, width]\n"
     "  image: [1, 2, 3]\n"
     "         ^"},
    {RECIPE_BASIS "data: {mean: [0.5]}\n",
     "r.yaml:4:14: error: data.mean has 1 values and data.std 3; both need three, one per channel\n"
     "  data: {mean: [0.5]}\n"
     "               ^"},
    {RECIPE_BASIS "data: {mean: [0.5], std: [0.5]}\n",
     "r.yaml:4:26: error: data.mean has 1 values and data.std 1; both need three, one per channel\n"
     "  data: {mean: [0.5], std: [0.5]}\n"
     "                           ^"},
    {RECIPE_BASIS "data: {on_corrupt: 'skip:99999999999999999999'}\n",
     "r.yaml:4:21: error: on_corrupt: expected stop, or skip:N with a number of samples, got "
     "'skip:99999999999999999999'\n  data: {on_corrupt: 'skip:99999999999999999999'}\n             "
     "         ^"},
    {RECIPE_BASIS "data: {on_corrupt: skip}\n",
     "r.yaml:4:20: error: on_corrupt: expected stop, or skip:N with a number of samples, got "
     "'skip'\n  data: {on_corrupt: skip}\n                     ^"},
    {RECIPE_BASIS "profile: 30:20\n", "r.yaml:4:10: error: profile: expected FIRST:LAST steps, "
                                      "such as 20:30, got '30:20'\n  profile: 30:20\n           ^"},
    {RECIPE_BASIS "checkpoint: {every: 5}\n",
     "r.yaml:4:21: error: every: expected a length or a time above zero, such as [1ep, 10min], got "
     "'5'\n  checkpoint: {every: 5}\n                      ^"},
    {RECIPE_BASIS "data: {balance: 0.5, order: chunks}\n",
     "r.yaml:4:17: error: data.balance needs 'data.order: examples'\n"
     "  data: {balance: 0.5, order: chunks}\n                  ^"},
    {RECIPE_BASIS "progressive: {from: 150}\n",
     "r.yaml:4:21: error: images cannot grow from 150 to 224 in steps of 32\n"
     "  progressive: {from: 150}\n                      ^"},
    {RECIPE_BASIS "lanes: 2\ndata: {repeats: 3}\n",
     "r.yaml:5:17: error: 3 copies of a sample need as many lanes, but lanes is 2\n"
     "  data: {repeats: 3}\n                  ^"},
    {RECIPE_BASIS "lanes: 8\nsync_bn: 3\n",
     "r.yaml:5:10: error: sync_bn: 8 lanes cannot be divided into groups of 3; use a number that "
     "divides lanes, or all\n  sync_bn: 3\n           ^"},
    {RECIPE_BASIS "sync_bn: true\n",
     "r.yaml:4:10: error: sync_bn: expected a number of lanes, or all, got 'true'\n"
     "  sync_bn: true\n           ^"},
    {RECIPE_BASIS "sync_bn: 0\n",
     "r.yaml:4:10: error: sync_bn: expected a number of lanes, or all, got '0'\n"
     "  sync_bn: 0\n           ^"},
    {RECIPE_BASIS "augment: flip\n",
     "r.yaml:4:10: error: 'augment' is a list of transforms; give the whole list, such as [flip]\n "
     " augment: flip\n           ^"},
    {RECIPE_BASIS "augment: [{flip: 1}]\n",
     "r.yaml:4:11: error: a transform is a name, or one name with a map of options, such as "
     "{pad_crop: {pad: 4}}\n  augment: [{flip: 1}]\n            ^"},
    {RECIPE_BASIS "augment: [{flip: {a: b c}}]\n",
     "r.yaml:4:22: error: an option of a transform is a value without spaces, or a list of such "
     "values\n  augment: [{flip: {a: b c}}]\n                       ^"},
    {RECIPE_BASIS "loss: []\n",
     "r.yaml:4:7: error: 'loss' is an empty list; remove it, or name a loss\n"
     "  loss: []\n"
     "        ^"},
    {RECIPE_BASIS "loss: [a, {weight: 2}, {name: b, as: a}, {name: c, as: \"d e\", weight: 0}]\n",
     "r.yaml:4:11: error: a loss of a list is a name, or a map with a name, such as {name: dice, "
     "weight: 3}\n"
     "  loss: [a, {weight: 2}, {name: b, as: a}, {name: c, as: \"d e\", weight: 0}]\n"
     "            ^\n"
     "r.yaml:4:38: error: two losses of the list are called 'a'; name one of them otherwise, such "
     "as as: a_2\n"
     "  loss: [a, {weight: 2}, {name: b, as: a}, {name: c, as: \"d e\", weight: 0}]\n"
     "                                       ^\n"
     "r.yaml:4:57: error: as: expected at most 40 letters, digits, '_' and '-', got 'd e'\n"
     "  loss: [a, {weight: 2}, {name: b, as: a}, {name: c, as: \"d e\", weight: 0}]\n"
     "                                                          ^\n"
     "r.yaml:4:71: error: weight: must be 1e-06 to 1000000, got '0'\n"
     "  loss: [a, {weight: 2}, {name: b, as: a}, {name: c, as: \"d e\", weight: 0}]\n"
     "                                                                        ^"},
    {RECIPE_BASIS "loss: {name: {}}\n", "r.yaml:4:14: error: 'name' must be text, not a map\n"
                                        "  loss: {name: {}}\n"
                                        "               ^"},
    {"model: net\nepochs: 1\noptimizer:\n  lr: 1\n  groups: [{match: a, lr_scal: 2}]\n",
     "r.yaml:5:23: error: unknown key 'lr_scal' of a group; did you mean 'lr_scale'?\n"
     "    groups: [{match: a, lr_scal: 2}]\n"
     "                        ^"},
    {"model: net\nepochs: 1\noptimizer: {lr: 1, groups: [{lr_scale: 2}]}\n",
     "r.yaml:3:29: error: a group needs 'match', which selects its parameters\n  optimizer: {lr: "
     "1, groups: [{lr_scale: 2}]}\n                              ^"},
    {"epochs: 1\nphases: {G: {model: a, optimizer: {lr: 1}, los: x}}\n",
     "r.yaml:2:44: error: unknown key 'los' of a phase; did you mean 'loss'?\n"
     "  phases: {G: {model: a, optimizer: {lr: 1}, los: x}}\n"
     "                                             ^"},
    {"epochs: 1\nphases: [a]\nmodel: x\noptimizer: {lr: 1}\n",
     "r.yaml:2:9: error: 'phases' is a map of NAME: {model, optimizer, ...}\n"
     "  phases: [a]\n"
     "          ^"},
    {"base: plan\n", "r.yaml:1:7: error: no recipe 'plan' in this file's folder or among the "
                     "shipped ones; did you mean "
                     "'plain'?\n"
                     "  base: plan\n"
                     "        ^"},
    {"base: {a: b}\n" RECIPE_BASIS,
     "r.yaml:1:7: error: 'base' is a name or a list of names, not a map\n"
     "  base: {a: b}\n"
     "        ^"},
    {RECIPE_BASIS "batch: x\nseed: y\nimage: z\n",
     "r.yaml:4:8: error: batch: expected an integer, got 'x'\n"
     "  batch: x\n"
     "         ^\n"
     "r.yaml:5:7: error: seed: expected an integer, got 'y'\n"
     "  seed: y\n"
     "        ^"},
};

// Where one error causes others, the start of the message is compared.
static void test_mistakes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        sr_recipe *recipe = NULL;
        recipe_put("r.yaml", mistakes[i].text);
        assert_int_equal(sr_recipe_load("r.yaml", NULL, 0, &recipe), SR_E_USAGE);
        assert_null(recipe);
        size_t length = strlen(mistakes[i].message);
        if (strncmp(sr_error_message(), mistakes[i].message, length) != 0)
            print_error("case %zu\n%s\n", i, mistakes[i].text);
        char begin[2048];
        snprintf(begin, sizeof begin, "%.*s", (int)length, sr_error_message());
        assert_string_equal(begin, mistakes[i].message);
    }
}

static void expect_override(const char *override, const char *message) {
    sr_recipe *recipe = NULL;
    assert_int_equal(sr_recipe_load("plain", &override, 1, &recipe), SR_E_USAGE);
    assert_string_equal(sr_error_message(), message);
}

static void test_mistakes_in_overrides(void **state) {
    (void)state;
    expect_override("optimzier.lr=1",
                    "command line: error: unknown key 'optimzier'; did you mean 'optimizer'?\n"
                    "  optimzier.lr=1\n"
                    "  ^");
    expect_override("data.wrokers=1", "command line: error: unknown key 'wrokers'; did you mean "
                                      "'workers'?\n"
                                      "  data.wrokers=1\n"
                                      "       ^");
    expect_override("batch=x", "command line: error: batch: expected an integer, got 'x'\n"
                               "  batch=x\n"
                               "        ^");
    expect_override(
        "image=[32, x]",
        "command line: error: image: expected a list of integers such as [1, 2], got '[32, x]'\n"
        "  image=[32, x]\n"
        "        ^");
    expect_override("image=[32,", "command line: error: did not find expected node content");
    expect_override("batch", "command line: error: 'batch' is not of the form key=value\n"
                             "  batch\n"
                             "  ^");
    expect_override("data.train=", "command line: error: 'data.train' has no value; 'data.train=~' "
                                   "removes the recipe's value\n  data.train=\n  ^");
    expect_override("a..b=1", "command line: error: a key consists of words joined by dots, such "
                              "as optimizer.lr\n  a..b=1\n  ^");
    expect_override(
        "base=plain",
        "command line: error: 'base' can only be set in a recipe file\n  base=plain\n  ^");
}

// Words of other libraries are suggested by the names that they have here.
static void test_foreign_words(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"batch_size=1", "'batch'"},
        {"BatchSize=1", "'batch'"},
        {"num_epochs=1", "'epochs'"},
        {"max_steps=1", "'steps'"},
        {"lr=1", "'optimizer.lr'"},
        {"learning-rate=1", "'optimizer.lr'"},
        {"optimizer.learning_rate=1", "'lr'"},
        {"weight-decay=1", "'optimizer.weight_decay'"},
        {"wd=1", "'optimizer.weight_decay'"},
        {"num_workers=1", "'data.workers'"},
        {"data.num_workers=1", "'workers'"},
        {"eval.batch_size=1", "'batch'"},
        {"img_size=1", "'image'"},
        {"warmup_epochs=1", "'schedule.warmup'"},
        {"label_smoothing=1", "'loss.label_smoothing'"},
        {"ema_decay=1", "'ema.decay'"},
        {"amp=true", "'precision'"},
        {"arch=x", "'model'"},
        {"pretrained=x", "'weights'"},
        {"clip_grad=1", "'optimizer.clip_norm'"},
        {"transforms=[flip]", "'augment'"},
        {"EPOCHS=1", "'epochs'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_recipe *recipe = NULL;
        char want[64];
        // An optimiser reads its own keys later; here they are those of this descriptor.
        const bool of_optimizer = strncmp(cases[i][0], "optimizer.", 10) == 0;
        snprintf(want, sizeof want, "did you mean %s?", cases[i][1]);
        sr_status status = sr_recipe_load("plain", &cases[i][0], 1, &recipe);
        if (of_optimizer && status == SR_OK) {
            double options;
            static const sr_option_table table = {.name = "optimizer.sgd", .struct_size = 8};
            status = sr_recipe_options_parse(recipe, "optimizer", &table, &options);
            sr_recipe_free(recipe);
        }
        assert_int_equal(status, SR_E_USAGE);
        if (!strstr(sr_error_message(), want))
            fail_msg("%s: %s", cases[i][0], sr_error_message());
    }
    static const char *const names[] = {"cosine", "step", "cross-entropy", "random_resized_crop"};
    static const char *const values[][2] = {{"CosineAnnealingLR", "cosine"},
                                            {"MultiStepLR", "step"},
                                            {"CrossEntropyLoss", "cross-entropy"},
                                            {"RandomResizedCrop", "random_resized_crop"}};
    for (size_t i = 0; i < 4; i++) {
        int index;
        char override[64], want[64];
        snprintf(override, sizeof override, "schedule=%s", values[i][0]);
        snprintf(want, sizeof want, "did you mean '%s'?", values[i][1]);
        sr_recipe *r = recipe_load("plain", (const char *const[]){override}, 1);
        assert_int_equal(sr_recipe_choose(r, "schedule", "schedule", names, 4, &index), SR_E_USAGE);
        assert_non_null(strstr(sr_error_message(), want));
        sr_recipe_free(r);
    }
}

// Lists of names are complete, or those that begin alike are; none is cut.
static void test_long_lists(void **state) {
    (void)state;
    enum { MANY = 200 };
    static char names[MANY][16];
    const char *list[MANY];
    int index;
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "%s_%c%c_9_224", i % 20 ? "resnet" : "vit",
                 'a' + i % 26, 'a' + i / 26);
        list[i] = names[i];
    }
    sr_recipe *r = recipe_load("plain", (const char *const[]){"model=vit_giant_patch14"}, 1);
    assert_int_equal(sr_recipe_choose(r, "model", "model", list, MANY, &index), SR_E_USAGE);
    const char *message = sr_error_message();
    for (int i = 0; i < MANY; i += 20)
        assert_non_null(strstr(message, list[i]));
    assert_null(strstr(message, "resnet"));
    assert_non_null(strstr(message, "'serried info models'"));
    sr_recipe_free(r);
    r = recipe_load("plain", (const char *const[]){"model=unlike"}, 1);
    assert_int_equal(sr_recipe_choose(r, "model", "loss", list, MANY, &index), SR_E_USAGE);
    assert_non_null(strstr(sr_error_message(), "'serried info losses' lists all 200"));
    sr_recipe_free(r);
    r = recipe_load("plain", (const char *const[]){"model=unlike"}, 1);
    assert_int_equal(sr_recipe_choose(r, "model", "model", list, 30, &index), SR_E_USAGE);
    assert_non_null(strstr(sr_error_message(), list[29]));
    assert_null(strstr(sr_error_message(), "..."));
    sr_recipe_free(r);
}

// A recipe whose model the command line replaces is another one, and named so.
static void test_name_of_other_model(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"model=other", "plain-other"},
                                           {"model.name=other", "plain-other"},
                                           {"model={name: a/b}", "plain-a_b"},
                                           {"model=net", "plain"},
                                           {"seed=3", "plain"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_recipe *r = recipe_load("plain", &cases[i][0], 1);
        assert_string_equal(r->name, cases[i][1]);
        sr_recipe_free(r);
    }
}

static void test_missing_files(void **state) {
    (void)state;
    sr_recipe *recipe = NULL;
    assert_int_equal(sr_recipe_load("plian", NULL, 0, &recipe), SR_E_NOT_FOUND);
    assert_string_equal(sr_error_message(),
                        "no shipped recipe 'plian'; did you mean 'plain'? ('serried recipe list' "
                        "lists them; a file needs its ending, such as my.yaml)");
    assert_int_equal(sr_recipe_load("./none.yaml", NULL, 0, &recipe), SR_E_NOT_FOUND);
    assert_string_equal(sr_error_message(), "./none.yaml: no such recipe file");
}

static void test_too_large(void **state) {
    (void)state;
    sr_recipe *recipe = NULL;
    size_t bytes = (1u << 20) + 2;
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, '#', bytes - 1);
    text[bytes - 1] = '\0';
    recipe_put("r.yaml", text);
    free(text);
    assert_int_equal(sr_recipe_load("r.yaml", NULL, 0, &recipe), SR_E_USAGE);
    assert_string_equal(sr_error_message(),
                        "r.yaml: error: a recipe and its bases may have at most 1 MiB in all");
}

static void test_many_mistakes_are_counted(void **state) {
    (void)state;
    char text[4096] = RECIPE_BASIS;
    for (int i = 0; i < 100; i++)
        sprintf(text + strlen(text), "wrong_%d: 1\n", i);
    sr_recipe *recipe = NULL;
    recipe_put("r.yaml", text);
    assert_int_equal(sr_recipe_load("r.yaml", NULL, 0, &recipe), SR_E_USAGE);
    assert_non_null(strstr(sr_error_message(), "unknown key 'wrong_10'"));
    assert_non_null(strstr(sr_error_message(), " more mistakes)"));
}

static void test_out_of_memory(void **state) {
    (void)state;
    const char *const overrides[] = {"seed=1", "wrong=1", "data.mean=[1, 2, 3]"};
    for (int count = 1; count <= 3; count += 2) {
        sr_status expected = count == 1 ? SR_OK : SR_E_USAGE, status = SR_E_MEMORY;
        int n = 0;
        while (status == SR_E_MEMORY && n < 10000) {
            sr_recipe *recipe = NULL;
            uint64_t before = sr_memory_get_stats().live_blocks;
            sr_memory_fail_nth((uint64_t)++n);
            status = sr_recipe_load("planar", overrides, count, &recipe);
            sr_memory_fail_nth(0);
            sr_recipe_free(recipe);
            assert_int_equal(sr_memory_get_stats().live_blocks, before);
        }
        assert_true(n > 5);
        assert_int_equal(status, expected);
    }
}

// ---- values -------------------------------------------------------------------------------------

static void test_defaults(void **state) {
    (void)state;
    sr_recipe *r = recipe_load_text(RECIPE_BASIS);
    assert_string_equal(r->name, "r");
    assert_string_equal(r->file, "r.yaml");
    assert_string_equal(r->task.name, "classify");
    assert_int_equal(r->batch, 256);
    assert_int_equal(r->lanes, 8);
    assert_int_equal(r->image_height, 224);
    assert_int_equal(r->image_width, 224);
    assert_int_equal(r->eval.crop_height, 224);
    assert_int_equal(r->eval.crop_width, 224);
    assert_int_equal(r->eval.resize_height, 256);
    assert_int_equal(r->eval.resize_width, 0);
    assert_int_equal(r->eval.batch, 256);
    assert_int_equal(r->phase_count, 1);
    assert_string_equal(r->phases[0].name, "");
    assert_string_equal(r->sets[0].schedule.choice.name, "constant");
    assert_null(r->phases[0].losses[0].choice.name);
    assert_null(r->data.train);
    assert_int_equal(r->data.mean.count, 3);
    assert_int_equal(r->data.order, SR_ORDER_EXAMPLES);
    assert_false(r->data.threads);
    assert_int_equal(r->checkpoint.every.unit, SR_LENGTH_EPOCHS);
    assert_true(r->checkpoint.every.count == 1.0);
    assert_true(r->checkpoint.seconds == 600.0);
    assert_true(r->deadline_act == 120.0);
    assert_true(r->ema.decay == 0.0);
    assert_int_equal(r->augment_count, 0);
    sr_recipe_free(r);
}

static void test_values(void **state) {
    (void)state;
    sr_recipe *r =
        recipe_load_text("model: {name: resnet18, width: 2}\nsteps: 1e3\nbatch: 1024\n"
                         "optimizer: {lr: 0.5, lr_per: 256, groups: [{match: [bias, norm], "
                         "decay_scale: 0}, {match: stem.*, frozen: yes}]}\n"
                         "schedule: {name: cosine, warmup: 5ep}\n"
                         "augment: [flip, {pad_crop: {pad: 4, fill: [1, 2]}}]\n"
                         "image: [32, 48]\nema: 0.99\nprofile: 20:30\n"
                         "data: {on_corrupt: skip:7, processes: 0, memory: 64MiB}\n"
                         "checkpoint: {every: [500it, 2h]}\nabout: no\n");
    assert_string_equal(r->about, "no");
    assert_int_equal(r->steps, 1000);
    assert_true(r->epochs == 0.0);
    assert_int_equal(r->lanes, 32);
    assert_int_equal(r->image_height, 32);
    assert_int_equal(r->image_width, 48);
    assert_int_equal(r->eval.crop_height, 32);
    assert_int_equal(r->eval.crop_width, 48);
    assert_int_equal(r->eval.resize_height, 32);
    assert_int_equal(r->eval.resize_width, 48);
    const sr_recipe_optimizer *optimizer = &r->sets[0].optimizer;
    assert_true(optimizer->lr == 2.0);
    assert_true(optimizer->lr_given == 0.5);
    assert_int_equal(optimizer->group_count, 2);
    assert_int_equal(optimizer->groups[0].match.count, 2);
    assert_string_equal(optimizer->groups[0].match.items[1], "norm");
    assert_true(optimizer->groups[0].decay_scale == 0.0);
    assert_true(optimizer->groups[0].lr_scale == 1.0);
    assert_true(optimizer->groups[1].frozen);
    assert_int_equal(r->sets[0].schedule.warmup.unit, SR_LENGTH_EPOCHS);
    assert_int_equal(r->augment_count, 2);
    assert_string_equal(r->augment[0].name, "flip");
    assert_string_equal(r->augment[0].arguments, "");
    assert_string_equal(r->augment[1].name, "pad_crop");
    assert_string_equal(r->augment[1].arguments, "pad=4 fill=1,2");
    assert_true(r->ema.decay == 0.99);
    assert_int_equal(r->profile_begin, 20);
    assert_int_equal(r->profile_end, 30);
    assert_int_equal(r->data.on_corrupt, SR_CORRUPT_SKIP);
    assert_int_equal(r->data.skip_limit, 7);
    assert_true(r->data.threads);
    assert_int_equal(r->data.memory, 64 << 20);
    assert_int_equal(r->checkpoint.every.unit, SR_LENGTH_STEPS);
    assert_true(r->checkpoint.seconds == 7200.0);
    assert_string_equal(sr_recipe_get(r, "model.width"), "2");
    assert_null(sr_recipe_get(r, "model.depth"));
    sr_recipe_free(r);
}

static void test_phases(void **state) {
    (void)state;
    sr_recipe *r = recipe_load_text("task: gan\nsteps: 10\n"
                                    "optimizer: {name: adam, lr: 2e-4, betas: [0.5, 0.999]}\n"
                                    "phases:\n  G: {model: gen, loss: g}\n"
                                    "  D: {model: {name: disc}, optimizer: {lr: 1e-4}, loss: d}\n");
    assert_int_equal(r->phase_count, 2);
    assert_string_equal(r->phases[0].name, "G");
    assert_true(r->sets[0].optimizer.lr == 2e-4);
    assert_string_equal(r->sets[1].model.name, "disc");
    assert_string_equal(r->sets[1].optimizer.choice.name, "adam");
    assert_string_equal(r->sets[1].optimizer.choice.path, "phases.D.optimizer");
    assert_true(r->sets[1].optimizer.lr == 1e-4);
    assert_null(sr_recipe_get(r, "optimizer.lr"));
    assert_string_equal(sr_recipe_get(r, "phases.D.optimizer.lr"), "0.0001");
    sr_recipe_free(r);
}

static void test_list(void **state) {
    (void)state;
    sr_arena arena;
    sr_arena_init(&arena);
    sr_recipe_listing *items;
    int count;
    assert_int_equal(sr_recipe_list(&arena, &items, &count), SR_OK);
    assert_int_equal(count, 2);
    assert_string_equal(items[0].name, "plain");
    assert_string_equal(items[0].about, "a \"plain\" one");
    assert_string_equal(items[1].name, "planar");
    assert_string_equal(items[1].about, "");
    sr_arena_release(&arena);
}

// ---- options of descriptors ---------------------------------------------------------------------

typedef struct sgd_options {
    double momentum, dampening;
    bool nesterov;
} sgd_options;

static const sr_option sgd_rows[] = {
    {"momentum", "", SR_OPT_FLOAT, offsetof(sgd_options, momentum), "0", 0, 1, NULL,
     SR_OPTION_NUMERICS},
    {"dampening", "", SR_OPT_FLOAT, offsetof(sgd_options, dampening), "0.25", 0, 1, NULL,
     SR_OPTION_NEUTRAL},
    {"nesterov", "", SR_OPT_BOOL, offsetof(sgd_options, nesterov), "false", 0, 0, NULL,
     SR_OPTION_NUMERICS},
};
static const sr_option_table sgd_table = {
    .name = "optimizer.sgd", .options = sgd_rows, .count = 3, .struct_size = sizeof(sgd_options)};

static void test_options(void **state) {
    (void)state;
    sgd_options options;
    sr_recipe *r =
        recipe_load_text("model: net\nepochs: 2\noptimizer:\n  lr: 0.1\n  momentum: 0.9\n");
    assert_int_equal(sr_recipe_options_parse(r, "optimizer", &sgd_table, &options), SR_OK);
    assert_true(options.momentum == 0.9);
    assert_true(options.dampening == 0.25);
    assert_string_equal(sr_recipe_get(r, "optimizer.dampening"), "0.25");
    // Parsing again gives the same pointer.
    assert_int_equal(sr_recipe_options_parse(r, "optimizer", &sgd_table, &options), SR_OK);
    assert_true(options.momentum == 0.9);
    sr_recipe_free(r);

    r = recipe_load_text("model: net\nepochs: 2\noptimizer:\n  lr: 0.1\n  momentun: 0.9\n"
                         "  nesterov: maybe\n");
    assert_int_equal(sr_recipe_options_parse(r, "optimizer", &sgd_table, &options), SR_E_USAGE);
    assert_string_equal(
        sr_error_message(),
        "r.yaml:5:3: error: unknown key 'momentun' of optimizer.sgd; did you mean 'momentum'?\n"
        "    momentun: 0.9\n"
        "    ^\n"
        "r.yaml:6:13: error: nesterov: expected true or false, got 'maybe'\n"
        "    nesterov: maybe\n"
        "              ^");
    sr_recipe_free(r);
}

static void test_transform_options(void **state) {
    (void)state;
    sgd_options options;
    sr_recipe *r =
        recipe_load_text(RECIPE_BASIS "augment: [flip, {crop: {momentum: 0.5}}, {crop: {x: 1}}]\n");
    assert_int_equal(sr_recipe_options_parse(r, "augment[0]", &sgd_table, &options), SR_OK);
    assert_true(options.momentum == 0.0);
    assert_int_equal(sr_recipe_options_parse(r, "augment[1]", &sgd_table, &options), SR_OK);
    assert_true(options.momentum == 0.5);
    assert_int_equal(sr_recipe_options_parse(r, "augment[2]", &sgd_table, &options), SR_E_USAGE);
    assert_string_equal(sr_error_message(),
                        "r.yaml:4:50: error: unknown key 'x' of optimizer.sgd\n"
                        "  augment: [flip, {crop: {momentum: 0.5}}, {crop: {x: 1}}]\n"
                        "                                                   ^");
    sr_recipe_free(r);
}

// Options of losses in a list, with a weight and a name that are not among their own.
static void test_loss_list(void **state) {
    (void)state;
    sgd_options options;
    sr_recipe *r = recipe_load_text(
        RECIPE_BASIS "loss: [ce, {name: dice, weight: 3}, {name: dice, as: d2, momentum: 0.5}]\n");
    const sr_recipe_phase *phase = &r->phases[0];
    assert_int_equal(phase->loss_count, 3);
    assert_string_equal(phase->losses[0].choice.name, "ce");
    assert_string_equal(phase->losses[0].name, "ce");
    assert_true(phase->losses[0].weight == 1 && phase->losses[1].weight == 3);
    assert_string_equal(phase->losses[1].name, "dice");
    assert_string_equal(phase->losses[2].choice.name, "dice");
    assert_string_equal(phase->losses[2].choice.path, "loss[2]");
    assert_string_equal(phase->losses[2].name, "d2");
    assert_ok(sr_recipe_options_parse(r, "loss[1]", &sgd_table, &options));
    assert_true(options.momentum == 0);
    assert_ok(sr_recipe_options_parse(r, "loss[2]", &sgd_table, &options));
    assert_true(options.momentum == 0.5);
    sr_recipe_free(r);
    r = recipe_load("r.yaml", (const char *const[]){"loss={name: dice, weight: 2}"}, 1);
    assert_true(r->phases[0].loss_count == 1 && !r->phases[0].losses[0].name);
    assert_status(SR_E_USAGE, sr_recipe_options_parse(r, "loss", &sgd_table, &options));
    assert_non_null(strstr(sr_error_message(), "unknown key 'weight' of optimizer.sgd; a loss of a "
                                               "list has it, such as [{name: dice, weight: 3}]"));
    sr_recipe_free(r);
    const char *const override = "loss.momentum=0.5";
    assert_status(SR_E_USAGE, sr_recipe_load("r.yaml", &override, 1, &r));
    assert_non_null(strstr(sr_error_message(), "'loss' is a list in the recipe that this changes"));
}

// Every transform has 'from' and 'until', which are not among its own options.
static void test_spans(void **state) {
    (void)state;
    sr_recipe *r = recipe_load_text(
        RECIPE_BASIS "augment: [flip, {crop: {until: 90%, pad: 2}}, {resize: {from: 10ep}}]\n"
                     "mix: {mixup: 0.2, until: 75%}\n");
    assert_int_equal(r->augment_count, 3);
    assert_true(r->augment_spans[0].until.count == 0 && r->augment_spans[0].from.count == 0);
    assert_true(r->augment_spans[1].until.count == 90);
    assert_int_equal(r->augment_spans[1].until.unit, SR_LENGTH_PERCENT);
    assert_string_equal(r->augment[1].arguments, "pad=2");
    assert_true(r->augment_spans[2].from.count == 10);
    assert_string_equal(r->augment[2].arguments, "");
    assert_int_equal(r->mix.until.unit, SR_LENGTH_PERCENT);
    sr_recipe_free(r);
    recipe_put("r.yaml", RECIPE_BASIS "augment: [{flip: {until: soon}}]\n");
    assert_int_equal(sr_recipe_load("r.yaml", NULL, 0, &r), SR_E_USAGE);
    assert_non_null(
        strstr(sr_error_message(), "r.yaml:4:26: error: until: expected a length such"));
}

static void test_choose_and_fail(void **state) {
    (void)state;
    static const char *const names[] = {"adam", "sgdw"};
    int index = -1;
    sr_recipe *r = recipe_load_text(RECIPE_BASIS);
    assert_int_equal(sr_recipe_choose(r, "optimizer", "optimizer", names, 2, &index), SR_E_USAGE);
    assert_string_equal(sr_error_message(),
                        "r.yaml:3:19: error: unknown optimizer 'sgd'; did you mean 'sgdw'?\n"
                        "  optimizer: {name: sgd, lr: 0.1}\n"
                        "                    ^");
    sr_recipe_free(r);
    const char *const override = "optimizer.name=sgdw";
    r = recipe_load("r.yaml", (const char *const[]){override, "optimizer.lr=1"}, 2);
    assert_int_equal(sr_recipe_choose(r, "optimizer", "optimizer", names, 2, &index), SR_OK);
    assert_int_equal(index, 1);
    assert_int_equal(sr_recipe_fail(r, "lanes", "only %d ranks", 8), SR_E_USAGE);
    assert_string_equal(sr_error_message(), "r.yaml: error: only 8 ranks");
    sr_recipe_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_mistakes_in_overrides),
        cmocka_unit_test(test_foreign_words),
        cmocka_unit_test(test_long_lists),
        cmocka_unit_test(test_name_of_other_model),
        cmocka_unit_test(test_missing_files),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_many_mistakes_are_counted),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_transform_options),
        cmocka_unit_test(test_loss_list),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_choose_and_fail),
    };
    return cmocka_run_group_tests(tests, recipe_enter, recipe_leave);
}
