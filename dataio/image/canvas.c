// SPDX-License-Identifier: Apache-2.0
// Deferred geometry, and its rendering to pixels.
//
// The deferred state is: crop of the source (whole pixels) -> resize of that crop -> window of the
// result -> mirror. If an operation does not compose with it (a second resize), the state is
// rendered first. canvas_compose.c has the operations that need pixels at once, canvas_move.c those
// of canvases without any.
#include <stdio.h>
#include <string.h>

#include "dataio/image/canvas_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"

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
    canvas->planes[SR_PLANE_PICTURE].channels = 3;
    canvas->planes[SR_PLANE_MASK].channels = 1;
    *out = canvas;
    return SR_OK;
fail:
    sr_canvas_free(canvas);
    return status;
}

void sr_canvas_free(sr_canvas *canvas) {
    if (!canvas)
        return;
    sr_canvas_free(canvas->auxiliary);
    sr_decoder_free(canvas->decoder);
    sr_resampler_free(canvas->resampler);
    for (int p = 0; p < SR_PLANES; p++) {
        sr_pixel_buffer_release(&canvas->planes[p].buffers[0]);
        sr_pixel_buffer_release(&canvas->planes[p].buffers[1]);
    }
    sr_zstd_release(&canvas->zstd);
    sr_pixel_buffer_release(&canvas->mask_stored);
    sr_pixel_buffer_release(&canvas->mask_upright);
    sr_pixel_buffer_release(&canvas->scratch);
    sr_free(canvas->columns);
    sr_free(canvas->boxes);
    sr_free(canvas);
}

// Opens a picture of a size.
static void begin(sr_canvas *canvas, const sr_canvas_identity *identity, int64_t height,
                  int64_t width, int64_t target_height, int64_t target_width) {
    canvas->identity = *identity;
    canvas->draws = 0;
    canvas->moves = false;
    canvas->plane_count = 1;
    canvas->target_width = target_width;
    canvas->target_height = target_height;
    canvas->width = canvas->full_w = width;
    canvas->height = canvas->full_h = height;
    canvas->crop = canvas->window = (sr_region){0, 0, width, height};
    canvas->pending = true;
    canvas->flip = canvas->resized = canvas->exact = false;
    canvas->filter = SR_FILTER_BILINEAR;
    canvas->box_count = 0;
    canvas->most_pixels = 0;
}

sr_status sr_canvas_open(sr_canvas *canvas, const sr_encoded *picture,
                         const sr_canvas_identity *identity, int64_t target_height,
                         int64_t target_width, uint8_t *target) {
    int64_t width, height;
    SR_TRY(sr_decoder_open(canvas->decoder, picture, &width, &height));
    begin(canvas, identity, height, width, target_height, target_width);
    canvas->planes[SR_PLANE_PICTURE].target = target;
    return SR_OK;
}

void sr_canvas_open_move(sr_canvas *canvas, const sr_canvas_identity *identity, int64_t height,
                         int64_t width, int64_t target_height, int64_t target_width) {
    begin(canvas, identity, height, width, target_height, target_width);
    canvas->moves = true;
    canvas->padded = false;
    canvas->planes[SR_PLANE_PICTURE].target = NULL;
    canvas->move = (sr_pixel_move){
        .picture = (int32_t)identity->sample, .right = (int32_t)width, .bottom = (int32_t)height};
}

void sr_canvas_keep_size(sr_canvas *canvas, int64_t pixels) {
    canvas->most_pixels = pixels;
}

// Turns the mask upright, like the picture.
static sr_status turn_mask(sr_canvas *canvas, const sr_stored_shape *shape) {
    canvas->mask = canvas->mask_stored.data;
    if (shape->orientation == 1)
        return SR_OK;
    SR_TRY(sr_pixel_buffer_fit(&canvas->mask_upright, (size_t)(shape->width * shape->height)));
    uint8_t *to = canvas->mask_upright.data;
    for (int64_t y = 0; y < canvas->height; y++) {
        for (int64_t x = 0; x < canvas->width; x++) {
            int64_t sx, sy;
            sr_stored_position(shape, x, y, &sx, &sy);
            *to++ = canvas->mask_stored.data[sy * shape->width + sx];
        }
    }
    canvas->mask = canvas->mask_upright.data;
    return SR_OK;
}

// Expands the mask of the open picture; canvas->mask is upright.
static sr_status expand_mask(sr_canvas *canvas, const void *frame, size_t bytes) {
    const sr_stored_shape shape = sr_decoder_stored(canvas->decoder);
    const size_t pixels = (size_t)(shape.width * shape.height);
    SR_TRY(sr_pixel_buffer_fit(&canvas->mask_stored, pixels));
    if (sr_zstd_expand(&canvas->zstd, frame, bytes, canvas->mask_stored.data, pixels) != SR_OK) {
        char cause[256];
        snprintf(cause, sizeof cause, "%s", sr_error_message());
        return SR_FAIL(SR_E_DATA, "mask of a picture of %lld x %lld: %s", (long long)shape.width,
                       (long long)shape.height, cause);
    }
    return turn_mask(canvas, &shape);
}

sr_status sr_canvas_open_mask(sr_canvas *canvas, const void *frame, size_t bytes, uint8_t *target) {
    SR_TRY(expand_mask(canvas, frame, bytes));
    canvas->planes[SR_PLANE_MASK].target = target;
    canvas->plane_count = 2;
    return SR_OK;
}

bool sr_canvas_has_mask(const sr_canvas *canvas) {
    return canvas->plane_count > SR_PLANE_MASK;
}

sr_status sr_canvas_read_mask(sr_canvas *canvas, const void *frame, size_t bytes, uint8_t *target,
                              size_t capacity) {
    const size_t pixels = (size_t)(canvas->width * canvas->height);
    if (pixels > capacity)
        return SR_FAIL(SR_E_LIMIT, "a mask of %zu pixels, but there is room for %zu", pixels,
                       capacity);
    SR_TRY(expand_mask(canvas, frame, bytes));
    memcpy(target, canvas->mask, pixels);
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
    const int64_t own = t.header + t.entropy + t.transform + t.colour + t.library;
    return own + (canvas->auxiliary ? sr_canvas_decode_ns(canvas->auxiliary) : 0);
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
        return SR_FAIL(SR_E_LIMIT,
                       "more than %lld boxes in one picture; raise data.boxes_per_sample",
                       (long long)canvas->box_capacity);
    canvas->boxes[canvas->box_count++] = *box;
    return SR_OK;
}

bool sr_canvas_cut_box(sr_box *b, int64_t width, int64_t height) {
    float w = (float)width, h = (float)height;
    float cx = (b->x1 + b->x2) * 0.5f, cy = (b->y1 + b->y2) * 0.5f;
    if (cx < 0 || cy < 0 || cx >= w || cy >= h)
        return false;
    b->x1 = b->x1 < 0 ? 0 : b->x1;
    b->y1 = b->y1 < 0 ? 0 : b->y1;
    b->x2 = b->x2 > w ? w : b->x2;
    b->y2 = b->y2 > h ? h : b->y2;
    return b->x2 - b->x1 >= 1 && b->y2 - b->y1 >= 1;
}

void sr_canvas_shift_boxes(sr_canvas *canvas, double dx, double dy, int64_t width, int64_t height) {
    float fx = (float)dx, fy = (float)dy;
    int64_t kept = 0;
    for (int64_t i = 0; i < canvas->box_count; i++) {
        sr_box b = canvas->boxes[i];
        b.x1 += fx;
        b.x2 += fx;
        b.y1 += fy;
        b.y2 += fy;
        if (sr_canvas_cut_box(&b, width, height))
            canvas->boxes[kept++] = b;
    }
    canvas->box_count = kept;
}

// The largest reduction in the decoder that leaves at least the required number of pixels.
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
// more. Includes one filter width on each side.
static sr_region needed_region(const sr_canvas *canvas) {
    const sr_region *c = &canvas->crop, *w = &canvas->window;
    if (w->width == canvas->full_w && w->height == canvas->full_h)
        return *c;
    double sx = (double)c->width / (double)canvas->full_w;
    double sy = (double)c->height / (double)canvas->full_h;
    double reach = canvas->filter == SR_FILTER_BICUBIC ? 3 : 2;
    double mx = reach * (sx > 1 ? sx : 1) + 1, my = reach * (sy > 1 ? sy : 1) + 1;
    double x0 = (double)w->x * sx - mx, x1 = (double)(w->x + w->width) * sx + mx;
    double y0 = (double)w->y * sy - my, y1 = (double)(w->y + w->height) * sy + my;
    int64_t left = x0 > 0 ? (int64_t)x0 : 0, top = y0 > 0 ? (int64_t)y0 : 0;
    int64_t right = x1 < (double)c->width ? (int64_t)x1 + 1 : c->width;
    int64_t bottom = y1 < (double)c->height ? (int64_t)y1 + 1 : c->height;
    right = right > c->width ? c->width : right;
    bottom = bottom > c->height ? c->height : bottom;
    return (sr_region){c->x + left, c->y + top, right - left, bottom - top};
}

// The deferred resize for a source that was decoded at 1/scale and whose first pixel is (x, y).
static sr_resize deferred_resize(const sr_canvas *canvas, double x, double y, int scale) {
    const double inverse = 1.0 / scale; // exact: a power of two
    return (sr_resize){.x = (double)canvas->crop.x * inverse - x,
                       .y = (double)canvas->crop.y * inverse - y,
                       .width = (double)canvas->crop.width * inverse,
                       .height = (double)canvas->crop.height * inverse,
                       .output_width = canvas->full_w,
                       .output_height = canvas->full_h,
                       .window = canvas->window,
                       .flip = canvas->flip,
                       .filter = canvas->filter};
}

static sr_status nearest(sr_canvas *canvas, const sr_resize *resize, const uint8_t *from,
                         int64_t width, int64_t height, uint8_t *to) {
    SR_TRY(sr_grow((void **)&canvas->columns, &canvas->column_capacity,
                   (size_t)resize->window.width, sizeof *canvas->columns, "mask columns"));
    sr_resample_nearest(from, width, height, resize, canvas->columns, to);
    return SR_OK;
}

// Resizes the mask as it was opened.
static sr_status nearest_of_source(sr_canvas *canvas, const sr_resize *resize, uint8_t *to) {
    const sr_stored_shape shape = sr_decoder_stored(canvas->decoder);
    const bool turned = shape.orientation >= 5;
    return nearest(canvas, resize, canvas->mask, turned ? shape.height : shape.width,
                   turned ? shape.width : shape.height, to);
}

static sr_status render_mask(sr_canvas *canvas, uint8_t *to) {
    const sr_resize resize = deferred_resize(canvas, 0, 0, 1);
    return nearest_of_source(canvas, &resize, to);
}

static sr_status render_picture(sr_canvas *canvas, uint8_t *to) {
    int scale = decode_scale(canvas);
    sr_region region = needed_region(canvas);
    sr_pixels source;
    SR_TRY(sr_decoder_read(canvas->decoder, &region, scale, &source));
    // The box is the whole crop although only the region was decoded: taps outside the decoded
    // pixels belong to outputs outside the window.
    const sr_resize resize = deferred_resize(canvas, (double)source.x, (double)source.y, scale);
    const int64_t begin = sr_clock_ns();
    SR_TRY(sr_resample(canvas->resampler, &source, &resize, to));
    canvas->resize_ns += sr_clock_ns() - begin;
    return SR_OK;
}

// A buffer of the plane other than the one that contains its current pixels.
static sr_status spare(const sr_canvas *canvas, sr_plane *plane, int64_t width, int64_t height,
                       uint8_t **out) {
    sr_pixel_buffer *buffer = &plane->buffers[0];
    if (!canvas->pending && plane->pixels == buffer->data)
        buffer = &plane->buffers[1];
    SR_TRY(sr_pixel_buffer_fit(buffer, (size_t)(width * height * plane->channels)));
    *out = buffer->data;
    return SR_OK;
}

static bool has_target_size(const sr_canvas *canvas, int64_t width, int64_t height) {
    return width == canvas->target_width && height == canvas->target_height &&
           (canvas->planes[SR_PLANE_PICTURE].target || canvas->moves);
}

static sr_status refuse_pixels(void) {
    return SR_FAIL(SR_E_UNSUPPORTED, "a transform that only moves pixels has asked for new ones");
}

sr_status sr_canvas_render(sr_canvas *canvas, bool outside_target) {
    if (canvas->moves)
        return refuse_pixels();
    if (!canvas->pending)
        return SR_OK;
    outside_target = outside_target || !has_target_size(canvas, canvas->width, canvas->height);
    for (int i = 0; i < canvas->plane_count; i++) {
        sr_plane *plane = &canvas->planes[i];
        plane->pixels = plane->target;
        if (outside_target)
            SR_TRY(spare(canvas, plane, canvas->width, canvas->height, &plane->pixels));
    }
    SR_TRY(render_picture(canvas, canvas->planes[SR_PLANE_PICTURE].pixels));
    if (sr_canvas_has_mask(canvas))
        SR_TRY(render_mask(canvas, canvas->planes[SR_PLANE_MASK].pixels));
    canvas->pending = false;
    return SR_OK;
}

sr_status sr_canvas_step_begin(sr_canvas *canvas, int64_t width, int64_t height,
                               sr_canvas_step *out) {
    // If the new picture is written to the target, the current one must be rendered elsewhere.
    const bool into_target = has_target_size(canvas, width, height);
    SR_TRY(sr_canvas_render(canvas, into_target));
    *out = (sr_canvas_step){.width = canvas->width, .height = canvas->height};
    for (int i = 0; i < canvas->plane_count; i++) {
        sr_plane *plane = &canvas->planes[i];
        out->from[i] = plane->pixels;
        out->to[i] = plane->target;
        if (!into_target || plane->pixels == plane->target)
            SR_TRY(spare(canvas, plane, width, height, &out->to[i]));
    }
    for (int i = 0; i < canvas->plane_count; i++)
        canvas->planes[i].pixels = out->to[i];
    canvas->width = width;
    canvas->height = height;
    return SR_OK;
}

void sr_canvas_set_foreign(sr_canvas *canvas, const sr_foreign_source *source) {
    canvas->foreign = source;
}

static sr_status need_auxiliary(sr_canvas *canvas) {
    return canvas->auxiliary ? SR_OK : sr_canvas_create(canvas->box_capacity, &canvas->auxiliary);
}

sr_status sr_canvas_copy(sr_canvas *canvas, sr_canvas **out) {
    uint8_t *pixels;
    SR_TRY(need_auxiliary(canvas));
    SR_TRY(sr_canvas_pixels(canvas, &pixels));
    const sr_encoded picture = {.data = pixels,
                                .bytes = (size_t)(3 * canvas->width * canvas->height),
                                .raw = true,
                                .height = canvas->height,
                                .width = canvas->width,
                                .channels = 3};
    SR_TRY(sr_canvas_open(canvas->auxiliary, &picture, &canvas->identity, canvas->target_height,
                          canvas->target_width, NULL));
    *out = canvas->auxiliary;
    return SR_OK;
}

sr_status sr_canvas_open_foreign(sr_canvas *canvas, int number, sr_canvas **out) {
    bool there = false;
    SR_TRY(need_auxiliary(canvas));
    if (canvas->foreign)
        SR_TRY(canvas->foreign->open(canvas->foreign->user, number, canvas->auxiliary, &there));
    *out = there ? canvas->auxiliary : NULL;
    return SR_OK;
}

static void mirror(uint8_t *pixels, int64_t width, int64_t height, int channels) {
    for (int64_t y = 0; y < height; y++, pixels += channels * width) {
        for (int64_t a = 0, b = width - 1; a < b; a++, b--) {
            for (int c = 0; c < channels; c++) {
                uint8_t swap = pixels[channels * a + c];
                pixels[channels * a + c] = pixels[channels * b + c];
                pixels[channels * b + c] = swap;
            }
        }
    }
}

void sr_canvas_flip(sr_canvas *canvas) {
    float w = (float)canvas->width;
    if (canvas->moves) {
        sr_canvas_move_flip(canvas);
        return;
    }
    for (int64_t i = 0; i < canvas->box_count; i++) {
        sr_box *b = &canvas->boxes[i];
        float x1 = b->x1;
        b->x1 = w - b->x2;
        b->x2 = w - x1;
    }
    if (canvas->pending) {
        canvas->flip = !canvas->flip;
        return;
    }
    for (int i = 0; i < canvas->plane_count; i++)
        mirror(canvas->planes[i].pixels, canvas->width, canvas->height, canvas->planes[i].channels);
}

// Crops rendered pixels.
static sr_status crop_pixels(sr_canvas *canvas, const sr_region *region) {
    sr_canvas_step step;
    SR_TRY(sr_canvas_step_begin(canvas, region->width, region->height, &step));
    for (int i = 0; i < canvas->plane_count; i++) {
        const int64_t pixel = canvas->planes[i].channels;
        const uint8_t *from = step.from[i] + pixel * (region->y * step.width + region->x);
        uint8_t *to = step.to[i];
        for (int64_t y = 0; y < region->height; y++) {
            memcpy(to, from, (size_t)(pixel * region->width));
            from += pixel * step.width;
            to += pixel * region->width;
        }
    }
    sr_canvas_shift_boxes(canvas, -(double)region->x, -(double)region->y, region->width,
                          region->height);
    return SR_OK;
}

static sr_status check_region(const sr_canvas *canvas, const sr_region *region) {
    if (region->x < 0 || region->y < 0 || region->width < 1 || region->height < 1 ||
        region->x + region->width > canvas->width || region->y + region->height > canvas->height)
        return SR_FAIL(
            SR_E_ARGUMENT, "crop (%lld, %lld, %lld, %lld) exceeds a picture of %lld x %lld",
            (long long)region->x, (long long)region->y, (long long)region->width,
            (long long)region->height, (long long)canvas->width, (long long)canvas->height);
    return SR_OK;
}

// The first column of a region in the window, which is mirrored later.
static int64_t column_in_window(const sr_canvas *canvas, const sr_region *region) {
    return canvas->flip ? canvas->width - region->x - region->width : region->x;
}

sr_status sr_canvas_crop(sr_canvas *canvas, const sr_region *region) {
    SR_TRY(check_region(canvas, region));
    if (canvas->moves) {
        sr_canvas_move_crop(canvas, region);
        return SR_OK;
    }
    if (!canvas->pending)
        return crop_pixels(canvas, region);
    const int64_t x = column_in_window(canvas, region);
    sr_canvas_shift_boxes(canvas, -(double)region->x, -(double)region->y, region->width,
                          region->height);
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

// Counts runs of equal values, of which a mask has few.
static void count_rows(const uint8_t *row, int64_t stride, int64_t width, int64_t height,
                       int64_t count[256]) {
    for (int64_t y = 0; y < height; y++, row += stride) {
        for (int64_t begin = 0, end; begin < width; begin = end) {
            for (end = begin + 1; end < width && row[end] == row[begin]; end++)
                ;
            count[row[begin]] += end - begin;
        }
    }
}

sr_status sr_canvas_count_mask(sr_canvas *canvas, const sr_region *region, int64_t count[256]) {
    if (!sr_canvas_has_mask(canvas))
        return SR_FAIL(SR_E_ARGUMENT, "the sample has no mask to be counted");
    SR_TRY(check_region(canvas, region));
    memset(count, 0, 256 * sizeof *count);
    if (!canvas->pending) {
        const uint8_t *first =
            canvas->planes[SR_PLANE_MASK].pixels + region->y * canvas->width + region->x;
        count_rows(first, canvas->width, region->width, region->height, count);
        return SR_OK;
    }
    sr_resize resize = deferred_resize(canvas, 0, 0, 1);
    resize.window.x += column_in_window(canvas, region);
    resize.window.y += region->y;
    resize.window.width = region->width;
    resize.window.height = region->height;
    SR_TRY(sr_pixel_buffer_fit(&canvas->scratch, (size_t)(region->width * region->height)));
    SR_TRY(nearest_of_source(canvas, &resize, canvas->scratch.data));
    count_rows(canvas->scratch.data, region->width, region->width, region->height, count);
    return SR_OK;
}

sr_status sr_canvas_check_size(int64_t width, int64_t height) {
    if (width < 1 || height < 1)
        return SR_FAIL(SR_E_ARGUMENT, "a picture of %lld x %lld is empty", (long long)width,
                       (long long)height);
    if (width > SR_DECODE_MAX_PIXELS / height)
        return SR_FAIL(SR_E_LIMIT,
                       "a transform would make a picture of %lld x %lld, over the limit of %lld "
                       "pixels; resize it first, or lower the transform's sizes",
                       (long long)width, (long long)height, (long long)SR_DECODE_MAX_PIXELS);
    return SR_OK;
}

static sr_status resize_pixels(sr_canvas *canvas, int64_t width, int64_t height,
                               sr_resize_filter filter) {
    sr_canvas_step step;
    SR_TRY(sr_canvas_step_begin(canvas, width, height, &step));
    const sr_pixels in = {.data = step.from[SR_PLANE_PICTURE],
                          .width = step.width,
                          .height = step.height,
                          .channels = 3};
    const sr_resize resize = {.width = (double)step.width,
                              .height = (double)step.height,
                              .output_width = width,
                              .output_height = height,
                              .window = {0, 0, width, height},
                              .filter = filter};
    SR_TRY(sr_resample(canvas->resampler, &in, &resize, step.to[SR_PLANE_PICTURE]));
    if (canvas->plane_count == SR_PLANE_MASK)
        return SR_OK;
    return nearest(canvas, &resize, step.from[SR_PLANE_MASK], step.width, step.height,
                   step.to[SR_PLANE_MASK]);
}

sr_status sr_canvas_resize(sr_canvas *canvas, int64_t width, int64_t height,
                           sr_resize_filter filter, bool exact) {
    SR_TRY(sr_canvas_check_size(width, height));
    if (canvas->moves)
        return width == canvas->width && height == canvas->height ? SR_OK : refuse_pixels();
    float sx = (float)width / (float)canvas->width, sy = (float)height / (float)canvas->height;
    if (canvas->pending && canvas->resized)
        SR_TRY(sr_canvas_render(canvas, false));
    if (canvas->pending) {
        canvas->full_w = width;
        canvas->full_h = height;
        canvas->window = (sr_region){0, 0, width, height};
        canvas->resized = true;
        canvas->exact = exact;
        canvas->filter = filter;
        canvas->width = width;
        canvas->height = height;
    } else {
        SR_TRY(resize_pixels(canvas, width, height, filter));
    }
    for (int64_t i = 0; i < canvas->box_count; i++) {
        sr_box *b = &canvas->boxes[i];
        b->x1 *= sx;
        b->x2 *= sx;
        b->y1 *= sy;
        b->y2 *= sy;
    }
    return SR_OK;
}

sr_status sr_canvas_pixels(sr_canvas *canvas, uint8_t **pixels) {
    SR_TRY(sr_canvas_render(canvas, false));
    *pixels = canvas->planes[SR_PLANE_PICTURE].pixels;
    return SR_OK;
}

sr_status sr_canvas_scratch(sr_canvas *canvas, size_t bytes, void **out) {
    SR_TRY(sr_pixel_buffer_fit(&canvas->scratch, bytes));
    *out = canvas->scratch.data;
    return SR_OK;
}

// A picture that keeps its size is its own target.
static sr_status settle_size(sr_canvas *canvas) {
    if (canvas->most_pixels == 0)
        return SR_OK;
    if (canvas->width * canvas->height > canvas->most_pixels) {
        return SR_FAIL(SR_E_LIMIT,
                       "after all transforms the picture is %lld x %lld, but there is room for "
                       "%lld pixels",
                       (long long)canvas->width, (long long)canvas->height,
                       (long long)canvas->most_pixels);
    }
    canvas->target_width = canvas->width;
    canvas->target_height = canvas->height;
    return SR_OK;
}

sr_status sr_canvas_finish(sr_canvas *canvas) {
    SR_TRY(settle_size(canvas));
    if (!has_target_size(canvas, canvas->width, canvas->height)) {
        return SR_FAIL(SR_E_SHAPE,
                       "after all transforms the picture is %lld x %lld, but the recipe's image is "
                       "%lld x %lld; end with a crop or resize to that size",
                       (long long)canvas->width, (long long)canvas->height,
                       (long long)canvas->target_width, (long long)canvas->target_height);
    }
    if (canvas->moves)
        return SR_OK;
    SR_TRY(sr_canvas_render(canvas, false));
    for (int i = 0; i < canvas->plane_count; i++) {
        const sr_plane *plane = &canvas->planes[i];
        if (plane->pixels != plane->target)
            memcpy(plane->target, plane->pixels,
                   (size_t)(canvas->width * canvas->height * plane->channels));
    }
    return SR_OK;
}
