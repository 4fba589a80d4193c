// SPDX-License-Identifier: Apache-2.0
// move_pixels: flips, crops and padding of stored pictures. One block is one picture of the output.
#include <string.h>

#include "kernels/base/pixel_move.h"
#include "kernels/cpu/reference/reference_internal.h"

// x: the row of the stored picture; NULL: none.
static void move_row(const sr_pixel_move *m, const uint8_t *x, int64_t width, uint8_t *y) {
    for (int64_t w = 0; w < width; w++, y += 3) {
        const int64_t column = x ? sr_move_column(m, w) : -1;
        for (int c = 0; c < 3; c++)
            y[c] = column < 0 ? sr_move_color(m, c) : x[3 * column + c];
    }
}

static sr_status move_pixels(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const sr_move_params *p = args->params;
    const sr_pixel_move *m = (const sr_pixel_move *)args->p[1] + block;
    uint8_t *y = (uint8_t *)args->p[2] + block * p->p * p->q * 3;
    (void)worker;
    if (!sr_move_is_valid(m, p->n, p->h, p->w)) {
        memset(y, 0, (size_t)(p->p * p->q * 3));
        return SR_OK;
    }
    const uint8_t *picture = (const uint8_t *)args->p[0] + m->picture * p->h * p->w * 3;
    for (int64_t row = 0; row < p->p; row++, y += p->q * 3) {
        const int64_t from = sr_move_row(m, row);
        move_row(m, from < 0 ? NULL : picture + from * p->w * 3, p->q, y);
    }
    return SR_OK;
}

sr_status sr_reference_prepare_move_pixels(const sr_kernel_request *request, sr_prepared *out) {
    const sr_move_params *p = (const void *)request->params;
    sr_add_stage(out, move_pixels, p->count);
    return SR_OK;
}
