// SPDX-License-Identifier: Apache-2.0
// Names of folders that say whether they contain pictures or their masks, as images and masks do.
#ifndef SR_DATAIO_MASK_FOLDERS_H
#define SR_DATAIO_MASK_FOLDERS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sr_folder_kind {
    SR_FOLDER_ANY = 0,
    SR_FOLDER_PICTURES,
    SR_FOLDER_MASKS,
} sr_folder_kind;

// By a word of the name, which may have digits after it: masks, img_01, SegmentationClass.
sr_folder_kind sr_folder_kind_named(const char *name, size_t bytes);
// The length of the end of a mask's name that its picture's name does not have, as _mask or _L; 0:
// none.
size_t sr_mask_end_bytes(const char *name, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
