// SPDX-License-Identifier: Apache-2.0
// A picture and its class: "image" u8 [n, H, W, 3] and "label" i32 [n].
#include <string.h>

#include "dataio/pipeline/transformer.h"
#include "dataio/record/record.h"

static int arrays(const sr_pipeline_options *options, sr_array_spec *out) {
    out[0] = (sr_array_spec){.name = "image",
                             .dtype = SR_U8,
                             .rank = 3,
                             .shape = {options->image_height, options->image_width, 3},
                             .in_place = true};
    out[1] = (sr_array_spec){.name = "label", .dtype = SR_I32};
    return 2;
}

static sr_status read_sample(const void *record, size_t bytes, sr_sample *sample) {
    SR_TRY(sr_sample_read(record, bytes, sample));
    if (sample->label < 0 || sample->label > INT32_MAX)
        return SR_FAIL(SR_E_DATA, "the record has no class in its key 'label'%s",
                       sample->mask ? "; it is one with a mask, for segmentation" : "");
    return SR_OK;
}

static sr_status check(const void *record, size_t bytes) {
    sr_sample sample;
    if (read_sample(record, bytes, &sample) == SR_OK)
        return SR_OK;
    return SR_FAIL(SR_E_DATA, "%s; pack pictures with one class each", sr_error_message());
}

static sr_status open_sample(const sr_transformer_context *context, sr_canvas *canvas,
                             const sr_transformer_call *call, sr_sample *sample) {
    const sr_pipeline_options *o = context->options;
    SR_TRY(read_sample(call->record, call->bytes, sample));
    const sr_encoded picture = sr_encoded_of(sample);
    return sr_canvas_open(canvas, &picture, &call->identity, o->image_height, o->image_width,
                          call->rows[0]);
}

static sr_status open_record(const sr_transformer_context *context, sr_canvas *canvas,
                             const sr_transformer_call *call) {
    sr_sample sample;
    return open_sample(context, canvas, call, &sample);
}

static sr_status apply(const sr_transformer_context *context, sr_transformer_call *call) {
    sr_sample sample;
    SR_TRY(open_sample(context, context->canvas, call, &sample));
    SR_TRY(sr_transform_chain_apply(context->chain, context->canvas));
    int32_t label = (int32_t)sample.label;
    memcpy(call->rows[1], &label, sizeof label);
    return SR_OK;
}

const sr_transformer sr_transformer_classify = {
    .struct_size = sizeof(sr_transformer),
    .abi = SR_TRANSFORMER_ABI,
    .name = "classify",
    .help = "a picture and its class",
    .arrays = arrays,
    .open = open_record,
    .check = check,
    .apply = apply,
};
