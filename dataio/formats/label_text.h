// SPDX-License-Identifier: Apache-2.0
// Labels that are given as texts, one per picture: numbers of classes, or their names.
#ifndef SR_DATAIO_LABEL_TEXT_H
#define SR_DATAIO_LABEL_TEXT_H

#include <stdbool.h>

#include "dataio/formats/layout.h"
#include "dataio/formats/name_table.h"

#ifdef __cplusplus
extern "C" {
#endif

// The labels of one source; zero-initialised is empty.
typedef struct sr_label_texts {
    sr_name_table texts;
    bool *in_train; // [texts.count]: a picture of train has it
} sr_label_texts;

void sr_label_texts_release(sr_label_texts *labels);
// Sets the split of a sample and, temporarily, the number of its text as its label.
SR_NODISCARD sr_status sr_label_texts_assign(sr_label_texts *labels, sr_layout *layout,
                                             sr_layout_file *file, int split, const char *text,
                                             size_t bytes);
// Turns the texts into classes: where all are whole numbers these are the class numbers, else the
// classes are the names of train in byte order. A sample with a class that train does not have is
// refused by name.
SR_NODISCARD sr_status sr_label_texts_settle(sr_label_texts *labels, sr_source *source,
                                             sr_layout *layout);

#ifdef __cplusplus
}
#endif
#endif
