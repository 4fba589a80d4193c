// SPDX-License-Identifier: Apache-2.0
// Where the pixels of a moved picture come from: flips, crops and padding, which copy whole pixels
// of a stored picture. For the kernel move_pixels of all kinds of devices, and for canvases
// (dataio/image/canvas.h), which find it.
#ifndef SR_KERNELS_BASE_PIXEL_MOVE_H
#define SR_KERNELS_BASE_PIXEL_MOVE_H

#include <stdbool.h>

#include "kernels/base/device_code.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_MOVE_NUMBERS 8 // of an sr_pixel_move

// What is outside of the part that a move shows.
enum { SR_MOVE_COLOR, SR_MOVE_EDGE, SR_MOVE_REFLECT };

// A moved picture: pixel (x, y) of it is pixel (x0 +- x, y0 + y) of a stored one, minus if it is
// mirrored. Outside of [left, right) x [top, bottom), which is inside that picture, it is the
// border: 'color', the nearest pixel, or the part reflected without repeating its edge.
typedef struct sr_pixel_move {
    int32_t picture;
    int32_t x0, y0;
    int32_t left, top, right, bottom;
    uint32_t look; // bit 0: mirrored; bits 1 and 2: SR_MOVE_COLOR ...; then the bytes of the color
} sr_pixel_move;

// The fields of 'look'.
SR_DEVICE_INLINE bool sr_move_is_mirrored(const sr_pixel_move *m) {
    return (m->look & 1) != 0;
}
SR_DEVICE_INLINE int sr_move_border(const sr_pixel_move *m) {
    return (int)(m->look >> 1 & 3);
}
SR_DEVICE_INLINE uint8_t sr_move_color(const sr_pixel_move *m, int channel) {
    return (uint8_t)(m->look >> (8 + 8 * channel));
}

// Whether it shows one of 'pictures' pictures [height, width]: others are black.
SR_DEVICE_INLINE bool sr_move_is_valid(const sr_pixel_move *m, int64_t pictures, int64_t height,
                                       int64_t width) {
    return m->picture >= 0 && m->picture < pictures && m->left >= 0 && m->left < m->right &&
           m->right <= width && m->top >= 0 && m->top < m->bottom && m->bottom <= height;
}

// The place of position i, in [begin, end); -1: none (the color).
SR_DEVICE_INLINE int64_t sr_move_place(int64_t i, int64_t begin, int64_t end, int border) {
    const int64_t n = end - begin, period = n > 1 ? 2 * (n - 1) : 1;
    if (i >= begin && i < end)
        return i;
    if (border == SR_MOVE_COLOR)
        return -1;
    if (border == SR_MOVE_EDGE)
        return i < begin ? begin : end - 1;
    i = ((i - begin) % period + period) % period;
    return begin + (i < n ? i : period - i);
}

// The row of the stored picture that row y shows; -1: none.
SR_DEVICE_INLINE int64_t sr_move_row(const sr_pixel_move *m, int64_t y) {
    return sr_move_place(m->y0 + y, m->top, m->bottom, sr_move_border(m));
}
// The same for column x.
SR_DEVICE_INLINE int64_t sr_move_column(const sr_pixel_move *m, int64_t x) {
    return sr_move_place(sr_move_is_mirrored(m) ? m->x0 - x : m->x0 + x, m->left, m->right,
                         sr_move_border(m));
}

#ifdef __cplusplus
}
#endif
#endif
