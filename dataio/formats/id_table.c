// SPDX-License-Identifier: Apache-2.0
// Ids and their numbers (id_table.h): open addressing with linear probing, at most half full, so 16
// to 32 bytes an id.
#include "dataio/formats/id_table.h"

#include <string.h>

#include "kernels/base/hash.h"

void sr_id_table_release(sr_id_table *table) {
    sr_free(table->ids);
    sr_free(table->slots);
    *table = (sr_id_table){0};
}

void sr_id_table_clear(sr_id_table *table) {
    table->count = 0;
    if (table->slots != NULL)
        memset(table->slots, 0, table->slot_count * sizeof *table->slots);
}

// The slot of the id, or the free one where it belongs.
static size_t find_slot(const sr_id_table *table, int64_t id) {
    const int64_t *ids = table->ids;
    size_t at = sr_hash64(&id, sizeof id) & (table->slot_count - 1);
    while (table->slots[at] != 0 && ids[table->slots[at] - 1] != id)
        at = (at + 1) & (table->slot_count - 1);
    return at;
}

static sr_status widen(sr_id_table *table) {
    const size_t wanted = table->slot_count ? 2 * table->slot_count : 1024;
    uint32_t *slots = sr_alloc_array(wanted, sizeof *slots, "ids");
    if (slots == NULL)
        return SR_E_MEMORY;
    sr_free(table->slots);
    table->slots = slots;
    table->slot_count = wanted;
    for (uint32_t i = 0; i < table->count; i++)
        table->slots[find_slot(table, ((const int64_t *)table->ids)[i])] = i + 1;
    return SR_OK;
}

sr_status sr_id_table_get(sr_id_table *table, int64_t id, uint32_t *out) {
    if (table->count == (size_t)1 << 31)
        return SR_FAIL(SR_E_LIMIT, "more than 2^31 ids");
    if (2 * (table->count + 1) > table->slot_count)
        SR_TRY(widen(table));
    const size_t slot = find_slot(table, id);
    if (table->slots[slot] == 0) {
        SR_TRY(sr_grow(&table->ids, &table->id_capacity, table->count + 1, sizeof(int64_t), "ids"));
        ((int64_t *)table->ids)[table->count++] = id;
        table->slots[slot] = (uint32_t)table->count;
    }
    *out = table->slots[slot] - 1;
    return SR_OK;
}
