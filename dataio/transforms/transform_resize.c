// SPDX-License-Identifier: Apache-2.0
// Resizes the shorter side to a size, or both sides to their own (torchvision's Resize), or both
// sides to the image size.
#include "dataio/transforms/transform_options.h"

typedef struct options {
    sr_int_list size;
    bool stretch, exact;
    int filter;
} options;

static const sr_option rows[] = {
    {.name = "size",
     .help =
         "pixels of the shorter side, or [height, width], which ignores the aspect ratio; 0: the "
         "shorter side of the image size",
     .type = SR_OPT_INTS,
     .offset = offsetof(options, size),
     .default_text = "0",
     .min = 0,
     .max = 65536},
    {.name = "stretch",
     .help = "resize both sides to the image size, ignoring the aspect ratio",
     .type = SR_OPT_BOOL,
     .offset = offsetof(options, stretch),
     .default_text = "false"},
    SR_ROW_EXACT(options),
    SR_ROW_RESIZE_FILTER(options),
};

static sr_status check(const void *opaque) {
    const sr_int_list *size = &((const options *)opaque)->size;
    if (size->count == 1 || (size->count == 2 && size->items[0] > 0 && size->items[1] > 0))
        return SR_OK;
    return SR_FAIL(SR_E_USAGE, "resize: size is one number, or [height, width] above zero");
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    int64_t tw = sr_canvas_target_width(canvas), th = sr_canvas_target_height(canvas);
    if (o->stretch)
        return sr_canvas_resize(canvas, tw, th, (sr_resize_filter)o->filter, o->exact);
    if (o->size.count == 2)
        return sr_canvas_resize(canvas, o->size.items[1], o->size.items[0],
                                (sr_resize_filter)o->filter, o->exact);
    const int64_t size = o->size.items[0] > 0 ? o->size.items[0] : tw < th ? tw : th;
    int64_t w = sr_canvas_width(canvas), h = sr_canvas_height(canvas);
    // The longer side is rounded down, as torchvision does.
    if (w <= h)
        return sr_canvas_resize(canvas, size, size * h / w, (sr_resize_filter)o->filter, o->exact);
    return sr_canvas_resize(canvas, size * w / h, size, (sr_resize_filter)o->filter, o->exact);
}

const sr_transform sr_transform_resize = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "resize",
    .help = "resize the shorter side to a size",
    .options = {.name = "resize",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
    .moves = true,
};
