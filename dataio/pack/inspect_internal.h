// SPDX-License-Identifier: Apache-2.0
// Between inspect_stat.c and inspect_objects.c.
#ifndef SR_DATAIO_INSPECT_INTERNAL_H
#define SR_DATAIO_INSPECT_INTERNAL_H

#include "dataio/pack/inspect.h"

// Fills what inspect.h says of boxes and masks.
SR_NODISCARD sr_status sr_inspect_objects(sr_dataset *dataset, sr_split_stat *stat);

#endif
