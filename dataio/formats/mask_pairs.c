// SPDX-License-Identifier: Apache-2.0
// Pictures and masks by key (mask_pairs.h). The keys are in memory: one short text per file.
#include "dataio/formats/mask_pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/formats/folder_splits.h"

#define PROBED 16 // masks whose first bytes are read

// A file with its key.
typedef struct keyed {
    const char *key;
    uint32_t file;
    sr_mask_side side;
} keyed;

typedef struct pairs {
    const sr_source *source;
    keyed *items; // of pictures and masks, sorted by key, then by side
    size_t count;
    sr_arena arena;
} pairs;

static int by_key(const void *a, const void *b) {
    const keyed *x = a, *y = b;
    const int order = strcmp(x->key, y->key);
    if (order != 0)
        return order;
    return x->side != y->side ? (int)x->side - (int)y->side
                              : (x->file > y->file) - (x->file < y->file);
}

static void release(pairs *p) {
    sr_free(p->items);
    sr_arena_release(&p->arena);
}

static sr_status fill(pairs *p, const sr_mask_rule *rule, sr_text *key) {
    const size_t count = p->source->files.count;
    p->items = sr_alloc_array(count, sizeof *p->items, "pictures and masks");
    if (p->items == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < count; i++) {
        sr_text_clear(key);
        const sr_mask_side side = rule->side(rule->user, p->source->files.items[i].path, key);
        SR_TRY(sr_text_check(key));
        if (side == SR_SIDE_NONE)
            continue;
        const char *copy = sr_arena_strdup(&p->arena, key->data);
        if (copy == NULL)
            return SR_E_MEMORY;
        p->items[p->count++] = (keyed){.key = copy, .file = (uint32_t)i, .side = side};
    }
    if (p->count > 0)
        qsort(p->items, p->count, sizeof *p->items, by_key);
    return SR_OK;
}

static sr_status make(const sr_source *source, const sr_mask_rule *rule, pairs *out) {
    sr_text key;
    *out = (pairs){.source = source};
    sr_arena_init(&out->arena);
    sr_text_init(&key);
    const sr_status status = fill(out, rule, &key);
    sr_text_release(&key);
    if (status != SR_OK)
        release(out);
    return status;
}

// The number of files with the key of the first.
static size_t run_length(const pairs *p, size_t first) {
    size_t n = 1;
    while (first + n < p->count && strcmp(p->items[first].key, p->items[first + n].key) == 0)
        n++;
    return n;
}

// Whether some file is a mask. Most sources have none, and may have millions of pictures.
static sr_status find_any_mask(const sr_source *source, const sr_mask_rule *rule, bool *out) {
    sr_text key;
    sr_text_init(&key);
    sr_status status = SR_OK;
    *out = false;
    for (size_t i = 0; i < source->files.count && status == SR_OK && !*out; i++) {
        sr_text_clear(&key);
        *out = rule->side(rule->user, source->files.items[i].path, &key) == SR_SIDE_MASK;
        status = sr_text_check(&key);
    }
    sr_text_release(&key);
    return status;
}

sr_status sr_mask_pairs_count(const sr_source *source, const sr_mask_rule *rule,
                              sr_mask_count *out) {
    pairs p;
    sr_mask_count count = {0};
    bool any;
    *out = count;
    SR_TRY(find_any_mask(source, rule, &any));
    if (!any)
        return SR_OK;
    SR_TRY(make(source, rule, &p));
    for (size_t i = 0, n; i < p.count; i += n) {
        n = run_length(&p, i);
        const keyed *first = &p.items[i], *last = &p.items[i + n - 1];
        count.pictures += first->side == SR_SIDE_PICTURE;
        count.masks += last->side == SR_SIDE_MASK;
        count.pairs += first->side != last->side;
        if (count.mask == NULL && last->side == SR_SIDE_MASK)
            count.mask = source->files.items[last->file].path;
    }
    release(&p);
    *out = count;
    return SR_OK;
}

// The kind of a mask by its first bytes; NONE also where it cannot be read.
static sr_mask_kind kind_of(const sr_source *source, const sr_source_file *file) {
    uint8_t head[SR_MASK_HEAD];
    if (file->bytes < sizeof head ||
        sr_source_read_part(source, file, 0, head, sizeof head) != SR_OK)
        return SR_MASK_NONE;
    return sr_mask_png_kind(head, sizeof head);
}

// Counts the kinds of evenly spaced masks.
static sr_status probe(const sr_source *source, const sr_mask_rule *rule, size_t kinds[3]) {
    const size_t stride = source->files.count / (2 * PROBED) + 1;
    size_t seen = 0;
    sr_text key;
    sr_text_init(&key);
    sr_status status = SR_OK;
    for (size_t i = 0; i < source->files.count && status == SR_OK; i++) {
        const sr_source_file *file = &source->files.items[i];
        sr_text_clear(&key);
        if (rule->side(rule->user, file->path, &key) == SR_SIDE_MASK && seen++ % stride == 0)
            kinds[kind_of(source, file)]++;
        status = sr_text_check(&key);
    }
    sr_text_release(&key);
    return status;
}

sr_status sr_mask_pairs_kind(const sr_source *source, const sr_mask_rule *rule, bool all,
                             sr_mask_kind *out) {
    size_t kinds[3] = {0};
    SR_TRY(probe(source, rule, kinds));
    const size_t numbers = kinds[SR_MASK_NUMBERS], colors = kinds[SR_MASK_COLORS];
    const size_t probed = numbers + colors + kinds[SR_MASK_NONE];
    const sr_mask_kind most = colors > numbers ? SR_MASK_COLORS : SR_MASK_NUMBERS;
    *out = (all ? kinds[most] < probed || probed == 0 : 2 * (numbers + colors) <= probed)
               ? SR_MASK_NONE
               : most;
    return SR_OK;
}

sr_status sr_mask_pairs_say(const sr_source *source, const sr_mask_rule *rule,
                            const sr_mask_count *count, const char *note, sr_recognition *out) {
    sr_mask_kind kind = SR_MASK_NONE;
    if (count->pairs > 0)
        SR_TRY(sr_mask_pairs_kind(source, rule, false, &kind));
    if (kind == SR_MASK_NONE)
        return SR_OK;
    out->certainty = SR_FORMAT_YES;
    (void)snprintf(out->why, sizeof out->why, "%zu picture%s with masks such as %s%s", count->pairs,
                   count->pairs == 1 ? "" : "s", count->mask, note);
    return SR_OK;
}

// -- laying out --------------------------------------------------------------------------------

typedef struct mask_reading {
    sr_source *source;
    const sr_mask_rule *rule;
    sr_layout *layout;
    sr_folder_splits splits;
    bool masked[SR_SPLIT_COUNT]; // some picture of the split has a mask
} mask_reading;

static bool has_lists(const mask_reading *r) {
    return r->rule->lists != NULL && r->rule->lists->any;
}

static int split_of(const mask_reading *r, uint32_t file) {
    const sr_source_file *from = &r->source->files.items[file];
    if (has_lists(r))
        return sr_split_lists_of(r->rule->lists, from->path);
    return r->splits.any ? sr_folder_splits_of(&r->splits, from) : SR_SPLIT_TRAIN;
}

// The files of one key by side.
typedef struct key_files {
    uint32_t last[2];
    size_t counts[2];
} key_files;

static key_files count_sides(const keyed *items, size_t count) {
    key_files k = {0};
    for (size_t i = 0; i < count; i++) {
        k.counts[items[i].side]++;
        k.last[items[i].side] = items[i].file;
    }
    return k;
}

static void note_masked(mask_reading *r, const keyed *items, size_t count) {
    const key_files k = count_sides(items, count);
    const int split = k.counts[SR_SIDE_PICTURE] > 0 ? split_of(r, k.last[SR_SIDE_PICTURE]) : -1;
    if (split >= 0 && split < SR_SPLIT_COUNT && k.counts[SR_SIDE_MASK] > 0)
        r->masked[split] = true;
}

// Refuses the files of a key that are too few or too many.
static sr_status refuse_key(mask_reading *r, const keyed *items, size_t count, const key_files *k) {
    for (size_t i = 0; i < count; i++) {
        const bool is_mask = items[i].side == SR_SIDE_MASK;
        const char *reason = k->counts[is_mask] > 1    ? "several files of this name"
                             : k->counts[!is_mask] > 1 ? "several files have its name"
                             : is_mask                 ? "a mask without a picture"
                                                       : "a picture without a mask";
        SR_TRY(sr_source_refuse(r->source, r->source->files.items[items[i].file].path, reason));
    }
    return SR_OK;
}

// Whether the files of a key are left out: pictures of a split that no mask is of, what no list
// names, and pictures that may lack a mask.
static bool is_left_out(const mask_reading *r, const key_files *k, int split) {
    if (has_lists(r) && split < 0)
        return true;
    if (k->counts[SR_SIDE_MASK] > 0)
        return false;
    return (r->rule->some_lack_masks && !has_lists(r)) ||
           (split >= 0 && split < SR_SPLIT_COUNT && !r->masked[split]);
}

static sr_status assign(mask_reading *r, const keyed *items, size_t count) {
    const key_files k = count_sides(items, count);
    const uint32_t picture = k.last[SR_SIDE_PICTURE];
    const int split = k.counts[SR_SIDE_PICTURE] > 0 ? split_of(r, picture)
                      : has_lists(r)                ? split_of(r, k.last[SR_SIDE_MASK])
                                                    : -1;
    if (is_left_out(r, &k, split)) {
        r->layout->unlabelled += k.counts[SR_SIDE_PICTURE];
        r->source->other += k.counts[SR_SIDE_MASK];
        return SR_OK;
    }
    if (k.counts[SR_SIDE_PICTURE] != 1 || k.counts[SR_SIDE_MASK] != 1)
        return refuse_key(r, items, count, &k);
    if (split < 0 || split == SR_LIST_SEVERAL)
        return sr_source_refuse(r->source, r->source->files.items[picture].path,
                                split < 0 ? "is outside train, val and test"
                                          : "is listed for several splits");
    r->layout->masks++;
    r->layout->files[picture].annotation = 1 + (uint64_t)k.last[SR_SIDE_MASK];
    r->layout->files[picture].split = (int8_t)split;
    return SR_OK;
}

static sr_status assign_all(mask_reading *r, const pairs *p) {
    for (size_t i = 0, n; i < p->count; i += n) {
        n = run_length(p, i);
        note_masked(r, p->items + i, n);
    }
    for (size_t i = 0, n; i < p->count; i += n) {
        n = run_length(p, i);
        SR_TRY(assign(r, p->items + i, n));
    }
    r->source->other += r->layout->count - p->count;
    return SR_OK;
}

static sr_status refuse_missing(const mask_reading *r) {
    sr_picture_index index;
    if (!has_lists(r))
        return SR_OK;
    SR_TRY(sr_picture_index_make(r->source, &index));
    const sr_status status = sr_split_lists_refuse_missing(r->rule->lists, r->source, &index);
    sr_picture_index_release(&index);
    return status;
}

sr_status sr_mask_pairs_lay_out(sr_source *source, const sr_mask_rule *rule, sr_layout *layout) {
    mask_reading r = {.source = source, .rule = rule, .layout = layout};
    pairs p;
    sr_mask_kind kind;
    SR_TRY(sr_mask_pairs_kind(source, rule, false, &kind));
    if (kind == SR_MASK_COLORS && !layout->class_map.has_colors) {
        return SR_FAIL(SR_E_DATA,
                       "%s: the masks have colours instead of numbers; --class-map FILE says which "
                       "classes they are, in lines 'R G B NAME' (if the folders of pictures and "
                       "masks are two classes: --format-in classes)",
                       source->path);
    }
    SR_TRY(sr_layout_take_class_map(layout));
    SR_TRY(sr_folder_splits_find(source, &r.splits));
    SR_TRY(sr_layout_begin(layout, source));
    layout->schema = SR_SCHEMA_MASK;
    layout->count_classes = layout->class_count == 0;
    SR_TRY(make(source, rule, &p));
    sr_status status = assign_all(&r, &p);
    release(&p);
    return status == SR_OK ? refuse_missing(&r) : status;
}

// -- rules by the names of folders -------------------------------------------------------------

// What of the path is after the deepest folder of this name, or NULL.
static const char *after_folder(const char *path, const char *folder) {
    const char *name, *found = NULL;
    size_t bytes;
    for (int level = 0; sr_path_folder_at(path, level, &name, &bytes); level++)
        if (strlen(folder) == bytes && memcmp(folder, name, bytes) == 0)
            found = name + bytes + 1;
    return found;
}

sr_mask_side sr_mask_folders_side(const void *user, const char *path, sr_text *key) {
    const sr_mask_folders *f = user;
    const char *mask = after_folder(path, f->masks), *picture = after_folder(path, f->pictures);
    const bool is_mask = mask != NULL && (picture == NULL || mask > picture);
    const char *rest = is_mask ? mask : picture, *end = is_mask ? f->mask_end : f->picture_end;
    if (rest == NULL)
        return SR_SIDE_NONE;
    const size_t bytes = sr_path_stem_bytes(path) - (size_t)(rest - path), n = strlen(end);
    if (bytes < n || memcmp(rest + bytes - n, end, n) != 0)
        return SR_SIDE_NONE;
    sr_text_add_bytes(key, rest, bytes - n);
    return is_mask ? SR_SIDE_MASK : SR_SIDE_PICTURE;
}
