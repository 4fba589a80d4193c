// SPDX-License-Identifier: Apache-2.0
// The rank's side of the data pipeline: checks options, starts the stages, delivers slots in order.
//
// The sampler and the transforms determine the contents of a slot; this file only waits for it,
// with a deadline and a report of what each stage is doing. stage_internal.h describes how the
// stages work together.
#include "dataio/pipeline/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/pipeline/slot_copy_internal.h"
#include "dataio/pipeline/stage_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "kernels/base/process.h"
#include "kernels/base/watch.h"

#define REPORT_SECONDS 10
#define ACT_SECONDS 120
#define CHECK_NS (10 * SR_NS_PER_MS) // interval of checks for dead processes while waiting

struct sr_pipeline {
    sr_dataset *dataset; // for messages
    sr_stage_memory memory;
    sr_stage view;        // of the memory; does no work of a stage
    uint8_t *copies;      // of the slot buffers (slot_copy_internal.h)
    size_t copy_bytes;    // of each
    sr_row_state *states; // of the slot that is taken
    sr_supervisor *supervisor;
    int64_t next;
    _Atomic int64_t held; // slots that the caller has not released
    sr_stage_error failure;
    bool at_sample; // that is the error of a sample
    sr_pipeline_stats stats;
    double fill[2];
    int64_t fill_samples;
    void *damaged; // int64_t: distinct samples that were replaced
    size_t damaged_count, damaged_capacity;
    char last_damage[1200];
    void *order; // sr_pipeline_order: epochs, in order
    size_t order_count, order_capacity;
};

const sr_array *sr_slot_find(const sr_slot *slot, const char *name) {
    for (int i = 0; i < slot->arrays; i++)
        if (strcmp(slot->array[i].name, name) == 0)
            return &slot->array[i];
    return NULL;
}

sr_status sr_slot_get(const sr_slot *slot, const char *name, const sr_array **out) {
    char names[512] = "";
    size_t used = 0;
    *out = sr_slot_find(slot, name);
    if (*out)
        return SR_OK;
    for (int i = 0; i < slot->arrays && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 slot->array[i].name);
    return SR_FAIL(SR_E_ARGUMENT, "a slot has no array '%s'; it has %s", name,
                   slot->arrays ? names : "none");
}

static sr_status check_draws(const sr_pipeline_options *o) {
    if (o->order != SR_ORDER_EXAMPLES && (o->repeats > 1 || o->balance > 0))
        return SR_FAIL(SR_E_USAGE,
                       "repeated samples and drawing by class need the order 'examples'");
    if (o->repeats < 0 || o->repeats > o->lanes)
        return SR_FAIL(SR_E_USAGE, "%d copies of a sample need as many lanes, but there are %d",
                       o->repeats, o->lanes);
    if (!(o->balance >= 0 && o->balance <= 1))
        return SR_FAIL(SR_E_USAGE, "the balance of classes is %g, but must be 0 to 1", o->balance);
    if (o->balance > 0 && !o->labels)
        return SR_FAIL(SR_E_ARGUMENT,
                       "pipeline: samples are drawn by class, but labels are missing");
    return SR_OK;
}

// Every size is from 1 to the image size, for which the slots have room.
static sr_status check_growth(const sr_pipeline_options *o) {
    const sr_image_growth *g = &o->growth;
    if (g->from == 0)
        return SR_OK;
    if (o->image_height != o->image_width || g->from < 1 || g->from > o->image_width ||
        g->step < 1 || (o->image_width - g->from) % g->step != 0 || g->begin < 0 ||
        g->end < g->begin)
        return SR_FAIL(SR_E_USAGE, "images cannot grow from %lld to %lld x %lld in steps of %lld",
                       (long long)g->from, (long long)o->image_width, (long long)o->image_height,
                       (long long)g->step);
    return SR_OK;
}

static sr_status check_options(const sr_pipeline_options *o) {
    if (!o->dataset)
        return SR_FAIL(SR_E_ARGUMENT, "pipeline: no data set given");
    if (o->image_height < 1 || o->image_width < 1 || o->image_height > 1 << 16 ||
        o->image_width > 1 << 16)
        return SR_FAIL(SR_E_USAGE, "image size %lld x %lld; sides are 1 to 65536 pixels",
                       (long long)o->image_width, (long long)o->image_height);
    if (o->whole_pixels < 0 || o->whole_pixels > SR_DECODE_MAX_PIXELS || o->mask_pixels < 0 ||
        o->mask_pixels > SR_DECODE_MAX_PIXELS)
        return SR_FAIL(SR_E_ARGUMENT,
                       "pipeline: pictures of up to %lld pixels, masks of up to %lld",
                       (long long)o->whole_pixels, (long long)o->mask_pixels);
    if (o->batch < 1 || o->lanes < 1 || o->batch % o->lanes != 0)
        return SR_FAIL(SR_E_USAGE, "batch %lld is not a positive multiple of %d lanes",
                       (long long)o->batch, o->lanes);
    if (o->lane_begin < 0 || o->lane_end <= o->lane_begin || o->lane_end > o->lanes)
        return SR_FAIL(SR_E_ARGUMENT, "pipeline: lanes %d to %d of %d", o->lane_begin, o->lane_end,
                       o->lanes);
    if (o->position < 0 || (o->order == SR_ORDER_CHUNKS && o->position % o->batch != 0))
        return SR_FAIL(SR_E_ARGUMENT, "pipeline: cannot begin at sample %lld with batches of %lld",
                       (long long)o->position, (long long)o->batch);
    if (o->workers < 0 || o->workers > SR_STAGE_MAX_WORKERS || o->transform_count < 0)
        return SR_FAIL(SR_E_USAGE, "data.workers=%d is not 0 (one per core) to %d", o->workers,
                       SR_STAGE_MAX_WORKERS);
    SR_TRY(check_draws(o));
    SR_TRY(check_growth(o));
    sr_transform_chain *chain;
    SR_TRY(sr_transform_chain_create(o->transforms, o->transform_count, &chain));
    sr_transform_chain_free(chain);
    return SR_OK;
}

static void fill_defaults(sr_pipeline_options *o) {
    if (o->workers == 0)
        o->workers = sr_cpu_count() < SR_STAGE_MAX_WORKERS ? sr_cpu_count() : SR_STAGE_MAX_WORKERS;
    if (!(o->report_seconds > 0))
        o->report_seconds = REPORT_SECONDS;
    if (!(o->act_seconds > 0))
        o->act_seconds = ACT_SECONDS;
}

static sr_status make_copies(sr_pipeline *p) {
    const sr_stage_plan *plan = &p->view.plan;
    p->copy_bytes = sr_slot_copy_bytes(&p->view);
    p->copies = sr_alloc_array((size_t)plan->slots, p->copy_bytes, "labels of slots");
    p->states = sr_alloc_array((size_t)plan->samples, sizeof *p->states, "samples of a slot");
    return p->copies && p->states ? SR_OK : SR_E_MEMORY;
}

// To be freed even after a failure.
static sr_status open_dataset(const sr_pipeline_options *o, sr_dataset **out) {
    const sr_status status = sr_dataset_open(o->dataset, o->split, out);
    if (status != SR_OK)
        return o->identity ? sr_dataset_fail_reopen(status, o->dataset) : status;
    SR_TRY(sr_dataset_check_identity(*out, o->dataset, o->identity));
    return sr_dataset_count(*out) > 0 ? SR_OK
                                      : SR_FAIL(SR_E_DATA, "%s: the split '%s' is empty",
                                                o->dataset, o->split ? o->split : "");
}

sr_status sr_pipeline_measure(const sr_pipeline_options *options, uint64_t *bytes) {
    sr_pipeline_options o = *options;
    sr_dataset *dataset = NULL;
    SR_TRY(check_options(&o));
    fill_defaults(&o);
    sr_status status = open_dataset(&o, &dataset);
    if (status == SR_OK)
        status = sr_stage_measure(&o, dataset, bytes);
    sr_dataset_free(dataset);
    return status;
}

sr_status sr_pipeline_open(const sr_pipeline_options *options, sr_pipeline **out) {
    sr_pipeline_options o = *options;
    SR_TRY(check_options(&o));
    fill_defaults(&o);
    sr_pipeline *p = sr_alloc(sizeof *p, "data pipeline");
    if (!p)
        return SR_E_MEMORY;
    sr_status status;
    p->view.parent_pidfd = -1;
    SR_TRY_GOTO(open_dataset(&o, &p->dataset), fail);
    SR_TRY_GOTO(sr_stage_create(&o, p->dataset, &p->memory), fail);
    SR_TRY_GOTO(sr_stage_init(&p->view, &p->memory, SR_STAGE_READER), fail);
    SR_TRY_GOTO(make_copies(p), fail);
    SR_TRY_GOTO(sr_supervisor_start(&p->memory, o.threads, &p->supervisor), fail);
    *out = p;
    return SR_OK;
fail:
    sr_pipeline_close(p);
    return status;
}

void sr_pipeline_close(sr_pipeline *pipeline) {
    if (!pipeline)
        return;
    sr_watch watch;
    sr_watch_begin(&watch, "the data processes to end");
    sr_supervisor_stop(pipeline->supervisor);
    sr_watch_end(&watch);
    sr_stage_release(&pipeline->view);
    sr_stage_memory_release(&pipeline->memory);
    sr_free(pipeline->copies);
    sr_free(pipeline->states);
    sr_dataset_free(pipeline->dataset);
    sr_free(pipeline->damaged);
    sr_free(pipeline->order);
    sr_free(pipeline);
}

// -- waiting -----------------------------------------------------------------------------------

static const char *activity_text(int32_t activity) {
    static const char *const texts[] = {
        [SR_ACTIVITY_STARTING] = "starting",
        [SR_ACTIVITY_READING] = "reading",
        [SR_ACTIVITY_DECODING] = "decoding",
        [SR_ACTIVITY_ASSEMBLING] = "assembling",
        [SR_ACTIVITY_WAITING_ROOM] = "waiting for a transformer",
        [SR_ACTIVITY_WAITING_RECORDS] = "waiting for the reader",
        [SR_ACTIVITY_WAITING_SLOT] = "waiting for a free slot",
        [SR_ACTIVITY_WAITING_ROWS] = "waiting for transformers",
        [SR_ACTIVITY_DONE] = "done",
    };
    return activity >= 0 && activity <= SR_ACTIVITY_DONE ? texts[activity] : "?";
}

// "reader is decoding train-00002.kpl record 17; iterator is waiting for transformers; ..."
static void describe_stages(const sr_pipeline *p, sr_text *out) {
    const sr_stage_plan *plan = &p->view.plan;
    for (int i = 0; i < SR_STAGE_TRANSFORMER + plan->workers; i++) {
        char name[32], sample_name[300] = "";
        int32_t activity = atomic_load(&p->view.header->states[i].activity);
        int64_t sample = atomic_load(&p->view.header->states[i].sample);
        bool busy = activity == SR_ACTIVITY_READING || activity == SR_ACTIVITY_DECODING;
        if (busy && sample >= 0 && sample < plan->count)
            sr_dataset_sample_name(p->dataset, sample, sample_name);
        bool stopped = sr_process_is_stopped(sr_supervisor_pid(p->supervisor, i));
        sr_text_add(out, "%s%s", i ? "; " : "", sr_stage_name(i, name));
        if (stopped)
            sr_text_add(out, " (pid %d)", (int)sr_supervisor_pid(p->supervisor, i));
        sr_text_add(out, " is %s%s%s", stopped ? "stopped (SIGSTOP)" : activity_text(activity),
                    sample_name[0] ? " " : "", sample_name);
    }
}

static sr_status report(const sr_pipeline *p, double seconds, bool act) {
    int64_t step;
    int lane;
    sr_text text;
    (void)sr_stage_position(&p->view.plan, p->next, &step, &lane);
    sr_text_init(&text);
    describe_stages(p, &text);
    sr_status status = SR_OK;
    if (act)
        status = SR_FAIL(SR_E_TIMEOUT,
                         "waited %.0f s (deadline.act) for the data of step %lld, lane %d: %s",
                         seconds, (long long)step, lane, text.data);
    else
        sr_log_alarm("%swaiting %.0f s for the data of step %lld, lane %d: %s", sr_watch_who(),
                     seconds, (long long)step, lane, text.data);
    sr_text_release(&text);
    return status;
}

static bool is_ready(const sr_pipeline *p) {
    return atomic_load_explicit(&p->view.header->ready, memory_order_acquire) > (uint64_t)p->next;
}

static sr_status wait_ready(sr_pipeline *p) {
    const sr_stage_plan *plan = &p->view.plan;
    int64_t begin = sr_clock_ns(), watched = sr_watch_clock_ns();
    double reported = 0;
    for (;;) {
        uint32_t seen = sr_bell_read(&p->view.header->ready_bell);
        SR_TRY(sr_supervisor_check(p->supervisor, p->dataset));
        if (is_ready(p))
            break;
        if (atomic_load(&p->held) >= plan->slots)
            return SR_FAIL(
                SR_E_ARGUMENT,
                "all %lld slots are held by the caller; release one before requesting the next",
                (long long)plan->slots);
        double seconds = (double)(sr_watch_clock_ns() - watched) / 1e9;
        if (seconds >= plan->options.act_seconds)
            return report(p, seconds, true);
        if (seconds - reported >= plan->options.report_seconds) {
            (void)report(p, seconds, false);
            reported = seconds;
        }
        sr_bell_wait(&p->view.header->ready_bell, seen, CHECK_NS);
    }
    p->stats.wait_ns += sr_clock_ns() - begin;
    return SR_OK;
}

// -- slots -------------------------------------------------------------------------------------

// Adds the array of a spec and, if it is ragged, its companion, without data.
static void describe_array(const sr_array_spec *spec, int64_t samples, sr_slot *slot) {
    int64_t capacity = spec->capacity > 0 ? spec->capacity : 1;
    sr_array *a = &slot->array[slot->arrays++];
    *a = (sr_array){.name = spec->name,
                    .dtype = spec->dtype,
                    .rank = spec->rank + 1,
                    .shape = {samples * capacity},
                    .count = spec->capacity > 0 ? 0 : samples};
    for (int d = 0; d < spec->rank; d++)
        a->shape[d + 1] = spec->shape[d];
    if (spec->capacity == 0)
        return;
    slot->array[slot->arrays++] = (sr_array){
        .name = spec->count_name, .dtype = SR_I32, .rank = 1, .shape = {samples}, .count = samples};
}

sr_status sr_pipeline_describe(const sr_pipeline_options *options, int64_t samples, sr_slot *out) {
    const sr_transformer *transformer;
    sr_array_spec specs[SR_SLOT_MAX_ARRAYS];
    SR_TRY(sr_transformer_find(options->transformer, &transformer));
    const int arrays = transformer->arrays(options, specs);
    *out = (sr_slot){.valid = samples};
    for (int i = 0; i < arrays; i++)
        describe_array(&specs[i], samples, out);
    return SR_OK;
}

static void add_array(const sr_pipeline *p, const sr_slot_copy *copy, int i, sr_slot *slot) {
    sr_array *a = &slot->array[slot->arrays];
    describe_array(&p->view.array[i], p->view.plan.samples, slot);
    a->count = copy->rows[i];
    a->data = copy->array[i];
    if (copy->count[i])
        a[1].data = copy->count[i];
}

static int64_t valid_samples(const sr_stage_plan *plan, int64_t first) {
    if (plan->options.order != SR_ORDER_ONCE)
        return plan->samples;
    int64_t left = plan->count > first ? plan->count - first : 0;
    return left < plan->samples ? left : plan->samples;
}

static void note_fill(sr_pipeline *p) {
    const sr_stage_plan *plan = &p->view.plan;
    double rings = 0;
    for (int w = 0; w < plan->workers; w++)
        rings += sr_ring_fill(sr_stage_ring(plan, w));
    uint64_t ready = atomic_load_explicit(&p->view.header->ready, memory_order_relaxed);
    p->fill[0] += rings / plan->workers;
    p->fill[1] += (double)(ready - (uint64_t)p->next) / (double)plan->slots;
    p->fill_samples++;
}

// Linear search is enough: more than skip_limit damaged samples end the run.
static bool is_known(const sr_pipeline *p, int64_t sample) {
    for (size_t i = 0; i < p->damaged_count; i++)
        if (((const int64_t *)p->damaged)[i] == sample)
            return true;
    return false;
}

static sr_status note_damage(sr_pipeline *p, const sr_stage_error *error) {
    const sr_stage_plan *plan = &p->view.plan;
    for (int64_t s = 0; s < plan->samples; s++) {
        const int64_t damaged = p->states[s].replaced - 1;
        p->stats.replaced += damaged >= 0;
        if (damaged < 0 || is_known(p, damaged))
            continue;
        SR_TRY(sr_grow(&p->damaged, &p->damaged_capacity, p->damaged_count + 1, sizeof(int64_t),
                       "damaged samples"));
        ((int64_t *)p->damaged)[p->damaged_count++] = damaged;
        (void)sr_stage_error_text(error, p->dataset, p->last_damage);
    }
    if ((int64_t)p->damaged_count <= plan->options.skip_limit)
        return SR_OK;
    return SR_FAIL(SR_E_DATA, "%zu damaged samples, more than on_corrupt: skip:%lld allows; %s",
                   p->damaged_count, (long long)plan->options.skip_limit, p->last_damage);
}

// Finds or adds the entry of an epoch; lanes reach an epoch at slightly different times.
static sr_status find_epoch(sr_pipeline *p, int64_t epoch, sr_pipeline_order **out) {
    sr_pipeline_order *all = p->order;
    for (size_t i = p->order_count; i-- > 0 && all[i].epoch >= epoch;) {
        if (all[i].epoch == epoch) {
            *out = &all[i];
            return SR_OK;
        }
    }
    SR_TRY(sr_grow(&p->order, &p->order_capacity, p->order_count + 1, sizeof *all, "epochs"));
    all = p->order;
    size_t at = p->order_count++;
    for (; at > 0 && all[at - 1].epoch > epoch; at--)
        all[at] = all[at - 1];
    all[at] = (sr_pipeline_order){.epoch = epoch};
    *out = &all[at];
    return SR_OK;
}

static sr_status note_order(sr_pipeline *p, int64_t first, int64_t valid) {
    const sr_row_state *states = p->states;
    sr_pipeline_order *order = NULL;
    // Lanes are never more than a batch apart; anything else was written by a faulty process.
    const int64_t count = p->view.plan.count, reach = p->view.plan.options.batch / count + 1;
    for (int64_t s = 0; s < valid; s++) {
        if (states[s].epoch < 0 || llabs(states[s].epoch - (first + s) / count) > reach)
            return sr_stage_corrupted("the epoch of a sample");
        if (!order || order->epoch != states[s].epoch)
            SR_TRY(find_epoch(p, states[s].epoch, &order));
        order->samples++;
        order->hash += states[s].order;
    }
    return SR_OK;
}

static sr_status take_slot(sr_pipeline *p, sr_slot *out) {
    const sr_stage_plan *plan = &p->view.plan;
    sr_slot_header *header = sr_stage_slot(plan, p->next);
    uint8_t *memory = p->copies + (size_t)(p->next % plan->slots) * p->copy_bytes;
    sr_slot_copy copy;
    sr_stage_shape(&p->view, p->next);
    SR_TRY(sr_slot_copy_take(&p->view, header, memory, p->states, &copy));
    p->at_sample = atomic_load(&copy.error.status) != SR_OK;
    SR_TRY(sr_stage_error_adopt(&copy.error, p->dataset));
    SR_TRY(note_damage(p, &copy.error));
    sr_slot slot = {.internal = (void *)((uintptr_t)p->next + 1)};
    slot.first_position = sr_stage_position(plan, p->next, &slot.step, &slot.lane);
    slot.valid = valid_samples(plan, slot.first_position);
    SR_TRY(note_order(p, slot.first_position, slot.valid));
    for (int i = 0; i < p->view.arrays; i++)
        add_array(p, &copy, i, &slot);
    p->stats.samples += slot.valid;
    *out = slot;
    return SR_OK;
}

sr_status sr_pipeline_next(sr_pipeline *pipeline, sr_slot *out, bool *end) {
    SR_TRY(sr_stage_error_adopt(&pipeline->failure, NULL));
    if (pipeline->next >= pipeline->view.plan.total) {
        *out = (sr_slot){0};
        *end = true;
        return SR_OK;
    }
    note_fill(pipeline);
    sr_status status = wait_ready(pipeline);
    if (status == SR_OK)
        status = take_slot(pipeline, out);
    if (status != SR_OK) {
        if (status != SR_E_ARGUMENT) // after a caller's mistake the pipeline remains usable
            sr_stage_error_set(&pipeline->failure, status, -1);
        return status;
    }
    pipeline->next++;
    atomic_fetch_add(&pipeline->held, 1);
    *end = false;
    return SR_OK;
}

bool sr_pipeline_is_damaged(const sr_pipeline *pipeline) {
    return pipeline->at_sample;
}

bool sr_pipeline_is_ready(const sr_pipeline *pipeline) {
    return pipeline->next < pipeline->view.plan.total && is_ready(pipeline);
}

void sr_pipeline_release(sr_pipeline *pipeline, sr_slot *slot) {
    if (!slot->internal)
        return;
    const sr_stage_plan *plan = &pipeline->view.plan;
    int64_t number = (int64_t)((uintptr_t)slot->internal - 1);
    sr_slot_header *header = sr_stage_slot(plan, number);
    atomic_store_explicit(&header->free_for, (uint64_t)(number + plan->slots),
                          memory_order_release);
    atomic_fetch_sub(&pipeline->held, 1);
    sr_bell_ring(&pipeline->view.header->free_bell);
    *slot = (sr_slot){0};
}

size_t sr_pipeline_get_memory(const sr_pipeline *pipeline, int index, void **out) {
    const sr_stage_plan *plan = &pipeline->view.plan;
    *out = index == 0 ? plan->base + plan->slot_buffers : pipeline->copies;
    return (size_t)plan->slots * (index == 0 ? (size_t)plan->layout.bytes : pipeline->copy_bytes);
}

sr_pipeline_stats sr_pipeline_get_stats(const sr_pipeline *pipeline) {
    const sr_stage_plan *plan = &pipeline->view.plan;
    sr_pipeline_stats stats = pipeline->stats;
    const sr_stage_state *reader = &pipeline->view.header->states[SR_STAGE_READER];
    stats.read_ns = atomic_load(&reader->first_ns);
    stats.bytes_read = atomic_load(&reader->bytes);
    stats.seeks = atomic_load(&reader->seeks);
    stats.assemble_ns = atomic_load(&pipeline->view.header->states[SR_STAGE_ITERATOR].first_ns);
    for (int w = 0; w < plan->workers; w++) {
        stats.decode_ns +=
            atomic_load(&pipeline->view.header->states[SR_STAGE_TRANSFORMER + w].first_ns);
        stats.augment_ns +=
            atomic_load(&pipeline->view.header->states[SR_STAGE_TRANSFORMER + w].second_ns);
    }
    stats.restarts = sr_supervisor_restarts(pipeline->supervisor);
    for (int i = 0; i < 2 && pipeline->fill_samples > 0; i++)
        stats.ring_fill[i] = pipeline->fill[i] / (double)pipeline->fill_samples;
    return stats;
}

sr_pipeline_damage sr_pipeline_get_damage(const sr_pipeline *pipeline) {
    return (sr_pipeline_damage){.samples = pipeline->damaged,
                                .count = pipeline->damaged_count,
                                .last = pipeline->last_damage};
}

const sr_pipeline_order *sr_pipeline_get_order(const sr_pipeline *pipeline, size_t *count) {
    *count = pipeline->order_count;
    return pipeline->order;
}

int sr_pipeline_stage_count(const sr_pipeline *pipeline) {
    return SR_STAGE_TRANSFORMER + pipeline->view.plan.workers;
}

pid_t sr_pipeline_stage_pid(const sr_pipeline *pipeline, int number) {
    return sr_supervisor_pid(pipeline->supervisor, number);
}
