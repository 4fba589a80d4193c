// SPDX-License-Identifier: Apache-2.0
// Pictures and their masks as separate files, for the formats that have them.
//
// A rule says by its path whether a file is a picture or a mask, and gives each a key; a picture
// and a mask with the same key belong together. Refused by name: a picture without a mask and a
// mask without a picture (unless the rule leaves them out), and several files of one key. Pictures
// of a split without any mask are left out and counted.
#ifndef SR_DATAIO_MASK_PAIRS_H
#define SR_DATAIO_MASK_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/formats/format.h"
#include "dataio/formats/layout.h"
#include "dataio/formats/split_lists.h"
#include "dataio/image/mask_png.h"
#include "dataio/import/source.h"
#include "kernels/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sr_mask_side {
    SR_SIDE_PICTURE = 0,
    SR_SIDE_MASK,
    SR_SIDE_NONE, // neither: ignored
} sr_mask_side;

// What a path is. key: its last components are added to it.
typedef sr_mask_side (*sr_mask_side_fn)(const void *user, const char *path, sr_text *key);

typedef struct sr_mask_rule {
    sr_mask_side_fn side;
    const void *user;
    const sr_split_lists *lists; // of the splits; NULL or empty: folders are the splits
    bool some_lack_masks;        // pictures without masks are left out and counted, not refused
} sr_mask_rule;

// The files of a source by side.
typedef struct sr_mask_count {
    size_t pictures, masks; // keys with such files
    size_t pairs;           // keys with both
    const char *mask;       // path of the first mask, or NULL
} sr_mask_count;

SR_NODISCARD sr_status sr_mask_pairs_count(const sr_source *source, const sr_mask_rule *rule,
                                           sr_mask_count *out);
// Recognises a data set with such pairs, whose masks are PNGs. note: about its classes, or "".
SR_NODISCARD sr_status sr_mask_pairs_say(const sr_source *source, const sr_mask_rule *rule,
                                         const sr_mask_count *count, const char *note,
                                         sr_recognition *out);
// The kind of most masks among a few evenly spaced ones; NONE where most, or with 'all' some, are
// neither, or with 'all' where the kinds differ.
SR_NODISCARD sr_status sr_mask_pairs_kind(const sr_source *source, const sr_mask_rule *rule,
                                          bool all, sr_mask_kind *out);
// Begins the layout and fills it. SR_E_DATA where the masks have colours without a class map.
SR_NODISCARD sr_status sr_mask_pairs_lay_out(sr_source *source, const sr_mask_rule *rule,
                                             sr_layout *layout);

// A rule by names: pictures in one folder, masks in another, each with an end of its own, as
// leftImg8bit/a/x_leftImg8bit.png and gtFine/a/x_gtFine_labelIds.png. The key is what is between
// the folder and the end; files in neither folder, or with another end, are of neither side.
typedef struct sr_mask_folders {
    const char *pictures, *masks;
    const char *picture_end, *mask_end; // before the extension; "": none
} sr_mask_folders;

// A sr_mask_side_fn; user: const sr_mask_folders *.
sr_mask_side sr_mask_folders_side(const void *user, const char *path, sr_text *key);

#ifdef __cplusplus
}
#endif
#endif
