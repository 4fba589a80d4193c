// SPDX-License-Identifier: Apache-2.0
// One sample on its way through the transforms: a picture that is decoded as late and as little as
// possible, with its boxes and its mask.
//
// Crop, resize and flip are only noted; the first transform that needs pixels, or the end, decodes
// the noted region at the noted scale and resizes it in one go, straight into the slot. Boxes
// follow every change at once. A mask takes every change of geometry together with the picture, by
// its nearest pixel, and has SR_MASK_IGNORE where the picture has nothing. One thread at a time.
#ifndef SR_DATAIO_CANVAS_H
#define SR_DATAIO_CANVAS_H

#include <stdbool.h>
#include <stdint.h>

#include "dataio/jpeg/decode.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// The class of a mask's pixel that no object or class covers, and of what lies outside.
#define SR_MASK_IGNORE 255

// A row of the "boxes" array: pixels of the picture as it stands, x2 and y2 exclusive.
typedef struct sr_box {
    float x1, y1, x2, y2;
    float class_number;
} sr_box;

// A sample under way. Reused from sample to sample.
typedef struct sr_canvas sr_canvas;

// box_capacity: most boxes of one sample. SR_E_MEMORY.
SR_NODISCARD sr_status sr_canvas_create(int64_t box_capacity, sr_canvas **out);
// NULL is legal.
void sr_canvas_free(sr_canvas *canvas);

// Who the sample is: all randomness of transforms comes from here.
typedef struct sr_canvas_identity {
    uint64_t seed;
    int64_t position, sample, epoch;
} sr_canvas_identity;

// Takes a picture (borrowed until the next open) without decoding it; boxes are emptied. In the end
// target_height x target_width RGB pixels shall stand at target.
SR_NODISCARD sr_status sr_canvas_open(sr_canvas *canvas, const sr_encoded *picture,
                                      const sr_canvas_identity *identity, int64_t target_height,
                                      int64_t target_width, uint8_t *target);
// The open picture's mask: a zstd frame of one byte for each pixel, turned as the picture is stored
// (dataio/record/record.h). In the end target_height x target_width bytes shall stand at target.
// SR_E_DATA for a frame of another size.
SR_NODISCARD sr_status sr_canvas_open_mask(sr_canvas *canvas, const void *frame, size_t bytes,
                                           uint8_t *target);
// Of the sample that is open. Borrowed until the next open.
const sr_canvas_identity *sr_canvas_get_identity(const sr_canvas *canvas);
// Notes what a transform has drawn and made of the picture's size; the chain calls it after each.
void sr_canvas_note_draws(sr_canvas *canvas, uint64_t draws);
// A hash of all that was noted since the sample was opened.
uint64_t sr_canvas_get_draws(const sr_canvas *canvas);
// Size of the picture as it stands, and of the target, in pixels:
int64_t sr_canvas_width(const sr_canvas *canvas);
int64_t sr_canvas_height(const sr_canvas *canvas);
int64_t sr_canvas_target_width(const sr_canvas *canvas);
int64_t sr_canvas_target_height(const sr_canvas *canvas);

// Boxes in use; at most box_capacity (SR_E_LIMIT when one more is added).
sr_box *sr_canvas_boxes(sr_canvas *canvas, int64_t *count);
// Appends a copy of the box.
SR_NODISCARD sr_status sr_canvas_add_box(sr_canvas *canvas, const sr_box *box);

// Geometry. Crop lies inside the picture; of the boxes those whose centre is inside stay, cut to
// the crop (the rule of SSD's sampling); a box thinner than one pixel after it goes.
SR_NODISCARD sr_status sr_canvas_crop(sr_canvas *canvas, const sr_region *region);
// How a picture is resized.
typedef enum sr_resize_filter {
    SR_FILTER_BILINEAR = 0, // antialiased: as wide as the reduction
    SR_FILTER_BICUBIC,      // antialiased; cubic convolution with a = -1/2
    SR_FILTER_FAST,         // the two nearest pixels of each direction, however much it shrinks
} sr_resize_filter;
// exact: never uses the decoder's own scaling, as other frameworks do. SR_E_LIMIT over
// SR_DECODE_MAX_PIXELS.
SR_NODISCARD sr_status sr_canvas_resize(sr_canvas *canvas, int64_t width, int64_t height,
                                        sr_resize_filter filter, bool exact);
// Mirrors left and right.
void sr_canvas_flip(sr_canvas *canvas);

// What stands beside a picture on a larger sheet.
typedef enum sr_border {
    SR_BORDER_COLOR = 0, // one colour; of the mask: SR_MASK_IGNORE
    SR_BORDER_EDGE,      // the nearest pixel of the picture
    SR_BORDER_REFLECT,   // the picture mirrored, without repeating its border
} sr_border;
// A sheet of width x height on which the picture's first pixel lies at (x, y).
typedef struct sr_padding {
    int64_t width, height;
    int64_t x, y; // may be negative: what lies outside is cut
    sr_border border;
    uint8_t color[3];
} sr_padding;
// Lays the picture on a sheet of another size; boxes as for crop. SR_E_LIMIT for one of more than
// SR_DECODE_MAX_PIXELS.
SR_NODISCARD sr_status sr_canvas_pad(sr_canvas *canvas, const sr_padding *padding);

// An affine change. Continuous coordinates, as of boxes: the centre of the first pixel is
// (0.5, 0.5).
typedef struct sr_warp {
    double inverse[6]; // (x, y) of the new picture shows [0] x + [1] y + [2], [3] x + [4] y + [5]
    int64_t width, height; // of the new picture
    bool bilinear;         // else the nearest pixel; masks always take that
    uint8_t color[3];      // where the old picture does not reach
} sr_warp;
// Carries it out. A box becomes the hull of its corners, cut as for crop. SR_E_ARGUMENT where the
// matrix has no inverse or leads out of all bounds.
SR_NODISCARD sr_status sr_canvas_warp(sr_canvas *canvas, const sr_warp *warp);

// Pixels [height, width, 3] of the picture as it stands, to be changed in place.
SR_NODISCARD sr_status sr_canvas_pixels(sr_canvas *canvas, uint8_t **pixels);
// A new picture of the same size made from the present one: *from stays valid until the next
// change, *to is to be written whole. Boxes and mask stay as they are.
SR_NODISCARD sr_status sr_canvas_rewrite(sr_canvas *canvas, const uint8_t **from, uint8_t **to);
// Working memory of a transform, its contents unknown. Borrowed until the next call. SR_E_MEMORY.
SR_NODISCARD sr_status sr_canvas_scratch(sr_canvas *canvas, size_t bytes, void **out);
// The picture as it stands, without boxes and mask, on a canvas of its own, which stays valid while
// this one does not change, and until the next call or sr_canvas_open_foreign.
SR_NODISCARD sr_status sr_canvas_copy(sr_canvas *canvas, sr_canvas **out);
// The picture is at the target. SR_E_SHAPE naming both sizes when it has another one.
SR_NODISCARD sr_status sr_canvas_finish(sr_canvas *canvas);

// -- samples of other positions ---------------------------------------------------------------

#define SR_FOREIGN_MOST 8 // that go along with a sample

// Where foreign samples come from: of the same slot, drawn by (seed, position).
typedef struct sr_foreign_source {
    // Opens foreign sample 'number' on the canvas, which has no target; *there is false where there
    // is none or it is damaged.
    sr_status (*open)(void *user, int number, sr_canvas *canvas, bool *there);
    void *user;
} sr_foreign_source;
// For all that is opened from now on; borrowed. NULL: there are none.
void sr_canvas_set_foreign(sr_canvas *canvas, const sr_foreign_source *source);
// Opens a foreign sample, with its boxes and mask, on a canvas of its own, which stays valid until
// the next call. NULL where there is none, or it is damaged: its own position, in the same slot,
// tells of that.
SR_NODISCARD sr_status sr_canvas_open_foreign(sr_canvas *canvas, int number, sr_canvas **out);
// Lays the whole of another canvas over this one, its first pixel at (x, y); boxes come along, cut
// as for crop.
SR_NODISCARD sr_status sr_canvas_paste(sr_canvas *canvas, sr_canvas *other, int64_t x, int64_t y);

// Nanoseconds spent since the canvas was made: on decoding, and on resizing it.
typedef struct sr_canvas_times {
    sr_decode_times decode;
    int64_t resize;
} sr_canvas_times;

// What this canvas has spent.
sr_canvas_times sr_canvas_get_times(const sr_canvas *canvas);
// All of them on decoding.
int64_t sr_canvas_decode_ns(const sr_canvas *canvas);

#ifdef __cplusplus
}
#endif
#endif
