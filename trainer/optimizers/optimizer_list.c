// SPDX-License-Identifier: Apache-2.0
// The shipped optimisers, from optimizer_list.def.
#include "trainer/optimizer.h"

#define SR_OPTIMIZER(desc) extern const sr_optimizer_desc desc;
#include "trainer/optimizers/optimizer_list.def"
#undef SR_OPTIMIZER

static const sr_optimizer_desc *const optimizers[] = {
#define SR_OPTIMIZER(desc) &desc,
#include "trainer/optimizers/optimizer_list.def"
#undef SR_OPTIMIZER
};

const sr_optimizer_desc *const *sr_optimizers(size_t *count) {
    *count = sizeof optimizers / sizeof optimizers[0];
    return optimizers;
}
