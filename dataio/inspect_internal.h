// SPDX-License-Identifier: Apache-2.0
// Between inspect.c and inspect_objects.c.
#ifndef SR_DATAIO_INSPECT_INTERNAL_H
#define SR_DATAIO_INSPECT_INTERNAL_H

#include "dataio/inspect.h"
#include "dataio/record.h"

// The picture of a record of any schema, until the next read; *objects is set for one with boxes.
SR_NODISCARD sr_status sr_inspect_read(sr_dataset *dataset, int64_t index, sr_sample *picture,
                                       sr_detection *objects, bool *has_objects);
// Fills what inspect.h says of boxes and masks.
SR_NODISCARD sr_status sr_inspect_objects(sr_dataset *dataset, sr_split_stat *stat);

#endif
