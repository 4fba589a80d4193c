// SPDX-License-Identifier: Apache-2.0
// The confusion matrix as a figure.
#ifndef SR_TRAINER_CONFUSION_FIGURE_H
#define SR_TRAINER_CONFUSION_FIGURE_H

#include "trainer/draw/drawing.h"
#include "trainer/tasks/confusion.h"

#ifdef __cplusplus
extern "C" {
#endif

// Rows are true classes, columns predictions, cells in percent of the row. Names may be NULL. With
// more classes than can be read, the most frequent mistakes are listed beside a matrix without
// names and numbers. SR_E_LIMIT for more than 4000 classes. Released with sr_figure_release.
SR_NODISCARD sr_status sr_confusion_figure(const sr_confusion *confusion,
                                           const char *const *classes, sr_figure *out);
// Has FOLDER/confusion.png and confusion.svg drawn, if the module that draws is installed.
void sr_confusion_draw(const sr_confusion *confusion, const char *const *classes,
                       const char *folder, sr_drawing *drawing);

#ifdef __cplusplus
}
#endif
#endif
