// SPDX-License-Identifier: Apache-2.0
// The splits of a data set: train, val and test.
#ifndef SR_DATAIO_SPLIT_H
#define SR_DATAIO_SPLIT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_SPLIT_TRAIN = 0, SR_SPLIT_VAL, SR_SPLIT_TEST, SR_SPLIT_COUNT };
// "train", "val", "test".
extern const char *const sr_split_names[SR_SPLIT_COUNT];
// The split of this name, or -1.
int sr_split_find(const char *name, size_t bytes);
// The split whose name begins a word of 'name', as val in "imagenet-val-000012"; -1 where none
// does.
int sr_split_word(const char *name, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
