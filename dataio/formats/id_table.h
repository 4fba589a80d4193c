// SPDX-License-Identifier: Apache-2.0
// Maps ids to numbers in the order in which they are first seen.
#ifndef SR_DATAIO_ID_TABLE_H
#define SR_DATAIO_ID_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/memory.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Zero-initialised is empty. One thread at a time.
typedef struct sr_id_table {
    void *ids; // int64_t
    size_t count, id_capacity;
    uint32_t *cells; // 1 + number, 0: free; their count is a power of two
    size_t cell_count;
} sr_id_table;

void sr_id_table_release(sr_id_table *table);
// Removes all ids and keeps the memory.
void sr_id_table_clear(sr_id_table *table);
// The number of an id, which is added if it is new. SR_E_LIMIT beyond 2^31 ids.
SR_NODISCARD sr_status sr_id_table_get(sr_id_table *table, int64_t id, uint32_t *out);

#ifdef __cplusplus
}
#endif
#endif
