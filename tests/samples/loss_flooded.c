// SPDX-License-Identifier: Apache-2.0
// A custom loss: cross-entropy that is kept from falling below a level, sample by sample (Ishida et
// al. 2020; Xie et al. 2022). `loss: {name: flooded, level: 0.1}`.
#include <serried.h>

typedef struct options {
    double level;
} options;

static const sr_option rows[] = {{.name = "level",
                                  .help = "a sample below it is pushed back up",
                                  .type = SR_OPT_FLOAT,
                                  .offset = offsetof(options, level),
                                  .default_text = "0.05",
                                  .max = 10}};

static const sr_option_table table = {
    .name = "loss.flooded", .options = rows, .count = 1, .struct_size = sizeof(options)};

// |l - level| + level
static sr_tensor record(sr_context *context, sr_tensor logits, sr_tensor labels,
                        const void *opaque) {
    const options *o = opaque;
    (void)context;
    sr_tensor l = sr_softmax_cross_entropy(logits, labels, 0);
    sr_tensor above = sr_relu(sr_scale(l, 1, -o->level));
    sr_tensor below = sr_relu(sr_scale(l, -1, o->level));
    return sr_scale(sr_add(above, below), 1, o->level);
}

static const sr_loss_desc loss = {.struct_size = sizeof(sr_loss_desc),
                                  .abi = SR_LOSS_ABI,
                                  .name = "flooded",
                                  .help = "cross-entropy that is kept above a level",
                                  .options = &table,
                                  .record = record};

static const sr_loss_desc *const losses[] = {&loss, NULL};
static const sr_plugin plugin = {SR_PLUGIN_HEAD, .name = "flooded", .losses = losses};

const sr_plugin *sr_plugin_entry(void) {
    return &plugin;
}
