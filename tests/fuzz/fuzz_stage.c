// SPDX-License-Identifier: Apache-2.0
// Fuzzes the memory of the data processes, as a faulty other process may have left it. The first
// byte selects the transformer and what is overwritten: the plan with its tables (which real
// processes cannot write), or states, rings and slots; then follow writes: u32 offset, u8 length,
// bytes. No value that a stage or the rank reads from this memory may lead it outside the memory.
#include "dataio/pipeline/slot_copy_internal.h"
#include "dataio/pipeline/stage_internal.h"
#include "dataio/record/record.h"
#include "dataio/record/shard.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "tests/fuzz/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIDE = 8, SAMPLES = 4, SLOTS = 2, TRANSFORMERS = 2 };

static sr_stage_memory memories[TRANSFORMERS]; // with a plan that can be written
static sr_stage_memory originals[TRANSFORMERS];

static void write_data_set(void) {
    uint8_t pixels[SIDE * SIDE * 3] = {0};
    sr_writer *writer;
    sr_record_writer record = {0};
    const sr_sample sample = {.data = pixels,
                              .bytes = sizeof pixels,
                              .height = SIDE,
                              .width = SIDE,
                              .channels = 3,
                              .label = 0,
                              .orientation = 1};
    require(sr_writer_open(&(sr_writer_options){.folder = scratch_folder(),
                                                .classes = (const char *const[]){"a"},
                                                .class_count = 1},
                           &writer) == SR_OK);
    require(sr_sample_write(&record, &sample) == SR_OK);
    for (int i = 0; i < SLOTS * SAMPLES; i++)
        require(sr_writer_append(writer, record.data, record.bytes) == SR_OK);
    require(sr_writer_close(writer) == SR_OK);
    sr_record_writer_release(&record);
}

static void copy(const sr_stage_memory *from, sr_stage_memory *to) {
    memcpy(to->plan.base, from->plan.base, from->plan.bytes);
    memcpy(to->work.base, from->work.base, from->work.bytes);
}

// Memory of its own in place of the sealed memory or for a copy.
static void replace(sr_shared_memory *memory) {
    memory->base = sr_alloc(memory->bytes, "memory of stages");
    require(memory->base != NULL);
}

static void prepare(void) {
    static const char *const names[TRANSFORMERS] = {"classify", "detect"};
    static const sr_transform_spec flip = {"flip", "probability=0.5"};
    sr_dataset *dataset;
    if (originals[0].plan.base != NULL)
        return;
    sr_log_set_level(SR_LOG_ERROR);
    write_data_set();
    require(sr_dataset_open(scratch_folder(), "train", &dataset) == SR_OK);
    for (int i = 0; i < TRANSFORMERS; i++) {
        const sr_pipeline_options options = {.dataset = scratch_folder(),
                                             .split = "train",
                                             .transformer = names[i],
                                             .transforms = &flip,
                                             .transform_count = 1,
                                             .image_height = SIDE,
                                             .image_width = SIDE,
                                             .batch = SAMPLES,
                                             .lanes = 1,
                                             .lane_end = 1,
                                             .steps = SLOTS,
                                             .prefetch = SLOTS,
                                             .workers = 2};
        sr_stage_memory made;
        require(sr_stage_create(&options, dataset, &made) == SR_OK);
        atomic_store(&((sr_stage_header *)made.work.base)->stop, 1); // nothing waits here
        memories[i] = originals[i] = made;
        replace(&memories[i].plan);
        replace(&originals[i].plan);
        replace(&originals[i].work);
        copy(&made, &memories[i]);
        copy(&made, &originals[i]);
    }
    sr_dataset_free(dataset);
}

static void write_over(uint8_t *base, size_t bytes, const uint8_t *data, size_t size) {
    while (size > 5) {
        size_t at =
            (data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16 | (size_t)data[3] << 24) %
            bytes;
        size_t n = data[4] < size - 5 ? data[4] : size - 5;
        n = n < bytes - at ? n : bytes - at;
        memcpy(base + at, data + 5, n);
        data += 5 + n;
        size -= 5 + n;
    }
}

// -- what stages take from it ----------------------------------------------------------------

static void require_inside(const sr_shared_memory *memory, const void *at, uint64_t bytes) {
    uintptr_t base = (uintptr_t)memory->base, begin = (uintptr_t)at;
    require(begin >= base && begin - base <= memory->bytes &&
            bytes <= memory->bytes - (begin - base));
}

static void check_slot(const sr_shared_memory *memory, const sr_stage *stage, int64_t slot) {
    const sr_slot_layout *m = &stage->plan.layout;
    sr_slot_header *header = sr_stage_slot(&stage->plan, slot);
    uint64_t n = (uint64_t)stage->plan.samples;
    require_inside(memory, header, m->bytes);
    require_inside(memory, sr_stage_at(header, m->states), n * sizeof(sr_row_state));
    require_inside(memory, sr_stage_at(header, m->errors),
                   n / (uint64_t)stage->plan.block * sizeof(sr_stage_error));
    for (int i = 0; i < stage->arrays; i++) {
        int64_t capacity = stage->array[i].capacity;
        uint64_t all = n * (capacity > 0 ? (uint64_t)capacity : 1) * m->row_bytes[i];
        require_inside(memory, sr_stage_at(header, m->array[i]), all);
        if (!stage->array[i].in_place)
            require_inside(memory, sr_stage_at(header, m->staged[i]), all);
        if (capacity > 0)
            require_inside(memory, sr_stage_at(header, m->count[i]), n * sizeof(int32_t));
    }
}

static void check_strings(const sr_stage *stage) {
    const sr_pipeline_options *o = &stage->options;
    size_t sum = strlen(o->dataset) + (o->split ? strlen(o->split) : 0) +
                 (o->transformer ? strlen(o->transformer) : 0);
    for (int i = 0; i < o->transform_count; i++)
        sum += strlen(o->transforms[i].name) +
               (o->transforms[i].arguments ? strlen(o->transforms[i].arguments) : 0);
    require(sum < stage->plan.strings_bytes);
}

static void check_classes(const sr_stage *stage) {
    size_t sum = 0;
    for (int64_t i = 0; i < stage->plan.class_count; i++)
        sum += strlen(stage->classes[i]);
    require(sum <= stage->plan.classes_bytes);
}

static void check_ring(const sr_shared_memory *memory, const sr_stage *stage, int worker) {
    sr_ring *ring = sr_stage_ring(&stage->plan, worker);
    uint64_t capacity = sr_stage_ring_capacity(&stage->plan);
    sr_cell cell, *next;
    require_inside(memory, ring, stage->plan.ring_bytes);
    require_inside(memory, ring->data, capacity);
    if (sr_ring_peek(ring, capacity, &cell) == SR_RING_HAS_CELL)
        require_inside(memory, sr_ring_bytes_of(ring, &cell), cell.bytes);
    const uint8_t *room = sr_ring_reserve(ring, capacity, 100, &next);
    if (room != NULL)
        require(room >= ring->data && room + 100 <= ring->data + capacity);
    (void)sr_ring_fill(ring);
}

static void take_slots(const sr_stage *stage) {
    uint8_t *memory = sr_alloc(sr_slot_copy_bytes(stage), "copy of a slot");
    sr_row_state *states =
        sr_alloc_array((size_t)stage->plan.samples, sizeof *states, "states of a slot");
    require(memory != NULL && states != NULL);
    for (int64_t slot = 0; slot < stage->plan.slots && slot < 64; slot++) {
        sr_slot_copy taken;
        const sr_status status =
            sr_slot_copy_take(stage, sr_stage_slot(&stage->plan, slot), memory, states, &taken);
        for (int i = 0; i < stage->arrays && status == SR_OK; i++) {
            const int64_t most = stage->array[i].capacity > 0 ? stage->array[i].capacity : 1;
            require(taken.rows[i] >= 0 && taken.rows[i] <= most * stage->plan.samples);
        }
        (void)!sr_stage_error_adopt(&taken.error, NULL);
    }
    sr_free(memory);
    sr_free(states);
}

static void use(const sr_stage_memory *memory, int number, bool sound) {
    sr_stage stage, iterator;
    if (sr_stage_init(&stage, memory, number) == SR_OK) {
        check_strings(&stage);
        check_classes(&stage);
        for (int64_t slot = 0; slot < stage.plan.slots && slot < 64; slot++)
            check_slot(&memory->work, &stage, slot);
        check_slot(&memory->work, &stage, INT64_MAX);
        for (int w = 0; w < stage.plan.workers; w++)
            check_ring(&memory->work, &stage, w);
        (void)sr_stage_stopped(&stage);
        // Only for as many steps as the counters say: an endless plan would run forever.
        if (sr_stage_init(&iterator, memory, SR_STAGE_ITERATOR) == SR_OK &&
            iterator.plan.total <= SLOTS)
            (void)!sr_iterator_run(&iterator);
        sr_stage_release(&iterator);
        take_slots(&stage);
    }
    require(!sound || stage.arrays > 0);
    sr_stage_release(&stage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    prepare();
    if (size < 2)
        return 0;
    bool sound = size == 2;
    int kind = data[0] % TRANSFORMERS;
    sr_stage_memory *memory = &memories[kind];
    sr_shared_memory *over = data[0] & 2 ? &memory->plan : &memory->work;
    write_over(over->base, over->bytes, data + 2, size - 2);
    atomic_store(&((sr_stage_header *)memory->work.base)->stop, 1);
    use(memory, data[1] % 5, sound && data[1] % 5 < 4);
    copy(&originals[kind], memory);
    return 0;
}
