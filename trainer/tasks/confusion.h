// SPDX-License-Identifier: Apache-2.0
// The confusion matrix of an evaluation: how often each class was taken for each.
#ifndef SR_TRAINER_CONFUSION_H
#define SR_TRAINER_CONFUSION_H

#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Counts of [truth][prediction]. They add exactly in any order.
typedef struct sr_confusion {
    int classes;
    int64_t *counts; // classes * classes
} sr_confusion;

// All counts zero. SR_E_MEMORY.
SR_NODISCARD sr_status sr_confusion_create(int classes, sr_confusion *out);
// Frees the memory.
void sr_confusion_release(sr_confusion *confusion);
// Writes rows of truth,predicted,count for all non-zero cells, with class names (NULL: numbers).
SR_NODISCARD sr_status sr_confusion_write_csv(const sr_confusion *confusion,
                                              const char *const *classes, const char *path);

// Writes FOLDER/confusion.csv.
SR_NODISCARD sr_status sr_confusion_write(const sr_confusion *confusion, const char *const *classes,
                                          const char *folder);

#ifdef __cplusplus
}
#endif
#endif
