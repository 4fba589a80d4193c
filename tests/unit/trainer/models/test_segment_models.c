// SPDX-License-Identifier: Apache-2.0
// Networks for segmentation: every model with stages can be their backbone, at the resolution that
// they ask for; auxiliary heads; dilations of DeepLabv3; what is refused. Their numbers are those
// of test_models.c.
#include "graph/call_layers.h"
#include "tests/unit/support/test_support.h"
#include "trainer/losses/loss.h"
#include "trainer/models/built_model.h"
#include "trainer/tasks/task.h"

enum { CLASSES = 3, SIDE = 224, SAMPLES = 2, MOST_SET = 9, RATES = 3 };

static const char *const names[] = {"fcn",     "deeplabv3", "deeplabv3plus", "pspnet",
                                    "upernet", "lraspp",    "unet",          "segformer"};
enum { AUXILIARY = 5 }; // the first ones have auxiliary heads
enum { NAMES = sizeof names / sizeof *names };

// ---- Fixture ----

static sr_arena arena;

static int set_up(void **state) {
    (void)state;
    sr_arena_init(&arena);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    sr_arena_release(&arena);
    return 0;
}

// A model with settings NAME, VALUE, ..., NULL.
static sr_status create(const char *name, const char *const *set, sr_model **out) {
    const sr_model_desc *desc = sr_model_find(name);
    assert_non_null(desc);
    void *options = sr_arena_alloc(&arena, desc->options->struct_size);
    assert_non_null(options);
    assert_ok(sr_options_defaults(desc->options, options, &arena));
    for (; set && *set; set += 2)
        assert_ok(sr_options_set(desc->options, options, set[0], set[1], &arena));
    const sr_model_build build = {.desc = desc,
                                  .options = options,
                                  .prefix = "",
                                  .classes = CLASSES,
                                  .image_height = SIDE,
                                  .image_width = SIDE};
    return sr_model_create(&build, out);
}

// A recording without data.
typedef struct recording {
    sr_model *model;
    sr_context *context;
    sr_outputs outputs;
} recording;

static recording record(const char *name, const char *const *set, bool training) {
    static const sr_context_options options = {.device = "cpu", .threads = 1};
    const sr_info info = {.dtype = SR_F32, .rank = 4, .dim = {SAMPLES, SIDE, SIDE, 3}};
    const sr_info key = {.dtype = SR_I32, .rank = 1, .dim = {4}};
    recording r = {.outputs = {.count = 0}};
    sr_statistics statistics = {.count = 0};
    if (create(name, set, &r.model) != SR_OK)
        fail_msg("%s", sr_error_message());
    assert_ok(sr_context_create(&options, &r.context));
    sr_context_begin_step(r.context);
    assert_ok(sr_model_bind(r.model, r.context, sr_address_none()));
    sr_forward forward = {.context = r.context,
                          .training = training,
                          .dtype = SR_F32,
                          .key = sr_input(r.context, 1, &key),
                          .statistics = &statistics,
                          .outputs = &r.outputs};
    const sr_tensor x = sr_input(r.context, 0, &info);
    r.model->desc->forward(&forward, r.model->state, &x);
    if (sr_context_status(r.context) != SR_OK)
        fail_msg("%s: %s", name, sr_error_message());
    sr_free(statistics.items);
    return r;
}

static void end(recording *r) {
    sr_context_free(r->context);
    sr_model_free(r->model);
}

// An output is a map of logits; returns its side.
static int64_t side_of(const recording *r, int i) {
    sr_info map;
    assert_true(i < r->outputs.count);
    assert_true(sr_tensor_info(r->outputs.item[i].tensor, &map));
    assert_int_equal(map.rank, 4);
    assert_int_equal(map.dim[0], SAMPLES);
    assert_int_equal(map.dim[1], map.dim[2]);
    assert_int_equal(map.dim[3], CLASSES);
    return map.dim[1];
}

// ---- Backbones ----

static void every_model_with_stages_is_a_backbone(void **state) {
    const sr_option_table *seen[64];
    size_t count, tables = 0;
    const sr_model_desc *const *all = sr_models(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        const char *const set[] = {"backbone", all[i]->name, "aux", "false", NULL};
        const char *const without_aux[] = {"backbone", all[i]->name, NULL};
        size_t k = 0;
        if (!all[i]->features)
            continue;
        while (k < tables && seen[k] != all[i]->options)
            k++;
        if (k < tables)
            continue; // one of each family
        assert_true(tables < 64);
        seen[tables++] = all[i]->options;
        for (int n = 0; n < NAMES; n++) {
            recording r = record(names[n], n < AUXILIARY ? set : without_aux, true);
            assert_string_equal(r.outputs.item[0].name, "logits");
            assert_in_range(side_of(&r, 0), 1, SIDE);
            end(&r);
        }
    }
    assert_true(tables >= 15);
}

// As in torchvision's networks, whichever of its classifiers is chosen.
static void backbones_are_dilated_unless_told(void **state) {
    static const struct {
        const char *model, *set[MOST_SET];
        int64_t stride;
    } cases[] = {
        {"fcn", {NULL}, 8},
        {"deeplabv3", {NULL}, 8},
        {"lraspp", {NULL}, 8}, // of its larger map
        {"fcn", {"backbone", "resnet101", NULL}, 8},
        {"fcn", {"backbone", "resnet18", "backbone.output_stride", "32", NULL}, 32},
        {"deeplabv3", {"backbone", "mobilenet_v3_large", NULL}, 16},
        {"deeplabv3", {"backbone", "mobilenet_v3_small", "backbone.dilated", "false", NULL}, 32},
        {"fcn", {"backbone", "densenet121", NULL}, 32},
        {"lraspp", {"low_stride", "4", NULL}, 4},
        {"pspnet", {NULL}, 8},
        {"deeplabv3plus", {NULL}, 4},
        {"deeplabv3plus", {"low_stride", "8", NULL}, 8},
        {"upernet", {NULL}, 4},
        {"segformer", {NULL}, 4},
        {"ocrnet", {NULL}, 4},
        {"unet", {NULL}, 1},
        {"unet", {"backbone", "convnext_tiny", NULL}, 1}, // without a stage of stride 2
        {"unet", {"backbone.output_stride", "16", "channels", "[8, 8, 8, 8]", NULL}, 1},
        {"lraspp", {"backbone", "densenet121", "low_stride", "64", NULL}, 32}, // its last
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        recording r = record(cases[i].model, cases[i].set, false);
        assert_int_equal(side_of(&r, 0), SIDE / cases[i].stride);
        end(&r);
    }
}

// ---- Auxiliary heads ----

static void auxiliary_outputs_are_of_training_alone(void **state) {
    static const char *const set[] = {"aux", "true", "aux_weight", "0.25", "aux_stage", "1", NULL};
    (void)state;
    for (int n = 0; n < AUXILIARY; n++) {
        recording r = record(names[n], set, true);
        assert_int_equal(r.outputs.count, 2);
        assert_string_equal(r.outputs.item[1].name, "aux");
        assert_true(r.outputs.item[0].weight == 0 && r.outputs.item[1].weight == 0.25);
        assert_int_equal(side_of(&r, 1), SIDE / 8);
        end(&r);
        r = record(names[n], set, false);
        assert_int_equal(r.outputs.count, 1);
        end(&r);
    }
}

// As torch.nn.Dropout2d in mmseg's heads, before the last layers.
static void whole_channels_are_dropped(void **state) {
    (void)state;
    for (int trains = 0; trains < 2; trains++) {
        recording r = record("pspnet", NULL, trains);
        int dropped = 0;
        for (int i = 0; i < sr_call_count(r.context); i++) {
            sr_call_view call;
            sr_call_get(r.context, i, &call);
            if (strcmp(call.op->name, "dropout") != 0)
                continue;
            assert_int_equal(call.in[0].dim[1] * call.in[0].dim[2], 1);
            dropped++;
        }
        assert_int_equal(dropped, trains ? 2 : 0);
        end(&r);
    }
}

// ---- Dilations ----

static int32_t dilation_of(const sr_call_view *call) {
    for (const sr_attr_field *field = call->op->fields; field->name; field++) {
        if (strcmp(field->name, "dilation_h") == 0) {
            int32_t value;
            memcpy(&value, (const char *)call->attr + field->offset, sizeof value);
            return value;
        }
    }
    return 1;
}

// Those of the head's 3x3 convolutions, in order.
static int rates_of(const recording *r, int32_t out[RATES]) {
    int count = 0;
    for (int i = 0; i < sr_call_count(r->context); i++) {
        sr_call_view call;
        sr_call_get(r->context, i, &call);
        const char *weight = call.variable[1] ? call.variable[1] : "";
        if (strncmp(weight, "classifier.0.convs.", 19) != 0 || call.in[1].rank != 4 ||
            call.in[1].dim[2] != 3)
            continue;
        assert_true(count < RATES);
        out[count++] = dilation_of(&call);
    }
    return count;
}

static void rates_follow_the_stride(void **state) {
    static const struct {
        const char *set[MOST_SET];
        int count, rates[RATES];
    } cases[] = {
        {{NULL}, 3, {12, 24, 36}},
        {{"backbone.output_stride", "16", NULL}, 3, {6, 12, 18}},
        {{"backbone", "mobilenet_v3_large", NULL}, 3, {6, 12, 18}},
        {{"backbone", "mobilenet_v3_large", "rates", "[12, 24, 36]", NULL}, 3, {12, 24, 36}},
        {{"rates", "[5, 7]", NULL}, 2, {5, 7}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t found[RATES] = {0};
        recording r = record("deeplabv3", cases[i].set, false);
        assert_int_equal(rates_of(&r, found), cases[i].count);
        for (int k = 0; k < cases[i].count; k++)
            assert_int_equal(found[k], cases[i].rates[k]);
        end(&r);
    }
}

// ---- What is refused ----

static void refuse(const char *name, const char *option, const char *value, const char *message) {
    const char *const set[] = {"aux", "true", option, value, NULL};
    sr_model *model;
    assert_status(SR_E_USAGE, create(name, strcmp(name, "unet") == 0 ? set + 2 : set, &model));
    assert_message(message);
}

static void what_a_backbone_lacks_is_refused(void **state) {
    (void)state;
    refuse("fcn", "backbone", "tiny", "model fcn: backbone: model tiny has no stages of features");
    refuse("fcn", "backbone", "lraspp", "backbone: model lraspp has no stages of features");
    refuse("fcn", "aux_stage", "4", "model fcn: aux_stage is 4, but the backbone has 4 stages");
    refuse("pspnet", "backbone", "vit_b_16", "aux_stage is -2, but the backbone has 1 stage: give");
    refuse("deeplabv3", "aux_stage", "-5", "aux_stage is -5, but the backbone has 4 stages");
    refuse("pspnet", "pool_scales", "[1,2,3,4,5,6,7,8,9]", "pool_scales has 9 numbers; at most 8");
    refuse("unet", "channels", "[8, 8]", "has 2 numbers, but a backbone of stride 32 needs 5");
    refuse("deeplabv3", "rates", "[1,2,3,4,5,6,7,8,9]", "rates has 9 numbers; at most 8");
}

static void classification_is_refused(void **state) {
    static const sr_context_options options = {.device = "cpu", .threads = 1};
    static const double mean[3] = {0.5, 0.5, 0.5};
    const sr_info image = {.dtype = SR_U8, .rank = 4, .dim = {SAMPLES, SIDE, SIDE, 3}};
    const sr_info label = {.dtype = SR_I32, .rank = 1, .dim = {SAMPLES}};
    size_t losses;
    sr_model *model;
    sr_context *context;
    (void)state;
    assert_ok(create("lraspp", NULL, &model));
    assert_ok(sr_context_create(&options, &context));
    sr_context_begin_step(context);
    assert_ok(sr_model_bind(model, context, sr_address_none()));
    const sr_loss_part part = {.weight = 1, .desc = sr_losses(&losses)[0]};
    sr_lane_recording r = {.context = context,
                           .training = true,
                           .dtype = SR_F32,
                           .models = &model,
                           .mean = mean,
                           .std = mean,
                           .losses = &part,
                           .loss_count = 1,
                           .inputs = {sr_input(context, 0, &image), sr_input(context, 1, &label)}};
    sr_task_find("classify")->record(&r);
    assert_status(SR_E_USAGE, sr_context_status(context));
    assert_message("model lraspp classifies each pixel, but task classify the whole picture");
    sr_context_free(context);
    sr_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_with_stages_is_a_backbone),
        cmocka_unit_test(backbones_are_dilated_unless_told),
        cmocka_unit_test(auxiliary_outputs_are_of_training_alone),
        cmocka_unit_test(whole_channels_are_dropped),
        cmocka_unit_test(rates_follow_the_stride),
        cmocka_unit_test(what_a_backbone_lacks_is_refused),
        cmocka_unit_test(classification_is_refused),
    };
    return cmocka_run_group_tests_name("segment_models", tests, set_up, tear_down);
}
