// SPDX-License-Identifier: Apache-2.0
// The module that draws plots and text with cairo and Pango (kernels/base/module_file.h): these
// bring fifty libraries, which only a process that draws should load.
#ifndef SR_TRAINER_PLOTS_MODULE_H
#define SR_TRAINER_PLOTS_MODULE_H

#include "kernels/base/module_file.h"
#include "trainer/draw/figure_internal.h"
#include "trainer/draw/plots.h"
#include "trainer/draw/raster.h"

#define SR_PLOTS_MODULE "plots"
#define SR_PLOTS_FILE "serried-plots.so"
#define SR_PLOTS_ABI 2

// The texts are as in raster.h.
typedef struct sr_plots_module {
    sr_module_head head;
    sr_plots_libraries libraries;
    sr_status (*figure)(const sr_figure_list *figure, const char *folder, const char *name);
    int (*text)(sr_raster *raster, int x, int y, int size, uint32_t color, int max_width,
                const char *text);
    int (*text_width)(int size, const char *text);
} sr_plots_module;

#endif
