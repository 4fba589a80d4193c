// SPDX-License-Identifier: Apache-2.0
// Compressible fields of a record (masks, raw pixels) as one zstd frame (RFC 8878) each.
//
// A frame states the size of its content and has no checksum, as records have one. Its bytes are a
// function of content, level and the version of the library.
#ifndef SR_DATAIO_ZSTD_FRAME_H
#define SR_DATAIO_ZSTD_FRAME_H

#include <stddef.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_ZSTD_LEVEL 9 // packing is done once; higher levels gain a few per cent at most

// Working memory of both directions, kept from frame to frame. Zero-initialised; one thread at a
// time.
typedef struct sr_zstd {
    void *compressor, *expander;
} sr_zstd;

// Frees the working memory and zero-initialises the struct.
void sr_zstd_release(sr_zstd *zstd);
// Compresses into a growing buffer (sr_grow, sr_free); *out is the frame's length. SR_E_MEMORY.
SR_NODISCARD sr_status sr_zstd_compress(sr_zstd *zstd, const void *data, size_t bytes,
                                        void **buffer, size_t *capacity, size_t *out);
// Expands a frame whose content is exactly 'bytes' long into 'to'. SR_E_DATA states what is wrong.
SR_NODISCARD sr_status sr_zstd_expand(sr_zstd *zstd, const void *frame, size_t frame_bytes,
                                      void *to, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
