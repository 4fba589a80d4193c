// SPDX-License-Identifier: Apache-2.0
// Pictures that grow during a run (progressive resizing: Howard et al., DAWNBench 2018; FFCV): the
// side of a step's pictures, from a finite list.
#ifndef SR_DATAIO_IMAGE_GROWTH_H
#define SR_DATAIO_IMAGE_GROWTH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The side grows linearly between two global sample positions, from 'from' to the image size, and
// is rounded to from, from + step, from + 2 step and so on.
typedef struct sr_image_growth {
    int64_t from; // 0: pictures have the image size from the start
    int64_t step; // divides the image size minus 'from'
    int64_t begin, end;
} sr_image_growth;

// The side of square pictures in the step that begins at 'position', for a final side of 'image':
// from + step floor(t (image - from) / step + 1/2), with t from 0 at begin to 1 at end.
int64_t sr_image_side_at(const sr_image_growth *growth, int64_t image, int64_t position);
// Number of different sides.
int64_t sr_image_side_count(const sr_image_growth *growth, int64_t image);

#ifdef __cplusplus
}
#endif
#endif
