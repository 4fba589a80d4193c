// SPDX-License-Identifier: Apache-2.0
// Bundles of records for a transformer (bundle_internal.h).
//
// The seed and the position decide which records a bundle contains (sr_sampler_foreign), so a
// reader that is restarted in the middle of a slot makes the same bundles; it only has to read the
// start of the slot again.
#include "dataio/pipeline/bundle_internal.h"

#include <string.h>

#include "kernels/base/memory.h"

static void forget(sr_bundler *b) {
    for (int64_t i = 0; i < b->count; i++)
        sr_free(b->records[i].owned);
    b->count = 0;
    b->slot = -1;
}

void sr_bundler_release(sr_bundler *b) {
    forget(b);
    sr_free(b->records);
    sr_free(b->bytes);
    *b = (sr_bundler){.slot = -1};
}

sr_status sr_bundler_begin(sr_bundler *b, int64_t slot, int64_t samples) {
    forget(b);
    if (b->capacity < samples) {
        sr_free(b->records);
        b->capacity = 0;
        b->records = sr_alloc_array((size_t)samples, sizeof *b->records, "records of a slot");
        if (!b->records)
            return SR_E_MEMORY;
        b->capacity = samples;
    }
    b->slot = slot;
    return SR_OK;
}

sr_status sr_bundler_add(sr_bundler *b, sr_drawn_record *record) {
    if (!record->owned) {
        record->owned = sr_alloc(record->bytes + 1, "record of a slot");
        if (!record->owned)
            return SR_E_MEMORY;
        memcpy(record->owned, record->data, record->bytes);
        record->data = record->owned;
    }
    b->records[b->count++] = *record;
    return SR_OK;
}

static bool is_sound(const sr_drawn_record *record) {
    return record->status == SR_OK && record->draw.sample >= 0;
}

sr_status sr_bundler_take(sr_bundler *b, uint64_t seed, int64_t inside, int foreign,
                          sr_drawn_record *out) {
    sr_bundle_record records[SR_BUNDLE_MOST] = {{0}};
    *out = b->records[inside];
    out->owned = NULL;
    if (!is_sound(out))
        return SR_OK;
    size_t bytes = (1 + (size_t)foreign) * sizeof(uint64_t) + out->bytes;
    records[0] = (sr_bundle_record){out->data, out->bytes};
    for (int i = 0; i < foreign; i++) {
        const int64_t other = sr_sampler_foreign(seed, out->draw.position, i, inside, b->count);
        const sr_drawn_record *r = &b->records[other];
        if (is_sound(r))
            records[1 + i] = (sr_bundle_record){r->data, r->bytes};
        bytes += records[1 + i].bytes;
    }
    SR_TRY(sr_grow((void **)&b->bytes, &b->byte_capacity, bytes, 1, "bundled records"));
    uint8_t *lengths = b->bytes, *to = lengths + (1 + (size_t)foreign) * sizeof(uint64_t);
    for (int i = 0; i <= foreign; i++) {
        const uint64_t length = records[i].bytes;
        memcpy(lengths + (size_t)i * sizeof length, &length, sizeof length);
        if (length > 0)
            memcpy(to, records[i].data, (size_t)length);
        to += length;
    }
    out->data = b->bytes;
    out->bytes = bytes;
    return SR_OK;
}

bool sr_bundle_open(const void *data, size_t bytes, int records, sr_bundle_record *out) {
    const uint8_t *begin = data;
    size_t at = (size_t)records * sizeof(uint64_t);
    for (int i = 0; i < records; i++) {
        uint64_t length = 0;
        if (at > bytes)
            return false;
        memcpy(&length, begin + (size_t)i * sizeof length, sizeof length);
        if (length > bytes - at)
            return false;
        out[i] = (sr_bundle_record){length > 0 ? begin + at : NULL, (size_t)length};
        at += (size_t)length;
    }
    return at == bytes;
}
