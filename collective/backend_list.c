// SPDX-License-Identifier: Apache-2.0
// The table of backends, made from backend_list.def.
#include "collective/comm_backend_internal.h"
#include "kernels/base/table.h"

#define SR_COMM_BACKEND(name) extern const sr_comm_backend sr_comm_backend_##name;
#include "collective/backend_list.def"
#undef SR_COMM_BACKEND

static const sr_comm_backend *const backends[] = {
#define SR_COMM_BACKEND(name) &sr_comm_backend_##name,
#include "collective/backend_list.def"
#undef SR_COMM_BACKEND
};

static const sr_table table = {.what = "communicator backend",
                               .struct_size = sizeof(sr_comm_backend),
                               .abi = SR_COMM_BACKEND_ABI,
                               .built_in = backends,
                               .built_in_count = sizeof backends / sizeof backends[0]};

sr_status sr_comm_backend_choose(const sr_comm_job *job, const char *name,
                                 const sr_comm_backend **out) {
    size_t count = 0;
    if (name) {
        *out = sr_table_find(&table, name);
        return *out ? SR_OK
                    : SR_FAIL(SR_E_USAGE,
                              "unknown communicator backend '%s'; without a name, one that "
                              "connects all ranks is chosen",
                              name);
    }
    const sr_comm_backend *const *all = sr_table_all(&table, &count);
    for (size_t i = 0; i < count; i++) {
        if (all[i]->serves(job)) {
            *out = all[i];
            return SR_OK;
        }
    }
    return SR_FAIL(SR_E_UNSUPPORTED, "no backend of this build connects %d ranks that '%s' started",
                   job->size, job->bootstrap->name);
}
