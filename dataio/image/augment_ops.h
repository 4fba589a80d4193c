// SPDX-License-Identifier: Apache-2.0
// The operations of learned and random augmentation policies (AutoAugment, RandAugment,
// TrivialAugment, AugMix), each with a magnitude, and the ranges of magnitudes in a policy.
#ifndef SR_DATAIO_AUGMENT_OPS_H
#define SR_DATAIO_AUGMENT_OPS_H

#include <stdbool.h>

#include "dataio/image/affine.h"
#include "dataio/image/canvas.h"
#include "kernels/base/rng.h"

// One operation. Its magnitude: shears as a slope, translations in pixels, rotation in degrees
// counter-clockwise, a factor minus 1, bits for posterize, a threshold for solarize.
typedef struct sr_augment_op {
    const char *name;
    bool is_signed; // may be negated at random
    sr_status (*apply)(sr_canvas *canvas, double magnitude, const sr_warp_style *style);
} sr_augment_op;

extern const sr_augment_op sr_augment_identity, sr_augment_shear_x, sr_augment_shear_y,
    sr_augment_translate_x, sr_augment_translate_y, sr_augment_rotate, sr_augment_brightness,
    sr_augment_color, sr_augment_contrast, sr_augment_sharpness, sr_augment_posterize,
    sr_augment_solarize, sr_augment_autocontrast, sr_augment_equalize, sr_augment_invert;

// The magnitudes of an operation in a policy: from low (level 0) to high.
typedef struct sr_augment_range {
    const sr_augment_op *op;
    double low, high;
    enum { SR_AUGMENT_ABSOLUTE, SR_AUGMENT_OF_WIDTH, SR_AUGMENT_OF_HEIGHT } unit;
} sr_augment_range;

// Indices of sr_augment_ranges. RandAugment draws from those before invert.
typedef enum sr_augment_index {
    SR_AUGMENT_IDENTITY,
    SR_AUGMENT_SHEAR_X,
    SR_AUGMENT_SHEAR_Y,
    SR_AUGMENT_TRANSLATE_X,
    SR_AUGMENT_TRANSLATE_Y,
    SR_AUGMENT_ROTATE,
    SR_AUGMENT_BRIGHTNESS,
    SR_AUGMENT_COLOR,
    SR_AUGMENT_CONTRAST,
    SR_AUGMENT_SHARPNESS,
    SR_AUGMENT_POSTERIZE,
    SR_AUGMENT_SOLARIZE,
    SR_AUGMENT_AUTOCONTRAST,
    SR_AUGMENT_EQUALIZE,
    SR_AUGMENT_INVERT,
    SR_AUGMENT_OPS
} sr_augment_index;

// The ranges of AutoAugment and RandAugment.
extern const sr_augment_range sr_augment_ranges[SR_AUGMENT_OPS];

// Applies the operation at level 0..levels - 1; 'negative' negates the magnitude of a signed
// operation.
SR_NODISCARD sr_status sr_augment_apply(sr_canvas *canvas, const sr_augment_range *range, int level,
                                        int levels, bool negative, const sr_warp_style *style);
// The same at a share of the range, from 0 to 1.
SR_NODISCARD sr_status sr_augment_apply_share(sr_canvas *canvas, const sr_augment_range *range,
                                              double share, bool negative,
                                              const sr_warp_style *style);

#endif
