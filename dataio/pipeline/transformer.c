// SPDX-License-Identifier: Apache-2.0
// DataTransformer: consumes the records of its ring and writes their rows to the slots.
//
// A record's number in the ring determines its slot and row (see stage_internal.h). A row is
// complete before it is counted, so the replacement of a killed transformer repeats the same row.
#include "dataio/pipeline/transformer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "dataio/pipeline/bundle_internal.h"
#include "dataio/pipeline/stage_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"

#define BOXES_MARGIN 4 // times boxes_per_sample: capacity before a crop removes boxes

typedef struct worker {
    sr_stage *stage;
    const sr_stage_plan *plan;
    sr_ring *ring;
    int index;
    const sr_transformer *transformer;
    sr_transformer_context context;
    sr_transform_chain *chain;
    sr_canvas *canvas;
    // Of the current sample: its identity, its record and its foreign records.
    sr_canvas_identity identity;
    sr_bundle_record records[SR_BUNDLE_MOST];
} worker;

// The destination of the k-th sample of this worker's ring.
typedef struct target {
    int64_t slot, sample, block; // sample and block within the slot
    bool first_of_block, last_of_block;
    sr_slot_header *header;
} target;

static target target_of(const worker *w, uint64_t k) {
    const sr_stage_plan *plan = w->plan;
    int64_t per_slot = plan->samples / plan->block;
    int64_t inside = (int64_t)(k % (uint64_t)plan->block);
    int64_t block = w->index + plan->workers * (int64_t)(k / (uint64_t)plan->block);
    target t = {.slot = block / per_slot, .block = block % per_slot};
    t.sample = t.block * plan->block + inside;
    t.first_of_block = inside == 0;
    t.last_of_block = inside == plan->block - 1;
    t.header = sr_stage_slot(plan, t.slot);
    return t;
}

// Under the sandbox's memory limit, running out of memory is an error of the sample.
static sr_status judge_memory(const worker *w, sr_status status) {
    char message[640], most[16];
    if (status != SR_E_MEMORY || !w->stage->memory_limited)
        return status;
    snprintf(message, sizeof message, "%s", sr_error_message());
    return SR_FAIL(SR_E_LIMIT, "%s (a transformer is limited to %s)", message,
                   sr_text_bytes(SR_SANDBOX_MEMORY, most));
}

static sr_status open_foreign(void *user, int number, sr_canvas *canvas, bool *there) {
    worker *w = user;
    *there = false;
    if (number < 0 || number >= w->plan->foreign || !w->records[1 + number].data)
        return SR_OK;
    const sr_transformer_call call = {.record = w->records[1 + number].data,
                                      .bytes = w->records[1 + number].bytes,
                                      .identity = w->identity};
    const sr_status status = w->transformer->open(&w->context, canvas, &call);
    *there = status == SR_OK;
    return sr_stage_is_sample_error(status) ? SR_OK : status;
}

static sr_status apply(worker *w, const target *t, const sr_cell *cell, int64_t sample,
                       const void *record, size_t bytes) {
    const sr_slot_layout *m = &w->plan->layout;
    sr_row_state *states = sr_stage_at(t->header, m->states);
    sr_transformer_call call = {.record = record,
                                .bytes = bytes,
                                .identity = {.seed = w->context.options->seed,
                                             .position = cell->position,
                                             .sample = sample,
                                             .epoch = cell->epoch}};
    for (int i = 0; i < w->stage->arrays; i++) {
        const sr_array_spec *a = &w->stage->array[i];
        uint64_t base = a->in_place ? m->array[i] : m->staged[i];
        uint64_t rows = a->capacity > 0 ? (uint64_t)a->capacity : 1;
        call.rows[i] =
            sr_stage_at(t->header, base + (uint64_t)t->sample * rows * w->stage->row_bytes[i]);
    }
    w->identity = call.identity;
    SR_TRY(judge_memory(w, w->transformer->apply(&w->context, &call)));
    const uint64_t facts[] = {(uint64_t)cell->position, (uint64_t)sample,
                              sr_canvas_get_draws(w->canvas)};
    states[t->sample].order = sr_hash64(facts, sizeof facts);
    states[t->sample].epoch = cell->epoch;
    for (int i = 0; i < w->stage->arrays; i++) {
        assert(call.counts[i] <= w->stage->array[i].capacity);
        states[t->sample].counts[i] = call.counts[i];
    }
    return SR_OK;
}

// Clears the rows of a damaged sample or of a position after the end of a pass.
static void clear_rows(const worker *w, const target *t) {
    const sr_slot_layout *m = &w->plan->layout;
    sr_row_state *states = sr_stage_at(t->header, m->states);
    states[t->sample] = (sr_row_state){0};
    for (int i = 0; i < w->stage->arrays; i++) {
        const sr_array_spec *a = &w->stage->array[i];
        uint64_t base = a->in_place ? m->array[i] : m->staged[i];
        uint64_t rows = a->capacity > 0 ? (uint64_t)a->capacity : 1, row = w->stage->row_bytes[i];
        memset(sr_stage_at(t->header, base + (uint64_t)t->sample * rows * row), 0, rows * row);
    }
}

static bool is_nameable(sr_status status) {
    return sr_stage_is_sample_error(status) || status == SR_E_SHAPE;
}

// Adopts the reader's error, whose message is the cell's text.
static sr_status cell_error(const worker *w, const sr_cell *cell) {
    char text[sizeof((sr_stage_error *)0)->message];
    size_t bytes = cell->bytes < sizeof text - 1 ? (size_t)cell->bytes : sizeof text - 1;
    memcpy(text, sr_ring_bytes_of(w->ring, cell), bytes);
    text[bytes] = '\0';
    return sr_error_adopt((sr_status)cell->status, "reader.c", text);
}

// *blamed: the sample whose name is to be prepended to the error, or -1 where the message has it.
static sr_status make_row(worker *w, const target *t, const sr_cell *cell, int64_t *blamed) {
    const void *data = sr_ring_bytes_of(w->ring, cell);
    *blamed = -1;
    memset(w->records, 0, sizeof w->records);
    if (cell->status != SR_OK)
        return cell_error(w, cell);
    w->records[0] = (sr_bundle_record){data, (size_t)cell->bytes};
    if (w->plan->foreign > 0 &&
        !sr_bundle_open(data, (size_t)cell->bytes, 1 + w->plan->foreign, w->records))
        return sr_stage_corrupted("bundled records");
    sr_status status = apply(w, t, cell, cell->sample, w->records[0].data, w->records[0].bytes);
    *blamed = status == SR_OK ? -1 : cell->sample;
    return status;
}

static sr_status read_successor(worker *w, const target *t, const sr_cell *cell,
                                sr_dataset *dataset, int64_t sample) {
    const void *record;
    size_t bytes;
    char name[300], message[640];
    SR_TRY(sr_dataset_read(dataset, sample, &record, &bytes));
    sr_status status = apply(w, t, cell, sample, record, bytes);
    if (!is_nameable(status))
        return status;
    snprintf(message, sizeof message, "%s", sr_error_message());
    return SR_FAIL(status, "%s: %s", sr_dataset_sample_name(dataset, sample, name), message);
}

// on_corrupt=skip: the next undamaged sample of the data set replaces a damaged one. The choice
// depends on the data only.
static sr_status make_successor(worker *w, const target *t, const sr_cell *cell) {
    sr_dataset *dataset;
    SR_TRY(sr_stage_dataset(w->stage, &dataset));
    int64_t count = w->plan->count, limit = w->context.options->skip_limit;
    int64_t k = 1;
    for (; k <= limit && k < count; k++) {
        sr_status status = read_successor(w, t, cell, dataset, (cell->sample + k) % count);
        if (status == SR_OK || !sr_stage_is_damage(w->stage, status))
            return status;
    }
    return SR_FAIL(SR_E_DATA, "%lld damaged samples, more than on_corrupt: skip:%lld allows; %s",
                   (long long)k, (long long)limit, sr_error_message());
}

static sr_status process(worker *w, const target *t, const sr_cell *cell) {
    sr_row_state *states = sr_stage_at(t->header, w->plan->layout.states);
    sr_stage_error *errors = sr_stage_at(t->header, w->plan->layout.errors);
    if (t->first_of_block) {
        atomic_store_explicit(&errors[t->block].status, SR_OK, memory_order_relaxed);
        errors[t->block].message[0] = '\0';
    }
    states[t->sample] = (sr_row_state){0};
    if (cell->sample < 0) {
        clear_rows(w, t);
        return SR_OK;
    }
    int64_t blamed;
    sr_status status = make_row(w, t, cell, &blamed);
    if (sr_stage_is_sample_error(status) && w->context.options->on_corrupt == SR_CORRUPT_SKIP) {
        if (errors[t->block].message[0] == '\0')
            sr_stage_error_set(&errors[t->block], SR_OK, blamed);
        status = make_successor(w, t, cell);
        blamed = -1;
        states[t->sample].replaced = cell->sample + 1;
    }
    if (status == SR_OK)
        return SR_OK;
    if (!is_nameable(status)) {
        w->stage->blamed = blamed;
        return status;
    }
    clear_rows(w, t);
    if (atomic_load_explicit(&errors[t->block].status, memory_order_relaxed) == SR_OK)
        sr_stage_error_set(&errors[t->block], status, blamed);
    return SR_OK;
}

// Waits for a record in the ring. *stop is true where the stage should end.
static sr_status wait_record(worker *w, sr_cell *cell, bool *stop) {
    *stop = false;
    for (;;) {
        uint32_t seen = sr_bell_read(&w->ring->published_bell);
        sr_ring_state state = sr_ring_peek(w->ring, sr_stage_ring_capacity(w->plan), cell);
        if (state == SR_RING_BROKEN ||
            (state == SR_RING_HAS_CELL && cell->sample >= w->plan->count))
            return sr_stage_corrupted("a record's position in its ring");
        if (state == SR_RING_HAS_CELL)
            return SR_OK;
        sr_bell_ring(&w->ring->consumed_bell);
        sr_stage_activity(w->stage, SR_ACTIVITY_WAITING_RECORDS, -1);
        *stop = !sr_stage_wait(w->stage, &w->ring->published_bell, seen);
        if (*stop)
            return SR_OK;
    }
}

static bool wait_slot(worker *w, const target *t) {
    sr_bell *bell = &w->stage->header->free_bell;
    for (;;) {
        uint32_t seen = sr_bell_read(bell);
        if (atomic_load_explicit(&t->header->free_for, memory_order_acquire) == (uint64_t)t->slot)
            return true;
        sr_bell_ring(&w->ring->consumed_bell);
        sr_stage_activity(w->stage, SR_ACTIVITY_WAITING_SLOT, -1);
        if (!sr_stage_wait(w->stage, bell, seen))
            return false;
    }
}

static sr_status run(worker *w) {
    sr_stage_state *state = w->stage->state;
    int64_t decoded = 0;
    for (;;) {
        uint64_t k = atomic_load_explicit(&w->ring->consumed, memory_order_relaxed);
        if (k > INT64_MAX / SR_STAGE_MAX_WORKERS)
            return sr_stage_corrupted("the number of consumed records");
        target t = target_of(w, k);
        if (t.slot >= w->plan->total || sr_stage_stopped(w->stage) || !wait_slot(w, &t))
            return SR_OK;
        sr_cell cell;
        bool stop;
        SR_TRY(wait_record(w, &cell, &stop));
        if (stop)
            return SR_OK;
        int64_t begin = sr_clock_ns();
        sr_stage_shape(w->stage, t.slot);
        sr_stage_activity(w->stage, SR_ACTIVITY_DECODING, cell.sample);
        SR_TRY(process(w, &t, &cell));
        int64_t all = sr_clock_ns() - begin, decode = sr_canvas_decode_ns(w->canvas) - decoded;
        decoded += decode;
        atomic_fetch_add_explicit(&state->first_ns, decode, memory_order_relaxed);
        atomic_fetch_add_explicit(&state->second_ns, all - decode, memory_order_relaxed);
        sr_ring_consume(w->ring);
        if (t.last_of_block)
            sr_bell_ring(&w->ring->consumed_bell);
    }
}

// Called just before the first sample, after plug-ins are loaded and options parsed. This process
// reads the replacements of damaged samples, so with on_corrupt=skip the data set's files remain
// readable.
static sr_status enter_sandbox(sr_stage *stage) {
    const bool skips = stage->options.on_corrupt == SR_CORRUPT_SKIP;
    stage->memory_limited = stage->own_process && sr_sandbox_limit_memory(SR_SANDBOX_MEMORY);
    return sr_stage_sandbox(stage, skips ? SR_SANDBOX_READ : SR_SANDBOX_COMPUTE);
}

sr_status sr_transformer_run(sr_stage *stage) {
    const sr_pipeline_options *o = &stage->options;
    worker w = {.stage = stage,
                .plan = &stage->plan,
                .index = stage->number - SR_STAGE_TRANSFORMER,
                .context = {.options = o,
                            .classes = stage->classes,
                            .class_count = stage->plan.class_count}};
    w.ring = sr_stage_ring(w.plan, w.index);
    sr_status status;
    int64_t boxes = 1;
    for (int i = 0; i < stage->arrays; i++)
        boxes = stage->array[i].capacity > boxes ? stage->array[i].capacity : boxes;
    SR_TRY_GOTO(sr_transformer_find(o->transformer, &w.transformer), done);
    SR_TRY_GOTO(sr_transform_chain_create(o->transforms, o->transform_count, &w.chain), done);
    sr_transform_chain_limit(w.chain, o->windows);
    SR_TRY_GOTO(sr_canvas_create(BOXES_MARGIN * boxes, &w.canvas), done);
    w.context.chain = w.chain;
    w.context.canvas = w.canvas;
    const sr_foreign_source source = {.open = open_foreign, .user = &w};
    sr_canvas_set_foreign(w.canvas, &source);
    SR_TRY_GOTO(enter_sandbox(stage), done);
    status = run(&w);
done:
    sr_canvas_free(w.canvas);
    sr_transform_chain_free(w.chain);
    return status;
}
