// SPDX-License-Identifier: Apache-2.0
// Whether lanes are large enough for batch norm (inputs.h): its statistics in training are those of
// a lane's own samples, or of a group of lanes.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graph/call_layers.h"
#include "kernels/base/log.h"
#include "trainer/run/inputs.h"

enum { FEW_SAMPLES = 16, LAYER_BYTES = 128 };

// The batch norm with the fewest values for a channel's statistics.
typedef struct smallest_norm {
    int64_t values; // 0: there is no batch norm
    char layer[LAYER_BYTES];
} smallest_norm;

// lanes: of a group with common statistics.
static sr_status look_at(const sr_context *context, int64_t lanes, smallest_norm *out) {
    const int count = sr_call_count(context);
    sr_layer *layers = sr_alloc_array((size_t)count + 1, sizeof *layers, "layers");
    if (!layers)
        return SR_E_MEMORY;
    const sr_status status = sr_call_layers(context, layers);
    for (int i = 0; status == SR_OK && i < count; i++) {
        sr_call_view call;
        sr_call_get(context, i, &call);
        const bool shared = strcmp(call.op->name, "batchnorm_moments") == 0;
        if (!shared && strcmp(call.op->name, "batchnorm_train") != 0)
            continue;
        const int64_t rows = sr_info_count(&call.in[0]) / call.in[0].dim[call.in[0].rank - 1];
        const int64_t values = shared ? rows * lanes : rows;
        if (out->values > 0 && values >= out->values)
            continue;
        out->values = values;
        (void)snprintf(out->layer, LAYER_BYTES, "%.*s", layers[i].length,
                       layers[i].name ? layers[i].name : "");
    }
    sr_free(layers);
    return status;
}

// Images that grow have the fewest pixels at the start. scale: of their sides.
static sr_status find_smallest(sr_engine *engine, int64_t scale, smallest_norm *out) {
    const sr_engine_info e = sr_engine_get_info(engine);
    const int64_t from = e.recipe->progressive.from;
    *out = (smallest_norm){0};
    for (int p = 0; p < e.phases; p++) {
        sr_plan *plan;
        SR_TRY(sr_engine_compile_size(engine, p, scale * (from > 0 ? from : e.image_height),
                                      scale * (from > 0 ? from : e.image_width), &plan));
        SR_TRY(look_at(e.context, e.recipe->sync_bn, out));
    }
    return SR_OK;
}

// Whether batch norm has more values in larger images. A map that is pooled over the whole image
// has not.
static bool grows_with_images(sr_engine *engine) {
    smallest_norm larger;
    return find_smallest(engine, 2, &larger) == SR_OK && larger.values > 1;
}

// "lower lanes to 4": the most lanes with enough samples; else a larger batch.
static const char *cure(const sr_engine_info *e, char out[96]) {
    int64_t lanes = e->lanes - 1;
    while (lanes > 1 && (e->batch % lanes != 0 || e->batch / lanes < FEW_SAMPLES))
        lanes--;
    if (lanes >= 1)
        (void)snprintf(out, 96, "give lanes=%" PRId64 "%s%s", lanes,
                       e->batch / lanes < FEW_SAMPLES ? " and a larger batch" : "",
                       e->recipe->sync_bn < e->lanes ? ", or sync_bn=all" : "");
    else
        (void)snprintf(out, 96, "raise batch");
    return out;
}

sr_status sr_inputs_check_lanes(sr_engine *engine, bool warn) {
    const sr_engine_info e = sr_engine_get_info(engine);
    smallest_norm norm;
    char text[96];
    SR_TRY(find_smallest(engine, 1, &norm));
    if (norm.values == 1) {
        return sr_recipe_fail(
            e.recipe, "lanes",
            "batch norm %s has one value for each channel (batch %" PRId64 " in %d lane%s: one "
            "sample of one pixel), so its output is constant and nothing is learned: %s%s",
            norm.layer, e.batch, e.lanes, e.lanes == 1 ? "" : "s", cure(&e, text),
            grows_with_images(engine) ? ", or use larger images" : "");
    }
    const int64_t samples = e.lane_samples * e.recipe->sync_bn;
    if (warn && norm.values > 0 && samples < FEW_SAMPLES) {
        SR_WARN("batch %" PRId64 " in %d lane%s: batch norm has the statistics of %" PRId64
                " sample%s, which are noisy below %d: %s",
                e.batch, e.lanes, e.lanes == 1 ? "" : "s", samples, samples == 1 ? "" : "s",
                FEW_SAMPLES, cure(&e, text));
    }
    return SR_OK;
}
