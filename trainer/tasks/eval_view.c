// SPDX-License-Identifier: Apache-2.0
// The transforms of evaluation (eval_view.h): torchvision's Resize and CenterCrop.
#include "trainer/tasks/eval_view.h"

#include <stdio.h>

#include "dataio/record/record.h"
#include "dataio/transforms/transform.h"

void sr_eval_view_crop(const char *resize, int64_t height, int64_t width, sr_eval_view *out) {
    *out = (sr_eval_view){.height = height, .width = width, .transform_count = 2};
    (void)snprintf(out->resize, sizeof out->resize, "%s", resize);
    out->transforms[0] = (sr_transform_spec){.name = "resize", .arguments = out->resize};
    out->transforms[1] = (sr_transform_spec){.name = "center_crop"}; // to the image size
}

static void resize_arguments(const sr_recipe *recipe, char *out, size_t bytes) {
    const int64_t height = recipe->eval.resize_height, width = recipe->eval.resize_width;
    char size[48];
    if (width > 0)
        (void)snprintf(size, sizeof size, "[%lld,%lld]", (long long)height, (long long)width);
    else
        (void)snprintf(size, sizeof size, "%lld", (long long)height);
    (void)snprintf(out, bytes, "size=%s filter=%s exact=%s", size,
                   sr_resize_filter_names[recipe->eval.filter],
                   recipe->eval.exact ? "true" : "false");
}

void sr_eval_view_of(const sr_recipe *recipe, const void *options, sr_eval_view *out) {
    char resize[sizeof out->resize];
    (void)options;
    resize_arguments(recipe, resize, sizeof resize);
    sr_eval_view_crop(resize, recipe->eval.crop_height, recipe->eval.crop_width, out);
}

void sr_eval_view_whole(const sr_recipe *recipe, sr_eval_view *out) {
    *out = (sr_eval_view){.whole = true,
                          .height = recipe->image_height,
                          .width = recipe->image_width,
                          .resize_height = recipe->eval.resize_height,
                          .resize_width = recipe->eval.resize_width};
    resize_arguments(recipe, out->resize, sizeof out->resize);
    if (recipe->eval.resize_height > 0)
        out->transforms[out->transform_count++] =
            (sr_transform_spec){.name = "resize", .arguments = out->resize};
}

// ---- Whole pictures ----

// As the transform 'resize'.
void sr_eval_view_resized(const sr_eval_view *view, int64_t *height, int64_t *width) {
    const int64_t h = *height, w = *width, side = view->resize_height;
    if (side == 0)
        return;
    *height = view->resize_width > 0 || h <= w ? side : side * h / w;
    *width = view->resize_width > 0 ? view->resize_width : w <= h ? side : side * w / h;
}

static sr_status add_sample(const sr_eval_view *view, const sr_sample *sample,
                            sr_eval_extent *out) {
    const bool turned = sample->orientation >= 5;
    int64_t height = turned ? sample->width : sample->height,
            width = turned ? sample->height : sample->width;
    if (height * width > out->mask_pixels)
        out->mask_pixels = height * width;
    sr_eval_view_resized(view, &height, &width);
    if (height * width > SR_DECODE_MAX_PIXELS)
        return SR_FAIL(SR_E_LIMIT,
                       "eval.resize makes a picture of %lld x %lld, over the limit of %lld pixels",
                       (long long)width, (long long)height, (long long)SR_DECODE_MAX_PIXELS);
    if (height * width > out->pixels) {
        out->pixels = height * width;
        out->height = height;
        out->width = width;
    }
    return SR_OK;
}

sr_status sr_eval_view_measure(const sr_eval_view *view, sr_dataset *data, sr_eval_extent *out) {
    *out = (sr_eval_extent){0};
    for (int64_t i = 0; view->whole && i < sr_dataset_count(data); i++) {
        const void *record;
        size_t bytes;
        sr_sample sample;
        SR_TRY(sr_dataset_read(data, i, &record, &bytes));
        SR_TRY(sr_sample_read(record, bytes, &sample));
        SR_TRY(add_sample(view, &sample, out));
    }
    if (view->mask_follows)
        out->mask_pixels = out->pixels;
    return SR_OK;
}
