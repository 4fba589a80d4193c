// SPDX-License-Identifier: Apache-2.0
// The side of a step's pictures (image_growth.h).
#include "dataio/pipeline/image_growth.h"

#include <math.h>

int64_t sr_image_side_count(const sr_image_growth *growth, int64_t image) {
    return growth->from > 0 && growth->step > 0 ? (image - growth->from) / growth->step + 1 : 1;
}

int64_t sr_image_side_at(const sr_image_growth *growth, int64_t image, int64_t position) {
    const int64_t steps = sr_image_side_count(growth, image) - 1;
    if (steps < 1 || position >= growth->end)
        return image;
    const double length = (double)(growth->end - growth->begin);
    const double done = (double)(position - growth->begin) / length;
    const int64_t grown = done > 0 ? (int64_t)floor(done * (double)steps + 0.5) : 0;
    return growth->from + grown * growth->step;
}
