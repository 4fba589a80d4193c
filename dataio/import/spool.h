// SPDX-License-Identifier: Apache-2.0
// An unnamed temporary file that only grows, for data that is too large for memory; it disappears
// with the process.
#ifndef SR_DATAIO_SPOOL_H
#define SR_DATAIO_SPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Written by one thread; flushed data may be read by any.
typedef struct sr_spool {
    int fd;             // -1: not opened
    uint64_t bytes;     // appended so far
    const char *folder; // borrowed; for messages
    uint8_t *waiting;   // appended, not yet written
    size_t waiting_bytes;
} sr_spool;

// A spool without a file; sr_spool_append creates it in 'folder'.
void sr_spool_init(sr_spool *spool, const char *folder);
// Releases file and memory; the spool is then as after sr_spool_init.
void sr_spool_release(sr_spool *spool);
// Adds bytes at the end. SR_E_NO_SPACE and SR_E_IO name the folder.
SR_NODISCARD sr_status sr_spool_append(sr_spool *spool, const void *data, size_t bytes);
// Writes pending data: everything that was appended can be read afterwards.
SR_NODISCARD sr_status sr_spool_flush(sr_spool *spool);

#ifdef __cplusplus
}
#endif
#endif
