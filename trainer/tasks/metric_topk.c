// SPDX-License-Identifier: Apache-2.0
// Top-1, top-5, cross-entropy and confusion counts (metric_topk.h), in a fixed order with serried's
// own elementary functions.
#include "trainer/tasks/metric_topk.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/base/math.h"
#include "trainer/tasks/confusion_figure.h"

enum { CONFUSION_CLASSES = 1000 }; // with more, a matrix is too large to view

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

sr_prediction sr_topk_predict(const float *logits, int classes, int label) {
    const int predicted = predict(logits, classes);
    double largest = (double)logits[predicted], sum = 0;
    for (int c = 0; c < classes; ++c)
        sum += sr_exp((double)logits[c] - largest);
    return (sr_prediction){.predicted = predicted,
                           .probability = 1 / sum,
                           .loss = sr_log_f64(sum) + largest - (double)logits[label]};
}

sr_status sr_topk_add(sr_topk_block *block, const float *logits, int classes, const int32_t *labels,
                      int64_t rows, sr_confusion *confusion) {
    for (int64_t i = 0; i < rows; ++i, logits += classes) {
        if (labels[i] < 0)
            continue;
        if (labels[i] >= classes)
            return SR_FAIL(SR_E_DATA,
                           "evaluation: label %d, but the model has %d classes: the data set "
                           "does not fit the model",
                           labels[i], classes);
        const int better = beaten_by(logits, classes, labels[i]);
        const sr_prediction p = sr_topk_predict(logits, classes, labels[i]);
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

void sr_topk_total(const sr_topk_block *const *blocks, int64_t count, sr_metric_result *out) {
    sr_topk_block sum = {0};
    for (int64_t i = 0; i < count; ++i) {
        const sr_topk_block *b = blocks[i];
        sum.samples += b->samples;
        sum.top1 += b->top1;
        sum.top5 += b->top5;
        sum.loss += b->loss;
        if (b->not_finite > 0 && sum.not_finite == 0)
            sum.first_not_finite = b->first_not_finite;
        sum.not_finite += b->not_finite;
    }
    const double n = sum.samples > 0 ? (double)sum.samples : (double)NAN;
    out->samples = sum.samples;
    out->not_finite = sum.not_finite;
    out->first_not_finite = sum.first_not_finite;
    out->values[SR_TOPK_LOSS] = sum.loss / n;
    out->values[SR_TOPK_TOP1] = (double)sum.top1 / n;
    out->values[SR_TOPK_TOP5] = (double)sum.top5 / n;
}

// ---- The metric ----

typedef struct topk_state {
    const char *const *class_names;
    sr_confusion confusion; // counts NULL: not collected
} topk_state;

static sr_status begin(void *state, const sr_metric_setting *setting) {
    topk_state *s = state;
    s->class_names = setting->class_names;
    return setting->last && setting->classes <= CONFUSION_CLASSES
               ? sr_confusion_create(setting->classes, &s->confusion)
               : SR_OK;
}

static void release(void *state) {
    topk_state *s = state;
    sr_confusion_release(&s->confusion);
}

static sr_status add(void *state, const sr_metric_samples *samples, sr_text *bytes) {
    topk_state *s = state;
    sr_topk_block sums = {0};
    const sr_task_output *logits;
    const sr_array *label;
    SR_TRY(sr_task_outputs_get(samples->outputs, "logits", &logits));
    SR_TRY(sr_slot_get(samples->slot, "label", &label));
    SR_TRY(sr_topk_add(&sums, logits->data, (int)logits->info.dim[1], label->data,
                       samples->slot->valid, s->confusion.counts ? &s->confusion : NULL));
    sums.first_not_finite += samples->slot->first_position;
    sr_text_add_bytes(bytes, &sums, sizeof sums);
    return sr_text_check(bytes);
}

static int64_t *counts(void *state, size_t *count) {
    const topk_state *s = state;
    *count = (size_t)s->confusion.classes * (size_t)s->confusion.classes;
    return s->confusion.counts;
}

static sr_status result(void *state, const sr_metric_blocks *blocks, sr_metric_result *out) {
    (void)state;
    sr_topk_total((const sr_topk_block *const *)blocks->data, blocks->count, out);
    return SR_OK;
}

static sr_status write(const void *state, const char *folder) {
    const topk_state *s = state;
    if (!s->confusion.counts)
        return SR_OK;
    return sr_confusion_write(&s->confusion, s->class_names, folder);
}

static void draw(const void *state, sr_drawing *drawing, const char *folder) {
    const topk_state *s = state;
    if (s->confusion.counts)
        sr_confusion_draw(&s->confusion, s->class_names, folder, drawing);
}

static const sr_column columns[SR_TOPK_COLUMNS] = {
    [SR_TOPK_LOSS] = {"loss", "loss", SR_UNIT_LOSS, SR_BETTER_LOWER},
    [SR_TOPK_TOP1] = {"top1", "top-1", SR_UNIT_FRACTION, SR_BETTER_HIGHER},
    [SR_TOPK_TOP5] = {"top5", "top-5", SR_UNIT_FRACTION, SR_BETTER_HIGHER},
};

const sr_metric_desc sr_metric_topk = {.struct_size = sizeof(sr_metric_desc),
                                       .abi = SR_METRIC_ABI,
                                       .name = "topk",
                                       .columns = columns,
                                       .column_count = SR_TOPK_COLUMNS,
                                       .state_size = sizeof(topk_state),
                                       .begin = begin,
                                       .release = release,
                                       .add = add,
                                       .counts = counts,
                                       .result = result,
                                       .write = write,
                                       .draw = draw};
