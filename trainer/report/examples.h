// SPDX-License-Identifier: Apache-2.0
// Examples of an evaluation as a picture: the same samples every time, the best and the worst
// predictions of all.
//
// The choice depends only on the split and the logits, not on the number of ranks.
#ifndef SR_TRAINER_EXAMPLES_H
#define SR_TRAINER_EXAMPLES_H

#include <stdint.h>

#include "collective/comm.h"
#include "kernels/base/status.h"
#include "trainer/draw/drawing.h"

#ifdef __cplusplus
extern "C" {
#endif

// One thread at a time.
typedef struct sr_examples sr_examples;

// For an evaluation of 'samples' samples of width x height pixels.
SR_NODISCARD sr_status sr_examples_create(int64_t samples, int64_t width, int64_t height,
                                          sr_examples **out);
// NULL is legal.
void sr_examples_free(sr_examples *examples);
// Offers the sample at this position of the split: pixels u8 [height][width][3], logits f32
// [classes]. Copies what it keeps.
void sr_examples_add(sr_examples *examples, int64_t position, const uint8_t *rgb,
                     const float *logits, int classes, int label);
// Collective: afterwards every rank has the same examples, chosen among those of all.
SR_NODISCARD sr_status sr_examples_gather(sr_examples *examples, sr_comm *comm);
// Has a row of each kind drawn to 'path'. title: a line of text.
void sr_examples_draw(const sr_examples *examples, const char *const *classes, const char *title,
                      const char *path, sr_drawing *drawing);

#ifdef __cplusplus
}
#endif
#endif
