// SPDX-License-Identifier: Apache-2.0
// Columns and outputs (metric.h).
#include "trainer/tasks/metric.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *sr_column_text(const sr_column *column, double value, char out[SR_COLUMN_TEXT]) {
    switch (column->unit) {
    case SR_UNIT_FRACTION:
        (void)snprintf(out, SR_COLUMN_TEXT, "%.2f %%", 100 * value);
        break;
    case SR_UNIT_LOSS:
        (void)snprintf(out, SR_COLUMN_TEXT, "%.4f", value);
        break;
    case SR_UNIT_NUMBER:
    default:
        (void)snprintf(out, SR_COLUMN_TEXT, "%.5g", value);
        break;
    }
    return out;
}

bool sr_column_is_better(const sr_column *column, double now, double before) {
    if (isnan(now) || isnan(before))
        return !isnan(now);
    return column->better == SR_BETTER_LOWER ? now < before : now > before;
}

sr_status sr_task_outputs_get(const sr_task_outputs *outputs, const char *name,
                              const sr_task_output **out) {
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; i < outputs->count; i++) {
        *out = &outputs->item[i];
        if (strcmp((*out)->name, name) == 0)
            return SR_OK;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                                     (*out)->name);
    }
    *out = NULL;
    return SR_FAIL(SR_E_ARGUMENT, "inference has no output '%s'; it has: %s", name, names);
}
