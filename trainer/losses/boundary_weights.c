// SPDX-License-Identifier: Apache-2.0
// Factors of pixels near the boundaries of classes (SR_ROWS_BOUNDARY). Most pixels of small and
// thin classes are near one.
//
// U-Net's weight map (Ronneberger et al. 2015, eq. 2) falls with the distances to the two nearest
// cells. This is its plain form for classes: one factor for all pixels within a distance of a pixel
// of another class, along rows, columns and diagonals alike, so that it is a comparison of the
// largest and the smallest class of a square window. Ignored pixels are of no class.
#include "trainer/losses/losses_internal.h"

sr_status sr_losses_check_boundary(const sr_loss_boundary *boundary, bool maps) {
    if (maps || boundary->weight == 1)
        return SR_OK;
    return SR_FAIL(SR_E_USAGE, "boundary_weight is for losses of pixels; remove it");
}

// Largest value of the square window around each pixel of [N,H,W,1].
static sr_tensor largest(sr_tensor x, int width) {
    const int window = 2 * width + 1;
    const sr_tensor rows = sr_maxpool2d(
        x, (sr_pool2d_opts){
               .window = window, .window_w = 1, .stride = 1, .pad = width, .has_pad_w = true});
    return sr_maxpool2d(
        rows, (sr_pool2d_opts){
                  .window = 1, .window_w = window, .stride = 1, .pad_w = width, .has_pad_w = true});
}

sr_tensor sr_losses_boundary(const sr_loss_boundary *boundary, sr_tensor labels, sr_dtype dtype,
                             const sr_label_opts *opts) {
    const int width = (int)boundary->width;
    sr_info info;
    if (boundary->weight == 1 || !sr_tensor_info(labels, &info))
        return SR_NONE;
    const int64_t maps[4] = {info.dim[0], info.dim[1], info.dim[2], 1};
    const sr_tensor valid = sr_reshape(sr_losses_valid(labels, SR_F32, opts), 4, maps);
    const sr_tensor class = sr_reshape(sr_cast(labels, SR_F32), 4, maps);
    const sr_tensor none = sr_losses_filled(class, -0x1p25); // below every class and its negative
    const sr_tensor most = largest(sr_where(valid, class, none), width);
    const sr_tensor least = largest(sr_where(valid, sr_scale(class, -1.0, 0.0), none), width);
    const sr_tensor differ = sr_greater(sr_add(most, least), sr_losses_filled(most, 0.0));
    const sr_tensor factors = sr_scale(differ, boundary->weight - 1.0, 1.0);
    return sr_cast(sr_losses_shaped(factors, labels, 0), dtype);
}
