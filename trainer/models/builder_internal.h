// SPDX-License-Identifier: Apache-2.0
// The builder behind model.h: what is collected while the 'build' of a model runs, and of the
// models that it builds inside (child_model.c).
#ifndef SR_TRAINER_BUILDER_INTERNAL_H
#define SR_TRAINER_BUILDER_INTERNAL_H

#include "trainer/models/built_model.h"

enum { SR_BUILD_SCOPES = 16 };

// The part of the model whose 'build' runs.
typedef struct sr_build_part {
    int index;                             // in sr_model.parts
    int64_t classes;                       // 0: features alone
    char scope[SR_NAME_BYTES];             // "layer1.0."
    size_t scope_lengths[SR_BUILD_SCOPES]; // before each push: a pushed name may contain dots
    int scopes;
    int first_layer; // depth of the whole model's layers that is its own depth 0
    int layer;       // depth of the parameters to come
    int next_layer;  // after all layers that it has declared; 0: none
    sr_model_stage *stages;
    int *stage_count;
} sr_build_part;

struct sr_builder {
    sr_model *model;
    const sr_model_build *build;
    sr_build_part part;
    size_t param_capacity, counter_capacity, table_capacity, part_capacity;
    sr_status status;
};

// Keeps the first failure.
void sr_build_stick(sr_builder *builder, sr_status status);
// Adds a part with names below 'prefix', which is copied. Returns its index, or -1 after a failure.
int sr_build_add_part(sr_builder *builder, const sr_model_desc *desc, int parent, const char *path,
                      const char *prefix);

#endif
