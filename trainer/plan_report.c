// SPDX-License-Identifier: Apache-2.0
// The report of --dry-run (plan_report.h): a real engine is created and its first lane program
// compiled, so that shapes, memory and FLOPs are those of the run.
#include "trainer/plan_report.h"

#include <stdio.h>
#include <string.h>

#include "dataio/dataset.h"
#include "kernels/base/log.h"
#include "kernels/base/text.h"
#include "trainer/choices.h"
#include "trainer/engine.h"
#include "trainer/param_groups.h"

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
    (void)printf("  %.0f parameters\n", model->parameters);
}

static sr_status print_groups(const sr_recipe_optimizer *settings, const sr_model *model) {
    sr_text text;
    sr_text_init(&text);
    sr_param_groups_describe(settings, model, &text);
    const sr_status status = sr_text_check(&text);
    if (status == SR_OK)
        (void)fputs(text.data, stdout);
    sr_text_release(&text);
    return status;
}

static void print_memory(const sr_engine *e, const sr_phase *phase, const sr_plan *plan) {
    char text[16];
    uint64_t flat = (uint64_t)phase->elements * sizeof(float);
    (void)printf("\nmemory of a rank\n  parameters and gradients' sums  %s\n",
                 sr_text_bytes(flat, text));
    (void)printf("  optimiser state                 %s\n",
                 sr_text_bytes(flat * (uint64_t)phase->optimizer->slots, text));
    (void)printf("  average                         %s\n",
                 sr_text_bytes(phase->ema ? flat : 0, text));
    (void)printf("  activations of a lane           %s",
                 sr_text_bytes(sr_plan_peak_bytes(plan), text));
    (void)printf(" (live bound %s), %d at a time\n",
                 sr_text_bytes(sr_plan_live_bound_bytes(plan), text), e->executor_count);
}

static void print_lanes(const sr_recipe *r, int ranks) {
    int64_t samples = r->batch / r->lanes;
    (void)printf("\nlanes: %lld, each of %lld samples\n", (long long)r->lanes, (long long)samples);
    for (int rank = 0; rank < ranks; rank++)
        (void)printf("  rank %d: lanes %d..%d\n", rank, sr_lanes_first((int)r->lanes, ranks, rank),
                     sr_lanes_first((int)r->lanes, ranks, rank + 1) - 1);
    if (samples < 16)
        SR_WARN("a lane has %lld samples: batch norm over fewer than 16 is noisy; lower lanes",
                (long long)samples);
}

static sr_status report_phase(sr_engine *e, int p) {
    sr_plan *plan;
    SR_TRY(sr_engine_compile(e, p, &plan));
    print_model(e->models[p]);
    SR_TRY(print_groups(&e->recipe->phases[p].optimizer, e->models[p]));
    (void)printf("\n%d operators a lane, %.3f GFLOP, %.1f MB touched, forward and backward\n",
                 sr_plan_node_count(plan), sr_plan_flops(plan) * 1e-9, sr_plan_bytes(plan) * 1e-6);
    print_memory(e, e->phases[p], plan);
    return SR_OK;
}

static int64_t class_count(const sr_recipe *r) {
    sr_dataset *data;
    if (!r->data.train || sr_dataset_open(r->data.train, "train", &data) != SR_OK)
        return 1000;
    int64_t classes = sr_dataset_class_count(data);
    sr_dataset_free(data);
    return classes;
}

static sr_status report(sr_recipe *r, sr_comm *comm, int ranks) {
    const sr_task_desc *task;
    sr_engine *e;
    sr_text yaml;
    SR_TRY(sr_choose_task(r, &task));
    const sr_engine_options options = {.recipe = r,
                                       .task = task,
                                       .comm = comm,
                                       .classes = class_count(r),
                                       .batch = r->batch,
                                       .lanes = r->lanes,
                                       .image_height = r->image_height,
                                       .image_width = r->image_width,
                                       .seed = (uint64_t)r->seed};
    SR_TRY(sr_engine_create(&options, &e));
    sr_text_init(&yaml);
    sr_status status = sr_recipe_print_yaml(r, true, &yaml);
    (void)fputs(yaml.data, stdout);
    sr_text_release(&yaml);
    for (int p = 0; p < e->phase_count && status == SR_OK; p++)
        status = report_phase(e, p);
    print_lanes(r, ranks);
    sr_engine_free(e);
    return status;
}

sr_status sr_plan_report(sr_recipe *recipe, int ranks) {
    sr_comm *comm;
    const sr_comm_options options = {.backend = "self"};
    ranks = ranks > 0 ? ranks : 1;
    if (ranks > recipe->lanes) {
        return sr_recipe_fail(recipe, "lanes",
                              "batch %lld has %lld lanes, so at most %lld ranks; raise lanes "
                              "(changes BatchNorm and results)",
                              (long long)recipe->batch, (long long)recipe->lanes,
                              (long long)recipe->lanes);
    }
    SR_TRY(sr_comm_create(&options, &comm));
    sr_status status = report(recipe, comm, ranks);
    sr_comm_free(comm);
    return status;
}
