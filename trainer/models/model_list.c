// SPDX-License-Identifier: Apache-2.0
// The table of models: those of model_list.def, then those of plug-ins.
#include "kernels/base/table.h"
#include "trainer/models/model.h"

#define SR_MODEL(desc) extern const sr_model_desc desc;
#include "trainer/models/model_list.def"
#undef SR_MODEL

static const sr_model_desc *const built_in[] = {
#define SR_MODEL(desc) &desc,
#include "trainer/models/model_list.def"
#undef SR_MODEL
};

static sr_status check(const void *descriptor) {
    const sr_model_desc *model = descriptor;
    return model->build && model->forward
               ? SR_OK
               : SR_FAIL(SR_E_USAGE, "it needs functions 'build' and 'forward'");
}

static sr_table table = {.what = "model",
                         .struct_size = sizeof(sr_model_desc),
                         .abi = SR_MODEL_ABI,
                         .built_in = built_in,
                         .built_in_count = sizeof built_in / sizeof built_in[0],
                         .check = check};

const sr_model_desc *const *sr_models(size_t *count) {
    return sr_table_all(&table, count);
}

const sr_model_desc *sr_model_find(const char *name) {
    return sr_table_find(&table, name);
}

const char *sr_model_nearest(const char *word) {
    return sr_table_nearest(&table, word);
}

sr_status sr_models_add(const sr_model_desc *const *list, const char *origin) {
    return sr_table_add(&table, list, origin);
}
