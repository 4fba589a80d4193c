// SPDX-License-Identifier: Apache-2.0
// The loss of a recipe as tasks record it (task.h): the sum of its parts, of samples, of mixed
// samples or of pixels.
#include "trainer/tasks/task.h"

// Labels [N] are of samples, labels [N,H,W] of pixels.
static sr_tensor loss_of(const sr_lane_recording *r, const sr_loss_part *part, sr_tensor logits,
                         sr_tensor labels) {
    sr_info info;
    if (!sr_tensor_info(labels, &info))
        return labels;
    return (info.rank > 1 ? part->desc->record_map : part->desc->record)(r->context, logits, labels,
                                                                         part->options);
}

// 'share' [N] of the one-hot vectors of labels [N]: [N,K] like the logits.
static sr_tensor target_of(sr_tensor labels, sr_tensor share, const sr_info *logits) {
    const int64_t column[2] = {logits->dim[0], 1};
    return sr_mul(sr_one_hot(labels, logits->dim[logits->rank - 1], SR_F32),
                  sr_reshape(share, 2, column));
}

static sr_tensor mixed_loss(const sr_lane_recording *r, const sr_loss_part *part, sr_tensor logits,
                            sr_tensor own, const sr_mixed *mixed) {
    const sr_tensor rest = sr_scale(mixed->weight, -1, 1);
    sr_info info;
    if (!part->desc->record_soft || !sr_tensor_info(logits, &info)) {
        return sr_add(sr_mul(mixed->weight, loss_of(r, part, logits, own)),
                      sr_mul(rest, loss_of(r, part, logits, mixed->partner)));
    }
    const sr_tensor targets =
        sr_add(target_of(own, mixed->weight, &info), target_of(mixed->partner, rest, &info));
    return part->desc->record_soft(r->context, logits, targets, part->options);
}

static sr_tensor added(sr_tensor sum, sr_tensor x) {
    return sr_is_none(sum) ? x : sr_add(sum, x);
}

sr_tensor sr_task_loss(sr_lane_recording *r, sr_tensor logits, sr_tensor labels,
                       const sr_mixed *mixed, double weight) {
    sr_tensor sum = SR_NONE;
    for (int i = 0; i < r->loss_count; i++) {
        const sr_loss_part *part = &r->losses[i];
        const double factor = part->weight * weight;
        sr_tensor loss =
            mixed ? mixed_loss(r, part, logits, labels, mixed) : loss_of(r, part, logits, labels);
        if (factor != 1)
            loss = sr_scale(loss, factor, 0);
        r->part_losses[i] = added(r->part_losses[i], loss);
        sum = added(sum, loss);
    }
    return sum;
}

void sr_task_log_losses(sr_lane_recording *r, int first) {
    for (int i = 0; i < r->loss_count; i++)
        if (r->losses[i].name && !sr_is_none(r->part_losses[i]))
            r->scalars[first++] = sr_reduce_sum(r->part_losses[i]);
}
