// SPDX-License-Identifier: Apache-2.0
// Losses of values, scores and boxes (loss_functions.h).
#include "trainer/losses/losses_internal.h"

static sr_tensor difference(sr_tensor x, sr_tensor target) {
    return sr_sub(sr_losses_wide(x), sr_losses_wide(target));
}

sr_tensor sr_loss_l1(sr_tensor x, sr_tensor target) {
    return sr_abs(difference(x, target));
}

// With c = min(max(d, -beta), beta), both pieces are c (d - c / 2).
static sr_tensor two_pieces(sr_tensor d, double beta) {
    const sr_tensor c = sr_clip(d, -beta, beta);
    return sr_mul(c, sr_sub(d, sr_scale(c, 0.5, 0.0)));
}

sr_tensor sr_loss_smooth_l1(sr_tensor x, sr_tensor target, double beta) {
    if (beta == 0.0)
        return sr_loss_l1(x, target);
    return sr_scale(two_pieces(difference(x, target), beta), 1.0 / beta, 0.0);
}

sr_tensor sr_loss_huber(sr_tensor x, sr_tensor target, double delta) {
    return two_pieces(difference(x, target), delta);
}

sr_tensor sr_loss_gan_hinge(sr_tensor scores, sr_gan_side side) {
    const sr_tensor x = sr_losses_wide(scores);
    if (side == SR_GAN_GENERATOR)
        return sr_scale(x, -1.0, 0.0);
    return sr_relu(sr_scale(x, side == SR_GAN_REAL ? -1.0 : 1.0, 1.0));
}

// ---- Boxes ----

// Two corners of boxes, each [B,2], and width times height, [B,1].
typedef struct box_parts {
    sr_tensor low, high, size, area;
} box_parts;

// Product of the two columns.
static sr_tensor area_of(sr_tensor size) {
    return sr_mul(sr_slice(size, 1, 0, 1, 1), sr_slice(size, 1, 1, 1, 1));
}

static box_parts parts_of(sr_tensor low, sr_tensor high) {
    box_parts b = {.low = low, .high = high, .size = sr_sub(high, low)};
    b.area = area_of(b.size);
    return b;
}

static box_parts box_of(sr_tensor boxes) {
    const sr_tensor rows = sr_losses_wide(sr_losses_rows(boxes));
    return parts_of(sr_slice(rows, 1, 0, 2, 1), sr_slice(rows, 1, 2, 2, 1));
}

static const double small = 1e-7; // of torchvision.ops

// Squared length of rows [B,2].
static sr_tensor squared(sr_tensor x) {
    return sr_losses_sum(sr_square(x), 1, true);
}

static sr_tensor centre_distance(const box_parts *a, const box_parts *b) {
    return squared(sr_scale(sr_sub(sr_add(a->low, a->high), sr_add(b->low, b->high)), 0.5, 0.0));
}

// Angle of the diagonal of each box, from its height.
static sr_tensor angle_of(const box_parts *b) {
    return sr_atan_op(sr_div(sr_slice(b->size, 1, 0, 1, 1), sr_slice(b->size, 1, 1, 1, 1)));
}

// alpha v: how far the aspect ratios are from each other, for rows of 1 - IoU.
static sr_tensor aspect_loss(const box_parts *a, const box_parts *b, sr_tensor iou_loss) {
    const double share = 0.40528473456935108578; // 4 / pi^2
    const sr_tensor v = sr_scale(sr_square(sr_sub(angle_of(b), angle_of(a))), share, 0.0);
    const sr_tensor alpha = sr_div(v, sr_scale(sr_add(iou_loss, v), 1.0, small));
    return sr_mul(sr_stop_gradient(alpha), v);
}

sr_tensor sr_loss_boxes(sr_tensor boxes, sr_tensor targets, sr_box_loss kind) {
    const box_parts a = box_of(boxes), b = box_of(targets);
    const sr_tensor overlap =
        area_of(sr_relu(sr_sub(sr_minimum(a.high, b.high), sr_maximum(a.low, b.low))));
    const sr_tensor joined = sr_sub(sr_add(a.area, b.area), overlap);
    const sr_tensor iou_loss = sr_scale(sr_div(overlap, sr_scale(joined, 1.0, small)), -1.0, 1.0);
    sr_tensor loss = iou_loss;
    if (kind != SR_BOX_IOU) {
        const box_parts around = parts_of(sr_minimum(a.low, b.low), sr_maximum(a.high, b.high));
        const sr_tensor more =
            kind == SR_BOX_GIOU
                ? sr_div(sr_sub(around.area, joined), sr_scale(around.area, 1.0, small))
                : sr_div(centre_distance(&a, &b), sr_scale(squared(around.size), 1.0, small));
        loss = sr_add(loss, more);
    }
    if (kind == SR_BOX_CIOU)
        loss = sr_add(loss, aspect_loss(&a, &b, iou_loss));
    return sr_losses_shaped(loss, boxes, 1);
}
