// SPDX-License-Identifier: Apache-2.0
// Resizes the shorter side to a size drawn from a list, times a factor drawn from a range, with a
// limit for the longer side: torchvision's RandomShortestSize, as in DETR; its RandomResize and
// mmsegmentation's, for segmentation. A crop or pad to the image size must follow.
#include "dataio/transforms/transform_options.h"

typedef struct options {
    sr_int_list sizes;
    sr_float_list scale;
    int64_t longest;
    int filter;
    bool exact;
} options;

static const sr_option rows[] = {
    {.name = "sizes",
     .help = "pixels of the shorter side, one of which is drawn; empty: the picture's own",
     .type = SR_OPT_INTS,
     .offset = offsetof(options, sizes),
     .default_text = "[480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800]",
     .min = 1,
     .max = 16384},
    {.name = "scale",
     .help = "smallest and largest factor for sizes and longest",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, scale),
     .default_text = "[1, 1]",
     .min = 0.01,
     .max = 100},
    {.name = "longest",
     .help = "maximum of the longer side in pixels, times the factor; 0: no limit",
     .type = SR_OPT_INT,
     .offset = offsetof(options, longest),
     .default_text = "0",
     .min = 0,
     .max = 65536},
    SR_ROW_RESIZE_FILTER(options),
    SR_ROW_EXACT(options),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    SR_TRY(sr_check_range("multi_scale", "scale", &o->scale));
    if (o->sizes.count == 0 && o->scale.items[0] == o->scale.items[1])
        return SR_FAIL(SR_E_USAGE, "multi_scale: sizes takes at least one number of pixels, or "
                                   "scale a range of factors");
    return SR_OK;
}

// What is not random draws nothing.
static double draw_factor(sr_rng *rng, const sr_float_list *scale) {
    return scale->items[0] < scale->items[1] ? sr_draw_range(rng, scale) : scale->items[0];
}

static double draw_size(sr_rng *rng, const sr_int_list *sizes) {
    return (double)sizes->items[sr_rng_below(rng, (uint32_t)sizes->count)];
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const int64_t w = sr_canvas_width(canvas), h = sr_canvas_height(canvas);
    const double shorter = (double)(w < h ? w : h), longer = (double)(w < h ? h : w);
    double scale = o->sizes.count > 0 ? draw_size(call->rng, &o->sizes) / shorter : 1;
    if (o->longest > 0 && longer * scale > (double)o->longest)
        scale = (double)o->longest / longer;
    scale *= draw_factor(call->rng, &o->scale);
    const int64_t new_w = (int64_t)((double)w * scale + 0.5),
                  new_h = (int64_t)((double)h * scale + 0.5);
    return sr_canvas_resize(canvas, new_w > 1 ? new_w : 1, new_h > 1 ? new_h : 1,
                            (sr_resize_filter)o->filter, o->exact);
}

const sr_transform sr_transform_multi_scale = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "multi_scale",
    .help = "resize the shorter side to one of several sizes, times a random factor",
    .options = {.name = "multi_scale",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
