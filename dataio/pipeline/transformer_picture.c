// SPDX-License-Identifier: Apache-2.0
// A picture alone, of a record of any kind: "image" u8 [n, H, W, 3].
#include "dataio/pipeline/transformer.h"
#include "dataio/record/record.h"

static int arrays(const sr_pipeline_options *options, sr_array_spec *out) {
    out[0] = (sr_array_spec){.name = "image",
                             .dtype = SR_U8,
                             .rank = 3,
                             .shape = {options->image_height, options->image_width, 3},
                             .in_place = true};
    return 1;
}

static sr_status open_record(const sr_transformer_context *context, sr_canvas *canvas,
                             const sr_transformer_call *call) {
    const sr_pipeline_options *o = context->options;
    sr_sample sample;
    SR_TRY(sr_sample_read(call->record, call->bytes, &sample));
    const sr_encoded picture = sr_encoded_of(&sample);
    return sr_canvas_open(canvas, &picture, &call->identity, o->image_height, o->image_width,
                          call->rows[0]);
}

static sr_status apply(const sr_transformer_context *context, sr_transformer_call *call) {
    SR_TRY(open_record(context, context->canvas, call));
    return sr_transform_chain_apply(context->chain, context->canvas);
}

extern const sr_transformer sr_transformer_picture;
const sr_transformer sr_transformer_picture = {
    .struct_size = sizeof(sr_transformer),
    .abi = SR_TRANSFORMER_ABI,
    .name = "picture",
    .help = "a picture alone",
    .arrays = arrays,
    .open = open_record,
    .apply = apply,
};
