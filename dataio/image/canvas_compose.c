// SPDX-License-Identifier: Apache-2.0
// Operations of a canvas that make new pixels at once: padding, pasting and affine warps. They
// apply to picture and mask alike, then to the boxes.
//
// Warps step through the new picture in fixed point with 32 fractional bits, so the pixels are the
// same on every processor; interpolation weights have 11 bits in each direction. Borders follow
// Pillow: a pixel whose centre maps outside the old picture gets the fill colour; others
// interpolate existing pixels only. Not for shrinking: nothing is averaged.
#include <math.h>
#include <string.h>

#include "dataio/image/canvas_internal.h"

#define FRACTION 32 // bits of a coordinate
#define MIX 11      // bits of a weight
#define MOST_COORDINATE 0x1p30

static const uint8_t ignore[1] = {SR_MASK_IGNORE};

static const uint8_t *color_of(int plane, const uint8_t *color) {
    return plane == SR_PLANE_PICTURE ? color : ignore;
}

static void fill(uint8_t *to, int64_t pixels, int channels, const uint8_t *color) {
    if (channels == 1 || (color[0] == color[1] && color[1] == color[2])) {
        memset(to, color[0], (size_t)(pixels * channels));
        return;
    }
    for (int64_t i = 0; i < pixels; i++, to += channels)
        memcpy(to, color, (size_t)channels);
}

// Writes pixels x to x + count of a row, all of which are outside it.
static void pad_border(const uint8_t *row, int64_t width, int64_t x, int64_t count, int channels,
                       sr_border border, const uint8_t *color, uint8_t *to) {
    if (border == SR_BORDER_COLOR) {
        fill(to, count, channels, color);
        return;
    }
    for (int64_t i = 0; i < count; i++, to += channels)
        memcpy(to, row + channels * sr_move_place(x + i, 0, width, (int)border), (size_t)channels);
}

static void pad_row(const uint8_t *row, int64_t width, const sr_padding *p, int channels,
                    const uint8_t *color, uint8_t *to) {
    const int64_t x0 = -p->x, x1 = p->width - p->x; // of the row
    const int64_t begin = x0 > width ? width : x0 > 0 ? x0 : 0;
    const int64_t end = x1 < begin ? begin : x1 < width ? x1 : width;
    const int64_t before = x0 < 0 ? (x1 < 0 ? x1 : 0) - x0 : 0;
    pad_border(row, width, x0, before, channels, p->border, color, to);
    to += channels * before;
    memcpy(to, row + channels * begin, (size_t)(channels * (end - begin)));
    to += channels * (end - begin);
    const int64_t rest = p->width - before - (end - begin);
    pad_border(row, width, x1 - rest, rest, channels, p->border, color, to);
}

static void pad_plane(const sr_canvas_step *step, const sr_padding *p, int plane, int channels) {
    const uint8_t *color = color_of(plane, p->color);
    uint8_t *to = step->to[plane];
    for (int64_t y = 0; y < p->height; y++, to += channels * p->width) {
        const int64_t row = sr_move_place(y - p->y, 0, step->height, (int)p->border);
        if (row < 0)
            fill(to, p->width, channels, color);
        else
            pad_row(step->from[plane] + channels * step->width * row, step->width, p, channels,
                    color, to);
    }
}

sr_status sr_canvas_pad(sr_canvas *canvas, const sr_padding *p) {
    SR_TRY(sr_canvas_check_size(p->width, p->height));
    if (canvas->moves)
        return sr_canvas_move_pad(canvas, p);
    if (p->x <= 0 && p->y <= 0 && p->x + canvas->width >= p->width &&
        p->y + canvas->height >= p->height)
        return sr_canvas_crop(canvas, &(sr_region){-p->x, -p->y, p->width, p->height});
    sr_canvas_step step;
    SR_TRY(sr_canvas_step_begin(canvas, p->width, p->height, &step));
    for (int i = 0; i < canvas->plane_count; i++)
        pad_plane(&step, p, i, canvas->planes[i].channels);
    sr_canvas_shift_boxes(canvas, (double)p->x, (double)p->y, p->width, p->height);
    return SR_OK;
}

// The overlap of two pictures in one dimension: its length, and its first pixel in each.
static int64_t common(int64_t side, int64_t other_side, int64_t at, int64_t *mine,
                      int64_t *theirs) {
    *mine = at > 0 ? at : 0;
    *theirs = at < 0 ? -at : 0;
    const int64_t left = side - *mine, right = other_side - *theirs;
    return left < right ? left : right;
}

static sr_status paste_boxes(sr_canvas *canvas, const sr_canvas *other, int64_t x, int64_t y) {
    const float dx = (float)x, dy = (float)y;
    for (int64_t i = 0; i < other->box_count; i++) {
        sr_box b = other->boxes[i];
        b.x1 += dx;
        b.x2 += dx;
        b.y1 += dy;
        b.y2 += dy;
        if (sr_canvas_cut_box(&b, canvas->width, canvas->height))
            SR_TRY(sr_canvas_add_box(canvas, &b));
    }
    return SR_OK;
}

sr_status sr_canvas_paste(sr_canvas *canvas, sr_canvas *other, int64_t x, int64_t y) {
    int64_t to_x, to_y, from_x, from_y;
    const int64_t width = common(canvas->width, other->width, x, &to_x, &from_x);
    const int64_t height = common(canvas->height, other->height, y, &to_y, &from_y);
    SR_TRY(sr_canvas_render(canvas, false));
    SR_TRY(sr_canvas_render(other, false));
    for (int i = 0; i < canvas->plane_count && i < other->plane_count && width > 0; i++) {
        sr_plane *mine = &canvas->planes[i];
        const sr_plane *theirs = &other->planes[i];
        for (int64_t row = 0; row < height; row++)
            memcpy(mine->pixels + mine->channels * ((to_y + row) * canvas->width + to_x),
                   theirs->pixels + mine->channels * ((from_y + row) * other->width + from_x),
                   (size_t)(mine->channels * width));
    }
    return paste_boxes(canvas, other, x, y);
}

sr_status sr_canvas_rewrite(sr_canvas *canvas, const uint8_t **from, uint8_t **to) {
    sr_canvas_step step;
    SR_TRY(sr_canvas_step_begin(canvas, canvas->width, canvas->height, &step));
    *from = step.from[SR_PLANE_PICTURE];
    *to = step.to[SR_PLANE_PICTURE];
    if (canvas->plane_count > SR_PLANE_MASK)
        memcpy(step.to[SR_PLANE_MASK], step.from[SR_PLANE_MASK],
               (size_t)(step.width * step.height));
    return SR_OK;
}

// -- warps -------------------------------------------------------------------------------------

// A row of the new picture: the position of its first pixel's centre in the old one, and the step
// to the next pixel's.
typedef struct walk {
    int64_t x, y, dx, dy;
} walk;

static int64_t fixed(double v) {
    return (int64_t)floor(v * 0x1p32 + 0.5);
}

// The plane of the old picture that a warp reads.
typedef struct source_plane {
    const uint8_t *data;
    int64_t width, height;
    const uint8_t *color;
} source_plane;

static bool is_inside(const source_plane *p, int64_t x, int64_t y) {
    return x >= 0 && y >= 0 && x >> FRACTION < p->width && y >> FRACTION < p->height;
}

// 'channels' is a compile-time constant.
static inline void nearest_row(const source_plane *p, walk w, int64_t count, int channels,
                               uint8_t *to) {
    for (int64_t i = 0; i < count; i++, w.x += w.dx, w.y += w.dy, to += channels) {
        const uint8_t *from = p->color;
        if (is_inside(p, w.x, w.y))
            from = p->data + channels * ((w.y >> FRACTION) * p->width + (w.x >> FRACTION));
        memcpy(to, from, (size_t)channels);
    }
}

// The two pixels whose centres surround position 'at', clamped to the picture, and the weight of
// the second.
static int mix_of(int64_t at, int64_t n, int64_t *first, int64_t *second) {
    at -= INT64_C(1) << (FRACTION - 1);
    const int64_t low = at >> FRACTION;
    *first = low < 0 ? 0 : low;
    *second = low + 1 < n ? low + 1 : n - 1;
    return (int)((at & ((INT64_C(1) << FRACTION) - 1)) >> (FRACTION - MIX));
}

static void bilinear_pixel(const source_plane *p, int64_t x, int64_t y, uint8_t *to) {
    const int one = 1 << MIX;
    int64_t x0, x1, y0, y1;
    const int wx = mix_of(x, p->width, &x0, &x1), wy = mix_of(y, p->height, &y0, &y1);
    const uint8_t *top = p->data + 3 * y0 * p->width, *bottom = p->data + 3 * y1 * p->width;
    for (int c = 0; c < 3; c++) {
        const int a = top[3 * x0 + c] * (one - wx) + top[3 * x1 + c] * wx;
        const int b = bottom[3 * x0 + c] * (one - wx) + bottom[3 * x1 + c] * wx;
        to[c] = (uint8_t)((a * (one - wy) + b * wy + (1 << (2 * MIX - 1))) >> (2 * MIX));
    }
}

static void bilinear_row(const source_plane *p, walk w, int64_t count, uint8_t *to) {
    for (int64_t i = 0; i < count; i++, w.x += w.dx, w.y += w.dy, to += 3) {
        if (is_inside(p, w.x, w.y))
            bilinear_pixel(p, w.x, w.y, to);
        else
            memcpy(to, p->color, 3);
    }
}

static void warp_plane(const sr_canvas_step *step, const sr_warp *warp, int plane) {
    const double *m = warp->inverse;
    const source_plane old = {.data = step->from[plane],
                              .width = step->width,
                              .height = step->height,
                              .color = color_of(plane, warp->color)};
    uint8_t *to = step->to[plane];
    for (int64_t i = 0; i < warp->height; i++) {
        const double y = (double)i + 0.5;
        const walk w = {.x = fixed(m[0] * 0.5 + m[1] * y + m[2]),
                        .y = fixed(m[3] * 0.5 + m[4] * y + m[5]),
                        .dx = fixed(m[0]),
                        .dy = fixed(m[3])};
        if (plane == SR_PLANE_MASK)
            nearest_row(&old, w, warp->width, 1, to);
        else if (warp->bilinear)
            bilinear_row(&old, w, warp->width, to);
        else
            nearest_row(&old, w, warp->width, 3, to);
        to += warp->width * (plane == SR_PLANE_MASK ? 1 : 3);
    }
}

// Maps a point of the old picture to the new one.
typedef struct forward {
    double a, b, c, d, x, y;
} forward;

static bool invert(const double m[6], forward *out) {
    const double determinant = m[0] * m[4] - m[1] * m[3];
    if (!(fabs(determinant) > 1e-12))
        return false;
    *out = (forward){
        m[4] / determinant, -m[1] / determinant, -m[3] / determinant, m[0] / determinant, 0, 0};
    out->x = -(out->a * m[2] + out->b * m[5]);
    out->y = -(out->c * m[2] + out->d * m[5]);
    return true;
}

static sr_box hull(const sr_box *b, const forward *f) {
    const double xs[2] = {(double)b->x1, (double)b->x2}, ys[2] = {(double)b->y1, (double)b->y2};
    double x1 = HUGE_VAL, y1 = HUGE_VAL, x2 = -HUGE_VAL, y2 = -HUGE_VAL;
    for (int i = 0; i < 4; i++) {
        const double px = xs[i % 2], py = ys[i / 2];
        const double x = f->a * px + f->b * py + f->x, y = f->c * px + f->d * py + f->y;
        x1 = x < x1 ? x : x1;
        x2 = x > x2 ? x : x2;
        y1 = y < y1 ? y : y1;
        y2 = y > y2 ? y : y2;
    }
    return (sr_box){(float)x1, (float)y1, (float)x2, (float)y2, b->class_number};
}

static void warp_boxes(sr_canvas *canvas, const forward *f) {
    int64_t kept = 0;
    for (int64_t i = 0; i < canvas->box_count; i++) {
        sr_box b = hull(&canvas->boxes[i], f);
        if (sr_canvas_cut_box(&b, canvas->width, canvas->height))
            canvas->boxes[kept++] = b;
    }
    canvas->box_count = kept;
}

// Whether the corners of the new picture map to coordinates within the range of fixed point.
static bool in_bounds(const sr_warp *warp) {
    const double *m = warp->inverse, w = (double)warp->width, h = (double)warp->height;
    const double x = fabs(m[0]) * w + fabs(m[1]) * h + fabs(m[2]);
    const double y = fabs(m[3]) * w + fabs(m[4]) * h + fabs(m[5]);
    return warp->width >= 1 && warp->height >= 1 && w * h <= (double)SR_DECODE_MAX_PIXELS &&
           x < MOST_COORDINATE && y < MOST_COORDINATE;
}

sr_status sr_canvas_warp(sr_canvas *canvas, const sr_warp *warp) {
    forward f;
    if (!in_bounds(warp) || !invert(warp->inverse, &f)) {
        return SR_FAIL(SR_E_ARGUMENT,
                       "cannot warp a picture of %lld x %lld to %lld x %lld by [%g %g %g; %g %g "
                       "%g]",
                       (long long)canvas->width, (long long)canvas->height, (long long)warp->width,
                       (long long)warp->height, warp->inverse[0], warp->inverse[1],
                       warp->inverse[2], warp->inverse[3], warp->inverse[4], warp->inverse[5]);
    }
    sr_canvas_step step;
    SR_TRY(sr_canvas_step_begin(canvas, warp->width, warp->height, &step));
    for (int i = 0; i < canvas->plane_count; i++)
        warp_plane(&step, warp, i);
    warp_boxes(canvas, &f);
    return SR_OK;
}
