// SPDX-License-Identifier: Apache-2.0
// Crops the centre of the picture; smaller pictures are padded with black, like torchvision.
#include "dataio/transforms/transform.h"

typedef struct options {
    int64_t size;
} options;

static const sr_option rows[] = {
    {.name = "size",
     .help = "pixels of a side; 0: the image size",
     .type = SR_OPT_INT,
     .offset = offsetof(options, size),
     .default_text = "0",
     .min = 0,
     .max = 65536},
};

// Half of the difference, rounded to nearest, ties to even (Python's round).
static int64_t half_even(int64_t difference) {
    int64_t down = difference / 2;
    return difference % 2 == 0 ? down : down + down % 2;
}

static sr_status pad(sr_canvas *canvas, int64_t width, int64_t height) {
    int64_t w = sr_canvas_width(canvas), h = sr_canvas_height(canvas);
    int64_t pw = w > width ? w : width, ph = h > height ? h : height;
    int64_t x = (pw - w) / 2, y = (ph - h) / 2;
    return sr_canvas_pad(canvas, &(sr_padding){.width = pw, .height = ph, .x = x, .y = y});
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    sr_region r = {.width = o->size > 0 ? o->size : sr_canvas_target_width(canvas),
                   .height = o->size > 0 ? o->size : sr_canvas_target_height(canvas)};
    if (r.width > sr_canvas_width(canvas) || r.height > sr_canvas_height(canvas))
        SR_TRY(pad(canvas, r.width, r.height));
    r.x = half_even(sr_canvas_width(canvas) - r.width);
    r.y = half_even(sr_canvas_height(canvas) - r.height);
    return sr_canvas_crop(canvas, &r);
}

const sr_transform sr_transform_center_crop = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "center_crop",
    .help = "crop the centre of the picture",
    .options = {.name = "center_crop",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .apply = apply,
    .moves = true,
};
