// SPDX-License-Identifier: Apache-2.0
// The operations of a figure as a list, for the module that draws (plots_module.h).
#ifndef SR_TRAINER_FIGURE_INTERNAL_H
#define SR_TRAINER_FIGURE_INTERNAL_H

#include "kernels/base/memory.h"
#include "trainer/draw/figure.h"

typedef enum sr_figure_kind {
    SR_FIGURE_RECTANGLE = 0,
    SR_FIGURE_TEXT,
    SR_FIGURE_LINE,
    SR_FIGURE_PIXELS,
    SR_FIGURE_PANEL,
    SR_FIGURE_KINDS
} sr_figure_kind;

typedef struct sr_figure_operation {
    sr_figure_kind kind;
    union {
        sr_figure_rectangle rectangle;
        sr_figure_text text;
        sr_figure_line line;
        sr_figure_pixels pixels;
        sr_panel panel;
    } as;
} sr_figure_operation;

typedef struct sr_figure_list {
    int width, height, count;
    const sr_figure_operation *operations;
} sr_figure_list;

// Reads the operations, whose bytes may be damaged: what they point to lies in the figure's bytes
// or in the arena. Fails as sr_figure_check.
SR_NODISCARD sr_status sr_figure_unpack(const sr_figure *figure, sr_arena *arena,
                                        sr_figure_list *out);

#endif
