// SPDX-License-Identifier: Apache-2.0
// A picture and the class of each of its pixels: "image" u8 [n, H, W, 3] and "mask" u8 [n, H, W].
//
// Geometric transforms change the mask together with the picture. SR_MASK_IGNORE (255) marks pixels
// without a class: those that the data set leaves out and those outside the picture.
#include "dataio/pipeline/transformer.h"
#include "dataio/record/record.h"

static int arrays(const sr_pipeline_options *options, sr_array_spec *out) {
    out[0] = (sr_array_spec){.name = "image",
                             .dtype = SR_U8,
                             .rank = 3,
                             .shape = {options->image_height, options->image_width, 3},
                             .in_place = true};
    out[1] = (sr_array_spec){.name = "mask",
                             .dtype = SR_U8,
                             .rank = 2,
                             .shape = {options->image_height, options->image_width},
                             .in_place = true};
    return 2;
}

static sr_status open_record(const sr_transformer_context *context, sr_canvas *canvas,
                             const sr_transformer_call *call) {
    const sr_pipeline_options *o = context->options;
    sr_sample sample;
    SR_TRY(sr_sample_read(call->record, call->bytes, &sample));
    if (!sample.mask)
        return SR_FAIL(SR_E_DATA, "the record has no mask (key 'mask'); pack "
                                  "pictures together with their masks");
    sr_encoded picture = sr_encoded_of(&sample);
    SR_TRY(sr_canvas_open(canvas, &picture, &call->identity, o->image_height, o->image_width,
                          call->rows[0]));
    return sr_canvas_open_mask(canvas, sample.mask, sample.mask_bytes, call->rows[1]);
}

static sr_status apply(const sr_transformer_context *context, sr_transformer_call *call) {
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
    .apply = apply,
};
