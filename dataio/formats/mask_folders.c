// SPDX-License-Identifier: Apache-2.0
// Words for folders of pictures and of masks, as data sets use them (mask_folders.h).
#include "dataio/formats/mask_folders.h"

#include <stdbool.h>
#include <string.h>

// Whether a word of the name, without digits after it, is one of the words in the text.
static bool has_word(const char *name, size_t bytes, const char *words) {
    for (size_t at = 0, n; at < bytes; at += n + 1) {
        char wanted[40] = " ";
        for (n = 0; at + n < bytes && strchr("_-. ", name[at + n]) == NULL;)
            n++;
        size_t letters = n;
        while (letters > 0 && name[at + letters - 1] >= '0' && name[at + letters - 1] <= '9')
            letters--;
        if (letters == 0 || letters + 3 > sizeof wanted)
            continue;
        memcpy(wanted + 1, name + at, letters);
        wanted[letters + 1] = ' ';
        if (strcasestr(words, wanted) != NULL)
            return true;
    }
    return false;
}

sr_folder_kind sr_folder_kind_named(const char *name, size_t bytes) {
    static const char pictures[] = " image images img imgs picture pictures photo photos input "
                                   "inputs rgb frames original originals JPEGImages leftImg8bit ";
    static const char masks[] =
        " mask masks label labels labelled labeled labelIds annotation annotations annot annots "
        "ann anns seg segs segmentation segmentations segmentationClass segmentationMask "
        "segmentationMasks semantic gt gts gtFine groundtruth truth target targets trimap trimaps ";
    if (has_word(name, bytes, masks))
        return SR_FOLDER_MASKS;
    return has_word(name, bytes, pictures) ? SR_FOLDER_PICTURES : SR_FOLDER_ANY;
}
