// SPDX-License-Identifier: Apache-2.0
// Lovasz softmax of pixels (Berman et al. 2018): a surrogate of the mean IoU, over the pixels of a
// lane or of each picture.
#include <stddef.h>

#include "trainer/losses/loss.h"
#include "trainer/losses/losses_internal.h"

typedef struct loss_options {
    bool per_picture, absent;
} loss_options;

static const sr_option rows[] = {
    {.name = "per_picture",
     .help = "of each picture by itself instead of the lane",
     .type = SR_OPT_BOOL,
     .offset = offsetof(loss_options, per_picture),
     .default_text = "false"},
    {.name = "absent",
     .help = "average over all classes instead of those that have a pixel",
     .type = SR_OPT_BOOL,
     .offset = offsetof(loss_options, absent),
     .default_text = "false"},
};

static const sr_option_table table = {.name = "loss.lovasz",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(loss_options)};

static sr_tensor record_map(sr_context *context, sr_tensor logits, sr_tensor labels,
                            const void *options) {
    const loss_options *o = options;
    const sr_tensor x = sr_losses_wide(logits);
    sr_info info;
    (void)context;
    if (!sr_tensor_info(x, &info))
        return x;
    const int64_t k = info.dim[info.rank - 1], n = o->per_picture ? info.dim[0] : 1;
    const int64_t maps[3] = {n, sr_info_count(&info) / n / k, k};
    const sr_tensor p = sr_softmax(sr_reshape(x, 3, maps), 2);
    const sr_tensor loss = sr_losses_lovasz(p, labels, o->absent);
    return o->per_picture ? loss : sr_losses_repeated(sr_sum(loss, (sr_axes){0}), x);
}

extern const sr_loss_desc sr_loss_row_lovasz;
const sr_loss_desc sr_loss_row_lovasz = {
    .struct_size = sizeof(sr_loss_desc),
    .abi = SR_LOSS_ABI,
    .name = "lovasz",
    .help = "Lovasz softmax: a surrogate of the mean IoU (Berman et al. 2018)",
    .options = &table,
    .record_map = record_map};
