// SPDX-License-Identifier: Apache-2.0
// Packing: what kernels make of an argument first (sr_kernel_packing), as weights in the type of
// the activations, is made once in a replay for all that can use it: a layer, its gradient, other
// uses of the same weights, and all lanes of a kernel that takes one at a time. It has memory of
// its own from the first launch to the last. Bit-neutral.
//
// A kernel that runs for each lane makes nothing for others, so that its runs do not wait for each
// other.
#include "graph/plan_internal.h"

static const sr_kernel_packing *packing_of(const sr_plan *plan, const sr_launch *l) {
    return &plan->prepared[l->prepared].prepared.packing;
}

// The value that a launch packs, or SR_REF_NONE; none that lanes have of their own, or that the
// program updates.
static uint32_t source_of(const sr_plan *plan, const sr_launch *l) {
    const sr_kernel_packing *packing = packing_of(plan, l);
    if (packing->bytes == 0)
        return SR_REF_NONE;
    const uint32_t value = l->arg[packing->argument], root = plan->values[value].root;
    return plan->values[value].lanes > 1 || plan->values[root].updated ? SR_REF_NONE : root;
}

static bool are_alike(const sr_kernel_packing *a, const sr_kernel_packing *b) {
    return a->bytes == b->bytes && a->layout == b->layout;
}

static void use(sr_plan *plan, sr_launch *l, uint32_t value) {
    sr_plan_value *workspace = &plan->values[l->workspace];
    sr_plan_set_workspace(workspace, workspace->lane_bytes - packing_of(plan, l)->bytes);
    if (workspace->bytes == 0) {
        workspace->first = SR_NO_STEP;
        l->workspace = SR_REF_NONE;
    }
    l->packed = value;
}

// The first launch makes it for those behind it, if there are any.
static void share(sr_plan *plan, uint32_t first) {
    sr_launch *maker = &plan->launches[first];
    const uint32_t source = source_of(plan, maker);
    if (source == SR_REF_NONE || maker->packed != SR_REF_NONE || maker->runs > 1)
        return;
    const sr_kernel_packing *packing = packing_of(plan, maker);
    for (uint32_t i = first + 1; i < plan->launch_count; i++) {
        sr_launch *l = &plan->launches[i];
        if (source_of(plan, l) != source || !are_alike(packing, packing_of(plan, l)))
            continue;
        if (!maker->packs) {
            const uint32_t number = plan->value_count++;
            plan->values[number] = (sr_plan_value){.info = {.dtype = SR_U8, .rank = 1},
                                                   .bytes = packing->bytes,
                                                   .lane_bytes = packing->bytes,
                                                   .lanes = 1,
                                                   .root = number,
                                                   .first = first};
            use(plan, maker, number);
            maker->packs = true;
        }
        use(plan, l, maker->packed);
        plan->values[maker->packed].last = i;
    }
}

void sr_pass_packing(sr_plan *plan) {
    plan->first_packed = plan->value_count;
    for (uint32_t i = 0; i < plan->launch_count; i++)
        share(plan, i);
}
