// SPDX-License-Identifier: Apache-2.0
// The rule by which the loss scale changes (loss_scale.h).
#include "trainer/engine/loss_scale.h"

static sr_status lower(sr_loss_scale *s, int64_t every) {
    s->skipped++;
    s->steps = 0;
    if (every == 0)
        return SR_OK;
    if (s->scale <= SR_LOSS_SCALE_LEAST)
        return SR_FAIL(SR_E_NON_FINITE,
                       "the gradients are not finite, not even at a loss scale of %g: lower "
                       "optimizer.lr, or train with precision: bf16",
                       s->scale);
    s->scale *= 0.5;
    return SR_OK;
}

sr_status sr_loss_scale_update(sr_loss_scale *s, int64_t every, bool finite) {
    if (!finite)
        return lower(s, every);
    s->steps++;
    if (every > 0 && s->steps >= (double)every) {
        s->steps = 0;
        if (s->scale < SR_LOSS_SCALE_MOST)
            s->scale *= 2;
    }
    return SR_OK;
}
