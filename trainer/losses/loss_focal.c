// SPDX-License-Identifier: Apache-2.0
// Focal loss (Lin et al. 2017): samples or pixels that are classified well count less.
#include <stddef.h>

#include "trainer/losses/loss.h"
#include "trainer/losses/losses_internal.h"

enum { SOFTMAX, SIGMOID };

typedef struct loss_options {
    int form;
    double gamma, alpha;
    int count;
    sr_loss_boundary boundary;
} loss_options;

static const char *const forms[] = {[SOFTMAX] = "softmax", [SIGMOID] = "sigmoid", NULL};

static const sr_option rows[] = {
    {.name = "form",
     .help = "softmax: the loss of the label alone; sigmoid: the sum of independent losses over "
             "all classes",
     .type = SR_OPT_ENUM,
     .offset = offsetof(loss_options, form),
     .default_text = "softmax",
     .choices = forms},
    {.name = "gamma",
     .help = "exponent of the factor (1 - p) by which well-classified samples count less; 0: "
             "cross-entropy",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(loss_options, gamma),
     .default_text = "2",
     .max = 16},
    {.name = "alpha",
     .help = "with form sigmoid: weight of the label; other classes have 1 - alpha; -1: no weights",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(loss_options, alpha),
     .default_text = "0.25",
     .min = -1,
     .max = 1},
    SR_ROW_COUNT(loss_options, SR_OPTION_NUMERICS),
    SR_ROWS_BOUNDARY(loss_options),
};

static const sr_option_table table = {.name = "loss.focal",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(loss_options)};

static sr_status check(const void *options, int64_t classes, bool maps) {
    (void)classes;
    return sr_losses_check_boundary(&((const loss_options *)options)->boundary, maps);
}

// Of each label.
static sr_tensor losses_of(sr_tensor logits, sr_tensor labels, const loss_options *o) {
    sr_info info;
    if (o->form == SOFTMAX)
        return sr_loss_focal(logits, labels, o->gamma, (sr_label_opts){.has_ignored = false});
    const sr_tensor x = sr_losses_wide(logits);
    if (!sr_tensor_info(x, &info))
        return x;
    const sr_tensor t = sr_one_hot(labels, info.dim[info.rank - 1], info.dtype);
    const sr_tensor losses = sr_loss_sigmoid_focal(x, t, o->alpha, o->gamma);
    return sr_losses_counted(sr_losses_sum(losses, info.rank - 1, false), labels);
}

static sr_tensor record(sr_context *context, sr_tensor logits, sr_tensor labels,
                        const void *options) {
    const loss_options *o = options;
    const sr_label_opts opts = {.has_ignored = false};
    const sr_tensor losses = losses_of(logits, labels, o);
    sr_info info;
    (void)context;
    if (!sr_tensor_info(losses, &info))
        return losses;
    return sr_losses_counted_by((sr_loss_count)o->count, losses, labels, opts,
                                sr_losses_boundary(&o->boundary, labels, info.dtype, &opts));
}

extern const sr_loss_desc sr_loss_row_focal;
const sr_loss_desc sr_loss_row_focal = {
    .struct_size = sizeof(sr_loss_desc),
    .abi = SR_LOSS_ABI,
    .name = "focal",
    .help = "focal loss, with a softmax or with sigmoids (Lin et al. 2017)",
    .options = &table,
    .check = check,
    .record = record,
    .record_map = record};
