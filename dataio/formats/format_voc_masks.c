// SPDX-License-Identifier: Apache-2.0
// Format: Pascal VOC's segmentation, JPEGImages/NAME.jpg and SegmentationClass/NAME.png, whose
// palette indices are the classes and 255 means no class (the border of objects). Pictures with
// VOC's names (2007_000032, 000032) have its 21 classes, of which the first is background; in data
// sets of others in VOC's folders the values are the classes.
//
// The splits are those of {train,val,trainval,test}.txt in ImageSets/Segmentation (split_lists.h);
// pictures that they do not name are left out. Without lists, pictures without a mask are left out,
// and folders are the splits. Where there are boxes, too, these are packed unless the user chooses
// this format. SegmentationObject, the masks of single objects, is ignored.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dataio/formats/format.h"
#include "dataio/formats/mask_pairs.h"

extern const sr_format sr_format_voc;

static const sr_mask_folders folders = {
    .pictures = "JPEGImages", .masks = "SegmentationClass", .picture_end = "", .mask_end = ""};

static bool is_folder(const char *name, size_t bytes, const char *wanted) {
    return strlen(wanted) == bytes && strncasecmp(name, wanted, bytes) == 0;
}

// The split of a list in ImageSets/Segmentation, SR_LIST_TRAINVAL, or -1.
static int list_split(const char *path) {
    const char *name = sr_path_name(path), *folder;
    const size_t stem = sr_path_stem_bytes(path) - (size_t)(name - path);
    bool sets = false, segmentation = false;
    size_t bytes;
    for (int level = 0; sr_path_folder_at(path, level, &folder, &bytes); level++) {
        segmentation = sets && is_folder(folder, bytes, "Segmentation");
        sets = is_folder(folder, bytes, "ImageSets");
    }
    if (!segmentation || !sr_text_ends_with(path, ".txt"))
        return -1;
    return sr_split_is_union(name, stem) ? SR_LIST_TRAINVAL : sr_split_named(name, stem);
}

static bool wants(const char *path, const uint8_t *head, size_t head_bytes, uint64_t bytes) {
    (void)head, (void)head_bytes;
    return list_split(path) >= 0 && bytes <= SR_LIST_MAX_BYTES;
}

// Whether a name is one of VOC's: six digits, in later years after the year and '_'.
static bool is_of_voc(const char *path) {
    const char *name = sr_path_name(path);
    const size_t stem = sr_path_stem_bytes(path) - (size_t)(name - path);
    if (strspn(name, "0123456789") == 6)
        return stem == 6;
    return stem == 11 && strspn(name, "0123456789") == 4 && name[4] == '_' &&
           strspn(name + 5, "0123456789") == 6;
}

static sr_status recognises(sr_source *source, sr_recognition *out) {
    const sr_mask_rule rule = {.side = sr_mask_folders_side, .user = &folders};
    sr_mask_count count;
    sr_recognition boxes = {0};
    SR_TRY(sr_mask_pairs_count(source, &rule, &count));
    if (count.pairs == 0)
        return SR_OK;
    SR_TRY(sr_mask_pairs_say(source, &rule, &count,
                             is_of_voc(count.mask) ? " (background and 20 classes)" : "", out));
    SR_TRY(sr_format_voc.recognises(source, &boxes));
    if (out->certainty != SR_FORMAT_NO && boxes.certainty != SR_FORMAT_NO)
        out->certainty = SR_FORMAT_POSSIBLE;
    return SR_OK;
}

static sr_status read_lists(sr_source *source, sr_layout *layout, sr_split_lists *lists) {
    for (size_t i = 0; i < source->wanted.count; i++) {
        const int split = list_split(source->wanted.items[i].path);
        if (split >= 0)
            SR_TRY(sr_split_lists_read(lists, source, &source->wanted.items[i], split,
                                       &layout->arena));
    }
    sr_split_lists_settle(lists);
    return SR_OK;
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    sr_split_lists lists = {0};
    const sr_mask_rule rule = {
        .side = sr_mask_folders_side, .user = &folders, .lists = &lists, .some_lack_masks = true};
    sr_mask_count count;
    SR_TRY(sr_mask_pairs_count(source, &rule, &count));
    if (is_of_voc(count.mask))
        SR_TRY(sr_layout_use_class_map(out, "voc"));
    sr_status status = read_lists(source, out, &lists);
    if (status == SR_OK)
        status = sr_mask_pairs_lay_out(source, &rule, out);
    sr_split_lists_release(&lists);
    return status;
}

extern const sr_format sr_format_voc_masks;
const sr_format sr_format_voc_masks = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "voc-masks",
    .help = "Pascal VOC, a mask of classes for each picture",
    .wants = wants,
    .recognises = recognises,
    .lay_out = lay_out,
};
