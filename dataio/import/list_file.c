// SPDX-License-Identifier: Apache-2.0
// Lists of pictures (list_file.h). Empty lines are skipped; a line may end with CR LF; there are no
// comments and no quotes, as a path may contain any character except tab and line break. A byte
// order mark, as Windows programs write it, is skipped.
#include "dataio/import/list_file.h"

#include <stdlib.h>
#include <string.h>

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

static sr_status take_line(sr_list_file *list, const char *name, size_t number, char *line) {
    char *fields[4];
    const int count = cut(line, fields);
    if (count < 2 || count > 3 || fields[0][0] == '\0' || fields[1][0] == '\0')
        return SR_FAIL(SR_E_DATA, "%s:%zu: expected: path TAB label [TAB split]", name, number);
    sr_listed_picture entry = {.path = fields[0], .label = fields[1], .split = -1};
    if (count == 3) {
        entry.split = (int8_t)sr_split_find(fields[2], strlen(fields[2]));
        if (entry.split < 0)
            return SR_FAIL(SR_E_DATA, "%s:%zu: split '%.40s' is not train, val or test", name,
                           number, fields[2]);
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
        status = SR_FAIL(SR_E_DATA, "%s: the list contains zero bytes", name);
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

sr_status sr_list_file_read(const char *path, sr_list_file *out) {
    void *text;
    size_t bytes;
    SR_TRY(sr_file_read(path, SR_LIST_FILE_MAX_BYTES, &text, &bytes));
    return sr_list_file_parse(path, text, bytes, out);
}

static int by_path(const void *a, const void *b) {
    const sr_listed_picture *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    order = order ? order : strcmp(x->label, y->label);
    return order ? order : x->split - y->split;
}

void sr_list_file_sort(sr_list_file *list) {
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

void sr_list_file_release(sr_list_file *list) {
    sr_free(list->text);
    sr_free(list->entries);
    *list = (sr_list_file){0};
}
