// SPDX-License-Identifier: Apache-2.0
// Which of the files that a kind of source offers are listed or refused (source.h).
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dataio/image/picture.h"
#include "dataio/import/source_internal.h"
#include "kernels/base/memory.h"

// Folders of macOS's archives, of thumbnails, previews and deleted files on disks of Synology and
// QNAP, and of Windows and Linux at the top of a disk.
static const char *const system_folders[] = {
    "__MACOSX", "@eaDir",    "@__thumb", "@Recycle",     "@Recently-Snapshot",        "@tmp",
    "#recycle", "#snapshot", "RECYCLER", "$RECYCLE.BIN", "System Volume Information", "lost+found",
};

static bool is_hidden_part(const char *part, size_t bytes) {
    for (size_t i = 0; i < sizeof system_folders / sizeof *system_folders; i++)
        if (strlen(system_folders[i]) == bytes && strncasecmp(part, system_folders[i], bytes) == 0)
            return true;
    return *part == '.' || (bytes > 1 && part[bytes - 1] == '~'); // editors' copies: 1.jpg~
}

bool sr_source_is_hidden(const char *path) {
    for (const char *part = path; part != NULL;) {
        if (is_hidden_part(part, strcspn(part, "/")))
            return true;
        part = strchr(part, '/');
        part = part ? part + 1 : NULL;
    }
    return false;
}

sr_status sr_source_note_folder(sr_source *source, const char *path, size_t bytes) {
    sr_file_list *list = &source->folders;
    if (list->count > 0) { // files of one folder often follow each other
        const char *last = list->items[list->count - 1].path;
        if (strlen(last) == bytes && memcmp(last, path, bytes) == 0)
            return SR_OK;
    }
    void *items = list->items;
    SR_TRY(sr_grow(&items, &list->capacity, list->count + 1, sizeof *list->items, "folders"));
    list->items = items;
    char *copy = sr_arena_alloc(&source->arena, bytes + 1);
    if (copy == NULL)
        return SR_E_MEMORY;
    memcpy(copy, path, bytes);
    list->items[list->count++] = (sr_source_file){.path = copy};
    return SR_OK;
}

sr_status sr_source_refuse(sr_source *source, const char *path, const char *reason) {
    void *refused = source->refused;
    SR_TRY(sr_grow(&refused, &source->refused_capacity, source->refused_count + 1,
                   sizeof *source->refused, "refused files"));
    source->refused = refused;
    sr_refused_file entry = {sr_arena_strdup(&source->arena, path),
                             sr_arena_strdup(&source->arena, reason)};
    if (entry.path == NULL || entry.reason == NULL)
        return SR_E_MEMORY;
    source->refused[source->refused_count++] = entry;
    return SR_OK;
}

sr_status sr_source_refuse_for(sr_source *source, const char *path, const char *fmt, ...) {
    char reason[512];
    va_list arguments;
    va_start(arguments, fmt);
    (void)vsnprintf(reason, sizeof reason, fmt, arguments);
    va_end(arguments);
    return sr_source_refuse(source, path, reason);
}

sr_status sr_source_offer(sr_source *source, const char *path, const uint8_t *head,
                          size_t head_bytes, uint64_t bytes, sr_offer *out) {
    *out = SR_OFFER_NOTHING;
    if (!sr_source_is_hidden(path))
        return sr_source_offer_listed(source, path, head, head_bytes, bytes, out);
    source->hidden++;
    return SR_OK;
}

sr_status sr_source_offer_listed(sr_source *source, const char *path, const uint8_t *head,
                                 size_t head_bytes, uint64_t bytes, sr_offer *out) {
    const char *name;
    *out = SR_OFFER_NOTHING;
    switch (sr_picture_sniff(head, head_bytes, &name)) {
    case SR_PICTURE_JPEG:
    case SR_PICTURE_PNG:
        *out = SR_OFFER_PICTURE;
        return SR_OK;
    case SR_PICTURE_OTHER:
        return sr_source_refuse_for(source, path, "%s is not supported; convert it to JPEG or PNG",
                                    name);
    case SR_PICTURE_NONE:
        break;
    }
    if (sr_picture_named(path))
        return sr_source_refuse(source, path,
                                head_bytes ? "not a picture: its content is neither JPEG nor PNG"
                                           : "empty file");
    if (source->wants(path, head, head_bytes, bytes))
        *out = SR_OFFER_WANTED;
    else
        source->other++;
    return SR_OK;
}

sr_status sr_source_add(sr_source *source, const sr_source_file *file, sr_offer as) {
    const bool picture = as == SR_OFFER_PICTURE;
    sr_file_list *list = picture ? &source->files : &source->wanted;
    if (picture && file->bytes > SR_PICTURE_MAX_BYTES)
        return sr_source_refuse(source, file->path, "the file is over the limit of 256 MiB");
    void *items = list->items;
    SR_TRY(sr_grow(&items, &list->capacity, list->count + 1, sizeof *list->items, "list of files"));
    list->items = items;
    sr_source_file *added = &list->items[list->count];
    *added = *file;
    added->path = sr_arena_strdup(&source->arena, file->path);
    if (added->path == NULL)
        return SR_E_MEMORY;
    list->count++;
    source->bytes += picture ? file->bytes : 0;
    return SR_OK;
}
