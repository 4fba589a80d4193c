// SPDX-License-Identifier: Apache-2.0
// constant: the base rate for the whole run.
#include "trainer/schedules/schedule.h"

extern const sr_schedule_desc sr_schedule_constant;

static const sr_option_table table = {.name = "schedule.constant"};

static double factor(const void *options, const sr_schedule_point *point) {
    (void)options;
    (void)point;
    return 1;
}

const sr_schedule_desc sr_schedule_constant = {
    .struct_size = sizeof(sr_schedule_desc),
    .abi = SR_SCHEDULE_ABI,
    .name = "constant",
    .help = "the base rate for the whole run",
    .options = &table,
    .factor = factor,
};
