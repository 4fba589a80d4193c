// SPDX-License-Identifier: Apache-2.0
// The metric of classification: top-1, top-5, cross-entropy, confusion counts.
#ifndef SR_TRAINER_METRIC_TOPK_H
#define SR_TRAINER_METRIC_TOPK_H

#include <stdint.h>

#include "trainer/tasks/confusion.h"
#include "trainer/tasks/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

// Its columns.
enum { SR_TOPK_LOSS = 0, SR_TOPK_TOP1, SR_TOPK_TOP5, SR_TOPK_COLUMNS };

// Measures the output "logits", f32 [N,classes], by the array "label", i32 [N].
extern const sr_metric_desc sr_metric_topk;

// One block.
typedef struct sr_topk_block {
    int64_t samples, top1, top5;
    int64_t not_finite;       // of the samples: those whose cross-entropy is not
    int64_t first_not_finite; // the number of the first of them; sr_topk_add: its row
    double loss;              // sum of the samples' cross-entropies
} sr_topk_block;

// Adds 'rows' samples in order: logits f32 [rows, classes], labels [rows]. The prediction is the
// first of the largest logits; a sample is in the top k if fewer than k classes beat its label (a
// NaN logit beats every label and is beaten by none). A sample with a negative label is not
// counted. Cross-entropy in double. confusion may be NULL.
// SR_E_DATA for a label >= classes.
SR_NODISCARD sr_status sr_topk_add(sr_topk_block *block, const float *logits, int classes,
                                   const int32_t *labels, int64_t rows, sr_confusion *confusion);

// The sum over all blocks in order, as the values of the columns.
void sr_topk_total(const sr_topk_block *const *blocks, int64_t count, sr_metric_result *out);

// The prediction for a sample whose label is not negative.
typedef struct sr_prediction {
    int predicted;      // as in sr_topk_add
    double probability; // of the predicted class, by softmax
    double loss;        // cross-entropy of the label
} sr_prediction;

// From logits f32 [classes]; computed in double.
sr_prediction sr_topk_predict(const float *logits, int classes, int label);

#ifdef __cplusplus
}
#endif
#endif
