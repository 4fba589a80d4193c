// SPDX-License-Identifier: Apache-2.0
// In place: an output reuses the memory of an input whose last use is the same launch, if the
// operator's descriptor allows it; not that of a target, which is passed to the sink later.
// Bit-neutral: such kernels give the same bits either way.
#include "graph/plan_internal.h"

// While this pass runs, the root of a value is at the end of a short chain.
static uint32_t root_of(const sr_plan *plan, uint32_t value) {
    while (plan->values[value].root != value)
        value = plan->values[value].root;
    return value;
}

static bool may_take(const sr_plan *plan, uint32_t launch, int output, int input) {
    const sr_launch *l = &plan->launches[launch];
    int inputs = l->op->inputs;
    if (!(l->op->in_place >> (8 * output + input) & 1) || l->arg[input] == SR_REF_NONE)
        return false;
    uint32_t from = root_of(plan, l->arg[input]);
    uint32_t to = root_of(plan, l->arg[inputs + output]);
    const sr_plan_value *dying = &plan->values[from], *born = &plan->values[to];
    if (from == to || dying->pinned || born->pinned || dying->delivered || dying->last != launch ||
        dying->bytes != born->bytes || dying->lanes != born->lanes)
        return false;
    for (int i = 0; i < l->args; i++)
        if (i != input && l->arg[i] != SR_REF_NONE && root_of(plan, l->arg[i]) == from)
            return false;
    return true;
}

static void take(sr_plan *plan, uint32_t from, uint32_t to) {
    if (plan->values[to].last > plan->values[from].last)
        plan->values[from].last = plan->values[to].last;
    plan->values[from].delivered = plan->values[from].delivered || plan->values[to].delivered;
    plan->values[to].root = from;
}

void sr_pass_in_place(sr_plan *plan) {
    for (uint32_t t = 0; t < plan->launch_count; t++) {
        const sr_launch *l = &plan->launches[t];
        if (l->op->alias)
            continue;
        int outputs = l->args - l->op->inputs;
        for (int o = 0; o < outputs; o++) {
            for (int i = 0; i < l->op->inputs; i++) {
                if (!may_take(plan, t, o, i))
                    continue;
                take(plan, root_of(plan, l->arg[i]), root_of(plan, l->arg[l->op->inputs + o]));
                break;
            }
        }
    }
    for (uint32_t i = 0; i < plan->value_count; i++)
        plan->values[i].root = root_of(plan, i);
}
