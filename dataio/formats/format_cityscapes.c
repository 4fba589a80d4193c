// SPDX-License-Identifier: Apache-2.0
// Format: Cityscapes, leftImg8bit/SPLIT/CITY/NAME_leftImg8bit.png with its fine annotation
// gtFine/SPLIT/CITY/NAME_gtFine_labelTrainIds.png, or where no such files were made,
// NAME_gtFine_labelIds.png, whose 34 ids become the 19 train ids. The folders may be in different
// places. Colour pictures of masks, instance ids and polygons are ignored; pictures without a mask
// (train_extra) are left out.
//
// Source: the data set's own tools (cityscapesScripts, labels.py).
#include <stdio.h>

#include "dataio/formats/format.h"
#include "dataio/formats/mask_pairs.h"

static const sr_mask_folders train_ids = {.pictures = "leftImg8bit",
                                          .masks = "gtFine",
                                          .picture_end = "_leftImg8bit",
                                          .mask_end = "_gtFine_labelTrainIds"};
static const sr_mask_folders label_ids = {.pictures = "leftImg8bit",
                                          .masks = "gtFine",
                                          .picture_end = "_leftImg8bit",
                                          .mask_end = "_gtFine_labelIds"};

static sr_mask_rule rule_for(const sr_mask_folders *folders) {
    return (sr_mask_rule){.side = sr_mask_folders_side, .user = folders, .some_lack_masks = true};
}

// Train ids, unless more pictures have label ids.
static sr_status find_rule(const sr_source *source, sr_mask_rule *out, sr_mask_count *count) {
    sr_mask_count other;
    const sr_mask_rule labels = rule_for(&label_ids);
    *out = rule_for(&train_ids);
    SR_TRY(sr_mask_pairs_count(source, out, count));
    SR_TRY(sr_mask_pairs_count(source, &labels, &other));
    if (other.pairs > count->pairs) {
        *out = labels;
        *count = other;
    }
    return SR_OK;
}

static sr_status recognises(sr_source *source, sr_recognition *out) {
    sr_mask_rule rule;
    sr_mask_count count;
    SR_TRY(find_rule(source, &rule, &count));
    return sr_mask_pairs_say(source, &rule, &count,
                             rule.user == &label_ids ? " (34 label ids as 19 train ids)" : "", out);
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    sr_mask_rule rule;
    sr_mask_count count;
    SR_TRY(find_rule(source, &rule, &count));
    SR_TRY(sr_layout_use_class_map(out, rule.user == &label_ids ? "cityscapes"
                                                                : "cityscapes-train-ids"));
    return sr_mask_pairs_lay_out(source, &rule, out);
}

extern const sr_format sr_format_cityscapes;
const sr_format sr_format_cityscapes = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "cityscapes",
    .help = "Cityscapes, fine annotations of 19 classes",
    .recognises = recognises,
    .lay_out = lay_out,
};
