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
enum { COUNT = sizeof bootstraps / sizeof bootstraps[0] };

const sr_bootstrap *sr_bootstrap_find(bool alone) {
    int i = alone ? COUNT - 1 : 0;
    while (!bootstraps[i]->detect())
        i++;
    return bootstraps[i];
}
