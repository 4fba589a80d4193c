// SPDX-License-Identifier: Apache-2.0
// Records of a data set as tiles of a sheet of samples.
#ifndef SR_LAUNCHER_SHOW_SAMPLES_H
#define SR_LAUNCHER_SHOW_SAMPLES_H

#include "dataio/record/dataset.h"
#include "kernels/base/memory.h"
#include "trainer/report/samples_picture.h"

// Reads the samples first .. first + count of a data set (fewer at its end), each with its class's
// or file's name, its boxes, outlines and mask; pictures are at most 'side' pixels large. *out,
// which lives in the arena, is ready to be drawn. SR_E_USAGE beyond the end; damage names the
// sample.
SR_NODISCARD sr_status sr_show_samples(sr_dataset *dataset, int64_t first, int count, int side,
                                       sr_arena *arena, sr_samples *out);

#endif
