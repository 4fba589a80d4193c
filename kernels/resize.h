// SPDX-License-Identifier: Apache-2.0
// resize2d, for the kernels of all kinds of devices: which pixels of x contribute to a pixel of y,
// and with what weights. Height and width are resized separately; the weight of a pixel is the
// product of both weights.
//
// The rules are those of torch.nn.functional.interpolate. Pixel i of y lies at i step in x with
// 'corners', else at (i + 1/2) step - 1/2. Without antialiasing, linear takes the two and cubic the
// four nearest pixels of x (Keys 1981, a = -0.75). With antialiasing, the filter is widened by the
// factor by which the picture shrinks, its weights are divided by their sum, and a is -0.5, as in
// Pillow. Nearest takes pixel floor(i step), nearest exact floor((i + 1/2) step), both computed in
// f32 as in torch; area takes the mean of pixels floor(i in / out) to ceil((i + 1) in / out) - 1.
// Beyond its border x repeats the outermost pixel. Everything else is computed in f64, with the
// same bits on all devices.
//
// The gradient is resize2d with the transposed weights: a pixel of x gets contributions from all
// pixels of y that it contributes to.
#ifndef SR_KERNELS_RESIZE_H
#define SR_KERNELS_RESIZE_H

#include "kernels/base/device_code.h"
#include "kernels/kernel_params.h"

// One side (height or width) of the pictures x and y.
typedef struct sr_resize_side {
    int64_t in, out;
    double step; // distance in x between neighbouring pixels of y
    int32_t filter, corners, antialias;
    int32_t
        transposed; // positions are those of x, and the pixels they are computed from those of y
} sr_resize_side;

static inline sr_resize_side sr_resize_side_of(const sr_resize_params *p, int wide,
                                               int transposed) {
    sr_resize_side side;
    side.in = wide ? p->w : p->h;
    side.out = wide ? p->q : p->p;
    side.step = wide ? p->step_w : p->step_h;
    side.filter = p->filter;
    side.corners = p->corners;
    side.antialias = p->antialias;
    side.transposed = transposed;
    return side;
}

// Number of positions along a side.
static inline int64_t sr_resize_positions(const sr_resize_side *s) {
    return s->transposed ? s->in : s->out;
}

// An upper bound of the number of pixels that contribute to one position. The window of a pixel of
// y has at most 'most' pixels, and neighbouring windows begin 'step' pixels apart, except for
// rounding.
static inline int64_t sr_resize_most(const sr_resize_side *s) {
    const double wider = s->antialias && s->step > 1 ? s->step : 1;
    const double most = s->filter == SR_FILTER_AREA     ? (double)s->in / (double)s->out + 2
                        : s->filter == SR_FILTER_LINEAR ? 2 * wider + 2
                        : s->filter == SR_FILTER_CUBIC  ? 4 * wider + 2
                                                        : 1;
    const double pixels = s->transposed ? (most + 2) / s->step + 3 : most;
    const int64_t limit = s->transposed ? s->out : s->in;
    return pixels < (double)limit ? (int64_t)pixels : limit;
}

// The window of a pixel of y: pixels first .. first + count - 1 of x, or of its border.
typedef struct sr_resize_window {
    int64_t first, count;
    double at; // antialiasing: centre of the filter; else distance from the pixel before
} sr_resize_window;

SR_DEVICE_INLINE int64_t sr_resize_within(const sr_resize_side *s, int64_t at) {
    return at < 0 ? 0 : at < s->in ? at : s->in - 1;
}

SR_DEVICE_INLINE sr_resize_window sr_resize_window_of(const sr_resize_side *s, int64_t out) {
    sr_resize_window w;
    const double half = s->corners ? 0 : 0.5, at = s->step * ((double)out + half) - half;
    const double support = (s->filter == SR_FILTER_LINEAR ? 1 : 2) * (s->step > 1 ? s->step : 1);
    w.count = 1;
    w.at = 0;
    if (s->filter == SR_FILTER_NEAREST) {
        w.first = sr_resize_within(s, (int64_t)((float)out * (float)s->step));
    } else if (s->filter == SR_FILTER_NEAREST_EXACT) {
        w.first = sr_resize_within(s, (int64_t)(((float)out + 0.5f) * (float)s->step));
    } else if (s->filter == SR_FILTER_AREA) {
        w.first = out * s->in / s->out;
        w.count = ((out + 1) * s->in + s->out - 1) / s->out - w.first;
    } else if (s->antialias) {
        w.at = s->step * ((double)out + 0.5);
        w.first = sr_resize_within(s, (int64_t)(w.at - support + 0.5));
        w.count = sr_resize_within(s, (int64_t)(w.at + support + 0.5) - 1) - w.first + 1;
    } else if (s->filter == SR_FILTER_LINEAR) {
        const double inside = at < 0 ? 0 : at;
        w.first = sr_resize_within(s, (int64_t)inside);
        w.count = 2;
        w.at = inside - (double)w.first < 1 ? inside - (double)w.first : 1;
    } else {
        const int64_t whole = (int64_t)at, before = (double)whole > at ? whole - 1 : whole;
        w.first = before - 1;
        w.count = 4;
        w.at = at - (double)before;
    }
    return w;
}

// The cubic filter at a distance (Keys, "Cubic convolution interpolation for digital image
// processing", 1981).
SR_DEVICE_INLINE double sr_resize_cubic(double x, double a) {
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// The weight of pixel k of a window, not yet divided by the sum of all weights.
SR_DEVICE_INLINE double sr_resize_tap(const sr_resize_side *s, const sr_resize_window *w,
                                      int64_t k) {
    if (s->filter != SR_FILTER_LINEAR && s->filter != SR_FILTER_CUBIC)
        return 1;
    const double wider = s->antialias && s->step > 1 ? s->step : 1;
    const double before = s->antialias                   ? (double)(w->first + k) + 0.5 - w->at
                          : s->filter == SR_FILTER_CUBIC ? (double)(k - 1) - w->at
                                                         : (double)k - w->at;
    const double distance = (before < 0 ? -before : before) / wider;
    if (s->filter == SR_FILTER_LINEAR)
        return distance < 1 ? 1 - distance : 0;
    return sr_resize_cubic(distance, s->antialias ? -0.5 : -0.75);
}

// The sum by which the weights of a window are divided.
SR_DEVICE_INLINE double sr_resize_total(const sr_resize_side *s, const sr_resize_window *w) {
    double total = 0;
    if (!s->antialias)
        return s->filter == SR_FILTER_AREA ? (double)w->count : 1;
    for (int64_t k = 0; k < w->count; k++)
        total += sr_resize_tap(s, w, k);
    return total;
}

// The first pixel of y whose window ends at or after pixel 'in' of x; with 'after', whose window
// begins after it. Windows are in the order of the pixels.
SR_DEVICE_INLINE int64_t sr_resize_search(const sr_resize_side *s, int64_t in, int after) {
    int64_t low = 0, high = s->out;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        const sr_resize_window w = sr_resize_window_of(s, middle);
        const int64_t edge = sr_resize_within(s, after ? w.first : w.first + w.count - 1);
        if (after ? edge > in : edge >= in)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// The pixels that contribute to a position of a side: first .. first + count - 1.
typedef struct sr_resize_span {
    int32_t first, count;
} sr_resize_span;

SR_DEVICE_INLINE sr_resize_span sr_resize_span_of(const sr_resize_side *s, int64_t position) {
    sr_resize_span span;
    if (s->transposed) {
        span.first = (int32_t)sr_resize_search(s, position, 0);
        span.count = (int32_t)sr_resize_search(s, position, 1) - span.first;
    } else {
        const sr_resize_window w = sr_resize_window_of(s, position);
        span.first = (int32_t)sr_resize_within(s, w.first);
        span.count = (int32_t)sr_resize_within(s, w.first + w.count - 1) - span.first + 1;
    }
    return span;
}

// A window with the sum of its weights. 'out' is negative before the first use.
typedef struct sr_resize_pixel {
    int64_t out;
    sr_resize_window window;
    double total;
} sr_resize_pixel;

// The weight of the pixel 'other' of the span of a position: its weight in the window, plus, for an
// outermost pixel, the weights of the pixels beyond the border. 'of' caches the last window.
SR_DEVICE_INLINE double sr_resize_weight(const sr_resize_side *s, int64_t position, int64_t other,
                                         sr_resize_pixel *of) {
    const int64_t out = s->transposed ? other : position, in = s->transposed ? position : other;
    if (of->out != out) {
        of->out = out;
        of->window = sr_resize_window_of(s, out);
        of->total = sr_resize_total(s, &of->window);
    }
    const sr_resize_window *w = &of->window;
    const int64_t begin = in == 0 ? w->first : in;
    const int64_t end = in == s->in - 1 ? w->first + w->count - 1 : in;
    double sum = 0;
    for (int64_t at = begin; at <= end; at++)
        sum += sr_resize_tap(s, w, at - w->first);
    return sum / of->total;
}

// The span of a position and its weights, of which there is room for sr_resize_most.
SR_DEVICE_INLINE sr_resize_span sr_resize_weights_of(const sr_resize_side *s, int64_t position,
                                                     sr_resize_pixel *of, double *weight) {
    const sr_resize_span span = sr_resize_span_of(s, position);
    for (int32_t k = 0; k < span.count; k++)
        weight[k] = sr_resize_weight(s, position, span.first + k, of);
    return span;
}

#endif
