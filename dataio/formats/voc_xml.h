// SPDX-License-Identifier: Apache-2.0
// One annotation of Pascal VOC: <annotation> with <object>s.
#ifndef SR_DATAIO_VOC_XML_H
#define SR_DATAIO_VOC_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/memory.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_VOC_MAX_BYTES ((size_t)16 << 20) // of a file

typedef struct sr_voc_object {
    const char *name;
    double box[4]; // xmin, ymin, xmax, ymax as written: pixels from 1, both ends inside
    bool difficult;
} sr_voc_object;

typedef struct sr_voc {
    const char *filename;   // of the picture; "" where it is not told
    uint32_t width, height; // of the picture; 0 where they are not told
    sr_voc_object *objects; // sr_free
    size_t count;
} sr_voc;

// By its first bytes the file may be XML.
bool sr_voc_is_xml(const uint8_t *head, size_t bytes);
// Names lie in the arena. SR_E_DATA with line and column of the mistake.
SR_NODISCARD sr_status sr_voc_parse(const void *text, size_t bytes, sr_arena *arena, sr_voc *out);

#ifdef __cplusplus
}
#endif
#endif
