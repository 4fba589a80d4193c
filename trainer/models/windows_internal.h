// SPDX-License-Identifier: Apache-2.0
// Pictures in windows, and windows shifted by half (Liu et al. 2021).
#ifndef SR_TRAINER_WINDOWS_INTERNAL_H
#define SR_TRAINER_WINDOWS_INTERNAL_H

#include "trainer/models/model.h"

#ifdef __cplusplus
extern "C" {
#endif

// Pictures [samples,height,width,channels] in square windows: their extents padded with zeros to
// whole windows, and by how much shifted windows are shifted, which is 0 along an axis with one
// window.
typedef struct sr_windows {
    sr_context *context;
    int64_t samples, height, width, channels;
    int64_t padded_height, padded_width, shift_down, shift_right;
    int64_t window, columns; // pixels of a window's side; windows in a row: padded_width / window
    sr_tensor cut, join;     // i32: the pixel of each token of shifted windows, and the inverse
    // f32 [windows of a picture,1,tokens,tokens], to be added to the products of queries and keys:
    // -100 where shifting joined two tokens of a window from opposite borders, else 0.
    sr_tensor mask;
} sr_windows;

// Describes the windows of x [N,H,W,C]. False if an error sticks.
bool sr_windows_describe(sr_forward *forward, sr_tensor x, int window, sr_windows *out);
// Whether shifted windows are other ones: then 'cut', 'join' and 'mask' are constants of the step.
bool sr_windows_shift(const sr_windows *p);
// x[N,H,W,C] -> [N windows,tokens,C], those of a picture in rows. shifts: cut shifted windows.
sr_tensor sr_windows_cut(const sr_windows *p, bool shifts, sr_tensor x);
// The inverse.
sr_tensor sr_windows_join(const sr_windows *p, bool shifts, sr_tensor x);

#ifdef __cplusplus
}
#endif
#endif
