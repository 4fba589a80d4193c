// SPDX-License-Identifier: Apache-2.0
// The table of optimisers: those of optimizer_list.def, then those of plug-ins.
#include "trainer/optimizers/optimizer.h"

#include "kernels/base/table.h"

#define SR_OPTIMIZER(desc) extern const sr_optimizer_desc desc;
#include "trainer/optimizers/optimizer_list.def"
#undef SR_OPTIMIZER

static const sr_optimizer_desc *const built_in[] = {
#define SR_OPTIMIZER(desc) &desc,
#include "trainer/optimizers/optimizer_list.def"
#undef SR_OPTIMIZER
};

static sr_status check(const void *descriptor) {
    const sr_optimizer_desc *optimizer = descriptor;
    if (optimizer->states < 0 || optimizer->states > SR_OPTIMIZER_MAX_STATES)
        return SR_FAIL(SR_E_USAGE, "%d states per parameter; 0 to %d are possible",
                       optimizer->states, SR_OPTIMIZER_MAX_STATES);
    if (!optimizer->fill || (optimizer->kernel == SR_KERNEL_OWN) != (optimizer->kernels != NULL))
        return SR_FAIL(SR_E_USAGE, "it needs a function 'fill', and either a built-in kernel or "
                                   "SR_KERNEL_OWN with 'kernels'");
    if (optimizer->reductions < 0 || optimizer->reductions > 2 ||
        (optimizer->reductions == 2) != (optimizer->finish != NULL))
        return SR_FAIL(SR_E_USAGE, "%d reductions; 0 to 2 are possible, and 2 need 'finish'",
                       optimizer->reductions);
    if (optimizer->fill_matrix && (optimizer->reductions != 2 || optimizer->states == 0))
        return SR_FAIL(SR_E_USAGE, "'fill_matrix' needs two reductions and a state");
    if ((optimizer->is_linear || optimizer->iterations) && !optimizer->fill_matrix)
        return SR_FAIL(SR_E_USAGE, "'is_linear' and 'iterations' need 'fill_matrix'");
    return SR_OK;
}

static sr_table table = {.what = "optimizer",
                         .struct_size = sizeof(sr_optimizer_desc),
                         .abi = SR_OPTIMIZER_ABI,
                         .built_in = built_in,
                         .built_in_count = sizeof built_in / sizeof built_in[0],
                         .check = check};

const sr_optimizer_desc *const *sr_optimizers(size_t *count) {
    return sr_table_all(&table, count);
}

sr_status sr_optimizers_add(const sr_optimizer_desc *const *list, const char *origin) {
    return sr_table_add(&table, list, origin);
}
