// SPDX-License-Identifier: Apache-2.0
// serried bench step --plan --gpu: from an engine to the levels of its plan (bench_gpu_internal.h).
#include <math.h>

#include "launcher/bench/bench_gpu_internal.h"
#include "trainer/exchange/exchange.h"

// What brings the gradients of the lanes to their sum, in f32: few launches for each bucket add
// those of lanes side by side. The sums of several turns are added as a tree.
static sr_status add_sums(const sr_param_set_info *info, double lanes, double at_once,
                          sr_gpu_program *program) {
    const double elements = (double)info->elements, turns = lanes / at_once, adds = turns - 1;
    double bytes = elements * (4 * at_once + 4) * turns + elements * 12 * adds;
    if (at_once < 2) // every second lane is added to the one before
        bytes = elements * (8 * (double)((int64_t)(lanes + 1) / 2) + 12 * adds);
    return sr_gpu_program_add_fixed(program, "sum of lanes", bytes, info->launches * turns + adds,
                                    1);
}

// The update, in f32: a launch for each bucket (trainer/exchange/exchange.h).
static sr_status add_update(const sr_param_set *set, sr_gpu_plan *plan) {
    enum { USUAL_BUCKET = 4 << 20 };
    sr_gpu_program *program = &plan->level[0].program;
    const sr_recipe *recipe = plan->result->recipe;
    const sr_param_set_info info = sr_param_set_get_info(set);
    const double elements = (double)info.elements;
    const double bucket =
        recipe->exchange.bucket > 0 ? (double)recipe->exchange.bucket : (double)USUAL_BUCKET;
    const double buckets = ceil(elements * sizeof(float) / bucket);
    SR_TRY(add_sums(&info, (double)plan->result->lanes, plan->at_once, program));
    SR_TRY(sr_gpu_program_add_fixed(program, info.optimizer->name,
                                    elements * (12 + 8 * info.states), buckets, 1));
    return sr_param_set_has_average(set)
               ? sr_gpu_program_add_fixed(program, "ema", 12 * elements, buckets, 1)
               : SR_OK;
}

static double slot_bytes(const sr_slot *slot) {
    double bytes = 0;
    for (int i = 0; i < slot->arrays; i++) {
        double count = 1;
        for (int d = 0; d < slot->array[i].rank; d++)
            count *= (double)slot->array[i].shape[d];
        bytes += count * (double)sr_dtype_size(slot->array[i].dtype);
    }
    return bytes;
}

// Two sets of inputs: one is filled while the other is read.
static sr_status collect(sr_engine *engine, sr_gpu_plan *plan) {
    const sr_engine_info e = sr_engine_get_info(engine);
    plan->at_once = e.at_once;
    plan->fixed_memory = 2 * e.at_once * slot_bytes(sr_engine_get_slot(engine));
    for (int i = 0; i < e.phases; i++) {
        const sr_phase_info phase = sr_phase_get_info(sr_engine_get_phase(engine, i));
        sr_plan *lanes;
        SR_TRY(sr_engine_compile_lanes(engine, i, &lanes));
        SR_TRY(sr_gpu_program_add(&plan->level[0].program, lanes, plan->gpu,
                                  (double)e.lanes / e.at_once));
        SR_TRY(add_update(sr_engine_get_set(engine, phase.set), plan));
    }
    for (int i = 0; i < e.sets; i++) {
        const sr_param_set_info set = sr_param_set_get_info(sr_engine_get_set(engine, i));
        plan->fixed_memory += (double)set.elements * sizeof(float) * set.arrays;
    }
    return SR_OK;
}

static sr_status measure(const sr_gpu_plan *plan, sr_gpu_level *level) {
    double live;
    for (int i = 0; i < level->program.kernel_count; i++) {
        const sr_gpu_kernel *k = &level->program.kernels[i];
        const sr_gpu_cost cost = sr_gpu_cost_of(&level->program, k, plan->gpu);
        sr_gpu_cost_add(&level->family[k->family], &cost);
        sr_gpu_cost_add(&level->step, &cost);
    }
    SR_TRY(sr_gpu_live_bytes(&level->program, &live));
    level->memory = plan->fixed_memory + live;
    return SR_OK;
}

static sr_status make_levels(sr_gpu_plan *plan) {
    for (int i = 0; i < SR_GPU_LEVELS; i++) {
        sr_gpu_level *level = &plan->level[i];
        if (i > 0)
            SR_TRY(sr_gpu_program_copy(&plan->level[i - 1].program, &level->program));
        SR_TRY(sr_gpu_steps[i].apply(&level->program));
        SR_TRY(measure(plan, level));
    }
    return SR_OK;
}

sr_status sr_step_plan_gpu(sr_engine *engine, const sr_step_result *result, const char *gpu,
                           bool json) {
    sr_gpu_plan plan = {.gpu = sr_gpu_find(gpu), .result = result};
    sr_context_set_prologues(sr_engine_get_info(engine).context, sr_gpu_takes_prologue);
    sr_status status = collect(engine, &plan);
    if (status == SR_OK)
        status = make_levels(&plan);
    if (status == SR_OK)
        status = json ? sr_gpu_report_json(&plan) : sr_gpu_report(&plan);
    for (int i = 0; i < SR_GPU_LEVELS; i++)
        sr_gpu_program_release(&plan.level[i].program);
    return status;
}
