// SPDX-License-Identifier: Apache-2.0
// DataIterator: waits for all rows of a slot, assembles the arrays that are not written in place
// (labels, ragged arrays with their counts, the first error) and delivers slots in order.
//
// Assembly reads only what transformers wrote to the slot and overwrites only its own output, so if
// the iterator is killed halfway its replacement can assemble the same slot again.
#include <string.h>

#include "dataio/pipeline/stage_internal.h"
#include "kernels/base/clock.h"

// Number of samples that a transformer has consumed once all blocks below 'blocks' are done.
static uint64_t share(const sr_stage_plan *plan, int64_t blocks, int worker) {
    if (blocks <= worker)
        return 0;
    return (uint64_t)((blocks - worker + plan->workers - 1) / plan->workers * plan->block);
}

static bool wait_rows(sr_stage *stage, int64_t slot) {
    const sr_stage_plan *plan = &stage->plan;
    int64_t blocks = (slot + 1) * (plan->samples / plan->block);
    sr_stage_activity(stage, SR_ACTIVITY_WAITING_ROWS, -1);
    for (int w = 0; w < plan->workers; w++) {
        sr_ring *ring = sr_stage_ring(plan, w);
        uint64_t need = share(plan, blocks, w);
        for (;;) {
            uint32_t seen = sr_bell_read(&ring->consumed_bell);
            if (atomic_load_explicit(&ring->consumed, memory_order_acquire) >= need)
                break;
            if (!sr_stage_wait(stage, &ring->consumed_bell, seen))
                return false;
        }
    }
    return true;
}

static sr_status assemble_array(const sr_stage *stage, sr_slot_header *header, int i) {
    const sr_stage_plan *plan = &stage->plan;
    const sr_slot_layout *m = &plan->layout;
    const sr_array_spec *spec = &stage->array[i];
    const sr_row_state *states = sr_stage_at(header, m->states);
    size_t row = stage->row_bytes[i];
    if (spec->in_place)
        return SR_OK;
    uint8_t *to = sr_stage_at(header, m->array[i]);
    const uint8_t *from = sr_stage_at(header, m->staged[i]);
    if (spec->capacity == 0) {
        memcpy(to, from, row * (size_t)plan->samples);
        return SR_OK;
    }
    int32_t *counts = sr_stage_at(header, m->count[i]);
    int64_t rows = 0;
    for (int64_t s = 0; s < plan->samples; s++) {
        int64_t n;
        sr_shared_read(&n, &states[s].counts[i], sizeof n);
        if (n < 0 || n > spec->capacity)
            return sr_stage_corrupted("a sample's number of rows");
        memcpy(to + (size_t)rows * row, from + (size_t)(s * spec->capacity) * row, (size_t)n * row);
        counts[s] = (int32_t)n;
        rows += n;
    }
    // Clear the rest, so that a slot's bytes depend on its samples only.
    memset(to + (size_t)rows * row, 0, (size_t)(plan->samples * spec->capacity - rows) * row);
    return SR_OK;
}

static void take_error(const sr_stage_plan *plan, sr_slot_header *header) {
    const sr_stage_error *errors = sr_stage_at(header, plan->layout.errors);
    atomic_store_explicit(&header->error.status, SR_OK, memory_order_relaxed);
    header->error.message[0] = '\0';
    for (int64_t b = 0; b < plan->samples / plan->block; b++) {
        int32_t status = atomic_load_explicit(&errors[b].status, memory_order_acquire);
        if (status == SR_OK && (header->error.message[0] || !errors[b].message[0]))
            continue;
        header->error.sample = errors[b].sample;
        memcpy(header->error.where, errors[b].where, sizeof errors[b].where);
        memcpy(header->error.message, errors[b].message, sizeof errors[b].message);
        atomic_store_explicit(&header->error.status, status, memory_order_release);
        if (status != SR_OK)
            return;
    }
}

static sr_status assemble(sr_stage *stage, int64_t slot) {
    const sr_stage_plan *plan = &stage->plan;
    sr_slot_header *header = sr_stage_slot(plan, slot);
    int64_t begin = sr_clock_ns();
    sr_stage_shape(stage, slot);
    sr_stage_activity(stage, SR_ACTIVITY_ASSEMBLING, slot);
    for (int i = 0; i < stage->arrays; i++)
        SR_TRY(assemble_array(stage, header, i));
    take_error(plan, header);
    atomic_store_explicit(&stage->header->ready, (uint64_t)slot + 1, memory_order_release);
    sr_bell_ring(&stage->header->ready_bell);
    atomic_fetch_add_explicit(&stage->state->first_ns, sr_clock_ns() - begin, memory_order_relaxed);
    return SR_OK;
}

sr_status sr_iterator_run(sr_stage *stage) {
    uint64_t ready = atomic_load_explicit(&stage->header->ready, memory_order_acquire);
    SR_TRY(sr_stage_sandbox(stage, SR_SANDBOX_COMPUTE));
    if (ready > (uint64_t)stage->plan.total)
        return sr_stage_corrupted("the number of ready slots");
    for (int64_t slot = (int64_t)ready; slot < stage->plan.total && wait_rows(stage, slot); slot++)
        SR_TRY(assemble(stage, slot));
    return SR_OK;
}
