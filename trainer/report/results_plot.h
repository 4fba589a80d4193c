// SPDX-License-Identifier: Apache-2.0
// The curves of a run as a figure.
#ifndef SR_TRAINER_RESULTS_PLOT_H
#define SR_TRAINER_RESULTS_PLOT_H

#include "trainer/draw/drawing.h"
#include "trainer/tasks/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

// What metrics.csv holds.
typedef struct sr_results {
    const char *folder;       // of metrics.csv
    const sr_column *columns; // with names as in metrics.csv
    int count;                // of columns; 0: all in the file are plain numbers
    const char *fractions;    // what its columns of fractions are: "Accuracy"
    const sr_column *best;    // whose best value is a fact of the run; NULL: none
} sr_results;

// 1200 x 800 pixels: losses; what training and evaluations measured, fractions in percent or else
// other numbers; learning rates; images a second. Over epochs, or over steps for a run of less than
// two epochs. A panel without values shows a note. Fails as sr_csv_read. Released with
// sr_figure_release.
SR_NODISCARD sr_status sr_results_figure(const sr_results *run, sr_figure *out);
// Has FOLDER/results.png and results.svg drawn.
void sr_results_draw(const sr_results *run, sr_drawing *drawing);

#ifdef __cplusplus
}
#endif
#endif
