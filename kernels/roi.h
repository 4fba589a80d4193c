// SPDX-License-Identifier: Apache-2.0
// roi_align, for the kernels of all kinds of devices: which pixels of x contribute to a bin of a
// box, and with what weights (He et al., "Mask R-CNN", 2017).
//
// The rules are those of torchvision.ops.roi_align. A side of a box is divided into p bins of equal
// length, and a bin has 'count' equally spaced samples. A sample lies between two pixels of x and
// interpolates between them; up to one pixel beyond the border it takes the outermost pixel, and
// farther away it is zero. Along one side, the weight of a pixel in a bin is the sum over the
// samples; the weight in the picture is the product of the weights of both sides, divided by the
// number of samples. Everything is computed in f64, with the same bits on all devices.
#ifndef SR_KERNELS_ROI_H
#define SR_KERNELS_ROI_H

#include "kernels/base/device_code.h"
#include "kernels/kernel_params.h"

#define SR_ROI_SAMPLES 32767 // maximum along a side of a bin

// A side of a box.
typedef struct sr_roi_side {
    double start, bin;   // in pixels of x: start of the bins, and length of each
    int64_t size;        // pixels of x
    int32_t count;       // samples of a bin
    int32_t first, last; // pixels of x that may be part of the box
} sr_roi_side;

// A box.
typedef struct sr_roi_box {
    sr_roi_side high, wide;
    double share;         // weight of a sample in its bin; NaN: the box is not finite
    int32_t image, valid; // valid is 0 if x has no picture with this number
} sr_roi_box;

// The position of sample i of a bin, clamped to the picture.
SR_DEVICE_INLINE double sr_roi_position(const sr_roi_side *s, int64_t bin, int32_t i) {
    return s->start + ((double)bin + ((double)i + 0.5) / (double)s->count) * s->bin;
}

SR_DEVICE_INLINE double sr_roi_clamped(const sr_roi_side *s, double at) {
    const double last = (double)(s->size - 1);
    return at < 0 ? 0 : at > last ? last : at;
}

// The first and last pixel that samples between two positions may use.
SR_DEVICE_INLINE int32_t sr_roi_first(const sr_roi_side *s, double a, double b) {
    return (int32_t)sr_roi_clamped(s, a < b ? a : b);
}

SR_DEVICE_INLINE int32_t sr_roi_last(const sr_roi_side *s, double a, double b) {
    const int32_t before = (int32_t)sr_roi_clamped(s, a < b ? b : a);
    return before + (before + 1 < s->size);
}

SR_DEVICE_INLINE sr_roi_side sr_roi_side_of(const sr_roi_params *p, double begin, double end,
                                            int64_t bins, int64_t size) {
    sr_roi_side s;
    const double shift = p->aligned ? 0.5 : 0;
    const double length = (end * p->scale - shift) - (begin * p->scale - shift);
    s.start = begin * p->scale - shift;
    s.size = size;
    s.bin = (!p->aligned && length < 1 ? 1 : length) / (double)bins;
    s.count = p->samples;
    if (p->samples == 0) {
        const double most = s.bin > 0 ? s.bin < SR_ROI_SAMPLES ? s.bin : SR_ROI_SAMPLES : 0;
        s.count = (int32_t)most;
        s.count += (double)s.count < most;
    }
    s.first = 0;
    s.last = -1;
    if (s.count > 0 && s.start - s.start == 0 && s.bin - s.bin == 0) {
        const double a = sr_roi_position(&s, 0, 0), b = sr_roi_position(&s, bins - 1, s.count - 1);
        s.first = sr_roi_first(&s, a, b);
        s.last = sr_roi_last(&s, a, b);
    }
    return s;
}

// box: left, top, right, bottom.
SR_DEVICE_INLINE sr_roi_box sr_roi_box_of(const sr_roi_params *p, const double box[4],
                                          int32_t image) {
    sr_roi_box b;
    b.high = sr_roi_side_of(p, box[1], box[3], p->p, p->h);
    b.wide = sr_roi_side_of(p, box[0], box[2], p->q, p->w);
    const double samples = (double)b.high.count * (double)b.wide.count;
    const double unsure = (b.high.start - b.high.start) + (b.high.bin - b.high.bin) +
                          (b.wide.start - b.wide.start) + (b.wide.bin - b.wide.bin);
    b.share = unsure + 1 / (samples > 1 ? samples : 1);
    b.image = image;
    b.valid = image >= 0 && image < p->n;
    return b;
}

// The weight of a pixel in a bin.
SR_DEVICE_INLINE double sr_roi_weight(const sr_roi_side *s, int64_t bin, int64_t pixel) {
    double sum = 0;
    for (int32_t i = 0; i < s->count; i++) {
        const double at = sr_roi_position(s, bin, i);
        if (!(at >= -1 && at <= (double)s->size))
            continue;
        const double away = sr_roi_clamped(s, at) - (double)pixel;
        const double distance = away < 0 ? -away : away;
        sum += distance < 1 ? 1 - distance : 0;
    }
    return sum;
}

// The pixels that may be part of a bin: first .. last; empty if the box has none.
typedef struct sr_roi_span {
    int32_t first, last;
} sr_roi_span;

SR_DEVICE_INLINE sr_roi_span sr_roi_span_of(const sr_roi_side *s, int64_t bin) {
    sr_roi_span span;
    span.first = s->first;
    span.last = s->last;
    if (s->last >= s->first) {
        const double a = sr_roi_position(s, bin, 0), b = sr_roi_position(s, bin, s->count - 1);
        span.first = sr_roi_first(s, a, b);
        span.last = sr_roi_last(s, a, b);
    }
    return span;
}

#endif
