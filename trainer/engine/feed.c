// SPDX-License-Identifier: Apache-2.0
// Feeds lanes from the data pipeline, or from pictures on the device (feed.h), and joins their
// slots to the tensors of programs (feed_internal.h); nothing else does. On a CPU, kernels read the
// slot's shared memory: pixels are written once, by the DataTransformer. Labels are the rank's own
// copies (pipeline.h).
#include "trainer/engine/feed.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "trainer/engine/feed_internal.h"
#include "trainer/engine/resident.h"

uint64_t sr_lane_source_number(void) {
    static _Atomic uint64_t sources;
    return ++sources;
}

// ---- The data of a rank as a source of lanes ----

typedef struct held_slot {
    sr_slot slot;
    bool valid;
    int uses_left; // 0: none was taken yet
    int64_t step; // of the lane: the slot's, or that of the next one; only resident pictures use it
} held_slot;

struct sr_feed {
    sr_pipeline *pipeline; // NULL: pictures are resident
    sr_resident *resident;
    sr_slot shown; // by sr_feed_peek
    int64_t wait_ns;
    sr_lane_source source;
    int lane_begin, lanes, uses; // uses: of a lane in the present step
    held_slot *held;             // of each local lane
    sr_pinned_slots pinned;
};

static held_slot *held_of(const sr_feed *feed, int lane) {
    return &feed->held[lane - feed->lane_begin];
}

static sr_status next_of_pipeline(const sr_feed *feed, int lane, held_slot *h) {
    bool end = false;
    SR_TRY(sr_pipeline_next(feed->pipeline, &h->slot, &end));
    if (!end && h->slot.lane == lane)
        return SR_OK;
    return SR_FAIL(SR_E_INTERNAL, "the data pipeline returned %s instead of lane %d",
                   end ? "no more data" : "another lane", lane);
}

static sr_status hold(sr_feed *feed, int lane) {
    held_slot *h = held_of(feed, lane);
    if (!h->valid) {
        SR_TRY(feed->resident ? sr_resident_fill(feed->resident, h->step, lane, &h->slot)
                              : next_of_pipeline(feed, lane, h));
        h->valid = true;
        h->uses_left = 0;
    }
    return SR_OK;
}

sr_status sr_feed_peek(sr_feed *feed, int lane, const sr_slot **out) {
    SR_TRY(hold(feed, lane));
    *out = &held_of(feed, lane)->slot;
    if (!feed->resident)
        return SR_OK;
    SR_TRY(sr_resident_show(feed->resident, *out, &feed->shown));
    *out = &feed->shown;
    return SR_OK;
}

static sr_status get(void *user, int lane, sr_slot *out) {
    sr_feed *feed = user;
    held_slot *h = held_of(feed, lane);
    const int64_t begin = sr_clock_ns();
    SR_TRY(hold(feed, lane));
    feed->wait_ns += sr_clock_ns() - begin;
    if (h->uses_left == 0) // it may be held since the step before
        h->uses_left = feed->uses;
    *out = h->slot;
    return SR_OK;
}

static void done(void *user, int lane) {
    sr_feed *feed = user;
    held_slot *h = held_of(feed, lane);
    if (!h->valid || --h->uses_left > 0)
        return;
    if (feed->pipeline)
        sr_pipeline_release(feed->pipeline, &h->slot);
    h->valid = false;
    h->step++;
}

// A failure is reported by the following 'get'.
static bool ahead(void *user, int lane, sr_slot *out) {
    sr_feed *feed = user;
    const held_slot *h = held_of(feed, lane);
    const bool ready = h->valid || feed->resident || sr_pipeline_is_ready(feed->pipeline);
    if (!ready || hold(feed, lane) != SR_OK)
        return false;
    *out = h->slot;
    return true;
}

static sr_status open_data(sr_feed *feed, const sr_pipeline_options *options, sr_device *device,
                           bool resident) {
    if (resident)
        return sr_resident_create(options, device, &feed->resident);
    SR_TRY(sr_pipeline_open(options, &feed->pipeline));
    if (device)
        sr_slots_pin(&feed->pinned, feed->pipeline, device);
    return SR_OK;
}

static sr_status create_feed(const sr_pipeline_options *options, int uses, sr_device *device,
                             bool resident, sr_feed **out) {
    sr_feed *feed = sr_alloc(sizeof *feed, "feed");
    if (!feed)
        return SR_E_MEMORY;
    feed->lane_begin = options->lane_begin;
    feed->lanes = options->lane_end - options->lane_begin;
    feed->uses = uses;
    feed->source = (sr_lane_source){
        .get = get, .done = done, .user = feed, .ahead = ahead, .number = sr_lane_source_number()};
    feed->held = sr_alloc_array((size_t)feed->lanes, sizeof *feed->held, "feed");
    for (int i = 0; feed->held && i < feed->lanes; i++)
        feed->held[i].step = options->position / options->batch;
    const sr_status status = feed->held ? open_data(feed, options, device, resident) : SR_E_MEMORY;
    if (status == SR_OK)
        *out = feed;
    else
        sr_feed_free(feed);
    return status;
}

sr_status sr_feed_create(const sr_pipeline_options *options, int uses, sr_device *device,
                         sr_feed **out) {
    return create_feed(options, uses, device, false, out);
}

sr_status sr_feed_create_resident(const sr_pipeline_options *options, int uses, sr_device *device,
                                  sr_feed **out) {
    return create_feed(options, uses, device, true, out);
}

void sr_feed_free(sr_feed *feed) {
    if (!feed)
        return;
    for (int i = 0; feed->held && feed->pipeline && i < feed->lanes; i++)
        if (feed->held[i].valid)
            sr_pipeline_release(feed->pipeline, &feed->held[i].slot);
    sr_slots_unpin(&feed->pinned);
    if (feed->pipeline)
        sr_pipeline_close(feed->pipeline);
    sr_resident_free(feed->resident);
    sr_free(feed->held);
    sr_free(feed);
}

void sr_feed_set_uses(sr_feed *feed, int uses) {
    feed->uses = uses;
}

const sr_lane_source *sr_feed_source(sr_feed *feed) {
    return &feed->source;
}

int64_t sr_feed_wait_ns(const sr_feed *feed) {
    return feed->wait_ns;
}

sr_pipeline_damage sr_feed_get_damage(const sr_feed *feed) {
    static const sr_pipeline_damage none = {.last = ""};
    return feed->pipeline ? sr_pipeline_get_damage(feed->pipeline) : none;
}

// ---- Memory that devices copy from ----

void sr_slot_memory_pin(sr_pinned_memory *pinned, void *memory, size_t bytes, sr_device *device) {
    *pinned = (sr_pinned_memory){.device = device};
    if (sr_device_register_host(device, memory, bytes) == SR_OK)
        pinned->memory = memory;
    else
        SR_WARN("pictures are copied more slowly: %s", sr_error_message());
}

void sr_slot_memory_unpin(sr_pinned_memory *pinned) {
    if (pinned->memory)
        sr_device_unregister_host(pinned->device, pinned->memory);
    *pinned = (sr_pinned_memory){0};
}

void sr_slots_pin(sr_pinned_slots *pinned, const sr_pipeline *pipeline, sr_device *device) {
    *pinned = (sr_pinned_slots){0};
    for (int i = 0; i < SR_PIPELINE_MEMORIES; i++) {
        void *memory;
        const size_t bytes = sr_pipeline_get_memory(pipeline, i, &memory);
        if (bytes > 0)
            sr_slot_memory_pin(&pinned->memory[i], memory, bytes, device);
    }
}

void sr_slots_unpin(sr_pinned_slots *pinned) {
    for (int i = 0; i < SR_PIPELINE_MEMORIES; i++)
        sr_slot_memory_unpin(&pinned->memory[i]);
}

// ---- Slots and tensors ----

// Input slots of a lane program: the task's inputs in its order, and behind them:
enum { INPUT_KEY = SR_TASK_INPUTS, INPUT_STOP, INPUT_LOSS_SEED };

static const sr_info key_info = {.dtype = SR_I32, .rank = 1, .dim = {4}};
static const sr_info loss_seed_info = {.dtype = SR_F32, .rank = 1, .dim = {1}};
static const sr_info stop_info = {.dtype = SR_F32, .rank = 1, .dim = {SR_FLAT_ALIGN}};

static sr_info info_of(const sr_array *array) {
    sr_info info = {.dtype = array->dtype, .rank = array->rank};
    for (int i = 0; i < array->rank; i++)
        info.dim[i] = array->shape[i];
    return info;
}

// Slots may come from the caller's own code, so their ranks are checked.
static sr_status find_array(const sr_slot *slot, const char *name, const sr_array **out) {
    SR_TRY(sr_slot_get(slot, name, out));
    if ((*out)->rank >= 0 && (*out)->rank <= SR_ARRAY_MAX_RANK)
        return SR_OK;
    return SR_FAIL(SR_E_SHAPE, "array '%s' of a slot has %d dimensions; at most %d are possible",
                   name, (*out)->rank, SR_ARRAY_MAX_RANK);
}

sr_status sr_input_feed_init(sr_input_feed *feed, sr_device *device, const sr_task_desc *task,
                             double act_seconds) {
    static const sr_stream_options direct = {.direct = true};
    *feed = (sr_input_feed){.task = task, .act_seconds = act_seconds};
    while (feed->inputs < SR_TASK_INPUTS && task->inputs[feed->inputs].name)
        feed->inputs++;
    SR_TRY(sr_stream_create(device, &direct, &feed->copies));
    return sr_event_create(device, &feed->copied);
}

void sr_input_feed_release(sr_input_feed *feed) {
    sr_event_free(feed->copied);
    sr_stream_free(feed->copies);
}

sr_status sr_input_feed_describe(sr_input_feed *feed, const sr_pipeline_options *options,
                                 int64_t samples) {
    SR_TRY(sr_pipeline_describe(options, samples, &feed->lane));
    for (int i = 0; i < feed->inputs; i++)
        if (!sr_slot_find(&feed->lane, feed->task->inputs[i].name))
            return SR_FAIL(SR_E_INTERNAL, "task %s reads '%s', which transformer %s does not fill",
                           feed->task->name, feed->task->inputs[i].name, feed->task->transformer);
    return SR_OK;
}

int64_t sr_input_feed_samples(const sr_slot *slot) {
    return slot->arrays > 0 && slot->array[0].rank > 0 ? slot->array[0].shape[0] : slot->valid;
}

sr_status sr_input_feed_record(const sr_input_feed *feed, const sr_slot *slot,
                               sr_lane_recording *r) {
    for (int i = 0; i < feed->inputs; i++) {
        const sr_task_input *input = &feed->task->inputs[i];
        const sr_array *array;
        if (input->target && !r->training)
            continue;
        SR_TRY(find_array(slot, input->name, &array));
        const sr_info info = info_of(array);
        r->inputs[i] = sr_input(r->context, i, &info);
    }
    const sr_array *image = sr_slot_find(slot, "image");
    const bool sized = slot->height > 0 || !image || image->rank != 4;
    r->height = sized ? slot->height : image->shape[1];
    r->width = sized ? slot->width : image->shape[2];
    r->samples = sr_input_feed_samples(slot);
    r->key = sr_input(r->context, INPUT_KEY, &key_info);
    return SR_OK;
}

sr_tensor sr_input_feed_record_stop(sr_context *context) {
    return sr_input(context, INPUT_STOP, &stop_info);
}

sr_tensor sr_input_feed_record_loss_seed(sr_context *context) {
    return sr_input(context, INPUT_LOSS_SEED, &loss_seed_info);
}

static sr_status check_lane(const sr_input_feed *feed, const sr_array *array) {
    const sr_info info = info_of(array), wanted = info_of(sr_slot_find(&feed->lane, array->name));
    char text[2][96];
    if (memcmp(&info, &wanted, sizeof info) == 0)
        return SR_OK;
    return SR_FAIL(SR_E_SHAPE, "array '%s' of a lane is %s; task %s reads %s", array->name,
                   sr_info_text(&info, text[0]), feed->task->name, sr_info_text(&wanted, text[1]));
}

// The first element that is neither a class nor ignored; 'count' if there is none.
static int64_t find_no_class_u8(const uint8_t *values, int64_t count, int64_t classes,
                                int ignored) {
    int64_t i = 0;
    while (i < count && (values[i] < classes || (ignored > 0 && values[i] == ignored)))
        i++;
    return i;
}

static int64_t find_no_class_i32(const int32_t *values, int64_t count, int64_t classes,
                                 int ignored) {
    int64_t i = 0;
    while (i < count && (values[i] < classes || (ignored > 0 && values[i] == ignored)))
        i++;
    return i;
}

static sr_status check_classes(const sr_input_feed *feed, const sr_task_input *input,
                               const sr_array *array) {
    const sr_info info = info_of(array);
    const int64_t count = sr_info_count(&info);
    int64_t at, value = 0;
    char ignored[32] = "negative labels";
    if (array->dtype == SR_U8)
        at = find_no_class_u8(array->data, count, feed->classes, input->ignored);
    else if (array->dtype == SR_I32)
        at = find_no_class_i32(array->data, count, feed->classes, input->ignored);
    else
        return SR_FAIL(SR_E_INTERNAL, "task %s reads classes from array '%s', whose type is %s",
                       feed->task->name, array->name, sr_dtype_name(array->dtype));
    if (at == count)
        return SR_OK;
    value = array->dtype == SR_U8 ? ((const uint8_t *)array->data)[at]
                                  : ((const int32_t *)array->data)[at];
    if (input->ignored > 0)
        (void)snprintf(ignored, sizeof ignored, "labels of %d", input->ignored);
    return SR_FAIL(SR_E_DATA,
                   "sample %lld of the lane has label %lld, but the model has %lld classes (0 to "
                   "%lld); %s are ignored",
                   (long long)(at / (count / array->shape[0])), (long long)value,
                   (long long)feed->classes, (long long)feed->classes - 1, ignored);
}

static size_t bytes_of(const sr_array *array) {
    const sr_info info = info_of(array);
    return (size_t)sr_info_count(&info) * sr_dtype_size(info.dtype);
}

sr_status sr_input_feed_reserve(const sr_input_feed *feed, sr_input_set *set) {
    const sr_lane_settings *settings = NULL; // for its types
    for (int i = 0; i < feed->inputs; i++)
        SR_TRY(sr_input_set_reserve(
            set, i, bytes_of(sr_slot_find(&feed->lane, feed->task->inputs[i].name))));
    SR_TRY(sr_input_set_reserve(set, INPUT_KEY, sizeof settings->key));
    SR_TRY(sr_input_set_reserve(set, INPUT_STOP, sizeof settings->stop));
    return sr_input_set_reserve(set, INPUT_LOSS_SEED, sizeof settings->loss_seed);
}

sr_status sr_input_feed_wait(sr_input_feed *feed) {
    SR_TRY(sr_event_record(feed->copied, feed->copies));
    SR_TRY(sr_event_wait(feed->copied, feed->act_seconds));
    return sr_stream_wait(feed->copies);
}

// The arrays that a lane program reads; NULL for those that inference does without.
static sr_status find_arrays(const sr_input_feed *feed, const sr_slot *slot, bool training,
                             const sr_array *arrays[SR_TASK_INPUTS]) {
    for (int i = 0; i < feed->inputs; i++) {
        const sr_task_input *input = &feed->task->inputs[i];
        arrays[i] = NULL;
        if (input->target && !training)
            continue;
        SR_TRY(find_array(slot, input->name, &arrays[i]));
        if (training)
            SR_TRY(check_lane(feed, arrays[i]));
        const bool made = arrays[i]->maker && !input->is_class; // classes are checked here
        if (!arrays[i]->data && !made)
            return SR_FAIL(SR_E_ARGUMENT, "array '%s' of a slot has no data", arrays[i]->name);
        if (input->is_class && feed->classes > 0)
            SR_TRY(check_classes(feed, input, arrays[i]));
    }
    return SR_OK;
}

// lane: of the set.
static sr_status copy_array(const sr_input_feed *feed, const sr_slot *slot, const sr_array *array,
                            sr_input_set *set, int input, int lane) {
    sr_address to;
    if (!array->maker)
        return sr_input_set_fill(set, input, lane, array->data, bytes_of(array), feed->copies);
    SR_TRY(sr_input_set_place(set, input, lane, bytes_of(array), &to));
    return array->maker->make(array->maker->user, slot->lane, to, feed->copies);
}

static sr_status copy_arrays(const sr_input_feed *feed, const sr_slot *slot,
                             const sr_array *const *arrays, sr_input_set *set, int lane) {
    for (int i = 0; i < feed->inputs; i++)
        if (arrays[i])
            SR_TRY(copy_array(feed, slot, arrays[i], set, i, lane));
    return SR_OK;
}

static sr_status copy_settings(const sr_input_feed *feed, const sr_lane_settings *s,
                               sr_input_set *set, int lane) {
    SR_TRY(sr_input_set_fill(set, INPUT_KEY, lane, s->key, sizeof s->key, feed->copies));
    if (!s->trains)
        return SR_OK;
    SR_TRY(sr_input_set_fill(set, INPUT_STOP, lane, s->stop, sizeof s->stop, feed->copies));
    return sr_input_set_fill(set, INPUT_LOSS_SEED, lane, s->loss_seed, sizeof s->loss_seed,
                             feed->copies);
}

sr_status sr_input_feed_copy(sr_input_feed *feed, const sr_slot *slot, sr_input_set *set,
                             int lane) {
    const sr_array *arrays[SR_TASK_INPUTS];
    SR_TRY(find_arrays(feed, slot, true, arrays));
    return copy_arrays(feed, slot, arrays, set, lane);
}

sr_status sr_input_feed_fill(sr_input_feed *feed, const sr_slot *slot,
                             const sr_lane_settings *settings, bool copied, sr_input_set *set,
                             int lane) {
    const sr_array *arrays[SR_TASK_INPUTS];
    SR_TRY(find_arrays(feed, slot, settings->trains, arrays));
    if (!copied)
        SR_TRY(copy_arrays(feed, slot, arrays, set, lane));
    SR_TRY(copy_settings(feed, settings, set, lane));
    return sr_input_feed_wait(feed);
}
