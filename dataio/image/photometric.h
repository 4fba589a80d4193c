// SPDX-License-Identifier: Apache-2.0
// Photometric distortion with given numbers, as networks for detection and segmentation are trained
// with it: Liu et al., "SSD: Single Shot MultiBox Detector" (2016).
//
// Libraries differ in the formulas, not in the order: brightness, contrast (here, or after the
// hue), saturation, hue, order of the channels.
#ifndef SR_DATAIO_PHOTOMETRIC_H
#define SR_DATAIO_PHOTOMETRIC_H

#include <stdbool.h>
#include <stdint.h>

typedef enum sr_photometric_rule {
    // Blends as in adjust.h (torchvision's RandomPhotometricDistort).
    SR_PHOTOMETRIC_BLEND = 0,
    // Values are scaled and shifted, then cut to whole levels; saturation and hue change in
    // OpenCV's
    // 8-bit HSV, whose hues are steps of two degrees (mmsegmentation's PhotoMetricDistortion).
    SR_PHOTOMETRIC_LINEAR,
} sr_photometric_rule;

#define SR_PHOTOMETRIC_HUES 180 // hues of 8-bit HSV

// The numbers of one picture; those whose flag is not set do nothing.
typedef struct sr_photometric {
    sr_photometric_rule rule;
    bool brighten, contrast_first, contrast_last, saturate, turn;
    double brightness; // blend: a factor; linear: levels that are added
    double contrast, saturation;
    double hue;           // turns of the colour wheel; linear: rounded to a hue of 8-bit HSV
    uint32_t channels[3]; // the source of red, green and blue, where 'reorder'
    bool reorder;
} sr_photometric;

// Changes packed RGB in place.
void sr_photometric_apply(const sr_photometric *change, uint8_t *rgb, int64_t pixels);

#endif
