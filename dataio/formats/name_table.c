// SPDX-License-Identifier: Apache-2.0
// Names and their numbers (name_table.h): open addressing with linear probing, at most half full.
#include "dataio/formats/name_table.h"

#include <string.h>

#include "kernels/base/hash.h"

void sr_name_table_release(sr_name_table *table) {
    sr_free(table->names);
    sr_free(table->slots);
    *table = (sr_name_table){0};
}

const char *sr_name_table_name(const sr_name_table *table, uint32_t number) {
    return ((const char **)table->names)[number];
}

// The slot of the name, or the free one where it belongs.
static size_t find_slot(const sr_name_table *table, const char *name, size_t bytes) {
    size_t at = sr_hash64(name, bytes) & (table->slot_count - 1);
    while (table->slots[at] != 0) {
        const char *there = sr_name_table_name(table, table->slots[at] - 1);
        if (strncmp(there, name, bytes) == 0 && there[bytes] == '\0')
            break;
        at = (at + 1) & (table->slot_count - 1);
    }
    return at;
}

static sr_status widen(sr_name_table *table) {
    const size_t wanted = table->slot_count ? 2 * table->slot_count : 64;
    uint32_t *slots = sr_alloc_array(wanted, sizeof *slots, "names");
    if (slots == NULL)
        return SR_E_MEMORY;
    sr_free(table->slots);
    table->slots = slots;
    table->slot_count = wanted;
    for (uint32_t i = 0; i < table->count; i++) {
        const char *name = sr_name_table_name(table, i);
        table->slots[find_slot(table, name, strlen(name))] = i + 1;
    }
    return SR_OK;
}

sr_status sr_name_table_get(sr_name_table *table, sr_arena *arena, const char *name, size_t bytes,
                            uint32_t *out) {
    if (2 * (table->count + 1) > table->slot_count)
        SR_TRY(widen(table));
    const size_t slot = find_slot(table, name, bytes);
    if (table->slots[slot] == 0) {
        SR_TRY(sr_grow(&table->names, &table->name_capacity, table->count + 1, sizeof(char *),
                       "names"));
        char *copy = sr_arena_alloc(arena, bytes + 1);
        if (copy == NULL)
            return SR_E_MEMORY;
        memcpy(copy, name, bytes);
        ((const char **)table->names)[table->count++] = copy;
        table->slots[slot] = (uint32_t)table->count;
    }
    *out = table->slots[slot] - 1;
    return SR_OK;
}
