// SPDX-License-Identifier: Apache-2.0
// Arranges four pictures around a point: the sample's own and three foreign ones of its slot, each
// resized to fit into the image size, in a mosaic of twice that size (Bochkovskiy et al., "YOLOv4"
// (2020)). Then random_affine with to_image, a crop or a resize produces the image size.
// Classification keeps the label of the sample's own picture; mosaic is not meant for it.
#include "dataio/transforms/transform_options.h"

enum { TILES = 4 };

typedef struct options {
    double probability;
    sr_float_list center;
    int filter;
    bool exact;
    sr_int_list fill;
} options;

static const sr_option rows[] = {
    SR_ROW_PROBABILITY(options, "1",
                       "share of samples that become mosaics; others are padded to that size"),
    {.name = "center",
     .help = "where the four pictures meet: smallest and largest fraction of the mosaic's sides",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(options, center),
     .default_text = "[0.25, 0.75]",
     .min = 0,
     .max = 1},
    SR_ROW_RESIZE_FILTER(options),
    SR_ROW_EXACT(options),
    SR_ROW_FILL(options, "[114, 114, 114]", "red, green and blue of the background"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    SR_TRY(sr_check_range("mosaic", "center", &o->center));
    return sr_check_color("mosaic", "fill", &o->fill);
}

// Resizes a picture to fit into a tile.
static sr_status fit(sr_canvas *picture, const sr_canvas *mosaic, const options *o) {
    int64_t w, h;
    sr_fit_inside(sr_canvas_width(picture), sr_canvas_height(picture),
                  sr_canvas_target_width(mosaic), sr_canvas_target_height(mosaic), &w, &h);
    return sr_canvas_resize(picture, w, h, (sr_resize_filter)o->filter, o->exact);
}

// Tiles 0 and 2 end where the four meet and 1 and 3 begin there; vertically 0 and 1 end, 2 and 3
// begin.
static int64_t begin_of(int64_t meeting, int64_t side, bool ends) {
    return ends ? meeting - side : meeting;
}

static sr_status paste(sr_canvas *canvas, int tile, int64_t x, int64_t y, const options *o) {
    sr_canvas *other;
    uint8_t *pixels;
    SR_TRY(sr_canvas_open_foreign(canvas, tile - 1, &other));
    if (!other)
        return SR_OK;
    SR_TRY(fit(other, canvas, o));
    const sr_status status = sr_canvas_pixels(other, &pixels);
    if (status >= SR_E_DATA && status < SR_E_PEER)
        return SR_OK; // damaged: omitted
    SR_TRY(status);
    return sr_canvas_paste(canvas, other, begin_of(x, sr_canvas_width(other), tile % 2 == 0),
                           begin_of(y, sr_canvas_height(other), tile < 2));
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    sr_padding mosaic = {.width = 2 * sr_canvas_target_width(canvas),
                         .height = 2 * sr_canvas_target_height(canvas)};
    const bool applied = sr_draw_chance(call->rng, o->probability);
    const int64_t x = (int64_t)(sr_draw_range(call->rng, &o->center) * (double)mosaic.width);
    const int64_t y = (int64_t)(sr_draw_range(call->rng, &o->center) * (double)mosaic.height);
    SR_TRY(fit(canvas, canvas, o));
    mosaic.x = begin_of(x, sr_canvas_width(canvas), true);
    mosaic.y = begin_of(y, sr_canvas_height(canvas), true);
    if (!applied) {
        mosaic.x = (mosaic.width - sr_canvas_width(canvas)) / 2;
        mosaic.y = (mosaic.height - sr_canvas_height(canvas)) / 2;
    }
    sr_color_bytes(&o->fill, mosaic.color);
    SR_TRY(sr_canvas_pad(canvas, &mosaic));
    for (int tile = 1; tile < TILES && applied; tile++)
        SR_TRY(paste(canvas, tile, x, y, o));
    return SR_OK;
}

const sr_transform sr_transform_mosaic = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "mosaic",
    .help = "combine four pictures into a mosaic of twice the image size",
    .options = {.name = "mosaic",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
    .foreign = TILES - 1,
};
