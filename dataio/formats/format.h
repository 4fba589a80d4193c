// SPDX-License-Identifier: Apache-2.0
// Formats: how the files of a source describe classes, boxes, masks and splits.
//
// A format is a descriptor in its own file and one line in format_list.def. It is detected by the
// content of the listed files, and gives every picture of the source (or every sample in its files
// of pixels or records) a split and the contents of its record; pictures that it cannot assign are
// refused by name.
//
// Nothing but a statement about the whole source (COCO's JSON, data.yaml, a folder of masks by its
// name) is stronger than class folders: files beside their pictures are not. The user may choose.
#ifndef SR_DATAIO_FORMAT_H
#define SR_DATAIO_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/formats/layout.h"
#include "dataio/import/source.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_FORMAT_ABI 3

typedef enum sr_certainty {
    SR_FORMAT_NO = 0,
    SR_FORMAT_POSSIBLE, // only if the user chooses it
    SR_FORMAT_BESIDE,   // by files beside the pictures: unless these are in class folders
    SR_FORMAT_YES,
} sr_certainty;

// What a format says of a source.
typedef struct sr_recognition {
    sr_certainty certainty;
    char why[640]; // for the user, as "annotations/instances_train.json"
} sr_recognition;

typedef struct sr_format {
    uint32_t struct_size, abi;
    const char *name, *help;
    // Files other than pictures that the format may want, by path, first bytes and length; NULL:
    // none.
    bool (*wants)(const char *path, const uint8_t *head, size_t head_bytes, uint64_t bytes);
    // Whether the listed source has this format. May read files. *out is zero-initialised.
    sr_status (*recognises)(sr_source *source, sr_recognition *out);
    // Fills a layout for sr_layout_make.
    sr_status (*lay_out)(sr_source *source, sr_layout *layout);
} sr_format;

// The table, in order of recognition; NULL ends it.
const sr_format *sr_format_at(size_t index);
// Opens a source (sr_source_open) with the files that some format may want, and sets its format and
// why. name: of the format, or NULL: it is detected. SR_E_USAGE for an unknown name, SR_E_DATA
// where the source cannot have that format, else as sr_source_open.
SR_NODISCARD sr_status sr_format_open(const char *path, const char *list, const char *name,
                                      const char *spool_folder, const sr_source_limits *limits,
                                      sr_source **out);

#ifdef __cplusplus
}
#endif
#endif
