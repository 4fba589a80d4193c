// SPDX-License-Identifier: Apache-2.0
// Classification: softmax cross-entropy with label smoothing; top-1 and top-5 hits are counted.
#include <stddef.h>

#include "trainer/task.h"

typedef struct loss_options {
    double label_smoothing;
} loss_options;

static const sr_option loss_rows[] = {
    {.name = "label_smoothing",
     .help = "share of the target spread over all classes (Szegedy et al. 2016)",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(loss_options, label_smoothing),
     .default_text = "0",
     .max = 1},
};

static const sr_option_table loss_table = {.name = "loss.cross-entropy",
                                           .options = loss_rows,
                                           .count = sizeof loss_rows / sizeof loss_rows[0],
                                           .struct_size = sizeof(loss_options)};

static sr_tensor logits_of(sr_lane_record *r) {
    sr_tensor x = sr_normalize(r->image, r->mean, r->std, r->dtype);
    return sr_task_forward(r, 0, &x, r->training);
}

static sr_tensor infer(sr_lane_record *r) {
    return sr_cast(logits_of(r), SR_F32);
}

static void record(sr_lane_record *r) {
    const loss_options *loss = r->loss_options;
    sr_tensor logits = logits_of(r);
    r->loss = sr_softmax_cross_entropy(logits, r->label, loss->label_smoothing);
    r->scalars[0] = sr_topk_hits(logits, r->label);
}

extern const sr_task_desc sr_task_classify;
const sr_task_desc sr_task_classify = {.struct_size = sizeof(sr_task_desc),
                                       .abi = SR_TASK_ABI,
                                       .name = "classify",
                                       .transformer = "classify",
                                       .phases = 1,
                                       .loss_table = &loss_table,
                                       .loss_name = "cross-entropy",
                                       .scalars = 1,
                                       .scalar_names = {"hits"},
                                       .record = record,
                                       .infer = infer};
