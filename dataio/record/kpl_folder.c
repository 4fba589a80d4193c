// SPDX-License-Identifier: Apache-2.0
// The files of a KPLRecord directory, and its table of contents N.sums (kpl_folder_internal.h).
#include "dataio/record/file_stamp_internal.h"
#include "dataio/record/kpl_folder_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/hash.h"

#define SIDE_MAX ((size_t)64 << 20) // of N.meta and N.prop

// -- names -------------------------------------------------------------------------------------

char *sr_kpl_path(const char *folder, const char *stem, const char *extension) {
    char name[KPL_STEM_MAX + 8];
    (void)snprintf(name, sizeof name, "%s.%s", stem, extension);
    return sr_path_join(folder, name);
}

static bool has(const char *folder, const char *stem, const char *extension) {
    char *path = sr_kpl_path(folder, stem, extension);
    bool there = path != NULL && sr_path_exists(path);
    sr_free(path);
    return there;
}

// Two of the three required files suffice: opening then reports the missing one.
static bool is_stem(const char *folder, const char *stem) {
    return has(folder, stem, "data") + has(folder, stem, "index") + has(folder, stem, "meta") >= 2;
}

bool sr_kpl_find(const char *folder, char stem[KPL_STEM_MAX]) {
    (void)snprintf(stem, KPL_STEM_MAX, KPL_USUAL_STEM);
    if (is_stem(folder, stem))
        return true;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return false;
    bool found = false;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        char name[KPL_STEM_MAX];
        if (dot == NULL || strcmp(dot, ".data") != 0 || dot == entry->d_name ||
            dot - entry->d_name >= KPL_STEM_MAX)
            continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)(dot - entry->d_name), entry->d_name);
        if ((found && strcmp(name, stem) > 0) || !is_stem(folder, name))
            continue;
        (void)snprintf(stem, KPL_STEM_MAX, "%s", name);
        found = true;
    }
    (void)closedir(dir);
    return found;
}

// -- opening -----------------------------------------------------------------------------------

// A missing file is not an error.
static sr_status read_side(const char *folder, const char *stem, const char *extension, size_t most,
                           kpl_file *out) {
    out->path = sr_kpl_path(folder, stem, extension);
    if (out->path == NULL)
        return SR_E_MEMORY;
    if (!sr_path_exists(out->path))
        return SR_OK;
    SR_TRY(sr_file_read(out->path, most, &out->data, &out->bytes));
    out->hash = sr_hash64(out->data, out->bytes);
    return SR_OK;
}

static sr_status check_files(kpl_folder *f) {
    struct stat info;
    if (f->index.bytes == 0)
        return SR_FAIL(SR_E_DATA,
                       "%s is %s: its writer stopped before it closed the data set; write it again",
                       f->index.path, f->index.data ? "empty" : "missing");
    if (f->meta.data == NULL)
        return SR_FAIL(SR_E_DATA, "%s, the protocol, is missing; restore it, or write it again",
                       f->meta.path);
    if (stat(f->data_path, &info) != 0)
        return SR_FAIL(SR_E_DATA, "%s, the records: %s; restore it, or write the data set again",
                       f->data_path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return SR_FAIL(SR_E_DATA, "%s: not a regular file", f->data_path);
    f->data_bytes = (uint64_t)info.st_size;
    f->data_stamp = sr_file_stamp_of(&info);
    return SR_OK;
}

sr_status sr_kpl_open(const char *folder, kpl_folder *out) {
    kpl_folder f = {0};
    char stem[KPL_STEM_MAX];
    if (!sr_kpl_find(folder, stem))
        return SR_FAIL(SR_E_NOT_FOUND, "%s: not a KPLRecord directory", folder);
    f.data_path = sr_kpl_path(folder, stem, "data");
    sr_status status = f.data_path ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK)
        status = read_side(folder, stem, "index", KPL_INDEX_MAX, &f.index);
    if (status == SR_OK)
        status = read_side(folder, stem, "meta", SIDE_MAX, &f.meta);
    if (status == SR_OK)
        status = read_side(folder, stem, "prop", SIDE_MAX, &f.prop);
    if (status == SR_OK)
        status = read_side(folder, stem, "sums", KPL_INDEX_MAX, &f.sums);
    if (status == SR_OK)
        status = check_files(&f);
    if (status != SR_OK) {
        sr_kpl_release(&f);
        return status;
    }
    *out = f;
    return SR_OK;
}

void sr_kpl_release(kpl_folder *folder) {
    kpl_file *const files[] = {&folder->index, &folder->meta, &folder->prop, &folder->sums};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        sr_free(files[i]->path);
        sr_free(files[i]->data);
    }
    sr_free(folder->data_path);
    *folder = (kpl_folder){0};
}

sr_status sr_kpl_entries(const kpl_folder *f, sr_index_entry **out, int64_t *count) {
    uint64_t *offsets;
    size_t n;
    sr_status status = sr_index_parse(f->index.data, f->index.bytes, &offsets, &n);
    if (status != SR_OK) {
        sr_error_prefix("%s", f->index.path);
        return status;
    }
    sr_index_entry *entries = sr_alloc_array(n, sizeof *entries, "index of a KPLRecord directory");
    if (entries == NULL)
        status = SR_E_MEMORY;
    else if (offsets[n] != f->data_bytes)
        status = SR_FAIL(SR_E_DATA, "%s has %llu bytes, %s says %llu: %s", f->data_path,
                         (unsigned long long)f->data_bytes, f->index.path,
                         (unsigned long long)offsets[n],
                         f->data_bytes < offsets[n] ? "truncated" : "something was appended");
    for (size_t i = 0; i < n && status == SR_OK; i++)
        entries[i] = (sr_index_entry){.offset = offsets[i], .bytes = offsets[i + 1] - offsets[i]};
    sr_free(offsets);
    if (status != SR_OK) {
        sr_free(entries);
        return status;
    }
    *out = entries;
    *count = (int64_t)n;
    return SR_OK;
}

// -- N.sums ------------------------------------------------------------------------------------

sr_status sr_kpl_sums_encode(const kpl_folder *f, const shard_header *header,
                             const sr_index_entry *entries, uint8_t **out, size_t *bytes) {
    uint8_t *table;
    size_t n;
    SR_TRY(sr_contents_encode(header, entries, &table, &n));
    uint8_t *data = sr_realloc(table, n, n + KPL_SUMS_TAIL, "checksums of a KPLRecord directory");
    if (data == NULL) {
        sr_free(table);
        return SR_E_MEMORY;
    }
    uint8_t *tail = data + n;
    put_u64(tail, f->index.hash);
    put_u64(tail + 8, f->meta.hash);
    put_u64(tail + 16, f->prop.hash);
    put_u64(tail + 24, sr_hash64(tail, 24));
    *out = data;
    *bytes = n + KPL_SUMS_TAIL;
    return SR_OK;
}

static sr_status check_tail(const kpl_folder *f, const uint8_t *tail) {
    const kpl_file *const files[] = {&f->index, &f->meta, &f->prop};
    if (sr_hash64(tail, 24) != get_u64(tail + 24))
        return SR_FAIL(SR_E_CHECKSUM, "%s: bits have changed after the index; restore a copy",
                       f->sums.path);
    for (size_t i = 0; i < 3; i++) {
        if (files[i]->hash == get_u64(tail + 8 * i))
            continue;
        return SR_FAIL(SR_E_CHECKSUM,
                       "%s has changed since %s was made: restore it or, if the data set was "
                       "rewritten, remove %s",
                       files[i]->path, f->sums.path, f->sums.path);
    }
    return SR_OK;
}

static sr_status check_sums(const kpl_folder *f, const uint8_t *data, size_t bytes, size_t used,
                            const sr_data_file *file) {
    if (bytes - used != KPL_SUMS_TAIL)
        return SR_FAIL(SR_E_DATA, "%s: %s; restore a copy", f->sums.path,
                       bytes - used < KPL_SUMS_TAIL ? "truncated" : "something was appended");
    SR_TRY(check_tail(f, data + used));
    if (file->file_bytes == f->data_bytes)
        return SR_OK;
    return SR_FAIL(SR_E_DATA,
                   "%s has %llu bytes, %s says %llu: %s; restore it or, if the data set was "
                   "rewritten, remove %s",
                   f->data_path, (unsigned long long)f->data_bytes, f->sums.path,
                   (unsigned long long)file->file_bytes,
                   f->data_bytes < file->file_bytes ? "truncated" : "something was appended",
                   f->sums.path);
}

sr_status sr_kpl_sums_decode(const kpl_folder *f, const uint8_t *data, size_t bytes,
                             sr_data_file *out) {
    size_t used = 0;
    sr_data_file file;
    SR_TRY(sr_contents_decode(f->sums.path, data, bytes, &file, &used));
    sr_status status = check_sums(f, data, bytes, used, &file);
    if (status != SR_OK) {
        sr_data_file_release(&file);
        return status;
    }
    *out = file;
    return SR_OK;
}
