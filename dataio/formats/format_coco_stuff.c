// SPDX-License-Identifier: Apache-2.0
// Format: COCO-Stuff, masks stuffthingmaps/train2017/NAME.png of pictures train2017/NAME.jpg in any
// place: 171 classes of things and stuff among the values 0 to 181. Where COCO's JSON is there,
// too, its boxes are packed unless the user chooses this format. Pictures without a mask are left
// out.
//
// Source: github.com/nightrome/cocostuff.
#include <string.h>

#include "dataio/formats/format.h"
#include "dataio/formats/mask_pairs.h"

extern const sr_format sr_format_coco;

// The key is the last folder and the name.
static sr_mask_side side_of(const void *user, const char *path, sr_text *key) {
    static const char maps[] = "stuffthingmaps";
    const char *folder, *last = path;
    size_t bytes;
    bool is_mask = false;
    (void)user;
    for (int level = 0; sr_path_folder_at(path, level, &folder, &bytes); level++) {
        is_mask = is_mask || (bytes == sizeof maps - 1 && memcmp(folder, maps, bytes) == 0);
        last = folder;
    }
    sr_text_add_bytes(key, last, sr_path_stem_bytes(path) - (size_t)(last - path));
    return is_mask ? SR_SIDE_MASK : SR_SIDE_PICTURE;
}

static const sr_mask_rule rule = {.side = side_of, .some_lack_masks = true};

static sr_status recognises(sr_source *source, sr_recognition *out) {
    sr_mask_count count;
    sr_recognition boxes = {0};
    SR_TRY(sr_mask_pairs_count(source, &rule, &count));
    if (count.pairs == 0)
        return SR_OK;
    SR_TRY(sr_mask_pairs_say(source, &rule, &count, " (171 classes)", out));
    SR_TRY(sr_format_coco.recognises(source, &boxes));
    if (out->certainty != SR_FORMAT_NO && boxes.certainty != SR_FORMAT_NO)
        out->certainty = SR_FORMAT_POSSIBLE;
    return SR_OK;
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    SR_TRY(sr_layout_use_class_map(out, "coco-stuff"));
    return sr_mask_pairs_lay_out(source, &rule, out);
}

extern const sr_format sr_format_coco_stuff;
const sr_format sr_format_coco_stuff = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "coco-stuff",
    .help = "COCO-Stuff, masks of things and stuff",
    .recognises = recognises,
    .lay_out = lay_out,
};
