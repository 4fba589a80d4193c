// SPDX-License-Identifier: Apache-2.0
// The curves of a run as a figure.
#ifndef SR_TRAINER_RESULTS_PLOT_H
#define SR_TRAINER_RESULTS_PLOT_H

#include "trainer/draw/drawing.h"

#ifdef __cplusplus
extern "C" {
#endif

// 1200 x 800 pixels, from FOLDER/metrics.csv: losses, accuracies (every "val/..." column but the
// loss), learning rate, images a second, over epochs. Columns are found by name; a panel without
// values shows a note. Fails as sr_csv_read. Released with sr_figure_release.
SR_NODISCARD sr_status sr_results_figure(const char *folder, sr_figure *out);
// Has FOLDER/results.png and results.svg drawn.
void sr_results_draw(const char *folder, sr_drawing *drawing);

#ifdef __cplusplus
}
#endif
#endif
