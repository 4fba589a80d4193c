// SPDX-License-Identifier: Apache-2.0
// Inference of a map of classes from several views of a picture: windows, scales, mirror images.
#ifndef SR_TRAINER_SEGMENT_VIEWS_H
#define SR_TRAINER_SEGMENT_VIEWS_H

#include "trainer/tasks/task.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_SEGMENT_LOGITS "logits" // the model's output, [N,h,w,classes] of any h and w

// The views of a picture.
typedef struct sr_segment_views {
    sr_int_list window, stride; // one side, or height and width; 0: no windows, two thirds
    sr_float_list scales;
} sr_segment_views;

// Records the model of a task with one set for normalised pictures x [N,h,w,C]: its logits, a map.
sr_tensor sr_segment_logits(sr_lane_recording *recording, sr_tensor x);
// A map [N,height,width,channels], resized bilinearly without aligned corners.
sr_tensor sr_segment_resize(sr_tensor map, int64_t height, int64_t width);

// What is inferred.
typedef struct sr_segment_map {
    sr_tensor values; // f32 [N,H,W,classes]: logits of one view, or mean probabilities of several
    sr_tensor mean;   // f32 [N]: of all logits; not finite if one of them is not
} sr_segment_map;

// Records inference for normalised pictures x [N,h,w,C] of a task with one set; H and W are those
// of the recording. Windows lie on a grid of strides, the last ones at the edges; their logits, in
// the size of the window, are averaged where they overlap (mmsegmentation's slide_inference).
// Scaled pictures are resized bilinearly.
sr_segment_map sr_segment_infer(sr_lane_recording *recording, sr_tensor x,
                                const sr_segment_views *views);

#ifdef __cplusplus
}
#endif
#endif
