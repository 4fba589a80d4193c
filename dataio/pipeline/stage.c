// SPDX-License-Identifier: Apache-2.0
// The shared memory of a pipeline: planning its layout, attaching to it, access, waiting and
// errors.
//
// The creator writes everything but the counters before any stage starts. Locations are stored as
// offsets, so the memory may be mapped at a different address in each process.
#include "dataio/pipeline/stage_internal.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dataio/pipeline/sampler.h"
#include "kernels/base/clock.h"
#include "kernels/base/machine.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"

#define ALIGN UINT64_C(64)
#define DEFAULT_MEMORY (INT64_C(256) << 20)
#define RING_MOST (UINT64_C(32) << 20)
#define BLOCK_BYTES (INT64_C(128) << 10) // pixels of a block: enough work for one wake-up
#define BLOCKS_AHEAD 8
#define MOST_SAMPLES (INT64_C(1) << 24) // of a slot: products of sizes cannot overflow

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

static void plan_layout(sr_stage_plan *plan, const sr_array_spec *specs, int arrays) {
    uint64_t at = 0, n = (uint64_t)plan->samples;
    sr_slot_layout *m = &plan->layout;
    take(&at, sizeof(sr_slot_header));
    for (int i = 0; i < arrays; i++) {
        uint64_t rows = specs[i].capacity > 0 ? (uint64_t)specs[i].capacity : 1;
        m->row_bytes[i] = row_bytes(&specs[i]);
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

// Each ring has room for the largest record twice and, memory permitting, for eight blocks.
static sr_status plan_rings(sr_stage_plan *plan, const record_sizes *sizes) {
    uint64_t mean = sizes->total / (uint64_t)plan->count + 1, workers = (uint64_t)plan->workers;
    uint64_t together = 1 + (uint64_t)plan->foreign; // records of a cell
    uint64_t least = 2 * together * (sizes->largest + ALIGN) + 4096;
    uint64_t wanted = BLOCKS_AHEAD * (uint64_t)plan->block * together * (mean + ALIGN);
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
    capacity = (capacity > least ? capacity : least) / ALIGN * ALIGN;
    plan->ring_bytes = (sr_ring_bytes(capacity) + ALIGN - 1) / ALIGN * ALIGN;
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

// A string is stored as a byte that is 0 for NULL, then its text with the terminator.
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
    if (o->order == SR_ORDER_SEQUENTIAL) {
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
    plan->count = sr_dataset_count(dataset);
    plan->samples = o->batch / o->lanes;
    if (plan->samples > MOST_SAMPLES)
        return SR_FAIL(SR_E_USAGE, "batch %lld: a lane has at most %lld samples",
                       (long long)o->batch, (long long)MOST_SAMPLES);
    plan->block = plan_block(plan->samples, o->image_height * o->image_width * 3);
    plan->total = plan_total(plan);
    plan->slots = o->prefetch > 0 ? o->prefetch : 2 * (o->lane_end - o->lane_begin);
    plan->slots = plan->slots > 1 ? plan->slots : 2;
    plan_layout(plan, specs, transformer->arrays(o, specs));
    if (o->order == SR_ORDER_CHUNKS)
        sr_sampler_plan_chunks(plan->count, (int64_t)sizes.total, o->lanes, &plan->chunk,
                               &plan->buffer);
    plan->beyond_memory = sizes.total > sr_machine_get_memory().available;
    SR_TRY(plan_rings(plan, &sizes));
    uint64_t at = 0;
    take(&at, sizeof(sr_stage_header) +
                  (size_t)(SR_STAGE_TRANSFORMER + plan->workers) * sizeof(sr_stage_state));
    plan->strings_bytes = strings_bytes(o);
    plan->strings = take(&at, plan->strings_bytes);
    plan->class_count = sr_dataset_class_count(dataset);
    plan->classes_bytes = classes_bytes(dataset);
    plan->classes = take(&at, plan->classes_bytes);
    plan->rings = take(&at, plan->ring_bytes * (uint64_t)plan->workers);
    at = (at + 4095) / 4096 * 4096;
    plan->slot_buffers = take(&at, plan->layout.bytes * (uint64_t)plan->slots);
    return SR_OK;
}

sr_status sr_stage_create(const sr_pipeline_options *options, sr_dataset *dataset,
                          sr_shared_memory *out) {
    sr_stage_plan plan = {.options = *options};
    SR_TRY(make_plan(&plan, dataset));
    SR_TRY(sr_shared_create("serried-data",
                            plan.slot_buffers + plan.layout.bytes * (uint64_t)plan.slots, out));
    sr_stage_header *header = out->base;
    header->plan = plan;
    write_strings((char *)out->base + plan.strings, options);
    write_classes((char *)out->base + plan.classes, dataset);
    plan.base = out->base;
    uint64_t capacity = sr_stage_ring_capacity(&plan);
    uint64_t ahead = BLOCKS_AHEAD * (uint64_t)plan.block;
    assert(ahead > 0);
    for (int w = 0; w < plan.workers; w++)
        sr_ring_init(sr_stage_ring(&plan, w), capacity, capacity / ahead);
    for (int64_t s = 0; s < plan.slots; s++)
        atomic_store(&sr_stage_slot(&plan, s)->free_for, (uint64_t)s);
    return SR_OK;
}

// -- attaching -------------------------------------------------------------------------------

sr_status sr_stage_corrupted(const char *what) {
    return SR_FAIL(SR_E_PEER,
                   "the shared memory of the data processes was overwritten by one of them (%s); "
                   "run with data.processes=0 under a debugger",
                   what);
}

static bool inside(uint64_t begin, uint64_t bytes, uint64_t end) {
    return begin <= end && bytes <= end - begin;
}

// Whether 'count' elements of 'bytes' from an aligned offset on end before 'end'.
static bool array_inside(uint64_t begin, uint64_t count, uint64_t bytes, uint64_t end) {
    uint64_t all;
    return begin % ALIGN == 0 && !__builtin_mul_overflow(count, bytes, &all) &&
           inside(begin, all, end);
}

static bool options_fit(const sr_stage_plan *plan) {
    const sr_pipeline_options *o = &plan->options;
    return o->lanes > 0 && o->lane_begin >= 0 && o->lane_end > o->lane_begin &&
           o->lane_end <= o->lanes && o->batch / o->lanes == plan->samples &&
           o->batch % o->lanes == 0 && o->position >= 0 && o->position < INT64_MAX / 2 &&
           o->image_height > 0 && o->image_width > 0 && o->image_height <= 1 << 16 &&
           o->image_width <= 1 << 16 && o->transform_count >= 0 &&
           2 * (3 + 2 * (uint64_t)o->transform_count) <= plan->strings_bytes;
}

static bool plan_fits(const sr_stage_plan *plan, uint64_t bytes) {
    uint64_t states = sizeof(sr_stage_header) +
                      (SR_STAGE_TRANSFORMER + SR_STAGE_MAX_WORKERS) * sizeof(sr_stage_state);
    if (plan->magic != SR_STAGE_MAGIC || plan->workers < 1 ||
        plan->workers > SR_STAGE_MAX_WORKERS || plan->slots < 1 || plan->total < 0 ||
        plan->samples < 1 || plan->samples > MOST_SAMPLES || plan->block < 1 ||
        plan->samples % plan->block != 0 || plan->foreign < 0 || plan->foreign > SR_FOREIGN_MOST ||
        plan->count < 1 || plan->chunk < 0 || plan->buffer < 0 || !options_fit(plan))
        return false;
    states -= (uint64_t)(SR_STAGE_MAX_WORKERS - plan->workers) * sizeof(sr_stage_state);
    return plan->strings >= states && inside(plan->strings, plan->strings_bytes, bytes) &&
           plan->classes >= states && inside(plan->classes, plan->classes_bytes, bytes) &&
           plan->class_count >= 0 && (uint64_t)plan->class_count <= plan->classes_bytes &&
           plan->rings >= states && plan->ring_bytes % ALIGN == 0 &&
           plan->ring_bytes > sr_ring_bytes(0) &&
           array_inside(plan->rings, (uint64_t)plan->workers, plan->ring_bytes, bytes) &&
           plan->slot_buffers >= states && plan->layout.bytes % ALIGN == 0 &&
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
        fits = !__builtin_mul_overflow(rows, n, &all) && m->row_bytes[i] == row_bytes(&specs[i]) &&
               m->array[i] >= begin && array_inside(m->array[i], all, m->row_bytes[i], end);
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
    const char *at = stage->strings, *end = at + stage->plan.strings_bytes;
    for (int i = 0; i < string_count(&stage->options); i++) {
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

static sr_status copy_classes(sr_stage *stage) {
    const sr_stage_plan *plan = &stage->plan;
    stage->classes =
        sr_alloc_array((size_t)plan->class_count + 1, sizeof *stage->classes, "class names");
    stage->class_text = sr_alloc((size_t)plan->classes_bytes + 1, "class names");
    if (!stage->classes || !stage->class_text)
        return SR_E_MEMORY;
    memcpy(stage->class_text, plan->base + plan->classes, (size_t)plan->classes_bytes);
    const char *at = stage->class_text, *end = at + plan->classes_bytes;
    for (int64_t i = 0; i < plan->class_count; i++) {
        stage->classes[i] = at;
        at += strlen(at); // the last one is terminated, too
        at += at < end;
    }
    return SR_OK;
}

static sr_status copy_strings(sr_stage *stage) {
    sr_pipeline_options *o = &stage->options;
    stage->transforms =
        sr_alloc_array((size_t)o->transform_count, sizeof *stage->transforms, "transform list");
    stage->strings = sr_alloc((size_t)stage->plan.strings_bytes, "options of the data processes");
    if (!stage->transforms || !stage->strings)
        return SR_E_MEMORY;
    o->transforms = stage->transforms;
    memcpy(stage->strings, stage->plan.base + stage->plan.strings,
           (size_t)stage->plan.strings_bytes);
    return SR_OK;
}

sr_status sr_stage_init(sr_stage *stage, const sr_shared_memory *memory, int number) {
    *stage = (sr_stage){.header = memory->base, .number = number, .parent_pidfd = -1, .blamed = -1};
    if (memory->bytes >= sizeof *stage->header)
        stage->plan = stage->header->plan;
    if (!plan_fits(&stage->plan, memory->bytes) || number < 0 ||
        number >= SR_STAGE_TRANSFORMER + stage->plan.workers)
        return SR_FAIL(SR_E_ARGUMENT, "stage %d: this shared memory has no valid plan for it",
                       number);
    stage->plan.base = memory->base;
    stage->state = &stage->header->states[number];
    stage->options = stage->plan.options;
    SR_TRY(copy_strings(stage));
    if (!split_strings(stage))
        return SR_FAIL(SR_E_ARGUMENT,
                       "stage %d: the options in this shared memory are inconsistent", number);
    SR_TRY(copy_classes(stage));
    const sr_transformer *transformer;
    SR_TRY(sr_transformer_find(stage->options.transformer, &transformer));
    stage->arrays = transformer->arrays(&stage->options, stage->array);
    if (!layout_fits(&stage->plan, stage->array, stage->arrays))
        return SR_FAIL(SR_E_ARGUMENT, "stage %d: the slots do not fit into this shared memory",
                       number);
    return SR_OK;
}

void sr_stage_release(sr_stage *stage) {
    sr_dataset_free(stage->dataset);
    sr_free(stage->transforms);
    sr_free(stage->strings);
    sr_free(stage->classes);
    sr_free(stage->class_text);
    if (stage->parent_pidfd >= 0)
        close(stage->parent_pidfd);
    *stage = (sr_stage){.parent_pidfd = -1};
}

sr_status sr_stage_dataset(sr_stage *stage, sr_dataset **out) {
    if (!stage->dataset)
        SR_TRY(
            sr_dataset_open_records(stage->options.dataset, stage->options.split, &stage->dataset));
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

sr_status sr_stage_check_slot(const sr_stage *stage, const sr_slot_header *header,
                              int64_t counts[SR_SLOT_MAX_ARRAYS]) {
    const sr_stage_plan *plan = &stage->plan;
    for (int i = 0; i < stage->arrays; i++) {
        int64_t capacity = stage->array[i].capacity, sum = capacity > 0 ? 0 : plan->samples;
        const int32_t *of_sample = sr_stage_at(header, plan->layout.count[i]);
        bool fits = true;
        for (int64_t s = 0; capacity > 0 && s < plan->samples; s++) {
            fits = fits && of_sample[s] >= 0 && of_sample[s] <= capacity;
            sum += of_sample[s];
        }
        counts[i] = header->counts[i];
        if (!fits || counts[i] != sum)
            return sr_stage_corrupted("a slot's number of rows");
    }
    return SR_OK;
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

const char *sr_stage_error_text(const sr_stage_error *error, const sr_dataset *dataset, char *out) {
    char name[300];
    const int most = (int)sizeof error->message - 1; // terminated whatever the memory contains
    if (dataset && error->sample >= 0 && error->sample < sr_dataset_count(dataset))
        (void)snprintf(out, 1200, "%s: %.*s", sr_dataset_sample_name(dataset, error->sample, name),
                       most, error->message);
    else
        (void)snprintf(out, 1200, "%.*s", most, error->message);
    return out;
}

sr_status sr_stage_error_adopt(const sr_stage_error *error, const sr_dataset *dataset) {
    char text[1200], where[sizeof error->where] = "";
    int32_t status = atomic_load_explicit(&error->status, memory_order_acquire);
    if (status == SR_OK)
        return SR_OK;
    memcpy(where, error->where, sizeof where - 1);
    return sr_error_adopt((sr_status)status, where, sr_stage_error_text(error, dataset, text));
}

bool sr_stage_is_sample_error(sr_status status) {
    return status >= SR_E_DATA && status < SR_E_PEER;
}
