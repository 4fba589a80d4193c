// SPDX-License-Identifier: Apache-2.0
// linear: linear from the base rate to 'end' times the base rate.
#include "trainer/schedules/schedule.h"

extern const sr_schedule_desc sr_schedule_linear;

typedef struct linear_options {
    double end;
} linear_options;

static const sr_option rows[] = {
    {"end", "factor of the base rate at the end", SR_OPT_FLOAT, offsetof(linear_options, end), "0",
     0, 1, NULL, SR_OPTION_NUMERICS},
};
static const sr_option_table table = {.name = "schedule.linear",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(linear_options)};

static double factor(const void *options, const sr_schedule_point *point) {
    const linear_options *o = options;
    return 1 + (o->end - 1) * point->done;
}

const sr_schedule_desc sr_schedule_linear = {
    .struct_size = sizeof(sr_schedule_desc),
    .abi = SR_SCHEDULE_ABI,
    .name = "linear",
    .help = "linear from the base rate to 'end' times the base rate",
    .options = &table,
    .factor = factor,
};
