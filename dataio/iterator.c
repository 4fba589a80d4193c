// SPDX-License-Identifier: Apache-2.0
// DataIterator: waits until a slot's rows are all there, assembles what is not written in place
// (labels, ragged arrays with their counts, the first error) and hands slots on in order.
//
// Assembly reads only what transformers left in the slot and overwrites only what itself writes, so
// an iterator that was killed in the middle is replaced by one that assembles the same slot again.
#include <string.h>

#include "dataio/stage_internal.h"
#include "kernels/base/clock.h"

// Samples that transformer w has consumed when all blocks below 'blocks' are done.
static uint64_t share(const sr_stage_header *h, int64_t blocks, int worker) {
    if (blocks <= worker)
        return 0;
    return (uint64_t)((blocks - worker + h->workers - 1) / h->workers * h->block);
}

static bool wait_rows(sr_stage *stage, int64_t slot) {
    const sr_stage_header *h = stage->header;
    int64_t blocks = (slot + 1) * (h->samples / h->block);
    sr_stage_activity(stage, SR_ACTIVITY_WAITING_ROWS, -1);
    for (int w = 0; w < h->workers; w++) {
        sr_ring *ring = sr_stage_ring(h, w);
        uint64_t need = share(h, blocks, w);
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

static void assemble_array(const sr_stage *stage, sr_place_header *place, int i) {
    const sr_stage_header *h = stage->header;
    const sr_place_map *m = &h->place;
    const sr_array_spec *spec = &stage->array[i];
    const sr_row_state *states = sr_stage_at(place, m->states);
    size_t row = m->row_bytes[i];
    if (spec->in_place) {
        place->counts[i] = h->samples;
        return;
    }
    uint8_t *to = sr_stage_at(place, m->array[i]);
    const uint8_t *from = sr_stage_at(place, m->staged[i]);
    if (spec->capacity == 0) {
        memcpy(to, from, row * (size_t)h->samples);
        place->counts[i] = h->samples;
        return;
    }
    int32_t *counts = sr_stage_at(place, m->count[i]);
    int64_t rows = 0;
    for (int64_t s = 0; s < h->samples; s++) {
        int64_t n = states[s].counts[i];
        memcpy(to + (size_t)rows * row, from + (size_t)(s * spec->capacity) * row, (size_t)n * row);
        counts[s] = (int32_t)n;
        rows += n;
    }
    // The rest is zero, so that a slot's bytes are a function of its samples.
    memset(to + (size_t)rows * row, 0, (size_t)(h->samples * spec->capacity - rows) * row);
    place->counts[i] = rows;
}

static void take_error(const sr_stage_header *h, sr_place_header *place) {
    const sr_stage_error *errors = sr_stage_at(place, h->place.errors);
    atomic_store_explicit(&place->error.status, SR_OK, memory_order_relaxed);
    place->error.message[0] = '\0';
    for (int64_t b = 0; b < h->samples / h->block; b++) {
        int32_t status = atomic_load_explicit(&errors[b].status, memory_order_acquire);
        if (status == SR_OK && (place->error.message[0] || !errors[b].message[0]))
            continue;
        memcpy(place->error.where, errors[b].where, sizeof errors[b].where);
        memcpy(place->error.message, errors[b].message, sizeof errors[b].message);
        atomic_store_explicit(&place->error.status, status, memory_order_release);
        if (status != SR_OK)
            return;
    }
}

static void assemble(sr_stage *stage, int64_t slot) {
    sr_stage_header *h = stage->header;
    sr_place_header *place = sr_stage_place(h, slot);
    const sr_row_state *states = sr_stage_at(place, h->place.states);
    int64_t begin = sr_clock_ns();
    sr_stage_activity(stage, SR_ACTIVITY_ASSEMBLING, slot);
    place->replaced = 0;
    for (int64_t s = 0; s < h->samples; s++)
        place->replaced += states[s].replaced != 0;
    for (int i = 0; i < stage->arrays; i++)
        assemble_array(stage, place, i);
    take_error(h, place);
    atomic_store_explicit(&h->ready, (uint64_t)slot + 1, memory_order_release);
    sr_bell_ring(&h->ready_bell);
    atomic_fetch_add_explicit(&stage->state->first_ns, sr_clock_ns() - begin, memory_order_relaxed);
}

sr_status sr_iterator_run(sr_stage *stage) {
    sr_stage_header *h = stage->header;
    int64_t slot = (int64_t)atomic_load_explicit(&h->ready, memory_order_acquire);
    for (; slot < h->total && wait_rows(stage, slot); slot++)
        assemble(stage, slot);
    return SR_OK;
}
