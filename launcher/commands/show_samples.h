// SPDX-License-Identifier: Apache-2.0
// Records of a data set as tiles of a sheet of samples.
#ifndef SR_LAUNCHER_SHOW_SAMPLES_H
#define SR_LAUNCHER_SHOW_SAMPLES_H

#include "dataio/record/dataset.h"
#include "kernels/base/memory.h"
#include "trainer/draw/samples_picture.h"

// Reads 'count' samples of a data set from 'first' on (fewer at its end), each with the name of its
// class or file, its boxes, outlines and mask; the longer side of a picture is at most 'side'
// pixels. *out is ready to be drawn and lives in the arena. SR_E_USAGE if 'first' is beyond the
// end; errors name the sample.
SR_NODISCARD sr_status sr_show_samples(sr_dataset *dataset, int64_t first, int count, int side,
                                       sr_arena *arena, sr_samples *out);

#endif
