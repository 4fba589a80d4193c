// SPDX-License-Identifier: Apache-2.0
// Pads all sides, then crops the image size at random: the standard CIFAR augmentation (pad 4), and
// with a small reflected pad the random translation of airbench (Jordan, 2024).
#include "dataio/transforms/transform.h"

enum { PAD_ZERO, PAD_REFLECT };

typedef struct options {
    int64_t pad;
    int mode;
} options;

static const char *const modes[] = {"zero", "reflect", NULL};

static const sr_option rows[] = {
    {.name = "pad",
     .help = "pixels added on every side",
     .type = SR_OPT_INT,
     .offset = offsetof(options, pad),
     .default_text = "4",
     .min = 0,
     .max = 4096},
    {.name = "mode",
     .help = "content of the padding: black, or the picture mirrored at its border",
     .type = SR_OPT_ENUM,
     .offset = offsetof(options, mode),
     .default_text = "zero",
     .choices = modes},
};

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    const options *o = call->options;
    int64_t w = sr_canvas_width(canvas), h = sr_canvas_height(canvas);
    int64_t tw = sr_canvas_target_width(canvas), th = sr_canvas_target_height(canvas);
    int64_t free_x = w + 2 * o->pad - tw, free_y = h + 2 * o->pad - th;
    if (free_x < 0 || free_y < 0)
        return SR_FAIL(SR_E_SHAPE,
                       "pad_crop: a picture of %lld x %lld padded by %lld is smaller than the "
                       "image size %lld x %lld; resize first or raise pad",
                       (long long)w, (long long)h, (long long)o->pad, (long long)tw, (long long)th);
    int64_t y0 = (int64_t)sr_rng_below(call->rng, (uint32_t)free_y + 1) - o->pad;
    int64_t x0 = (int64_t)sr_rng_below(call->rng, (uint32_t)free_x + 1) - o->pad;
    return sr_canvas_pad(canvas, &(sr_padding){.width = tw,
                                               .height = th,
                                               .x = -x0,
                                               .y = -y0,
                                               .border = o->mode == PAD_REFLECT ? SR_BORDER_REFLECT
                                                                                : SR_BORDER_COLOR});
}

const sr_transform sr_transform_pad_crop = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "pad_crop",
    .help = "pad all sides, then crop the image size at random",
    .options = {.name = "pad_crop",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .apply = apply,
    .moves = true,
};
