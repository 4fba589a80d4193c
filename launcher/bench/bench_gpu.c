// SPDX-License-Identifier: Apache-2.0
// serried bench step --plan --gpu: from an engine to the levels of its plan (bench_gpu_internal.h).
#include "launcher/bench/bench_gpu_internal.h"
#include "trainer/exchange/exchange.h"

// What brings the gradients of the lanes to their sum, and the update: in f32, a launch for each
// parameter and, of updates, for each block (trainer/exchange/exchange.h).
static sr_status add_update(const sr_param_set *set, int64_t lanes, sr_gpu_program *program) {
    const sr_param_set_info info = sr_param_set_get_info(set);
    const double elements = (double)info.elements, params = info.model->param_count;
    const double copies = (double)((lanes + 1) / 2), adds = (double)(lanes - 1);
    SR_TRY(sr_gpu_program_add_fixed(program, "sum of lanes", elements * (8 * copies + 12 * adds),
                                    params * (double)lanes, 1));
    SR_TRY(sr_gpu_program_add_fixed(program, info.optimizer->name,
                                    elements * (12 + 8 * info.states),
                                    params + elements / SR_BLOCK_ELEMENTS, 1));
    return sr_param_set_has_average(set)
               ? sr_gpu_program_add_fixed(program, "ema", 12 * elements,
                                          params + elements / SR_BLOCK_ELEMENTS, 1)
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
    plan->fixed_memory = 2 * slot_bytes(sr_engine_get_slot(engine));
    for (int i = 0; i < e.phases; i++) {
        const sr_phase_info phase = sr_phase_get_info(sr_engine_get_phase(engine, i));
        sr_plan *lane;
        SR_TRY(sr_engine_compile(engine, i, &lane));
        SR_TRY(sr_gpu_program_add(&plan->level[0].program, lane, e.lanes));
        SR_TRY(add_update(sr_engine_get_set(engine, phase.set), e.lanes, &plan->level[0].program));
    }
    for (int i = 0; i < e.sets; i++) {
        const sr_param_set_info set = sr_param_set_get_info(sr_engine_get_set(engine, i));
        plan->fixed_memory += (double)set.elements * sizeof(float) * set.arrays;
    }
    return SR_OK;
}

static sr_status measure(const sr_gpu_plan *plan, sr_gpu_rate rate, sr_gpu_level *level) {
    double live;
    for (int i = 0; i < level->program.kernel_count; i++) {
        const sr_gpu_kernel *k = &level->program.kernels[i];
        const sr_gpu_cost cost = sr_gpu_cost_of(&level->program, k, plan->gpu, rate);
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
        SR_TRY(measure(plan, sr_gpu_steps[i].rate, level));
    }
    return SR_OK;
}

sr_status sr_step_plan_gpu(sr_engine *engine, const sr_step_result *result, const char *gpu,
                           bool json) {
    sr_gpu_plan plan = {.gpu = sr_gpu_find(gpu), .result = result};
    sr_status status = collect(engine, &plan);
    if (status == SR_OK)
        status = make_levels(&plan);
    if (status == SR_OK)
        status = json ? sr_gpu_report_json(&plan) : sr_gpu_report(&plan);
    for (int i = 0; i < SR_GPU_LEVELS; i++)
        sr_gpu_program_release(&plan.level[i].program);
    return status;
}
