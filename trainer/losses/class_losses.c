// SPDX-License-Identifier: Apache-2.0
// Losses of classification (loss_functions.h), and what all functions share.
//
// The plain cross-entropy is one fused operator. With weights or an ignored label it is composed:
// the elements of labels are gathered, where a label that is not a class gives NaN, and a condition
// replaces it by 0, so that neither values nor gradients see it.
#include "graph/op.h"
#include "trainer/losses/losses_internal.h"

// ---- Shared ----

const char *const sr_loss_count_names[] = {
    [SR_COUNT_AUTO] = "auto", [SR_COUNT_VALID] = "valid", [SR_COUNT_ALL] = "all", NULL};

sr_status sr_losses_check_weights(const sr_float_list *weights, int64_t classes) {
    if (weights->count == 0 || classes == 0 || (int64_t)weights->count == classes)
        return SR_OK;
    return SR_FAIL(SR_E_USAGE, "%zu class_weights, but the model has %lld classes", weights->count,
                   (long long)classes);
}

sr_tensor sr_losses_class_weights(sr_context *context, const sr_float_list *weights,
                                  const sr_info *logits, const char *loss) {
    const int64_t classes = logits->dim[logits->rank - 1];
    const sr_info info = {.dtype = SR_F64, .rank = 1, .dim = {classes}};
    const sr_status status = sr_losses_check_weights(weights, classes);
    if (status != SR_OK)
        return sr_op_refused(status, loss);
    const sr_tensor constant = sr_constant(context, &info, weights->items);
    return logits->dtype == SR_F64 ? constant : sr_cast(constant, SR_F32);
}

sr_tensor sr_losses_wide(sr_tensor x) {
    sr_info info;
    if (!sr_tensor_info(x, &info) || info.dtype == SR_F32 || info.dtype == SR_F64)
        return x;
    return sr_cast(x, SR_F32);
}

sr_tensor sr_losses_rows(sr_tensor x) {
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return x;
    const int64_t last = info.rank > 0 ? info.dim[info.rank - 1] : 1;
    return sr_reshape(x, 2, (const int64_t[]){sr_info_count(&info) / last, last});
}

sr_tensor sr_losses_shaped(sr_tensor x, sr_tensor like, int less) {
    sr_info info;
    if (!sr_tensor_info(like, &info))
        return x;
    return sr_reshape(x, info.rank - less, info.dim);
}

// [rows, 1]
static sr_tensor column(sr_tensor x) {
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return x;
    return sr_reshape(x, 2, (const int64_t[]){sr_info_count(&info), 1});
}

// As a vector.
static sr_tensor flat(sr_tensor x) {
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return x;
    return sr_reshape(x, 1, (const int64_t[]){sr_info_count(&info)});
}

sr_tensor sr_losses_filled(sr_tensor like, double value) {
    return sr_scale(sr_equal(like, like), 0.0, value);
}

sr_tensor sr_losses_valid(sr_tensor labels, sr_dtype dtype, const sr_label_opts *opts) {
    const sr_tensor x = sr_cast(labels, dtype), zero = sr_losses_filled(x, 0.0);
    const sr_tensor counts = sr_greater(sr_scale(x, 1.0, 1.0), zero);
    if (!opts->has_ignored)
        return counts;
    return sr_where(sr_equal(x, sr_losses_filled(x, opts->ignored)), zero, counts);
}

sr_tensor sr_losses_sum(sr_tensor x, int axis, bool keep) {
    return sr_sum(x, (sr_axes){.count = 1, .axis = {axis}, .keep = keep});
}

// 1 / the sum of the weights; 1 where it is 0.
static sr_tensor share_of(sr_tensor weights) {
    const sr_tensor total = sr_sum(weights, (sr_axes){0});
    return sr_reciprocal(sr_add(total, sr_equal(total, sr_losses_filled(total, 0.0))));
}

sr_tensor sr_losses_spread(sr_tensor values, sr_tensor weights) {
    sr_info info;
    if (!sr_tensor_info(values, &info))
        return values;
    return sr_scale_by(values, sr_scale(share_of(weights), (double)sr_info_count(&info), 0.0));
}

// All dimensions but the first.
static sr_axes inner(const sr_info *info) {
    sr_axes axes = {.count = info->rank - 1};
    for (int i = 0; i < axes.count; i++)
        axes.axis[i] = i + 1;
    return axes;
}

sr_tensor sr_losses_pictures(sr_tensor values, sr_tensor weights) {
    sr_info info;
    if (!sr_tensor_info(values, &info))
        return values;
    const sr_tensor sums = sr_sum(values, inner(&info));
    return sr_scale_by(sums, sr_scale(share_of(weights), (double)info.dim[0], 0.0));
}

sr_tensor sr_losses_counted_by(sr_loss_count count, sr_tensor values, sr_tensor labels,
                               sr_label_opts opts, sr_tensor factors) {
    sr_info info;
    if (!sr_tensor_info(values, &info))
        return values;
    const bool samples = info.rank == 1, plain = sr_is_none(opts.weight) && !opts.has_ignored;
    if (!sr_is_none(factors))
        values = sr_mul(values, factors);
    if (count == SR_COUNT_ALL || (count == SR_COUNT_AUTO && samples && plain))
        return samples ? values : sr_mean(values, inner(&info));
    sr_tensor weights = sr_loss_label_weights(labels, info.dtype, opts);
    if (!sr_is_none(factors))
        weights = sr_mul(weights, factors);
    if (samples)
        return sr_losses_spread(values, weights);
    return sr_losses_pictures(values, weights);
}

sr_tensor sr_losses_repeated(sr_tensor scalar, sr_tensor like) {
    sr_info info, one;
    if (!sr_tensor_info(like, &info) || !sr_tensor_info(scalar, &one))
        return scalar;
    return sr_fill_by(scalar, one.dtype, 1, info.dim);
}

sr_tensor sr_loss_mean(sr_tensor values, sr_tensor weights) {
    if (sr_is_none(weights))
        return sr_mean(values, (sr_axes){0});
    return sr_mul(sr_sum(values, (sr_axes){0}), share_of(weights));
}

// ---- Labels ----

// Element 'label' of each row: [rows, K] -> [rows, 1].
static sr_tensor pick(sr_tensor rows, sr_tensor labels) {
    return sr_gather(rows, column(labels), 1);
}

// The values where a label counts, else 0, in the shape of the labels.
static sr_tensor counted(sr_tensor values, sr_tensor labels, const sr_label_opts *opts) {
    sr_info info;
    if (!sr_tensor_info(values, &info))
        return values;
    const sr_tensor shaped = sr_losses_shaped(values, labels, 0);
    return sr_where(sr_losses_valid(labels, info.dtype, opts), shaped,
                    sr_losses_filled(shaped, 0.0));
}

sr_tensor sr_losses_counted(sr_tensor values, sr_tensor labels) {
    return counted(values, labels, &(sr_label_opts){.has_ignored = false});
}

sr_tensor sr_loss_label_weights(sr_tensor labels, sr_dtype dtype, sr_label_opts opts) {
    const sr_tensor valid = sr_losses_valid(labels, dtype, &opts);
    if (sr_is_none(opts.weight))
        return valid;
    return counted(sr_gather(opts.weight, flat(labels), 0), labels, &opts);
}

// With weights of classes, or labels that the fused operator does not know: of [rows, K].
static sr_tensor composed(sr_tensor rows, sr_tensor labels, double smoothing, sr_tensor weight) {
    sr_info info;
    if (!sr_tensor_info(rows, &info))
        return rows;
    const double share = smoothing / (double)info.dim[1];
    const sr_tensor logs = sr_scale(sr_log_softmax(rows, 1), -1.0, 0.0);
    sr_tensor own = pick(logs, labels);
    if (!sr_is_none(weight))
        own = sr_mul(own, column(sr_gather(weight, flat(labels), 0)));
    if (smoothing == 0.0)
        return own;
    const sr_tensor all = sr_losses_sum(sr_is_none(weight) ? logs : sr_mul(logs, weight), 1, true);
    return sr_add(sr_scale(own, 1.0 - smoothing, 0.0), sr_scale(all, share, 0.0));
}

sr_tensor sr_loss_cross_entropy(sr_tensor logits, sr_tensor labels, double smoothing,
                                sr_label_opts opts) {
    const sr_tensor rows = sr_losses_rows(logits);
    if (sr_is_none(opts.weight) && !opts.has_ignored)
        return sr_losses_shaped(sr_softmax_cross_entropy(rows, flat(labels), smoothing), labels, 0);
    return counted(composed(sr_losses_wide(rows), labels, smoothing, opts.weight), labels, &opts);
}

sr_tensor sr_loss_soft_cross_entropy(sr_tensor logits, sr_tensor targets) {
    const sr_tensor logs = sr_log_softmax(sr_losses_wide(sr_losses_rows(logits)), 1);
    const sr_tensor terms = sr_mul(logs, sr_losses_wide(sr_losses_rows(targets)));
    return sr_losses_shaped(sr_scale(sr_losses_sum(terms, 1, false), -1.0, 0.0), logits, 1);
}

// x^gamma for a probability. Below 1e-30 it has no gradient: that of gamma < 1 is not finite at 0.
static sr_tensor focus(sr_tensor probability, double gamma) {
    return sr_power(sr_clip(probability, 1e-30, 1.0), gamma);
}

sr_tensor sr_loss_focal(sr_tensor logits, sr_tensor labels, double gamma, sr_label_opts opts) {
    sr_label_opts plain = opts;
    plain.weight = SR_NONE;
    const sr_tensor entropy = sr_loss_cross_entropy(logits, labels, 0.0, plain);
    const sr_tensor others = sr_scale(sr_exp_op(sr_scale(entropy, -1.0, 0.0)), -1.0, 1.0);
    const sr_tensor loss = sr_mul(focus(others, gamma), entropy);
    sr_info info;
    if (sr_is_none(opts.weight) || !sr_tensor_info(loss, &info))
        return loss;
    return sr_mul(loss, sr_loss_label_weights(labels, info.dtype, opts));
}

sr_tensor sr_loss_margin(sr_tensor logits, sr_tensor labels, double margin, int power) {
    const sr_tensor rows = sr_losses_wide(sr_losses_rows(logits));
    sr_info info;
    if (!sr_tensor_info(rows, &info))
        return rows;
    const sr_tensor own = sr_one_hot(flat(labels), info.dim[1], info.dtype);
    sr_tensor terms = sr_relu(sr_scale(sr_sub(rows, pick(rows, labels)), 1.0, margin));
    if (power == 2)
        terms = sr_square(terms);
    terms = sr_where(own, sr_losses_filled(own, 0.0), terms);
    const sr_tensor sums = sr_losses_sum(terms, 1, false);
    return sr_losses_counted(sr_scale(sums, 1.0 / (double)info.dim[1], 0.0), labels);
}

sr_tensor sr_loss_distillation(sr_tensor student, sr_tensor teacher, double temperature) {
    const double t = 1.0 / temperature;
    const sr_tensor s =
        sr_log_softmax(sr_scale(sr_losses_wide(sr_losses_rows(student)), t, 0.0), 1);
    const sr_tensor of =
        sr_log_softmax(sr_scale(sr_losses_wide(sr_losses_rows(teacher)), t, 0.0), 1);
    const sr_tensor sums = sr_losses_sum(sr_mul(sr_exp_op(of), sr_sub(of, s)), 1, false);
    return sr_losses_shaped(sr_scale(sums, temperature * temperature, 0.0), student, 1);
}

// ---- Independent classes ----

// 'positive': the targets, times their factors. As in sr_bce_with_logits neither term is larger
// than the loss.
static sr_tensor bce(sr_tensor x, sr_tensor t, sr_tensor positive) {
    const sr_tensor none = sr_mul(sr_scale(t, -1.0, 1.0), sr_softplus(x));
    const sr_tensor one = sr_mul(positive, sr_softplus(sr_scale(x, -1.0, 0.0)));
    return sr_add(none, one);
}

sr_tensor sr_loss_bce(sr_tensor logits, sr_tensor targets, double positive) {
    const sr_tensor x = sr_losses_wide(logits), t = sr_losses_wide(targets);
    return bce(x, t, sr_scale(t, positive, 0.0));
}

sr_tensor sr_losses_bce(sr_tensor logits, sr_tensor targets, sr_tensor positive) {
    if (sr_is_none(positive))
        return sr_loss_bce(logits, targets, 1.0);
    const sr_tensor t = sr_losses_wide(targets);
    return bce(sr_losses_wide(logits), t, sr_mul(t, positive));
}

sr_tensor sr_loss_sigmoid_focal(sr_tensor logits, sr_tensor targets, double alpha, double gamma) {
    const sr_tensor x = sr_losses_wide(logits), t = sr_losses_wide(targets);
    const sr_tensor rest = sr_scale(t, -1.0, 1.0);
    const sr_tensor wrong =
        sr_add(sr_mul(sr_sigmoid(x), rest), sr_mul(sr_sigmoid(sr_scale(x, -1.0, 0.0)), t));
    const sr_tensor loss = sr_mul(focus(wrong, gamma), sr_loss_bce(x, t, 1.0));
    return alpha < 0 ? loss : sr_mul(loss, sr_scale(t, 2.0 * alpha - 1.0, 1.0 - alpha));
}
