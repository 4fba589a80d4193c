// SPDX-License-Identifier: Apache-2.0
// Multi-class hinge loss, that of support vector machines (Crammer & Singer 2001).
#include <stddef.h>

#include "trainer/losses/loss.h"
#include "trainer/losses/losses_internal.h"

typedef struct loss_options {
    double margin;
    int64_t power;
} loss_options;

static const sr_option rows[] = {
    {.name = "margin",
     .help = "margin by which the logit of the label must exceed the others",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(loss_options, margin),
     .default_text = "1",
     .max = 1e6},
    {.name = "power",
     .help = "exponent of a violation of the margin",
     .type = SR_OPT_INT,
     .offset = offsetof(loss_options, power),
     .default_text = "1",
     .min = 1,
     .max = 2},
};

static const sr_option_table table = {.name = "loss.margin",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(loss_options)};

static sr_tensor record(sr_context *context, sr_tensor logits, sr_tensor labels,
                        const void *options) {
    const loss_options *o = options;
    (void)context;
    return sr_loss_margin(logits, labels, o->margin, (int)o->power);
}

extern const sr_loss_desc sr_loss_row_margin;
const sr_loss_desc sr_loss_row_margin = {.struct_size = sizeof(sr_loss_desc),
                                         .abi = SR_LOSS_ABI,
                                         .name = "margin",
                                         .help = "multi-class hinge loss",
                                         .options = &table,
                                         .record = record};
