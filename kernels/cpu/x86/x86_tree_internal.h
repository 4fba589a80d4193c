// SPDX-License-Identifier: Apache-2.0
// Trees over sums that are computed one after the other, as in
// kernels/cpu/reference/reference_sum.inc: a binary counter. If bit k of the number of finished
// sums is set, level k has the sum of 2^k of them.
#ifndef SR_KERNELS_CPU_X86_TREE_INTERNAL_H
#define SR_KERNELS_CPU_X86_TREE_INTERNAL_H

#include <string.h>

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"
#include "kernels/reference_order.h"

// ---- Of vectors ----

#define SR_V_LEVELS 58 // 2^63 terms

typedef struct sr_v_tree {
    sr_vf level[SR_V_LEVELS];
    int64_t number, terms; // finished sums, and terms of the current one
} sr_v_tree;

SR_INLINE void sr_v_tree_begin(sr_v_tree *t) {
    t->number = t->terms = 0;
}

SR_INLINE void sr_v_tree_push(sr_v_tree *t, sr_vf sum) {
    int k = 0;
    for (int64_t bits = t->number++; bits & 1; bits >>= 1)
        sum = sr_v_add(t->level[k++], sum);
    t->level[k] = sum;
    t->terms = 0;
}

// Makes room for a term in 'sum': if it has 'most' terms, it is finished and a new one begins.
SR_INLINE sr_vf sr_v_tree_room(sr_v_tree *t, sr_vf sum, int64_t most) {
    if (t->terms++ < most)
        return sum;
    sr_v_tree_push(t, sum);
    t->terms = 1;
    return sr_v_zero();
}

// The total, including one more, unfinished sum.
SR_INLINE sr_vf sr_v_tree_total(const sr_v_tree *t, sr_vf sum) {
    int k = 0;
    for (int64_t bits = t->number; bits > 0; bits >>= 1, k++)
        if (bits & 1)
            sum = sr_v_add(t->level[k], sum);
    return sum;
}

// ---- Of rows in memory ----

// The current row, 'width' floats (whole vectors); the rows of the levels follow it in memory.
typedef struct sr_row_tree {
    float *sum;
    int64_t width, number;
} sr_row_tree;

SR_INLINE void sr_row_tree_join(sr_row_tree *t, int k) {
    const float *level = t->sum + (1 + k) * t->width;
    for (int64_t c = 0; c < t->width; c += SR_ELEMENTS)
        sr_v_store(t->sum + c, sr_v_add(sr_v_load(level + c), sr_v_load(t->sum + c)));
}

// Finishes the row; the next row must overwrite its contents.
SR_INLINE void sr_row_tree_push(sr_row_tree *t) {
    int k = 0;
    for (int64_t bits = t->number++; bits & 1; bits >>= 1)
        sr_row_tree_join(t, k++);
    memcpy(t->sum + (1 + k) * t->width, t->sum, (size_t)t->width * sizeof *t->sum);
}

// The row becomes the total.
SR_INLINE void sr_row_tree_total(sr_row_tree *t) {
    int k = 0;
    for (int64_t bits = t->number; bits > 0; bits >>= 1, k++)
        if (bits & 1)
            sr_row_tree_join(t, k);
}

#endif
