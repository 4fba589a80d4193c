// SPDX-License-Identifier: Apache-2.0
// Format: pictures and masks in two parallel trees, as images/train/0001.jpg and
// masks/train/0001.png. One folder level has exactly two names, or several that all tell pictures
// from masks, as train_images and val_masks, and one side has only PNGs with an id for each pixel,
// most of which have a picture with the same path (except for that folder and the extension) on the
// other. Grey photographs are such PNGs, too, and two folders may be two classes: so their names
// must say it, as images and masks do, unless the user chooses the format.
//
// A picture without a mask and a mask without a picture are refused by name; pictures of a split
// without any mask are left out and counted. Splits are folders (folder_splits.h); without any
// everything is train. The ids are kept; 255 means no class.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/formats/folder_splits.h"
#include "dataio/formats/format.h"
#include "dataio/formats/mask_folders.h"
#include "dataio/image/mask_png.h"
#include "dataio/record/split.h"

#define MAX_LEVELS 64
#define PROBED 16 // files of the masks' tree that are read

// The two folder names at a level of the pictures' paths; masks: the one with the masks. With
// several of each, as train_images, train_masks, val_images and val_masks, the names say which is
// which, and names[] has the first ones.
typedef struct pairing {
    int level;
    bool several;
    const char *names[2]; // not terminated
    size_t bytes[2];
    int masks;
} pairing;

// Which of the two names the path has at the level, or -1.
static int side_of(const pairing *p, const char *path) {
    const char *name;
    size_t bytes;
    if (!sr_path_folder_at(path, p->level, &name, &bytes))
        return -1;
    if (p->several)
        return sr_folder_kind_named(name, bytes) == SR_FOLDER_MASKS;
    for (int i = 0; i < 2; i++)
        if (p->bytes[i] == bytes && memcmp(p->names[i], name, bytes) == 0)
            return i;
    return -1;
}

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
    pairing p = {.level = level, .several = true};
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

static int compare_bytes(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    size_t n = a_bytes < b_bytes ? a_bytes : b_bytes;
    int order = memcmp(a, b, n);
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

// Compares paths without the folder of the pairing and without extensions.
static int compare_keys(const pairing *p, const char *a, const char *b) {
    const char *a_name, *b_name;
    size_t a_bytes, b_bytes;
    if (!sr_path_folder_at(a, p->level, &a_name, &a_bytes) ||
        !sr_path_folder_at(b, p->level, &b_name, &b_bytes))
        return strcmp(a, b);
    int order = compare_bytes(a, (size_t)(a_name - a), b, (size_t)(b_name - b));
    const char *a_rest = a_name + a_bytes, *b_rest = b_name + b_bytes;
    if (order == 0 && p->several) // train_images and train_masks
        order = sr_split_word(a_name, a_bytes) - sr_split_word(b_name, b_bytes);
    return order ? order
                 : compare_bytes(a_rest, sr_path_stem_bytes(a) - (size_t)(a_rest - a), b_rest,
                                 sr_path_stem_bytes(b) - (size_t)(b_rest - b));
}

typedef struct sorted {
    const sr_source *source;
    const pairing *pairing;
    uint32_t *files;
    size_t count;
} sorted;

static int by_key(const void *a, const void *b, void *user) {
    const sorted *s = user;
    const sr_source_file *files = s->source->files.items;
    const char *x = files[*(const uint32_t *)a].path, *y = files[*(const uint32_t *)b].path;
    int order = compare_keys(s->pairing, x, y);
    return order ? order : side_of(s->pairing, x) - side_of(s->pairing, y);
}

// All files, sorted so that those of one key are adjacent.
static sr_status sort_by_key(const sr_source *source, const pairing *p, sorted *out) {
    *out = (sorted){.source = source, .pairing = p, .count = source->files.count};
    out->files = sr_alloc_array(out->count, sizeof *out->files, "pictures and masks");
    if (out->files == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < out->count; i++)
        out->files[i] = (uint32_t)i;
    qsort_r(out->files, out->count, sizeof *out->files, by_key, out);
    return SR_OK;
}

static size_t run_length(const sorted *s, size_t first) {
    const sr_source_file *files = s->source->files.items;
    size_t n = 1;
    while (first + n < s->count && compare_keys(s->pairing, files[s->files[first]].path,
                                                files[s->files[first + n]].path) == 0)
        n++;
    return n;
}

// Whether more than half of the masks have a picture; pictures of a test split may have no mask.
static sr_status mostly_pairs(const sr_source *source, const pairing *p, bool *out) {
    sorted s;
    SR_TRY(sort_by_key(source, p, &s));
    size_t keys = 0, pairs = 0;
    for (size_t i = 0, n; i < s.count; i += n) {
        n = run_length(&s, i);
        const int first = side_of(p, source->files.items[s.files[i]].path);
        const int last = side_of(p, source->files.items[s.files[i + n - 1]].path);
        keys += first == p->masks || last == p->masks;
        pairs += first != last;
    }
    sr_free(s.files);
    *out = 2 * pairs > keys;
    return SR_OK;
}

// Whether a few evenly spaced files of this side are all PNGs with one number per pixel.
static bool are_masks(const sr_source *source, const pairing *p, int side) {
    size_t stride = source->files.count / (2 * PROBED) + 1, seen = 0;
    for (size_t i = 0; i < source->files.count; i++) {
        const sr_source_file *file = &source->files.items[i];
        uint8_t head[SR_MASK_HEAD];
        if (side_of(p, file->path) != side || seen++ % stride != 0)
            continue;
        if (file->bytes < sizeof head ||
            sr_source_read_part(source, file, 0, head, sizeof head) != SR_OK ||
            !sr_mask_png_is(head, sizeof head))
            return false;
    }
    return true;
}

// Whether the names of the two folders say that one has pictures and the other their masks.
static bool is_named(const pairing *p) {
    const int m = p->masks;
    return sr_folder_kind_named(p->names[m], p->bytes[m]) == SR_FOLDER_MASKS &&
           sr_folder_kind_named(p->names[!m], p->bytes[!m]) == SR_FOLDER_PICTURES;
}

// Finds the side with the masks. Where both may have them, as pictures may be grey, too, the names
// decide.
static bool find_masks(const sr_source *source, pairing *p) {
    p->masks = 1;
    if (p->several)
        return are_masks(source, p, 1);
    const bool first = are_masks(source, p, 0), second = are_masks(source, p, 1);
    for (p->masks = 0; p->masks < 2; p->masks++)
        if (first && second ? is_named(p) : p->masks == 0 ? first : second)
            return true;
    return false;
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
        if ((!has_two_names(source, level, &p) && !has_named_kinds(source, level, &p)) ||
            !find_masks(source, &p))
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
    (void)snprintf(out->why, sizeof out->why, "grey PNGs in %.*s as masks of pictures in %.*s",
                   (int)p.bytes[p.masks], p.names[p.masks], (int)p.bytes[!p.masks],
                   p.names[!p.masks]);
    return SR_OK;
}

// -- laying out --------------------------------------------------------------------------------

typedef struct mask_reading {
    sr_source *source;
    sr_layout *layout;
    pairing pairing;
    sr_folder_splits splits;
    bool masked[SR_SPLIT_COUNT]; // some picture of the split has a mask
} mask_reading;

static int split_of(const mask_reading *r, uint32_t file) {
    return r->splits.any ? sr_folder_splits_of(&r->splits, &r->source->files.items[file])
                         : SR_SPLIT_TRAIN;
}

// The files of one key by side: [1] the masks.
typedef struct key_files {
    uint32_t last[2];
    size_t counts[2];
} key_files;

static key_files count_sides(const mask_reading *r, const uint32_t *files, size_t count) {
    key_files k = {0};
    for (size_t i = 0; i < count; i++) {
        const char *path = r->source->files.items[files[i]].path;
        const int side = side_of(&r->pairing, path) == r->pairing.masks;
        k.counts[side]++;
        k.last[side] = files[i];
    }
    return k;
}

static void note_masked(mask_reading *r, const uint32_t *files, size_t count) {
    const key_files k = count_sides(r, files, count);
    const int split = k.counts[0] > 0 ? split_of(r, k.last[0]) : -1;
    if (split >= 0 && k.counts[1] > 0)
        r->masked[split] = true;
}

// Refuses the files of a key that are too few or too many.
static sr_status refuse_key(mask_reading *r, const uint32_t *files, size_t count,
                            const key_files *k) {
    for (size_t i = 0; i < count; i++) {
        const char *path = r->source->files.items[files[i]].path;
        const bool is_mask = side_of(&r->pairing, path) == r->pairing.masks;
        const char *reason = k->counts[is_mask] > 1    ? "several files of this name"
                             : k->counts[!is_mask] > 1 ? "several files have its name"
                             : is_mask                 ? "a mask without a picture"
                                                       : "a picture without a mask";
        SR_TRY(sr_source_refuse(r->source, path, reason));
    }
    return SR_OK;
}

static sr_status assign(mask_reading *r, const uint32_t *files, size_t count) {
    const key_files k = count_sides(r, files, count);
    const int split = k.counts[0] > 0 ? split_of(r, k.last[0]) : -1;
    if (k.counts[1] == 0 && split >= 0 && !r->masked[split]) {
        r->layout->unlabelled += k.counts[0];
        return SR_OK;
    }
    if (k.counts[0] != 1 || k.counts[1] != 1)
        return refuse_key(r, files, count, &k);
    if (split < 0)
        return sr_source_refuse(r->source, r->source->files.items[k.last[0]].path,
                                "is outside train, val and test");
    r->layout->masks++;
    r->layout->files[k.last[0]].annotation = 1 + (uint64_t)k.last[1];
    r->layout->files[k.last[0]].split = (int8_t)split;
    return SR_OK;
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    mask_reading r = {.source = source, .layout = out};
    bool fits;
    sorted s;
    SR_TRY(find_pairing(source, &r.pairing, &fits));
    SR_TRY(sr_folder_splits_find(source, &r.splits));
    SR_TRY(sr_layout_begin(out, source));
    SR_TRY(sort_by_key(source, &r.pairing, &s));
    out->schema = SR_SCHEMA_MASK;
    out->count_classes = !out->names_given;
    sr_status status = SR_OK;
    for (size_t i = 0, n; i < s.count; i += n) {
        n = run_length(&s, i);
        note_masked(&r, s.files + i, n);
    }
    for (size_t i = 0, n; i < s.count && status == SR_OK; i += n) {
        n = run_length(&s, i);
        status = assign(&r, s.files + i, n);
    }
    sr_free(s.files);
    return status;
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
