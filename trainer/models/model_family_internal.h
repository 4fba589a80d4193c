// SPDX-License-Identifier: Apache-2.0
// The descriptors of a family of models, whose sizes differ in little.
#ifndef SR_TRAINER_MODEL_FAMILY_INTERNAL_H
#define SR_TRAINER_MODEL_FAMILY_INTERNAL_H

#include "trainer/models/model.h"

// Defines sr_model_ID with the file's functions build_ID and forward. 'network' is the type of the
// model's state; what else the descriptor has follows as fields.
#define SR_MODEL_DESC(id, text, network, ...)                                                      \
    extern const sr_model_desc sr_model_##id;                                                      \
    const sr_model_desc sr_model_##id = {.struct_size = sizeof(sr_model_desc),                     \
                                         .abi = SR_MODEL_ABI,                                      \
                                         .name = #id,                                              \
                                         .help = text,                                             \
                                         .state_size = sizeof(network),                            \
                                         .build = build_##id,                                      \
                                         .forward = forward,                                       \
                                         __VA_ARGS__};

#endif
