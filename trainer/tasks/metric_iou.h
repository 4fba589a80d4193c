// SPDX-License-Identifier: Apache-2.0
// The metric of segmentation: intersection over union of classes, and accuracies of pixels.
//
// All are of the pixels of the whole split whose mask has a class (mmsegmentation's IoUMetric,
// torchvision's ConfusionMatrix), from exact counts.
#ifndef SR_TRAINER_METRIC_IOU_H
#define SR_TRAINER_METRIC_IOU_H

#include "trainer/tasks/confusion.h"
#include "trainer/tasks/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

// Its columns: the mean IoU of the classes that occur in masks or results, the share of right
// pixels, and the mean of its values for the classes that occur in masks.
enum { SR_IOU_MEAN = 0, SR_IOU_PIXELS, SR_IOU_CLASSES, SR_IOU_COLUMNS };

// Measures the output "classes", u8 [N,H,W], by the array "mask", u8 [N,H,W], of the same size. A
// sample whose output "mean", f32 [N], is not finite has no result.
extern const sr_metric_desc sr_metric_iou;

// Adds 'pixels' pixels; SR_MASK_IGNORE in the mask is left out. SR_E_DATA naming the first pixel
// whose class is neither below that of the counts nor ignored.
SR_NODISCARD sr_status sr_iou_add(sr_confusion *confusion, const uint8_t *mask,
                                  const uint8_t *classes, int64_t pixels);
// IoU of a class; NaN where it occurs in neither masks nor results.
double sr_iou_of(const sr_confusion *confusion, int class_number);
// The share of a class's pixels that are right; NaN where it has none.
double sr_iou_recall(const sr_confusion *confusion, int class_number);
// The values of the columns.
void sr_iou_values(const sr_confusion *confusion, double values[SR_IOU_COLUMNS]);

#ifdef __cplusplus
}
#endif
#endif
