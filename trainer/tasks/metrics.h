// SPDX-License-Identifier: Apache-2.0
// Classification metrics whose values do not depend on the number of ranks: integer counts, and
// sums of doubles in the order of fixed blocks.
//
// An evaluation is divided into blocks of samples (one lane of one step each). The rank that
// computes a block fills its row; rows are gathered as bytes and added in block order by
// sr_metrics_total.
//
// Accuracies and shares of time are fractions in 0..1 in every file; printed lines and plots show
// percent. Versions that wrote percent into metrics.csv named the column images_per_s img_s, so the
// two units are never in one file: a file with other columns is not continued.
#ifndef SR_TRAINER_METRICS_H
#define SR_TRAINER_METRICS_H

#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Columns of metrics.csv, in order. A row holds what was measured at its step; the rest is empty.
typedef enum sr_metrics_column {
    SR_COLUMN_STEP = 0,
    SR_COLUMN_SAMPLES,       // consumed: the position that a resume cuts at
    SR_COLUMN_EPOCH,         // fractional
    SR_COLUMN_TRAIN_LOSS,    // mean since the row before
    SR_COLUMN_TRAIN_TOP1,    // 0..1
    SR_COLUMN_LR,            //
    SR_COLUMN_IMAGES_PER_S,  // since the row before
    SR_COLUMN_DATA_WAIT,     // 0..1 of the time
    SR_COLUMN_COMM_EXPOSED,  // 0..1 of the time
    SR_COLUMN_MEM_PEAK,      // bytes on this rank
    SR_COLUMN_VAL_LOSS,      //
    SR_COLUMN_VAL_TOP1,      // 0..1
    SR_COLUMN_VAL_TOP5,      // 0..1
    SR_COLUMN_SECONDS,       // of the whole run, over all sessions
    SR_COLUMN_GRADIENT_NORM, // of the step, where it is needed for clipping or loss scaling
    SR_COLUMN_LOSS_SCALE,    // after the step
    SR_COLUMN_SKIPPED_STEPS, // since the start of the run, because gradients were not finite
    SR_METRICS_COLUMNS
} sr_metrics_column;

// "step", "samples", "epoch", "train/loss", ...
extern const char *const sr_metrics_column_names[SR_METRICS_COLUMNS];

// One block; plain bytes, which may be sent between ranks on machines of one kind.
typedef struct sr_metrics_block {
    int64_t samples, top1, top5;
    int64_t not_finite;       // of the samples: those whose cross-entropy is not
    int64_t first_not_finite; // the number of the first of them; sr_metrics_block_add: its row
    double loss;              // sum of the samples' cross-entropies
} sr_metrics_block;

// Counts of [truth][prediction]. They add exactly in any order.
typedef struct sr_confusion {
    int classes;
    int64_t *counts; // classes * classes
} sr_confusion;

// All counts zero. SR_E_MEMORY.
SR_NODISCARD sr_status sr_confusion_create(int classes, sr_confusion *out);
// Frees the memory.
void sr_confusion_release(sr_confusion *confusion);
// Adds the counts of another rank.
void sr_confusion_add(sr_confusion *confusion, const int64_t *counts);
// Writes rows of truth,predicted,count for all non-zero cells, with class names (NULL: numbers).
SR_NODISCARD sr_status sr_confusion_write_csv(const sr_confusion *confusion,
                                              const char *const *classes, const char *path);

// Adds 'rows' samples in order: logits f32 [rows, classes], labels [rows]. The prediction is the
// first of the largest logits; a sample is in the top k if fewer than k classes beat its label (a
// NaN logit beats every label and is beaten by none). A sample with a negative label is not
// counted. Cross-entropy in double. confusion may be NULL.
// SR_E_DATA for a label >= classes.
SR_NODISCARD sr_status sr_metrics_block_add(sr_metrics_block *block, const float *logits,
                                            int classes, const int32_t *labels, int64_t rows,
                                            sr_confusion *confusion);

// The prediction for a sample whose label is not negative.
typedef struct sr_prediction {
    int predicted;      // as in sr_metrics_block_add
    double probability; // of the predicted class, by softmax
    double loss;        // cross-entropy of the label
} sr_prediction;

// From logits f32 [classes]; computed in double.
sr_prediction sr_metrics_predict(const float *logits, int classes, int label);

// The result of an evaluation.
typedef struct sr_metrics {
    int64_t samples, not_finite, first_not_finite; // as in a block
    double top1, top5, loss; // fractions of the samples, mean; NaN if there are none
} sr_metrics;

// The sum over all blocks in order.
sr_metrics sr_metrics_total(const sr_metrics_block *blocks, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
