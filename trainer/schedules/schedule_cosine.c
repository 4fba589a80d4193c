// SPDX-License-Identifier: Apache-2.0
// cosine: half a cosine from the base rate to 'end' times the base rate.
// Source: Loshchilov and Hutter, "SGDR", ICLR 2017, equation 5 without restarts.
#include "kernels/base/math.h"
#include "trainer/schedules/schedule.h"

extern const sr_schedule_desc sr_schedule_cosine;

typedef struct cosine_options {
    double end;
} cosine_options;

static const sr_option rows[] = {
    {"end", "factor of the base rate at the end", SR_OPT_FLOAT, offsetof(cosine_options, end), "0",
     0, 1, NULL, SR_OPTION_NUMERICS},
};
static const sr_option_table table = {.name = "schedule.cosine",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(cosine_options)};

static double factor(const void *options, const sr_schedule_point *point) {
    static const double pi = 3.14159265358979323846;
    const cosine_options *o = options;
    return o->end + (1 - o->end) * 0.5 * (1 + sr_cos(pi * point->done));
}

const sr_schedule_desc sr_schedule_cosine = {
    .struct_size = sizeof(sr_schedule_desc),
    .abi = SR_SCHEDULE_ABI,
    .name = "cosine",
    .help = "half a cosine from the base rate to 'end' times the base rate",
    .options = &table,
    .factor = factor,
};
