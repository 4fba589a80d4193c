// SPDX-License-Identifier: Apache-2.0
// Classification by the loss that the recipe chooses; top-1 and top-5 hits are counted.
#include "trainer/task.h"

static sr_tensor logits_of(sr_lane_record *r) {
    sr_tensor x = sr_normalize(r->image, r->mean, r->std, r->dtype);
    return sr_task_forward(r, 0, &x, r->training);
}

static sr_tensor infer(sr_lane_record *r) {
    return sr_cast(logits_of(r), SR_F32);
}

static void record(sr_lane_record *r) {
    sr_tensor logits = logits_of(r);
    r->loss = r->loss_desc->record(logits, r->label, r->loss_options);
    r->scalars[0] = sr_topk_hits(logits, r->label);
}

extern const sr_task_desc sr_task_classify;
const sr_task_desc sr_task_classify = {.struct_size = sizeof(sr_task_desc),
                                       .abi = SR_TASK_ABI,
                                       .name = "classify",
                                       .transformer = "classify",
                                       .phases = 1,
                                       .uses_loss = true,
                                       .scalars = 1,
                                       .scalar_names = {"hits"},
                                       .record = record,
                                       .infer = infer};
