// SPDX-License-Identifier: Apache-2.0
// taps2d, for the kernels of all kinds of devices: the pixels near a point of a picture, and their
// weights, or derivatives of the weights with respect to the point.
//
// A point is mapped to a position in pixels, separately for each side: shift + scale point + an
// offset that depends on the point's index (kernel_params.h). Nearest takes the nearest pixel, or
// the even one of two that are equally near; linear takes the two and cubic the four pixels around
// it (Keys 1981, a = -0.75). Pixels beyond the border are zero, replaced by the outermost pixel, or
// reflected: about the centre of the outermost pixel with 'corners', else about its edge. This is
// torch.nn.functional.grid_sample. Everything is computed in f64, with the same bits on all
// devices.
#ifndef SR_KERNELS_TAPS_H
#define SR_KERNELS_TAPS_H

#include "kernels/base/device_code.h"
#include "kernels/kernel_params.h"

#define SR_TAPS_FARTHEST 1073741824.0 // positions are clamped to this

// A position between pixels: tap k is pixel first + k.
typedef struct sr_taps_place {
    int64_t first;
    double at; // offset from the pixel before it, 0 <= at < 1; NaN if the point is NaN
} sr_taps_place;

SR_DEVICE_INLINE sr_taps_place sr_taps_place_of(int32_t filter, double position) {
    sr_taps_place p;
    const double far = position > SR_TAPS_FARTHEST    ? SR_TAPS_FARTHEST
                       : position < -SR_TAPS_FARTHEST ? -SR_TAPS_FARTHEST
                                                      : position;
    p.first = 0;
    p.at = far;
    if (far != far)
        return p;
    p.first = (int64_t)far;
    p.first -= (double)p.first > far;
    p.at = far - (double)p.first;
    if (filter == SR_FILTER_NEAREST) {
        p.first += p.at > 0.5 || (p.at == 0.5 && p.first % 2 != 0);
        p.at = 0;
    }
    p.first -= filter == SR_FILTER_CUBIC;
    return p;
}

// The derivative of the given order of c3 x^3 + c2 x^2 + c1 x + c0.
SR_DEVICE_INLINE double sr_taps_polynomial(double c3, double c2, double c1, double c0, double x,
                                           int32_t order) {
    if (order == 0)
        return ((c3 * x + c2) * x + c1) * x + c0;
    if (order == 1)
        return (3 * c3 * x + 2 * c2) * x + c1;
    if (order == 2)
        return 6 * c3 * x + 2 * c2;
    return order == 3 ? 6 * c3 : 0;
}

SR_DEVICE_INLINE double sr_taps_cubic(int k, double at, int32_t order) {
    const double a = -0.75;
    const int inside = k == 1 || k == 2;
    const double x = k == 0 ? at + 1 : k == 1 ? at : k == 2 ? 1 - at : 2 - at;
    const double value = inside ? sr_taps_polynomial(a + 2, -(a + 3), 0, 1, x, order)
                                : sr_taps_polynomial(a, -5 * a, 8 * a, -4 * a, x, order);
    return k >= 2 && order % 2 != 0 ? -value : value; // the distance decreases as x grows
}

// The derivative of the given order of the weight of tap k.
SR_DEVICE_INLINE double sr_taps_weight(int32_t filter, const sr_taps_place *p, int k,
                                       int32_t order) {
    const double at = p->at;
    if (at != at)
        return at;
    if (filter == SR_FILTER_CUBIC)
        return sr_taps_cubic(k, at, order);
    if (filter == SR_FILTER_NEAREST || order > 1)
        return order == 0;
    return order == 1 ? (k == 0 ? -1 : 1) : (k == 0 ? 1 - at : at);
}

// The pixel of a picture that is read as pixel i; -1: none.
SR_DEVICE_INLINE int64_t sr_taps_pixel(int32_t border, int32_t corners, int64_t size, int64_t i) {
    if (i >= 0 && i < size)
        return i;
    if (border == SR_TAPS_ZERO)
        return -1;
    if (border == SR_TAPS_REPLICATE)
        return i < 0 ? 0 : size - 1;
    if (corners && size == 1)
        return 0;
    const int64_t period = corners ? 2 * (size - 1) : 2 * size;
    const int64_t rest = i % period, within = rest < 0 ? rest + period : rest;
    return within < size ? within : period - within - !corners;
}

// The position of point number j, [p,q,r,s], of a picture before its own coordinates are added.
SR_DEVICE_INLINE void sr_taps_base(const sr_taps_params *p, int64_t j, double *high, double *wide) {
    const int64_t window = p->r * p->s, pixel = j / window, tap = j % window;
    *high = p->shift_h + (double)(pixel / p->q) * p->step_h + (double)(tap / p->s) * p->gap_h;
    *wide = p->shift_w + (double)(pixel % p->q) * p->step_w + (double)(tap % p->s) * p->gap_w;
}

// The places of a point with the coordinates 'first' and 'second'.
SR_DEVICE_INLINE void sr_taps_places(const sr_taps_params *p, int64_t j, double first,
                                     double second, sr_taps_place *high, sr_taps_place *wide) {
    double base_h, base_w;
    sr_taps_base(p, j, &base_h, &base_w);
    const double y = p->x_first ? second : first, x = p->x_first ? first : second;
    *high = sr_taps_place_of(p->filter, base_h + p->scale_h * y);
    *wide = sr_taps_place_of(p->filter, base_w + p->scale_w * x);
}

// The pixel that tap t of a point reads, or -1 if it lies outside the picture.
SR_DEVICE_INLINE int32_t sr_taps_index(const sr_taps_params *p, const sr_taps_place *high,
                                       const sr_taps_place *wide, int32_t t) {
    const int32_t side = sr_taps_side(p->filter);
    const int64_t y = sr_taps_pixel(p->border, p->corners, p->h, high->first + t / side);
    const int64_t x = sr_taps_pixel(p->border, p->corners, p->w, wide->first + t % side);
    return y < 0 || x < 0 ? -1 : (int32_t)(y * p->w + x);
}

SR_DEVICE_INLINE double sr_taps_product(const sr_taps_params *p, const sr_taps_place *high,
                                        const sr_taps_place *wide, int32_t t) {
    const int32_t side = sr_taps_side(p->filter);
    return sr_taps_weight(p->filter, high, t / side, p->order_h) *
           sr_taps_weight(p->filter, wide, t % side, p->order_w);
}

#endif
