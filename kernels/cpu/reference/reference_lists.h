// SPDX-License-Identifier: Apache-2.0
// Inverted index lists, for sums over the elements with the same index: for each list of an index
// and every target place, the positions j that refer to it, in ascending order (a counting sort).
#ifndef SR_KERNELS_CPU_REFERENCE_LISTS_H
#define SR_KERNELS_CPU_REFERENCE_LISTS_H

#include <string.h>

#include "kernels/cpu/reference/reference_internal.h"

// The index entry of element (o, j, i).
static inline int64_t sr_number_of(const sr_gather_params *p, const int32_t *index, int64_t o,
                                   int64_t j, int64_t i) {
    const int64_t row = (p->per_outer ? o : 0) * p->count + j;
    return index[p->per_inner ? row * p->inner + i : row];
}

static inline bool sr_is_place(const sr_gather_params *p, int64_t number) {
    return number >= 0 && number < p->n;
}

// A list in the workspace: the start of each of the n places and the end, then all j.
static inline int32_t *sr_list_of(const sr_gather_params *p, void *workspace, int64_t list) {
    return (int32_t *)workspace + list * (p->n + 1 + p->count);
}

// Total bytes of all lists.
static inline size_t sr_list_bytes(const sr_gather_params *p) {
    return (size_t)(sr_gather_lists(p) * (p->n + 1 + p->count)) * sizeof(int32_t);
}

// Builds a list.
static inline void sr_sort_list(const sr_gather_params *p, const int32_t *index, void *workspace,
                                int64_t list) {
    const int64_t wide = p->per_inner ? p->inner : 1, o = list / wide, i = list % wide;
    int32_t *start = sr_list_of(p, workspace, list), *order = start + p->n + 1;
    memset(start, 0, (size_t)(p->n + 1) * sizeof *start);
    for (int64_t j = 0; j < p->count; j++) {
        const int64_t number = sr_number_of(p, index, o, j, i);
        if (sr_is_place(p, number))
            start[number + 1]++;
    }
    for (int64_t k = 0; k < p->n; k++)
        start[k + 1] += start[k];
    for (int64_t j = 0; j < p->count; j++) {
        const int64_t number = sr_number_of(p, index, o, j, i);
        if (sr_is_place(p, number))
            order[start[number]++] = (int32_t)j;
    }
    memmove(start + 1, start, (size_t)p->n * sizeof *start); // the starts were advanced to the ends
    start[0] = 0;
}

#endif
