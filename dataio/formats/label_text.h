// SPDX-License-Identifier: Apache-2.0
// Labels that are given as texts, one per picture: numbers of classes, or their names.
//
// Where all labels are whole numbers and at least half of those from 0 to the largest occur, they
// are the numbers of the classes. Other whole numbers, such as years, are names in the order of the
// numbers; everything else is names in byte order. 3.0, 3e+00 and +3 are the whole number 3, as
// tables of other programs write it. A blank label, a negative number and nan mean that a picture
// has no class.
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
// Sets the split of sample i and, temporarily, the number of its text as its label. Space around
// the text does not count. A picture without a class is refused by name.
SR_NODISCARD sr_status sr_label_texts_assign(sr_label_texts *labels, sr_source *source,
                                             sr_layout *layout, size_t i, int split,
                                             const char *text, size_t bytes);
// Turns the texts into classes; names are those of train. Texts that are names given by the user
// are these classes. A sample with a class that does not exist is refused by name. Warns where
// numbers, or words for an empty cell, are treated as names.
SR_NODISCARD sr_status sr_label_texts_settle(sr_label_texts *labels, sr_source *source,
                                             sr_layout *layout);

#ifdef __cplusplus
}
#endif
#endif
