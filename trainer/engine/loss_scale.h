// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scaling (Micikevicius et al. 2018, "Mixed precision training"), with the defaults of
// PyTorch's GradScaler.
//
// f16 cannot represent numbers below 6e-8, where most gradients of activations lie. So the loss is
// multiplied by a scale before it is differentiated, and gradients are divided by it before they
// are used. A step whose gradients are not finite is skipped, and the scale halved; after 'every'
// steps without such a step it is doubled.
#ifndef SR_TRAINER_LOSS_SCALE_H
#define SR_TRAINER_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"

#define SR_LOSS_SCALE_MOST 0x1p24   // upper bound
#define SR_LOSS_SCALE_LEAST 0x1p-16 // lower bound

// The struct is saved in checkpoints, as an array.
typedef struct sr_loss_scale {
    double scale;
    double steps;   // since it was changed
    double skipped; // steps, over the whole run
} sr_loss_scale;

#define SR_LOSS_SCALE_NUMBERS 3 // of the struct

// Updates the scale after a step; 'finite' says whether its gradients were finite. 'every' 0: a
// constant scale. SR_E_NON_FINITE if the scale cannot be lowered any further.
SR_NODISCARD sr_status sr_loss_scale_update(sr_loss_scale *s, int64_t every, bool finite);

#endif
