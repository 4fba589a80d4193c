// SPDX-License-Identifier: Apache-2.0
// Copies an assembled slot, all but its pixels, into memory of the rank (slot_copy_internal.h).
#include "dataio/pipeline/slot_copy_internal.h"

static uint64_t aligned(uint64_t bytes) {
    return (bytes + SR_STAGE_ALIGN - 1) / SR_STAGE_ALIGN * SR_STAGE_ALIGN;
}

// Bytes of the copy of an array that is not read in place. Unused rows are copied, too, so that the
// bytes of a slot depend on its samples only.
static uint64_t array_bytes(const sr_stage *stage, int i) {
    const sr_array_spec *spec = &stage->array[i];
    const uint64_t rows = spec->capacity > 0 ? (uint64_t)spec->capacity : 1;
    return rows * (uint64_t)stage->plan.samples * stage->row_bytes[i];
}

static uint64_t count_bytes(const sr_stage *stage, int i) {
    return stage->array[i].capacity > 0 ? (uint64_t)stage->plan.samples * sizeof(int32_t) : 0;
}

size_t sr_slot_copy_bytes(const sr_stage *stage) {
    uint64_t bytes = 0;
    for (int i = 0; i < stage->arrays; i++)
        if (!stage->array[i].in_place)
            bytes += aligned(array_bytes(stage, i)) + aligned(count_bytes(stage, i));
    return (size_t)bytes;
}

static bool sum_counts(const int32_t *counts, int64_t samples, int64_t capacity, int64_t *sum) {
    *sum = 0;
    for (int64_t s = 0; s < samples; s++) {
        if (counts[s] < 0 || counts[s] > capacity)
            return false;
        *sum += counts[s];
    }
    return true;
}

// Takes the memory of array i from *memory.
static sr_status take_array(const sr_stage *stage, sr_slot_header *header, int i, uint8_t **memory,
                            sr_slot_copy *out) {
    const sr_slot_layout *m = &stage->plan.layout;
    const sr_array_spec *spec = &stage->array[i];
    out->rows[i] = stage->plan.samples;
    out->array[i] = sr_stage_at(header, m->array[i]);
    out->count[i] = NULL;
    if (spec->in_place)
        return SR_OK;
    sr_shared_read(*memory, out->array[i], array_bytes(stage, i));
    out->array[i] = *memory;
    *memory += aligned(array_bytes(stage, i));
    if (spec->capacity == 0)
        return SR_OK;
    out->count[i] = (int32_t *)(void *)*memory;
    *memory += aligned(count_bytes(stage, i));
    sr_shared_read(out->count[i], sr_stage_at(header, m->count[i]), count_bytes(stage, i));
    if (!sum_counts(out->count[i], stage->plan.samples, spec->capacity, &out->rows[i]))
        return sr_stage_corrupted("a slot's number of rows");
    return SR_OK;
}

static sr_status take_states(const sr_stage *stage, const sr_slot_header *header,
                             sr_row_state *states) {
    const sr_stage_plan *plan = &stage->plan;
    sr_shared_read(states, sr_stage_at(header, plan->layout.states),
                   (size_t)plan->samples * sizeof *states);
    for (int64_t s = 0; s < plan->samples; s++)
        if (states[s].replaced < 0 || states[s].replaced > plan->count)
            return sr_stage_corrupted("the number of a damaged sample");
    return SR_OK;
}

sr_status sr_slot_copy_take(const sr_stage *stage, sr_slot_header *header, uint8_t *memory,
                            sr_row_state *states, sr_slot_copy *out) {
    sr_stage_error_read(&header->error, &out->error);
    SR_TRY(take_states(stage, header, states));
    for (int i = 0; i < stage->arrays; i++)
        SR_TRY(take_array(stage, header, i, &memory, out));
    return SR_OK;
}
