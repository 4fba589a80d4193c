// SPDX-License-Identifier: Apache-2.0
// Shapes: size, text, and validity.
#include "graph/tensor.h"

#include <stdio.h>

#include "graph/recording_internal.h"

size_t sr_info_bytes(const sr_info *info) {
    return (size_t)sr_info_count(info) * sr_dtype_size(info->dtype);
}

sr_status sr_info_check(const sr_info *info) {
    char text[96];
    if ((unsigned)info->dtype >= (unsigned)SR_DTYPE_COUNT)
        return SR_FAIL(SR_E_SHAPE, "a tensor has no dtype (%d)", (int)info->dtype);
    if (info->rank < 0 || info->rank > SR_MAX_RANK)
        return SR_FAIL(SR_E_SHAPE, "a tensor has %d dimensions; it must have 0 to %d",
                       (int)info->rank, SR_MAX_RANK);
    int64_t count = 1;
    for (int i = 0; i < info->rank; i++) {
        if (info->dim[i] < 1)
            return SR_FAIL(SR_E_SHAPE, "%s: dimensions must be at least 1",
                           sr_info_text(info, text));
        if (info->dim[i] > SR_MAX_ELEMENTS / count)
            return SR_FAIL(SR_E_SHAPE, "%s: too large; a tensor has at most 2^48 elements",
                           sr_info_text(info, text));
        count *= info->dim[i];
    }
    return SR_OK;
}

char *sr_info_text(const sr_info *info, char *out) {
    size_t used = (size_t)snprintf(out, 96, "[");
    for (int i = 0; i < info->rank && used < 80; i++)
        used += (size_t)snprintf(out + used, 96 - used, "%s%lld", i ? ", " : "",
                                 (long long)info->dim[i]);
    (void)snprintf(out + used, 96 - used, "] %s", sr_dtype_name(info->dtype));
    return out;
}
