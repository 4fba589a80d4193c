// SPDX-License-Identifier: Apache-2.0
// Losses of regions (loss_functions.h): dice, and the Lovasz extensions of the Jaccard index.
//
// The Lovasz extension sorts the errors of the pixels and weighs each by how much the Jaccard index
// falls when this pixel is counted wrong, too (Berman et al. 2018, algorithm 1). Equal errors stay
// in the order of pixels on every device (sr_sort).
#include "trainer/losses/losses_internal.h"

sr_tensor sr_loss_dice(sr_tensor probabilities, sr_tensor targets, sr_dice_opts opts) {
    sr_info info;
    if (!sr_tensor_info(probabilities, &info))
        return probabilities;
    const int64_t n = info.rank > 1 ? info.dim[0] : 1,
                  k = info.rank > 0 ? info.dim[info.rank - 1] : 1;
    const int64_t shape[3] = {opts.batch ? 1 : n, sr_info_count(&info) / k / (opts.batch ? 1 : n),
                              k};
    const sr_tensor p = sr_reshape(sr_losses_wide(probabilities), 3, shape);
    const sr_tensor t = sr_reshape(sr_losses_wide(targets), 3, shape);
    const double smooth = opts.smooth == 0.0 ? 1.0 : opts.smooth;
    const sr_tensor both = sr_losses_sum(sr_mul(p, t), 1, false);
    const sr_tensor sizes = opts.squared ? sr_add(sr_square(p), sr_square(t)) : sr_add(p, t);
    const sr_tensor share =
        sr_div(sr_scale(both, 2.0, smooth), sr_scale(sr_losses_sum(sizes, 1, false), 1.0, smooth));
    const sr_tensor loss = sr_scale(share, -1.0, 1.0);
    return opts.batch ? sr_reshape(loss, 1, &k) : loss;
}

// Sums of the first elements of each row: [R,P]. log2 P additions of shifted rows; exact for
// counts.
static sr_tensor running_sums(sr_tensor x, int64_t elements) {
    for (int64_t step = 1; step < elements; step *= 2) {
        const int before[2] = {0, (int)step}, after[2] = {0};
        x = sr_add(x, sr_slice(sr_pad(x, before, after), 1, 0, elements, 1));
    }
    return x;
}

// For errors and truths (0 or 1) [R,P] -> [R]: the sum of errors, from the largest on, times the
// increments of 1 - intersection / union. Errors below 0 do not count.
static sr_tensor lovasz(sr_tensor errors, sr_tensor truth) {
    sr_info info;
    if (!sr_tensor_info(errors, &info))
        return errors;
    const int64_t elements = info.dim[1];
    const sr_picked sorted = sr_sort(errors, true);
    const sr_tensor of = sr_gather(truth, sorted.index, 1);
    const sr_tensor all = sr_losses_sum(of, 1, true);
    const sr_tensor left = sr_sub(all, running_sums(of, elements));
    const sr_tensor joined = sr_add(all, running_sums(sr_scale(of, -1.0, 1.0), elements));
    const sr_tensor index = sr_scale(sr_div(left, joined), -1.0, 1.0);
    const int before[2] = {0, 1}, after[2] = {0};
    const sr_tensor last = sr_slice(sr_pad(index, before, after), 1, 0, elements, 1);
    return sr_losses_sum(sr_mul(sr_relu(sorted.value), sr_sub(index, last)), 1, false);
}

// Errors where a label counts, else -1.
static sr_tensor counted(sr_tensor errors, sr_tensor valid) {
    return sr_where(valid, errors, sr_losses_filled(errors, -1.0));
}

sr_tensor sr_loss_lovasz_softmax(sr_tensor probabilities, sr_tensor labels) {
    const sr_label_opts opts = {.has_ignored = false};
    const sr_tensor rows = sr_losses_wide(sr_losses_rows(probabilities));
    sr_info info;
    if (!sr_tensor_info(rows, &info))
        return rows;
    const int order[2] = {1, 0};
    const int64_t pixels[1] = {info.dim[0]};
    const sr_tensor flat = sr_reshape(labels, 1, pixels);
    const sr_tensor truth = sr_permute(sr_one_hot(flat, info.dim[1], info.dtype), order);
    const sr_tensor errors = sr_abs(sr_sub(truth, sr_permute(rows, order)));
    const sr_tensor losses =
        lovasz(counted(errors, sr_losses_valid(flat, info.dtype, &opts)), truth);
    const sr_tensor sums = sr_losses_sum(truth, 1, false);
    const sr_tensor present = sr_greater(sums, sr_losses_filled(sums, 0.0));
    return sr_loss_mean(sr_mul(losses, present), present);
}

sr_tensor sr_loss_lovasz_hinge(sr_tensor logits, sr_tensor labels) {
    const sr_label_opts opts = {.has_ignored = false};
    sr_info info;
    if (!sr_tensor_info(logits, &info))
        return logits;
    const int64_t n = info.rank > 0 ? info.dim[0] : 1;
    const int64_t shape[2] = {n, sr_info_count(&info) / n};
    const sr_tensor x = sr_losses_wide(sr_reshape(logits, 2, shape));
    if (!sr_tensor_info(x, &info))
        return x;
    const sr_tensor own = sr_reshape(labels, 2, shape);
    const sr_tensor truth = sr_greater(sr_cast(own, info.dtype), sr_losses_filled(x, 0.0));
    const sr_tensor errors = sr_scale(sr_mul(x, sr_scale(truth, 2.0, -1.0)), -1.0, 1.0);
    return lovasz(counted(errors, sr_losses_valid(own, info.dtype, &opts)), truth);
}
