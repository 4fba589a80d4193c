// SPDX-License-Identifier: Apache-2.0
// The colours of all pictures, as 0xRRGGBB.
#ifndef SR_TRAINER_PALETTE_H
#define SR_TRAINER_PALETTE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SR_WHITE = 0xffffff,  // the background
    SR_EMPTY = 0xf6f7f9,  // of a cell without a value
    SR_GRID = 0xeceff3,   // behind curves
    SR_LINE = 0xcbd2d9,   // axes
    SR_SOFT = 0x616e7c,   // tick labels, legends, notes
    SR_INK = 0x1f2933,    // titles, captions
    SR_BLUE = 0x2f6fde,   // the first curve of a panel, training; correct cells
    SR_ORANGE = 0xee7b1a, // the second, validation; mistakes
    SR_GREEN = 0x1c9c6c,  // also of what is right
    SR_PURPLE = 0x8250c4,
    SR_RED = 0xc0392b,
    SR_TEAL = 0x0e8a9c,
    SR_RUST = 0xb85c0e,  // mistakes as text
    SR_WRONG = 0xd64545, // what is wrong, or to be noticed
};

enum { SR_COLOR_SERIES = 5 }; // before they come again
// Of the n-th curve beside a first one in blue: orange, green, purple, red, teal, and again.
uint32_t sr_color_series(int n);
// Of a class in boxes, outlines, masks and legends. Distinct from each other and from most
// pictures; after twelve classes the colours come again darker, then lighter.
uint32_t sr_color_class(int number);
// Black or white, whichever is more legible on the colour.
uint32_t sr_color_ink_on(uint32_t color);
// From one colour (part 0) to another (part 1).
uint32_t sr_color_mix(uint32_t from, uint32_t to, double part);

#ifdef __cplusplus
}
#endif
#endif
