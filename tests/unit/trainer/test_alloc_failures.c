// SPDX-License-Identifier: Apache-2.0
// Every part of serried with failing allocations (alloc_failures.h): recipes, recording and
// compiling, packing, the data pipeline, checkpoints, and whole runs of training and evaluation.
//
//   test_alloc_failures [all [SCENARIO]]: all failures instead of a sample; one scenario
#include "dataio/transforms/transform.h"
#include "tests/unit/support/test_support.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/pack/pack.h"
#include "dataio/pipeline/pipeline.h"
#include "graph/program_text.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/alloc_failures.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/trainer/checkpoint_fixture.h"
#include "tests/unit/trainer/network_fixture.h"
#include "trainer/engine/choices.h"
#include "trainer/recipe/recipe.h"
#include "trainer/run/inference.h"
#include "trainer/run/plan_report.h"
#include "trainer/run/train.h"

enum { CLASSES = 10, SIDE = 32 };

static char top[256];
static char source[300], data[300], destination[300], run_path[300], generations[300];

// -- files -------------------------------------------------------------------------------------

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static void remove_folder(const char *path) {
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int temporary;

static int count_temporary(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind;
    temporary += sr_file_is_temporary(path + where->base);
    return 0;
}

static void check_no_temporary(const char *folder) {
    temporary = 0;
    (void)nftw(folder, count_temporary, 16, FTW_PHYS);
    if (temporary > 0)
        fail_msg("%s: %d half-written files", folder, temporary);
}

static void make_source(void) {
    for (unsigned i = 0; i < 12; i++) {
        char path[400];
        size_t bytes;
        const picture_jpeg kind = {.progressive = i == 1, .color = i == 2 ? PICTURE_GREY : 0};
        uint8_t *picture = picture_encode(40, 30, i, &kind, &bytes);
        (void)snprintf(path, sizeof path, "%s/%s", source, i % 2 ? "cats" : "dogs");
        assert_ok(sr_make_folders(path));
        (void)snprintf(path, sizeof path, "%s/%s/%u.jpg", source, i % 2 ? "cats" : "dogs", i);
        assert_ok(
            sr_file_write_atomic(path, picture, i == 5 ? bytes / 2 : bytes)); // one is damaged
        sr_free(picture);
    }
}

// -- recipes, networks -------------------------------------------------------------------------

static sr_status load_recipe(void) {
    static const char *const overrides[] = {"optimizer.lr=0.1",
                                            "augment=[flip, cutout: {size: 8}]"};
    char identity[65];
    sr_recipe *recipe;
    sr_text text;
    SR_TRY(sr_recipe_load("tests/recipes/tiny.yaml", overrides, 2, &recipe));
    sr_text_init(&text);
    sr_status status = sr_recipe_check(recipe);
    if (status == SR_OK)
        status = sr_recipe_print_yaml(recipe, true, &text);
    if (status == SR_OK)
        status = sr_recipe_identity(recipe, "data", identity);
    sr_text_release(&text);
    sr_recipe_free(recipe);
    return status;
}

static sr_status run_network(void) {
    static const double mean[] = {0.5, 0.5, 0.5}, std[] = {0.2, 0.2, 0.2};
    static const uint8_t images[2 * SIDE * SIDE * 3];
    static const int32_t labels[2] = {1, 2};
    const network_options options = {.model = "tiny", .classes = CLASSES, .dtype = SR_F32};
    const network_pass pass = {
        .samples = 2, .side = SIDE, .images = images, .mean = mean, .std = std, .labels = labels};
    network *net;
    SR_TRY(network_create(&options, &net));
    sr_status status = network_run(net, &pass);
    network_free(net);
    return status;
}

// -- reports -----------------------------------------------------------------------------------

static sr_status read_program(const sr_text *text, sr_text *out) {
    static const sr_context_options plain = {.device = "cpu", .threads = 1};
    sr_context *context;
    sr_read_program read;
    sr_arena arena;
    SR_TRY(sr_context_create(&plain, &context));
    sr_arena_init(&arena);
    sr_status status = sr_program_read(context, text->data, text->length, NULL, &arena, &read);
    if (status == SR_OK)
        status = sr_program_write(context, read.targets, read.target_count, out);
    if (status == SR_OK)
        status = sr_program_draw(context, read.targets, read.target_count, out);
    sr_arena_release(&arena);
    sr_context_free(context);
    return status;
}

static sr_status report_model(void) {
    static const char *const small[] = {"image=32", "batch=2", "numerics.portable=true"};
    static const sr_plan_summary_options rows = {.json = true};
    static const sr_plan_program_options program = {.classes = CLASSES};
    sr_recipe *recipe;
    sr_text text, program_text;
    SR_TRY(sr_recipe_for_model("tiny", small, 3, &recipe));
    sr_text_init(&text);
    sr_text_init(&program_text);
    sr_status status = sr_plan_summary(recipe, &rows, &text);
    if (status == SR_OK)
        status = sr_plan_program(recipe, &program, &program_text);
    if (status == SR_OK)
        status = read_program(&program_text, &text);
    sr_text_release(&text);
    sr_text_release(&program_text);
    sr_recipe_free(recipe);
    return status;
}

// -- data --------------------------------------------------------------------------------------

static sr_status pack_into(const char *folder, sr_pack_report *report) {
    const sr_pack_options options = {.source = source,
                                     .destination = folder,
                                     .val_fraction = 0.4,
                                     .allow_refused = 1,
                                     .workers = 1,
                                     .quiet = true};
    return sr_pack(&options, report);
}

static sr_status pack(void) {
    sr_pack_report report;
    remove_folder(destination);
    return pack_into(destination, &report);
}

// The next pack completes the folder that the failed one left.
static void check_pack(bool ended_well) {
    sr_pack_report report;
    if (!ended_well)
        check_no_temporary(destination);
    assert_ok(pack_into(destination, &report));
    assert_int_equal(report.refused, 1);
    check_no_temporary(destination);
}

static sr_status read_data(void) {
    static const sr_transform_spec augment[] = {
        {.name = "mosaic"},
        {.name = "random_resized_crop", .arguments = "scale=[0.3, 1]"},
        {.name = "flip"},
        {.name = "gaussian_blur"},
        {.name = "cutout", .arguments = "size=6"},
        {.name = "color_jitter", .arguments = "brightness=0.2 hue=0.1"},
    };
    const sr_pipeline_options options = {.dataset = data,
                                         .split = "train",
                                         .transforms = augment,
                                         .transform_count = 6,
                                         .image_height = SIDE,
                                         .image_width = SIDE,
                                         .order = SR_ORDER_CHUNKS,
                                         .seed = 1,
                                         .batch = 8,
                                         .lanes = 2,
                                         .lane_end = 2,
                                         .steps = 3,
                                         .workers = 1,
                                         .threads = true,
                                         .act_seconds = 30};
    sr_pipeline *pipeline;
    sr_status status = SR_OK;
    SR_TRY(sr_pipeline_open(&options, &pipeline));
    for (bool end = false; status == SR_OK && !end;) {
        sr_slot slot;
        status = sr_pipeline_next(pipeline, &slot, &end);
        if (status == SR_OK && !end)
            sr_pipeline_release(pipeline, &slot);
    }
    sr_pipeline_close(pipeline);
    return status;
}

// -- checkpoints -------------------------------------------------------------------------------

static int64_t generation;

static sr_status save_checkpoint(void) {
    SR_TRY(sr_checkpoint_next_generation(generations, &generation));
    return state_save(generations, generation, 2, generation % 2 == 0);
}

static void check_checkpoint(bool ended_well) {
    sr_checkpoint *checkpoint;
    assert_ok(sr_checkpoint_open(generations, NULL, &checkpoint));
    int64_t found = sr_checkpoint_manifest(checkpoint)->generation;
    assert_true(state_matches(checkpoint, found));
    if (ended_well)
        assert_int_equal(found, generation);
    sr_checkpoint_free(checkpoint);
    check_no_temporary(generations);
}

static sr_status load_checkpoint(void) {
    static float momentum[STATE_ELEMENTS];
    const sr_range all = {0, STATE_ELEMENTS};
    sr_checkpoint *checkpoint;
    sr_safetensors *weights;
    SR_TRY(sr_checkpoint_open(generations, NULL, &checkpoint));
    sr_status status = sr_checkpoint_weights(checkpoint, SR_WEIGHTS_MODEL, &weights);
    if (status == SR_OK)
        status = sr_checkpoint_weights(checkpoint, SR_WEIGHTS_EMA, &weights);
    if (status == SR_OK)
        status = sr_checkpoint_read_state(checkpoint, "momentum", SR_F32, STATE_ELEMENTS, &all, 1,
                                          false, momentum);
    sr_checkpoint_free(checkpoint);
    return status;
}

// -- whole runs --------------------------------------------------------------------------------

// Redirects the command's output into 'said' until end_quiet.
typedef struct quiet {
    int out, err, file;
} quiet;

static void begin_quiet(quiet *q) {
    (void)fflush(stdout);
    q->out = dup(STDOUT_FILENO);
    q->err = dup(STDERR_FILENO);
    q->file = memfd_create("said", MFD_CLOEXEC);
    assert_true(q->out >= 0 && q->err >= 0 && q->file >= 0);
    assert_true(dup2(q->file, STDOUT_FILENO) >= 0 && dup2(q->file, STDERR_FILENO) >= 0);
}

static void end_quiet(quiet *q, char *said, size_t bytes) {
    (void)fflush(stdout);
    assert_true(dup2(q->out, STDOUT_FILENO) >= 0 && dup2(q->err, STDERR_FILENO) >= 0);
    ssize_t n = pread(q->file, said, bytes - 1, 0);
    said[n > 0 ? n : 0] = '\0';
    (void)close(q->out);
    (void)close(q->err);
    (void)close(q->file);
}

static sr_status train(void) {
    static char said[8192], set[400];
    const char *const overrides[] = {set,
                                     "batch=8",
                                     "lanes=2",
                                     "steps=2",
                                     "model.width=8",
                                     "chooser=off", // test_chooser tests its own failures
                                     "data.processes=0",
                                     "checkpoint.every=[1it]"};
    const sr_train_request request = {.recipe = "tests/recipes/tiny.yaml",
                                      .overrides = overrides,
                                      .override_count = 8,
                                      .output = run_path};
    quiet q;
    (void)snprintf(set, sizeof set, "data.train=%s", data);
    begin_quiet(&q);
    int code = sr_train_main(&request);
    end_quiet(&q, said, sizeof said);
    if (code == 0)
        return SR_OK;
    return SR_FAIL(code == 1 && strstr(said, "out of memory") ? SR_E_MEMORY : SR_E_INTERNAL,
                   "exit code %d: %.900s", code, said);
}

static char digest[128]; // of the undisturbed run

static sr_status train_from_scratch(void) {
    remove_folder(run_path);
    return train();
}

static void check_run(bool ended_well) {
    check_no_temporary(run_path);
    if (ended_well) {
        sr_checkpoint *checkpoint;
        assert_ok(sr_checkpoint_open(run_path, NULL, &checkpoint));
        assert_string_equal(sr_checkpoint_manifest(checkpoint)->digest, digest);
        sr_checkpoint_free(checkpoint);
    }
}

static void keep_digest(void) {
    sr_checkpoint *checkpoint;
    assert_ok(sr_checkpoint_open(run_path, NULL, &checkpoint));
    (void)snprintf(digest, sizeof digest, "%s", sr_checkpoint_manifest(checkpoint)->digest);
    sr_checkpoint_free(checkpoint);
}

// Continues from the checkpoint of the last step, as after a kill before exit.json.
static sr_status train_on(void) {
    char path[400];
    (void)snprintf(path, sizeof path, "%s/exit.json", run_path);
    (void)unlink(path);
    return train();
}

static sr_status evaluate(void) {
    const sr_inference_options options = {.source = run_path};
    sr_inference *inference;
    sr_measures metrics;
    SR_TRY(sr_inference_open(&options, &inference));
    sr_status status = sr_inference_evaluate(inference, NULL, NULL, &metrics);
    sr_inference_free(inference);
    return status;
}

static sr_inference *opened; // from the first call to the end
static uint8_t *encoded;
static size_t encoded_bytes;

static sr_status predict(void) {
    static const uint8_t pixels[30 * 40 * 3];
    const sr_inference_options options = {.source = run_path};
    if (!opened) {
        SR_TRY(sr_inference_open(&options, &opened));
        encoded = picture_encode(40, 30, 3, &(picture_jpeg){0}, &encoded_bytes);
    }
    const sr_picture_file files[] = {
        {.name = "file", .data = encoded, .bytes = encoded_bytes},
        {.name = "pixels", .data = pixels, .bytes = sizeof pixels, .height = 30, .width = 40}};
    float probabilities[2 * CLASSES];
    sr_status statuses[2];
    SR_TRY(sr_inference_predict(opened, files, 2, probabilities, NULL, statuses));
    assert_ok(statuses[0]);
    assert_ok(statuses[1]);
    return SR_OK;
}

static const alloc_scenario scenarios[] = {
    {.name = "recipe", .run = load_recipe, .sample = 60},
    {.name = "network", .run = run_network, .sample = 60},
    {.name = "reports", .run = report_model, .sample = 60},
    {.name = "pack", .run = pack, .check = check_pack, .sample = 30},
    {.name = "data", .run = read_data, .sample = 40},
    {.name = "save",
     .run = save_checkpoint,
     .check = check_checkpoint,
     .sample = 30,
     .may_end_well = true},
    {.name = "load", .run = load_checkpoint, .sample = 30},
    {.name = "train",
     .run = train_from_scratch,
     .check = check_run,
     .sample = 12,
     .may_end_well = true},
    {.name = "go on", .run = train_on, .check = check_run, .sample = 8, .may_end_well = true},
    {.name = "evaluate", .run = evaluate, .sample = 12},
    {.name = "predict", .run = predict, .sample = 20},
};

static bool everything;
static const char *only;

static void test_scenarios(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (only == NULL || strcmp(only, scenarios[i].name) == 0)
            alloc_failures_run(&scenarios[i], everything);
}

static int set_up(void **state) {
    (void)state;
    sr_pack_report report;
    test_folder_make(top);
    (void)snprintf(source, sizeof source, "%s/source", top);
    (void)snprintf(data, sizeof data, "%s/data", top);
    (void)snprintf(destination, sizeof destination, "%s/packed", top);
    (void)snprintf(run_path, sizeof run_path, "%s/run", top);
    (void)snprintf(generations, sizeof generations, "%s/generations", top);
    make_source();
    assert_ok(pack_into(data, &report));
    assert_ok(sr_make_folders(generations));
    assert_ok(state_save(generations, 1, 2, false));
    assert_ok(train());
    keep_digest();
    sr_log_set_level(SR_LOG_WARN);
    return setenv("SERRIED_THREADS", "1", 1);
}

static int tear_down(void **state) {
    (void)state;
    sr_inference_free(opened);
    sr_free(encoded);
    test_folder_remove(top);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scenarios)};
    everything = argc > 1 && strcmp(argv[1], "all") == 0;
    only = argc > 2 ? argv[2] : NULL;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
