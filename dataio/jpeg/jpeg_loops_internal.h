// SPDX-License-Identifier: Apache-2.0
// One set of inner loops: included by one file per vector width, which defines SR_JPEG_SET as its
// name and SR_JPEG_READ as the name of its Huffman decoding.
#ifndef SR_DATAIO_JPEG_LOOPS_INTERNAL_H
#define SR_DATAIO_JPEG_LOOPS_INTERNAL_H

#include "dataio/jpeg/jpeg_reduce_internal.h"
#include "dataio/jpeg/jpeg_rows_internal.h"
#include "dataio/jpeg/jpeg_transform_internal.h"

static void transform(const int16_t *coefficients, int64_t groups, const uint16_t *quant, int side,
                      uint8_t *out, int64_t stride) {
    if (side == SR_JPEG_SIDE)
        jt_transform(coefficients, groups, quant, out, stride);
    else
        rd_reduce(coefficients, groups, quant, side, JT_GROUP, out, stride);
}

#define JL_NAME(set) #set
#define JL_NAME_OF(set) JL_NAME(set)
const sr_jpeg_set SR_JPEG_SET = {.name = JL_NAME_OF(SR_JPEG_SET),
                                 .group = JT_GROUP,
                                 .read_mcus = SR_JPEG_READ,
                                 .transform = transform,
                                 .mix_rows = jr_mix_rows,
                                 .blend_rows = jr_blend_rows,
                                 .spread_row = jr_spread_row,
                                 .colour_row = jr_colour_row};

#endif
