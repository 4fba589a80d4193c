// SPDX-License-Identifier: Apache-2.0
// Pictures that stay on the device (resident.h). Moves are drawn on the host, some 32 bytes for a
// sample; the kernel move_pixels makes its picture on the stream that copies inputs.
#include "trainer/engine/resident.h"

#include <stdio.h>
#include <string.h>

#include "dataio/pipeline/moves.h"
#include "dataio/record/dataset.h"
#include "kernels/base/memory.h"
#include "kernels/kernel.h"
#include "kernels/kernel_params.h"
#include "trainer/engine/feed.h"

_Static_assert(sizeof(sr_pixel_move) == SR_MOVE_NUMBERS * sizeof(int32_t),
               "move_pixels takes moves as numbers");

enum { READ_BATCH = 512 }; // pictures of a slot when they are read

struct sr_resident {
    sr_device *device;
    sr_pipeline_options options; // numbers alone
    int64_t samples;             // of a lane
    size_t picture_bytes;
    sr_slot lane; // as the pipeline's, without labels
    int label;    // their array
    sr_move_draws *draws;
    sr_address pictures;
    int32_t *labels; // of all pictures
    // Of each local lane:
    sr_pixel_move *moves; // [samples]
    int32_t *lane_labels; // [samples]
    sr_address moves_there;
    sr_array_maker maker;
    sr_kernel_request request;
    sr_prepared kernel;
    uint8_t *shown; // pixels of sr_resident_show
};

static bool is_unified(const sr_resident *r) {
    return sr_device_get_properties(r->device)->unified;
}

static int lanes_of(const sr_resident *r) {
    return r->options.lane_end - r->options.lane_begin;
}

sr_status sr_resident_measure(const sr_pipeline_options *options, int64_t count, uint64_t *bytes) {
    bool suffice;
    SR_TRY(sr_moves_suffice(options, &suffice));
    *bytes = suffice && count <= INT32_MAX
                 ? (uint64_t)count * (uint64_t)(options->image_height * options->image_width * 3)
                 : 0;
    return SR_OK;
}

// ---- Reading ----

static sr_status take_slot(sr_resident *r, const sr_slot *slot) {
    const sr_array *image, *label;
    SR_TRY(sr_slot_get(slot, "image", &image));
    SR_TRY(sr_slot_get(slot, "label", &label));
    const size_t first = (size_t)slot->first_position, count = (size_t)slot->valid;
    memcpy(r->labels + first, label->data, count * sizeof *r->labels);
    return sr_device_upload(r->device, sr_address_add(r->pictures, first * r->picture_bytes),
                            image->data, count * r->picture_bytes);
}

static sr_status take_slots(sr_resident *r, sr_pipeline *pipeline) {
    for (;;) {
        sr_slot slot;
        bool end;
        SR_TRY(sr_pipeline_next(pipeline, &slot, &end));
        if (end)
            return SR_OK;
        const sr_status status = take_slot(r, &slot);
        sr_pipeline_release(pipeline, &slot);
        SR_TRY(status);
    }
}

// Reads all samples as they are stored.
static sr_status read_all(sr_resident *r, const sr_pipeline_options *options, int64_t count) {
    sr_pipeline_options o = *options;
    sr_pipeline *pipeline;
    o.transforms = NULL;
    o.transform_count = 0;
    o.windows = NULL;
    o.order = SR_ORDER_ONCE;
    o.repeats = 0;
    o.batch = count < READ_BATCH ? count : READ_BATCH;
    o.lanes = o.lane_end = 1;
    o.lane_begin = 0;
    o.position = o.steps = 0;
    o.on_corrupt = SR_CORRUPT_STOP;
    SR_TRY(sr_pipeline_open(&o, &pipeline));
    const sr_status status = take_slots(r, pipeline);
    sr_pipeline_close(pipeline);
    return status;
}

// ---- Lanes ----

static sr_pixel_move *moves_of(const sr_resident *r, int lane) {
    return r->moves + (lane - r->options.lane_begin) * r->samples;
}

// Writes the pictures of a lane, whose moves are drawn.
static sr_status make(void *user, int lane, sr_address to, sr_stream *stream) {
    const sr_resident *r = user;
    const size_t bytes = (size_t)r->samples * sizeof *r->moves;
    sr_address moves = sr_device_host_address(r->device, moves_of(r, lane));
    if (!is_unified(r)) {
        moves = sr_address_add(r->moves_there, (size_t)(lane - r->options.lane_begin) * bytes);
        SR_TRY(sr_stream_upload(stream, moves, moves_of(r, lane), bytes));
    }
    const sr_address p[] = {r->pictures, moves, to};
    const sr_kernel_call call = {.prepared = &r->kernel, .request = &r->request, .p = p};
    return sr_stream_launch(stream, &call);
}

static sr_status prepare(sr_resident *r, int64_t count) {
    const sr_pipeline_options *o = &r->options;
    const sr_move_params params = {.n = count,
                                   .h = o->image_height,
                                   .w = o->image_width,
                                   .count = r->samples,
                                   .p = o->image_height,
                                   .q = o->image_width};
    r->maker = (sr_array_maker){make, r};
    sr_kernel_request_init(&r->request, sr_device_get_properties(r->device)->kind,
                           SR_KERNEL_move_pixels, SR_F32, &params, sizeof params);
    return sr_kernel_prepare(&r->request, &r->kernel);
}

static sr_status allocate(sr_resident *r, int64_t count) {
    const size_t lanes = (size_t)lanes_of(r), samples = lanes * (size_t)r->samples;
    r->labels = sr_alloc_array((size_t)count, sizeof *r->labels, "labels");
    r->moves = sr_alloc_array(samples, sizeof *r->moves, "moves of pixels");
    r->lane_labels = sr_alloc_array(samples, sizeof *r->lane_labels, "labels");
    if (!r->labels || !r->moves || !r->lane_labels)
        return SR_E_MEMORY;
    if (!is_unified(r))
        SR_TRY(sr_device_alloc(r->device, samples * sizeof *r->moves, "moves of pixels",
                               &r->moves_there));
    return sr_device_alloc(r->device, (size_t)count * r->picture_bytes, "training pictures",
                           &r->pictures);
}

static sr_status describe_lane(sr_resident *r, const sr_pipeline_options *options) {
    SR_TRY(sr_pipeline_describe(options, r->samples, &r->lane));
    r->lane.valid = r->samples;
    for (int i = 0; i < r->lane.arrays; i++) {
        sr_array *a = &r->lane.array[i];
        a->count = r->samples;
        if (strcmp(a->name, "image") == 0)
            a->maker = &r->maker;
        else
            r->label = i;
    }
    return SR_OK;
}

static sr_status create(sr_resident *r, const sr_pipeline_options *options,
                        const sr_dataset *dataset) {
    const int64_t count = sr_dataset_count(dataset);
    SR_TRY(sr_dataset_check_identity(dataset, options->dataset, options->identity));
    SR_TRY(describe_lane(r, options));
    SR_TRY(sr_move_draws_create(options, dataset, &r->draws));
    SR_TRY(allocate(r, count));
    SR_TRY(prepare(r, count));
    return read_all(r, options, count);
}

sr_status sr_resident_create(const sr_pipeline_options *options, sr_device *device,
                             sr_resident **out) {
    sr_dataset *dataset;
    SR_TRY(sr_dataset_open(options->dataset, options->split, &dataset));
    sr_resident *r = sr_alloc(sizeof *r, "resident pictures");
    sr_status status = SR_E_MEMORY;
    if (r) {
        r->device = device;
        r->options = *options;
        r->samples = options->batch / options->lanes;
        r->picture_bytes = (size_t)(options->image_height * options->image_width * 3);
        status = create(r, options, dataset);
    }
    sr_dataset_free(dataset);
    if (status == SR_OK)
        *out = r;
    else
        sr_resident_free(r);
    return status;
}

void sr_resident_free(sr_resident *r) {
    if (!r)
        return;
    sr_prepared_release(&r->kernel);
    sr_device_free(r->device, r->pictures);
    sr_device_free(r->device, r->moves_there);
    sr_move_draws_free(r->draws);
    sr_free(r->shown);
    sr_free(r->lane_labels);
    sr_free(r->moves);
    sr_free(r->labels);
    sr_free(r);
}

sr_status sr_resident_fill(sr_resident *r, int64_t step, int lane, sr_slot *out) {
    sr_pixel_move *moves = moves_of(r, lane);
    int32_t *labels = r->lane_labels + (lane - r->options.lane_begin) * r->samples;
    *out = r->lane;
    out->step = step;
    out->lane = lane;
    out->first_position = step * r->options.batch + lane * r->samples;
    out->array[r->label].data = labels;
    for (int64_t i = 0; i < r->samples; i++) {
        SR_TRY(sr_move_draws_at(r->draws, out->first_position + i, &moves[i]));
        labels[i] = r->labels[moves[i].picture];
    }
    return SR_OK;
}

static sr_status download(sr_resident *r, const sr_slot *slot, sr_address made, size_t bytes) {
    sr_stream *stream;
    SR_TRY(sr_stream_create(r->device, NULL, &stream));
    sr_status status = make(r, slot->lane, made, stream);
    if (status == SR_OK)
        status = sr_stream_wait(stream);
    sr_stream_free(stream);
    return status == SR_OK ? sr_device_download(r->device, r->shown, made, bytes) : status;
}

sr_status sr_resident_show(sr_resident *r, const sr_slot *slot, sr_slot *out) {
    const size_t bytes = (size_t)r->samples * r->picture_bytes;
    sr_address made;
    if (!r->shown)
        r->shown = sr_alloc(bytes, "pictures to be shown");
    if (!r->shown)
        return SR_E_MEMORY;
    SR_TRY(sr_device_alloc(r->device, bytes, "pictures to be shown", &made));
    const sr_status status = download(r, slot, made, bytes);
    sr_device_free(r->device, made);
    *out = *slot;
    for (int i = 0; i < out->arrays; i++) {
        if (!out->array[i].maker)
            continue;
        out->array[i].maker = NULL;
        out->array[i].data = r->shown;
    }
    return status;
}
