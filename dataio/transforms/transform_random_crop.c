// SPDX-License-Identifier: Apache-2.0
// Crops the image size at a random position. Where the picture is smaller it is padded on the right
// and below, its mask with SR_MASK_IGNORE (torchvision's and mmsegmentation's way). With
// cat_max_ratio, crops that show almost one class only are drawn again (mmsegmentation's
// RandomCrop).
#include "dataio/transforms/transform_options.h"

typedef struct options {
    double cat_max_ratio;
    sr_int_list fill;
} options;

#define REDRAWS 10 // the last one is taken as it is

static const sr_option rows[] = {
    {.name = "cat_max_ratio",
     .help = "draw the crop again, up to ten times, until it has two classes and the most frequent "
             "one covers less than this share of the pixels that have a class; 1: any crop. "
             "Pictures without a mask take the first",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(options, cat_max_ratio),
     .default_text = "1",
     .min = 0,
     .max = 1},
    SR_ROW_FILL(options, "[0, 0, 0]", "red, green and blue of the padding"),
};

static sr_status check(const void *opaque) {
    const options *o = opaque;
    return sr_check_color("random_crop", "fill", &o->fill);
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static sr_region draw_crop(const sr_canvas *canvas, sr_rng *rng) {
    const int64_t w = sr_canvas_width(canvas), h = sr_canvas_height(canvas);
    sr_region r = {.width = smaller(w, sr_canvas_target_width(canvas)),
                   .height = smaller(h, sr_canvas_target_height(canvas))};
    r.y = sr_rng_below(rng, (uint32_t)(h - r.height) + 1);
    r.x = sr_rng_below(rng, (uint32_t)(w - r.width) + 1);
    return r;
}

static bool is_varied(const int64_t count[256], double cat_max_ratio) {
    int64_t all = 0, most = 0;
    for (int v = 0; v < 256; v++) {
        if (v == SR_MASK_IGNORE)
            continue;
        all += count[v];
        most = count[v] > most ? count[v] : most;
    }
    return most < all && (double)most / (double)all < cat_max_ratio;
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    sr_region crop = draw_crop(canvas, call->rng);
    for (int i = 0; i < REDRAWS && o->cat_max_ratio < 1 && sr_canvas_has_mask(canvas); i++) {
        int64_t count[256];
        SR_TRY(sr_canvas_count_mask(canvas, &crop, count));
        if (is_varied(count, o->cat_max_ratio))
            break;
        crop = draw_crop(canvas, call->rng);
    }
    sr_padding padding = {.width = sr_canvas_target_width(canvas),
                          .height = sr_canvas_target_height(canvas)};
    SR_TRY(sr_canvas_crop(canvas, &crop)); // no more than that is decoded
    sr_color_bytes(&o->fill, padding.color);
    return sr_canvas_pad(canvas, &padding);
}

const sr_transform sr_transform_random_crop = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "random_crop",
    .help = "crop the image size at random; smaller pictures are padded",
    .options = {.name = "random_crop",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .check = check,
    .apply = apply,
    .moves = true,
};
