// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy with label smoothing (Szegedy et al. 2016), weights of classes and an
// ignored class.
//
// As in torch.nn.CrossEntropyLoss the mean is weighted where the recipe states weights or an
// ignored class: a lane's sum is divided by its sum of weights. Without these a sample that is
// ignored because its label is negative counts as 0.
#include <stddef.h>

#include "graph/op.h"
#include "trainer/losses/loss.h"
#include "trainer/losses/losses_internal.h"

typedef struct loss_options {
    double label_smoothing;
    sr_float_list class_weights;
    int64_t ignore_index;
} loss_options;

static const sr_option rows[] = {
    {.name = "label_smoothing",
     .help = "fraction of the target spread over all classes (Szegedy et al. 2016)",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(loss_options, label_smoothing),
     .default_text = "0",
     .max = 1},
    {.name = "class_weights",
     .help = "weight of each class; the sum of a lane's losses is divided by the sum of the "
             "weights of its labels",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(loss_options, class_weights),
     .max = 1e9},
    {.name = "ignore_index",
     .help = "class whose samples are left out of the loss and of its mean; -1: none",
     .type = SR_OPT_INT,
     .offset = offsetof(loss_options, ignore_index),
     .default_text = "-1",
     .min = -1,
     .max = 1 << 24},
};

static const sr_option_table table = {.name = "loss.cross-entropy",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(loss_options)};

static sr_status check_count(const sr_float_list *weights, int64_t classes) {
    if (weights->count == 0 || (int64_t)weights->count == classes)
        return SR_OK;
    return SR_FAIL(SR_E_USAGE,
                   "%zu class_weights, but the model has %lld classes (1000 are assumed without "
                   "data.train)",
                   weights->count, (long long)classes);
}

static sr_status check(const void *options, int64_t classes) {
    return check_count(&((const loss_options *)options)->class_weights, classes);
}

// As a constant of the step, in the type that losses are computed in.
static sr_tensor weights_of(sr_context *context, const sr_float_list *list, const sr_info *logits) {
    const int64_t classes = logits->dim[logits->rank - 1];
    const sr_info info = {.dtype = SR_F64, .rank = 1, .dim = {classes}};
    const sr_status status = check_count(list, classes);
    if (status != SR_OK)
        return sr_op_refused(status, "loss.cross-entropy");
    const sr_tensor weights = sr_constant(context, &info, list->items);
    return logits->dtype == SR_F64 ? weights : sr_cast(weights, SR_F32);
}

static sr_tensor record(sr_context *context, sr_tensor logits, sr_tensor labels,
                        const void *options) {
    const loss_options *o = options;
    sr_label_opts opts = {.has_ignored = o->ignore_index >= 0, .ignored = (int32_t)o->ignore_index};
    sr_info info;
    if (!sr_tensor_info(logits, &info))
        return logits;
    if (o->class_weights.count > 0)
        opts.weight = weights_of(context, &o->class_weights, &info);
    const sr_tensor loss = sr_loss_cross_entropy(logits, labels, o->label_smoothing, opts);
    if (o->class_weights.count == 0 && !opts.has_ignored)
        return loss;
    const sr_dtype dtype = info.dtype == SR_F64 ? SR_F64 : SR_F32;
    return sr_losses_spread(loss, sr_loss_label_weights(labels, dtype, opts));
}

extern const sr_loss_desc sr_loss_row_cross_entropy;
const sr_loss_desc sr_loss_row_cross_entropy = {.struct_size = sizeof(sr_loss_desc),
                                                .abi = SR_LOSS_ABI,
                                                .name = "cross-entropy",
                                                .help = "softmax cross-entropy",
                                                .options = &table,
                                                .check = check,
                                                .record = record};
