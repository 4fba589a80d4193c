// SPDX-License-Identifier: Apache-2.0
// The table of schedules: those of schedule_list.def, then those of plug-ins.
#include "trainer/schedules/schedule.h"

#include "kernels/base/table.h"

#define SR_SCHEDULE(symbol) extern const sr_schedule_desc symbol;
#include "trainer/schedules/schedule_list.def"
#undef SR_SCHEDULE

static const sr_schedule_desc *const built_in[] = {
#define SR_SCHEDULE(symbol) &(symbol),
#include "trainer/schedules/schedule_list.def"
#undef SR_SCHEDULE
};

static sr_status check(const void *descriptor) {
    const sr_schedule_desc *schedule = descriptor;
    return schedule->factor ? SR_OK : SR_FAIL(SR_E_USAGE, "it needs a function 'factor'");
}

static sr_table table = {.what = "schedule",
                         .struct_size = sizeof(sr_schedule_desc),
                         .abi = SR_SCHEDULE_ABI,
                         .built_in = built_in,
                         .built_in_count = sizeof built_in / sizeof built_in[0],
                         .check = check};

const sr_schedule_desc *const *sr_schedules(size_t *count) {
    return sr_table_all(&table, count);
}

sr_status sr_schedule_find(const char *name, const sr_schedule_desc **out) {
    const void *found;
    SR_TRY(sr_table_choose(&table, name, &found));
    *out = found;
    return SR_OK;
}

sr_status sr_schedules_add(const sr_schedule_desc *const *list, const char *origin) {
    return sr_table_add(&table, list, origin);
}
