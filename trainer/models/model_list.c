// SPDX-License-Identifier: Apache-2.0
// The shipped models, from model_list.def.
#include <string.h>

#include "trainer/model.h"

#define SR_MODEL(desc) extern const sr_model_desc desc;
#include "trainer/models/model_list.def"
#undef SR_MODEL

static const sr_model_desc *const models[] = {
#define SR_MODEL(desc) &desc,
#include "trainer/models/model_list.def"
#undef SR_MODEL
};

const sr_model_desc *const *sr_models(size_t *count) {
    *count = sizeof models / sizeof models[0];
    return models;
}

const sr_model_desc *sr_model_find(const char *name) {
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        if (strcmp(models[i]->name, name) == 0)
            return models[i];
    return NULL;
}
