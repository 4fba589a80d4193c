// SPDX-License-Identifier: Apache-2.0
// Top-1, top-5, cross-entropy and confusion counts, in a fixed order with serried's own elementary
// functions.
#include "trainer/tasks/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#include "kernels/base/file.h"
#include "kernels/base/math.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"

const char *const sr_metrics_column_names[SR_METRICS_COLUMNS] = {
    [SR_COLUMN_STEP] = "step",
    [SR_COLUMN_SAMPLES] = "samples",
    [SR_COLUMN_EPOCH] = "epoch",
    [SR_COLUMN_TRAIN_LOSS] = "train/loss",
    [SR_COLUMN_TRAIN_TOP1] = "train/top1",
    [SR_COLUMN_LR] = "lr",
    [SR_COLUMN_IMAGES_PER_S] = "images_per_s",
    [SR_COLUMN_DATA_WAIT] = "data_wait",
    [SR_COLUMN_COMM_EXPOSED] = "comm_exposed",
    [SR_COLUMN_MEM_PEAK] = "mem_peak",
    [SR_COLUMN_VAL_LOSS] = "val/loss",
    [SR_COLUMN_VAL_TOP1] = "val/top1",
    [SR_COLUMN_VAL_TOP5] = "val/top5",
    [SR_COLUMN_SECONDS] = "seconds",
    [SR_COLUMN_GRADIENT_NORM] = "gradient_norm",
    [SR_COLUMN_LOSS_SCALE] = "loss_scale",
    [SR_COLUMN_SKIPPED_STEPS] = "skipped_steps",
};

// Number of classes that beat the label; on a tie the lower index wins.
static int beaten_by(const float *logits, int classes, int label) {
    float own = logits[label];
    int better = 0;
    for (int c = 0; c < label; ++c)
        better += !(logits[c] < own);
    for (int c = label + 1; c < classes; ++c)
        better += !(logits[c] <= own);
    return better;
}

// The first of the largest; a NaN is the largest, as in beaten_by.
static int predict(const float *logits, int classes) {
    int best = 0;
    for (int c = 1; c < classes && !isnan(logits[best]); ++c)
        if (!(logits[c] <= logits[best]))
            best = c;
    return best;
}

sr_prediction sr_metrics_predict(const float *logits, int classes, int label) {
    const int predicted = predict(logits, classes);
    double largest = (double)logits[predicted], sum = 0;
    for (int c = 0; c < classes; ++c)
        sum += sr_exp((double)logits[c] - largest);
    return (sr_prediction){.predicted = predicted,
                           .probability = 1 / sum,
                           .loss = sr_log_f64(sum) + largest - (double)logits[label]};
}

sr_status sr_metrics_block_add(sr_metrics_block *block, const float *logits, int classes,
                               const int32_t *labels, int64_t rows, sr_confusion *confusion) {
    for (int64_t i = 0; i < rows; ++i, logits += classes) {
        if (labels[i] < 0)
            continue;
        if (labels[i] >= classes)
            return SR_FAIL(SR_E_DATA,
                           "evaluation: label %d, but the model has %d classes: the data set "
                           "does not fit the model",
                           labels[i], classes);
        const int better = beaten_by(logits, classes, labels[i]);
        const sr_prediction p = sr_metrics_predict(logits, classes, labels[i]);
        block->samples += 1;
        block->top1 += better < 1;
        block->top5 += better < 5;
        block->loss += p.loss;
        if (!isfinite(p.loss) && block->not_finite++ == 0)
            block->first_not_finite = i;
        if (confusion != NULL)
            ++confusion->counts[(int64_t)labels[i] * classes + p.predicted];
    }
    return SR_OK;
}

sr_metrics sr_metrics_total(const sr_metrics_block *blocks, int64_t count) {
    sr_metrics_block sum = {0};
    for (int64_t i = 0; i < count; ++i) {
        sum.samples += blocks[i].samples;
        sum.top1 += blocks[i].top1;
        sum.top5 += blocks[i].top5;
        sum.loss += blocks[i].loss;
        if (blocks[i].not_finite > 0 && sum.not_finite == 0)
            sum.first_not_finite = blocks[i].first_not_finite;
        sum.not_finite += blocks[i].not_finite;
    }
    double n = (double)sum.samples;
    bool none = sum.samples == 0;
    return (sr_metrics){.samples = sum.samples,
                        .not_finite = sum.not_finite,
                        .first_not_finite = sum.first_not_finite,
                        .top1 = none ? (double)NAN : (double)sum.top1 / n,
                        .top5 = none ? (double)NAN : (double)sum.top5 / n,
                        .loss = none ? (double)NAN : sum.loss / n};
}

sr_status sr_confusion_create(int classes, sr_confusion *out) {
    int64_t *counts =
        sr_alloc_array((size_t)classes * (size_t)classes, sizeof *counts, "confusion counts");
    if (counts == NULL)
        return SR_E_MEMORY;
    *out = (sr_confusion){.classes = classes, .counts = counts};
    return SR_OK;
}

void sr_confusion_release(sr_confusion *confusion) {
    sr_free(confusion->counts);
    *confusion = (sr_confusion){0};
}

void sr_confusion_add(sr_confusion *confusion, const int64_t *counts) {
    int64_t cells = (int64_t)confusion->classes * confusion->classes;
    for (int64_t i = 0; i < cells; ++i)
        confusion->counts[i] += counts[i];
}

static void add_class(sr_text *text, const char *const *classes, int index) {
    if (classes == NULL) {
        sr_text_add(text, "%d", index);
        return;
    }
    sr_text_add_csv_cell(text, classes[index]);
}

sr_status sr_confusion_write_csv(const sr_confusion *confusion, const char *const *classes,
                                 const char *path) {
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, "truth,predicted,count\n");
    for (int t = 0; t < confusion->classes; ++t) {
        for (int p = 0; p < confusion->classes; ++p) {
            int64_t count = confusion->counts[(int64_t)t * confusion->classes + p];
            if (count == 0)
                continue;
            add_class(&text, classes, t);
            sr_text_add(&text, ",");
            add_class(&text, classes, p);
            sr_text_add(&text, ",%" PRId64 "\n", count);
        }
    }
    sr_status status = sr_text_check(&text);
    if (status == SR_OK)
        status = sr_file_write_atomic(path, text.data, text.length);
    sr_text_release(&text);
    return status;
}
