// SPDX-License-Identifier: Apache-2.0
// Inspecting a plan (see plan_view.h).
#include "graph/plan_view.h"

#include "graph/plan_internal.h"

static uint32_t memory_of(const sr_plan *plan, uint32_t value) {
    return value == SR_REF_NONE ? SR_PLAN_NO_VALUE : plan->values[value].root;
}

static void find_steps(const sr_plan *plan, uint32_t launch, sr_plan_launch_view *out) {
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const sr_step *step = &plan->steps[s];
        for (uint32_t i = step->first; i < step->first + step->count; i++) {
            if (plan->items[i].launch != launch)
                continue;
            out->last_step = (int)s;
            if (out->first_step < 0)
                out->first_step = (int)s;
        }
    }
}

void sr_plan_get_launch(const sr_plan *plan, int launch, sr_plan_launch_view *out) {
    const sr_launch *l = &plan->launches[launch];
    const sr_kernel_request *request = &plan->prepared[l->prepared].request;
    *out = (sr_plan_launch_view){.op = l->op->name,
                                 .kernel = plan->prepared[l->prepared].prepared.entry->name,
                                 .file = l->file,
                                 .line = l->line,
                                 .layer = l->layer,
                                 .backward = l->backward,
                                 .id = request->kernel,
                                 .params = request->params,
                                 .flops = l->flops,
                                 .bytes = l->bytes,
                                 .runs = (int)l->runs,
                                 .args = l->args,
                                 .inputs = l->op->inputs,
                                 .workspace = memory_of(plan, l->workspace),
                                 .packed = memory_of(plan, l->packed),
                                 .packs = l->packs,
                                 .first_step = -1};
    for (int i = 0; i < l->args; i++) {
        out->value[i] = memory_of(plan, l->arg[i]);
        if (l->arg[i] != SR_REF_NONE && plan->values[l->arg[i]].lanes > 1)
            out->varies |= 1U << i;
        out->info[i] = l->arg[i] == SR_REF_NONE ? (sr_info){.dtype = SR_DTYPE_COUNT}
                                                : plan->values[l->arg[i]].info;
    }
    find_steps(plan, (uint32_t)launch, out);
}

int sr_plan_step_count(const sr_plan *plan) {
    return (int)plan->step_count;
}

int sr_plan_step_launch(const sr_plan *plan, int step) {
    return (int)plan->items[plan->steps[step].first].launch;
}

uint32_t sr_plan_value_count(const sr_plan *plan) {
    return plan->value_count;
}

bool sr_plan_get_memory(const sr_plan *plan, uint32_t value, sr_plan_memory_view *out) {
    if (!sr_plan_in_range(plan, value))
        return false;
    const sr_plan_value *v = &plan->values[value];
    *out = (sr_plan_memory_view){.offset = v->offset,
                                 .bytes = sr_plan_aligned(v->bytes),
                                 .first = (int)v->first,
                                 .last = (int)v->last,
                                 .workspace =
                                     value >= plan->first_workspace && value < plan->first_packed};
    return true;
}

bool sr_plan_get_planner(const sr_plan *plan, int planner, sr_planner_view *out) {
    if (planner < 0 || planner >= SR_PLANNERS)
        return false;
    *out = (sr_planner_view){.name = sr_planner_names[planner],
                             .bytes = plan->peaks[planner],
                             .taken = planner == plan->planner};
    return true;
}
