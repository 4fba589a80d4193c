// SPDX-License-Identifier: Apache-2.0
// One zstd frame per field (zstd_frame.h).
#include "dataio/record/zstd_frame.h"

#include <zstd.h>

#include "kernels/base/memory.h"

void sr_zstd_release(sr_zstd *zstd) {
    (void)ZSTD_freeCCtx(zstd->compressor);
    (void)ZSTD_freeDCtx(zstd->expander);
    *zstd = (sr_zstd){0};
}

sr_status sr_zstd_compress(sr_zstd *zstd, const void *data, size_t bytes, void **buffer,
                           size_t *capacity, size_t *out) {
    if (zstd->compressor == NULL && (zstd->compressor = ZSTD_createCCtx()) == NULL)
        return SR_FAIL(SR_E_MEMORY, "out of memory for compression");
    SR_TRY(sr_grow(buffer, capacity, ZSTD_compressBound(bytes), 1, "compressed field"));
    size_t length =
        ZSTD_compressCCtx(zstd->compressor, *buffer, *capacity, data, bytes, SR_ZSTD_LEVEL);
    if (ZSTD_isError(length))
        return SR_FAIL(SR_E_INTERNAL, "zstd: %s", ZSTD_getErrorName(length));
    *out = length;
    return SR_OK;
}

sr_status sr_zstd_expand(sr_zstd *zstd, const void *frame, size_t frame_bytes, void *to,
                         size_t bytes) {
    if (zstd->expander == NULL && (zstd->expander = ZSTD_createDCtx()) == NULL)
        return SR_FAIL(SR_E_MEMORY, "out of memory for decompression");
    const unsigned long long stated = ZSTD_getFrameContentSize(frame, frame_bytes);
    if (stated == ZSTD_CONTENTSIZE_ERROR)
        return SR_FAIL(SR_E_DATA, "not a zstd frame (%zu bytes)", frame_bytes);
    if (stated != bytes)
        return SR_FAIL(SR_E_DATA, "a zstd frame states a length other than the expected %zu bytes",
                       bytes);
    size_t length = ZSTD_decompressDCtx(zstd->expander, to, bytes, frame, frame_bytes);
    if (ZSTD_isError(length))
        return SR_FAIL(SR_E_DATA, "damaged zstd frame: %s", ZSTD_getErrorName(length));
    if (length != bytes)
        return SR_FAIL(SR_E_DATA, "a zstd frame contains %zu bytes, not %zu", length, bytes);
    return SR_OK;
}
