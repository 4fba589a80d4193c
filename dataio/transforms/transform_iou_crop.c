// SPDX-License-Identifier: Apache-2.0
// Crops at random so that some box whose centre is inside overlaps the crop by at least a drawn
// IoU. Liu et al., "SSD: Single Shot MultiBox Detector" (2016), with the numbers of torchvision's
// RandomIoUCrop. Pictures without boxes do not change.
#include "dataio/transforms/transform_options.h"

typedef struct options {
    sr_float_list overlaps, scale, ratio;
    int64_t tries;
} options;

#define ROUNDS 50 // draws of an overlap before the picture is left unchanged

static const sr_option rows[] = {
    {.name = "overlaps",
     .help = "minimum IoUs, one of which is drawn; 1 or more: the whole picture",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, overlaps),
     .default_text = "[0, 0.1, 0.3, 0.5, 0.7, 0.9, 1]"},
    {.name = "scale",
     .help = "smallest and largest share of each side",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, scale),
     .default_text = "[0.3, 1]",
     .min = 0.01,
     .max = 1},
    {.name = "ratio",
     .help = "smallest and largest width / height",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, ratio),
     .default_text = "[0.5, 2]",
     .min = 0.01,
     .max = 100},
    {.name = "tries",
     .help = "crops that are tried before another overlap is drawn",
     .type = SR_OPT_INT,
     .offset = offsetof(options, tries),
     .default_text = "40",
     .min = 1,
     .max = 1000},
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    if (o->overlaps.count == 0)
        return SR_FAIL(SR_E_USAGE, "iou_crop: overlaps takes at least one number");
    SR_TRY(sr_check_range("iou_crop", "scale", &o->scale));
    return sr_check_range("iou_crop", "ratio", &o->ratio);
}

// The largest IoU of the crop with a box whose centre is inside; negative: no such box.
static double best_overlap(const sr_region *r, const sr_box *boxes, int64_t count) {
    const float x1 = (float)r->x, y1 = (float)r->y;
    const float x2 = (float)(r->x + r->width), y2 = (float)(r->y + r->height);
    double best = -1;
    for (int64_t i = 0; i < count; i++) {
        const sr_box *b = &boxes[i];
        const float cx = (b->x1 + b->x2) * 0.5f, cy = (b->y1 + b->y2) * 0.5f;
        if (cx < x1 || cy < y1 || cx >= x2 || cy >= y2)
            continue;
        const float w = (b->x2 < x2 ? b->x2 : x2) - (b->x1 > x1 ? b->x1 : x1);
        const float h = (b->y2 < y2 ? b->y2 : y2) - (b->y1 > y1 ? b->y1 : y1);
        const float both = w * h, all = (b->x2 - b->x1) * (b->y2 - b->y1);
        const double iou = (double)(both / (all + (x2 - x1) * (y2 - y1) - both));
        best = iou > best ? iou : best;
    }
    return best;
}

static bool draw_crop(sr_canvas *canvas, const sr_transform_call *call, double least,
                      sr_region *out) {
    const options *o = call->options;
    const int64_t w = sr_canvas_width(canvas), h = sr_canvas_height(canvas);
    int64_t count;
    const sr_box *boxes = sr_canvas_boxes(canvas, &count);
    out->width = (int64_t)((double)w * sr_draw_range(call->rng, &o->scale));
    out->height = (int64_t)((double)h * sr_draw_range(call->rng, &o->scale));
    if (out->width < 1 || out->height < 1)
        return false;
    const double ratio = (double)out->width / (double)out->height;
    out->x = sr_rng_below(call->rng, (uint32_t)(w - out->width) + 1);
    out->y = sr_rng_below(call->rng, (uint32_t)(h - out->height) + 1);
    const double overlap = best_overlap(out, boxes, count);
    return ratio >= o->ratio.items[0] && ratio <= o->ratio.items[1] && overlap >= 0 &&
           overlap >= least;
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    int64_t count;
    sr_region crop;
    (void)sr_canvas_boxes(canvas, &count);
    for (int round = 0; round < ROUNDS && count > 0; round++) {
        const double least =
            o->overlaps.items[sr_rng_below(call->rng, (uint32_t)o->overlaps.count)];
        if (least >= 1)
            return SR_OK;
        for (int64_t i = 0; i < o->tries; i++)
            if (draw_crop(canvas, call, least, &crop))
                return sr_canvas_crop(canvas, &crop);
    }
    return SR_OK;
}

const sr_transform sr_transform_iou_crop = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "iou_crop",
    .help = "a random crop that overlaps a box by at least a drawn IoU",
    .options = {.name = "iou_crop",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
};
