// SPDX-License-Identifier: Apache-2.0
// Maps names to numbers in the order in which they are first seen, for formats that name classes.
#ifndef SR_DATAIO_NAME_TABLE_H
#define SR_DATAIO_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/memory.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Zero-initialised is empty; names are copied into the caller's arena. One thread at a time.
typedef struct sr_name_table {
    void *names; // const char *
    size_t count, name_capacity;
    uint32_t *cells; // 1 + number, 0: free; their count is a power of two
    size_t cell_count;
} sr_name_table;

void sr_name_table_release(sr_name_table *table);
// The number of a name, which is added if it is new.
SR_NODISCARD sr_status sr_name_table_get(sr_name_table *table, sr_arena *arena, const char *name,
                                         size_t bytes, uint32_t *out);
// The name of a number (number < count).
const char *sr_name_table_name(const sr_name_table *table, uint32_t number);

#ifdef __cplusplus
}
#endif
#endif
