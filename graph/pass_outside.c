// SPDX-License-Identifier: Apache-2.0
// Values outside the range (inputs, variables, memory of the step) and the arguments that use them:
// an executor updates only these when it replays a plan for which it has calls.
#include "graph/plan_internal.h"

static bool is_outside(const sr_plan *plan, uint32_t value) {
    return plan->values[value].root == value && plan->values[value].storage != SR_STORAGE_RANGE;
}

// Counts the uses of each root outside the range; 'number' is its index in 'outside'. With 'list',
// also stores them from first_use on.
static void walk_uses(sr_plan *plan, const uint32_t *number, bool list) {
    for (uint32_t t = 0; t < plan->launch_count; t++) {
        const sr_launch *l = &plan->launches[t];
        for (int i = 0; i < l->args; i++) {
            if (l->arg[i] == SR_REF_NONE || !is_outside(plan, plan->values[l->arg[i]].root))
                continue;
            sr_outside *o = &plan->outside[number[plan->values[l->arg[i]].root]];
            if (list)
                plan->uses[o->first_use + o->use_count] = l->first_pointer + (uint32_t)i;
            o->use_count++;
        }
    }
}

static void find_uses(sr_plan *plan, const uint32_t *number) {
    walk_uses(plan, number, false);
    for (uint32_t i = 0, first = 0; i < plan->outside_count; i++) {
        plan->outside[i].first_use = first;
        first += plan->outside[i].use_count;
        plan->outside[i].use_count = 0;
    }
    walk_uses(plan, number, true);
}

sr_status sr_pass_outside(sr_plan *plan) {
    sr_status status = SR_OK;
    uint32_t *number = sr_alloc_array(plan->value_count + 1, sizeof *number, "plan");
    if (!number)
        return SR_E_MEMORY;
    for (uint32_t i = 0; i < plan->value_count; i++)
        if (is_outside(plan, i))
            number[i] = plan->outside_count++;
    plan->outside = sr_arena_alloc(&plan->arena, (plan->outside_count + 1) * sizeof *plan->outside);
    plan->uses = sr_arena_alloc(&plan->arena, (plan->arg_count + 1) * sizeof *plan->uses);
    if (!plan->outside || !plan->uses) {
        status = SR_E_MEMORY;
        goto out;
    }
    for (uint32_t i = 0; i < plan->value_count; i++)
        if (is_outside(plan, i))
            plan->outside[number[i]] = (sr_outside){.value = i};
    find_uses(plan, number);
out:
    sr_free(number);
    return status;
}
