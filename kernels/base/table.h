// SPDX-License-Identifier: Apache-2.0
// Tables of named descriptors: what is built in, and behind it what plug-ins and programs add.
//
// Every descriptor begins with the fields of sr_descriptor, so that one piece of code finds, lists
// and checks all kinds. A table is filled before anything runs and then only read: adding is for
// one thread, while no other uses the table.
#ifndef SR_KERNELS_BASE_TABLE_H
#define SR_KERNELS_BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

typedef struct sr_descriptor {
    uint32_t struct_size, abi;
    const char *name, *help;
} sr_descriptor;

typedef struct sr_table {
    const char *what;          // one of them, as "model"
    uint32_t struct_size, abi; // of this build's descriptors
    const void *built_in;      // T *const [built_in_count]
    size_t built_in_count;
    sr_status (*check)(const void *descriptor); // what an added one must keep besides; may be NULL
    void *all;                                  // NULL until something is added
    const char **origins;
    size_t count, capacity, origin_capacity;
} sr_table;

// T *const [*count]: built-in ones in the order of their list, then added ones.
const void *sr_table_all(const sr_table *table, size_t *count);
// NULL where no descriptor has the name.
const void *sr_table_find(const sr_table *table, const char *name);
// SR_E_USAGE with the nearest name.
SR_NODISCARD sr_status sr_table_choose(const sr_table *table, const char *name, const void **out);
// Where the descriptor of that name came from; NULL where it is built in, or there is none.
const char *sr_table_origin(const sr_table *table, const char *name);
// Adds a NULL-terminated T *const [] (NULL: none) that comes from 'origin', which must live on. All
// of it or nothing: SR_E_UNSUPPORTED for descriptors of another ABI or size, SR_E_USAGE for one
// without a name or with a name that is taken, naming both origins.
SR_NODISCARD sr_status sr_table_add(sr_table *table, const void *list, const char *origin);
// The head of descriptor i of a list.
sr_descriptor sr_table_item(const void *all, size_t i);
// Names of a list of descriptors, names[i] of list[i].
void sr_table_names(const void *all, size_t count, const char **names);

#endif
