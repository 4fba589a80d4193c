// SPDX-License-Identifier: Apache-2.0
// A bundle: a record and its foreign records (sr_transform.foreign), in one cell of a ring.
//
// The reader keeps all records of the current slot, because each may appear in several bundles.
// Foreign records come from the same slot, so nothing extra is read. Layout of a cell: a u64 length
// for each record, then the records. A foreign record that is damaged or beyond the end of the data
// has length 0.
#ifndef SR_DATAIO_BUNDLE_INTERNAL_H
#define SR_DATAIO_BUNDLE_INTERNAL_H

#include "dataio/image/canvas.h"
#include "dataio/pipeline/sampler.h"
#include "kernels/base/status.h"

#define SR_BUNDLE_MOST (1 + SR_FOREIGN_MOST)

// One record of a bundle. data is NULL where a foreign record is missing.
typedef struct sr_bundle_record {
    const void *data;
    size_t bytes;
} sr_bundle_record;

// A record drawn by the sampler, or its error.
typedef struct sr_drawn_record {
    sr_draw draw;
    sr_status status; // not SR_OK: data is the error message
    const void *data;
    size_t bytes;
    uint8_t *owned; // sr_free; NULL or the same as data
} sr_drawn_record;

// The records of one slot. Zero-initialised is empty.
typedef struct sr_bundler {
    sr_drawn_record *records;
    int64_t count, capacity, slot; // slot: of the records; -1: empty
    uint8_t *bytes;
    size_t byte_capacity;
} sr_bundler;

void sr_bundler_release(sr_bundler *bundler);
// Empties the bundler and prepares it for the records of a slot.
SR_NODISCARD sr_status sr_bundler_begin(sr_bundler *bundler, int64_t slot, int64_t samples);
// Appends the next record and takes ownership of record->owned.
SR_NODISCARD sr_status sr_bundler_add(sr_bundler *bundler, sr_drawn_record *record);
// The bundle of record 'inside' (index in the slot) with 'foreign' foreign records. Borrowed until
// the next call.
SR_NODISCARD sr_status sr_bundler_take(sr_bundler *bundler, uint64_t seed, int64_t inside,
                                       int foreign, sr_drawn_record *out);

// Splits a cell into its records. False where the lengths do not match the cell's size.
bool sr_bundle_open(const void *data, size_t bytes, int records, sr_bundle_record *out);

#endif
