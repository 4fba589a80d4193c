// SPDX-License-Identifier: Apache-2.0
// How a picture becomes the model's input outside training: `val`, `predict` and the evaluations of
// a training run prepare it by the same transforms, those of the recipe's section `eval`.
#ifndef SR_TRAINER_EVAL_VIEW_H
#define SR_TRAINER_EVAL_VIEW_H

#include "dataio/record/dataset.h"
#include "dataio/transforms/transform.h"
#include "trainer/recipe/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_EVAL_TRANSFORMS 2 // resize, centre crop

// The largest pictures of a split, each of another sample if need be. Zeros for views of one size.
typedef struct sr_eval_extent {
    int64_t pixels, mask_pixels; // after the transforms; of a mask as it is stored
    int64_t height, width;       // of the picture with the most pixels
} sr_eval_extent;

// The transforms and the size of what they give.
typedef struct sr_eval_view {
    int64_t height, width; // of one size; whole pictures: those of training
    bool whole;            // pictures keep their own sizes
    sr_eval_extent extent; // of them in a split: to be set before it is evaluated
    bool mask_follows;     // the mask is resized with its picture; else it is as it is stored
    int transform_count;
    sr_transform_spec transforms[SR_EVAL_TRANSFORMS]; // borrow from 'resize': not to be copied
    char resize[96];                                  // arguments
    int64_t resize_height, resize_width;              // as in the recipe
} sr_eval_view;

// The recipe's section `eval`: resized, and cropped to the size of the model's input.
void sr_eval_view_of(const sr_recipe *recipe, const void *options, sr_eval_view *out);
// The recipe's section `eval` for whole pictures: resized, or as they are.
void sr_eval_view_whole(const sr_recipe *recipe, sr_eval_view *out);
// The same with other arguments of `resize`.
void sr_eval_view_crop(const char *resize, int64_t height, int64_t width, sr_eval_view *out);
// The size of a whole picture after the transforms, from its size before.
void sr_eval_view_resized(const sr_eval_view *view, int64_t *height, int64_t *width);
// The extent of a split's pictures in this view; reads all records if they are whole.
SR_NODISCARD sr_status sr_eval_view_measure(const sr_eval_view *view, sr_dataset *data,
                                            sr_eval_extent *out);

#ifdef __cplusplus
}
#endif
#endif
