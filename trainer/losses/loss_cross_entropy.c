// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy with label smoothing (Szegedy et al. 2016).
#include <stddef.h>

#include "trainer/losses/loss.h"

typedef struct loss_options {
    double label_smoothing;
} loss_options;

static const sr_option rows[] = {
    {.name = "label_smoothing",
     .help = "fraction of the target spread over all classes (Szegedy et al. 2016)",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(loss_options, label_smoothing),
     .default_text = "0",
     .max = 1},
};

static const sr_option_table table = {.name = "loss.cross-entropy",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(loss_options)};

static sr_tensor record(sr_tensor logits, sr_tensor labels, const void *options) {
    const loss_options *o = options;
    return sr_softmax_cross_entropy(logits, labels, o->label_smoothing);
}

extern const sr_loss_desc sr_loss_cross_entropy;
const sr_loss_desc sr_loss_cross_entropy = {.struct_size = sizeof(sr_loss_desc),
                                            .abi = SR_LOSS_ABI,
                                            .name = "cross-entropy",
                                            .help = "softmax cross-entropy",
                                            .options = &table,
                                            .record = record};
