// SPDX-License-Identifier: Apache-2.0
// The mean absolute error of a prediction.
#ifndef SR_TRAINER_METRIC_ERROR_H
#define SR_TRAINER_METRIC_ERROR_H

#include "trainer/tasks/metric.h"

// Of the outputs "predicted" and "truth", both f32 [N,1].
extern const sr_metric_desc sr_metric_error;

#endif
