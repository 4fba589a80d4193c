// SPDX-License-Identifier: Apache-2.0
// upfirdn2d, for the kernels of all kinds of devices: which pixels and taps of the filter
// contribute to a pixel of the result.
#ifndef SR_KERNELS_UPFIRDN_H
#define SR_KERNELS_UPFIRDN_H

#include "kernels/base/device_code.h"
#include "kernels/kernel_params.h"

// Pixels first .. first + count - 1 of a side of x, with taps tap, tap + up, ...
typedef struct sr_upfirdn_span {
    int64_t first, count, tap;
} sr_upfirdn_span;

// The span of a filter of 'taps' taps that begins at position 'at' of the upsampled x, in which up
// - 1 zeros follow each of 'size' pixels.
SR_DEVICE_INLINE sr_upfirdn_span sr_upfirdn_span_of(int64_t at, int64_t taps, int64_t up,
                                                    int64_t size) {
    sr_upfirdn_span s;
    const int64_t end = at + taps; // below it
    s.first = at > 0 ? (at + up - 1) / up : 0;
    const int64_t last = end > 0 ? (end + up - 1) / up : 0; // exclusive, too
    s.count = (last < size ? last : size) - s.first;
    s.tap = s.first * up - at;
    if (s.count < 0)
        s.count = 0;
    return s;
}

// Maximum number of pixels of such a span.
static inline int64_t sr_upfirdn_most(int64_t taps, int64_t up, int64_t size) {
    const int64_t most = (taps + up - 1) / up;
    return most < size ? most : size;
}

// The element of the filter at tap (i, k).
SR_DEVICE_INLINE int64_t sr_upfirdn_tap(const sr_upfirdn_params *p, int64_t i, int64_t k) {
    return p->flip ? (p->r - 1 - i) * p->s + p->s - 1 - k : i * p->s + k;
}

#endif
