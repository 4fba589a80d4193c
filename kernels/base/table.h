// SPDX-License-Identifier: Apache-2.0
// Tables of named descriptors: the built-in ones, followed by those that plug-ins and programs add.
//
// Every descriptor begins with the fields of sr_descriptor, so that the same code finds, lists and
// checks all kinds. A table is filled before anything else runs and is then read-only: one thread
// adds while no other thread uses the table.
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
    const char *what;          // name of the kind, as "model"
    uint32_t struct_size, abi; // of this build's descriptors
    const void *built_in;      // T *const [built_in_count]
    size_t built_in_count;
    sr_status (*check)(const void *descriptor); // further checks of an added one; may be NULL
    void *all;                                  // NULL until something is added
    const char **origins;
    size_t count, capacity, origin_capacity;
} sr_table;

// T *const [*count]: built-in ones in the order of their list, then added ones.
const void *sr_table_all(const sr_table *table, size_t *count);
// The descriptor with this name, or NULL.
const void *sr_table_find(const sr_table *table, const char *name);
// The same, but SR_E_USAGE if there is none; the message suggests the nearest name.
SR_NODISCARD sr_status sr_table_choose(const sr_table *table, const char *name, const void **out);
// The origin of the descriptor of that name; NULL when it is built in or does not exist.
const char *sr_table_origin(const sr_table *table, const char *name);
// Adds a NULL-terminated T *const [] (NULL: none). 'origin' names where it comes from and must stay
// valid. Adds all or nothing: SR_E_UNSUPPORTED for descriptors of another ABI or size, SR_E_USAGE
// for one without a name or with a name that is taken, naming both origins.
SR_NODISCARD sr_status sr_table_add(sr_table *table, const void *list, const char *origin);
// The head of descriptor i of a list.
sr_descriptor sr_table_item(const void *all, size_t i);
// Names of a list of descriptors, names[i] of list[i].
void sr_table_names(const void *all, size_t count, const char **names);
// The name in the table that is nearest to a word (sr_text_nearest), or NULL.
const char *sr_table_nearest(const sr_table *table, const char *word);

#endif
