// SPDX-License-Identifier: Apache-2.0
// Per-pixel colour operations shared by color_jitter, the single transforms and the learned
// policies.
//
// They follow Pillow's ImageEnhance and ImageOps (and so torchvision), in integers: blends are
// within one level of theirs, look-up tables are identical. Factors have 16 fractional bits; 0
// gives the degenerate picture that is blended with, 1 leaves the picture unchanged.
#ifndef SR_DATAIO_ADJUST_H
#define SR_DATAIO_ADJUST_H

#include <stdint.h>

#include "dataio/image/canvas.h"
#include "kernels/base/status.h"

#define SR_ADJUST_ONE 65536      // a factor of 1
#define SR_ADJUST_TURN (6 * 256) // steps of the colour wheel
#define SR_ADJUST_BLUR_MAX 99    // pixels

// Converts a factor to fixed point.
int64_t sr_adjust_factor(double factor);

// In place, on packed RGB. Blends with black, with the mean grey, with each pixel's own grey:
void sr_adjust_brightness(uint8_t *p, int64_t pixels, int64_t factor);
void sr_adjust_contrast(uint8_t *p, int64_t pixels, int64_t factor);
void sr_adjust_saturation(uint8_t *p, int64_t pixels, int64_t factor);
// Turns the colour wheel by 'shift' of SR_ADJUST_TURN steps.
void sr_adjust_hue(uint8_t *p, int64_t pixels, int shift);
// Adds to each channel.
void sr_adjust_shift(uint8_t *p, int64_t pixels, const int shift[3]);
// Keeps the highest bits of each value, 0..8.
void sr_adjust_posterize(uint8_t *p, int64_t pixels, int bits);
// Inverts values from the threshold on; 0: all, 256: none.
void sr_adjust_solarize(uint8_t *p, int64_t pixels, int threshold);
// Stretches each channel to 0..255.
void sr_adjust_autocontrast(uint8_t *p, int64_t pixels);
// Equalizes the histogram of each channel.
void sr_adjust_equalize(uint8_t *p, int64_t pixels);

// Blends with a smoothed picture (3x3 kernel, centre weight 5); border pixels do not change.
SR_NODISCARD sr_status sr_adjust_sharpness(sr_canvas *canvas, int64_t factor);
// Gaussian blur, 'size' (odd) pixels wide, with reflected borders. Within one level of
// torchvision's.
SR_NODISCARD sr_status sr_adjust_blur(sr_canvas *canvas, int size, double sigma);

#endif
