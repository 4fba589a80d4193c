// SPDX-License-Identifier: Apache-2.0
// The transforms of evaluation (eval_view.h): torchvision's Resize and CenterCrop.
#include "trainer/tasks/eval_view.h"

#include <stdio.h>

#include "dataio/transforms/transform.h"

void sr_eval_view_crop(const char *resize, int64_t height, int64_t width, sr_eval_view *out) {
    (void)snprintf(out->resize, sizeof out->resize, "%s", resize);
    out->height = height;
    out->width = width;
    out->transforms[0] = (sr_transform_spec){.name = "resize", .arguments = out->resize};
    out->transforms[1] = (sr_transform_spec){.name = "center_crop"}; // to the image size
}

void sr_eval_view_of(const sr_recipe *recipe, sr_eval_view *out) {
    const int64_t height = recipe->eval.resize_height, width = recipe->eval.resize_width;
    char size[48], resize[sizeof out->resize];
    if (width > 0)
        (void)snprintf(size, sizeof size, "[%lld,%lld]", (long long)height, (long long)width);
    else
        (void)snprintf(size, sizeof size, "%lld", (long long)height);
    (void)snprintf(resize, sizeof resize, "size=%s filter=%s exact=%s", size,
                   sr_resize_filter_names[recipe->eval.filter],
                   recipe->eval.exact ? "true" : "false");
    sr_eval_view_crop(resize, recipe->eval.crop_height, recipe->eval.crop_width, out);
}
