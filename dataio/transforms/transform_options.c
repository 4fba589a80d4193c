// SPDX-License-Identifier: Apache-2.0
// Checks and random draws that several transforms share (transform_options.h).
#include "dataio/transforms/transform_options.h"

const char *const sr_warp_filter_names[] = {"nearest", "bilinear", NULL};

sr_status sr_check_range(const char *transform, const char *option, const sr_float_list *list) {
    if (list->count == 2 && list->items[0] <= list->items[1])
        return SR_OK;
    return SR_FAIL(SR_E_USAGE, "%s: %s takes two values, [low, high] with low <= high", transform,
                   option);
}

sr_status sr_check_color(const char *transform, const char *option, const sr_int_list *list) {
    if (list->count != 3)
        return SR_FAIL(SR_E_USAGE, "%s: %s takes three values (red, green, blue), got %zu",
                       transform, option, list->count);
    return SR_OK;
}

void sr_color_bytes(const sr_int_list *list, uint8_t out[3]) {
    for (int c = 0; c < 3; c++)
        out[c] = (uint8_t)list->items[c];
}

sr_warp_style sr_warp_style_of(int filter, const sr_int_list *fill) {
    sr_warp_style style = {.bilinear = filter != 0};
    sr_color_bytes(fill, style.color);
    return style;
}

double sr_draw_range(sr_rng *rng, const sr_float_list *list) {
    return sr_rng_uniform(rng, list->items[0], list->items[1]);
}

bool sr_draw_chance(sr_rng *rng, double probability) {
    return sr_rng_uniform(rng, 0, 1) < probability;
}

void sr_fit_inside(int64_t width, int64_t height, int64_t most_width, int64_t most_height,
                   int64_t *out_width, int64_t *out_height) {
    // The side that limits the size, compared without division.
    const bool wide = width * most_height >= height * most_width;
    int64_t w = wide ? most_width : (width * most_height + height / 2) / height;
    int64_t h = wide ? (height * most_width + width / 2) / width : most_height;
    *out_width = w > 1 ? w : 1;
    *out_height = h > 1 ? h : 1;
}
