// SPDX-License-Identifier: Apache-2.0
// Class maps (class_map.h). There are no expressions, ranges of numbers or names of colours.
#include "dataio/formats/class_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/image/mask_png.h"
#include "kernels/base/file.h"
#include "kernels/base/text.h"

#define TEXT_BYTES_MAX ((size_t)16 << 20)
#define SEPARATORS " \t,:"

static const struct {
    const char *name, *help, *text;
} known[] = {
#define CLASS_MAP(name, help, text) {name, help, text},
#include "dataio/formats/class_map_known.inc"
#undef CLASS_MAP
};
enum { KNOWN = sizeof known / sizeof *known };

const char *sr_class_map_name(size_t index) {
    return index < KNOWN ? known[index].name : NULL;
}

void sr_class_map_numbers(bool zero_ignored, sr_class_map *out) {
    *out = (sr_class_map){.other = SR_CLASS_UNKNOWN};
    for (int i = 0; i < 256; i++)
        out->ids[i] = (int16_t)(i == SR_MASK_VOID || !zero_ignored ? i : i - 1);
    if (zero_ignored)
        out->ids[0] = SR_MASK_VOID;
}

// -- parsing -----------------------------------------------------------------------------------

typedef struct parsing {
    const char *name; // of the text
    int line;
    sr_arena *arena;
    sr_class_map *map;
    void *names, *colors; // const char *, sr_class_color
    size_t name_capacity, color_capacity;
    bool any_value, any_other;
} parsing;

// One line: its numbers and its name.
typedef struct entry {
    bool other; // "*"
    int numbers[3], count;
    const char *name;
    size_t bytes;
} entry;

static bool means_nothing(const char *name, size_t bytes) {
    static const char *const words[] = {"ignore", "void", "unlabeled", "unlabelled"};
    char word[16];
    (void)snprintf(word, sizeof word, "%.*s", (int)(bytes < 15 ? bytes : 15), name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == bytes && sr_text_same_word(word, words[i]))
            return true;
    return false;
}

// The class of a name, which is new or was named before.
static sr_status class_of(parsing *p, const entry *e, int16_t *out) {
    sr_class_map *map = p->map;
    if (means_nothing(e->name, e->bytes)) {
        *out = SR_MASK_VOID;
        return SR_OK;
    }
    for (int i = 0; i < map->class_count; i++)
        if (strlen(map->names[i]) == e->bytes && memcmp(map->names[i], e->name, e->bytes) == 0) {
            *out = (int16_t)i;
            return SR_OK;
        }
    if (map->class_count == SR_MASK_VOID)
        return SR_FAIL(SR_E_DATA, "%s:%d: more than %d classes", p->name, p->line, SR_MASK_VOID);
    SR_TRY(sr_grow(&p->names, &p->name_capacity, (size_t)map->class_count + 1, sizeof(char *),
                   "classes"));
    map->names = p->names;
    char *copy = sr_arena_alloc(p->arena, e->bytes + 1);
    if (copy == NULL)
        return SR_E_MEMORY;
    memcpy(copy, e->name, e->bytes);
    map->names[map->class_count] = copy;
    *out = (int16_t)map->class_count++;
    return SR_OK;
}

// Reads a number that ends at a separator or at the end of the line.
static bool take_number(const char **at, const char *end, int *out) {
    const char *p = *at;
    int value = 0;
    while (p < end && *p >= '0' && *p <= '9' && value < 100000)
        value = 10 * value + (*p++ - '0');
    if (p == *at || (p < end && strchr(SEPARATORS, *p) == NULL))
        return false;
    *out = value;
    *at = p;
    return true;
}

static void skip_separators(const char **at, const char *end) {
    while (*at < end && strchr(SEPARATORS, **at) != NULL)
        ++*at;
}

// Splits a line. Three numbers before a name are a colour; one is an id, and others belong to the
// name.
static sr_status split(const parsing *p, const char *at, const char *end, entry *out) {
    entry e = {.other = *at == '*'};
    const char *after_first = at + 1;
    at += e.other;
    while (!e.other && e.count < 3) {
        skip_separators(&at, end);
        if (!take_number(&at, end, &e.numbers[e.count]))
            break;
        if (e.count++ == 0)
            after_first = at;
    }
    if (e.count == 2) {
        e.count = 1;
        at = after_first;
    }
    skip_separators(&at, end);
    if ((!e.other && e.count == 0) || at == end)
        return SR_FAIL(SR_E_DATA,
                       "%s:%d: expected 'ID NAME', 'R G B NAME' or '* NAME', with numbers from 0 "
                       "to 255",
                       p->name, p->line);
    for (int i = 0; i < e.count; i++)
        if (e.numbers[i] > 255)
            return SR_FAIL(SR_E_DATA, "%s:%d: %d is not a number from 0 to 255", p->name, p->line,
                           e.numbers[i]);
    e.name = at;
    e.bytes = (size_t)(end - at);
    *out = e;
    return SR_OK;
}

static sr_status fail_twice(const parsing *p, const char *what) {
    return SR_FAIL(SR_E_DATA, "%s:%d: %s already has another class in an earlier line", p->name,
                   p->line, what);
}

static sr_status add_color(parsing *p, const entry *e, int16_t class_number) {
    sr_class_map *map = p->map;
    const uint32_t rgb =
        (uint32_t)e->numbers[0] << 16 | (uint32_t)e->numbers[1] << 8 | (uint32_t)e->numbers[2];
    sr_class_color *colors = p->colors;
    for (size_t i = 0; i < map->color_count; i++)
        if (colors[i].rgb == rgb)
            return colors[i].class_number == class_number ? SR_OK : fail_twice(p, "this colour");
    SR_TRY(
        sr_grow(&p->colors, &p->color_capacity, map->color_count + 1, sizeof *colors, "colours"));
    colors = p->colors;
    colors[map->color_count++] = (sr_class_color){.rgb = rgb, .class_number = class_number};
    return SR_OK;
}

static sr_status add_id(parsing *p, const entry *e, int16_t class_number) {
    int16_t *id = &p->map->ids[e->numbers[0]];
    if (*id != SR_CLASS_UNKNOWN && *id != class_number)
        return fail_twice(p, "this id");
    *id = class_number;
    return SR_OK;
}

static sr_status add_line(parsing *p, const char *at, const char *end) {
    entry e = {.name = ""};
    int16_t class_number = SR_CLASS_UNKNOWN;
    SR_TRY(split(p, at, end, &e));
    SR_TRY(class_of(p, &e, &class_number));
    if (e.other) {
        if (p->any_other && p->map->other != class_number)
            return fail_twice(p, "'*'");
        p->any_other = true;
        p->map->other = class_number;
        return SR_OK;
    }
    const bool color = e.count == 3;
    if (p->any_value && color != p->map->has_colors)
        return SR_FAIL(SR_E_DATA, "%s:%d: %s, where earlier lines have %s", p->name, p->line,
                       color ? "a colour" : "an id", color ? "ids" : "colours");
    p->any_value = true;
    p->map->has_colors = color;
    return color ? add_color(p, &e, class_number) : add_id(p, &e, class_number);
}

static int by_rgb(const void *a, const void *b) {
    const sr_class_color *x = a, *y = b;
    return (x->rgb > y->rgb) - (x->rgb < y->rgb);
}

static sr_status add_lines(parsing *p, const char *text) {
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) // a byte order mark
        text += 3;
    for (const char *at = text; *at != '\0'; p->line++) {
        const char *end = at + strcspn(at, "\r\n"), *next = end + strspn(end, "\r");
        while (end > at && strchr(SEPARATORS, end[-1]) != NULL)
            end--;
        skip_separators(&at, end);
        if (at < end && *at != '#')
            SR_TRY(add_line(p, at, end));
        at = next + (*next == '\n');
    }
    if (p->map->class_count == 0)
        return SR_FAIL(SR_E_DATA, "%s: no class; expected lines 'ID NAME' or 'R G B NAME'",
                       p->name);
    return SR_OK;
}

// Applies "*", and moves the tables to the arena.
static sr_status settle(parsing *p) {
    sr_class_map *map = p->map;
    for (int i = 0; i < 256; i++)
        if (map->ids[i] == SR_CLASS_UNKNOWN)
            map->ids[i] = i == SR_MASK_VOID ? SR_MASK_VOID : map->other;
    const size_t name_bytes = (size_t)map->class_count * sizeof *map->names;
    const size_t color_bytes = map->color_count * sizeof *map->colors;
    const char **names = sr_arena_alloc(p->arena, name_bytes);
    sr_class_color *colors = sr_arena_alloc(p->arena, color_bytes + 1);
    if (names == NULL || colors == NULL)
        return SR_E_MEMORY;
    memcpy(names, p->names, name_bytes);
    if (color_bytes > 0) {
        memcpy(colors, p->colors, color_bytes);
        qsort(colors, map->color_count, sizeof *colors, by_rgb);
    }
    map->names = names;
    map->colors = colors;
    return SR_OK;
}

sr_status sr_class_map_parse(const char *name, const char *text, sr_arena *arena,
                             sr_class_map *out) {
    sr_class_map map = {.other = SR_CLASS_UNKNOWN};
    parsing p = {.name = name, .line = 1, .arena = arena, .map = &map};
    for (int i = 0; i < 256; i++)
        map.ids[i] = SR_CLASS_UNKNOWN;
    sr_status status = add_lines(&p, text);
    if (status == SR_OK)
        status = settle(&p);
    sr_free(p.names);
    sr_free(p.colors);
    if (status == SR_OK)
        *out = map;
    return status;
}

// -- reading -----------------------------------------------------------------------------------

static sr_status parse_file(const char *path, sr_arena *arena, sr_class_map *out) {
    void *text;
    size_t bytes;
    SR_TRY(sr_file_read(path, TEXT_BYTES_MAX, &text, &bytes));
    const sr_status status =
        memchr(text, 0, bytes) != NULL
            ? SR_FAIL(SR_E_DATA, "%s: zero bytes in a class map; save it as UTF-8", path)
            : sr_class_map_parse(path, text, arena, out);
    sr_free(text);
    return status;
}

static sr_status fail_missing(const char *path) {
    const char *names[KNOWN];
    sr_text list;
    sr_text_init(&list);
    for (size_t i = 0; i < KNOWN; i++) {
        names[i] = known[i].name;
        sr_text_add(&list, "%s%s (%s)", i > 0 ? ", " : "", known[i].name, known[i].help);
    }
    const char *nearest = sr_text_nearest(path, names, KNOWN);
    const sr_status status = SR_FAIL(
        SR_E_USAGE, "%s: no such class map%s%s%s; name a file, or one of: %s", path,
        nearest ? ", did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "", list.data);
    sr_text_release(&list);
    return status;
}

bool sr_class_map_is_file(const char *path) {
    return sr_path_exists(path) && !sr_path_is_folder(path);
}

sr_status sr_class_map_read(const char *path, sr_arena *arena, sr_class_map *out) {
    if (sr_class_map_is_file(path))
        return parse_file(path, arena, out);
    for (size_t i = 0; i < KNOWN; i++)
        if (strcmp(known[i].name, path) == 0)
            return sr_class_map_parse(known[i].name, known[i].text, arena, out);
    return fail_missing(path);
}

int sr_class_map_color(const sr_class_map *map, uint32_t rgb) {
    size_t low = 0, high = map->color_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (map->colors[middle].rgb < rgb)
            low = middle + 1;
        else
            high = middle;
    }
    return low < map->color_count && map->colors[low].rgb == rgb ? map->colors[low].class_number
                                                                 : map->other;
}
