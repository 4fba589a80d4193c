// SPDX-License-Identifier: Apache-2.0
// A plan as text: a line for each step, with the stages that run in it.
#include "graph/plan_internal.h"
#include "kernels/base/text.h"

static void add_item(const sr_plan *plan, const sr_item *item, sr_text *out) {
    const sr_launch *l = &plan->launches[item->launch];
    const sr_prepared *prepared = &plan->prepared[l->prepared].prepared;
    sr_text_add(out, " %s", prepared->entry->name);
    if (prepared->stages > 1 && item->stage != SR_ALL_STAGES)
        sr_text_add(out, ":%d", item->stage);
}

sr_status sr_plan_text(const sr_plan *plan, sr_text *out) {
    uint32_t stop = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const sr_step *step = &plan->steps[i];
        const sr_launch *first = &plan->launches[plan->items[step->first].launch];
        sr_text_add(out, "step %u units %lld %s:%d", i, (long long)step->units, first->file,
                    first->line);
        for (uint32_t k = 0; k < step->count; k++)
            add_item(plan, &plan->items[step->first + k], out);
        sr_text_add(out, "\n");
        for (; stop < plan->stop_count && plan->stops[stop].end == i + 1; stop++)
            sr_text_add(out, "stop %u joins %u of %lld lanes\n", stop, plan->stops[stop].count,
                        (long long)plan->joins[plan->stops[stop].first].lanes);
    }
    return sr_text_check(out);
}
