// SPDX-License-Identifier: Apache-2.0
// Resizes the whole picture to fit into the image size and pads both sides, like the YOLO
// detectors, or the right and the bottom, like mmdetection and mmsegmentation.
#include "dataio/transforms/transform_options.h"

typedef struct options {
    int filter;
    bool exact, no_enlarge, corner;
    sr_int_list fill;
} options;

static const sr_option rows[] = {
    SR_ROW_RESIZE_FILTER(options),
    SR_ROW_EXACT(options),
    {.name = "no_enlarge",
     .help = "do not enlarge smaller pictures",
     .type = SR_OPT_BOOL,
     .offset = offsetof(options, no_enlarge),
     .default_text = "false"},
    {.name = "corner",
     .help = "place the picture at the top left instead of the centre",
     .type = SR_OPT_BOOL,
     .offset = offsetof(options, corner),
     .default_text = "false"},
    SR_ROW_FILL(options, "[114, 114, 114]", "red, green and blue outside the picture"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    return sr_check_color("letterbox", "fill", &o->fill);
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const int64_t w = sr_canvas_width(canvas), h = sr_canvas_height(canvas);
    sr_padding padding = {.width = sr_canvas_target_width(canvas),
                          .height = sr_canvas_target_height(canvas)};
    int64_t new_w = w, new_h = h;
    if (!o->no_enlarge || w > padding.width || h > padding.height)
        sr_fit_inside(w, h, padding.width, padding.height, &new_w, &new_h);
    if (new_w != w || new_h != h)
        SR_TRY(sr_canvas_resize(canvas, new_w, new_h, (sr_resize_filter)o->filter, o->exact));
    padding.x = o->corner ? 0 : (padding.width - new_w) / 2;
    padding.y = o->corner ? 0 : (padding.height - new_h) / 2;
    sr_color_bytes(&o->fill, padding.color);
    return sr_canvas_pad(canvas, &padding);
}

const sr_transform sr_transform_letterbox = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "letterbox",
    .help = "fit the whole picture into the image size",
    .options = {.name = "letterbox",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
