// SPDX-License-Identifier: Apache-2.0
// Plans and creates the memory of a pipeline's stages: the sealed plan with its tables, and the
// shared memory, of which the creator writes what is not zero at first.
#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "dataio/pipeline/class_members_internal.h"
#include "dataio/pipeline/sampler.h"
#include "dataio/pipeline/stage_internal.h"
#include "kernels/base/machine.h"
#include "kernels/base/text.h"

#define DEFAULT_MEMORY (INT64_C(256) << 20)
#define RING_MOST (UINT64_C(32) << 20)
#define BLOCK_BYTES (INT64_C(128) << 10) // pixels of a block: enough work for one wake-up
#define BLOCKS_AHEAD 8

static uint64_t take(uint64_t *at, uint64_t bytes) {
    uint64_t begin = *at;
    *at += (bytes + SR_STAGE_ALIGN - 1) / SR_STAGE_ALIGN * SR_STAGE_ALIGN;
    return begin;
}

static void plan_layout(sr_stage_plan *plan, const sr_array_spec *specs, int arrays) {
    uint64_t at = 0, n = (uint64_t)plan->samples;
    sr_slot_layout *m = &plan->layout;
    take(&at, sizeof(sr_slot_header));
    for (int i = 0; i < arrays; i++) {
        uint64_t rows = specs[i].capacity > 0 ? (uint64_t)specs[i].capacity : 1;
        m->row_bytes[i] = sr_stage_row_bytes(&specs[i]);
        m->array[i] = take(&at, m->row_bytes[i] * rows * n);
        m->count[i] = specs[i].capacity > 0 ? take(&at, n * sizeof(int32_t)) : 0;
        m->staged[i] = specs[i].in_place ? 0 : take(&at, m->row_bytes[i] * rows * n);
    }
    m->states = take(&at, n * sizeof(sr_row_state));
    m->errors = take(&at, n / (uint64_t)plan->block * sizeof(sr_stage_error));
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

static void plan_chunks(sr_stage_plan *plan, const record_sizes *sizes) {
    if (plan->options.order == SR_ORDER_CHUNKS)
        sr_sampler_plan_chunks(plan->count, (int64_t)sizes->total, plan->options.lanes,
                               &plan->chunk, &plan->buffer);
}

sr_sampler_options sr_stage_draws(const sr_stage_plan *plan) {
    const sr_pipeline_options *o = &plan->options;
    return (sr_sampler_options){.order = o->order,
                                .seed = o->seed,
                                .count = plan->count,
                                .batch = o->batch,
                                .lanes = o->lanes,
                                .chunk = plan->chunk,
                                .buffer = plan->buffer,
                                .repeats = o->repeats};
}

sr_status sr_stage_plan_draws(const sr_pipeline_options *options, const sr_dataset *dataset,
                              sr_sampler_options *out) {
    sr_stage_plan plan = {.options = *options, .count = sr_dataset_count(dataset)};
    record_sizes sizes;
    SR_TRY(measure(dataset, &sizes));
    plan_chunks(&plan, &sizes);
    *out = sr_stage_draws(&plan);
    return SR_OK;
}

// Each ring has room for the largest record twice and, memory permitting, for eight blocks.
static sr_status plan_rings(sr_stage_plan *plan, const record_sizes *sizes) {
    uint64_t mean = sizes->total / (uint64_t)plan->count + 1, workers = (uint64_t)plan->workers;
    uint64_t together = 1 + (uint64_t)plan->foreign; // records of a cell
    uint64_t least = 2 * together * (sizes->largest + SR_STAGE_ALIGN) + 4096;
    uint64_t wanted = BLOCKS_AHEAD * (uint64_t)plan->block * together * (mean + SR_STAGE_ALIGN);
    if (wanted < (UINT64_C(256) << 10))
        wanted = UINT64_C(256) << 10;
    uint64_t slots = (uint64_t)plan->slots * plan->layout.bytes;
    bool stated = plan->options.memory > 0;
    uint64_t memory = (uint64_t)(stated ? plan->options.memory : DEFAULT_MEMORY);
    uint64_t left = memory > slots ? (memory - slots) / workers : 0;
    if (stated && left < least) {
        char a[16], b[16];
        return SR_FAIL(SR_E_USAGE,
                       "data.memory=%s is too little: %lld slots and %d rings for records of up to "
                       "%llu bytes need %s; raise it, or lower data.workers or the prefetch",
                       sr_text_bytes(memory, a), (long long)plan->slots, plan->workers,
                       (unsigned long long)sizes->largest,
                       sr_text_bytes(slots + workers * least, b));
    }
    uint64_t capacity = wanted < left ? wanted : left;
    capacity = capacity < RING_MOST ? capacity : RING_MOST;
    capacity = (capacity > least ? capacity : least) / SR_STAGE_ALIGN * SR_STAGE_ALIGN;
    plan->ring_bytes =
        (sr_ring_bytes(capacity) + SR_STAGE_ALIGN - 1) / SR_STAGE_ALIGN * SR_STAGE_ALIGN;
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

// A string is stored as a byte that is 0 for NULL, then its text with the terminator.
static uint64_t strings_bytes(const sr_pipeline_options *o) {
    uint64_t bytes = 0;
    for (int i = 0; i < sr_stage_string_count(o); i++)
        bytes += 2 + (string_of(o, i) ? strlen(string_of(o, i)) : 0);
    return bytes;
}

static void write_strings(char *to, const sr_pipeline_options *o) {
    for (int i = 0; i < sr_stage_string_count(o); i++) {
        const char *s = string_of(o, i);
        size_t n = s ? strlen(s) : 0;
        *to++ = s != NULL;
        memcpy(to, s ? s : "", n + 1);
        to += n + 1;
    }
}

static void write_windows(sr_transform_window *to, const sr_pipeline_options *o) {
    for (int i = 0; i < o->transform_count; i++)
        to[i] = o->windows ? o->windows[i] : (sr_transform_window){0};
}

// Class names are stored, too, so that transformers need not open the data set.
static uint64_t classes_bytes(const sr_dataset *dataset) {
    uint64_t bytes = 0;
    for (int i = 0; i < sr_dataset_class_count(dataset); i++)
        bytes += strlen(sr_dataset_class_name(dataset, i)) + 1;
    return bytes;
}

static void write_classes(char *to, const sr_dataset *dataset) {
    for (int i = 0; i < sr_dataset_class_count(dataset); i++) {
        const char *name = sr_dataset_class_name(dataset, i);
        size_t n = strlen(name) + 1;
        memcpy(to, name, n);
        to += n;
    }
}

static int64_t plan_total(const sr_stage_plan *plan) {
    const sr_pipeline_options *o = &plan->options;
    int64_t lanes = o->lane_end - o->lane_begin;
    if (o->order == SR_ORDER_ONCE) {
        int64_t left = plan->count > o->position ? plan->count - o->position : 0;
        int64_t steps = (left + o->batch - 1) / o->batch;
        return (o->steps > 0 && o->steps < steps ? o->steps : steps) * lanes;
    }
    return o->steps > 0 ? o->steps * lanes : INT64_MAX;
}

// Number of foreign samples that the transforms need.
static sr_status plan_foreign(sr_stage_plan *plan) {
    sr_transform_chain *chain;
    SR_TRY(
        sr_transform_chain_create(plan->options.transforms, plan->options.transform_count, &chain));
    plan->foreign = sr_transform_chain_foreign(chain);
    sr_transform_chain_free(chain);
    return SR_OK;
}

// Places the tables behind the plan, in *bytes of sealed memory.
static void place_tables(sr_stage_plan *plan, const sr_dataset *dataset, uint64_t *bytes) {
    const sr_pipeline_options *o = &plan->options;
    uint64_t at = 0;
    take(&at, sizeof *plan);
    plan->windows = take(&at, (uint64_t)o->transform_count * sizeof *o->windows);
    plan->strings_bytes = strings_bytes(o);
    plan->strings = take(&at, plan->strings_bytes);
    plan->class_count = sr_dataset_class_count(dataset);
    plan->classes_bytes = classes_bytes(dataset);
    plan->classes = take(&at, plan->classes_bytes);
    plan->members = take(&at, sr_class_members_bytes(plan));
    *bytes = at;
}

// Places rings and slot buffers behind the states, in *bytes of shared memory.
static void place_work(sr_stage_plan *plan, uint64_t *bytes) {
    uint64_t at = 0;
    take(&at, sizeof(sr_stage_header) +
                  (size_t)(SR_STAGE_TRANSFORMER + plan->workers) * sizeof(sr_stage_state));
    plan->rings = take(&at, plan->ring_bytes * (uint64_t)plan->workers);
    at = (at + 4095) / 4096 * 4096;
    plan->slot_buffers = take(&at, plan->layout.bytes * (uint64_t)plan->slots);
    *bytes = at;
}

static sr_status make_plan(sr_stage_plan *plan, sr_dataset *dataset) {
    const sr_pipeline_options *o = &plan->options;
    const sr_transformer *transformer;
    sr_array_spec specs[SR_SLOT_MAX_ARRAYS];
    record_sizes sizes;
    SR_TRY(sr_transformer_find(o->transformer, &transformer));
    SR_TRY(plan_foreign(plan));
    SR_TRY(measure(dataset, &sizes));
    plan->magic = SR_STAGE_MAGIC;
    plan->parent = getpid();
    plan->workers = o->workers;
    plan->stamp = sr_dataset_get_stamp(dataset);
    plan->count = plan->stamp.count;
    plan->samples = o->batch / o->lanes;
    if (plan->samples > SR_STAGE_MAX_SAMPLES)
        return SR_FAIL(SR_E_USAGE, "batch %lld: a lane may have at most %lld samples; raise lanes",
                       (long long)o->batch, (long long)SR_STAGE_MAX_SAMPLES);
    plan->block = plan_block(plan->samples, o->image_height * o->image_width * 3);
    plan->total = plan_total(plan);
    plan->slots = o->prefetch > 0 ? o->prefetch : 2 * (o->lane_end - o->lane_begin);
    plan->slots = plan->slots > 1 ? plan->slots : 2;
    plan_layout(plan, specs, transformer->arrays(o, specs));
    plan_chunks(plan, &sizes);
    plan->beyond_memory = sizes.total > sr_machine_get_memory().available;
    return plan_rings(plan, &sizes);
}

// Seals the plan and its tables. Pointers of this process are not written to it: they would help an
// attacker who has taken over another process.
static sr_status seal_plan(const sr_stage_plan *plan, uint64_t bytes, const sr_dataset *dataset,
                           sr_shared_memory *out) {
    const sr_pipeline_options *o = &plan->options;
    uint8_t *memory = sr_alloc((size_t)bytes, "plan of the data processes");
    if (!memory)
        return SR_E_MEMORY;
    sr_stage_plan *stored = (sr_stage_plan *)(void *)memory;
    *stored = *plan;
    stored->options.dataset = stored->options.split = stored->options.transformer = NULL;
    stored->options.transforms = NULL;
    stored->options.windows = NULL;
    stored->options.labels = NULL;
    stored->options.identity = NULL;
    write_windows((void *)(memory + plan->windows), o);
    write_strings((char *)memory + plan->strings, o);
    write_classes((char *)memory + plan->classes, dataset);
    sr_status status = sr_class_members_write(plan, (void *)(memory + plan->members));
    if (status == SR_OK)
        status = sr_shared_create_constant("serried-plan", memory, (size_t)bytes, out);
    sr_free(memory);
    return status;
}

sr_status sr_stage_measure(const sr_pipeline_options *options, sr_dataset *dataset,
                           uint64_t *bytes) {
    sr_stage_plan plan = {.options = *options};
    SR_TRY(make_plan(&plan, dataset));
    *bytes = plan.slot_buffers + plan.layout.bytes * (uint64_t)plan.slots;
    return SR_OK;
}

sr_status sr_stage_create(const sr_pipeline_options *options, sr_dataset *dataset,
                          sr_stage_memory *out) {
    sr_stage_plan plan = {.options = *options};
    sr_stage_memory memory = {0};
    uint64_t plan_bytes, work_bytes;
    SR_TRY(make_plan(&plan, dataset));
    place_tables(&plan, dataset, &plan_bytes);
    place_work(&plan, &work_bytes);
    SR_TRY(seal_plan(&plan, plan_bytes, dataset, &memory.plan));
    const sr_status status = sr_shared_create("serried-data", work_bytes, &memory.work);
    if (status != SR_OK) {
        sr_stage_memory_release(&memory);
        return status;
    }
    plan.base = memory.work.base;
    uint64_t capacity = sr_stage_ring_capacity(&plan);
    uint64_t ahead = BLOCKS_AHEAD * (uint64_t)plan.block;
    assert(ahead > 0);
    for (int w = 0; w < plan.workers; w++)
        sr_ring_init(sr_stage_ring(&plan, w), capacity, capacity / ahead);
    for (int64_t s = 0; s < plan.slots; s++)
        atomic_store(&sr_stage_slot(&plan, s)->free_for, (uint64_t)s);
    *out = memory;
    return SR_OK;
}
