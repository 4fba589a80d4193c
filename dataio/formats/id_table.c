// SPDX-License-Identifier: Apache-2.0
// Ids and their numbers (id_table.h): open addressing with linear probing, at most half full, so 16
// to 32 bytes per id.
#include "dataio/formats/id_table.h"

#include <string.h>

#include "kernels/base/hash.h"

void sr_id_table_release(sr_id_table *table) {
    sr_free(table->ids);
    sr_free(table->cells);
    *table = (sr_id_table){0};
}

void sr_id_table_clear(sr_id_table *table) {
    table->count = 0;
    if (table->cells != NULL)
        memset(table->cells, 0, table->cell_count * sizeof *table->cells);
}

// The cell of the id, or the free one for it.
static size_t find_cell(const sr_id_table *table, int64_t id) {
    const int64_t *ids = table->ids;
    size_t at = sr_hash64(&id, sizeof id) & (table->cell_count - 1);
    while (table->cells[at] != 0 && ids[table->cells[at] - 1] != id)
        at = (at + 1) & (table->cell_count - 1);
    return at;
}

static sr_status widen(sr_id_table *table) {
    const size_t wanted = table->cell_count ? 2 * table->cell_count : 1024;
    uint32_t *cells = sr_alloc_array(wanted, sizeof *cells, "ids");
    if (cells == NULL)
        return SR_E_MEMORY;
    sr_free(table->cells);
    table->cells = cells;
    table->cell_count = wanted;
    for (uint32_t i = 0; i < table->count; i++)
        table->cells[find_cell(table, ((const int64_t *)table->ids)[i])] = i + 1;
    return SR_OK;
}

sr_status sr_id_table_get(sr_id_table *table, int64_t id, uint32_t *out) {
    if (table->count == (size_t)1 << 31)
        return SR_FAIL(SR_E_LIMIT, "more than 2^31 ids");
    if (2 * (table->count + 1) > table->cell_count)
        SR_TRY(widen(table));
    const size_t cell = find_cell(table, id);
    if (table->cells[cell] == 0) {
        SR_TRY(sr_grow(&table->ids, &table->id_capacity, table->count + 1, sizeof(int64_t), "ids"));
        ((int64_t *)table->ids)[table->count++] = id;
        table->cells[cell] = (uint32_t)table->count;
    }
    *out = table->cells[cell] - 1;
    return SR_OK;
}
