// SPDX-License-Identifier: Apache-2.0
// The list of transformers (transformer.h) and look-up by name.
#include "dataio/pipeline/transformer.h"

#include <string.h>

#include "kernels/base/text.h"

#define SR_TRANSFORMER(name) extern const sr_transformer sr_transformer_##name;
#include "dataio/pipeline/transformer_list.def"
#undef SR_TRANSFORMER

static const sr_transformer *const transformers[] = {
#define SR_TRANSFORMER(name) &sr_transformer_##name,
#include "dataio/pipeline/transformer_list.def"
#undef SR_TRANSFORMER
};

#define TRANSFORMER_COUNT (sizeof transformers / sizeof transformers[0])

sr_status sr_transformer_find(const char *name, const sr_transformer **out) {
    const char *names[TRANSFORMER_COUNT];
    if (!name)
        name = "classify";
    for (size_t i = 0; i < TRANSFORMER_COUNT; i++) {
        names[i] = transformers[i]->name;
        if (strcmp(name, names[i]) == 0) {
            *out = transformers[i];
            return SR_OK;
        }
    }
    const char *near = sr_text_nearest(name, names, TRANSFORMER_COUNT);
    return SR_FAIL(SR_E_USAGE, "unknown transformer '%s'%s%s%s", name,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}
