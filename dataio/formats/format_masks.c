// SPDX-License-Identifier: Apache-2.0
// Format: pictures and masks in two parallel trees, as images/train/0001.jpg and
// masks/train/0001.png. One folder level has exactly two names, or several that all tell pictures
// from masks, as train_images and val_masks, and one side has only PNGs with an id for each pixel,
// most of which have a picture with the same path (except for that folder and the extension) on the
// other. Names of masks may end in _mask, _L or the like. Grey photographs are such PNGs, too, and
// two folders may be two classes: so their names must say it, as images and masks do, unless the
// user chooses the format. Masks with colours are taken by the names of the folders only.
//
// What is refused and left out: mask_pairs.h. Splits are folders (folder_splits.h); without any
// everything is train. 255 means no class.
#include <stdio.h>
#include <string.h>

#include "dataio/formats/format.h"
#include "dataio/formats/mask_folders.h"
#include "dataio/formats/mask_pairs.h"
#include "dataio/record/split.h"

#define MAX_LEVELS 64

// The two folder names at a level of the pictures' paths; masks: the one with the masks. With
// several of each, as train_images, train_masks, val_images and val_masks, the names say which is
// which, and names[] has the first ones.
typedef struct pairing {
    int level;
    bool several, ends;   // ends: masks' names have an end of their own
    const char *names[2]; // not terminated
    size_t bytes[2];
    int masks;
    sr_mask_kind kind;
} pairing;

// Whether all pictures have one of exactly two names at this level.
static bool has_two_names(const sr_source *source, int level, pairing *out) {
    pairing p = {.level = level};
    int count = 0;
    for (size_t i = 0; i < source->files.count; i++) {
        const char *name;
        size_t bytes;
        if (!sr_path_folder_at(source->files.items[i].path, level, &name, &bytes))
            return false;
        int side = 0;
        while (side < count && (p.bytes[side] != bytes || memcmp(p.names[side], name, bytes) != 0))
            side++;
        if (side == 2)
            return false;
        if (side == count) {
            p.names[count] = name;
            p.bytes[count++] = bytes;
        }
    }
    *out = p;
    return count == 2;
}

// Whether all pictures have a name that says what is there, and both kinds occur.
static bool has_named_kinds(const sr_source *source, int level, pairing *out) {
    pairing p = {.level = level, .several = true, .masks = 1};
    for (size_t i = 0; i < source->files.count; i++) {
        const char *name;
        size_t bytes;
        if (!sr_path_folder_at(source->files.items[i].path, level, &name, &bytes))
            return false;
        const sr_folder_kind kind = sr_folder_kind_named(name, bytes);
        if (kind == SR_FOLDER_ANY)
            return false;
        const int side = kind == SR_FOLDER_MASKS;
        if (p.names[side] == NULL) {
            p.names[side] = name;
            p.bytes[side] = bytes;
        }
    }
    *out = p;
    return p.names[0] != NULL && p.names[1] != NULL;
}

// Whether the names of the two folders say that one has pictures and the other their masks.
static bool is_named(const pairing *p) {
    const int m = p->masks;
    return sr_folder_kind_named(p->names[m], p->bytes[m]) == SR_FOLDER_MASKS &&
           sr_folder_kind_named(p->names[!m], p->bytes[!m]) == SR_FOLDER_PICTURES;
}

static bool is_mask(const pairing *p, const char *name, size_t bytes) {
    if (p->several)
        return sr_folder_kind_named(name, bytes) == SR_FOLDER_MASKS;
    return p->bytes[p->masks] == bytes && memcmp(p->names[p->masks], name, bytes) == 0;
}

// The key is the path without the folder and the extension; of train_images the split remains.
static sr_mask_side side_of(const void *user, const char *path, sr_text *key) {
    const pairing *p = user;
    const char *name;
    size_t bytes;
    if (!sr_path_folder_at(path, p->level, &name, &bytes))
        return SR_SIDE_NONE;
    const bool mask = is_mask(p, name, bytes);
    const char *rest = name + bytes;
    size_t stem = sr_path_stem_bytes(path);
    if (mask && p->ends)
        stem -= sr_mask_end_bytes(sr_path_name(path), stem - (size_t)(sr_path_name(path) - path));
    sr_text_add_bytes(key, path, (size_t)(name - path));
    if (p->several)
        sr_text_add(key, "%d", sr_split_word(name, bytes));
    sr_text_add_bytes(key, rest, stem - (size_t)(rest - path));
    return mask ? SR_SIDE_MASK : SR_SIDE_PICTURE;
}

static sr_mask_rule rule_of(const pairing *p) {
    return (sr_mask_rule){.side = side_of, .user = p};
}

// The kind of the masks on this side. Numbers, if the names do not say that these are masks.
static sr_status kind_of(const sr_source *source, pairing *p, int side, sr_mask_kind *out) {
    p->masks = side;
    const bool named = is_named(p);
    const sr_mask_rule rule = rule_of(p);
    SR_TRY(sr_mask_pairs_kind(source, &rule, !named, out));
    if (!named && *out != SR_MASK_NUMBERS)
        *out = SR_MASK_NONE;
    return SR_OK;
}

// Finds the side with the masks; its kind is NONE where there are none. Where both may have them,
// as pictures may be grey, too, the names decide.
static sr_status find_masks(const sr_source *source, pairing *p) {
    sr_mask_kind kinds[2] = {SR_MASK_NONE, SR_MASK_NONE};
    if (!p->several)
        SR_TRY(kind_of(source, p, 0, &kinds[0]));
    SR_TRY(kind_of(source, p, 1, &kinds[1]));
    const bool both = kinds[0] != SR_MASK_NONE && kinds[1] != SR_MASK_NONE;
    p->kind = SR_MASK_NONE;
    for (int side = 0; side < 2 && p->kind == SR_MASK_NONE; side++) {
        p->masks = side;
        if (kinds[side] != SR_MASK_NONE && (!both || is_named(p)))
            p->kind = kinds[side];
    }
    return SR_OK;
}

// Whether more than half of the masks have a picture; pictures of a test split may have no mask.
static sr_status mostly_pairs(const sr_source *source, pairing *p, bool *out) {
    sr_mask_count count;
    *out = false;
    for (int ends = 0; ends < 2 && !*out; ends++) {
        p->ends = ends;
        const sr_mask_rule rule = rule_of(p);
        SR_TRY(sr_mask_pairs_count(source, &rule, &count));
        *out = 2 * count.pairs > count.masks;
    }
    return SR_OK;
}

static sr_status find_pairing(sr_source *source, pairing *out, bool *fits) {
    *fits = false;
    for (int level = 0; level < MAX_LEVELS; level++) {
        pairing p;
        const char *name;
        size_t bytes;
        if (source->files.count < 2 ||
            !sr_path_folder_at(source->files.items[0].path, level, &name, &bytes))
            return SR_OK;
        if (!has_two_names(source, level, &p) && !has_named_kinds(source, level, &p))
            continue;
        SR_TRY(find_masks(source, &p));
        if (p.kind == SR_MASK_NONE)
            continue;
        SR_TRY(mostly_pairs(source, &p, fits));
        *out = p;
        if (*fits)
            return SR_OK;
    }
    return SR_OK;
}

static sr_status recognises(sr_source *source, sr_recognition *out) {
    pairing p;
    bool fits;
    SR_TRY(find_pairing(source, &p, &fits));
    if (!fits)
        return SR_OK;
    out->certainty = is_named(&p) ? SR_FORMAT_YES : SR_FORMAT_POSSIBLE;
    (void)snprintf(out->why, sizeof out->why, "%s PNGs in %.*s as masks of pictures in %.*s",
                   p.kind == SR_MASK_COLORS ? "colour" : "grey", (int)p.bytes[p.masks],
                   p.names[p.masks], (int)p.bytes[!p.masks], p.names[!p.masks]);
    return SR_OK;
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    pairing p;
    bool fits;
    SR_TRY(find_pairing(source, &p, &fits));
    const sr_mask_rule rule = rule_of(&p);
    return sr_mask_pairs_lay_out(source, &rule, out);
}

extern const sr_format sr_format_masks;
const sr_format sr_format_masks = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "masks",
    .help = "pictures and masks in two parallel folders",
    .recognises = recognises,
    .lay_out = lay_out,
};
