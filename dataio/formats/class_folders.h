// SPDX-License-Identifier: Apache-2.0
// Folders of classes in a source, CLASS/picture or SPLIT/CLASS/picture: where they are.
#ifndef SR_DATAIO_CLASS_FOLDERS_H
#define SR_DATAIO_CLASS_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>

#include "dataio/formats/few_names.h"
#include "dataio/import/source.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Leading folders that all pictures share are skipped. The next level contains either the splits,
// with the classes below, or the classes themselves; everything deeper belongs to the class.
typedef struct sr_class_folders {
    int level;           // of the splits or, without splits, of the classes; 0: the first folder
    bool has_splits;     // pictures in other folders of that level are in no split
    bool mixed;          // trainval is beside train or val
    bool unclear;        // names beside train resemble splits, and their folders those of train
    sr_few_names doubts; // these names
    sr_few_names names;  // classes of one split
    sr_few_names splits; // folders of splits
} sr_class_folders;

SR_NODISCARD sr_status sr_class_folders_find(const sr_source *source, sr_class_folders *out);
// The split of a path: train where there are none, -1 where its folder is no split.
int sr_class_folders_split(const sr_class_folders *folders, const char *path);
// The class folder of a path; false where it has none.
bool sr_class_folders_class(const sr_class_folders *folders, const char *path, const char **name,
                            size_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
