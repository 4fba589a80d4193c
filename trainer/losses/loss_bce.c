// SPDX-License-Identifier: Apache-2.0
// Binary cross-entropy of every class, each on its own (Wightman et al. 2021, "ResNet strikes
// back", section 2): labels become one-hot targets, which are smoothed as in timm; mixed samples
// have targets of both labels.
//
// Of pixels this is mmsegmentation's CrossEntropyLoss with use_sigmoid (count: all; with
// avg_non_ignore, valid) and, with count: all, the SoftBCEWithLogitsLoss of
// segmentation_models.pytorch: each pixel has a target for every class.
#include <stddef.h>

#include "trainer/losses/loss.h"
#include "trainer/losses/losses_internal.h"

typedef struct loss_options {
    double label_smoothing, target_threshold;
    bool sum_classes;
    sr_float_list class_weights;
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
    {.name = "target_threshold",
     .help = "targets above it become 1, others 0, after mixing; 0: targets stay as they are",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(loss_options, target_threshold),
     .default_text = "0",
     .max = 1},
    {.name = "sum_classes",
     .help = "sum over the classes instead of averaging over them",
     .type = SR_OPT_BOOL,
     .offset = offsetof(loss_options, sum_classes),
     .default_text = "false"},
    {.name = "class_weights",
     .help = "factor of each class's loss where the target is 1 (pos_weight of PyTorch)",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(loss_options, class_weights),
     .max = 1e9},
    SR_ROW_COUNT(loss_options, SR_OPTION_ADDED),
    SR_ROWS_BOUNDARY(loss_options),
};

static const sr_option_table table = {.name = "loss.bce",
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

static sr_tensor record_soft(sr_context *context, sr_tensor logits, sr_tensor targets,
                             const void *options) {
    const loss_options *o = options;
    const sr_tensor x = sr_losses_wide(sr_losses_rows(logits));
    sr_tensor t = sr_losses_wide(sr_losses_rows(targets)), weights = SR_NONE;
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return x;
    if (o->label_smoothing > 0)
        t = sr_scale(t, 1.0 - o->label_smoothing, o->label_smoothing / (double)info.dim[1]);
    if (o->target_threshold > 0)
        t = sr_greater(t, sr_losses_filled(t, o->target_threshold));
    if (o->class_weights.count > 0)
        weights = sr_losses_class_weights(context, &o->class_weights, &info, "loss.bce");
    const sr_tensor sums = sr_losses_sum(sr_losses_bce(x, t, weights), 1, false);
    return o->sum_classes ? sums : sr_scale(sums, 1.0 / (double)info.dim[1], 0.0);
}

// Of samples or of pixels.
static sr_tensor record(sr_context *context, sr_tensor logits, sr_tensor labels,
                        const void *options) {
    const loss_options *o = options;
    sr_info info;
    if (!sr_tensor_info(logits, &info))
        return logits;
    const sr_dtype dtype = info.dtype == SR_F64 ? SR_F64 : SR_F32;
    const sr_tensor targets = sr_one_hot(labels, info.dim[info.rank - 1], dtype);
    const sr_tensor loss =
        sr_losses_counted(record_soft(context, logits, targets, options), labels);
    const sr_label_opts opts = {.has_ignored = false};
    return sr_losses_counted_by((sr_loss_count)o->count, loss, labels, opts,
                                sr_losses_boundary(&o->boundary, labels, dtype, &opts));
}

extern const sr_loss_desc sr_loss_row_bce;
const sr_loss_desc sr_loss_row_bce = {.struct_size = sizeof(sr_loss_desc),
                                      .abi = SR_LOSS_ABI,
                                      .name = "bce",
                                      .help = "binary cross-entropy of every class",
                                      .options = &table,
                                      .check = check,
                                      .classes = classes,
                                      .record = record,
                                      .record_soft = record_soft,
                                      .record_map = record};
