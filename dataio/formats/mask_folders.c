// SPDX-License-Identifier: Apache-2.0
// Words for folders of pictures and of masks, as data sets use them (mask_folders.h).
#include "dataio/formats/mask_folders.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

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
    static const char pictures[] =
        " image images img imgs picture pictures photo photos input "
        "inputs rgb frames original originals JPEGImages leftImg8bit StillsRaw ";
    static const char masks[] =
        " mask masks label labels labelled labeled labelIds annotation annotations annot annots "
        "ann anns seg segs segmentation segmentations segmentationClass segmentationMask "
        "segmentationMasks semantic gt gts gtFine groundtruth truth target targets trimap trimaps "
        "LabeledApproved ";
    if (has_word(name, bytes, masks))
        return SR_FOLDER_MASKS;
    return has_word(name, bytes, pictures) ? SR_FOLDER_PICTURES : SR_FOLDER_ANY;
}

size_t sr_mask_end_bytes(const char *name, size_t bytes) {
    static const char *const ends[] = {"L",     "mask",  "label", "labels",       "labelIds",
                                       "gt",    "seg",   "annot", "segmentation", "annotation",
                                       "masks", "trimap"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t n = strlen(ends[i]);
        if (bytes > n + 1 && strchr("_-", name[bytes - n - 1]) != NULL &&
            strncasecmp(name + bytes - n, ends[i], n) == 0)
            return n + 1;
    }
    return 0;
}
