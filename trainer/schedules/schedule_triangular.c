// SPDX-License-Identifier: Apache-2.0
// triangular: up from 'start' to the base rate at 'peak', then down to 'end'; for short runs.
// Source: Smith and Topin, "Super-Convergence", 2017 (one cycle without the final annealing).
#include "trainer/schedules/schedule.h"

extern const sr_schedule_desc sr_schedule_triangular;

typedef struct triangular_options {
    double start, peak, end;
} triangular_options;

static const sr_option rows[] = {
    {"start", "factor of the base rate at the start", SR_OPT_FLOAT,
     offsetof(triangular_options, start), "0.2", 0, 1, NULL, SR_OPTION_NUMERICS},
    {"peak", "fraction of the run at which the base rate is reached", SR_OPT_FLOAT,
     offsetof(triangular_options, peak), "0.25", 0, 1, NULL, SR_OPTION_NUMERICS},
    {"end", "factor of the base rate at the end", SR_OPT_FLOAT, offsetof(triangular_options, end),
     "0", 0, 1, NULL, SR_OPTION_NUMERICS},
};
static const sr_option_table table = {.name = "schedule.triangular",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(triangular_options)};

static double factor(const void *options, const sr_schedule_point *point) {
    const triangular_options *o = options;
    if (point->done < o->peak)
        return o->start + (1 - o->start) * (point->done / o->peak);
    double fall = o->peak < 1 ? (point->done - o->peak) / (1 - o->peak) : 0;
    return 1 + (o->end - 1) * fall;
}

const sr_schedule_desc sr_schedule_triangular = {
    .struct_size = sizeof(sr_schedule_desc),
    .abi = SR_SCHEDULE_ABI,
    .name = "triangular",
    .help = "up from 'start' to the base rate at 'peak', then down to 'end'",
    .options = &table,
    .factor = factor,
};
