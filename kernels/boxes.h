// SPDX-License-Identifier: Apache-2.0
// Boxes (left, top, right, bottom) for the kernels of all kinds of devices.
#ifndef SR_KERNELS_BOXES_H
#define SR_KERNELS_BOXES_H

#include "kernels/base/device_code.h"

// Defines the overlap of two boxes: their intersection divided by their union (NaN where both are
// empty).
#define SR_BOXES_OVERLAP(name, A)                                                                  \
    SR_DEVICE_INLINE A name(const A a[4], const A b[4]) {                                          \
        const A left = a[0] > b[0] ? a[0] : b[0], right = a[2] < b[2] ? a[2] : b[2];               \
        const A top = a[1] > b[1] ? a[1] : b[1], bottom = a[3] < b[3] ? a[3] : b[3];               \
        const A wide = right > left ? right - left : 0, high = bottom > top ? bottom - top : 0;    \
        const A own = (a[2] - a[0]) * (a[3] - a[1]), other = (b[2] - b[0]) * (b[3] - b[1]);        \
        const A both = wide * high;                                                                \
        return both / (own + other - both);                                                        \
    }
SR_BOXES_OVERLAP(sr_boxes_overlap_f32, float)
SR_BOXES_OVERLAP(sr_boxes_overlap_f64, double)

#endif
