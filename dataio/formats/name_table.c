// SPDX-License-Identifier: Apache-2.0
// Names and their numbers (name_table.h): open addressing with linear probing, at most half full.
#include "dataio/formats/name_table.h"

#include <string.h>

#include "kernels/base/hash.h"

void sr_name_table_release(sr_name_table *table) {
    sr_free(table->names);
    sr_free(table->cells);
    *table = (sr_name_table){0};
}

const char *sr_name_table_name(const sr_name_table *table, uint32_t number) {
    return ((const char **)table->names)[number];
}

// The cell of the name, or the free one for it.
static size_t find_cell(const sr_name_table *table, const char *name, size_t bytes) {
    size_t at = sr_hash64(name, bytes) & (table->cell_count - 1);
    while (table->cells[at] != 0) {
        const char *there = sr_name_table_name(table, table->cells[at] - 1);
        if (strncmp(there, name, bytes) == 0 && there[bytes] == '\0')
            break;
        at = (at + 1) & (table->cell_count - 1);
    }
    return at;
}

static sr_status widen(sr_name_table *table) {
    const size_t wanted = table->cell_count ? 2 * table->cell_count : 64;
    uint32_t *cells = sr_alloc_array(wanted, sizeof *cells, "names");
    if (cells == NULL)
        return SR_E_MEMORY;
    sr_free(table->cells);
    table->cells = cells;
    table->cell_count = wanted;
    for (uint32_t i = 0; i < table->count; i++) {
        const char *name = sr_name_table_name(table, i);
        table->cells[find_cell(table, name, strlen(name))] = i + 1;
    }
    return SR_OK;
}

sr_status sr_name_table_get(sr_name_table *table, sr_arena *arena, const char *name, size_t bytes,
                            uint32_t *out) {
    if (2 * (table->count + 1) > table->cell_count)
        SR_TRY(widen(table));
    const size_t cell = find_cell(table, name, bytes);
    if (table->cells[cell] == 0) {
        SR_TRY(sr_grow(&table->names, &table->name_capacity, table->count + 1, sizeof(char *),
                       "names"));
        char *copy = sr_arena_alloc(arena, bytes + 1);
        if (copy == NULL)
            return SR_E_MEMORY;
        memcpy(copy, name, bytes);
        ((const char **)table->names)[table->count++] = copy;
        table->cells[cell] = (uint32_t)table->count;
    }
    *out = table->cells[cell] - 1;
    return SR_OK;
}
