// SPDX-License-Identifier: Apache-2.0
// poly: (1 - t)^power, the common schedule for segmentation.
// Source: Liu, Rabinovich and Berg, "ParseNet", 2015; DeepLab uses power 0.9.
#include "kernels/base/math.h"
#include "trainer/schedules/schedule.h"

extern const sr_schedule_desc sr_schedule_poly;

typedef struct poly_options {
    double power, end;
} poly_options;

static const sr_option rows[] = {
    {"power", "exponent of (1 - t)", SR_OPT_FLOAT, offsetof(poly_options, power), "0.9", 0.01, 100,
     NULL, SR_OPTION_NUMERICS},
    {"end", "factor of the base rate at the end", SR_OPT_FLOAT, offsetof(poly_options, end), "0", 0,
     1, NULL, SR_OPTION_NUMERICS},
};
static const sr_option_table table = {.name = "schedule.poly",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(poly_options)};

static double factor(const void *options, const sr_schedule_point *point) {
    const poly_options *o = options;
    double left = 1 - point->done;
    return o->end + (1 - o->end) * (left > 0 ? sr_pow(left, o->power) : 0);
}

const sr_schedule_desc sr_schedule_poly = {
    .struct_size = sizeof(sr_schedule_desc),
    .abi = SR_SCHEDULE_ABI,
    .name = "poly",
    .help = "(1 - t)^power, from the base rate to 'end' times the base rate",
    .options = &table,
    .factor = factor,
};
