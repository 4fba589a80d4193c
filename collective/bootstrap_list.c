// SPDX-License-Identifier: Apache-2.0
// The table of bootstraps, made from bootstrap_list.def.
#include "collective/bootstrap_internal.h"

#define SR_BOOTSTRAP(name) extern const sr_bootstrap sr_bootstrap_##name;
#include "collective/bootstrap_list.def"
#undef SR_BOOTSTRAP

static const sr_bootstrap *const bootstraps[] = {
#define SR_BOOTSTRAP(name) &sr_bootstrap_##name,
#include "collective/bootstrap_list.def"
#undef SR_BOOTSTRAP
};

const sr_bootstrap *sr_bootstrap_find(bool alone) {
    for (size_t i = 0; i < sizeof bootstraps / sizeof bootstraps[0] && !alone; i++)
        if (bootstraps[i]->detect && bootstraps[i]->detect())
            return bootstraps[i];
    return &sr_bootstrap_self;
}
