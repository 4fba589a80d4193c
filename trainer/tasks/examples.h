// SPDX-License-Identifier: Apache-2.0
// Examples of an evaluation as a picture: rows of samples that a task chooses, such as the same
// ones every time, the best and the worst predictions of all.
//
// The choice depends only on the split and the results, not on the number of ranks.
#ifndef SR_TRAINER_EXAMPLES_H
#define SR_TRAINER_EXAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "collective/comm.h"
#include "kernels/base/status.h"
#include "trainer/draw/drawing.h"
#include "trainer/tasks/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_EXAMPLE_ROWS 3   // of a picture, at most
#define SR_EXAMPLE_TEXT 160 // bytes of a text below a sample

// A row of a picture.
typedef struct sr_example_row {
    const char *title;
    bool fixed; // samples at evenly spaced positions; else those with the lowest keys
} sr_example_row;

// One thread at a time.
typedef struct sr_examples sr_examples;

// What a task shows of an evaluation.
typedef struct sr_example_desc {
    const char *what;                     // each tile, as "each above its class and its prediction"
    sr_example_row rows[SR_EXAMPLE_ROWS]; // after the last, title is NULL
    // Offers the samples of a block.
    sr_status (*offer)(const sr_metric_samples *samples, const sr_metric_setting *setting,
                       sr_examples *examples);
} sr_example_desc;

// A sample that is offered. Copied where it is taken.
typedef struct sr_example {
    int64_t position; // in the split
    double key;       // of rows that are not fixed
    int64_t width, height;
    const uint8_t *rgb;              // [height][width][3]
    int64_t mask_width, mask_height; // may be another size of the same picture
    const uint8_t *mask;             // classes of its pixels, 255: none; or NULL
    const char *caption, *note;      // as in sr_tile
    sr_verdict verdict;
} sr_example;

// For an evaluation of 'samples' samples.
SR_NODISCARD sr_status sr_examples_create(const sr_example_desc *desc, int64_t samples,
                                          sr_examples **out);
// NULL is legal.
void sr_examples_free(sr_examples *examples);
// Whether the row would take a sample at this position with this key: its texts need not be made
// otherwise.
bool sr_examples_takes(const sr_examples *examples, int row, int64_t position, double key);
// Offers a sample for a row.
void sr_examples_offer(sr_examples *examples, int row, const sr_example *example);
// Collective: afterwards every rank has the same examples, chosen among those of all.
SR_NODISCARD sr_status sr_examples_gather(sr_examples *examples, sr_comm *comm);
// Has its rows drawn to 'path', with a legend of the setting's classes if there are masks. title: a
// line of text.
void sr_examples_draw(const sr_examples *examples, const sr_metric_setting *setting,
                      const char *title, const char *path, sr_drawing *drawing);

#ifdef __cplusplus
}
#endif
#endif
