// SPDX-License-Identifier: Apache-2.0
// A record and the foreign records that go along with it, in one cell of a ring.
//
// The reader holds the records of the slot that it is dealing from, so that each of them can go
// along with others; nothing is read for it that is not dealt in the same slot. Layout of a cell:
// for each part u64 bytes, then the records; a foreign record that is damaged or beyond the end of
// the data has none.
#ifndef SR_DATAIO_BUNDLE_INTERNAL_H
#define SR_DATAIO_BUNDLE_INTERNAL_H

#include "dataio/image/canvas.h"
#include "dataio/pipeline/sampler.h"
#include "kernels/base/status.h"

#define SR_BUNDLE_MOST (1 + SR_FOREIGN_MOST)

// A record, or what is wrong with it.
typedef struct sr_bundle_record {
    const void *data;
    size_t bytes;
} sr_bundle_record;

// A record as it was dealt.
typedef struct sr_drawn_record {
    sr_draw draw;
    sr_status status; // else data is the message
    const void *data;
    size_t bytes;
    uint8_t *owned; // to be freed; may be what data points to
} sr_drawn_record;

// The records of one slot. Zero-initialised is empty.
typedef struct sr_bundler {
    sr_drawn_record *records;
    int64_t count, capacity, slot; // slot: of the records; -1 where there are none
    uint8_t *bytes;
    size_t byte_capacity;
} sr_bundler;

void sr_bundler_release(sr_bundler *bundler);
// Empties it for the records of a slot.
SR_NODISCARD sr_status sr_bundler_begin(sr_bundler *bundler, int64_t slot, int64_t samples);
// Appends the next record, taking over what it owns.
SR_NODISCARD sr_status sr_bundler_add(sr_bundler *bundler, sr_drawn_record *record);
// Record 'inside' with its 'foreign' company, in memory of the bundler until the next call.
SR_NODISCARD sr_status sr_bundler_take(sr_bundler *bundler, uint64_t seed, int64_t inside,
                                       int foreign, sr_drawn_record *out);

// The records of such a cell; false where they do not fill it.
bool sr_bundle_open(const void *data, size_t bytes, int records, sr_bundle_record *out);

#endif
