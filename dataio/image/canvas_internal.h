// SPDX-License-Identifier: Apache-2.0
// Internals of a canvas: the deferred geometry and the planes (picture, mask).
#ifndef SR_DATAIO_CANVAS_INTERNAL_H
#define SR_DATAIO_CANVAS_INTERNAL_H

#include "dataio/image/canvas.h"
#include "dataio/image/resample.h"
#include "dataio/jpeg/decode_internal.h"
#include "dataio/record/zstd_frame.h"
#include "kernels/base/pixel_move.h"

enum { SR_PLANE_PICTURE, SR_PLANE_MASK, SR_PLANES };

// The picture or the mask: one byte per channel of a pixel.
typedef struct sr_plane {
    int channels;
    uint8_t *pixels; // target or one of the buffers; undefined while pending
    uint8_t *target;
    sr_pixel_buffer buffers[2];
} sr_plane;

struct sr_canvas {
    sr_decoder *decoder;
    sr_resampler *resampler;
    sr_canvas_identity identity;
    uint64_t draws; // hash of the transforms' draws
    int64_t target_width, target_height;
    int64_t most_pixels; // of a picture that keeps its size (sr_canvas_keep_size); 0: the target's
    int64_t width, height; // of the current picture

    bool pending; // geometry is deferred: the picture is the decoder's, with the following applied
    sr_region crop;         // of the source
    int64_t full_w, full_h; // the crop's size after resizing
    sr_region window;       // of the resized crop
    bool flip, resized, exact;
    sr_resize_filter filter;

    bool moves;  // it has no pixels; 'move' is what became of them
    bool padded; // that move has a border
    sr_pixel_move move;

    sr_plane planes[SR_PLANES];
    int plane_count;     // without a mask: 1
    const uint8_t *mask; // upright, of the whole source
    sr_zstd zstd;
    sr_pixel_buffer mask_stored, mask_upright;
    int32_t *columns; // of sr_resample_nearest
    size_t column_capacity;
    sr_pixel_buffer scratch;
    const sr_foreign_source *foreign;
    sr_canvas *auxiliary; // for foreign samples and copies

    sr_box *boxes;
    int64_t box_count, box_capacity;
    int64_t resize_ns;
};

// The planes of the current picture, and the buffers of the next one.
typedef struct sr_canvas_step {
    int64_t width, height; // of 'from'
    const uint8_t *from[SR_PLANES];
    uint8_t *to[SR_PLANES]; // must be written completely
} sr_canvas_step;

// SR_E_LIMIT for a size over SR_DECODE_MAX_PIXELS, SR_E_ARGUMENT for an empty one.
SR_NODISCARD sr_status sr_canvas_check_size(int64_t width, int64_t height);
// Renders the deferred geometry to pixels: at the target if the size matches and 'outside_target'
// is not set, else in a buffer.
SR_NODISCARD sr_status sr_canvas_render(sr_canvas *canvas, bool outside_target);
// Crop, pad and mirror a canvas without pixels. SR_E_UNSUPPORTED for a second padding.
void sr_canvas_move_crop(sr_canvas *canvas, const sr_region *region);
SR_NODISCARD sr_status sr_canvas_move_pad(sr_canvas *canvas, const sr_padding *padding);
void sr_canvas_move_flip(sr_canvas *canvas);
// Begins a new picture of this size, to be made from the current one, which is rendered first.
// 'from' is valid until the next change. The caller updates the boxes.
SR_NODISCARD sr_status sr_canvas_step_begin(sr_canvas *canvas, int64_t width, int64_t height,
                                            sr_canvas_step *out);
// Moves boxes and clips them to a picture of the given size, by the rule of sr_canvas_crop.
void sr_canvas_shift_boxes(sr_canvas *canvas, double dx, double dy, int64_t width, int64_t height);
// Clips a box to the picture; false where it must be removed.
bool sr_canvas_cut_box(sr_box *box, int64_t width, int64_t height);

#endif
