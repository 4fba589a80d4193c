// SPDX-License-Identifier: Apache-2.0
// Layers of recipes: bases, overrides, and values of one layer that depend on another's.
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/transforms/transform.h"
#include "tests/unit/support/test_support.h"
#include "tests/unit/trainer/recipe_fixture.h"

static void test_circle(void **state) {
    (void)state;
    sr_recipe *recipe = NULL;
    recipe_put("a.yaml", "base: b\n" RECIPE_BASIS);
    recipe_put("b.yaml", "base: a\n");
    assert_int_equal(sr_recipe_load("a.yaml", NULL, 0, &recipe), SR_E_USAGE);
    assert_string_equal(sr_error_message(), "b.yaml:1:7: error: base 'a' is itself based on this "
                                            "file: bases form a cycle\n  base: a\n        ^");
    // What is missing may be in the base that cannot be loaded: it is not reported as another
    // error.
    recipe_put("a.yaml", "base: b\n");
    assert_int_equal(sr_recipe_load("a.yaml", NULL, 0, &recipe), SR_E_USAGE);
    assert_null(strstr(sr_error_message(), "missing"));
    recipe_put("a.yaml", "base: deep\n");
    assert_int_equal(sr_recipe_load("a.yaml", NULL, 0, &recipe), SR_E_USAGE);
    assert_string_equal(sr_error_message(),
                        "a.yaml:1:7: error: base 'deep' cannot be used: deep: cannot read: Is a "
                        "directory\n  base: deep\n        ^");
    // A file with the name of a shipped recipe may extend the shipped one.
    recipe_put("plain.yaml", "base: plain\nbatch: 16\n");
    recipe = recipe_load("plain.yaml", NULL, 0);
    assert_int_equal(recipe->batch, 16);
    assert_string_equal(recipe->sets[0].model.name, "net");
    sr_recipe_free(recipe);
    assert_int_equal(remove("plain.yaml"), 0);
}

// Each recipe names the one before it twice, so that the last one would read 2^19 files.
static void test_many_bases(void **state) {
    (void)state;
    sr_recipe *recipe = NULL;
    char name[16], text[64];
    recipe_put("x0.yaml", RECIPE_BASIS);
    for (int i = 1; i <= 12; i++) {
        (void)snprintf(name, sizeof name, "x%d.yaml", i);
        (void)snprintf(text, sizeof text, "base: [x%d, x%d]\n", i - 1, i - 1);
        recipe_put(name, text);
    }
    sr_recipe_free(recipe_load("x4.yaml", NULL, 0)); // 30 bases
    assert_int_equal(sr_recipe_load("x5.yaml", NULL, 0, &recipe), SR_OK);
    sr_recipe_free(recipe);
    assert_int_equal(sr_recipe_load("x12.yaml", NULL, 0, &recipe), SR_E_USAGE);
    assert_message("x1.yaml:1:8: error: more than 64 bases in all");
    assert_null(strstr(sr_error_message(), "mistake")); // reported once
    // A list of recipes that do not exist, each of which would be looked for.
    sr_text list;
    sr_text_init(&list);
    sr_text_add(&list, "base: [no");
    for (int i = 0; i < 40000; i++)
        sr_text_add(&list, ", missing");
    sr_text_add(&list, "]\n");
    recipe_put("many.yaml", list.data);
    sr_text_release(&list);
    assert_int_equal(sr_recipe_load("many.yaml", NULL, 0, &recipe), SR_E_USAGE);
    const char *rest = strrchr(sr_error_message(), '(');
    assert_non_null(rest);
    assert_true(strtol(rest + 1, NULL, 10) < 64); // the other mistakes
}

// Of a base with 90 epochs: what is inherited keeps its share of the run, what is set is as it
// says.
static void test_lengths_of_a_base(void **state) {
    (void)state;
    static const char low[] =
        "model: net\nbatch: 8\nepochs: 90\noptimizer: {name: sgd, lr: 1, groups: [{match: [a], "
        "until: 30ep}]}\nschedule: {name: step, milestones: [30, 60], of: 90, warmup: 9ep}\n"
        "ema: {decay: 0.9, warmup: 18ep}\nmix: {mixup: 1, until: 100it}\n"
        "progressive: {end: 50%}\naugment: [{crop: {until: 45ep}}]\n"
        "checkpoint: {every: [1ep]}\n";
    static const struct {
        const char *text, *override, *of, *warmup, *average, *crop;
    } rows[] = {
        {"base: low\n", NULL, "90", "9ep", "18ep", "45ep"},
        {"base: low\nepochs: 90\n", NULL, "90", "9ep", "18ep", "45ep"},
        {"base: low\nepochs: 6\n", NULL, "90", "10%", "20%", "50%"},
        {"base: low\nsteps: 6\n", NULL, "90", "10%", "20%", "50%"},
        {"base: low\nepochs: 6\nschedule: {milestones: [2, 4]}\n", NULL, NULL, "10%", "20%", "50%"},
        {"base: low\nepochs: 6\nschedule: {milestones: [2, 4], of: 6, warmup: 1ep}\n", NULL, "6",
         "1ep", "20%", "50%"},
        {"base: low\nepochs: 6\naugment: [{crop: {until: 5ep}}]\nema: {warmup: 3ep}\n", NULL, "90",
         "10%", "3ep", "5ep"},
        {"base: low\n", "epochs=6", "90", "9ep", "18ep", "45ep"},
        {"base: low\n", "schedule.milestones=[2, 4]", NULL, "9ep", "18ep", "45ep"},
        {"base: low\n", "schedule.every=3", NULL, "9ep", "18ep", "45ep"},
    };
    recipe_put("low.yaml", low);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        recipe_put("a.yaml", rows[i].text);
        sr_recipe *r = recipe_load("a.yaml", &rows[i].override, rows[i].override ? 1 : 0);
        const char *of = sr_recipe_get(r, "schedule.of");
        if (rows[i].of)
            assert_string_equal(of, rows[i].of);
        else
            assert_null(of);
        assert_string_equal(sr_recipe_get(r, "schedule.warmup"), rows[i].warmup);
        assert_string_equal(sr_recipe_get(r, "ema.warmup"), rows[i].average);
        assert_string_equal(sr_recipe_get(r, "augment[0].crop.until"), rows[i].crop);
        assert_string_equal(sr_recipe_get(r, "mix.until"), "100it");
        assert_string_equal(sr_recipe_get(r, "progressive.end"), "50%");
        assert_string_equal(sr_recipe_get(r, "checkpoint.every[0]"), "1ep");
        sr_recipe_free(r);
    }
    recipe_put("a.yaml", "base: low\nepochs: 6\n");
    recipe_put("b.yaml", "base: a\nepochs: 18\n"); // the share of 90 epochs, still
    sr_recipe *r = recipe_load("b.yaml", NULL, 0);
    assert_string_equal(sr_recipe_get(r, "schedule.warmup"), "10%");
    assert_true(r->sets[0].optimizer.groups[0].until.unit == SR_LENGTH_PERCENT);
    sr_recipe_free(r);
}

// Two files of 0.6 MiB are each small enough, but not together.
static void test_large_bases(void **state) {
    (void)state;
    sr_recipe *recipe = NULL;
    const size_t bytes = (size_t)600 << 10;
    char *text = calloc(1, bytes + 1);
    assert_non_null(text);
    memset(text, '#', bytes);
    memcpy(text, "batch: 8\n", 9);
    recipe_put("large.yaml", text);
    free(text);
    recipe_put("a.yaml", "base: large\n" RECIPE_BASIS);
    sr_recipe_free(recipe_load("a.yaml", NULL, 0));
    recipe_put("a.yaml", "base: [large, large]\n" RECIPE_BASIS);
    assert_int_equal(sr_recipe_load("a.yaml", NULL, 0, &recipe), SR_E_USAGE);
    assert_message("a recipe and its bases may have at most 1 MiB in all");
}

static void test_pipes(void **state) {
    (void)state;
    sr_recipe *recipe = NULL;
    assert_int_equal(0, mkfifo("pipe.yaml", 0600));
    assert_int_equal(sr_recipe_load("pipe.yaml", NULL, 0, &recipe), SR_E_USAGE);
    assert_message("pipe.yaml: a pipe or a device");
    recipe_put("a.yaml", "base: pipe.yaml\n" RECIPE_BASIS);
    assert_int_equal(sr_recipe_load("a.yaml", NULL, 0, &recipe), SR_E_USAGE);
    assert_message("pipe.yaml: a pipe or a device");
    assert_int_equal(0, unlink("pipe.yaml"));
}

static void test_bases(void **state) {
    (void)state;
    recipe_put("deep/low.yaml",
               "model: {name: a, width: 3}\nbatch: 64\nepochs: 9\naugment: [flip]\n"
               "optimizer: {name: sgd, lr: 1, momentum: 0.9}\ndata: {workers: 2}\n");
    recipe_put("deep/high.yaml", "base: low\nsteps: 7\naugment: [crop]\noptimizer: {lr: 2}\n"
                                 "data: {train: x}\n");
    sr_recipe *r = recipe_load("deep/high.yaml", NULL, 0);
    assert_int_equal(r->steps, 7);
    assert_true(r->epochs == 0.0);
    assert_int_equal(r->augment_count, 1);
    assert_string_equal(r->augment[0].name, "crop");
    assert_true(r->sets[0].optimizer.lr == 2.0);
    assert_string_equal(sr_recipe_get(r, "optimizer.momentum"), "0.9");
    assert_int_equal(r->data.workers, 2);
    assert_string_equal(r->data.train, "x");
    sr_recipe_free(r);

    // Another name starts with defaults; the same name does not; null resets.
    recipe_put("deep/other.yaml",
               "base: [low, high]\nmodel: b\noptimizer: {name: adam, lr: 3}\nbatch:\n");
    r = recipe_load("deep/other.yaml", NULL, 0);
    assert_string_equal(r->sets[0].model.name, "b");
    assert_null(sr_recipe_get(r, "model.width"));
    assert_null(sr_recipe_get(r, "optimizer.momentum"));
    assert_int_equal(r->batch, 256);
    sr_recipe_free(r);

    r = recipe_load("planar", NULL, 0);
    assert_int_equal(r->batch, 32);
    assert_string_equal(r->about, "a \"plain\" one");
    sr_recipe_free(r);
}

static void test_overrides(void **state) {
    (void)state;
    const char *const overrides[] = {"optimizer.betas=[0.9, 0.99]",
                                     "optimizer.lr=3",
                                     "optimizer=adam",
                                     "steps=12",
                                     "image=[8, 9]",
                                     "augment=[flip, {crop: {pad: 2}}]",
                                     "data.train=a=b c",
                                     "model.width=4"};
    sr_recipe *r = recipe_load("plain", overrides, 8);
    assert_string_equal(r->sets[0].optimizer.choice.name, "adam");
    assert_true(r->sets[0].optimizer.lr == 3.0);
    assert_string_equal(r->sets[0].model.name, "net");
    assert_string_equal(sr_recipe_get(r, "model.width"), "4");
    assert_int_equal(r->steps, 12);
    assert_true(r->epochs == 0.0);
    assert_int_equal(r->image_width, 9);
    assert_string_equal(r->augment[1].arguments, "pad=2");
    assert_string_equal(r->data.train, "a=b c");
    sr_recipe_free(r);
    const char *const both[] = {"steps=12", "epochs=1"};
    assert_int_equal(sr_recipe_load("plain", both, 2, &r), SR_E_USAGE);
    assert_string_equal(sr_error_message(),
                        "command line: error: 'epochs' and 'steps' are mutually exclusive; give "
                        "one of them\n  steps=12\n  ^");
}

typedef struct evaluation {
    const char *overrides[3];
    int64_t resize[2], crop[2]; // height, width
} evaluation;

static void assert_evaluation(const evaluation *e) {
    int count = 0;
    while (count < 3 && e->overrides[count])
        count++;
    sr_recipe *r = recipe_load("sized.yaml", e->overrides, count);
    const int64_t found[4] = {r->eval.resize_height, r->eval.resize_width, r->eval.crop_height,
                              r->eval.crop_width};
    for (int i = 0; i < 4; i++)
        if (found[i] != (i < 2 ? e->resize : e->crop)[i % 2])
            fail_msg("%s: eval is [%d, %d], [%d, %d]", count ? e->overrides[0] : "", (int)found[0],
                     (int)found[1], (int)found[2], (int)found[3]);
    sr_recipe_free(r);
}

// In proportion to the layers below, unless a layer sets it; of each side where the shape changes.
static void test_evaluation_follows_image(void **state) {
    (void)state;
    static const evaluation of_base[] = {
        {{NULL}, {232, 0}, {224, 224}},
        {{"image=112"}, {116, 0}, {112, 112}},
        {{"image=[112, 112]"}, {116, 0}, {112, 112}},
        {{"image=[448, 112]"}, {464, 116}, {448, 112}},
        {{"image=[448, 112]", "eval.resize=120"}, {120, 0}, {448, 112}},
        {{"image=[448, 112]", "eval.crop=112"}, {116, 0}, {112, 112}},
        {{"image=112", "image=[448, 112]"}, {464, 116}, {448, 112}},
        {{"image=[448, 112]", "image=112"}, {116, 0}, {112, 112}},
        {{"eval.crop=112", "image=448"}, {464, 0}, {112, 112}},
        {{"eval.crop=[200, 100]"}, {232, 0}, {200, 100}},
        {{"eval.resize=[232, 232]"}, {232, 232}, {224, 224}},
        {{"image=112", "eval.resize=120"}, {120, 0}, {112, 112}},
        {{"eval.resize=120", "image=112"}, {120, 0}, {112, 112}},
    };
    static const evaluation of_wide_base[] = {
        {{NULL}, {36, 0}, {32, 96}},
        {{"image=[64, 192]"}, {72, 0}, {64, 192}},
        {{"image=[64, 96]"}, {72, 108}, {64, 96}},
        {{"eval.resize=null"}, {32, 96}, {32, 96}},
        {{"image=[224, 320]", "eval.resize=null"}, {256, 366}, {224, 320}},
    };
    recipe_put("shipped/sized.yaml", RECIPE_BASIS "image: 224\neval: {resize: 232, crop: 224}\n");
    recipe_put("sized.yaml", "base: sized\n");
    for (size_t i = 0; i < sizeof of_base / sizeof *of_base; i++)
        assert_evaluation(&of_base[i]);
    recipe_put("sized.yaml", "base: sized\nimage: 448\neval: {crop: 440}\n");
    assert_evaluation(&(evaluation){{NULL}, {464, 0}, {440, 440}});
    assert_evaluation(&(evaluation){{"image=224"}, {232, 0}, {220, 220}});
    recipe_put("sized.yaml", RECIPE_BASIS "image: [32, 96]\neval: {resize: 36, crop: [32, 96]}\n");
    for (size_t i = 0; i < sizeof of_wide_base / sizeof *of_wide_base; i++)
        assert_evaluation(&of_wide_base[i]);
    assert_int_equal(unlink("shipped/sized.yaml"), 0);
}

static void test_origins(void **state) {
    (void)state;
    const char *const override = "seed=3";
    sr_recipe *r = recipe_load("planar", &override, 1);
    sr_text text;
    sr_text_init(&text);
    assert_int_equal(sr_recipe_print_yaml(r, true, &text), SR_OK);
    assert_non_null(
        strstr(text.data, "batch: 32                                   # planar.yaml:2\n"));
    assert_non_null(strstr(text.data, "# plain.yaml:2\n"));
    assert_non_null(
        strstr(text.data, "seed: 3                                     # command line\n"));
    assert_non_null(strstr(text.data, "precision: fp32                             # default\n"));
    sr_text_release(&text);
    sr_recipe_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_circle),
        cmocka_unit_test(test_pipes),
        cmocka_unit_test(test_bases),
        cmocka_unit_test(test_many_bases),
        cmocka_unit_test(test_large_bases),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_evaluation_follows_image),
        cmocka_unit_test(test_origins),
        cmocka_unit_test(test_lengths_of_a_base),
    };
    return cmocka_run_group_tests_name("recipe_layers", tests, recipe_enter, recipe_leave);
}
