// SPDX-License-Identifier: Apache-2.0
// Format: pictures without classes, as a generative model learns from: no picture is in a class
// folder (class_folders.h). Splits are folders (folder_splits.h); without any everything is train.
#include <stdio.h>

#include "dataio/formats/class_folders.h"
#include "dataio/formats/folder_splits.h"
#include "dataio/formats/format.h"

static sr_status recognises(sr_source *source, sr_recognition *out) {
    sr_class_folders folders;
    const char *name;
    size_t bytes;
    SR_TRY(sr_class_folders_find(source, &folders));
    bool classless = source->files.count > 0 && !folders.mixed && !folders.unclear;
    for (size_t i = 0; i < source->files.count && classless; i++)
        classless = !sr_class_folders_class(&folders, source->files.items[i].path, &name, &bytes);
    out->certainty = classless ? SR_FORMAT_YES : SR_FORMAT_NO;
    (void)snprintf(out->why, sizeof out->why, "%zu, none of them in a class folder",
                   source->files.count);
    return SR_OK;
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    sr_folder_splits splits;
    if (out->names_given) {
        return SR_FAIL(
            SR_E_DATA,
            "%s: no picture is in a class folder, so --classes names none: leave it out, "
            "or write a list of the pictures and their classes (--list)",
            source->path);
    }
    SR_TRY(sr_layout_begin(out, source));
    SR_TRY(sr_folder_splits_find(source, &splits));
    for (size_t i = 0; i < source->files.count; i++)
        out->files[i].split = (int8_t)sr_folder_splits_or_train(&splits, &source->files.items[i]);
    return SR_OK;
}

extern const sr_format sr_format_pictures;
const sr_format sr_format_pictures = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "pictures",
    .help = "pictures without classes",
    .recognises = recognises,
    .lay_out = lay_out,
};
