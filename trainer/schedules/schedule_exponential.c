// SPDX-License-Identifier: Apache-2.0
// exponential: the rate is multiplied by 'gamma' at equal distances, as for MobileNetV3 and
// EfficientNet.
// Source: Tan and Le, "EfficientNet", ICML 2019, section 5.2 (0.97 every 2.4 epochs).
#include <math.h>

#include "kernels/base/math.h"
#include "trainer/schedules/schedule.h"

extern const sr_schedule_desc sr_schedule_exponential;

typedef struct exponential_options {
    double gamma, every, of;
} exponential_options;

static const sr_option rows[] = {
    {"gamma", "factor of the rate at each decrease", SR_OPT_FLOAT,
     offsetof(exponential_options, gamma), "0.97", 1e-6, 1, NULL, SR_OPTION_NUMERICS},
    {"every", "epochs between decreases of the rate, counted from the start; may be fractional",
     SR_OPT_FLOAT, offsetof(exponential_options, every), "1", 1e-6, 1e9, NULL, SR_OPTION_NUMERICS},
    {"of",
     "number of epochs that 'every' is meant for; in a run of another length it is scaled in "
     "proportion (0: not scaled)",
     SR_OPT_FLOAT, offsetof(exponential_options, of), "0", 0, 1e9, NULL, SR_OPTION_NUMERICS},
};
static const sr_option_table table = {.name = "schedule.exponential",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(exponential_options)};

static double factor(const void *options, const sr_schedule_point *point) {
    const exponential_options *o = options;
    const double epochs = o->of > 0 ? point->epochs / point->total_epochs * o->of : point->epochs;
    return sr_exp(floor(epochs / o->every) * sr_log_f64(o->gamma));
}

const sr_schedule_desc sr_schedule_exponential = {
    .struct_size = sizeof(sr_schedule_desc),
    .abi = SR_SCHEDULE_ABI,
    .name = "exponential",
    .help = "multiplied by 'gamma' at intervals of 'every' epochs",
    .options = &table,
    .factor = factor,
};
