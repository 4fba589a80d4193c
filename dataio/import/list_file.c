// SPDX-License-Identifier: Apache-2.0
// Lists of pictures (list_file.h). Empty lines are skipped; a line may end with CR LF; there are no
// comments. A path may contain any character except tab and line break; a field that is in quotes,
// as R writes all texts, is what is between them, with "" for a quote. A byte order mark, as
// Windows programs write it, is skipped.
#include "dataio/import/list_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataio/import/path_text.h"
#include "dataio/record/split.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"

// Splits the line at its tabs; returns the number of fields, at most 4.
static int cut(char *line, char *fields[4]) {
    int count = 0;
    for (char *at = line; at != NULL && count < 4; count++) {
        fields[count] = at;
        at = strchr(at, '\t');
        if (at != NULL)
            *at++ = '\0';
    }
    return count;
}

// Removes quotes around a field.
static char *unquote(char *text) {
    const size_t bytes = strlen(text);
    if (bytes < 2 || text[0] != '"' || text[bytes - 1] != '"')
        return text;
    size_t kept = 0;
    for (size_t i = 1; i + 1 < bytes; i++) {
        text[kept++] = text[i];
        i += text[i] == '"' && text[i + 1] == '"' && i + 2 < bytes;
    }
    text[kept] = '\0';
    return text;
}

// Without space and quotes around it.
static char *trim(char *text) {
    text += strspn(text, " ");
    for (size_t n = strlen(text); n > 0 && text[n - 1] == ' '; n--)
        text[n - 1] = '\0';
    return unquote(text);
}

// Replaces a path by its normalised form, which is never longer. False where it is too long.
static bool normalise(char *path, sr_path_separator separator) {
    char out[SR_PATH_TEXT_MAX];
    if (!sr_path_normalise(path, separator, out))
        return false;
    memcpy(path, out, strlen(out) + 1);
    return true;
}

static sr_status take_line(sr_list_file *list, const char *name, size_t number, char *line) {
    char *fields[4];
    const int count = cut(line, fields);
    fields[0] = unquote(fields[0]);
    if (!normalise(fields[0], SR_PATH_SLASH))
        return SR_FAIL(SR_E_DATA, "%s:%zu: a path of more than %d bytes", name, number,
                       SR_PATH_TEXT_MAX - 2);
    if (count < 2 || count > 3 || fields[0][0] == '\0')
        return SR_FAIL(SR_E_DATA, "%s:%zu: expected: path TAB label [TAB split]%s", name, number,
                       count < 2 ? "; the line has no TAB" : "");
    sr_listed_picture entry = {.path = fields[0], .label = trim(fields[1]), .split = -1};
    if (count == 3) {
        const char *split = trim(fields[2]);
        entry.split = (int8_t)sr_split_named(split, strlen(split));
        if (entry.split < 0)
            return SR_FAIL(SR_E_DATA, "%s:%zu: split '%.40s' is not train, val or test", name,
                           number, split);
    }
    SR_TRY(sr_grow(&list->entries, &list->capacity, list->count + 1, sizeof entry, "list"));
    ((sr_listed_picture *)list->entries)[list->count++] = entry;
    return SR_OK;
}

sr_status sr_list_file_parse(const char *name, void *text, size_t bytes, sr_list_file *out) {
    sr_list_file list = {.text = text};
    sr_status status = SR_OK;
    size_t number = 1;
    if (memchr(text, 0, bytes) != NULL)
        status = SR_FAIL(SR_E_DATA, "%s: the list contains zero bytes; save it as UTF-8", name);
    char *begin = text;
    if (strncmp(begin, "\xef\xbb\xbf", 3) == 0)
        begin += 3;
    for (char *at = begin; status == SR_OK && *at != '\0'; number++) {
        const size_t length = strcspn(at, "\n");
        char *next = at + length + (at[length] == '\n');
        at[length] = '\0';
        if (length > 0 && at[length - 1] == '\r')
            at[length - 1] = '\0';
        if (*at != '\0')
            status = take_line(&list, name, number, at);
        at = next;
    }
    if (status == SR_OK && list.count == 0)
        status = SR_FAIL(SR_E_DATA, "%s: an empty list", name);
    if (status != SR_OK) {
        sr_list_file_release(&list);
        return status;
    }
    *out = list;
    return SR_OK;
}

// -- the paths of a source ---------------------------------------------------------------------

static bool exists(const sr_source *source, const char *path) {
    return source->folder >= 0 ? faccessat(source->folder, path, F_OK, 0) == 0
                               : sr_file_list_find(&source->files, path) != NULL;
}

// top: the folder of the source as an absolute path, or NULL.
static void resolve(const sr_source *source, const char *top, sr_listed_picture *entry) {
    char whole[SR_PATH_TEXT_MAX];
    const size_t n = top ? strlen(top) : 0;
    if (strchr(entry->path, '\\') != NULL && !exists(source, entry->path))
        (void)normalise(entry->path, SR_PATH_ANY);
    if (n == 0 || (entry->path[0] != '/' && strncmp(entry->path, "../", 3) != 0))
        return;
    // A path that leads out of the folder may lead back in.
    (void)snprintf(whole, sizeof whole, "%s", entry->path[0] == '/' ? entry->path : "");
    if ((whole[0] != '\0' || sr_path_below(top, entry->path, whole)) &&
        strncmp(whole, top, n) == 0 && whole[n] == '/')
        memmove(entry->path, whole + n + 1, strlen(whole + n + 1) + 1);
}

static int by_path(const void *a, const void *b) {
    const sr_listed_picture *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    order = order ? order : strcmp(x->label, y->label);
    return order ? order : x->split - y->split;
}

// Keeps one entry of each path.
static void sort_list(sr_list_file *list) {
    sr_listed_picture *entries = list->entries;
    size_t kept = 0;
    if (list->count > 0)
        qsort(entries, list->count, sizeof *entries, by_path);
    for (size_t i = 0; i < list->count; i++) {
        if (kept == 0 || strcmp(entries[kept - 1].path, entries[i].path) != 0)
            entries[kept++] = entries[i];
        else if (by_path(&entries[kept - 1], &entries[i]) != 0)
            entries[kept - 1].twice = true;
    }
    list->count = kept;
}

sr_status sr_list_file_open(const sr_source *source, sr_list_file *out) {
    void *text;
    size_t bytes;
    SR_TRY(sr_file_read(source->list, SR_LIST_FILE_MAX_BYTES, &text, &bytes));
    SR_TRY(sr_list_file_parse(source->list, text, bytes, out));
    char *top = source->folder >= 0 ? realpath(source->path, NULL) : NULL;
    for (size_t i = 0; i < out->count; i++)
        resolve(source, top, (sr_listed_picture *)out->entries + i);
    free(top);
    sort_list(out);
    return SR_OK;
}

void sr_list_file_release(sr_list_file *list) {
    sr_free(list->text);
    sr_free(list->entries);
    *list = (sr_list_file){0};
}
