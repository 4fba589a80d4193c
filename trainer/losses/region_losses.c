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

// Sums of the first elements of each row [R,P]: log2 P additions of shifted rows.
static sr_tensor shifted_sums(sr_tensor x, int64_t elements) {
    for (int64_t step = 1; step < elements; step *= 2) {
        const int before[2] = {0, (int)step}, after[2] = {0};
        x = sr_add(x, sr_slice(sr_pad(x, before, after), 1, 0, elements, 1));
    }
    return x;
}

enum { RUN = 64 };

// [RUN,RUN]: row i is 1 from column i on, so that a run times this are its running sums. In the
// dtype of x, which has RUN elements in a row.
static sr_tensor triangle(sr_tensor x, sr_dtype dtype) {
    const int64_t run[1] = {RUN};
    const sr_tensor some = sr_slice(sr_slice(x, 0, 0, 1, 1), 1, 0, RUN, 1);
    const sr_tensor zeros = sr_losses_filled(sr_reshape(some, 1, run), 0.0);
    const sr_tensor ascending = sr_argsort(zeros, false); // equal elements keep their order
    return shifted_sums(sr_one_hot(ascending, RUN, dtype), RUN);
}

// Sums of the first elements of each row [R,P], of runs by a product and then over runs; exact for
// counts.
static sr_tensor running_sums(sr_tensor x, int64_t elements) {
    sr_info info;
    if (elements <= RUN || !sr_tensor_info(x, &info))
        return shifted_sums(x, elements);
    const int64_t rows = info.dim[0], runs = (elements + RUN - 1) / RUN;
    const int none[2] = {0}, rest[2] = {0, (int)(runs * RUN - elements)}, first[2] = {0, 1};
    const sr_tensor filled = sr_pad(x, none, rest);
    const sr_tensor inside = sr_matmul(sr_reshape(filled, 2, (const int64_t[]){rows * runs, RUN}),
                                       triangle(x, info.dtype), (sr_matmul_opts){.alpha = 1.0});
    const sr_tensor totals =
        sr_reshape(sr_slice(inside, 1, RUN - 1, 1, 1), 2, (const int64_t[]){rows, runs});
    const sr_tensor upto = shifted_sums(totals, runs);
    const sr_tensor before = sr_slice(sr_pad(upto, first, none), 1, 0, runs, 1);
    const sr_tensor sums = sr_add(inside, sr_reshape(before, 2, (const int64_t[]){rows * runs, 1}));
    return sr_slice(sr_reshape(sums, 2, (const int64_t[]){rows, runs * RUN}), 1, 0, elements, 1);
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
    const sr_tensor ones = sr_losses_filled(sr_slice(of, 0, 0, 1, 1), 1.0);
    const sr_tensor joined = sr_add(left, running_sums(ones, elements));
    const sr_tensor index = sr_scale(sr_div(left, joined), -1.0, 1.0);
    const int before[2] = {0, 1}, after[2] = {0};
    const sr_tensor last = sr_slice(sr_pad(index, before, after), 1, 0, elements, 1);
    return sr_losses_sum(sr_mul(sr_relu(sorted.value), sr_sub(index, last)), 1, false);
}

// Errors where a label counts, else -1.
static sr_tensor counted(sr_tensor errors, sr_tensor valid) {
    return sr_where(valid, errors, sr_losses_filled(errors, -1.0));
}

// [N,P,K] -> [N,K,P]
static sr_tensor classes_first(sr_tensor x) {
    const int order[3] = {0, 2, 1};
    return sr_permute(x, order);
}

sr_tensor sr_losses_lovasz(sr_tensor probabilities, sr_tensor labels, bool absent) {
    sr_info info;
    if (!sr_tensor_info(probabilities, &info))
        return probabilities;
    const int64_t n = info.dim[0], k = info.dim[info.rank - 1];
    const int64_t pixels = sr_info_count(&info) / k / n;
    const int64_t maps[3] = {n, pixels, k}, one[3] = {n, 1, pixels}, rows[2] = {n * k, pixels};
    const sr_tensor p = classes_first(sr_losses_wide(sr_reshape(probabilities, 3, maps)));
    if (!sr_tensor_info(p, &info))
        return p;
    const sr_tensor own = sr_reshape(labels, 3, one);
    const sr_tensor hot = sr_one_hot(sr_reshape(labels, 2, maps), k, info.dtype);
    const sr_tensor truth = classes_first(hot);
    const sr_label_opts opts = {.has_ignored = false};
    const sr_tensor errors =
        counted(sr_abs(sr_sub(truth, p)), sr_losses_valid(own, info.dtype, &opts));
    const sr_tensor losses =
        sr_reshape(lovasz(sr_reshape(errors, 2, rows), sr_reshape(truth, 2, rows)), 2,
                   (const int64_t[]){n, k});
    if (absent)
        return sr_scale(sr_losses_sum(losses, 1, false), 1.0 / (double)k, 0.0);
    const sr_tensor sums = sr_losses_sum(truth, 2, false);
    const sr_tensor present = sr_greater(sums, sr_losses_filled(sums, 0.0));
    const sr_tensor number = sr_losses_sum(present, 1, false);
    return sr_div(sr_losses_sum(sr_mul(losses, present), 1, false),
                  sr_maximum(number, sr_losses_filled(number, 1.0)));
}

sr_tensor sr_loss_lovasz_softmax(sr_tensor probabilities, sr_tensor labels) {
    const sr_tensor rows = sr_losses_rows(probabilities);
    sr_info info;
    if (!sr_tensor_info(rows, &info))
        return rows;
    const int64_t all[3] = {1, info.dim[0], info.dim[1]};
    const sr_tensor losses = sr_losses_lovasz(sr_reshape(rows, 3, all), labels, false);
    return sr_sum(losses, (sr_axes){0});
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
