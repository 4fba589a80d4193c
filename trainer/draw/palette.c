// SPDX-License-Identifier: Apache-2.0
// Tables of colours (palette.h).
#include "trainer/draw/palette.h"

#define COUNT(table) ((unsigned)(sizeof(table) / sizeof *(table)))

uint32_t sr_color_series(int n) {
    static const uint32_t colors[SR_COLOR_SERIES] = {SR_ORANGE, SR_GREEN, SR_PURPLE, SR_RED,
                                                     SR_TEAL};
    return colors[(unsigned)n % SR_COLOR_SERIES];
}

static uint32_t shade(uint32_t channel, unsigned round) {
    return round == 0 ? channel : round == 1 ? channel * 5 / 9 : (channel + 255) / 2;
}

uint32_t sr_color_class(int number) {
    static const uint32_t colors[] = {0xe6194b, 0x3cb44b, 0x4363d8, 0xf58231, 0x911eb4, 0x46c7c7,
                                      0xf032e6, 0xa3c614, 0x008080, 0x9a6324, 0xffcc00, 0x800000};
    const unsigned round = (unsigned)number / COUNT(colors) % 3;
    const uint32_t color = colors[(unsigned)number % COUNT(colors)];
    return shade(color >> 16 & 255, round) << 16 | shade(color >> 8 & 255, round) << 8 |
           shade(color & 255, round);
}

// By the luma of Rec. 601.
uint32_t sr_color_ink_on(uint32_t color) {
    const uint32_t luma =
        299 * (color >> 16 & 255) + 587 * (color >> 8 & 255) + 114 * (color & 255);
    return luma > 150000 ? 0x000000 : SR_WHITE;
}

uint32_t sr_color_mix(uint32_t from, uint32_t to, double part) {
    uint32_t mixed = 0;
    for (unsigned shift = 0; shift <= 16; shift += 8) {
        const double a = (double)(from >> shift & 255), b = (double)(to >> shift & 255);
        mixed |= (uint32_t)(a + part * (b - a) + 0.5) << shift;
    }
    return mixed;
}
