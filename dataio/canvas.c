// SPDX-License-Identifier: Apache-2.0
// Pending geometry, and the one place where it becomes pixels.
//
// The noted state is: crop of the source (whole pixels) -> resize of that crop -> window of the
// result -> mirror. Whatever does not compose into that form (a second resize) is carried out
// first.
#include "dataio/canvas.h"

#include <string.h>

#include "dataio/decode_internal.h"
#include "dataio/resample.h"
#include "kernels/base/clock.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"

struct sr_canvas {
    sr_decoder *decoder;
    sr_resampler *resampler;
    sr_canvas_identity identity;
    uint64_t draws; // what was noted of them
    uint8_t *target;
    int64_t target_width, target_height;
    int64_t width, height; // as it stands

    bool pending;           // the picture is the decoder's, seen through what follows
    sr_region crop;         // of the source
    int64_t full_w, full_h; // the crop's size after resizing
    sr_region window;       // of the resized crop
    bool flip, resized, exact;

    uint8_t *pixels; // when not pending: target or one of the buffers
    sr_pixel_buffer buffers[2];

    sr_box *boxes;
    int64_t box_count, box_capacity;
    int64_t resize_ns;
};

sr_status sr_canvas_create(int64_t box_capacity, sr_canvas **out) {
    sr_canvas *canvas = sr_alloc(sizeof *canvas, "canvas");
    if (!canvas)
        return SR_E_MEMORY;
    sr_status status;
    SR_TRY_GOTO(sr_decoder_create(&canvas->decoder), fail);
    SR_TRY_GOTO(sr_resampler_create(&canvas->resampler), fail);
    canvas->boxes = sr_alloc_array((size_t)box_capacity, sizeof *canvas->boxes, "boxes");
    if (!canvas->boxes) {
        status = SR_E_MEMORY;
        goto fail;
    }
    canvas->box_capacity = box_capacity;
    *out = canvas;
    return SR_OK;
fail:
    sr_canvas_free(canvas);
    return status;
}

void sr_canvas_free(sr_canvas *canvas) {
    if (!canvas)
        return;
    sr_decoder_free(canvas->decoder);
    sr_resampler_free(canvas->resampler);
    sr_pixel_buffer_release(&canvas->buffers[0]);
    sr_pixel_buffer_release(&canvas->buffers[1]);
    sr_free(canvas->boxes);
    sr_free(canvas);
}

sr_status sr_canvas_open(sr_canvas *canvas, const sr_encoded *picture,
                         const sr_canvas_identity *identity, int64_t target_height,
                         int64_t target_width, uint8_t *target) {
    int64_t width, height;
    SR_TRY(sr_decoder_open(canvas->decoder, picture, &width, &height));
    canvas->identity = *identity;
    canvas->draws = 0;
    canvas->target = target;
    canvas->target_width = target_width;
    canvas->target_height = target_height;
    canvas->width = canvas->full_w = width;
    canvas->height = canvas->full_h = height;
    canvas->crop = canvas->window = (sr_region){0, 0, width, height};
    canvas->pending = true;
    canvas->flip = canvas->resized = canvas->exact = false;
    canvas->box_count = 0;
    return SR_OK;
}

const sr_canvas_identity *sr_canvas_get_identity(const sr_canvas *canvas) {
    return &canvas->identity;
}

void sr_canvas_note_draws(sr_canvas *canvas, uint64_t draws) {
    const uint64_t facts[] = {draws, (uint64_t)canvas->width, (uint64_t)canvas->height};
    canvas->draws = sr_hash64_seed(facts, sizeof facts, canvas->draws);
}

uint64_t sr_canvas_get_draws(const sr_canvas *canvas) {
    return canvas->draws;
}

int64_t sr_canvas_width(const sr_canvas *canvas) {
    return canvas->width;
}

int64_t sr_canvas_height(const sr_canvas *canvas) {
    return canvas->height;
}

int64_t sr_canvas_target_width(const sr_canvas *canvas) {
    return canvas->target_width;
}

int64_t sr_canvas_target_height(const sr_canvas *canvas) {
    return canvas->target_height;
}

int64_t sr_canvas_decode_ns(const sr_canvas *canvas) {
    const sr_decode_times t = sr_decoder_times(canvas->decoder);
    return t.header + t.entropy + t.transform + t.colour + t.library;
}

sr_canvas_times sr_canvas_get_times(const sr_canvas *canvas) {
    return (sr_canvas_times){.decode = sr_decoder_times(canvas->decoder),
                             .resize = canvas->resize_ns};
}

sr_box *sr_canvas_boxes(sr_canvas *canvas, int64_t *count) {
    *count = canvas->box_count;
    return canvas->boxes;
}

sr_status sr_canvas_add_box(sr_canvas *canvas, const sr_box *box) {
    if (canvas->box_count == canvas->box_capacity)
        return SR_FAIL(SR_E_LIMIT, "more than %lld boxes in one picture; raise boxes_per_sample",
                       (long long)canvas->box_capacity);
    canvas->boxes[canvas->box_count++] = *box;
    return SR_OK;
}

// Moves boxes and cuts them to a picture of the given size.
static void shift_boxes(sr_canvas *canvas, double dx, double dy, int64_t width, int64_t height) {
    float fx = (float)dx, fy = (float)dy, w = (float)width, h = (float)height;
    int64_t kept = 0;
    for (int64_t i = 0; i < canvas->box_count; i++) {
        sr_box b = canvas->boxes[i];
        b.x1 += fx;
        b.x2 += fx;
        b.y1 += fy;
        b.y2 += fy;
        float cx = (b.x1 + b.x2) * 0.5f, cy = (b.y1 + b.y2) * 0.5f;
        if (cx < 0 || cy < 0 || cx >= w || cy >= h)
            continue;
        b.x1 = b.x1 < 0 ? 0 : b.x1;
        b.y1 = b.y1 < 0 ? 0 : b.y1;
        b.x2 = b.x2 > w ? w : b.x2;
        b.y2 = b.y2 > h ? h : b.y2;
        if (b.x2 - b.x1 >= 1 && b.y2 - b.y1 >= 1)
            canvas->boxes[kept++] = b;
    }
    canvas->box_count = kept;
}

// A buffer that does not hold the present picture.
static sr_status spare(sr_canvas *canvas, int64_t width, int64_t height, uint8_t **out) {
    sr_pixel_buffer *buffer = &canvas->buffers[0];
    if (!canvas->pending && canvas->pixels == buffer->data)
        buffer = &canvas->buffers[1];
    SR_TRY(sr_pixel_buffer_fit(buffer, (size_t)(width * height) * 3));
    *out = buffer->data;
    return SR_OK;
}

// Largest reduction in the decoder that leaves at least as many pixels as are wanted.
static int decode_scale(const sr_canvas *canvas) {
    int scale = 1, most = sr_decoder_max_scale(canvas->decoder);
    if (!canvas->resized || canvas->exact)
        return 1;
    while (scale * 2 <= most && canvas->crop.width >= canvas->full_w * scale * 2 &&
           canvas->crop.height >= canvas->full_h * scale * 2)
        scale *= 2;
    return scale;
}

// The part of the crop that the window needs, so that a centre crop of a large picture decodes no
// more than that. One filter width on each side is kept.
static sr_region needed_region(const sr_canvas *canvas) {
    const sr_region *c = &canvas->crop, *w = &canvas->window;
    if (w->width == canvas->full_w && w->height == canvas->full_h)
        return *c;
    double sx = (double)c->width / (double)canvas->full_w;
    double sy = (double)c->height / (double)canvas->full_h;
    double mx = 2 * (sx > 1 ? sx : 1) + 1, my = 2 * (sy > 1 ? sy : 1) + 1;
    double x0 = (double)w->x * sx - mx, x1 = (double)(w->x + w->width) * sx + mx;
    double y0 = (double)w->y * sy - my, y1 = (double)(w->y + w->height) * sy + my;
    int64_t left = x0 > 0 ? (int64_t)x0 : 0, top = y0 > 0 ? (int64_t)y0 : 0;
    int64_t right = x1 < (double)c->width ? (int64_t)x1 + 1 : c->width;
    int64_t bottom = y1 < (double)c->height ? (int64_t)y1 + 1 : c->height;
    right = right > c->width ? c->width : right;
    bottom = bottom > c->height ? c->height : bottom;
    return (sr_region){c->x + left, c->y + top, right - left, bottom - top};
}

static sr_status render(sr_canvas *canvas, uint8_t *to) {
    int scale = decode_scale(canvas);
    sr_region region = needed_region(canvas);
    sr_pixels source;
    SR_TRY(sr_decoder_read(canvas->decoder, &region, scale, &source));
    double inverse = 1.0 / scale; // exact: a power of two
    // The box is the whole crop although only the region was decoded: taps outside of the decoded
    // pixels belong to outputs outside of the window.
    sr_resize resize = {.x = (double)canvas->crop.x * inverse - (double)source.x,
                        .y = (double)canvas->crop.y * inverse - (double)source.y,
                        .width = (double)canvas->crop.width * inverse,
                        .height = (double)canvas->crop.height * inverse,
                        .output_width = canvas->full_w,
                        .output_height = canvas->full_h,
                        .window = canvas->window,
                        .flip = canvas->flip};
    const int64_t begin = sr_clock_ns();
    SR_TRY(sr_resample(canvas->resampler, &source, &resize, to));
    canvas->resize_ns += sr_clock_ns() - begin;
    return SR_OK;
}

static sr_status force(sr_canvas *canvas) {
    if (!canvas->pending)
        return SR_OK;
    uint8_t *to = canvas->target;
    if (canvas->width != canvas->target_width || canvas->height != canvas->target_height)
        SR_TRY(spare(canvas, canvas->width, canvas->height, &to));
    SR_TRY(render(canvas, to));
    canvas->pixels = to;
    canvas->pending = false;
    return SR_OK;
}

static void mirror(uint8_t *pixels, int64_t width, int64_t height) {
    for (int64_t y = 0; y < height; y++, pixels += 3 * width) {
        for (int64_t a = 0, b = width - 1; a < b; a++, b--) {
            uint8_t swap[3];
            memcpy(swap, pixels + 3 * a, 3);
            memcpy(pixels + 3 * a, pixels + 3 * b, 3);
            memcpy(pixels + 3 * b, swap, 3);
        }
    }
}

void sr_canvas_flip(sr_canvas *canvas) {
    float w = (float)canvas->width;
    for (int64_t i = 0; i < canvas->box_count; i++) {
        sr_box *b = &canvas->boxes[i];
        float x1 = b->x1;
        b->x1 = w - b->x2;
        b->x2 = w - x1;
    }
    if (canvas->pending)
        canvas->flip = !canvas->flip;
    else
        mirror(canvas->pixels, canvas->width, canvas->height);
}

// Crops pixels that exist already.
static sr_status crop_pixels(sr_canvas *canvas, const sr_region *region) {
    const uint8_t *from;
    uint8_t *to;
    int64_t stride = 3 * canvas->width;
    SR_TRY(sr_canvas_replace(canvas, region->width, region->height, -region->x, -region->y, &from,
                             &to));
    from += region->y * stride + 3 * region->x;
    for (int64_t y = 0; y < region->height; y++, from += stride, to += 3 * region->width)
        memcpy(to, from, (size_t)region->width * 3);
    return SR_OK;
}

sr_status sr_canvas_crop(sr_canvas *canvas, const sr_region *region) {
    if (region->x < 0 || region->y < 0 || region->width < 1 || region->height < 1 ||
        region->x + region->width > canvas->width || region->y + region->height > canvas->height)
        return SR_FAIL(
            SR_E_ARGUMENT, "crop (%lld, %lld, %lld, %lld) leaves a picture of %lld x %lld",
            (long long)region->x, (long long)region->y, (long long)region->width,
            (long long)region->height, (long long)canvas->width, (long long)canvas->height);
    if (!canvas->pending)
        return crop_pixels(canvas, region);
    int64_t x = canvas->flip ? canvas->width - region->x - region->width : region->x;
    shift_boxes(canvas, -(double)region->x, -(double)region->y, region->width, region->height);
    sr_region *part = canvas->resized ? &canvas->window : &canvas->crop;
    part->x += x;
    part->y += region->y;
    part->width = canvas->width = region->width;
    part->height = canvas->height = region->height;
    if (!canvas->resized) {
        canvas->full_w = region->width;
        canvas->full_h = region->height;
        canvas->window = (sr_region){0, 0, region->width, region->height};
    }
    return SR_OK;
}

static sr_status resize_pixels(sr_canvas *canvas, int64_t width, int64_t height) {
    uint8_t *to = canvas->target;
    if (width != canvas->target_width || height != canvas->target_height || to == canvas->pixels)
        SR_TRY(spare(canvas, width, height, &to));
    sr_pixels in = {
        .data = canvas->pixels, .width = canvas->width, .height = canvas->height, .channels = 3};
    sr_resize resize = {.width = (double)canvas->width,
                        .height = (double)canvas->height,
                        .output_width = width,
                        .output_height = height,
                        .window = {0, 0, width, height}};
    SR_TRY(sr_resample(canvas->resampler, &in, &resize, to));
    canvas->pixels = to;
    return SR_OK;
}

sr_status sr_canvas_resize(sr_canvas *canvas, int64_t width, int64_t height, bool exact) {
    if (width < 1 || height < 1)
        return SR_FAIL(SR_E_ARGUMENT, "resize to %lld x %lld", (long long)width, (long long)height);
    if (canvas->pending && canvas->resized)
        SR_TRY(force(canvas));
    if (canvas->pending) {
        canvas->full_w = width;
        canvas->full_h = height;
        canvas->window = (sr_region){0, 0, width, height};
        canvas->resized = true;
        canvas->exact = exact;
    } else {
        SR_TRY(resize_pixels(canvas, width, height));
    }
    float sx = (float)width / (float)canvas->width, sy = (float)height / (float)canvas->height;
    for (int64_t i = 0; i < canvas->box_count; i++) {
        sr_box *b = &canvas->boxes[i];
        b->x1 *= sx;
        b->x2 *= sx;
        b->y1 *= sy;
        b->y2 *= sy;
    }
    canvas->width = width;
    canvas->height = height;
    return SR_OK;
}

sr_status sr_canvas_pixels(sr_canvas *canvas, uint8_t **pixels) {
    SR_TRY(force(canvas));
    *pixels = canvas->pixels;
    return SR_OK;
}

sr_status sr_canvas_replace(sr_canvas *canvas, int64_t width, int64_t height, int64_t dx,
                            int64_t dy, const uint8_t **from, uint8_t **to) {
    bool into_target = width == canvas->target_width && height == canvas->target_height;
    if (canvas->pending && into_target) {
        // Decode beside the target, which the caller is about to fill.
        uint8_t *aside;
        SR_TRY(spare(canvas, canvas->width, canvas->height, &aside));
        SR_TRY(render(canvas, aside));
        canvas->pixels = aside;
        canvas->pending = false;
    }
    SR_TRY(force(canvas));
    *from = canvas->pixels;
    if (into_target && canvas->pixels != canvas->target)
        *to = canvas->target;
    else
        SR_TRY(spare(canvas, width, height, to));
    canvas->pixels = *to;
    shift_boxes(canvas, (double)dx, (double)dy, width, height);
    canvas->width = width;
    canvas->height = height;
    return SR_OK;
}

sr_status sr_canvas_finish(sr_canvas *canvas) {
    if (canvas->width != canvas->target_width || canvas->height != canvas->target_height) {
        return SR_FAIL(SR_E_SHAPE,
                       "after all transforms the picture is %lld x %lld, but the recipe's image is "
                       "%lld x %lld; end with a crop or resize to that size",
                       (long long)canvas->width, (long long)canvas->height,
                       (long long)canvas->target_width, (long long)canvas->target_height);
    }
    SR_TRY(force(canvas));
    if (canvas->pixels != canvas->target)
        memcpy(canvas->target, canvas->pixels,
               (size_t)(canvas->target_width * canvas->target_height) * 3);
    return SR_OK;
}
