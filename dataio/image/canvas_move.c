// SPDX-License-Identifier: Apache-2.0
// A canvas without pixels (sr_canvas_open_move): geometry alone, as a move of whole pixels.
//
// Before it is padded, what is shown lies inside the picture, so that no border is seen. Padding
// makes what is shown then the part that is continued, and from then on the part stays.
#include "dataio/image/canvas_internal.h"

_Static_assert((int)SR_BORDER_COLOR == SR_MOVE_COLOR && (int)SR_BORDER_EDGE == SR_MOVE_EDGE &&
                   (int)SR_BORDER_REFLECT == SR_MOVE_REFLECT,
               "a canvas and a move number borders alike");

void sr_canvas_get_move(const sr_canvas *canvas, sr_pixel_move *out) {
    *out = canvas->move;
}

static int32_t sign_of(const sr_pixel_move *m) {
    return sr_move_is_mirrored(m) ? -1 : 1;
}

void sr_canvas_move_crop(sr_canvas *canvas, const sr_region *region) {
    canvas->move.x0 += sign_of(&canvas->move) * (int32_t)region->x;
    canvas->move.y0 += (int32_t)region->y;
    canvas->width = region->width;
    canvas->height = region->height;
}

sr_status sr_canvas_move_pad(sr_canvas *canvas, const sr_padding *p) {
    sr_pixel_move *m = &canvas->move;
    if (p->x == 0 && p->y == 0 && p->width == canvas->width && p->height == canvas->height)
        return SR_OK;
    const int32_t last = sr_move_is_mirrored(m) ? (int32_t)canvas->width - 1 : 0;
    if (canvas->padded)
        return SR_FAIL(SR_E_UNSUPPORTED, "only one padding of a picture can move its pixels");
    canvas->padded = true;
    m->left = m->x0 - last;
    m->right = m->left + (int32_t)canvas->width;
    m->top = m->y0;
    m->bottom = m->top + (int32_t)canvas->height;
    m->look |= (uint32_t)p->border << 1 | (uint32_t)p->color[0] << 8 | (uint32_t)p->color[1] << 16 |
               (uint32_t)p->color[2] << 24;
    m->x0 -= sign_of(m) * (int32_t)p->x;
    m->y0 -= (int32_t)p->y;
    canvas->width = p->width;
    canvas->height = p->height;
    return SR_OK;
}

void sr_canvas_move_flip(sr_canvas *canvas) {
    canvas->move.x0 += sign_of(&canvas->move) * ((int32_t)canvas->width - 1);
    canvas->move.look ^= 1;
}
