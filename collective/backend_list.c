// SPDX-License-Identifier: Apache-2.0
// The table of backends, made from backend_list.def.
#include "collective/comm_backend_internal.h"

#define SR_COMM_BACKEND(name) extern const sr_comm_backend sr_comm_backend_##name;
#include "collective/backend_list.def"
#undef SR_COMM_BACKEND

static const sr_comm_backend *const backends[] = {
#define SR_COMM_BACKEND(name) &sr_comm_backend_##name,
#include "collective/backend_list.def"
#undef SR_COMM_BACKEND
};

const sr_comm_backend *const *sr_comm_backends(size_t *count) {
    *count = sizeof backends / sizeof backends[0];
    return backends;
}
