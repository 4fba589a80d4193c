// SPDX-License-Identifier: Apache-2.0
// Reference sorting of rows: by digits of the keys of sort_key.h, from the lowest on (Knuth, The
// Art of Computer Programming, vol. 3, 5.2.5). Each pass keeps the order of equal digits, so equal
// numbers stay in the order of their indices.
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/sort_key.h"

#define DIGIT 8 // bits
#define DIGITS (1 << DIGIT)

typedef struct ranked {
    uint64_t key;
    int64_t index;
} ranked;

static int64_t block_rows(const sr_sort_params *p) {
    return sr_blocks_of(SR_REFERENCE_BLOCK, p->n);
}

// to = from[n], in the order of the digit at bit 'shift'. False, and nothing is moved, if all have
// the same one.
static bool sort_by_digit(const ranked *from, int64_t n, int shift, ranked *to) {
    int64_t first[DIGITS + 1] = {0};
    for (int64_t i = 0; i < n; i++)
        first[(from[i].key >> shift & (DIGITS - 1)) + 1]++;
    for (int d = 1; d <= DIGITS; d++) {
        if (first[d] == n)
            return false;
        first[d] += first[d - 1];
    }
    for (int64_t i = 0; i < n; i++)
        to[first[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
    return true;
}

// Sorts row[n] by keys of 'bits' bits and returns where the result is. The row is followed by
// memory for n more.
static const ranked *sort_row(ranked *row, int64_t n, int bits) {
    ranked *from = row, *to = row + n;
    for (int shift = 0; shift < bits; shift += DIGIT) {
        if (!sort_by_digit(from, n, shift, to))
            continue;
        ranked *const sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_sort.inc"
#include "kernels/cpu/reference/reference_typed.inc"

sr_status sr_reference_prepare_sort_rows(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(sort_rows);
    const sr_sort_params *p = (const void *)request->params;
    out->scratch = 2 * (size_t)p->n * sizeof(ranked);
    sr_add_stage(out, variants[request->dtype[0]], sr_blocks_of(p->rows, block_rows(p)));
    return SR_OK;
}
