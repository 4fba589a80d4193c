// SPDX-License-Identifier: Apache-2.0
// Warnings where class folders might have been meant as something else.
#ifndef SR_DATAIO_CLASS_DOUBTS_H
#define SR_DATAIO_CLASS_DOUBTS_H

#include "dataio/formats/class_folders.h"
#include "dataio/formats/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

// Warns of folders without a picture; of names that resemble splits, pictures and masks, or shards;
// of numbers in byte order; and of folders that repeat inside classes. layout: with its classes.
SR_NODISCARD sr_status sr_class_doubts_tell(const sr_source *source,
                                            const sr_class_folders *folders,
                                            const sr_layout *layout);

#ifdef __cplusplus
}
#endif
#endif
