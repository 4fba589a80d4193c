// SPDX-License-Identifier: Apache-2.0
// Reads pictures for inference (picture_reader.h).
#include "trainer/run/picture_reader.h"

#include "dataio/image/picture.h"
#include "dataio/record/record.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/memory.h"

struct sr_picture_reader {
    sr_eval_view view;
    sr_picture_worker *pictures;
    sr_canvas *canvas;
    sr_transform_chain *chain;
    void *pixels; // of the last picture read
    size_t capacity;
};

sr_status sr_picture_reader_create(const sr_task_desc *task, const sr_recipe *recipe,
                                   const void *options, sr_picture_reader **out) {
    sr_status status;
    sr_picture_reader *r = sr_alloc(sizeof *r, "picture reader");
    if (!r)
        return SR_E_MEMORY;
    task->view(recipe, options, &r->view);
    SR_TRY_GOTO(sr_picture_worker_create(&r->pictures), fail);
    SR_TRY_GOTO(sr_canvas_create(0, &r->canvas), fail);
    SR_TRY_GOTO(sr_transform_chain_create(r->view.transforms, r->view.transform_count, &r->chain),
                fail);
    *out = r;
    return SR_OK;
fail:
    sr_picture_reader_free(r);
    return status;
}

void sr_picture_reader_free(sr_picture_reader *r) {
    if (!r)
        return;
    if (r->chain)
        sr_transform_chain_free(r->chain);
    if (r->canvas)
        sr_canvas_free(r->canvas);
    sr_picture_worker_free(r->pictures);
    sr_free(r->pixels);
    sr_free(r);
}

const sr_eval_view *sr_picture_reader_view(const sr_picture_reader *r) {
    return &r->view;
}

// Normalises a file as packing does, so that a picture has the same pixels here as in training.
static sr_status open_picture(const sr_picture_reader *r, const sr_picture_file *file,
                              sr_encoded *out) {
    const sr_picture_options options = {.segments = SR_PICTURE_NO_INDEX};
    sr_sample stored = {0};
    unsigned met;
    if (file->height > 0) {
        *out = (sr_encoded){.data = file->data,
                            .bytes = file->bytes,
                            .raw = true,
                            .height = file->height,
                            .width = file->width,
                            .channels = file->channels ? file->channels : 3};
        return SR_OK;
    }
    SR_TRY(sr_picture_normalise(r->pictures, file->data, file->bytes, &options, &stored, &met));
    *out = sr_encoded_of(&stored);
    return SR_OK;
}

sr_status sr_picture_reader_decode(const sr_picture_reader *r, const sr_picture_file *file,
                                   uint8_t *pixels) {
    const sr_canvas_identity identity = {0};
    sr_encoded encoded;
    SR_TRY(open_picture(r, file, &encoded));
    SR_TRY(sr_canvas_open(r->canvas, &encoded, &identity, r->view.height, r->view.width, pixels));
    return sr_transform_chain_apply(r->chain, r->canvas);
}

// Opens the picture with memory for what the view makes of it.
static sr_status open_sized(sr_picture_reader *r, const sr_encoded *encoded, sr_slot *out) {
    const sr_canvas_identity identity = {0};
    int64_t height = r->view.height, width = r->view.width;
    SR_TRY(sr_canvas_open(r->canvas, encoded, &identity, height, width, NULL));
    out->height = sr_canvas_height(r->canvas);
    out->width = sr_canvas_width(r->canvas);
    if (r->view.whole) {
        height = out->height;
        width = out->width;
        sr_eval_view_resized(&r->view, &height, &width);
        if (height * width > SR_DECODE_MAX_PIXELS)
            return SR_FAIL(SR_E_LIMIT, "eval.resize makes a picture of %lld x %lld, over the limit",
                           (long long)width, (long long)height);
    }
    SR_TRY(sr_grow(&r->pixels, &r->capacity, (size_t)(height * width), 3, "picture"));
    SR_TRY(sr_canvas_open(r->canvas, encoded, &identity, height, width, r->pixels));
    return SR_OK;
}

sr_status sr_picture_reader_read(sr_picture_reader *r, const sr_picture_file *file, sr_slot *out) {
    sr_encoded encoded;
    *out = (sr_slot){.valid = 1, .arrays = 1};
    SR_TRY(open_picture(r, file, &encoded));
    SR_TRY(open_sized(r, &encoded, out));
    SR_TRY(sr_transform_chain_apply(r->chain, r->canvas));
    out->array[0] = (sr_array){
        .name = "image",
        .dtype = SR_U8,
        .rank = 4,
        .shape = {1, sr_canvas_target_height(r->canvas), sr_canvas_target_width(r->canvas), 3},
        .count = 1,
        .data = r->pixels};
    return SR_OK;
}
