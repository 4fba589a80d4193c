// SPDX-License-Identifier: Apache-2.0
// Shared parts of transforms' option tables: checks of lists, colours, the style of warps, and
// probabilities.
#ifndef SR_DATAIO_TRANSFORM_OPTIONS_H
#define SR_DATAIO_TRANSFORM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "dataio/image/affine.h"
#include "dataio/transforms/transform.h"

// Names of the ways to warp, for option tables; the index is sr_warp_style.bilinear.
extern const char *const sr_warp_filter_names[];

// SR_E_USAGE unless the list is [low, high] with low <= high; the option's row has the bounds.
// 'transform' and 'option' are for the message.
SR_NODISCARD sr_status sr_check_range(const char *transform, const char *option,
                                      const sr_float_list *list);
// SR_E_USAGE unless the list has three values, red, green and blue (SR_ROW_FILL has their bounds).
SR_NODISCARD sr_status sr_check_color(const char *transform, const char *option,
                                      const sr_int_list *list);
// Converts a checked colour to bytes.
void sr_color_bytes(const sr_int_list *list, uint8_t out[3]);
sr_warp_style sr_warp_style_of(int filter, const sr_int_list *fill);
// A random number in a range [low, high].
double sr_draw_range(sr_rng *rng, const sr_float_list *list);
// Whether a transform with this probability is applied. Always draws once.
bool sr_draw_chance(sr_rng *rng, double probability);

// The largest size with the picture's aspect ratio that fits into the given one; at least one
// pixel.
void sr_fit_inside(int64_t width, int64_t height, int64_t most_width, int64_t most_height,
                   int64_t *out_width, int64_t *out_height);

// Rows that several tables share. 'options_type' is the options struct, which has these fields:
#define SR_ROW_PROBABILITY(options_type, usual, text)                                              \
    {                                                                                              \
        .name = "probability", .help = text, .type = SR_OPT_FLOAT,                                 \
        .offset = offsetof(options_type, probability), .default_text = usual, .min = 0, .max = 1   \
    }
#define SR_ROW_FILL(options_type, usual, text)                                                     \
    {                                                                                              \
        .name = "fill", .help = text, .type = SR_OPT_INTS, .offset = offsetof(options_type, fill), \
        .default_text = usual, .max = 255                                                          \
    }
#define SR_ROW_WARP_FILTER(options_type, usual)                                                    \
    {                                                                                              \
        .name = "filter", .help = "interpolation", .type = SR_OPT_ENUM,                            \
        .offset = offsetof(options_type, filter), .default_text = usual,                           \
        .choices = sr_warp_filter_names                                                            \
    }

#define SR_ROW_RESIZE_FILTER(options_type)                                                         \
    {                                                                                              \
        .name = "filter",                                                                          \
        .help =                                                                                    \
            "bilinear and bicubic are antialiased; fast interpolates between the nearest pixels",  \
        .type = SR_OPT_ENUM, .offset = offsetof(options_type, filter), .default_text = "bilinear", \
        .choices = sr_resize_filter_names                                                          \
    }
#define SR_ROW_EXACT(options_type)                                                                 \
    {                                                                                              \
        .name = "exact", .help = "decode at full size even where a scaled decode would be enough", \
        .type = SR_OPT_BOOL, .offset = offsetof(options_type, exact), .default_text = "false"      \
    }

#endif
