// SPDX-License-Identifier: Apache-2.0
// Formats: how the files of a source describe classes, boxes, masks and splits.
//
// A format is a descriptor in its own file and one line in format_list.def. It is detected by the
// content of the listed files, and gives every picture of the source (or every sample in its files
// of pixels or records) a split and the contents of its record; pictures that it cannot assign are
// refused by name.
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

#define SR_FORMAT_ABI 2

typedef struct sr_format {
    uint32_t struct_size, abi;
    const char *name, *help;
    // Files other than pictures that the format may want, by path, first bytes and length; NULL:
    // none.
    bool (*wants)(const char *path, const uint8_t *head, size_t head_bytes, uint64_t bytes);
    // Whether the listed source has this format. May read files.
    sr_status (*recognises)(sr_source *source, bool *fits);
    // Fills a layout for sr_layout_make.
    sr_status (*lay_out)(sr_source *source, sr_layout *layout);
} sr_format;

// The table, in order of recognition; NULL ends it.
const sr_format *sr_format_at(size_t index);
// Opens a source (sr_source_open) with the files that some format may want, and sets its format.
// Errors as sr_source_open.
SR_NODISCARD sr_status sr_format_open(const char *path, const char *list, const char *spool_folder,
                                      const sr_source_limits *limits, sr_source **out);

#ifdef __cplusplus
}
#endif
#endif
