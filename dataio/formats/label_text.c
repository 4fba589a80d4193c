// SPDX-License-Identifier: Apache-2.0
// Labels given as texts become classes (label_text.h).
#include "dataio/formats/label_text.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CLASSES 1000000 // limit of labels that are numbers

void sr_label_texts_release(sr_label_texts *labels) {
    sr_name_table_release(&labels->texts);
    sr_free(labels->in_train);
    *labels = (sr_label_texts){0};
}

sr_status sr_label_texts_assign(sr_label_texts *labels, sr_layout *layout, sr_layout_file *file,
                                int split, const char *text, size_t bytes) {
    uint32_t number;
    const size_t before = labels->texts.count;
    SR_TRY(sr_name_table_get(&labels->texts, &layout->arena, text, bytes, &number));
    if (labels->texts.count > before) {
        bool *grown = sr_realloc(labels->in_train, before * sizeof *grown,
                                 labels->texts.count * sizeof *grown, "classes");
        if (grown == NULL)
            return SR_E_MEMORY;
        labels->in_train = grown;
    }
    labels->in_train[number] = labels->in_train[number] || split == SR_SPLIT_TRAIN;
    file->split = (int8_t)split;
    file->label = (int32_t)number;
    return SR_OK;
}

// The whole number below MAX_CLASSES that the text is, or -1.
static int32_t number_of(const char *text) {
    char *end;
    if (*text < '0' || *text > '9')
        return -1;
    const long value = strtol(text, &end, 10);
    return *end == '\0' && value < MAX_CLASSES ? (int32_t)value : -1;
}

static bool all_numbers(const sr_label_texts *labels, int64_t *count) {
    *count = 0;
    for (uint32_t i = 0; i < labels->texts.count; i++) {
        const int32_t number = number_of(sr_name_table_name(&labels->texts, i));
        if (number < 0)
            return false;
        *count = number >= *count ? number + 1 : *count;
    }
    return true;
}

static sr_status name_classes(const sr_label_texts *labels, sr_layout *layout) {
    sr_name_list list = {0};
    sr_status status = SR_OK;
    bool any_train = false;
    for (uint32_t i = 0; i < labels->texts.count; i++)
        any_train = any_train || labels->in_train[i];
    for (uint32_t i = 0; i < labels->texts.count && status == SR_OK; i++) {
        const char *name = sr_name_table_name(&labels->texts, i);
        if (labels->in_train[i] || !any_train)
            status = sr_name_list_add(&list, &layout->arena, name, strlen(name));
    }
    const sr_status set = sr_layout_set_classes(layout, &list);
    return status != SR_OK ? status : set;
}

sr_status sr_label_texts_settle(sr_label_texts *labels, sr_source *source, sr_layout *layout) {
    int64_t count;
    const bool numbers = all_numbers(labels, &count);
    if (numbers)
        SR_TRY(sr_layout_number_classes(layout, count));
    else if (!layout->names_given)
        SR_TRY(name_classes(labels, layout));
    for (size_t i = 0; i < layout->count; i++) {
        sr_layout_file *file = &layout->files[i];
        if (file->split < 0)
            continue;
        const char *text = sr_name_table_name(&labels->texts, (uint32_t)file->label);
        file->label = numbers ? number_of(text) : sr_layout_find_class(layout, text, strlen(text));
        if (file->label >= 0)
            continue;
        file->label = 0;
        file->split = -1;
        SR_TRY(sr_source_refuse_for(source, source->files.items[i].path,
                                    "class '%.100s' is not one of the %d classes", text,
                                    layout->class_count));
    }
    return SR_OK;
}
