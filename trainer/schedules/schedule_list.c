// SPDX-License-Identifier: Apache-2.0
// The table of schedules: schedule_list.def.
#include "trainer/schedule.h"

#define SR_SCHEDULE(symbol) extern const sr_schedule_desc symbol;
#include "trainer/schedules/schedule_list.def"
#undef SR_SCHEDULE

static const sr_schedule_desc *const table[] = {
#define SR_SCHEDULE(symbol) &(symbol),
#include "trainer/schedules/schedule_list.def"
#undef SR_SCHEDULE
};

const sr_schedule_desc *const *sr_schedules(size_t *count) {
    *count = sizeof table / sizeof table[0];
    return table;
}
