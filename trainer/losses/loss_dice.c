// SPDX-License-Identifier: Apache-2.0
// Dice loss of pixels (Milletari et al. 2016): one minus the overlap of each class's probabilities
// with its pixels, averaged over the classes.
//
// The defaults but 'squared' are mmsegmentation's DiceLoss; batch, present and a smooth of almost 0
// give the DiceLoss of segmentation_models.pytorch. Ignored pixels are in no sum.
#include <stddef.h>

#include "trainer/losses/loss.h"
#include "trainer/losses/losses_internal.h"

typedef struct loss_options {
    double smooth;
    bool squared, batch, present;
} loss_options;

static const sr_option rows[] = {
    {.name = "smooth",
     .help = "added to both sides of the fraction",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(loss_options, smooth),
     .default_text = "1",
     .min = 1e-9,
     .max = 1e9},
    {.name = "squared",
     .help = "square probabilities below the fraction, as mmsegmentation does",
     .type = SR_OPT_BOOL,
     .offset = offsetof(loss_options, squared),
     .default_text = "false"},
    {.name = "batch",
     .help = "one fraction for all pictures of a lane instead of one for each",
     .type = SR_OPT_BOOL,
     .offset = offsetof(loss_options, batch),
     .default_text = "false"},
    {.name = "present",
     .help = "classes without a pixel have no loss",
     .type = SR_OPT_BOOL,
     .offset = offsetof(loss_options, present),
     .default_text = "false"},
};

static const sr_option_table table = {.name = "loss.dice",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(loss_options)};

static sr_tensor record_map(sr_context *context, sr_tensor logits, sr_tensor labels,
                            const void *options) {
    const loss_options *o = options;
    const sr_label_opts opts = {.has_ignored = false};
    const sr_tensor x = sr_losses_wide(logits);
    sr_info info;
    (void)context;
    if (!sr_tensor_info(x, &info))
        return x;
    const int64_t k = info.dim[info.rank - 1], n = info.dim[0];
    const int64_t maps[3] = {n, sr_info_count(&info) / n / k, k}, one[3] = {n, maps[1], 1};
    const sr_tensor valid = sr_reshape(sr_losses_valid(labels, info.dtype, &opts), 3, one);
    const sr_tensor p = sr_mul(sr_softmax(sr_reshape(x, 3, maps), 2), valid);
    const sr_tensor t = sr_one_hot(sr_reshape(labels, 2, maps), k, info.dtype);
    const sr_dice_opts how = {.smooth = o->smooth, .squared = o->squared, .batch = o->batch};
    sr_tensor loss = sr_loss_dice(p, t, how); // [N,K], or [K]
    if (o->present) {
        const sr_axes over = {.count = o->batch ? 2 : 1, .axis = {o->batch ? 0 : 1, 1}};
        const sr_tensor sums = sr_sum(t, over);
        loss = sr_mul(loss, sr_greater(sums, sr_losses_filled(sums, 0.0)));
    }
    const sr_tensor mean = sr_mean(loss, (sr_axes){.count = 1, .axis = {o->batch ? 0 : 1}});
    return o->batch ? sr_losses_repeated(mean, x) : mean;
}

extern const sr_loss_desc sr_loss_row_dice;
const sr_loss_desc sr_loss_row_dice = {.struct_size = sizeof(sr_loss_desc),
                                       .abi = SR_LOSS_ABI,
                                       .name = "dice",
                                       .help = "one minus the overlap of each class's pixels",
                                       .options = &table,
                                       .record_map = record_map};
