// SPDX-License-Identifier: Apache-2.0
// A folder into which figures are drawn, and what was drawn.
#ifndef SR_TESTS_UNIT_PLOT_FIXTURE_H
#define SR_TESTS_UNIT_PLOT_FIXTURE_H

#include "tests/unit/support/png_pixels.h"
#include "tests/unit/support/test_support.h"
#include "trainer/draw/figure.h"

extern char plot_folder[256];
extern png_pixels plot_drawn; // by plot_draw

// For a case of cmocka.
int plot_set_up(void **state);
int plot_tear_down(void **state);
// Ends the case as not run where the module that draws is not built.
void plot_needs_cairo(void);
// Draws FOLDER/NAME.png and NAME.svg, checks that the SVG is complete, and reads the PNG.
void plot_draw(const sr_figure *figure, const char *name);
// Pixels of plot_drawn that are close to a colour.
int plot_count(uint32_t color);

#endif
