// SPDX-License-Identifier: Apache-2.0
// Adds pixels on every side (torchvision's Pad).
#include "dataio/transforms/transform_options.h"

typedef struct options {
    sr_int_list size;
    int mode;
    sr_int_list fill;
} options;

// In the order of sr_border.
static const char *const borders[] = {"color", "edge", "reflect", NULL};

static const sr_option rows[] = {
    {.name = "size",
     .help = "pixels on the left, top, right and bottom, or one number for all",
     .type = SR_OPT_INTS,
     .offset = offsetof(options, size),
     .default_text = "[4]",
     .min = 0,
     .max = 4096},
    {.name = "mode",
     .help = "content of the padding: a colour, the nearest pixel, or the mirrored picture",
     .type = SR_OPT_ENUM,
     .offset = offsetof(options, mode),
     .default_text = "color",
     .choices = borders},
    SR_ROW_FILL(options, "[0, 0, 0]", "red, green and blue of the padding"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    if (o->size.count != 1 && o->size.count != 4)
        return SR_FAIL(SR_E_USAGE, "pad: size takes one or four numbers, got %zu", o->size.count);
    return sr_check_color("pad", "fill", &o->fill);
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    const int64_t *size = o->size.items;
    const size_t top = o->size.count == 4 ? 1 : 0, right = 2 * top, bottom = 3 * top;
    sr_padding padding = {.width = sr_canvas_width(canvas) + size[0] + size[right],
                          .height = sr_canvas_height(canvas) + size[top] + size[bottom],
                          .x = size[0],
                          .y = size[top],
                          .border = (sr_border)o->mode};
    sr_color_bytes(&o->fill, padding.color);
    return sr_canvas_pad(canvas, &padding);
}

const sr_transform sr_transform_pad = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "pad",
    .help = "add pixels on every side",
    .options = {.name = "pad",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
    .moves = true,
};
