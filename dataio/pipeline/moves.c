// SPDX-License-Identifier: Apache-2.0
// Draws samples and applies their transforms without pixels (moves.h).
#include "dataio/pipeline/moves.h"

#include <string.h>

#include "dataio/pipeline/sampler.h"
#include "dataio/pipeline/stage_internal.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/memory.h"

struct sr_move_draws {
    sr_pipeline_options options; // numbers alone
    sr_transform_chain *chain;
    sr_sampler *sampler;
    sr_canvas *canvas;
};

static sr_status make_chain(const sr_pipeline_options *o, sr_transform_chain **out) {
    SR_TRY(sr_transform_chain_create(o->transforms, o->transform_count, out));
    if (o->windows)
        sr_transform_chain_limit(*out, o->windows);
    return SR_OK;
}

// "image" of one picture, and "label".
static bool has_plain_slots(const sr_slot *slot) {
    bool plain = slot->arrays == 2;
    for (int i = 0; i < slot->arrays && plain; i++) {
        const sr_array *a = &slot->array[i];
        plain = strcmp(a->name, "image") == 0 ? a->dtype == SR_U8 && a->rank == 4
                                              : strcmp(a->name, "label") == 0 && a->rank == 1;
    }
    return plain;
}

sr_status sr_moves_suffice(const sr_pipeline_options *o, bool *out) {
    sr_transform_chain *chain;
    sr_slot slot;
    SR_TRY(sr_pipeline_describe(o, 1, &slot));
    *out =
        has_plain_slots(&slot) && o->whole_pixels == 0 && o->growth.from == 0 && !(o->balance > 0);
    if (!*out)
        return SR_OK;
    SR_TRY(make_chain(o, &chain));
    const sr_status status = sr_transform_chain_moves(chain, o->image_height, o->image_width, out);
    sr_transform_chain_free(chain);
    return status;
}

sr_status sr_move_draws_create(const sr_pipeline_options *options, const sr_dataset *dataset,
                               sr_move_draws **out) {
    sr_sampler_options sampler;
    sr_move_draws *d = sr_alloc(sizeof *d, "draws of a run");
    if (!d)
        return SR_E_MEMORY;
    d->options = *options;
    sr_status status = sr_stage_plan_draws(options, dataset, &sampler);
    if (status == SR_OK)
        status = sr_sampler_create(&sampler, &d->sampler);
    if (status == SR_OK)
        status = make_chain(options, &d->chain);
    if (status == SR_OK)
        status = sr_canvas_create(1, &d->canvas);
    if (status == SR_OK)
        *out = d;
    else
        sr_move_draws_free(d);
    return status;
}

void sr_move_draws_free(sr_move_draws *d) {
    if (!d)
        return;
    sr_canvas_free(d->canvas);
    sr_transform_chain_free(d->chain);
    sr_sampler_free(d->sampler);
    sr_free(d);
}

sr_status sr_move_draws_at(sr_move_draws *d, int64_t position, sr_pixel_move *out) {
    const sr_pipeline_options *o = &d->options;
    sr_draw draw;
    SR_TRY(sr_sampler_at(d->sampler, position, &draw));
    const sr_canvas_identity identity = {
        .seed = o->seed, .position = draw.position, .sample = draw.sample, .epoch = draw.epoch};
    sr_canvas_open_move(d->canvas, &identity, o->image_height, o->image_width, o->image_height,
                        o->image_width);
    SR_TRY(sr_transform_chain_apply(d->chain, d->canvas));
    sr_canvas_get_move(d->canvas, out);
    return SR_OK;
}
