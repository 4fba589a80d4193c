// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy with label smoothing (Szegedy et al. 2016), weights of classes and an
// ignored class, of samples or of pixels.
//
// As in torch.nn.CrossEntropyLoss the mean of pixels is weighted, and that of samples where the
// recipe states weights or an ignored class: a lane's sum is divided by its sum of weights. Without
// these a sample that is ignored because its label is negative counts as 0. mmsegmentation divides
// the sum of pixels by the number of all, unless told otherwise: count: all.
#include <stddef.h>

#include "trainer/losses/loss.h"
#include "trainer/losses/losses_internal.h"

typedef struct loss_options {
    double label_smoothing;
    sr_float_list class_weights;
    int64_t ignore_index;
    int count;
    sr_loss_boundary boundary;
} loss_options;

static const sr_option rows[] = {
    {.name = "label_smoothing",
     .help = "fraction of the target spread over all classes (Szegedy et al. 2016)",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(loss_options, label_smoothing),
     .default_text = "0",
     .max = 1},
    {.name = "class_weights",
     .help = "weight of each class",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(loss_options, class_weights),
     .max = 1e9},
    {.name = "ignore_index",
     .help = "class whose samples or pixels are left out of the loss and of its mean; -1: none",
     .type = SR_OPT_INT,
     .offset = offsetof(loss_options, ignore_index),
     .default_text = "-1",
     .min = -1,
     .max = 1 << 24},
    SR_ROW_COUNT(loss_options, SR_OPTION_NUMERICS),
    SR_ROWS_BOUNDARY(loss_options),
};

static const sr_option_table table = {.name = "loss.cross-entropy",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(loss_options)};

static sr_status check(const void *options, int64_t classes, bool maps) {
    const loss_options *o = options;
    SR_TRY(sr_losses_check_boundary(&o->boundary, maps));
    return sr_losses_check_weights(&o->class_weights, classes);
}

static int64_t classes(const void *options) {
    return (int64_t)((const loss_options *)options)->class_weights.count;
}

static sr_label_opts label_opts(sr_context *context, const loss_options *o, const sr_info *logits) {
    sr_label_opts opts = {.has_ignored = o->ignore_index >= 0, .ignored = (int32_t)o->ignore_index};
    if (o->class_weights.count > 0)
        opts.weight =
            sr_losses_class_weights(context, &o->class_weights, logits, "loss.cross-entropy");
    return opts;
}

// From the losses of labels.
static sr_tensor counted(const loss_options *o, sr_tensor losses, sr_tensor labels,
                         sr_label_opts opts) {
    sr_info info;
    if (!sr_tensor_info(losses, &info))
        return losses;
    return sr_losses_counted_by((sr_loss_count)o->count, losses, labels, opts,
                                sr_losses_boundary(&o->boundary, labels, info.dtype, &opts));
}

static sr_tensor record(sr_context *context, sr_tensor logits, sr_tensor labels,
                        const void *options) {
    const loss_options *o = options;
    sr_info info;
    if (!sr_tensor_info(logits, &info))
        return logits;
    const sr_label_opts opts = label_opts(context, o, &info);
    const sr_tensor loss = sr_loss_cross_entropy(logits, labels, o->label_smoothing, opts);
    return counted(o, loss, labels, opts);
}

// Whether the fused operator gives the loss, but for a factor of each label.
static bool is_fused(const loss_options *o, int64_t classes) {
    return o->ignore_index < classes && (o->class_weights.count == 0 || o->label_smoothing == 0);
}

// For millions of logits the fused operator matters.
static sr_tensor record_map(sr_context *context, sr_tensor logits, sr_tensor labels,
                            const void *options) {
    const loss_options *o = options;
    sr_info info;
    if (!sr_tensor_info(logits, &info))
        return logits;
    const sr_label_opts opts = label_opts(context, o, &info);
    const bool plain = sr_is_none(opts.weight) && !opts.has_ignored;
    if (plain || !is_fused(o, info.dim[info.rank - 1]))
        return record(context, logits, labels, options);
    sr_tensor loss = sr_loss_cross_entropy(logits, labels, o->label_smoothing,
                                           (sr_label_opts){.has_ignored = false});
    if (!sr_tensor_info(loss, &info))
        return loss;
    loss = sr_mul(loss, sr_loss_label_weights(labels, info.dtype, opts));
    return counted(o, loss, labels, opts);
}

extern const sr_loss_desc sr_loss_row_cross_entropy;
const sr_loss_desc sr_loss_row_cross_entropy = {.struct_size = sizeof(sr_loss_desc),
                                                .abi = SR_LOSS_ABI,
                                                .name = "cross-entropy",
                                                .help = "softmax cross-entropy",
                                                .options = &table,
                                                .check = check,
                                                .classes = classes,
                                                .record = record,
                                                .record_map = record_map};
