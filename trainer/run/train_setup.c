// SPDX-License-Identifier: Apache-2.0
// Starts a training run on a rank: recipe, data, engine, run folder, initial or resumed state,
// feed.
//
// Every rank resolves the recipe and opens the data by itself. Only rank 0 chooses the run folder
// and the generation to resume from, and broadcasts both.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataio/transforms/transform.h"
#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/base/float_control.h"
#include "kernels/base/log.h"
#include "kernels/base/plugin_file.h"
#include "kernels/base/pool.h"
#include "kernels/base/watch.h"
#include "trainer/checkpoint/run_identity.h"
#include "trainer/engine/fingerprint.h"
#include "trainer/engine/from_recipe.h"
#include "trainer/run/agreement.h"
#include "trainer/run/run_recipe.h"
#include "trainer/run/training_internal.h"

enum { INIT_SAMPLES = 5000, INIT_BATCH = 500 };

static sr_schedule_lengths lengths_of(const sr_training *t) {
    return (sr_schedule_lengths){
        .total = t->total_samples, .epoch = t->inputs.count, .batch = t->recipe->batch};
}

static sr_status create_engine(sr_training *t) {
    sr_engine_options options = sr_engine_options_of(t->recipe, t->task);
    const sr_schedule_lengths lengths = lengths_of(t);
    options.comm = t->comm;
    options.device = t->device.name;
    options.threads = t->cores.threads;
    options.classes = t->inputs.class_count;
    SR_TRY(sr_engine_create(&options, &t->engine));
    t->info = sr_engine_get_info(t->engine);
    sr_engine_set_lengths(t->engine, &lengths);
    while (sr_phase_get_info(sr_engine_get_phase(t->engine, t->logged)).every > 1)
        t->logged++;
    return SR_OK;
}

// With ema.lookahead, parameters move to their average every ema.every steps and keep only a
// fraction of what was learned since.
static void warn_of_short_run(const sr_training *t) {
    const int64_t every = t->recipe->ema.every > 0 ? t->recipe->ema.every : 1;
    if (t->rank == 0 && t->recipe->ema.lookahead && t->total_steps < 4 * every)
        SR_WARN(
            "the run has %lld step%s, and its parameters move to their average every %lld steps "
            "(ema.every), so it learns little: give more epochs or a smaller batch",
            (long long)t->total_steps, t->total_steps == 1 ? "" : "s", (long long)every);
}

static sr_status set_lengths(sr_training *t) {
    sr_schedule_lengths lengths;
    SR_TRY(sr_inputs_lengths(t->recipe, t->inputs.count, &t->total_steps, &lengths));
    t->total_samples = t->total_steps * t->recipe->batch;
    for (int i = 0; i < t->recipe->set_count; i++)
        SR_TRY(sr_choose_schedule(t->recipe, i, &t->arena, &lengths, &t->schedules[i]));
    warn_of_short_run(t);
    return SR_OK;
}

// ---- Initial values that depend on data ----

// Reads the first 'count' pictures in the order of the data set; *have: how many there were. Their
// shorter side is resized to the longer side of the image size, so that the crop lies inside.
static sr_status read_pictures(sr_training *t, int64_t count, uint8_t *out, int64_t *have) {
    const sr_recipe *r = t->recipe;
    const int64_t side = r->image_height > r->image_width ? r->image_height : r->image_width;
    sr_eval_view view;
    char resize[48];
    (void)snprintf(resize, sizeof resize, "size=%lld", (long long)side);
    sr_eval_view_crop(resize, r->image_height, r->image_width, &view);
    sr_pipeline_options options = sr_pipeline_options_of(r, t->task, &view);
    options.dataset = r->data.train;
    options.identity = t->inputs.identity;
    options.split = "train";
    options.batch = count < INIT_BATCH ? count : INIT_BATCH;
    options.lanes = options.lane_end = options.workers = 1;
    options.steps = (count + INIT_BATCH - 1) / INIT_BATCH;
    options.on_corrupt = (sr_on_corrupt)r->data.on_corrupt;
    options.skip_limit = r->data.skip_limit;
    sr_pipeline *pipeline;
    size_t size = (size_t)(r->image_height * r->image_width * 3);
    sr_status status = SR_OK;
    *have = 0;
    SR_TRY(sr_pipeline_open(&options, &pipeline));
    while (status == SR_OK && *have < count) {
        sr_slot slot;
        const sr_array *image;
        bool end;
        status = sr_pipeline_next(pipeline, &slot, &end);
        if (status != SR_OK || end)
            break;
        int64_t take = slot.valid < count - *have ? slot.valid : count - *have;
        status = sr_slot_get(&slot, "image", &image);
        if (status == SR_OK)
            memcpy(out + (size_t)*have * size, image->data, (size_t)take * size);
        *have += take;
        sr_pipeline_release(pipeline, &slot);
    }
    sr_pipeline_close(pipeline);
    return status;
}

static const sr_model *model_of(const sr_training *t, int set) {
    return sr_param_set_get_info(sr_engine_get_set(t->engine, set)).model;
}

static sr_status init_from_data(sr_training *t) {
    for (int s = 0; s < t->info.sets; s++) {
        const sr_model *model = model_of(t, s);
        if (!model->desc->init_from_data)
            continue;
        const sr_recipe *r = t->recipe;
        int64_t count = t->inputs.count < INIT_SAMPLES ? t->inputs.count : INIT_SAMPLES;
        size_t size = (size_t)(r->image_height * r->image_width * 3);
        uint8_t *pictures = sr_alloc_array((size_t)count, size, "pictures for first values");
        if (!pictures)
            return SR_E_MEMORY;
        sr_status status = read_pictures(t, count, pictures, &count);
        if (status == SR_OK)
            status = model->desc->init_from_data(model->state, pictures, count, r->image_height,
                                                 r->image_width, t->info.mean, t->info.std);
        sr_free(pictures);
        SR_TRY(status);
    }
    return SR_OK;
}

static sr_status first_state(sr_training *t) {
    SR_TRY(init_from_data(t));
    SR_TRY(
        sr_inputs_load_weights(t->recipe, t->engine, t->inputs.class_names, t->inputs.class_count));
    for (int s = 0; s < t->info.sets; s++)
        SR_TRY(sr_param_set_start_average(sr_engine_get_set(t->engine, s)));
    return SR_OK;
}

// ---- Run folder (rank 0) ----

// `val` and `predict` read the folder's recipe.yaml. It is written again in each session: neutral
// options and paths may have changed, or the file may be damaged.
static sr_status update_recipe(const sr_training *t, const sr_text *yaml) {
    char *path = sr_run_folder_file(t->run, "recipe.yaml");
    if (!path)
        return SR_E_MEMORY;
    sr_status status = sr_run_recipe_check(path, t->inputs.identity, t->identity);
    if (status == SR_E_DATA) {
        SR_WARN("%s; rewritten", sr_error_message());
        status = SR_OK;
    }
    if (status == SR_OK)
        status = sr_file_write_atomic(path, yaml->data, yaml->length);
    sr_free(path);
    return status;
}

static sr_status extends(void *user, const char *recipe_path, char before[2][65], bool *out) {
    sr_training *t = user;
    return sr_run_recipe_extends(recipe_path, t->recipe, t->inputs.identity, t->identity, before,
                                 out);
}

static sr_status open_folder(sr_training *t) {
    sr_text yaml;
    sr_text_init(&yaml);
    sr_status status = sr_recipe_print_yaml(t->recipe, false, &yaml);
    const sr_run_options options = {.recipe = t->recipe->name,
                                    .folder = t->request->output,
                                    .resume = t->request->resume,
                                    .fresh = t->request->fresh,
                                    .identity = t->identity,
                                    .recipe_yaml = yaml.data,
                                    .extends = extends,
                                    .user = t};
    if (status == SR_OK)
        status = sr_run_folder_open(&options, &t->run);
    if (status == SR_OK && sr_run_folder_resumed(t->run))
        status = update_recipe(t, &yaml);
    sr_text_release(&yaml);
    SR_TRY(status);
    (void)snprintf(t->location.folder, sizeof t->location.folder, "%s", sr_run_folder_path(t->run));
    char fingerprint[SR_FINGERPRINT_BYTES];
    sr_run_pair versions[1 + SR_PLUGIN_FILES_MAX] = {
        {"numerics", sr_fingerprint(&t->device, fingerprint)}};
    int count;
    const sr_plugin_file *plugins = sr_plugin_files(&count);
    for (int i = 0; i < count; i++)
        versions[1 + i] = (sr_run_pair){plugins[i].path, plugins[i].hash};
    return sr_run_write_env(t->run, versions, 1 + count, t->request->argc, t->request->argv);
}

// A checkpoint that was copied here from another run must not be resumed as one of this run.
static sr_status check_owner(const sr_training *t, const sr_checkpoint *checkpoint) {
    const sr_manifest *m = sr_checkpoint_manifest(checkpoint);
    const char *other = "other options";
    sr_text own;
    sr_text_init(&own);
    sr_status status = sr_run_identity_read(t->location.folder, &own);
    const bool is_own = status == SR_OK && sr_run_identity_has(own.data, m->recipe_identity);
    sr_text_release(&own);
    if (status != SR_OK || is_own)
        return status;
    if (strcmp(m->data_identity, t->inputs.identity) != 0)
        other = "other data";
    else if (m->seed != t->info.seed)
        other = "another seed";
    return SR_FAIL(SR_E_USAGE,
                   "%s is a checkpoint of another run, with %s: move it out of this run's folder; "
                   "to start from its weights, start a new run with weights=.../model.safetensors",
                   sr_checkpoint_folder(checkpoint), other);
}

static sr_status find_generation(sr_training *t) {
    sr_checkpoint *checkpoint;
    sr_status status = sr_checkpoint_open(t->location.folder, NULL, &checkpoint);
    if (status == SR_E_NOT_FOUND)
        return SR_OK;
    SR_TRY(status);
    const sr_manifest *m = sr_checkpoint_manifest(checkpoint);
    status = check_owner(t, checkpoint);
    t->location.generation = m->generation;
    if (status == SR_OK && t->request->stored_recipe && m->recipe) {
        t->recipe_name = sr_arena_strdup(&t->arena, m->recipe);
        status = t->recipe_name ? SR_OK : SR_E_MEMORY;
    }
    sr_checkpoint_free(checkpoint);
    return status;
}

static sr_status open_tables(sr_training *t) {
    static const char *const digest_columns[] = {"step", "samples", "digest"};
    char *metrics = sr_run_folder_file(t->run, "metrics.csv");
    char *digests = sr_run_folder_file(t->run, "digests.csv");
    sr_status status = metrics && digests ? SR_OK : SR_E_MEMORY;
    // An evaluation that is still due will write its row, even if it did so before a crash.
    if (status == SR_OK)
        status =
            sr_csv_open(metrics, t->columns.names, t->columns.count, t->columns.at[SR_RUN_SAMPLES],
                        t->position - t->evaluation_due, &t->metrics);
    // The checkpoint's own row is written again: a crash may have prevented it.
    if (status == SR_OK)
        status = sr_csv_open(digests, digest_columns, 3, 1, t->position - 1, &t->digests);
    if (status == SR_OK && t->location.generation)
        status = sr_training_add_digest(t);
    // As in metrics.csv, the row of an evaluation that is still due will be written again.
    if (status == SR_OK)
        t->events = sr_run_events_open(t->location.folder, t->step + !t->evaluation_due, t->recipe);
    sr_free(metrics);
    sr_free(digests);
    return status;
}

static sr_status choose_folder(sr_training *t) {
    if (t->rank == 0) {
        SR_TRY(sr_drawing_create(&t->drawing));
        sr_drawing_notify(t->drawing, sr_training_add_picture, t);
        SR_TRY(open_folder(t));
        SR_TRY(find_generation(t));
    }
    SR_TRY(sr_comm_broadcast(t->comm, 0, &t->location, sizeof t->location, "run folder"));
    char *log = sr_run_log_path(t->location.folder, t->rank);
    if (!log)
        return SR_E_MEMORY;
    sr_status status = sr_log_open_file(log);
    sr_free(log);
    return status;
}

// The classes of an epoch, if samples are drawn by class: in log.txt, for people to check.
static void announce_draws(const sr_training *t) {
    sr_text text;
    sr_text_init(&text);
    sr_inputs_describe_draws(t->recipe, &t->inputs, &text);
    if (!text.failed && text.length > 0)
        SR_INFO("data.balance %g: %s", t->recipe->data.balance, text.data);
    sr_text_release(&text);
}

static void announce(const sr_training *t) {
    char parameters[32], classes[32] = "", fields[128], cpus[128];
    const sr_model *model = model_of(t, t->info.infers);
    if (t->rank != 0)
        return;
    (void)snprintf(parameters, sizeof parameters, "%.2f M", model->parameters * 1e-6);
    if (t->inputs.class_count > 0)
        (void)snprintf(classes, sizeof classes, " of %d class%s", t->inputs.class_count,
                       t->inputs.class_count == 1 ? "" : "es");
    if (t->location.generation)
        SR_INFO("resuming %s at step %lld of %lld", t->location.folder, (long long)t->step,
                (long long)t->total_steps);
    SR_INFO("%s: %s, %s parameters, %lld picture%s%s, batch %lld in %d lane%s, %d "
            "rank%s x %d thread%s, %lld step%s",
            t->recipe_name, model->desc->name, parameters, (long long)t->inputs.count,
            t->inputs.count == 1 ? "" : "s", classes, (long long)t->info.batch, t->info.lanes,
            t->info.lanes == 1 ? "" : "s", t->ranks, t->ranks == 1 ? "" : "s", t->info.threads,
            t->info.threads == 1 ? "" : "s", (long long)t->total_steps,
            t->total_steps == 1 ? "" : "s");
    if (t->cores.bound && t->cores.ranks > 1)
        SR_INFO("%d ranks share the cores of this host; rank 0 runs on processors %s",
                t->cores.ranks, sr_cpu_set_text(&t->cores.cpus, cpus, sizeof cpus));
    announce_draws(t);
    sr_run_folder_make_latest(t->run); // after loading weights, whose path may use the old link
    SR_INFO("run folder: %s", t->location.folder);
    (void)snprintf(fields, sizeof fields,
                   "\"step\": %lld, \"samples\": %lld, \"ranks\": %d, \"threads\": %d",
                   (long long)t->step, (long long)t->position, t->ranks, t->info.threads);
    sr_run_event(t->run, "start", fields);
}

static sr_status plan_data(sr_training *t) {
    const sr_schedule_lengths lengths = lengths_of(t);
    SR_TRY(sr_inputs_plan_data(t->recipe, t->task, &lengths, t->info.device, &t->arena, &t->inputs,
                               &t->data));
    t->data.lane_begin = t->info.lane_begin;
    t->data.lane_end = t->info.lane_end;
    return SR_OK;
}

static sr_status refuse_resident(const sr_training *t) {
    char cause[512];
    (void)snprintf(cause, sizeof cause, "%s", sr_error_message());
    return sr_recipe_fail(t->recipe, "data.resident",
                          "the training pictures cannot stay on the device: %s", cause);
}

// Where it fails, as for pictures of other sizes and damaged ones, the pipeline is left.
static sr_status open_resident(sr_training *t) {
    char bytes[16];
    const sr_status status =
        sr_feed_create_resident(&t->data, t->recipe->phase_count, t->info.device, &t->feed);
    if (status == SR_OK && t->rank == 0)
        SR_INFO("the training pictures stay on %s, where they take %s",
                sr_device_get_properties(t->info.device)->name,
                sr_text_bytes(t->inputs.resident, bytes));
    if (status == SR_OK || status == SR_E_INTERRUPTED)
        return status;
    if (t->recipe->data.resident == SR_RESIDENT_ALWAYS)
        return refuse_resident(t);
    if (t->rank == 0)
        SR_INFO("the training pictures do not stay on the device: %s", sr_error_message());
    return SR_OK;
}

static sr_status open_feed(sr_training *t) {
    t->data.position = t->position;
    t->data.steps = t->total_steps - t->step;
    if (t->inputs.resident > 0)
        SR_TRY(open_resident(t));
    if (t->feed)
        return SR_OK;
    return sr_feed_create(&t->data, t->recipe->phase_count, t->info.device, &t->feed);
}

// ---- The whole start ----

// A rank with another recipe or other data would not be noticed later, because it receives values
// from their owners.
static sr_status compare_identities(sr_training *t) {
    SR_TRY(sr_recipe_identity(t->recipe, t->inputs.identity, t->identity));
    char(*all)[sizeof t->identity] = sr_arena_alloc(&t->arena, (size_t)t->ranks * sizeof *all);
    if (!all)
        return SR_E_MEMORY;
    SR_TRY(sr_comm_all_gather(t->comm, t->identity, sizeof t->identity, all,
                              "all ranks to compare their recipes"));
    for (int r = 1; r < t->ranks; r++) {
        if (memcmp(all[r], all[0], sizeof *all) != 0) {
            return SR_FAIL(SR_E_USAGE,
                           "rank %d (%s) has a different recipe, plug-in, seed or data set from "
                           "rank 0; give all ranks the same",
                           r, sr_comm_peer_name(t->comm, r));
        }
    }
    return SR_OK;
}

static sr_status compare_values(sr_training *t) {
    for (int s = 0; s < t->info.sets; s++)
        SR_TRY(sr_param_set_compare(sr_engine_get_set(t->engine, s)));
    return SR_OK;
}

// Creates nothing: the folder is created last, when nothing else can fail.
static sr_status check_folder(const sr_training *t) {
    const sr_run_options options = {
        .recipe = t->recipe->name, .folder = t->request->output, .resume = t->request->resume};
    return t->rank == 0 ? sr_run_folder_check_writable(&options) : SR_OK;
}

// Checks and opens what the recipe names. Refuses what it can before anything is created.
static sr_status check_inputs(sr_training *t) {
    SR_TRY(sr_recipe_check(t->recipe));
    SR_TRY(sr_agree_on_recipe(t->comm, t->recipe));
    SR_TRY(sr_check_weights(t->recipe));
    SR_TRY(sr_choose_task(t->recipe, &t->task));
    SR_TRY(sr_run_columns_make(t->recipe, t->task, &t->arena, &t->columns));
    SR_TRY(check_folder(t));
    SR_TRY(sr_inputs_open(t->recipe, t->task, &t->inputs));
    if (t->rank == 0 && t->task->metrics && !t->inputs.val_path[0])
        SR_INFO("%s has no val split: evaluation is off", t->recipe->data.train);
    SR_TRY(set_lengths(t));
    SR_TRY(compare_identities(t));
    SR_TRY(sr_inputs_agree_on_val(t->comm, t->inputs.val_identity));
    SR_TRY(sr_inputs_read_labels(t->recipe, t->comm, &t->inputs));
    SR_TRY(sr_check_ranks(t->recipe, t->ranks));
    SR_TRY(sr_placement_make(t->comm, &t->cores));
    SR_TRY(sr_choose_device(t->recipe, t->cores.index, &t->device));
    sr_choose_numerics(t->recipe);
    return sr_fingerprint_agree(t->comm, &t->device, t->recipe->numerics_strict);
}

static sr_status begin(sr_training *t) {
    for (int i = 0; i < SR_TASK_COLUMNS; i++)
        t->val[i] = (double)NAN;
    for (int i = 0; i < SR_MAX_PHASES; i++)
        t->last_losses[i] = (double)NAN;
    for (int i = 0; i < SR_MAX_SCALARS; i++)
        t->last_scalars[i] = (double)NAN;
    t->best_main = t->best_saved = t->stop_best = (double)NAN;
    // Each run has a recipe.yaml, whose own name says nothing.
    t->recipe_name = t->request->stored_recipe ? t->recipe->file : t->recipe->name;
    SR_TRY(check_inputs(t));
    SR_TRY(create_engine(t));
    SR_TRY(sr_inputs_check_lanes(t->engine, t->rank == 0));
    SR_TRY(plan_data(t));
    SR_TRY(sr_inputs_check_memory(t->engine, &t->inputs, t->cores.ranks));
    SR_TRY(
        sr_inputs_try_weights(t->recipe, t->engine, t->inputs.class_names, t->inputs.class_count));
    SR_TRY(choose_folder(t));
    SR_TRY(t->location.generation ? sr_training_load(t) : first_state(t));
    SR_TRY(compare_values(t));
    if (t->rank == 0) {
        SR_TRY(open_tables(t));
        t->previous_seconds = sr_run_previous_seconds(t->run);
    }
    announce(t);
    return open_feed(t);
}

sr_status sr_training_begin(sr_training *t) {
    sr_watch watch;
    sr_float_control();
    sr_watch_begin_work(&watch, "the start: recipe, data %s, run folder %s",
                        t->recipe->data.train ? t->recipe->data.train : "",
                        t->request->output ? t->request->output : "");
    sr_status status = begin(t);
    sr_watch_end(&watch);
    return status;
}

void sr_training_release(sr_training *t) {
    sr_drawing_free(t->drawing);
    sr_feed_free(t->feed);
    sr_training_release_damage(t);
    sr_engine_free(t->engine);
    sr_trace_free(t->trace); // after the engine, which may still refer to it after a failure
    sr_inputs_release(&t->inputs);
    if (t->metrics)
        sr_csv_close(t->metrics);
    if (t->digests)
        sr_csv_close(t->digests);
    sr_event_file_free(t->events);
    if (t->run)
        sr_run_folder_close(t->run);
    sr_arena_release(&t->arena);
}
