// SPDX-License-Identifier: Apache-2.0
// The splits of a data set, train, val and test, and the names that mean them.
//
// serried writes the names train, val and test. Folders, shards and lists of the user may use any
// name of one table: train, training; val, valid, validation, eval, evaluation; test, testing; and
// trainval, the union of train and val. Case does not matter, and digits may follow (val2017).
#ifndef SR_DATAIO_SPLIT_H
#define SR_DATAIO_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_SPLIT_TRAIN = 0, SR_SPLIT_VAL, SR_SPLIT_TEST, SR_SPLIT_COUNT };
// "train", "val", "test".
extern const char *const sr_split_names[SR_SPLIT_COUNT];
// The split that serried writes under exactly this name, or -1.
int sr_split_find(const char *name, size_t bytes);
// The split that the whole name means to a user, or -1; trainval is train.
int sr_split_named(const char *name, size_t bytes);
// The split that a word of the name means, as val in "imagenet-val-000012" and in "valImages".
// Words end at characters other than letters and digits and before capitals. -1 where no word means
// one, or several mean different ones; words for train and for val together are trainval.
int sr_split_word(const char *name, size_t bytes);
// Whether that split is trainval.
bool sr_split_is_union(const char *name, size_t bytes);
// Whether a word of a name that means no split begins like one, as in "valley" and "testset", or is
// used for one elsewhere, as "dev".
bool sr_split_resembles(const char *name, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
