// SPDX-License-Identifier: Apache-2.0
// Format: the binary version of CIFAR-10 and CIFAR-100: records of one label byte (CIFAR-100: the
// coarse and the fine label, of which the fine one is the class) and 32 x 32 pixels in planes of R,
// G and B.
//
// A file is detected by its length and by the labels of all its records. The split is that of a
// word of its name (test_batch.bin) or else of its folders, or train. Class names are read from
// batches.meta.txt or fine_label_names.txt in the same source. A .bin file that is neither is
// refused by name. Source: https://www.cs.toronto.edu/~kriz/cifar.html
#include <stdio.h>
#include <string.h>

#include "dataio/formats/folder_splits.h"
#include "dataio/formats/format.h"
#include "kernels/base/text.h"

#define SIDE 32
#define PIXELS (3 * SIDE * SIDE)

typedef struct variant {
    const char *names_file;
    size_t labels; // bytes before the pixels; the last is the class
    int classes, coarse;
} variant;

static const variant variants[] = {{"batches.meta.txt", 1, 10, 0},
                                   {"fine_label_names.txt", 2, 100, 20}};

#define VARIANTS (sizeof variants / sizeof *variants)

static bool fits_head(const variant *v, const uint8_t *head, size_t head_bytes, uint64_t bytes) {
    return bytes > 0 && bytes % (v->labels + PIXELS) == 0 && head_bytes >= v->labels &&
           head[v->labels - 1] < v->classes && (v->coarse == 0 || head[0] < v->coarse);
}

static bool wants(const char *path, const uint8_t *head, size_t head_bytes, uint64_t bytes) {
    bool fits = sr_text_ends_with(path, ".bin");
    for (size_t i = 0; i < VARIANTS; i++)
        fits = fits || fits_head(&variants[i], head, head_bytes, bytes) ||
               sr_path_ends_with(path, variants[i].names_file);
    return fits;
}

// Calls take(user, i, class) for every record; *fits is false when a label is not a class.
static sr_status each_label(const sr_source *source, const sr_source_file *batch, const variant *v,
                            sr_status (*take)(void *user, uint64_t record, int label), void *user,
                            bool *fits) {
    const uint64_t size = v->labels + PIXELS, count = batch->bytes / size;
    *fits = count > 0 && batch->bytes % size == 0;
    for (uint64_t i = 0; i < count && *fits; i++) {
        uint8_t labels[2] = {0, 0};
        SR_TRY(sr_source_read_part(source, batch, i * size, labels, v->labels));
        const int label = labels[v->labels - 1];
        *fits = label < v->classes && (v->coarse == 0 || labels[0] < v->coarse);
        if (*fits && take != NULL)
            SR_TRY(take(user, i, label));
    }
    return SR_OK;
}

static sr_status find_variant(const sr_source *source, const sr_source_file *batch,
                              const variant **out) {
    *out = NULL;
    for (size_t i = 0; i < VARIANTS && *out == NULL; i++) {
        bool fits;
        SR_TRY(each_label(source, batch, &variants[i], NULL, NULL, &fits));
        if (fits)
            *out = &variants[i];
    }
    return SR_OK;
}

static sr_status recognises(sr_source *source, sr_recognition *out) {
    const variant *v = NULL;
    for (size_t i = 0; i < source->wanted.count && source->files.count == 0 && v == NULL; i++) {
        SR_TRY(find_variant(source, &source->wanted.items[i], &v));
        (void)snprintf(out->why, sizeof out->why, "records of CIFAR in %s",
                       source->wanted.items[i].path);
    }
    out->certainty = v != NULL ? SR_FORMAT_YES : SR_FORMAT_NO;
    return SR_OK;
}

// -- laying out --------------------------------------------------------------------------------

typedef struct cifar_adding {
    sr_source *source;
    const sr_source_file *batch;
    const variant *variant;
    int backing;
    void *labels; // uint8_t, of all records so far
    size_t count, capacity;
} cifar_adding;

static sr_status add_record(void *user, uint64_t record, int label) {
    cifar_adding *a = user;
    char path[4200];
    const uint64_t size = a->variant->labels + PIXELS;
    (void)snprintf(path, sizeof path, "%s#%05llu", a->batch->path, (unsigned long long)record);
    SR_TRY(sr_grow(&a->labels, &a->capacity, a->count + 1, 1, "labels"));
    ((uint8_t *)a->labels)[a->count++] = (uint8_t)label;
    return sr_source_add(
        a->source,
        &(sr_source_file){.path = path,
                          .bytes = PIXELS,
                          .offset = a->batch->offset + record * size + a->variant->labels,
                          .in = a->backing},
        SR_OFFER_PICTURE);
}

static sr_status add_batch(cifar_adding *a, const sr_source_file *batch, const variant **all) {
    const variant *v;
    bool fits;
    SR_TRY(find_variant(a->source, batch, &v));
    if (v == NULL || (*all != NULL && v != *all)) {
        if (!sr_text_ends_with(batch->path, ".bin"))
            return SR_OK;
        a->source->wanted_refused++;
        return sr_source_refuse(a->source, batch->path,
                                v ? "CIFAR-10 and CIFAR-100 cannot be packed into one data set"
                                  : "not a whole number of CIFAR records with valid labels");
    }
    *all = v;
    a->batch = batch;
    a->variant = v;
    a->source->read++;
    SR_TRY(sr_source_backing_of(a->source, batch, &a->backing));
    return each_label(a->source, batch, v, add_record, a, &fits);
}

static int split_of(const sr_folder_splits *splits, const sr_source_file *file) {
    const char *name = sr_path_name(file->path);
    const int split = sr_split_word(name, strcspn(name, "#"));
    return split >= 0 ? split : sr_folder_splits_or_train(splits, file);
}

// Names of the classes, where a file of names has as many as there are classes.
static sr_status find_names(sr_source *source, const variant *v, sr_layout *out) {
    void *text = NULL;
    size_t capacity = 0;
    sr_status status = SR_OK;
    for (size_t i = 0; i < source->wanted.count && out->class_count == 0 && status == SR_OK; i++) {
        const sr_source_file *batch = &source->wanted.items[i];
        if (!sr_path_ends_with(batch->path, v->names_file) || batch->bytes > 1 << 16)
            continue;
        status = sr_source_read(source, batch, &text, &capacity);
        if (status == SR_OK)
            status = sr_layout_name_classes(out, text, v->classes);
        source->read += status == SR_OK && out->class_count > 0;
    }
    sr_free(text);
    SR_TRY(status);
    return sr_layout_number_classes(out, v->classes);
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    cifar_adding a = {.source = source};
    const variant *v = NULL;
    sr_folder_splits splits = {0};
    sr_status status = SR_OK;
    for (size_t i = 0; i < source->wanted.count && status == SR_OK; i++)
        status = add_batch(&a, &source->wanted.items[i], &v);
    if (status == SR_OK)
        status = sr_layout_begin(out, source);
    if (status == SR_OK)
        status = sr_folder_splits_find(source, &splits);
    const uint8_t *labels = a.labels;
    for (size_t i = 0; status == SR_OK && labels != NULL && i < out->count; i++) {
        out->files[i].label = labels[i];
        out->files[i].split = (int8_t)split_of(&splits, &source->files.items[i]);
    }
    sr_free(a.labels);
    SR_TRY(status);
    if (v == NULL) // nothing was recognised after all: the caller reports it
        return SR_OK;
    out->pixels = (sr_layout_pixels){.height = SIDE, .width = SIDE, .channels = 3, .planes = true};
    return find_names(source, v, out);
}

extern const sr_format sr_format_cifar;
const sr_format sr_format_cifar = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "cifar",
    .help = "CIFAR-10 or CIFAR-100 in their binary version",
    .wants = wants,
    .recognises = recognises,
    .lay_out = lay_out,
};
