// SPDX-License-Identifier: Apache-2.0
// Losses of classification, of samples or of pixels: one descriptor and one file each, listed in
// trainer/losses/loss_list.def. Their formulas, and those of other tasks, are in loss_functions.h.
#ifndef SR_TRAINER_LOSS_H
#define SR_TRAINER_LOSS_H

#include "graph/context.h"
#include "kernels/base/options.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_LOSS_ABI 5 // of sr_loss_desc

// A loss's descriptor. Immutable.
typedef struct sr_loss_desc {
    uint32_t struct_size, abi;
    const char *name, *help;
    const sr_option_table *options; // NULL: none
    // Whether the options suit so many classes (0: not known yet), and a loss of samples or of
    // pixels ('maps'); NULL: nothing to check.
    sr_status (*check)(const void *options, int64_t classes, bool maps);
    // How many classes the options are written for, such as by a weight of each; 0 or NULL: any.
    int64_t (*classes)(const void *options);
    // Records one number per sample, f32 [N] (f64 of f64), from logits [N,K] (any float dtype) and
    // labels i32 [N]; the loss of a step is their mean. A sample with a negative label counts as 0.
    // The context is that of the logits, for constants. NULL: the loss is not one of samples.
    sr_tensor (*record)(sr_context *context, sr_tensor logits, sr_tensor labels,
                        const void *options);
    // The same from targets f32 [N,K], such as those of mixed samples: the weighted sum of their
    // one-hot labels. NULL: the loss of a mixed sample is that sum of the losses of both labels.
    sr_tensor (*record_soft)(sr_context *context, sr_tensor logits, sr_tensor targets,
                             const void *options);
    // The same for each pixel: from logits [N,H,W,K] and labels i32 [N,H,W], of which negative ones
    // are ignored, f32 [N], whose mean is the loss of the lane. NULL: the loss is not one of
    // pixels.
    sr_tensor (*record_map)(sr_context *context, sr_tensor logits, sr_tensor labels,
                            const void *options);
} sr_loss_desc;

#define SR_LOSS_PARTS 8 // of a recipe's loss

// A loss of a recipe, or one of several that are added.
typedef struct sr_loss_part {
    const char *name; // "dice", that it is logged by; NULL: it is the only one
    double weight;
    const sr_loss_desc *desc;
    const void *options;
} sr_loss_part;

// All losses: those of trainer/losses/loss_list.def, then those of plug-ins.
const sr_loss_desc *const *sr_losses(size_t *count);
// Adds the losses of a plug-in (trainer/engine/plugins.h). 'origin' must stay valid.
SR_NODISCARD sr_status sr_losses_add(const sr_loss_desc *const *list, const char *origin);

#ifdef __cplusplus
}
#endif
#endif
