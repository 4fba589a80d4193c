// SPDX-License-Identifier: Apache-2.0
// The table of losses: those of loss_list.def, then those of plug-ins.
#include "kernels/base/table.h"
#include "trainer/losses/loss.h"

#define SR_LOSS(symbol) extern const sr_loss_desc symbol;
#include "trainer/losses/loss_list.def"
#undef SR_LOSS

static const sr_loss_desc *const built_in[] = {
#define SR_LOSS(symbol) &(symbol),
#include "trainer/losses/loss_list.def"
#undef SR_LOSS
};

static sr_status check(const void *descriptor) {
    const sr_loss_desc *loss = descriptor;
    return loss->record || loss->record_map
               ? SR_OK
               : SR_FAIL(SR_E_USAGE, "it needs a function 'record' or 'record_map'");
}

static sr_table table = {.what = "loss",
                         .struct_size = sizeof(sr_loss_desc),
                         .abi = SR_LOSS_ABI,
                         .built_in = built_in,
                         .built_in_count = sizeof built_in / sizeof built_in[0],
                         .check = check};

const sr_loss_desc *const *sr_losses(size_t *count) {
    return sr_table_all(&table, count);
}

sr_status sr_losses_add(const sr_loss_desc *const *list, const char *origin) {
    return sr_table_add(&table, list, origin);
}
