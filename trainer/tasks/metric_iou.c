// SPDX-License-Identifier: Apache-2.0
// Intersection over union from confusion counts (metric_iou.h).
#include "trainer/tasks/metric_iou.h"

#include <inttypes.h>
#include <math.h>

#include "dataio/image/canvas.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "trainer/tasks/confusion_figure.h"

enum { MAX_DRAWN = 64 }; // classes of a matrix that can be viewed

sr_status sr_iou_add(sr_confusion *confusion, const uint8_t *mask, const uint8_t *classes,
                     int64_t pixels) {
    const int count = confusion->classes;
    for (int64_t i = 0; i < pixels; i++) {
        if (mask[i] == SR_MASK_IGNORE)
            continue;
        if (mask[i] >= count || classes[i] >= count)
            return SR_FAIL(SR_E_DATA,
                           "pixel %" PRId64 " of the mask has class %d, of the result %d; the "
                           "model has %d classes (0 to %d), and %d is ignored",
                           i, mask[i], classes[i], count, count - 1, SR_MASK_IGNORE);
        confusion->counts[(int64_t)mask[i] * count + classes[i]]++;
    }
    return SR_OK;
}

// Pixels of a class in masks, in results, and in both.
typedef struct class_pixels {
    int64_t truth, predicted, both;
} class_pixels;

static class_pixels pixels_of(const sr_confusion *c, int number) {
    class_pixels p = {.both = c->counts[(int64_t)number * c->classes + number]};
    for (int k = 0; k < c->classes; k++) {
        p.truth += c->counts[(int64_t)number * c->classes + k];
        p.predicted += c->counts[(int64_t)k * c->classes + number];
    }
    return p;
}

static double ratio(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : (double)NAN;
}

double sr_iou_of(const sr_confusion *confusion, int class_number) {
    const class_pixels p = pixels_of(confusion, class_number);
    return ratio(p.both, p.truth + p.predicted - p.both);
}

double sr_iou_recall(const sr_confusion *confusion, int class_number) {
    const class_pixels p = pixels_of(confusion, class_number);
    return ratio(p.both, p.truth);
}

// The mean over the classes that have a value.
static double mean_of(const sr_confusion *c, double (*of)(const sr_confusion *, int)) {
    double sum = 0;
    int count = 0;
    for (int k = 0; k < c->classes; k++) {
        const double value = of(c, k);
        if (isnan(value))
            continue;
        sum += value;
        count++;
    }
    return count > 0 ? sum / count : (double)NAN;
}

void sr_iou_values(const sr_confusion *c, double values[SR_IOU_COLUMNS]) {
    int64_t right = 0, all = 0;
    for (int k = 0; k < c->classes; k++) {
        const class_pixels p = pixels_of(c, k);
        right += p.both;
        all += p.truth;
    }
    values[SR_IOU_MEAN] = mean_of(c, sr_iou_of);
    values[SR_IOU_PIXELS] = ratio(right, all);
    values[SR_IOU_CLASSES] = mean_of(c, sr_iou_recall);
}

// ---- The metric ----

typedef struct iou_state {
    const char *const *class_names;
    sr_confusion confusion;
} iou_state;

// What is kept of samples.
typedef struct iou_bytes {
    int64_t samples, not_finite, first_not_finite;
} iou_bytes;

static sr_status begin(void *state, const sr_metric_setting *setting) {
    iou_state *s = state;
    s->class_names = setting->class_names;
    return sr_confusion_create(setting->classes, &s->confusion);
}

static void release(void *state) {
    iou_state *s = state;
    sr_confusion_release(&s->confusion);
}

static sr_status check_size(const sr_array *mask, const sr_task_output *classes) {
    const int64_t *m = mask->shape, *c = classes->info.dim;
    if (m[1] == c[1] && m[2] == c[2])
        return SR_OK;
    return SR_FAIL(SR_E_INTERNAL, "a mask of %lld x %lld, but a result of %lld x %lld",
                   (long long)m[2], (long long)m[1], (long long)c[2], (long long)c[1]);
}

static bool has_class(const uint8_t *mask, int64_t pixels) {
    for (int64_t i = 0; i < pixels; i++)
        if (mask[i] != SR_MASK_IGNORE)
            return true;
    return false;
}

static sr_status add(void *state, const sr_metric_samples *samples, sr_text *bytes) {
    iou_state *s = state;
    const sr_slot *slot = samples->slot;
    const sr_task_output *classes, *mean;
    const sr_array *mask;
    iou_bytes kept = {0};
    SR_TRY(sr_task_outputs_get(samples->outputs, "classes", &classes));
    SR_TRY(sr_task_outputs_get(samples->outputs, "mean", &mean));
    SR_TRY(sr_slot_get(slot, "mask", &mask));
    SR_TRY(check_size(mask, classes));
    const int64_t pixels = mask->shape[1] * mask->shape[2];
    for (int64_t i = 0; i < slot->valid; i++) {
        const uint8_t *truth = (const uint8_t *)mask->data + i * pixels;
        if (!has_class(truth, pixels))
            continue;
        kept.samples++;
        if (!isfinite(((const float *)mean->data)[i])) {
            if (kept.not_finite++ == 0)
                kept.first_not_finite = slot->first_position + i;
            continue;
        }
        const sr_status status =
            sr_iou_add(&s->confusion, truth, (const uint8_t *)classes->data + i * pixels, pixels);
        if (status != SR_OK) {
            sr_error_prefix("sample %lld", (long long)slot->first_position + i);
            return status;
        }
    }
    sr_text_add_bytes(bytes, &kept, sizeof kept);
    return sr_text_check(bytes);
}

static int64_t *counts(void *state, size_t *count) {
    const iou_state *s = state;
    *count = (size_t)s->confusion.classes * (size_t)s->confusion.classes;
    return s->confusion.counts;
}

static sr_status result(void *state, const sr_metric_blocks *blocks, sr_metric_result *out) {
    const iou_state *s = state;
    for (int64_t b = 0; b < blocks->count; b++) {
        const iou_bytes *kept = blocks->data[b];
        for (size_t i = 0; i < blocks->bytes[b] / sizeof *kept; i++, kept++) {
            if (kept->not_finite > 0 && out->not_finite == 0)
                out->first_not_finite = kept->first_not_finite;
            out->samples += kept->samples;
            out->not_finite += kept->not_finite;
        }
    }
    sr_iou_values(&s->confusion, out->values);
    return SR_OK;
}

static void add_number(sr_text *text, double value) {
    if (isnan(value))
        sr_text_add(text, ",");
    else
        sr_text_add(text, ",%.6f", value);
}

// classes.csv: what is measured of each class; empty where it does not occur.
static sr_status write_classes(const iou_state *s, const char *folder) {
    char *path = sr_path_join(folder, "classes.csv");
    sr_text text;
    if (!path)
        return SR_E_MEMORY;
    sr_text_init(&text);
    sr_text_add(&text, "class,iou,accuracy,pixels\n");
    for (int k = 0; k < s->confusion.classes; k++) {
        if (s->class_names)
            sr_text_add_csv_cell(&text, s->class_names[k]);
        else
            sr_text_add(&text, "%d", k);
        add_number(&text, sr_iou_of(&s->confusion, k));
        add_number(&text, sr_iou_recall(&s->confusion, k));
        sr_text_add(&text, ",%" PRId64 "\n", pixels_of(&s->confusion, k).truth);
    }
    sr_status status = sr_text_check(&text);
    if (status == SR_OK)
        status = sr_file_write_atomic(path, text.data, text.length);
    sr_text_release(&text);
    sr_free(path);
    return status;
}

static sr_status write(const void *state, const char *folder) {
    const iou_state *s = state;
    SR_TRY(sr_confusion_write(&s->confusion, s->class_names, folder));
    return write_classes(s, folder);
}

static void draw(const void *state, sr_drawing *drawing, const char *folder) {
    const iou_state *s = state;
    if (s->confusion.classes <= MAX_DRAWN)
        sr_confusion_draw(&s->confusion, s->class_names, folder, drawing);
}

static const sr_column columns[SR_IOU_COLUMNS] = {
    [SR_IOU_MEAN] = {"mIoU", "mIoU", SR_UNIT_FRACTION, SR_BETTER_HIGHER},
    [SR_IOU_PIXELS] = {"aAcc", "pixel accuracy", SR_UNIT_FRACTION, SR_BETTER_HIGHER},
    [SR_IOU_CLASSES] = {"mAcc", "mean class accuracy", SR_UNIT_FRACTION, SR_BETTER_HIGHER},
};

const sr_metric_desc sr_metric_iou = {.struct_size = sizeof(sr_metric_desc),
                                      .abi = SR_METRIC_ABI,
                                      .name = "iou",
                                      .columns = columns,
                                      .column_count = SR_IOU_COLUMNS,
                                      .state_size = sizeof(iou_state),
                                      .begin = begin,
                                      .release = release,
                                      .add = add,
                                      .counts = counts,
                                      .result = result,
                                      .write = write,
                                      .draw = draw};
