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
    double box[4]; // xmin, ymin, xmax, ymax as written: pixels from 1, inclusive
    bool difficult;
} sr_voc_object;

typedef struct sr_voc {
    const char *filename;   // of the picture; "": absent
    uint32_t width, height; // of the picture; 0: absent
    sr_voc_object *objects; // sr_free
    size_t count;
} sr_voc;

// Whether the file may be XML by its first bytes.
bool sr_voc_is_xml(const uint8_t *head, size_t bytes);
// Names are copied into the arena. SR_E_DATA states line and column of a mistake.
SR_NODISCARD sr_status sr_voc_parse(const void *text, size_t bytes, sr_arena *arena, sr_voc *out);

#ifdef __cplusplus
}
#endif
#endif
