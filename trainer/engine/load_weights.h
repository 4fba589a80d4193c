// SPDX-License-Identifier: Apache-2.0
// Fills the parameters and buffers of models from a weights file.
#ifndef SR_TRAINER_LOAD_WEIGHTS_H
#define SR_TRAINER_LOAD_WEIGHTS_H

#include "kernels/base/text.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/models/built_model.h"
#include "trainer/recipe/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

// A model and its values [elements], in host memory.
typedef struct sr_model_values {
    const sr_model *model;
    float *flat;
} sr_model_values;

// Reads the tensors of 'count' models. bf16 and f16 are widened, and dimensions of extent 1 need
// not agree. part: the path of the part that the file is of, without its prefix (sr_model_part),
// and all else stays; NULL: the file is of the models. A file may have any layout of each part; the
// one that has the most tensors in the file is used. Position embeddings for another square grid
// are resized, with the same bits on every processor. reset: names or prefixes, in the model's
// layout, of tensors that may be missing or have another shape; NULL: none. Adds a summary to
// 'report' (not NULL): numbers of tensors, the layout, and which tensors were resized. SR_E_USAGE
// naming the tensors that are missing or of another shape; SR_E_DATA; SR_E_NON_FINITE naming the
// first tensor with a value that is not finite.
SR_NODISCARD sr_status sr_weights_load(const sr_model_values *models, int count, const char *part,
                                       sr_safetensors *file, const sr_string_list *reset,
                                       sr_text *report);

#ifdef __cplusplus
}
#endif
#endif
