// SPDX-License-Identifier: Apache-2.0
// The module that draws with cairo and Pango: whether it is installed, and figures drawn by it in
// this process. It is opened when it is needed.
#ifndef SR_TRAINER_PLOTS_H
#define SR_TRAINER_PLOTS_H

#include <stdbool.h>

#include "trainer/draw/figure.h"

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

// Draws FOLDER/NAME.png and FOLDER/NAME.svg, each replaced atomically. Fails as sr_figure_check;
// SR_E_UNSUPPORTED without the module.
SR_NODISCARD sr_status sr_figure_write(const sr_figure *figure, const char *folder,
                                       const char *name);

#ifdef __cplusplus
}
#endif
#endif
