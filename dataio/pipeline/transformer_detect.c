// SPDX-License-Identifier: Apache-2.0
// A picture and its boxes: "image" u8 [n, H, W, 3] and "boxes" f32 [capacity, 5], ragged, with rows
// x1, y1, x2, y2 (pixels of the augmented picture, x2 and y2 exclusive) and class.
//
// Boxes that are empty, inverted or entirely outside the picture, which occur in real data sets,
// are omitted; boxes that exceed the border are clipped. Records contain boxes in pixels of the
// upright picture, so EXIF orientation does not affect them.
#include <string.h>

#include "dataio/pipeline/transformer.h"
#include "dataio/record/class_name.h"

#define DEFAULT_BOXES 64

static int64_t most_boxes(const sr_pipeline_options *options) {
    return options->boxes_per_sample > 0 ? options->boxes_per_sample : DEFAULT_BOXES;
}

static int arrays(const sr_pipeline_options *options, sr_array_spec *out) {
    out[0] = (sr_array_spec){.name = "image",
                             .dtype = SR_U8,
                             .rank = 3,
                             .shape = {options->image_height, options->image_width, 3},
                             .in_place = true};
    out[1] = (sr_array_spec){.name = "boxes",
                             .count_name = "boxes.count",
                             .dtype = SR_F32,
                             .rank = 1,
                             .shape = {5},
                             .capacity = most_boxes(options)};
    return 2;
}

static sr_status class_of(const sr_transformer_context *context, const sr_object *object,
                          int64_t *out) {
    *out = sr_object_class(object, context->classes, context->class_count);
    if (*out >= 0)
        return SR_OK;
    return SR_FAIL(SR_E_DATA, "object of class '%.*s', which the data set does not list",
                   object->name_bytes > 100 ? 100 : (int)object->name_bytes,
                   object->name ? object->name : "");
}

static double clamp(double v, double high) {
    return v < 0 ? 0 : v > high ? high : v;
}

static sr_status add_boxes(const sr_transformer_context *context, sr_canvas *canvas,
                           sr_detection *detection) {
    double w = (double)sr_canvas_width(canvas), h = (double)sr_canvas_height(canvas);
    for (;;) {
        sr_object object;
        bool more;
        SR_TRY(sr_detection_next(detection, &object, &more));
        if (!more)
            return SR_OK;
        double x1 = clamp(object.xmin, w), x2 = clamp(object.xmax, w);
        double y1 = clamp(object.ymin, h), y2 = clamp(object.ymax, h);
        if (!(x2 > x1) || !(y2 > y1))
            continue;
        int64_t class_number = 0;
        SR_TRY(class_of(context, &object, &class_number));
        sr_box box = {(float)x1, (float)y1, (float)x2, (float)y2, (float)class_number};
        SR_TRY(sr_canvas_add_box(canvas, &box));
    }
}

static sr_status open_record(const sr_transformer_context *context, sr_canvas *canvas,
                             const sr_transformer_call *call) {
    const sr_pipeline_options *o = context->options;
    sr_detection detection;
    SR_TRY(sr_detection_read(call->record, call->bytes, &detection));
    sr_encoded picture = sr_encoded_of(&detection.picture);
    SR_TRY(sr_canvas_open(canvas, &picture, &call->identity, o->image_height, o->image_width,
                          call->rows[0]));
    return add_boxes(context, canvas, &detection);
}

static sr_status apply(const sr_transformer_context *context, sr_transformer_call *call) {
    const sr_pipeline_options *o = context->options;
    SR_TRY(open_record(context, context->canvas, call));
    SR_TRY(sr_transform_chain_apply(context->chain, context->canvas));
    const sr_box *boxes = sr_canvas_boxes(context->canvas, &call->counts[1]);
    // The canvas has room for more boxes, because a crop may remove some.
    if (call->counts[1] > most_boxes(o))
        return SR_FAIL(
            SR_E_LIMIT,
            "%lld boxes in one picture, more than the limit of %lld; raise data.boxes_per_sample",
            (long long)call->counts[1], (long long)most_boxes(o));
    memcpy(call->rows[1], boxes, (size_t)call->counts[1] * sizeof *boxes);
    return SR_OK;
}

const sr_transformer sr_transformer_detect = {
    .struct_size = sizeof(sr_transformer),
    .abi = SR_TRANSFORMER_ABI,
    .name = "detect",
    .help = "a picture and its boxes",
    .arrays = arrays,
    .open = open_record,
    .apply = apply,
};
