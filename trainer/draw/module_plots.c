// SPDX-License-Identifier: Apache-2.0
// The module serried-plots.so: what needs cairo and Pango.
#include "trainer/draw/plot_internal.h"
#include "trainer/draw/plots_module.h"

const sr_module_head *sr_module_entry(void) {
    static sr_plots_module module = {.head = {.struct_size = sizeof module,
                                              .abi = SR_PLOTS_ABI,
                                              .name = SR_PLOTS_MODULE,
                                              .version = SR_VERSION},
                                     .figure = sr_plot_figure,
                                     .text = sr_plot_raster_text,
                                     .text_width = sr_plot_raster_text_width};
    module.libraries =
        (sr_plots_libraries){.cairo = cairo_version_string(), .pango = pango_version_string()};
    return &module.head;
}
