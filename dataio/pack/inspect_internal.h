// SPDX-License-Identifier: Apache-2.0
// Shared by inspect_stat.c and inspect_objects.c.
#ifndef SR_DATAIO_INSPECT_INTERNAL_H
#define SR_DATAIO_INSPECT_INTERNAL_H

#include "dataio/pack/inspect.h"

// Fills the fields for boxes and masks.
SR_NODISCARD sr_status sr_inspect_objects(sr_dataset *dataset, sr_split_stat *stat);

#endif
