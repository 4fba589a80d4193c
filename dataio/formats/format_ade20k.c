// SPDX-License-Identifier: Apache-2.0
// Format: ADE20K's scene parsing, images/{training,validation}/ADE_*.jpg and
// annotations/{training,validation}/ADE_*.png: 150 classes as values 1 to 150, and 0, which means
// no class. Source: the SceneParsing benchmark's description (ADEChallengeData2016).
#include <stdio.h>
#include <string.h>

#include "dataio/formats/format.h"
#include "dataio/formats/mask_pairs.h"

static const sr_mask_folders folders = {
    .pictures = "images", .masks = "annotations", .picture_end = "", .mask_end = ""};
static const sr_mask_rule rule = {.side = sr_mask_folders_side, .user = &folders};

static sr_status recognises(sr_source *source, sr_recognition *out) {
    sr_mask_count count;
    SR_TRY(sr_mask_pairs_count(source, &rule, &count));
    if (count.mask != NULL && strncmp(sr_path_name(count.mask), "ADE_", 4) == 0)
        SR_TRY(sr_mask_pairs_say(source, &rule, &count, " (150 classes; 0 is ignored)", out));
    return SR_OK;
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    SR_TRY(sr_layout_use_class_map(out, "ade20k"));
    return sr_mask_pairs_lay_out(source, &rule, out);
}

extern const sr_format sr_format_ade20k;
const sr_format sr_format_ade20k = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "ade20k",
    .help = "ADE20K, scene parsing with 150 classes",
    .recognises = recognises,
    .lay_out = lay_out,
};
