// SPDX-License-Identifier: Apache-2.0
// The shared memory of a pipeline: planning its layout, attaching to it, waiting in it.
//
// The creator writes everything but the counters before any stage starts; stages find their way by
// the offsets in the header, so that it may be mapped at another address in each process.
#include "dataio/stage_internal.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dataio/sampler.h"
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"

#define ALIGN UINT64_C(64)
#define USUAL_MEMORY (INT64_C(256) << 20)
#define RING_MOST (UINT64_C(32) << 20)
#define BLOCK_BYTES (INT64_C(128) << 10) // of pixels: what is worth one wake
#define BLOCKS_AHEAD 8
#define MOST_SAMPLES (INT64_C(1) << 24) // of a slot: sizes are multiplied without looking

static uint64_t take(uint64_t *at, uint64_t bytes) {
    uint64_t begin = *at;
    *at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return begin;
}

static uint64_t row_bytes(const sr_array_spec *spec) {
    uint64_t bytes = sr_dtype_size(spec->dtype);
    for (int i = 0; i < spec->rank; i++)
        bytes *= (uint64_t)spec->shape[i];
    return bytes;
}

static void map_place(sr_stage_header *h, const sr_array_spec *specs, int arrays) {
    uint64_t at = 0, n = (uint64_t)h->samples;
    sr_place_map *m = &h->place;
    take(&at, sizeof(sr_place_header));
    for (int i = 0; i < arrays; i++) {
        uint64_t rows = specs[i].capacity > 0 ? (uint64_t)specs[i].capacity : 1;
        m->row_bytes[i] = row_bytes(&specs[i]);
        m->array[i] = take(&at, m->row_bytes[i] * rows * n);
        m->count[i] = specs[i].capacity > 0 ? take(&at, n * sizeof(int32_t)) : 0;
        m->staged[i] = specs[i].in_place ? 0 : take(&at, m->row_bytes[i] * rows * n);
    }
    m->states = take(&at, n * sizeof(sr_row_state));
    m->errors = take(&at, n / (uint64_t)h->block * sizeof(sr_stage_error));
    m->bytes = (at + 4095) / 4096 * 4096;
}

// Samples of a block: near 128 KiB of pixels, and a divisor of the slot's samples.
static int64_t plan_block(int64_t samples, int64_t pixel_bytes) {
    int64_t most = pixel_bytes > 0 ? BLOCK_BYTES / pixel_bytes : 1, block = 1;
    for (int64_t d = 1; d <= samples && d <= most; d++)
        if (samples % d == 0)
            block = d;
    return block;
}

typedef struct record_sizes {
    uint64_t total, largest;
} record_sizes;

static sr_status measure(const sr_dataset *dataset, record_sizes *out) {
    *out = (record_sizes){0};
    for (int64_t i = 0; i < sr_dataset_count(dataset); i++) {
        int shard;
        uint64_t offset, bytes;
        SR_TRY(sr_dataset_locate(dataset, i, &shard, &offset, &bytes));
        out->total += bytes;
        out->largest = bytes > out->largest ? bytes : out->largest;
    }
    return SR_OK;
}

// Each ring holds the largest record twice, and beyond that eight blocks as far as memory goes.
static sr_status plan_rings(sr_stage_header *h, const record_sizes *sizes) {
    uint64_t mean = sizes->total / (uint64_t)h->count + 1, workers = (uint64_t)h->workers;
    uint64_t least = 2 * (sizes->largest + ALIGN) + 4096;
    uint64_t wanted = BLOCKS_AHEAD * (uint64_t)h->block * (mean + ALIGN);
    if (wanted < (UINT64_C(256) << 10))
        wanted = UINT64_C(256) << 10;
    uint64_t slots = (uint64_t)h->slots * h->place.bytes;
    bool stated = h->options.memory > 0;
    uint64_t memory = (uint64_t)(stated ? h->options.memory : USUAL_MEMORY);
    uint64_t left = memory > slots ? (memory - slots) / workers : 0;
    if (stated && left < least) {
        char a[16], b[16];
        return SR_FAIL(SR_E_USAGE,
                       "data.memory=%s is too little: %lld slots and %d rings for records of up to "
                       "%llu bytes need %s; raise it, or lower data.workers or the prefetch",
                       sr_text_bytes(memory, a), (long long)h->slots, h->workers,
                       (unsigned long long)sizes->largest,
                       sr_text_bytes(slots + workers * least, b));
    }
    uint64_t capacity = wanted < left ? wanted : left;
    capacity = capacity < RING_MOST ? capacity : RING_MOST;
    capacity = (capacity > least ? capacity : least) / ALIGN * ALIGN;
    h->ring_bytes = (sr_ring_bytes(capacity) + ALIGN - 1) / ALIGN * ALIGN;
    return SR_OK;
}

static const char *string_of(const sr_pipeline_options *o, int i) {
    const char *s = NULL;
    if (i == 0)
        s = o->dataset;
    else if (i == 1)
        s = o->split;
    else if (i == 2)
        s = o->transformer;
    else if ((i - 3) % 2 == 0)
        s = o->transforms[(i - 3) / 2].name;
    else
        s = o->transforms[(i - 3) / 2].arguments;
    return s;
}

static int string_count(const sr_pipeline_options *o) {
    return 3 + 2 * o->transform_count;
}

// A string is a byte that tells whether it is there, and its text with the terminator.
static uint64_t strings_bytes(const sr_pipeline_options *o) {
    uint64_t bytes = 0;
    for (int i = 0; i < string_count(o); i++)
        bytes += 2 + (string_of(o, i) ? strlen(string_of(o, i)) : 0);
    return bytes;
}

static void write_strings(char *to, const sr_pipeline_options *o) {
    for (int i = 0; i < string_count(o); i++) {
        const char *s = string_of(o, i);
        size_t n = s ? strlen(s) : 0;
        *to++ = s != NULL;
        memcpy(to, s ? s : "", n + 1);
        to += n + 1;
    }
}

static int64_t plan_total(const sr_stage_header *h) {
    const sr_pipeline_options *o = &h->options;
    int64_t lanes = o->lane_end - o->lane_begin;
    if (o->order == SR_ORDER_SEQUENTIAL) {
        int64_t left = h->count > o->position ? h->count - o->position : 0;
        int64_t steps = (left + o->batch - 1) / o->batch;
        return (o->steps > 0 && o->steps < steps ? o->steps : steps) * lanes;
    }
    return o->steps > 0 ? o->steps * lanes : INT64_MAX;
}

static sr_status plan(sr_stage_header *h, sr_dataset *dataset) {
    const sr_pipeline_options *o = &h->options;
    const sr_transformer *transformer;
    sr_array_spec specs[SR_SLOT_MAX_ARRAYS];
    record_sizes sizes;
    SR_TRY(sr_transformer_find(o->transformer, &transformer));
    SR_TRY(measure(dataset, &sizes));
    h->magic = SR_STAGE_MAGIC;
    h->parent = getpid();
    h->workers = o->workers;
    h->count = sr_dataset_count(dataset);
    h->samples = o->batch / o->lanes;
    if (h->samples > MOST_SAMPLES)
        return SR_FAIL(SR_E_USAGE, "batch %lld: a lane has at most %lld samples",
                       (long long)o->batch, (long long)MOST_SAMPLES);
    h->block = plan_block(h->samples, o->image_height * o->image_width * 3);
    h->total = plan_total(h);
    h->slots = o->prefetch > 0 ? o->prefetch : 2 * (o->lane_end - o->lane_begin);
    h->slots = h->slots > 1 ? h->slots : 2;
    map_place(h, specs, transformer->arrays(o, specs));
    if (o->order == SR_ORDER_CHUNKS)
        sr_sampler_plan_chunks(h->count, (int64_t)sizes.total, o->lanes, &h->chunk, &h->buffer);
    SR_TRY(plan_rings(h, &sizes));
    uint64_t at = 0;
    take(&at, sizeof *h + (size_t)(SR_STAGE_TRANSFORMER + h->workers) * sizeof h->states[0]);
    h->strings = take(&at, strings_bytes(o));
    h->rings = take(&at, h->ring_bytes * (uint64_t)h->workers);
    at = (at + 4095) / 4096 * 4096;
    h->places = take(&at, h->place.bytes * (uint64_t)h->slots);
    return SR_OK;
}

sr_status sr_stage_create(const sr_pipeline_options *options, sr_dataset *dataset,
                          sr_shared_memory *out) {
    sr_stage_header planned = {.options = *options};
    SR_TRY(plan(&planned, dataset));
    SR_TRY(sr_shared_create("serried-data",
                            planned.places + planned.place.bytes * (uint64_t)planned.slots, out));
    sr_stage_header *h = out->base;
    memcpy(h, &planned, sizeof planned);
    write_strings((char *)out->base + h->strings, options);
    for (int w = 0; w < h->workers; w++)
        sr_ring_init(sr_stage_ring(h, w), h->ring_bytes - sr_ring_bytes(0),
                     (h->ring_bytes - sr_ring_bytes(0)) / (BLOCKS_AHEAD * (uint64_t)h->block));
    for (int64_t s = 0; s < h->slots; s++)
        atomic_store(&sr_stage_place(h, s)->free_for, (uint64_t)s);
    return SR_OK;
}

static sr_status read_strings(sr_stage *stage) {
    sr_pipeline_options *o = &stage->options;
    const char *at = (const char *)stage->header + stage->header->strings;
    stage->transforms =
        sr_alloc_array((size_t)o->transform_count, sizeof *stage->transforms, "transform list");
    if (!stage->transforms)
        return SR_E_MEMORY;
    o->transforms = stage->transforms;
    for (int i = 0; i < string_count(o); i++) {
        const char *s = *at++ ? at : NULL;
        at += strlen(at) + 1;
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
    return SR_OK;
}

sr_status sr_stage_init(sr_stage *stage, const sr_shared_memory *memory, int number) {
    sr_stage_header *h = memory->base;
    *stage = (sr_stage){.header = h, .number = number, .parent_pidfd = -1};
    if (memory->bytes < sizeof *h || h->magic != SR_STAGE_MAGIC || number < 0 ||
        number >= SR_STAGE_TRANSFORMER + h->workers)
        return SR_FAIL(SR_E_ARGUMENT, "stage %d has no place in this shared memory", number);
    stage->state = &h->states[number];
    stage->options = h->options;
    SR_TRY(read_strings(stage));
    const sr_transformer *transformer;
    SR_TRY(sr_transformer_find(stage->options.transformer, &transformer));
    stage->arrays = transformer->arrays(&stage->options, stage->array);
    return SR_OK;
}

void sr_stage_release(sr_stage *stage) {
    sr_dataset_free(stage->dataset);
    sr_free(stage->transforms);
    if (stage->parent_pidfd >= 0)
        close(stage->parent_pidfd);
    *stage = (sr_stage){.parent_pidfd = -1};
}

sr_status sr_stage_dataset(sr_stage *stage, sr_dataset **out) {
    if (!stage->dataset)
        SR_TRY(sr_dataset_open(stage->options.dataset, stage->options.split, &stage->dataset));
    *out = stage->dataset;
    return SR_OK;
}

sr_ring *sr_stage_ring(const sr_stage_header *header, int worker) {
    const uint8_t *base = (const uint8_t *)header;
    return (sr_ring *)(uintptr_t)(base + header->rings + (uint64_t)worker * header->ring_bytes);
}

sr_place_header *sr_stage_place(const sr_stage_header *header, int64_t slot) {
    uint64_t place = (uint64_t)(slot % header->slots);
    const uint8_t *base = (const uint8_t *)header;
    return (sr_place_header *)(uintptr_t)(base + header->places + place * header->place.bytes);
}

void *sr_stage_at(const sr_place_header *place, uint64_t offset) {
    return (void *)((uintptr_t)place + offset);
}

int64_t sr_stage_position(const sr_stage_header *header, int64_t slot, int64_t *step, int *lane) {
    const sr_pipeline_options *o = &header->options;
    int64_t lanes = o->lane_end - o->lane_begin;
    int64_t begin = o->position + slot / lanes * o->batch;
    *lane = o->lane_begin + (int)(slot % lanes);
    *step = begin / o->batch;
    return begin + *lane * header->samples;
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

void sr_stage_error_set(sr_stage_error *error, sr_status status) {
    snprintf(error->where, sizeof error->where, "%s", sr_error_where());
    snprintf(error->message, sizeof error->message, "%s", sr_error_message());
    atomic_store_explicit(&error->status, (int32_t)status, memory_order_release);
}

sr_status sr_stage_error_adopt(const sr_stage_error *error) {
    int32_t status = atomic_load_explicit(&error->status, memory_order_acquire);
    return status == SR_OK ? SR_OK
                           : sr_error_adopt((sr_status)status, error->where, error->message);
}

bool sr_stage_is_sample_error(sr_status status) {
    return status >= SR_E_DATA && status < SR_E_PEER;
}

void sr_stage_run(sr_stage *stage) {
    sr_status status;
    if (stage->number == SR_STAGE_READER)
        status = sr_reader_run(stage);
    else if (stage->number == SR_STAGE_ITERATOR)
        status = sr_iterator_run(stage);
    else
        status = sr_transformer_run(stage);
    if (status != SR_OK)
        sr_stage_error_set(&stage->state->error, status);
    sr_stage_activity(stage, SR_ACTIVITY_DONE, -1);
}
