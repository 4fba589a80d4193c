// SPDX-License-Identifier: Apache-2.0
// The samples of each class, in the sealed memory of a pipeline that draws samples by class: i64
// first[classes + 1], samples[count], as sr_class_draws has them.
#ifndef SR_DATAIO_CLASS_MEMBERS_INTERNAL_H
#define SR_DATAIO_CLASS_MEMBERS_INTERNAL_H

#include "dataio/pipeline/sampler.h"
#include "dataio/pipeline/stage_internal.h"

// Bytes of the table for a plan; 0 where it draws no samples by class.
uint64_t sr_class_members_bytes(const sr_stage_plan *plan);
// Writes it from the options' labels. SR_E_DATA for a label that is not one of the classes.
SR_NODISCARD sr_status sr_class_members_write(const sr_stage_plan *plan, int64_t *to);
// The table of a checked plan, in place.
sr_class_draws sr_class_members_read(const sr_stage_plan *plan);

#endif
