// SPDX-License-Identifier: Apache-2.0
// Pad on all sides, then a random crop of the image size: the usual CIFAR augmentation (pad 4), and
// with a small reflected pad the random translation of airbench (Jordan, 2024).
#include <string.h>

#include "dataio/transform.h"

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
     .help = "what is added: black, or the picture mirrored at its border",
     .type = SR_OPT_ENUM,
     .offset = offsetof(options, mode),
     .default_text = "zero",
     .choices = modes},
};

// Mirrors an index into [0, n) without repeating the border (as numpy's "reflect").
static int64_t reflect(int64_t i, int64_t n) {
    int64_t period = n > 1 ? 2 * (n - 1) : 1;
    i %= period;
    if (i < 0)
        i += period;
    return i < n ? i : period - i;
}

// One output row: pixels x0 .. x0 + width of the endless mirrored or black-bordered input row.
static void fill_row(const uint8_t *from, int64_t w, int64_t x0, int64_t width, int mode,
                     uint8_t *to) {
    int64_t begin = x0 < 0 ? -x0 : 0, end = w - x0 < width ? w - x0 : width;
    begin = begin < width ? begin : width;
    end = end > begin ? end : begin;
    for (int64_t x = 0; x < begin; x++)
        memcpy(to + 3 * x, from + 3 * reflect(x0 + x, w), 3);
    memcpy(to + 3 * begin, from + 3 * (x0 + begin < w ? x0 + begin : 0), (size_t)(end - begin) * 3);
    for (int64_t x = end; x < width; x++)
        memcpy(to + 3 * x, from + 3 * reflect(x0 + x, w), 3);
    if (mode == PAD_ZERO) {
        memset(to, 0, (size_t)begin * 3);
        memset(to + 3 * end, 0, (size_t)(width - end) * 3);
    }
}

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
    const uint8_t *from;
    uint8_t *to;
    SR_TRY(sr_canvas_replace(canvas, tw, th, -x0, -y0, &from, &to));
    for (int64_t y = 0; y < th; y++, to += 3 * tw) {
        int64_t row = y0 + y;
        if ((row < 0 || row >= h) && o->mode == PAD_ZERO)
            memset(to, 0, (size_t)tw * 3);
        else
            fill_row(from + 3 * w * reflect(row, h), w, x0, tw, o->mode, to);
    }
    return SR_OK;
}

const sr_transform sr_transform_pad_crop = {
    .struct_size = sizeof(sr_transform),
    .abi = SR_TRANSFORM_ABI,
    .name = "pad_crop",
    .help = "pad on all sides, then a random crop of the image size",
    .options = {.name = "pad_crop",
                .options = rows,
                .count = sizeof rows / sizeof rows[0],
                .struct_size = sizeof(options)},
    .apply = apply,
};
