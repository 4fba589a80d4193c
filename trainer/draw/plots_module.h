// SPDX-License-Identifier: Apache-2.0
// The module that draws plots and text with cairo and Pango (kernels/base/module_file.h): these
// bring fifty libraries, which only a process that draws should load.
#ifndef SR_TRAINER_PLOTS_MODULE_H
#define SR_TRAINER_PLOTS_MODULE_H

#include "kernels/base/module_file.h"
#include "trainer/draw/plots.h"
#include "trainer/draw/raster.h"

#define SR_PLOTS_MODULE "plots"
#define SR_PLOTS_FILE "serried-plots.so"
#define SR_PLOTS_ABI 1

// Functions as in results_plot.h and raster.h.
typedef struct sr_plots_module {
    sr_module_head head;
    sr_plots_libraries libraries;
    sr_status (*results)(const char *folder);
    sr_status (*confusion)(const sr_confusion *confusion, const char *const *classes,
                           const char *folder);
    int (*text)(sr_raster *raster, int x, int y, int size, uint32_t color, int max_width,
                const char *text);
    int (*text_width)(int size, const char *text);
} sr_plots_module;

#endif
