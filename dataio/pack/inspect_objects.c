// SPDX-License-Identifier: Apache-2.0
// Statistics of records with boxes and masks (inspect.h), for serried stat.
//
// In a large split only evenly spaced records are read, as reading all would take as long as an
// epoch.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/image/mask_png.h"
#include "dataio/pack/inspect_internal.h"
#include "dataio/record/class_name.h"
#include "dataio/record/zstd_frame.h"
#include "kernels/base/memory.h"

#define RECORDS 20000 // read at most
#define SMALL 32.0    // sides that divide COCO's sizes
#define LARGE 96.0

typedef struct counting {
    sr_dataset *dataset;
    const char *const *names; // of the classes
    sr_split_stat *stat;
    void *sides; // float, of all boxes
    size_t capacity;
    sr_zstd zstd;
    void *ids;
    size_t id_capacity;
    uint64_t *around; // [classes]: pixels with a class of the pictures that have the class
} counting;

static sr_status count_box(counting *c, const sr_object *object) {
    sr_split_stat *stat = c->stat;
    const double width = object->xmax - object->xmin, height = object->ymax - object->ymin;
    const double side = width > 0 && height > 0 ? sqrt(width * height) : 0; // 0: also for NaN
    const int64_t class_number = sr_object_class(object, c->names, stat->class_count);
    SR_TRY(sr_grow(&c->sides, &c->capacity, (size_t)stat->boxes + 1, sizeof(float), "box sizes"));
    ((float *)c->sides)[stat->boxes++] = (float)side;
    stat->small += side < SMALL;
    stat->large += side >= LARGE;
    stat->difficult += object->difficult;
    if (class_number >= 0 && class_number < stat->class_count)
        stat->class_boxes[class_number]++;
    return SR_OK;
}

static sr_status count_boxes(counting *c, sr_detection *detection) {
    for (;;) {
        sr_object object;
        bool more;
        SR_TRY(sr_detection_next(detection, &object, &more));
        if (!more)
            return SR_OK;
        SR_TRY(count_box(c, &object));
    }
}

static sr_status count_pixels(counting *c, const sr_sample *sample) {
    if (sample->height < 1 || sample->width < 1 || sample->height > 1 << 20 ||
        sample->width > 1 << 20)
        return SR_FAIL(SR_E_DATA, "a mask of %lld x %lld", (long long)sample->width,
                       (long long)sample->height);
    const size_t pixels = (size_t)(sample->height * sample->width);
    SR_TRY(sr_grow(&c->ids, &c->id_capacity, pixels, 1, "mask"));
    SR_TRY(sr_zstd_expand(&c->zstd, sample->mask, sample->mask_bytes, c->ids, pixels));
    uint64_t counts[256] = {0};
    for (size_t i = 0; i < pixels; i++)
        counts[((const uint8_t *)c->ids)[i]]++;
    c->stat->pixels += pixels;
    c->stat->ignored += counts[SR_MASK_VOID];
    for (int i = 0; i < c->stat->class_count && i < SR_MASK_VOID; i++) {
        c->stat->class_pixels[i] += counts[i];
        c->stat->class_pictures[i] += counts[i] > 0;
        c->around[i] += counts[i] > 0 ? pixels - counts[SR_MASK_VOID] : 0;
    }
    return SR_OK;
}

static sr_status count_record(counting *c, int64_t index) {
    sr_sample picture;
    sr_detection objects;
    bool has_objects;
    SR_TRY(sr_inspect_read(c->dataset, index, &picture, &objects, &has_objects));
    if (has_objects)
        return count_boxes(c, &objects);
    return picture.mask ? count_pixels(c, &picture) : SR_OK;
}

static int by_size(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void find_quartiles(counting *c) {
    const size_t count = (size_t)c->stat->boxes;
    if (count == 0 || c->sides == NULL)
        return;
    qsort(c->sides, count, sizeof(float), by_size);
    for (size_t q = 0; q < 5; q++)
        c->stat->sides[q] = (double)((const float *)c->sides)[(count - 1) * q / 4];
}

static int by_frequency(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static sr_status find_weights(counting *c) {
    const size_t classes = (size_t)c->stat->class_count;
    size_t met = 0;
    double *sorted = sr_alloc_array(classes, sizeof *sorted, "class frequencies");
    if (sorted == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < classes; i++)
        if (c->around[i] > 0)
            sorted[met++] = (double)c->stat->class_pixels[i] / (double)c->around[i];
    if (met > 0)
        qsort(sorted, met, sizeof *sorted, by_frequency);
    const double median = met > 0 ? (sorted[(met - 1) / 2] + sorted[met / 2]) / 2 : 0;
    for (size_t i = 0; i < classes; i++)
        if (c->around[i] > 0)
            c->stat->class_weights[i] =
                median * (double)c->around[i] / (double)c->stat->class_pixels[i];
    sr_free(sorted);
    return SR_OK;
}

static sr_status make_counts(sr_split_stat *stat, uint64_t **around) {
    const size_t classes = (size_t)stat->class_count;
    stat->class_boxes = sr_alloc_array(classes, sizeof *stat->class_boxes, "class counts");
    stat->class_pixels = sr_alloc_array(classes, sizeof *stat->class_pixels, "class counts");
    stat->class_pictures = sr_alloc_array(classes, sizeof *stat->class_pictures, "class counts");
    stat->class_weights = sr_alloc_array(classes, sizeof *stat->class_weights, "class weights");
    *around = sr_alloc_array(classes, sizeof **around, "class counts");
    return stat->class_boxes && stat->class_pixels && stat->class_pictures && stat->class_weights &&
                   *around
               ? SR_OK
               : SR_E_MEMORY;
}

sr_status sr_inspect_objects(sr_dataset *dataset, sr_split_stat *stat) {
    const char *meta = sr_dataset_file(dataset, 0)->meta;
    stat->has_boxes = strstr(meta, "\"content\"") != NULL;
    stat->has_masks = !stat->has_boxes && strstr(meta, "\"mask\"") != NULL;
    if (!stat->has_boxes && !stat->has_masks)
        return SR_OK;
    counting c = {.dataset = dataset, .names = sr_dataset_file(dataset, 0)->classes, .stat = stat};
    const int64_t step = (stat->records + RECORDS - 1) / RECORDS;
    sr_status status = make_counts(stat, &c.around);
    for (int64_t i = 0; i < stat->records && status == SR_OK; i += step, stat->looked_at++) {
        status = count_record(&c, i);
        if (status != SR_OK) {
            char name[300];
            sr_error_prefix("%s", sr_dataset_sample_name(dataset, i, name));
        }
    }
    find_quartiles(&c);
    if (status == SR_OK && stat->has_masks)
        status = find_weights(&c);
    sr_zstd_release(&c.zstd);
    sr_free(c.sides);
    sr_free(c.ids);
    sr_free(c.around);
    return status;
}
