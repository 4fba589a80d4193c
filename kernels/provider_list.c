// SPDX-License-Identifier: Apache-2.0
// The providers of this build in the order of provider_list.def, limited to those that
// SERRIED_PROVIDERS names. The variable is read once, by the first call.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/kernel.h"

#define SR_PROVIDER(name) extern const sr_provider sr_provider_##name;
#include "kernels/provider_list.def"
#undef SR_PROVIDER

static const sr_provider *const built_in[] = {
#define SR_PROVIDER(name) &sr_provider_##name,
#include "kernels/provider_list.def"
#undef SR_PROVIDER
};

#define BUILT_IN (sizeof built_in / sizeof built_in[0])

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const sr_provider *chosen[BUILT_IN];
static size_t chosen_count;

static bool names_equal(const char *item, size_t length, const char *name) {
    return strlen(name) == length && memcmp(item, name, length) == 0;
}

// Whether a comma-separated list contains 'name'.
static bool listed(const char *list, const char *name) {
    for (const char *p = list; *p;) {
        const size_t length = strcspn(p, ",");
        if (names_equal(p, length, name))
            return true;
        p += length + (p[length] == ',');
    }
    return false;
}

static void warn_of_unknown(const char *list) {
    for (const char *p = list; *p;) {
        const size_t length = strcspn(p, ",");
        bool known = length == 0;
        for (size_t i = 0; i < BUILT_IN; i++)
            known = known || names_equal(p, length, built_in[i]->name);
        if (!known)
            SR_WARN("SERRIED_PROVIDERS names '%.*s', which is not a provider of this build",
                    (int)length, p);
        p += length + (p[length] == ',');
    }
}

static void choose(void) {
    const char *list = getenv("SERRIED_PROVIDERS");
    const bool all = !list || !*list;
    if (!all)
        warn_of_unknown(list);
    for (size_t i = 0; i < BUILT_IN; i++)
        if (all || listed(list, built_in[i]->name))
            chosen[chosen_count++] = built_in[i];
}

const sr_provider *const *sr_providers(size_t *count) {
    pthread_once(&once, choose);
    *count = chosen_count;
    return chosen;
}
