// SPDX-License-Identifier: Apache-2.0
// A stage's view of a pipeline's shared memory: attaching to it, access, waiting and errors.
//
// Locations are stored as offsets, so the memory may be mapped at a different address in each
// process. The plan is checked before use (see sr_stage_plan).
#include "dataio/pipeline/stage_internal.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dataio/jpeg/decode.h"
#include "dataio/pipeline/class_members_internal.h"
#include "kernels/base/memory.h"

uint64_t sr_stage_row_bytes(const sr_array_spec *spec) {
    uint64_t bytes = sr_dtype_size(spec->dtype);
    for (int i = 0; i < spec->rank; i++)
        bytes *= (uint64_t)spec->shape[i];
    return bytes;
}

int sr_stage_string_count(const sr_pipeline_options *o) {
    return 3 + 2 * o->transform_count;
}

static bool inside(uint64_t begin, uint64_t bytes, uint64_t end) {
    return begin <= end && bytes <= end - begin;
}

// Whether 'count' elements of 'bytes' from an aligned offset on end before 'end'.
static bool array_inside(uint64_t begin, uint64_t count, uint64_t bytes, uint64_t end) {
    uint64_t all;
    return begin % SR_STAGE_ALIGN == 0 && !__builtin_mul_overflow(count, bytes, &all) &&
           inside(begin, all, end);
}

static bool growth_fits(const sr_pipeline_options *o) {
    const sr_image_growth *g = &o->growth;
    return g->from == 0 || (o->image_height == o->image_width && g->from > 0 && g->step > 0 &&
                            g->from <= o->image_width && g->begin >= 0 && g->end >= g->begin);
}

static bool options_fit(const sr_stage_plan *plan) {
    const sr_pipeline_options *o = &plan->options;
    return o->lanes > 0 && o->lane_begin >= 0 && o->lane_end > o->lane_begin &&
           o->lane_end <= o->lanes && o->batch / o->lanes == plan->samples &&
           o->batch % o->lanes == 0 && o->position >= 0 && o->position < INT64_MAX / 2 &&
           growth_fits(o) && o->image_height > 0 && o->image_width > 0 &&
           o->image_height <= 1 << 16 && o->image_width <= 1 << 16 && o->transform_count >= 0 &&
           o->whole_pixels >= 0 && o->whole_pixels <= SR_DECODE_MAX_PIXELS && o->mask_pixels >= 0 &&
           o->mask_pixels <= SR_DECODE_MAX_PIXELS &&
           2 * (3 + 2 * (uint64_t)o->transform_count) <= plan->strings_bytes;
}

static bool plan_fits(const sr_stage_plan *plan) {
    return plan->magic == SR_STAGE_MAGIC && plan->workers >= 1 &&
           plan->workers <= SR_STAGE_MAX_WORKERS && plan->slots >= 1 && plan->total >= 0 &&
           plan->samples >= 1 && plan->samples <= SR_STAGE_MAX_SAMPLES && plan->block >= 1 &&
           plan->samples % plan->block == 0 && plan->foreign >= 0 &&
           plan->foreign <= SR_FOREIGN_MOST && plan->count >= 1 && plan->chunk >= 0 &&
           plan->buffer >= 0 && options_fit(plan);
}

// The tables in the sealed memory.
static bool tables_fit(const sr_stage_plan *plan, uint64_t bytes) {
    const uint64_t begin = sizeof *plan;
    return plan->windows >= begin &&
           array_inside(plan->windows, (uint64_t)plan->options.transform_count,
                        sizeof(sr_transform_window), bytes) &&
           plan->strings >= begin && inside(plan->strings, plan->strings_bytes, bytes) &&
           plan->classes >= begin && inside(plan->classes, plan->classes_bytes, bytes) &&
           plan->class_count >= 0 && plan->class_count <= INT32_MAX &&
           (uint64_t)plan->class_count <= plan->classes_bytes && plan->count <= INT64_MAX / 16 &&
           plan->members >= begin && plan->members % SR_STAGE_ALIGN == 0 &&
           inside(plan->members, sr_class_members_bytes(plan), bytes);
}

// Rings and slots in the shared memory.
static bool work_fits(const sr_stage_plan *plan, uint64_t bytes) {
    const uint64_t states = (SR_STAGE_TRANSFORMER + (uint64_t)plan->workers);
    const uint64_t begin = sizeof(sr_stage_header) + states * sizeof(sr_stage_state);
    return begin <= bytes && plan->rings >= begin && plan->ring_bytes % SR_STAGE_ALIGN == 0 &&
           plan->ring_bytes > sr_ring_bytes(0) &&
           array_inside(plan->rings, (uint64_t)plan->workers, plan->ring_bytes, bytes) &&
           plan->slot_buffers >= begin && plan->layout.bytes % SR_STAGE_ALIGN == 0 &&
           array_inside(plan->slot_buffers, (uint64_t)plan->slots, plan->layout.bytes, bytes);
}

// Checks the slot layout against the transformer's arrays.
static bool layout_fits(const sr_stage_plan *plan, const sr_array_spec *specs, int arrays) {
    const sr_slot_layout *m = &plan->layout;
    uint64_t n = (uint64_t)plan->samples, begin = sizeof(sr_slot_header), end = m->bytes;
    bool fits = array_inside(m->states, n, sizeof(sr_row_state), end) && m->states >= begin &&
                array_inside(m->errors, n / (uint64_t)plan->block, sizeof(sr_stage_error), end) &&
                m->errors >= begin;
    for (int i = 0; i < arrays && fits; i++) {
        uint64_t rows = specs[i].capacity > 0 ? (uint64_t)specs[i].capacity : 1, all;
        fits = !__builtin_mul_overflow(rows, n, &all) &&
               m->row_bytes[i] == sr_stage_row_bytes(&specs[i]) && m->array[i] >= begin &&
               array_inside(m->array[i], all, m->row_bytes[i], end);
        if (specs[i].capacity > 0)
            fits =
                fits && m->count[i] >= begin && array_inside(m->count[i], n, sizeof(int32_t), end);
        if (!specs[i].in_place)
            fits = fits && m->staged[i] >= begin &&
                   array_inside(m->staged[i], all, m->row_bytes[i], end);
    }
    return fits;
}

static void set_string(sr_stage *stage, int i, const char *s) {
    sr_pipeline_options *o = &stage->options;
    if (i == 0)
        o->dataset = s;
    else if (i == 1)
        o->split = s;
    else if (i == 2)
        o->transformer = s;
    else if ((i - 3) % 2 == 0)
        stage->transforms[(i - 3) / 2].name = s;
    else
        stage->transforms[(i - 3) / 2].arguments = s;
}

// False where a string has no terminator or a required one is missing.
static bool split_strings(sr_stage *stage) {
    const char *at = (const char *)stage->plan.sealed + stage->plan.strings;
    const char *end = at + stage->plan.strings_bytes;
    for (int i = 0; i < sr_stage_string_count(&stage->options); i++) {
        const char *zero = end - at < 2 ? NULL : memchr(at + 1, 0, (size_t)(end - at - 1));
        if (!zero)
            return false;
        const char *s = *at ? at + 1 : NULL;
        bool needed = i == 0 || (i >= 3 && (i - 3) % 2 == 0);
        if (needed && !s)
            return false;
        set_string(stage, i, s);
        at = zero + 1;
    }
    return true;
}

// False where a name has no terminator.
static bool split_classes(sr_stage *stage) {
    const sr_stage_plan *plan = &stage->plan;
    const char *at = (const char *)plan->sealed + plan->classes, *end = at + plan->classes_bytes;
    for (int64_t i = 0; i < plan->class_count; i++) {
        const char *zero = memchr(at, 0, (size_t)(end - at));
        if (!zero)
            return false;
        stage->classes[i] = at;
        at = zero + 1;
    }
    return true;
}

// Points the options to the tables in the sealed memory.
static sr_status find_tables(sr_stage *stage) {
    const sr_stage_plan *plan = &stage->plan;
    sr_pipeline_options *o = &stage->options;
    stage->transforms =
        sr_alloc_array((size_t)o->transform_count, sizeof *stage->transforms, "transform list");
    stage->classes =
        sr_alloc_array((size_t)plan->class_count + 1, sizeof *stage->classes, "class names");
    if (!stage->transforms || !stage->classes)
        return SR_E_MEMORY;
    o->transforms = stage->transforms;
    o->windows = (const sr_transform_window *)(uintptr_t)(plan->sealed + plan->windows);
    if (!split_strings(stage) || !split_classes(stage))
        return SR_FAIL(SR_E_ARGUMENT, "stage %d: the options in this memory are inconsistent",
                       stage->number);
    return SR_OK;
}

static void set_arrays(sr_stage *stage) {
    stage->arrays = stage->transformer->arrays(&stage->options, stage->array);
    for (int i = 0; i < stage->arrays; i++)
        stage->row_bytes[i] = sr_stage_row_bytes(&stage->array[i]);
}

void sr_stage_shape(sr_stage *stage, int64_t slot) {
    const sr_pipeline_options *plan = &stage->plan.options;
    int64_t step;
    int lane;
    if (plan->growth.from == 0)
        return;
    (void)sr_stage_position(&stage->plan, slot, &step, &lane);
    const int64_t side = sr_image_side_at(&plan->growth, plan->image_width, step * plan->batch);
    if (side == stage->options.image_width)
        return;
    stage->options.image_height = stage->options.image_width = side;
    set_arrays(stage);
}

void sr_stage_memory_release(sr_stage_memory *memory) {
    sr_shared_release(&memory->plan);
    sr_shared_release(&memory->work);
}

sr_status sr_stage_init(sr_stage *stage, const sr_stage_memory *memory, int number) {
    *stage =
        (sr_stage){.header = memory->work.base, .number = number, .parent_pidfd = -1, .blamed = -1};
    if (memory->plan.bytes >= sizeof stage->plan)
        memcpy(&stage->plan, memory->plan.base, sizeof stage->plan);
    if (!plan_fits(&stage->plan) || !tables_fit(&stage->plan, memory->plan.bytes) ||
        !work_fits(&stage->plan, memory->work.bytes) || number < 0 ||
        number >= SR_STAGE_TRANSFORMER + stage->plan.workers)
        return SR_FAIL(SR_E_ARGUMENT, "stage %d: this shared memory has no valid plan for it",
                       number);
    stage->plan.sealed = memory->plan.base;
    stage->plan.base = memory->work.base;
    stage->state = &stage->header->states[number];
    stage->options = stage->plan.options;
    SR_TRY(find_tables(stage));
    SR_TRY(sr_transformer_find(stage->options.transformer, &stage->transformer));
    set_arrays(stage);
    if (!layout_fits(&stage->plan, stage->array, stage->arrays))
        return SR_FAIL(SR_E_ARGUMENT, "stage %d: the slots do not fit into this shared memory",
                       number);
    return SR_OK;
}

void sr_stage_release(sr_stage *stage) {
    sr_dataset_free(stage->dataset);
    sr_free(stage->transforms);
    sr_free(stage->classes);
    if (stage->parent_pidfd >= 0)
        close(stage->parent_pidfd);
    *stage = (sr_stage){.parent_pidfd = -1};
}

sr_status sr_stage_dataset(sr_stage *stage, sr_dataset **out) {
    const sr_pipeline_options *o = &stage->options;
    if (!stage->dataset) {
        const sr_status status = sr_dataset_open_records(o->dataset, o->split, &stage->dataset);
        if (status != SR_OK)
            return sr_dataset_fail_reopen(status, o->dataset);
        SR_TRY(sr_dataset_check_stamp(stage->dataset, o->dataset, &stage->plan.stamp));
    }
    *out = stage->dataset;
    return SR_OK;
}

sr_status sr_stage_sandbox(sr_stage *stage, sr_sandbox_rights rights) {
    if (!stage->own_process)
        return SR_OK;
    return sr_sandbox_enter(rights, stage->options.dataset);
}

sr_ring *sr_stage_ring(const sr_stage_plan *plan, int worker) {
    return (sr_ring *)(uintptr_t)(plan->base + plan->rings + (uint64_t)worker * plan->ring_bytes);
}

uint64_t sr_stage_ring_capacity(const sr_stage_plan *plan) {
    return plan->ring_bytes - sr_ring_bytes(0);
}

sr_slot_header *sr_stage_slot(const sr_stage_plan *plan, int64_t slot) {
    uint64_t index = (uint64_t)slot % (uint64_t)plan->slots;
    return (sr_slot_header *)(uintptr_t)(plan->base + plan->slot_buffers +
                                         index * plan->layout.bytes);
}

void *sr_stage_at(const sr_slot_header *header, uint64_t offset) {
    return (void *)((uintptr_t)header + offset);
}

int64_t sr_stage_position(const sr_stage_plan *plan, int64_t slot, int64_t *step, int *lane) {
    const sr_pipeline_options *o = &plan->options;
    int64_t lanes = o->lane_end - o->lane_begin;
    int64_t begin = o->position + slot / lanes * o->batch;
    *lane = o->lane_begin + (int)(slot % lanes);
    *step = begin / o->batch;
    return begin + *lane * plan->samples;
}

const char *sr_stage_name(int number, char *out) {
    if (number == SR_STAGE_READER)
        return "reader";
    if (number == SR_STAGE_ITERATOR)
        return "iterator";
    snprintf(out, 32, "transformer %d", number - SR_STAGE_TRANSFORMER);
    return out;
}

void sr_stage_activity(sr_stage *stage, sr_activity activity, int64_t sample) {
    atomic_store_explicit(&stage->state->sample, sample, memory_order_relaxed);
    atomic_store_explicit(&stage->state->activity, (int32_t)activity, memory_order_relaxed);
}

static bool parent_gone(const sr_stage *stage) {
    struct pollfd p = {.fd = stage->parent_pidfd, .events = POLLIN};
    return stage->parent_pidfd >= 0 && poll(&p, 1, 0) > 0;
}

bool sr_stage_stopped(const sr_stage *stage) {
    return atomic_load_explicit(&stage->header->stop, memory_order_relaxed) != 0;
}

bool sr_stage_wait(sr_stage *stage, sr_bell *bell, uint32_t seen) {
    if (sr_stage_stopped(stage) || parent_gone(stage))
        return false;
    sr_bell_wait(bell, seen, SR_WAIT_SLICE_NS);
    return !sr_stage_stopped(stage);
}

void sr_stage_error_set(sr_stage_error *error, sr_status status, int64_t sample) {
    error->sample = sample;
    snprintf(error->where, sizeof error->where, "%s", sr_error_where());
    snprintf(error->message, sizeof error->message, "%s", sr_error_message());
    atomic_store_explicit(&error->status, (int32_t)status, memory_order_release);
}

// A terminal would execute control characters.
static void read_text(char *to, const char *shared, size_t bytes) {
    sr_shared_read(to, shared, bytes);
    to[bytes - 1] = '\0';
    for (char *c = to; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

void sr_stage_error_read(const sr_stage_error *shared, sr_stage_error *out) {
    const int32_t status = atomic_load_explicit(&shared->status, memory_order_acquire);
    const bool known = strcmp(sr_status_name((sr_status)status), "SR_E_?") != 0;
    sr_shared_read(&out->sample, &shared->sample, sizeof out->sample);
    read_text(out->where, shared->where, sizeof out->where);
    read_text(out->message, shared->message, sizeof out->message);
    if (!known || (status != SR_OK && out->message[0] == '\0'))
        (void)snprintf(out->message, sizeof out->message,
                       "a data process failed, and its message was overwritten");
    atomic_store_explicit(&out->status, known ? status : SR_E_PEER, memory_order_relaxed);
}

const char *sr_stage_error_text(const sr_stage_error *error, const sr_dataset *dataset, char *out) {
    char name[300];
    if (dataset && error->sample >= 0 && error->sample < sr_dataset_count(dataset))
        (void)snprintf(out, 1200, "%s: %s", sr_dataset_sample_name(dataset, error->sample, name),
                       error->message);
    else
        (void)snprintf(out, 1200, "%s", error->message);
    return out;
}

sr_status sr_stage_error_adopt(const sr_stage_error *shared, const sr_dataset *dataset) {
    char text[1200];
    sr_stage_error error;
    if (atomic_load_explicit(&shared->status, memory_order_acquire) == SR_OK)
        return SR_OK;
    sr_stage_error_read(shared, &error);
    const sr_status status = (sr_status)atomic_load(&error.status);
    return sr_error_adopt(status, error.where, sr_stage_error_text(&error, dataset, text));
}

bool sr_stage_is_sample_error(sr_status status) {
    return status >= SR_E_DATA && status < SR_E_PEER;
}

bool sr_stage_is_damage(const sr_stage *stage, sr_status status) {
    return sr_stage_is_sample_error(status) &&
           !(stage->dataset && sr_dataset_has_changed(stage->dataset));
}
