// SPDX-License-Identifier: Apache-2.0
// What formats share when they lay out a source (layout.h): classes and paths.
#include "dataio/formats/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/formats/few_names.h"
#include "dataio/formats/format.h"
#include "dataio/formats/name_table.h"
#include "dataio/image/mask_png.h"
#include "dataio/import/path_text.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/text.h"

#define NAMES_BYTES_MAX ((size_t)16 << 20)

// -- paths -------------------------------------------------------------------------------------

bool sr_path_folder_at(const char *path, int level, const char **name, size_t *bytes) {
    for (int i = 0;; i++) {
        const char *slash = strchr(path, '/');
        if (slash == NULL)
            return false;
        if (i == level) {
            *name = path;
            *bytes = (size_t)(slash - path);
            return true;
        }
        path = slash + 1;
    }
}

int sr_path_split(const char *path) {
    const char *name;
    size_t bytes;
    int split = -1;
    for (int level = 0; sr_path_folder_at(path, level, &name, &bytes); level++) {
        int found = sr_split_named(name, bytes);
        split = found >= 0 ? found : split;
    }
    return split;
}

size_t sr_pictures_below(const sr_source *source, const char *folder, size_t *first) {
    char prefix[SR_PATH_TEXT_MAX + 2];
    const int n = snprintf(prefix, sizeof prefix, "%s%s", folder, *folder ? "/" : "");
    size_t low = 0, high = source->files.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(source->files.items[middle].path, prefix) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *first = low;
    while (high < source->files.count &&
           strncmp(source->files.items[high].path, prefix, (size_t)n) == 0)
        high++;
    return high - low;
}

bool sr_has_picture_beside(const sr_source *source, const char *path) {
    const size_t n = sr_path_stem_bytes(path);
    size_t low = 0, high = source->files.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strncmp(source->files.items[middle].path, path, n) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < source->files.count && strncmp(source->files.items[low].path, path, n) == 0; low++)
        if (sr_path_stem_bytes(source->files.items[low].path) == n)
            return true;
    return false;
}

const char *sr_path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

size_t sr_path_stem_bytes(const char *path) {
    const char *name = sr_path_name(path), *dot = strrchr(name, '.');
    return dot != NULL && dot != name ? (size_t)(dot - path) : strlen(path);
}

bool sr_path_ends_with(const char *path, const char *name) {
    const size_t n = strlen(path), m = strlen(name);
    return m > 0 && m <= n && strcmp(path + n - m, name) == 0 && (m == n || path[n - m - 1] == '/');
}

// -- classes -----------------------------------------------------------------------------------

static sr_status push_name(sr_name_list *list, sr_arena *arena, const char *name, size_t bytes) {
    SR_TRY(sr_grow(&list->items, &list->capacity, list->count + 1, sizeof(char *), "classes"));
    char *copy = sr_arena_alloc(arena, bytes + 1);
    if (copy == NULL)
        return SR_E_MEMORY;
    memcpy(copy, name, bytes);
    ((const char **)list->items)[list->count++] = copy;
    return SR_OK;
}

sr_status sr_name_list_add(sr_name_list *list, sr_arena *arena, const char *name, size_t bytes) {
    if (list->count > 0) { // equal names are often adjacent
        const char *last = ((const char **)list->items)[list->count - 1];
        if (strlen(last) == bytes && memcmp(last, name, bytes) == 0)
            return SR_OK;
    }
    return push_name(list, arena, name, bytes);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

sr_status sr_layout_set_classes(sr_layout *layout, sr_name_list *list) {
    sr_free(layout->classes);
    layout->classes = list->items;
    layout->class_count = 0;
    layout->sorted = true;
    size_t count = list->count, kept = 0;
    *list = (sr_name_list){0};
    if (count > 0)
        qsort(layout->classes, count, sizeof *layout->classes, by_name);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(layout->classes[kept - 1], layout->classes[i]) != 0)
            layout->classes[kept++] = layout->classes[i];
    if (kept > INT32_MAX)
        return SR_FAIL(SR_E_LIMIT, "%zu classes are too many", kept);
    layout->class_count = (int)kept;
    return SR_OK;
}

static int find_unsorted(const sr_layout *layout, const char *name, size_t bytes) {
    for (int i = 0; i < layout->class_count; i++)
        if (strlen(layout->classes[i]) == bytes && memcmp(layout->classes[i], name, bytes) == 0)
            return i;
    return -1;
}

int sr_layout_find_class(const sr_layout *layout, const char *name, size_t bytes) {
    if (!layout->sorted)
        return find_unsorted(layout, name, bytes);
    int low = 0, high = layout->class_count;
    while (low < high) {
        int middle = (low + high) / 2;
        const char *candidate = layout->classes[middle];
        int order = strncmp(candidate, name, bytes);
        if (order == 0 && candidate[bytes] != '\0')
            order = 1;
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

sr_status sr_layout_number_classes(sr_layout *layout, int64_t count) {
    if (layout->class_count > 0) { // given by the user
        if (count > layout->class_count)
            return SR_FAIL(SR_E_DATA,
                           "class %lld occurs (the first is 0), but only %d class names are given",
                           (long long)count - 1, layout->class_count);
        return SR_OK;
    }
    if (count > INT32_MAX)
        return SR_FAIL(SR_E_LIMIT, "%lld classes are too many", (long long)count);
    layout->classes = sr_alloc_array((size_t)count, sizeof *layout->classes, "classes");
    if (layout->classes == NULL)
        return SR_E_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "%lld", (long long)i);
        if ((layout->classes[i] = sr_arena_strdup(&layout->arena, name)) == NULL)
            return SR_E_MEMORY;
    }
    layout->class_count = (int)count;
    return SR_OK;
}

sr_status sr_layout_map_label(sr_layout *layout, int64_t number, int label, const char *name) {
    void *labels = layout->labels;
    SR_TRY(sr_grow(&labels, &layout->label_capacity, layout->label_count + 1,
                   sizeof *layout->labels, "labels"));
    layout->labels = labels;
    layout->labels[layout->label_count++] =
        (sr_label_name){.number = number, .label = label, .name = name};
    return SR_OK;
}

sr_status sr_layout_label_of(const sr_layout *layout, int64_t number, int32_t *out) {
    size_t low = 0, high = layout->label_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (layout->labels[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == layout->label_count || layout->labels[low].number != number)
        return SR_FAIL(SR_E_DATA, "an object of category %lld, which is not defined",
                       (long long)number);
    if (layout->labels[low].label < 0)
        return SR_FAIL(SR_E_DATA, "an object of class '%.100s', which is not one of the %d classes",
                       layout->labels[low].name, layout->class_count);
    *out = layout->labels[low].label;
    return SR_OK;
}

// The lines of a text that are not empty, without trailing space; duplicates stay, as the position
// of a line is the number of a class.
static sr_status split_lines(const char *text, sr_arena *arena, sr_name_list *out) {
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) // a byte order mark
        text += 3;
    for (const char *at = text; *at != '\0';) {
        size_t line = strcspn(at, "\n"), length = line;
        while (length > 0 && (at[length - 1] == '\r' || at[length - 1] == ' '))
            length--;
        if (length > 0)
            SR_TRY(push_name(out, arena, at, length));
        at += line + (at[line] == '\n');
    }
    return SR_OK;
}

static void take_names(sr_layout *layout, sr_name_list *list) {
    sr_free(layout->classes);
    layout->classes = list->items;
    layout->class_count = (int)list->count;
}

sr_status sr_layout_name_classes(sr_layout *layout, const char *text, int count) {
    sr_name_list list = {0};
    if (layout->names_given)
        return SR_OK;
    const sr_status status = split_lines(text, &layout->arena, &list);
    if (status == SR_OK && list.count == (size_t)count)
        take_names(layout, &list);
    else
        sr_free(list.items);
    return status;
}

sr_status sr_layout_take_names(sr_layout *layout, const char *text) {
    sr_name_list list = {0};
    if (layout->names_given)
        return SR_OK;
    const sr_status status = split_lines(text, &layout->arena, &list);
    take_names(layout, &list);
    return status;
}

// Reads the names given by the user, one per line, in the order of the class numbers.
static sr_status read_class_names(const char *path, sr_layout *layout) {
    void *text;
    size_t bytes;
    sr_name_list list = {0};
    SR_TRY(sr_file_read(path, NAMES_BYTES_MAX, &text, &bytes));
    if (memchr(text, 0, bytes) != NULL) {
        sr_free(text);
        return SR_FAIL(SR_E_DATA, "%s: zero bytes in a file of names; save it as UTF-8", path);
    }
    const sr_status status = split_lines(text, &layout->arena, &list);
    sr_free(text);
    take_names(layout, &list);
    layout->names_given = true;
    SR_TRY(status);
    return list.count > 0 ? SR_OK
                          : SR_FAIL(SR_E_DATA, "%s: no class names; expected one per line", path);
}

// -- what masks mean ---------------------------------------------------------------------------

// Makes the names of the map those of the classes.
static sr_status take_map(sr_layout *layout) {
    const sr_class_map *map = &layout->class_map;
    const char **names = sr_alloc_array((size_t)map->class_count, sizeof *names, "classes");
    if (names == NULL)
        return SR_E_MEMORY;
    memcpy(names, map->names, (size_t)map->class_count * sizeof *names);
    sr_free(layout->classes);
    layout->classes = names;
    layout->class_count = map->class_count;
    return SR_OK;
}

sr_status sr_layout_use_class_map(sr_layout *layout, const char *name) {
    const sr_layout_options *o = &layout->options;
    sr_class_map map;
    if (o->class_map != NULL)
        return SR_OK;
    if (o->reduce_zero_label)
        return SR_FAIL(SR_E_USAGE,
                       "the classes of %s are known: leave out --reduce-zero-label, or state them "
                       "with --class-map",
                       name);
    SR_TRY(sr_class_map_read(name, &layout->arena, &map));
    if (layout->names_given && layout->class_count != map.class_count)
        return SR_FAIL(SR_E_USAGE,
                       "%s: %d class names, but %s has %d classes: leave out --classes, or state "
                       "the values of masks with --class-map",
                       o->class_names, layout->class_count, name, map.class_count);
    layout->class_map = map;
    return layout->names_given ? SR_OK : take_map(layout);
}

static sr_status read_class_map(sr_layout *layout) {
    const sr_layout_options *o = &layout->options;
    sr_class_map_numbers(o->reduce_zero_label, &layout->class_map);
    if (o->class_map == NULL)
        return SR_OK;
    if (o->class_names != NULL || o->reduce_zero_label)
        return SR_FAIL(SR_E_USAGE, "--class-map states names and ids, so leave out %s",
                       o->class_names != NULL ? "--classes" : "--reduce-zero-label");
    return sr_class_map_read(o->class_map, &layout->arena, &layout->class_map);
}

sr_status sr_layout_take_class_map(sr_layout *layout) {
    return layout->options.class_map != NULL ? take_map(layout) : SR_OK;
}

// Checks that options for masks have an effect, and applies the ignored value.
static sr_status settle_class_map(const sr_source *source, sr_layout *layout) {
    const sr_layout_options *o = &layout->options;
    const char *option = o->class_map != NULL   ? "--class-map"
                         : o->reduce_zero_label ? "--reduce-zero-label"
                         : o->ignore_value > 0  ? "--ignore-value"
                                                : NULL;
    if (option == NULL)
        return SR_OK;
    const bool is_drawn = layout->schema == SR_SCHEMA_OUTLINES && o->class_map != NULL &&
                          !layout->class_map.has_colors && o->ignore_value == 0;
    if (layout->schema != SR_SCHEMA_MASK && !is_drawn)
        return SR_FAIL(SR_E_USAGE, "%s: %s is for masks, but there are none (read as %s)",
                       source->path, option, source->format->help);
    if (o->ignore_value > 0 && layout->class_map.has_colors)
        return SR_FAIL(SR_E_USAGE,
                       "%s has colours, so leave out --ignore-value, and add a line "
                       "'R G B ignore'",
                       o->class_map);
    if (o->ignore_value > 0)
        layout->class_map.ids[o->ignore_value - 1] = SR_MASK_VOID;
    return SR_OK;
}

// -- layout ------------------------------------------------------------------------------------

sr_status sr_layout_begin(sr_layout *layout, const sr_source *source) {
    if (source->files.count > UINT32_MAX)
        return SR_FAIL(SR_E_LIMIT, "%s: more than 2^32 pictures", source->path);
    layout->count = source->files.count;
    layout->files = sr_alloc_array(layout->count, sizeof *layout->files, "layout");
    if (layout->files == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < layout->count; i++)
        layout->files[i] = (sr_layout_file){.source = (uint32_t)i, .split = -1};
    return SR_OK;
}

// How to make the name of a class UTF-8.
static const char *cure_name(const sr_source *source, const sr_layout *layout) {
    if (layout->names_given || source->list != NULL)
        return "save its file as UTF-8 (iconv -f latin1 -t utf-8)";
    if (source->folder < 0)
        return "unpack the archive and rename it (convmv -f cp437 -t utf8 changes whole folders)";
    return "rename it (convmv -f latin1 -t utf8 changes whole folders)";
}

// Checkpoints, tables and other programs expect names in UTF-8.
static sr_status check_class_names(const sr_source *source, const sr_layout *layout) {
    for (int i = 0; i < layout->class_count; i++)
        if (!sr_text_is_utf8(layout->classes[i]))
            return SR_FAIL(SR_E_DATA, "%s: the name of class %d, '%s', is not UTF-8; %s",
                           source->path, i, layout->classes[i], cure_name(source, layout));
    return SR_OK;
}

// Warns of classes that no picture has: gaps between numbers, or names that do not occur.
static sr_status tell_unused(const sr_source *source, const sr_layout *layout) {
    sr_few_names unused = {0};
    if (layout->schema != SR_SCHEMA_CLASS || layout->class_count == 0)
        return SR_OK;
    bool *met = sr_alloc_array((size_t)layout->class_count, sizeof *met, "classes");
    if (met == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < layout->count; i++)
        if (layout->files[i].split >= 0)
            met[layout->files[i].label] = true;
    for (int c = 0; c < layout->class_count; c++)
        if (!met[c])
            sr_few_names_add(&unused, layout->classes[c], strlen(layout->classes[c]));
    sr_free(met);
    if (unused.count > 0)
        SR_WARN("%s: no picture has %s %s; the data set still has %d classes", source->path,
                unused.count == 1 ? "class" : "classes", unused.text, layout->class_count);
    return SR_OK;
}

// Warns of names of classes that differ only in case or in space around them.
static sr_status tell_alike(const sr_source *source, const sr_layout *layout) {
    sr_name_table folded = {0};
    sr_few_names alike = {0};
    sr_arena arena;
    sr_status status = SR_OK;
    sr_arena_init(&arena);
    for (int c = 0; c < layout->class_count && status == SR_OK && !layout->names_given; c++) {
        uint32_t at;
        const size_t before = folded.count;
        char *name = sr_arena_strdup(&arena, layout->classes[c] + strspn(layout->classes[c], " "));
        size_t bytes = name != NULL ? strlen(name) : 0;
        while (bytes > 0 && name[bytes - 1] == ' ')
            bytes--;
        for (size_t i = 0; i < bytes; i++)
            name[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
        status = name != NULL ? sr_name_table_get(&folded, &arena, name, bytes, &at) : SR_E_MEMORY;
        if (status == SR_OK && folded.count == before)
            sr_few_names_add(&alike, layout->classes[c], strlen(layout->classes[c]));
    }
    if (alike.count > 0)
        SR_WARN("%s: other classes have names that differ from these only in case or in space "
                "(%s): they are different classes",
                source->path, alike.text);
    sr_name_table_release(&folded);
    sr_arena_release(&arena);
    return status;
}

static sr_status make(sr_source *source, sr_layout *out) {
    SR_TRY(read_class_map(out));
    if (out->options.class_names != NULL)
        SR_TRY(read_class_names(out->options.class_names, out));
    SR_TRY(source->format->lay_out(source, out));
    SR_TRY(settle_class_map(source, out));
    SR_TRY(check_class_names(source, out));
    SR_TRY(tell_alike(source, out));
    SR_TRY(sr_annotations_end(&out->annotations));
    uint64_t assigned = 0;
    for (size_t i = 0; i < out->count; i++)
        if (out->files[i].split >= 0) {
            out->split_count[out->files[i].split]++;
            assigned++;
        }
    if (assigned > 0)
        return tell_unused(source, out);
    return SR_FAIL(
        SR_E_DATA,
        "%s: nothing to pack (read as %s): %zu pictures found, %zu files refused%s%s%s%s",
        source->path, source->format->help, source->files.count, source->refused_count,
        source->refused_count ? ", the first: " : "",
        source->refused_count ? source->refused[0].path : "", source->refused_count ? ": " : "",
        source->refused_count ? source->refused[0].reason : "");
}

sr_status sr_layout_make(sr_source *source, const sr_layout_options *options, sr_layout *out) {
    sr_layout layout = {0};
    if (options != NULL)
        layout.options = *options;
    sr_arena_init(&layout.arena);
    sr_spool_init(&layout.annotations.spool, source->spool.folder);
    sr_status status = make(source, &layout);
    if (status != SR_OK) {
        sr_layout_release(&layout);
        return status;
    }
    *out = layout;
    return SR_OK;
}

void sr_layout_release(sr_layout *layout) {
    sr_free(layout->files);
    sr_free(layout->classes);
    sr_free(layout->labels);
    sr_spool_release(&layout->annotations.spool);
    sr_arena_release(&layout->arena);
    *layout = (sr_layout){0};
}
