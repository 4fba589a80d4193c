// SPDX-License-Identifier: Apache-2.0
// The training program of every model as text: it reads back to the same text, and so do its
// layers.
#include "tests/unit/support/test_support.h"

#include "autograd/gradients.h"
#include "graph/program_text.h"
#include "trainer/losses/loss.h"
#include "trainer/tasks/task.h"

enum { SAMPLES = 2, CLASSES = 10, TARGETS = 2048 };

static const sr_program_read_options options = {.without_memory = true};

static sr_context *begin(void) {
    static const sr_context_options plain = {.device = "cpu", .threads = 1};
    sr_context *context;
    assert_ok(sr_context_create(&plain, &context));
    sr_context_begin_step(context);
    return context;
}

// Records forward and backward pass; returns the number of targets.
static int record(sr_context *context, sr_model *model, int64_t side, sr_dtype dtype,
                  sr_target *targets) {
    static const sr_info four = {SR_I32, 1, {4}};
    static const double mean[3] = {0.5, 0.5, 0.5};
    static const int32_t key[4] = {1, 2, 3, 4};
    const sr_info image = {SR_U8, 4, {SAMPLES, side, side, 3}};
    sr_statistics statistics = {0};
    sr_lane_recording recording = {.context = context,
                                   .training = true,
                                   .dtype = dtype,
                                   .models = &model,
                                   .statistics = &statistics};
    sr_tensor xs[TARGETS], grads[TARGETS];
    int count = 0;
    recording.key = sr_constant(context, &four, key);
    sr_tensor x = sr_normalize(sr_input(context, 0, &image), mean, mean, dtype);
    sr_tensor logits = sr_task_forward(&recording, 0, &x, "logits", true);
    sr_info info;
    assert_true(sr_tensor_info(logits, &info));
    const int64_t rows[2] = {sr_info_count(&info) / CLASSES, CLASSES}; // of maps: their pixels
    const sr_info label = {SR_I32, 1, {rows[0]}};
    sr_tensor loss = sr_softmax_cross_entropy(sr_cast(sr_reshape(logits, 2, rows), SR_F32),
                                              sr_input(context, 1, &label), 0.1);
    for (int i = 0; i < model->param_count; i++) {
        assert_true(count < TARGETS - 1);
        if (model->params[i].kind != SR_PARAM_BUFFER)
            xs[count++] = model->params[i].variable;
    }
    sr_gradients(loss, SR_NONE, xs, count, grads);
    assert_ok(sr_context_status(context));
    for (int i = 0; i < count; i++)
        targets[i] = (sr_target){.tensor = grads[i], .after = xs[i]};
    targets[count] = (sr_target){.tensor = loss};
    sr_free(statistics.items);
    return count + 1;
}

static void check_model(const sr_model_desc *desc, sr_dtype dtype) {
    static sr_target targets[TARGETS];
    sr_arena arena;
    sr_model *model;
    sr_text text, again;
    sr_read_program read;
    sr_arena_init(&arena);
    sr_text_init(&text);
    sr_text_init(&again);
    void *settings = NULL;
    if (desc->options) {
        settings = sr_arena_alloc(&arena, desc->options->struct_size + 1);
        assert_non_null(settings);
        assert_ok(sr_options_defaults(desc->options, settings, &arena));
    }
    const bool small = strcmp(desc->name, "tiny") == 0 || strncmp(desc->name, "cifar", 5) == 0;
    const sr_model_build build = {
        .desc = desc, .options = settings, .prefix = "", .classes = CLASSES};
    assert_ok(sr_model_create(&build, &model));
    sr_context *context = begin(), *other = begin();
    assert_ok(sr_model_bind(model, context, sr_address_none()));
    const int count = record(context, model, small ? 32 : 224, dtype, targets);
    assert_ok(sr_program_write(context, targets, count, &text));
    if (sr_program_read(other, text.data, text.length, &options, &arena, &read) != SR_OK)
        fail_msg("%s: %s", desc->name, sr_error_message());
    assert_ok(sr_program_write(other, read.targets, read.target_count, &again));
    assert_int_equal(text.length, again.length);
    assert_memory_equal(text.data, again.data, text.length);
    sr_context_free(other);
    sr_context_free(context);
    sr_model_free(model);
    sr_text_release(&text);
    sr_text_release(&again);
    sr_arena_release(&arena);
}

static void test_models(void **state) {
    (void)state;
    size_t count;
    const sr_model_desc *const *models = sr_models(&count);
    int checked = 0;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(models[i]->name, "toy-", 4) == 0) // they take other inputs
            continue;
        check_model(models[i], checked % 2 ? SR_BF16 : SR_F32);
        checked++;
    }
    assert_true(checked > 80);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
