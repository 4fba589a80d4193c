// SPDX-License-Identifier: Apache-2.0
// step: the rate is multiplied by 'gamma' at each milestone, as for ImageNet (30, 60, 80 of 90
// epochs).
// Source: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, section 3.4.
#include "kernels/base/log.h"
#include "trainer/schedules/schedule.h"

extern const sr_schedule_desc sr_schedule_step;

typedef struct step_options {
    sr_float_list milestones;
    double of;
    double gamma;
} step_options;

static const sr_option rows[] = {
    {"milestones", "epochs at which the rate falls, counted from the start; may be fractional",
     SR_OPT_FLOATS, offsetof(step_options, milestones), NULL, 0, 0, NULL, SR_OPTION_NUMERICS},
    {"of",
     "number of epochs that the milestones are meant for; in a run of another length they are "
     "scaled in proportion (0: not scaled)",
     SR_OPT_FLOAT, offsetof(step_options, of), "0", 0, 1e9, NULL, SR_OPTION_NUMERICS},
    {"gamma", "factor of the rate at each milestone", SR_OPT_FLOAT, offsetof(step_options, gamma),
     "0.1", 0, 1, NULL, SR_OPTION_NUMERICS},
};
static const sr_option_table table = {.name = "schedule.step",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(step_options)};

static sr_status check(const void *options, double total_epochs) {
    const step_options *o = options;
    if (o->milestones.count == 0)
        return SR_FAIL(SR_E_USAGE,
                       "schedule.milestones: 'step' needs at least one, such as [30, 60]");
    for (size_t i = 0; i < o->milestones.count; ++i) {
        if (o->milestones.items[i] <= (i > 0 ? o->milestones.items[i - 1] : 0))
            return SR_FAIL(SR_E_USAGE,
                           "schedule.milestones: %g is not above the one before it; give them in "
                           "increasing order",
                           o->milestones.items[i]);
    }
    const double last = o->milestones.items[o->milestones.count - 1];
    if (o->of > 0 && last >= o->of)
        return SR_FAIL(SR_E_USAGE,
                       "schedule.milestones: %g is not within %g epochs, the length that "
                       "schedule.of says milestones are meant for",
                       last, o->of);
    if (o->of == 0 && last >= total_epochs)
        SR_WARN("schedule.milestones: %g is past the end of this run of %.4g epochs and changes "
                "nothing; schedule.of=EPOCHS scales milestones to the length of the run",
                last, total_epochs);
    return SR_OK;
}

static double factor(const void *options, const sr_schedule_point *point) {
    const step_options *o = options;
    const double epochs = o->of > 0 ? point->epochs / point->total_epochs * o->of : point->epochs;
    double value = 1;
    for (size_t i = 0; i < o->milestones.count && epochs >= o->milestones.items[i]; ++i)
        value *= o->gamma;
    return value;
}

const sr_schedule_desc sr_schedule_step = {
    .struct_size = sizeof(sr_schedule_desc),
    .abi = SR_SCHEDULE_ABI,
    .name = "step",
    .help = "multiplied by 'gamma' at each of 'milestones'",
    .options = &table,
    .check = check,
    .factor = factor,
};
