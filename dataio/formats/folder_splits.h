// SPDX-License-Identifier: Apache-2.0
// The splits that the folders and archives of a source mean (dataio/record/split.h), for formats
// that have no other statement of them.
//
// The deepest folder whose whole name means a split decides; failing that, the deepest folder or
// archive with a word that does, as in "imagenet-val-000012.tar". Words of folders count only where
// every picture is in a folder of a split, since "test_tube" may be a class; words of the folders
// that all files share never count.
#ifndef SR_DATAIO_FOLDER_SPLITS_H
#define SR_DATAIO_FOLDER_SPLITS_H

#include <stdbool.h>

#include "dataio/formats/few_names.h"
#include "dataio/import/source.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Borrows the source.
typedef struct sr_folder_splits {
    const sr_source *source;
    bool any;   // some picture is in a folder of a split
    bool words; // words of folders count
} sr_folder_splits;

// Looks at all pictures, and warns of folders that resemble splits and are not treated as such.
// SR_E_DATA where trainval is beside train or val, which it repeats.
SR_NODISCARD sr_status sr_folder_splits_find(const sr_source *source, sr_folder_splits *out);
// The split of a file, or -1 where no folder gives one.
int sr_folder_splits_of(const sr_folder_splits *splits, const sr_source_file *file);
// The same, where pictures in no such folder are of train.
int sr_folder_splits_or_train(const sr_folder_splits *splits, const sr_source_file *file);
// Warns of names that were not treated as splits, if there are any. as: how they were taken.
void sr_folder_splits_doubt(const sr_source *source, const sr_few_names *names, const char *as);

#ifdef __cplusplus
}
#endif
#endif
