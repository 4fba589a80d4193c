// SPDX-License-Identifier: Apache-2.0
// What the rank takes from an assembled slot: all but the pixels, in its own memory. Labels, counts
// and positions index arrays of the rank, and a decoder that an attacker has taken over can change
// the slot at any time: so they are copied once, checked, and used from the copy. Pixels stay where
// they are, because every value of a pixel is valid.
#ifndef SR_DATAIO_SLOT_COPY_INTERNAL_H
#define SR_DATAIO_SLOT_COPY_INTERNAL_H

#include "dataio/pipeline/stage_internal.h"

typedef struct sr_slot_copy {
    sr_stage_error error;               // of the first damaged sample
    int64_t rows[SR_SLOT_MAX_ARRAYS];   // rows in use of each array
    void *array[SR_SLOT_MAX_ARRAYS];    // its data: the copy or, of pixels, the slot's own
    int32_t *count[SR_SLOT_MAX_ARRAYS]; // of ragged arrays: rows of each sample
} sr_slot_copy;

// Bytes that the copies of one slot take.
size_t sr_slot_copy_bytes(const sr_stage *stage);
// Copies a slot whose shape 'stage' has into 'memory', 64-byte aligned; states: of each sample,
// into states[samples]. SR_E_PEER where no stage writes such counts.
SR_NODISCARD sr_status sr_slot_copy_take(const sr_stage *stage, sr_slot_header *header,
                                         uint8_t *memory, sr_row_state *states, sr_slot_copy *out);

#endif
