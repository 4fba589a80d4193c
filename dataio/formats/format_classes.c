// SPDX-License-Identifier: Apache-2.0
// Format: folders of classes (class_folders.h), and everything that no other format accepts.
//
// Classes are sorted by the bytes of their names; all splits use the list of train where it exists,
// and a class that only another split has is an error. Where the folders contain splits, pictures
// in other folders are refused. A class folder without a picture is no class.
// Names that might mean something else are reported (class_doubts.h).
#include <stdio.h>
#include <string.h>

#include "dataio/formats/class_doubts.h"
#include "dataio/formats/class_folders.h"
#include "dataio/formats/format.h"

// -- classes -----------------------------------------------------------------------------------

// Class names of the split that defines them.
static sr_status collect_classes(const sr_source *source, const sr_class_folders *folders,
                                 int split, sr_layout *out) {
    sr_name_list list = {0};
    sr_status status = SR_OK;
    for (size_t i = 0; i < source->files.count && status == SR_OK; i++) {
        const char *path = source->files.items[i].path, *name;
        size_t bytes;
        if (sr_class_folders_split(folders, path) == split &&
            sr_class_folders_class(folders, path, &name, &bytes))
            status = sr_name_list_add(&list, &out->arena, name, bytes);
    }
    sr_status set = sr_layout_set_classes(out, &list);
    return status != SR_OK ? status : set;
}

// -- files -------------------------------------------------------------------------------------

static sr_status assign(sr_source *source, const sr_class_folders *folders, size_t i,
                        sr_layout *out) {
    const char *path = source->files.items[i].path, *name;
    size_t bytes;
    const int split = sr_class_folders_split(folders, path);
    if (split < 0)
        return sr_source_refuse(source, path, "is outside train, val and test");
    if (!sr_class_folders_class(folders, path, &name, &bytes)) {
        out->unlabelled += split == SR_SPLIT_TEST;
        return split == SR_SPLIT_TEST ? SR_OK
                                      : sr_source_refuse(source, path, "is not in a class folder");
    }
    const int label = sr_layout_find_class(out, name, bytes);
    if (label < 0) {
        return SR_FAIL(
            SR_E_DATA, "%s: class '%.*s' of %s is not among the %d %s (%s); rename or remove it",
            source->path, bytes > 200 ? 200 : (int)bytes, name, sr_split_names[split],
            out->class_count, out->names_given ? "names of --classes" : "classes of train", path);
    }
    out->files[i].label = label;
    out->files[i].split = (int8_t)split;
    return SR_OK;
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    sr_class_folders folders;
    if (source->files.count == 0) {
        return SR_FAIL(SR_E_DATA,
                       "%s: no picture (JPEG or PNG) found; other files: %llu, refused: %zu"
                       "%s%s%s%s",
                       source->path,
                       (unsigned long long)(source->other + source->hidden + source->wanted.count),
                       source->refused_count, source->refused_count ? ", the first: " : "",
                       source->refused_count ? source->refused[0].path : "",
                       source->refused_count ? ": " : "",
                       source->refused_count ? source->refused[0].reason : "");
    }
    SR_TRY(sr_layout_begin(out, source));
    SR_TRY(sr_class_folders_find(source, &folders));
    if (folders.mixed) {
        return SR_FAIL(SR_E_DATA,
                       "%s: there is a trainval folder beside train or val; as trainval repeats "
                       "both, keep one or the other",
                       source->path);
    }
    if (folders.unclear) {
        return SR_FAIL(SR_E_DATA,
                       "%s: beside train there is %s: is it a split? Rename it to val or test; for "
                       "classes of these names, write a list (--list)",
                       source->path, folders.doubts.text);
    }
    for (int split = 0; split < SR_SPLIT_COUNT && out->class_count == 0; split++)
        SR_TRY(collect_classes(source, &folders, split, out));
    if (out->class_count == 0) {
        return SR_FAIL(SR_E_DATA,
                       "%s: the pictures are not in class folders; expected CLASS/picture or "
                       "{train,val}/CLASS/picture, or a list of the pictures and their classes "
                       "(--list)",
                       source->path);
    }
    SR_TRY(sr_class_doubts_tell(source, &folders, out));
    for (size_t i = 0; i < source->files.count; i++)
        SR_TRY(assign(source, &folders, i, out));
    return SR_OK;
}

static sr_status recognises(sr_source *source, sr_recognition *out) {
    sr_class_folders folders;
    SR_TRY(sr_class_folders_find(source, &folders));
    out->certainty = SR_FORMAT_YES;
    if (folders.names.count == 0)
        (void)snprintf(out->why, sizeof out->why, "nothing else, and no folder of pictures");
    else
        (void)snprintf(out->why, sizeof out->why, "%zu folder%s of pictures, %s%s%s",
                       folders.names.count, folders.names.count == 1 ? "" : "s", folders.names.text,
                       folders.has_splits ? "; splits " : "", folders.splits.text);
    return SR_OK;
}

extern const sr_format sr_format_classes;
const sr_format sr_format_classes = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "classes",
    .help = "class folders",
    .recognises = recognises,
    .lay_out = lay_out,
};
