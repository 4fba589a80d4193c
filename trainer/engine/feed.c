// SPDX-License-Identifier: Apache-2.0
// Feeds lanes from the data pipeline (feed.h). On a CPU, kernels read the slot's shared memory:
// pixels are written once, by the DataTransformer.
#include "trainer/engine/feed.h"

#include "kernels/base/memory.h"

typedef struct held_slot {
    sr_slot slot;
    bool valid;
    int uses_left;
} held_slot;

struct sr_feed {
    sr_pipeline *pipeline;
    sr_lane_source source;
    int lane_begin, lanes, uses;
    held_slot *held; // of each local lane
};

sr_status sr_feed_inputs(const sr_slot *slot, sr_lane_inputs *out) {
    const sr_array *image = sr_slot_find(slot, "image"), *label = sr_slot_find(slot, "label");
    if (!image || !label)
        return SR_FAIL(SR_E_INTERNAL, "a data slot has no %s", image ? "label" : "image");
    *out = (sr_lane_inputs){.image = image->data, .label = label->data};
    return SR_OK;
}

sr_status sr_feed_peek(sr_feed *feed, int lane, const sr_slot **out) {
    held_slot *h = &feed->held[lane - feed->lane_begin];
    if (!h->valid) {
        bool end = false;
        SR_TRY(sr_pipeline_next(feed->pipeline, &h->slot, &end));
        if (end || h->slot.lane != lane)
            return SR_FAIL(SR_E_INTERNAL, "the data pipeline returned %s instead of lane %d",
                           end ? "no more data" : "another lane", lane);
        h->valid = true;
        h->uses_left = feed->uses;
    }
    *out = &h->slot;
    return SR_OK;
}

static sr_status get(void *user, int lane, sr_lane_inputs *out) {
    const sr_slot *slot = NULL;
    SR_TRY(sr_feed_peek(user, lane, &slot));
    return sr_feed_inputs(slot, out);
}

static void done(void *user, int lane) {
    sr_feed *feed = user;
    held_slot *h = &feed->held[lane - feed->lane_begin];
    if (!h->valid || --h->uses_left > 0)
        return;
    sr_pipeline_release(feed->pipeline, &h->slot);
    h->valid = false;
}

sr_status sr_feed_create(const sr_pipeline_options *options, int uses, sr_feed **out) {
    sr_status status = SR_OK;
    sr_feed *feed = sr_alloc(sizeof *feed, "feed");
    if (!feed)
        return SR_E_MEMORY;
    feed->lane_begin = options->lane_begin;
    feed->lanes = options->lane_end - options->lane_begin;
    feed->uses = uses;
    feed->source = (sr_lane_source){.get = get, .done = done, .user = feed};
    feed->held = sr_alloc_array((size_t)feed->lanes, sizeof *feed->held, "feed");
    if (!feed->held) {
        status = SR_E_MEMORY;
        goto fail;
    }
    SR_TRY_GOTO(sr_pipeline_open(options, &feed->pipeline), fail);
    *out = feed;
    return SR_OK;
fail:
    sr_feed_free(feed);
    return status;
}

void sr_feed_free(sr_feed *feed) {
    if (!feed)
        return;
    for (int i = 0; feed->held && i < feed->lanes; i++)
        if (feed->held[i].valid)
            sr_pipeline_release(feed->pipeline, &feed->held[i].slot);
    if (feed->pipeline)
        sr_pipeline_close(feed->pipeline);
    sr_free(feed->held);
    sr_free(feed);
}

const sr_lane_source *sr_feed_source(sr_feed *feed) {
    return &feed->source;
}

sr_pipeline *sr_feed_pipeline(sr_feed *feed) {
    return feed->pipeline;
}
