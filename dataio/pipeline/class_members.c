// SPDX-License-Identifier: Apache-2.0
// Sorts the samples of a data set by class, for draws by class (class_members_internal.h).
#include "dataio/pipeline/class_members_internal.h"

#include <string.h>

#include "kernels/base/memory.h"

uint64_t sr_class_members_bytes(const sr_stage_plan *plan) {
    if (!(plan->options.balance > 0))
        return 0;
    return (uint64_t)(plan->class_count + 1 + plan->count) * sizeof(int64_t);
}

// A counting sort: the class of sample s is counted in first[class + 1], and the sums of these are
// where classes begin.
sr_status sr_class_members_write(const sr_stage_plan *plan, int64_t *to) {
    const int32_t *labels = plan->options.labels;
    int64_t *first = to, *samples = to + plan->class_count + 1;
    if (sr_class_members_bytes(plan) == 0)
        return SR_OK;
    memset(first, 0, (size_t)(plan->class_count + 1) * sizeof *first);
    for (int64_t s = 0; s < plan->count; s++) {
        if (labels[s] < 0 || labels[s] >= plan->class_count)
            return SR_FAIL(SR_E_DATA, "sample %lld has no class: samples cannot be drawn by class",
                           (long long)s);
        first[labels[s] + 1]++;
    }
    for (int64_t c = 0; c < plan->class_count; c++)
        first[c + 1] += first[c];
    for (int64_t s = 0; s < plan->count; s++)
        samples[first[labels[s]]++] = s;
    // Each begin has moved to its end, which is the next class's begin.
    memmove(first + 1, first, (size_t)plan->class_count * sizeof *first);
    first[0] = 0;
    return SR_OK;
}

sr_class_draws sr_class_members_read(const sr_stage_plan *plan) {
    const int64_t *first = (const int64_t *)(uintptr_t)(plan->sealed + plan->members);
    return (sr_class_draws){.classes = plan->class_count,
                            .first = first,
                            .samples = first + plan->class_count + 1,
                            .power = plan->options.balance};
}
