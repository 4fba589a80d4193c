// SPDX-License-Identifier: Apache-2.0
// One sample that is being transformed: a picture that is decoded as late and as little as
// possible, with its boxes and its mask.
//
// Crop, resize and flip are deferred: the first transform that needs pixels, or sr_canvas_finish,
// decodes the required region at the required scale and resizes it once, directly into the slot.
// Boxes are updated at once. A mask takes part in every geometric change by nearest-neighbour
// sampling and is SR_MASK_IGNORE outside the picture. One thread at a time.
#ifndef SR_DATAIO_CANVAS_H
#define SR_DATAIO_CANVAS_H

#include <stdbool.h>
#include <stdint.h>

#include "dataio/jpeg/decode.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// The value of a mask's pixels without a class and of those outside the picture.
#define SR_MASK_IGNORE 255

// A row of the "boxes" array: pixels of the current picture, x2 and y2 exclusive.
typedef struct sr_box {
    float x1, y1, x2, y2;
    float class_number;
} sr_box;

// A sample being transformed. Reused from sample to sample.
typedef struct sr_canvas sr_canvas;

// box_capacity: most boxes of one sample. SR_E_MEMORY.
SR_NODISCARD sr_status sr_canvas_create(int64_t box_capacity, sr_canvas **out);
// NULL is legal.
void sr_canvas_free(sr_canvas *canvas);

struct sr_pixel_move;

// Identifies the sample; the source of all randomness of transforms.
typedef struct sr_canvas_identity {
    uint64_t seed;
    int64_t position, sample, epoch;
} sr_canvas_identity;

// Opens a picture (borrowed until the next open) without decoding it and removes all boxes.
// sr_canvas_finish writes target_height x target_width RGB pixels to 'target'.
SR_NODISCARD sr_status sr_canvas_open(sr_canvas *canvas, const sr_encoded *picture,
                                      const sr_canvas_identity *identity, int64_t target_height,
                                      int64_t target_width, uint8_t *target);
// Opens a picture of a size alone, without pixels: what only moves pixels (crops, mirroring,
// padding once, resizing to the size that it has) applies to it as to any other, and
// sr_canvas_get_move then says where they come from. Everything else is SR_E_UNSUPPORTED.
void sr_canvas_open_move(sr_canvas *canvas, const sr_canvas_identity *identity, int64_t height,
                         int64_t width, int64_t target_height, int64_t target_width);
// How the pixels moved (kernels/base/pixel_move.h); 'picture' is the sample. After
// sr_canvas_finish.
void sr_canvas_get_move(const sr_canvas *canvas, struct sr_pixel_move *out);
// Opens the mask of the open picture: a zstd frame of one byte per pixel, in the stored orientation
// of the picture (dataio/record/record.h). sr_canvas_finish writes target_height x target_width
// bytes to 'target'. SR_E_DATA for a frame of another size.
SR_NODISCARD sr_status sr_canvas_open_mask(sr_canvas *canvas, const void *frame, size_t bytes,
                                           uint8_t *target);
// Whether the open sample has a mask.
bool sr_canvas_has_mask(const sr_canvas *canvas);
// Counts the values of the mask in a region of the current picture. Decodes nothing.
// SR_E_ARGUMENT without a mask, and for a region that exceeds the picture.
SR_NODISCARD sr_status sr_canvas_count_mask(sr_canvas *canvas, const sr_region *region,
                                            int64_t count[256]);
// Reads that mask as it is stored, upright, into 'capacity' bytes at 'target': no transform changes
// it. To be called before all transforms; the mask has the size of the open picture. SR_E_LIMIT if
// it is larger.
SR_NODISCARD sr_status sr_canvas_read_mask(sr_canvas *canvas, const void *frame, size_t bytes,
                                           uint8_t *target, size_t capacity);
// The picture keeps the size that it has after all transforms, instead of the target's: at most
// 'pixels' pixels, which sr_canvas_finish writes to the target without gaps.
void sr_canvas_keep_size(sr_canvas *canvas, int64_t pixels);
// The identity of the open sample. Borrowed until the next open.
const sr_canvas_identity *sr_canvas_get_identity(const sr_canvas *canvas);
// Adds a transform's random draws, and the resulting picture size, to the hash of draws. The chain
// calls it after each transform.
void sr_canvas_note_draws(sr_canvas *canvas, uint64_t draws);
// The hash of all draws since the sample was opened.
uint64_t sr_canvas_get_draws(const sr_canvas *canvas);
// Size of the current picture, and of the target, in pixels:
int64_t sr_canvas_width(const sr_canvas *canvas);
int64_t sr_canvas_height(const sr_canvas *canvas);
int64_t sr_canvas_target_width(const sr_canvas *canvas);
int64_t sr_canvas_target_height(const sr_canvas *canvas);

// The boxes, at most box_capacity.
sr_box *sr_canvas_boxes(sr_canvas *canvas, int64_t *count);
// Appends a copy of the box. SR_E_LIMIT beyond box_capacity.
SR_NODISCARD sr_status sr_canvas_add_box(sr_canvas *canvas, const sr_box *box);

// Crops to a region inside the picture. Boxes whose centre is in the crop are kept and clipped to
// it (the rule of SSD's sampling); boxes thinner than one pixel after that are removed.
SR_NODISCARD sr_status sr_canvas_crop(sr_canvas *canvas, const sr_region *region);
// How a picture is resized.
typedef enum sr_resize_filter {
    SR_FILTER_BILINEAR = 0, // antialiased: the filter widens with the reduction
    SR_FILTER_BICUBIC,      // antialiased; cubic convolution with a = -1/2
    SR_FILTER_FAST,         // the two nearest pixels of each direction, whatever the reduction
} sr_resize_filter;
// exact: does not use scaled decoding, like other frameworks. SR_E_LIMIT over SR_DECODE_MAX_PIXELS.
SR_NODISCARD sr_status sr_canvas_resize(sr_canvas *canvas, int64_t width, int64_t height,
                                        sr_resize_filter filter, bool exact);
// Mirrors left and right.
void sr_canvas_flip(sr_canvas *canvas);

// The pixels that padding adds.
typedef enum sr_border {
    SR_BORDER_COLOR = 0, // one colour; in the mask SR_MASK_IGNORE
    SR_BORDER_EDGE,      // the nearest pixel of the picture
    SR_BORDER_REFLECT,   // the picture mirrored, without repeating its border
} sr_border;
// A new size, and the position of the picture's first pixel in it.
typedef struct sr_padding {
    int64_t width, height;
    int64_t x, y; // may be negative: parts outside are cropped
    sr_border border;
    uint8_t color[3];
} sr_padding;
// Pads or crops the picture to another size; boxes as for crop. SR_E_LIMIT over
// SR_DECODE_MAX_PIXELS.
SR_NODISCARD sr_status sr_canvas_pad(sr_canvas *canvas, const sr_padding *padding);

// An affine transform. In continuous coordinates, like boxes: the centre of the first pixel is
// (0.5, 0.5).
typedef struct sr_warp {
    double inverse[6]; // (x, y) of the new picture maps to [0] x + [1] y + [2], [3] x + [4] y + [5]
    int64_t width, height; // of the new picture
    bool bilinear;         // else nearest neighbour; always for masks
    uint8_t color[3];      // outside the old picture
} sr_warp;
// Applies it. A box becomes the bounding box of its warped corners, clipped as for crop.
// SR_E_ARGUMENT where the matrix has no inverse or its coordinates are too large.
SR_NODISCARD sr_status sr_canvas_warp(sr_canvas *canvas, const sr_warp *warp);

// Pixels [height, width, 3] of the current picture, which may be changed in place.
SR_NODISCARD sr_status sr_canvas_pixels(sr_canvas *canvas, uint8_t **pixels);
// Begins a new picture of the same size. *from is the current one, valid until the next change; the
// caller must write all of *to. Boxes and mask do not change.
SR_NODISCARD sr_status sr_canvas_rewrite(sr_canvas *canvas, const uint8_t **from, uint8_t **to);
// Uninitialised scratch memory for a transform. Borrowed until the next call. SR_E_MEMORY.
SR_NODISCARD sr_status sr_canvas_scratch(sr_canvas *canvas, size_t bytes, void **out);
// Opens the current picture, without boxes and mask, on a second canvas. It is valid until this
// canvas changes and until the next call of this function or sr_canvas_open_foreign.
SR_NODISCARD sr_status sr_canvas_copy(sr_canvas *canvas, sr_canvas **out);
// Completes the picture at the target. SR_E_SHAPE, naming both sizes, where the sizes differ.
SR_NODISCARD sr_status sr_canvas_finish(sr_canvas *canvas);

// -- samples of other positions ---------------------------------------------------------------

#define SR_FOREIGN_MOST 8 // foreign samples of one sample

// The source of foreign samples: others of the same slot, drawn by (seed, position).
typedef struct sr_foreign_source {
    // Opens foreign sample 'number' on the canvas, which has no target. *there is false where it is
    // missing or damaged.
    sr_status (*open)(void *user, int number, sr_canvas *canvas, bool *there);
    void *user;
} sr_foreign_source;
// Sets the source of foreign samples for samples opened from now on; borrowed. NULL: none.
void sr_canvas_set_foreign(sr_canvas *canvas, const sr_foreign_source *source);
// Opens a foreign sample, with its boxes and mask, on a second canvas, valid until the next call.
// NULL where it is missing or damaged; damage is reported at its own position in the slot.
SR_NODISCARD sr_status sr_canvas_open_foreign(sr_canvas *canvas, int number, sr_canvas **out);
// Pastes another canvas over this one with its first pixel at (x, y). Its boxes are added, clipped
// as for crop.
SR_NODISCARD sr_status sr_canvas_paste(sr_canvas *canvas, sr_canvas *other, int64_t x, int64_t y);

// Nanoseconds since the canvas was created: of decoding and of resizing.
typedef struct sr_canvas_times {
    sr_decode_times decode;
    int64_t resize;
} sr_canvas_times;

// Times of this canvas.
sr_canvas_times sr_canvas_get_times(const sr_canvas *canvas);
// The sum of the decoding times, foreign samples included.
int64_t sr_canvas_decode_ns(const sr_canvas *canvas);

#ifdef __cplusplus
}
#endif
#endif
