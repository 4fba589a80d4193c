// SPDX-License-Identifier: Apache-2.0
// A picture and the class of each of its pixels: "image" u8 [n,H,W,3] and "mask" u8 [n,H,W].
//
// Geometric transforms change the mask together with the picture. SR_MASK_IGNORE (255) marks pixels
// without a class: those that the data set leaves out and those outside the picture.
//
// Where pictures keep their own sizes (sr_pipeline_options.whole_pixels), rows have room for the
// largest one, and "size" i32 [n,4] has height and width of each picture and of its mask.
#include "dataio/pipeline/transformer.h"
#include "dataio/record/record.h"

enum { IMAGE, MASK, SIZE, ARRAYS }; // SIZE: only where pictures have their own sizes
enum { ROW_ALIGN = 64 };

// Elements of a row for pictures of their own sizes: rows begin at multiples of 64 bytes.
static int64_t whole_row(int64_t pixels) {
    return (pixels + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
}

static int arrays(const sr_pipeline_options *options, sr_array_spec *out) {
    out[IMAGE] = (sr_array_spec){.name = "image",
                                 .dtype = SR_U8,
                                 .rank = 3,
                                 .shape = {options->image_height, options->image_width, 3},
                                 .in_place = true};
    out[MASK] = (sr_array_spec){.name = "mask",
                                .dtype = SR_U8,
                                .rank = 2,
                                .shape = {options->image_height, options->image_width}};
    if (options->whole_pixels == 0)
        return SIZE;
    out[IMAGE].rank = 2;
    out[IMAGE].shape[0] = whole_row(options->whole_pixels);
    out[IMAGE].shape[1] = 3;
    out[MASK].rank = 1;
    out[MASK].shape[0] = whole_row(options->mask_pixels);
    out[SIZE] = (sr_array_spec){.name = "size", .dtype = SR_I32, .rank = 1, .shape = {4}};
    return ARRAYS;
}

static sr_status read_sample(const void *record, size_t bytes, sr_sample *out) {
    SR_TRY(sr_sample_read(record, bytes, out));
    if (!out->mask)
        return SR_FAIL(SR_E_DATA, "the record has no mask (key 'mask'); pack "
                                  "pictures together with their masks");
    return SR_OK;
}

static sr_status check(const void *record, size_t bytes) {
    sr_sample sample;
    return read_sample(record, bytes, &sample);
}

static sr_status open_record(const sr_transformer_context *context, sr_canvas *canvas,
                             const sr_transformer_call *call) {
    const sr_pipeline_options *o = context->options;
    sr_sample sample;
    SR_TRY(read_sample(call->record, call->bytes, &sample));
    const sr_encoded picture = sr_encoded_of(&sample);
    SR_TRY(sr_canvas_open(canvas, &picture, &call->identity, o->image_height, o->image_width,
                          call->rows[IMAGE]));
    return sr_canvas_open_mask(canvas, sample.mask, sample.mask_bytes, call->rows[MASK]);
}

// A picture of its own size, whose mask follows it or is as it is stored.
static sr_status apply_whole(const sr_transformer_context *context, sr_transformer_call *call) {
    const sr_pipeline_options *o = context->options;
    sr_canvas *canvas = context->canvas;
    int32_t *size = call->rows[SIZE];
    sr_sample sample;
    SR_TRY(read_sample(call->record, call->bytes, &sample));
    const sr_encoded picture = sr_encoded_of(&sample);
    SR_TRY(sr_canvas_open(canvas, &picture, &call->identity, o->image_height, o->image_width,
                          call->rows[IMAGE]));
    size[2] = (int32_t)sr_canvas_height(canvas);
    size[3] = (int32_t)sr_canvas_width(canvas);
    sr_canvas_keep_size(canvas, o->whole_pixels);
    if (o->mask_follows)
        SR_TRY(sr_canvas_open_mask(canvas, sample.mask, sample.mask_bytes, call->rows[MASK]));
    else
        SR_TRY(sr_canvas_read_mask(canvas, sample.mask, sample.mask_bytes, call->rows[MASK],
                                   (size_t)o->mask_pixels));
    SR_TRY(sr_transform_chain_apply(context->chain, canvas));
    size[0] = (int32_t)sr_canvas_height(canvas);
    size[1] = (int32_t)sr_canvas_width(canvas);
    if (o->mask_follows) {
        size[2] = size[0];
        size[3] = size[1];
    }
    return SR_OK;
}

static sr_status apply(const sr_transformer_context *context, sr_transformer_call *call) {
    if (context->options->whole_pixels > 0)
        return apply_whole(context, call);
    SR_TRY(open_record(context, context->canvas, call));
    return sr_transform_chain_apply(context->chain, context->canvas);
}

const sr_transformer sr_transformer_segment = {
    .struct_size = sizeof(sr_transformer),
    .abi = SR_TRANSFORMER_ABI,
    .name = "segment",
    .help = "a picture and the class of each of its pixels",
    .arrays = arrays,
    .open = open_record,
    .check = check,
    .apply = apply,
};
