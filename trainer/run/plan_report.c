// SPDX-License-Identifier: Apache-2.0
// Plans a run without starting it (plan_report.h): opens its data sets and weights, creates a real
// engine and compiles its lane programs, so that errors, shapes, memory and FLOPs are those of the
// run.
#include "trainer/run/plan_report.h"

#include <stdio.h>
#include <string.h>

#include "graph/program_text.h"
#include "kernels/base/log.h"
#include "kernels/base/text.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/from_recipe.h"
#include "trainer/engine/param_groups.h"
#include "trainer/exchange/exchange.h"
#include "trainer/report/model_summary.h"
#include "trainer/run/inputs.h"

static void print_model(const sr_model *model) {
    (void)printf("\nmodel %s\n  %-44s %-20s %12s\n", model->desc->name, "tensor", "shape",
                 "elements");
    for (int i = 0; i < model->param_count; i++) {
        const sr_param *p = &model->params[i];
        char shape[96];
        (void)printf("  %-44s %-20s %12lld%s\n", p->name, sr_info_text(&p->info, shape),
                     (long long)sr_info_count(&p->info),
                     p->kind == SR_PARAM_BUFFER   ? "  buffer"
                     : p->kind == SR_PARAM_FROZEN ? "  frozen"
                                                  : "");
    }
}

static sr_status print_summary(sr_engine *engine, int p) {
    sr_arena arena;
    sr_summary summary;
    sr_text text;
    sr_arena_init(&arena);
    sr_text_init(&text);
    sr_status status = sr_summary_make(engine, p, &arena, &summary);
    if (status == SR_OK) {
        sr_summary_add_totals(&summary, &text);
        status = sr_text_check(&text);
    }
    if (status == SR_OK)
        (void)fputs(text.data, stdout);
    sr_text_release(&text);
    sr_arena_release(&arena);
    return status;
}

static sr_status print_groups(const sr_recipe_optimizer *settings, const sr_model *model) {
    sr_text text;
    sr_text_init(&text);
    const sr_status status = sr_param_groups_describe(settings, model, &text);
    if (status == SR_OK)
        (void)fputs(text.data, stdout);
    sr_text_release(&text);
    return status;
}

static void print_memory(const sr_param_set *set, const sr_plan *plan, int lanes_at_once) {
    const sr_param_set_info info = sr_param_set_get_info(set);
    char text[16];
    uint64_t flat = (uint64_t)info.elements * sizeof(float);
    (void)printf("\nmemory of a rank\n  parameters and gradient sums    %s\n",
                 sr_text_bytes(flat, text));
    (void)printf("  optimiser state                 %s\n",
                 sr_text_bytes(flat * (uint64_t)info.states, text));
    (void)printf("  average                         %s\n",
                 sr_text_bytes(sr_param_set_has_average(set) ? flat : 0, text));
    (void)printf("  activations of a lane           %s",
                 sr_text_bytes(sr_plan_peak_bytes(plan), text));
    (void)printf(" (live bound %s), %d at a time\n",
                 sr_text_bytes(sr_plan_live_bound_bytes(plan), text), lanes_at_once);
}

static void print_device(const sr_engine *engine) {
    sr_device *opened = sr_engine_get_info(engine).device;
    const sr_device_properties *device = sr_device_get_properties(opened);
    sr_device_memory memory;
    char text[16];
    (void)printf("\ndevice %s: %s, memory %s (%s)\n", device->name, device->model,
                 sr_text_bytes(device->memory, text), device->memory_owner);
    if (sr_device_get_memory(opened, &memory))
        (void)printf("  libraries, driver and others    %s\n",
                     sr_text_bytes(memory.total - memory.available - memory.own, text));
}

static void print_lanes(const sr_recipe *r, int ranks) {
    int64_t samples = r->batch / r->lanes;
    if (r->progressive.from > 0) {
        (void)printf(
            "\nimages grow from %lld to %lld in steps of %lld; memory and operators above are "
            "those of the largest\n",
            (long long)r->progressive.from, (long long)r->image_width,
            (long long)r->progressive.step);
    }
    (void)printf("\nlanes: %lld, each of %lld sample%s\n", (long long)r->lanes, (long long)samples,
                 samples == 1 ? "" : "s");
    for (int rank = 0; rank < ranks; rank++)
        (void)printf("  rank %d: lanes %d..%d\n", rank, sr_lanes_first((int)r->lanes, ranks, rank),
                     sr_lanes_first((int)r->lanes, ranks, rank + 1) - 1);
    (void)fflush(stdout); // a warning follows the report even if both go to one pipe
}

static bool is_first_of_set(const sr_engine *engine, int p) {
    const int set = sr_phase_get_info(sr_engine_get_phase(engine, p)).set;
    for (int i = 0; i < p; i++)
        if (sr_phase_get_info(sr_engine_get_phase(engine, i)).set == set)
            return false;
    return true;
}

// The tensors of a set are listed with the first phase that trains it.
static sr_status report_phase(sr_engine *engine, int p) {
    const sr_engine_info e = sr_engine_get_info(engine);
    const sr_phase_info phase = sr_phase_get_info(sr_engine_get_phase(engine, p));
    const sr_param_set *set = sr_engine_get_set(engine, phase.set);
    const sr_model *model = sr_param_set_get_info(set).model;
    sr_plan *plan;
    SR_TRY(sr_engine_compile(engine, p, &plan));
    if (is_first_of_set(engine, p))
        print_model(model);
    else
        (void)printf("\nphase %s, which trains %s, too\n", phase.name,
                     sr_param_set_get_info(set).name);
    SR_TRY(print_summary(engine, p));
    if (is_first_of_set(engine, p))
        SR_TRY(print_groups(&e.recipe->sets[phase.set].optimizer, model));
    (void)printf("\n%d operators per lane, %.3f GFLOP, %.1f MB touched, forward and backward\n",
                 sr_plan_node_count(plan), sr_plan_flops(plan) * 1e-9, sr_plan_bytes(plan) * 1e-6);
    print_memory(set, plan, e.executors * e.at_once);
    return SR_OK;
}

// ---- The start of a run ----

typedef struct plan_work {
    sr_comm *comm;
    const sr_task_desc *task;
    sr_inputs inputs;
    sr_schedule_lengths lengths; // of a run on them
    int64_t assumed;             // number of classes without data
    sr_engine *engine;
    sr_arena arena;
} plan_work;

static void release(plan_work *w) {
    sr_engine_free(w->engine);
    sr_inputs_release(&w->inputs);
    sr_comm_free(w->comm);
    sr_arena_release(&w->arena);
}

// Opens the data sets, if the recipe names any, and checks the schedules over a run of their
// length.
static sr_status open_inputs(sr_recipe *r, plan_work *w) {
    sr_schedule schedule;
    int64_t steps;
    if (!r->data.train)
        return SR_OK;
    SR_TRY(sr_inputs_open(r, w->task, &w->inputs));
    SR_TRY(sr_inputs_lengths(r, w->inputs.count, &steps, &w->lengths));
    for (int i = 0; i < r->set_count; i++)
        SR_TRY(sr_choose_schedule(r, i, &w->arena, &w->lengths, &schedule));
    return SR_OK;
}

static sr_status plan_data(sr_recipe *r, plan_work *w) {
    sr_pipeline_options options;
    if (!w->inputs.train)
        return SR_OK;
    return sr_inputs_plan_data(r, w->task, &w->lengths, sr_engine_get_info(w->engine).device,
                               &w->arena, &w->inputs, &options);
}

// The number of classes where no data say it: the one that is asked for, the one that the loss is
// written for, or the usual one.
static sr_status assume_classes(sr_recipe *r, int64_t classes, plan_work *w) {
    sr_choice_loss loss;
    SR_TRY(sr_choose_loss(r, w->task, 0, &w->arena, &loss));
    if (classes == 0)
        classes = sr_choice_loss_classes(&loss);
    w->assumed = classes > 0 ? classes : sr_task_usual_classes(w->task);
    return SR_OK;
}

// Does everything that training does up to its first step, except for the run folder. classes:
// where no data say how many; 0: as assumed. Lanes are not checked. To be released even after
// a failure.
static sr_status begin(sr_recipe *r, int ranks, int64_t classes, plan_work *w) {
    const sr_comm_options comm = {.alone = true};
    sr_device_properties device;
    *w = (plan_work){0};
    sr_arena_init(&w->arena);
    SR_TRY(sr_check_ranks(r, ranks));
    SR_TRY(sr_check_weights(r));
    SR_TRY(sr_choose_task(r, &w->task));
    SR_TRY(sr_choose_device(r, 0, &device));
    SR_TRY(open_inputs(r, w));
    SR_TRY(sr_comm_create(&comm, &w->comm));
    sr_engine_options options = sr_engine_options_of(r, w->task);
    options.comm = w->comm;
    options.device = device.name;
    SR_TRY(assume_classes(r, classes, w));
    options.classes = w->inputs.train ? w->inputs.class_count : w->assumed;
    options.plans_only = true;
    SR_TRY(sr_engine_create(&options, &w->engine));
    SR_TRY(plan_data(r, w));
    SR_TRY(sr_inputs_check_memory(w->engine, &w->inputs, 1));
    return w->inputs.train
               ? sr_inputs_load_weights(r, w->engine, w->inputs.class_names, w->inputs.class_count)
               : SR_OK;
}

// The same for one rank, with default kernels: those with the same bits are not timed.
static sr_status begin_untimed(sr_recipe *r, int64_t classes, plan_work *w) {
    r->chooser = SR_CHOOSER_OFF;
    return begin(r, 1, classes, w);
}

static void print_data(const sr_recipe *r, const plan_work *w) {
    const sr_inputs *in = &w->inputs;
    if (!in->train) {
        (void)printf("\ndata: data.train is missing; %lld classes are assumed\n",
                     (long long)w->assumed);
        return;
    }
    char bytes[16];
    (void)printf("\ndata: %lld picture%s", (long long)in->count, in->count == 1 ? "" : "s");
    if (in->class_count > 0)
        (void)printf(" of %d class%s", in->class_count, in->class_count == 1 ? "" : "es");
    if (in->val_path[0])
        (void)printf(", %lld for evaluation\n", (long long)in->val_count);
    else
        (void)printf(", none for evaluation\n");
    if (in->resident > 0)
        (void)printf("training pictures stay on the device if all have the image's size: %s\n",
                     sr_text_bytes(in->resident, bytes));
    sr_text text;
    sr_text_init(&text);
    sr_inputs_describe_draws(r, in, &text);
    if (!text.failed)
        (void)fputs(text.data, stdout);
    sr_text_release(&text);
}

static sr_status report(const sr_recipe *r, const plan_work *w, int ranks) {
    sr_text yaml;
    sr_text_init(&yaml);
    sr_status status = sr_recipe_print_yaml(r, true, &yaml);
    if (status == SR_OK)
        (void)fputs(yaml.data, stdout);
    sr_text_release(&yaml);
    SR_TRY(status);
    print_data(r, w);
    for (int p = 0; p < sr_engine_get_info(w->engine).phases; p++)
        SR_TRY(report_phase(w->engine, p));
    print_device(w->engine);
    print_lanes(r, ranks);
    return sr_inputs_check_lanes(w->engine, true);
}

sr_status sr_plan_rehearse(sr_recipe *recipe) {
    plan_work work;
    sr_status status = begin_untimed(recipe, 0, &work);
    if (status == SR_OK)
        status = sr_inputs_check_lanes(work.engine, false);
    release(&work);
    return status;
}

static sr_status plan_with_task(const char *model, const sr_task_desc *task) {
    char text[160];
    const char *const override = text;
    sr_recipe *recipe;
    plan_work work;
    (void)snprintf(text, sizeof text, "task=%s", task->name);
    SR_TRY(sr_recipe_for_model(model, &override, 1, &recipe));
    const sr_status status = begin_untimed(recipe, 0, &work);
    release(&work);
    sr_recipe_free(recipe);
    return status;
}

const sr_task_desc *sr_plan_task_of(const char *model) {
    size_t count;
    const sr_task_desc *const *tasks = sr_tasks(&count);
    for (size_t i = 0; i < count; i++)
        if (plan_with_task(model, tasks[i]) == SR_OK)
            return tasks[i];
    return NULL;
}

sr_status sr_plan_report(sr_recipe *recipe, int ranks) {
    plan_work work;
    ranks = ranks > 0 ? ranks : 1;
    sr_status status = begin(recipe, ranks, 0, &work);
    if (status == SR_OK)
        status = sr_inputs_check_lanes(work.engine, false);
    if (status == SR_OK)
        status = report(recipe, &work, ranks);
    release(&work);
    return status;
}

static sr_status add_summaries(sr_engine *engine, const sr_plan_summary_options *options,
                               sr_arena *arena, sr_text *out) {
    for (int p = 0; p < sr_engine_get_info(engine).phases; p++) {
        sr_summary summary;
        SR_TRY(sr_summary_make(engine, p, arena, &summary));
        if (options->json) {
            sr_summary_add_json(&summary, options->depth, out);
            continue;
        }
        if (p > 0)
            sr_text_add(out, "\n");
        sr_summary_add_rows(&summary, options->depth, out);
        sr_summary_add_totals(&summary, out);
    }
    return sr_text_check(out);
}

sr_status sr_plan_summary(sr_recipe *recipe, const sr_plan_summary_options *options, sr_text *out) {
    plan_work work;
    sr_status status = begin_untimed(recipe, options->classes, &work);
    if (status == SR_OK)
        status = add_summaries(work.engine, options, &work.arena, out);
    release(&work);
    return status;
}

static sr_status find_phase(const sr_engine *engine, const char *name, int *out) {
    const int count = sr_engine_get_info(engine).phases;
    for (*out = 0; *out < count; (*out)++)
        if (!name || strcmp(sr_phase_get_info(sr_engine_get_phase(engine, *out)).name, name) == 0)
            return SR_OK;
    return SR_FAIL(SR_E_USAGE, "the recipe has no phase '%s'", name);
}

static sr_status write_program(sr_engine *engine, const sr_plan_program_options *options,
                               const sr_target *targets, int count, sr_text *out) {
    sr_context *context = sr_engine_get_info(engine).context;
    return options->drawing ? sr_program_draw(context, targets, count, out)
                            : sr_program_write(context, targets, count, out);
}

static sr_status add_inference(sr_engine *engine, const sr_plan_program_options *options,
                               sr_text *out) {
    const sr_engine_info e = sr_engine_get_info(engine);
    sr_target targets[SR_TASK_OUTPUTS];
    sr_task_outputs outputs;
    sr_eval_view view;
    e.task->view(e.recipe, e.task_options, &view);
    SR_TRY(sr_engine_record_inference(engine, e.recipe->eval.batch / e.lanes, view.height,
                                      view.width, &outputs, targets));
    return write_program(engine, options, targets, outputs.count, out);
}

static sr_status add_program(sr_engine *engine, const sr_plan_program_options *options,
                             sr_text *out) {
    sr_plan *plan;
    int phase;
    if (options->inference)
        return add_inference(engine, options, out);
    SR_TRY(find_phase(engine, options->phase, &phase));
    SR_TRY(sr_engine_compile(engine, phase, &plan));
    return write_program(engine, options, NULL, 0, out);
}

sr_status sr_plan_program(sr_recipe *recipe, const sr_plan_program_options *options, sr_text *out) {
    plan_work work;
    sr_status status = begin_untimed(recipe, options->classes, &work);
    if (status == SR_OK)
        status = add_program(work.engine, options, out);
    release(&work);
    return status;
}
