// SPDX-License-Identifier: Apache-2.0
// Plots of results: curves of a run, and the confusion matrix. Drawn with cairo by a module that is
// opened when it is needed; without it the functions return SR_E_UNSUPPORTED.
#ifndef SR_TRAINER_PLOTS_H
#define SR_TRAINER_PLOTS_H

#include <stdbool.h>

#include "trainer/tasks/metrics.h"

#ifdef __cplusplus
extern "C" {
#endif

// Versions of the libraries that draw; constant texts.
typedef struct sr_plots_libraries {
    const char *cairo, *pango;
} sr_plots_libraries;
// False without the module, where the calls below are SR_E_UNSUPPORTED. 'out' may be NULL.
bool sr_plots_available(sr_plots_libraries *out);

// Whether the module is there, without opening it.
bool sr_plots_installed(void);

// Before anything is drawn: this process never opens the module, whose libraries end a process that
// is refused a thread or memory, and draws text in a bitmap font. Its children may open it.
void sr_plots_refuse(void);

// FOLDER/results.png (1200 x 800) and FOLDER/results.svg from FOLDER/metrics.csv: losses,
// accuracies (every "val/..." column but the loss), learning rate, images a second, over epochs.
// Columns are found by name; a panel without values shows a note.
SR_NODISCARD sr_status sr_results_plot(const char *folder);

// FOLDER/confusion.png and .svg: rows are true classes, columns predictions, cells in percent of
// the row. Names may be NULL. More classes than can be read are drawn without names and numbers.
SR_NODISCARD sr_status sr_confusion_plot(const sr_confusion *confusion, const char *const *classes,
                                         const char *folder);

#ifdef __cplusplus
}
#endif
#endif
