// SPDX-License-Identifier: Apache-2.0
// How a picture becomes the model's input outside training: `val`, `predict` and the evaluations of
// a training run prepare it by the same transforms, those of the recipe's section `eval`.
#ifndef SR_TRAINER_EVAL_VIEW_H
#define SR_TRAINER_EVAL_VIEW_H

#include "dataio/transforms/transform.h"
#include "trainer/recipe/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_EVAL_TRANSFORMS 2 // resize, centre crop

// The transforms and the size of what they give.
typedef struct sr_eval_view {
    int64_t height, width;
    sr_transform_spec transforms[SR_EVAL_TRANSFORMS]; // borrow from 'resize': not to be copied
    char resize[96];                                  // arguments
} sr_eval_view;

// The recipe's section `eval`: resized, and cropped to the size of the model's input.
void sr_eval_view_of(const sr_recipe *recipe, sr_eval_view *out);
// The same with other arguments of `resize`.
void sr_eval_view_crop(const char *resize, int64_t height, int64_t width, sr_eval_view *out);

#ifdef __cplusplus
}
#endif
#endif
