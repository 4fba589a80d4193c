// SPDX-License-Identifier: Apache-2.0
// The container of KPLRecord directories of any writer (files: kpl_folder_internal.h).
//
// A directory without N.sums is read completely when it is first opened, and N.sums is then written
// beside it, so that this happens once and every process sees the same. If the folder is not this
// user's own, or has anything of that name, the same bytes go to the user's cache folder, under a
// name that changes with the data. Where both fail, the result is used anyway and a warning is
// printed. Where a record is damaged already,
// no checksums are stored that would make it look intact: reading then checks records against their
// protocol and finds the damaged ones.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/record/container.h"
#include "dataio/record/dataset.h"
#include "dataio/record/kpl_folder_internal.h"
#include "kernels/base/cache_folder.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/text.h"

#define CACHED_NAME (8 + SR_SHA256_HEX)
#define REPORT_BYTES (UINT64_C(256) << 20) // reading more than this is reported

static bool is_kpl(const char *folder) {
    char stem[KPL_STEM_MAX];
    return sr_kpl_find(folder, stem);
}

static bool kpl_recognises(const char *path) {
    return sr_container_has_folder(path, is_kpl);
}

// -- loading -----------------------------------------------------------------------------------

// Names for messages: the file of the records, relative to the path that the user gave.
static sr_status name_file(const kpl_folder *f, const char *path, sr_data_file *file) {
    size_t n = strlen(path);
    file->path = sr_arena_strdup(&file->arena, f->data_path);
    if (file->path == NULL)
        return SR_E_MEMORY;
    file->name = file->path + n + (file->path[n] == '/');
    return SR_OK;
}

static sr_status parse_meta(const kpl_folder *f, sr_arena *arena, const sr_type **out) {
    sr_status status = sr_meta_parse(f->meta.data, f->meta.bytes, arena, out);
    if (status != SR_OK)
        sr_error_prefix("%s", f->meta.path);
    return status;
}

// The contents of N.index and N.meta, for reading records only.
static sr_status make_bare(const kpl_folder *f, sr_data_file *file) {
    sr_text meta;
    const sr_type *protocol = NULL;
    file->split = "";
    file->last = true;
    file->file_bytes = f->data_bytes;
    SR_TRY(parse_meta(f, &file->arena, &protocol));
    SR_TRY(sr_kpl_entries(f, &file->entries, &file->count));
    sr_text_init(&meta);
    sr_meta_print(protocol, KPL_USUAL_STEM, &meta);
    sr_status status = sr_text_check(&meta);
    if (status == SR_OK && (file->meta = sr_arena_strdup(&file->arena, meta.data)) == NULL)
        status = SR_E_MEMORY;
    sr_text_release(&meta);
    file->check = protocol;
    return status;
}

// "sums-HASH": of where the directory is and everything that says whether it is still the same.
static sr_status name_cached(const kpl_folder *f, char out[CACHED_NAME]) {
    char path[PATH_MAX], hex[SR_SHA256_HEX];
    uint8_t digest[SR_SHA256_BYTES];
    const uint64_t facts[] = {f->index.hash, f->meta.hash,        f->prop.hash,
                              f->data_bytes, f->data_stamp.inode, f->data_stamp.modified_ns};
    sr_sha256 *sha;
    if (realpath(f->data_path, path) == NULL)
        return sr_file_fail(f->data_path, "cannot be found", errno);
    SR_TRY(sr_sha256_create(&sha));
    sr_status status = sr_sha256_update(sha, path, strlen(path) + 1);
    if (status == SR_OK)
        status = sr_sha256_update(sha, facts, sizeof facts);
    if (status == SR_OK)
        status = sr_sha256_finish(sha, digest, hex);
    sr_sha256_free(sha);
    (void)snprintf(out, CACHED_NAME, "sums-%s", status == SR_OK ? hex : "");
    return status;
}

// False where the cache has no sums for this directory, or they do not match it.
static bool find_cached(const kpl_folder *f, sr_data_file *out) {
    char name[CACHED_NAME];
    void *data = NULL;
    size_t bytes;
    const bool found = name_cached(f, name) == SR_OK &&
                       sr_cache_read(name, KPL_INDEX_MAX, &data, &bytes) == SR_OK &&
                       sr_kpl_sums_decode(f, data, bytes, out) == SR_OK;
    sr_free(data);
    return found;
}

static void keep_sums(const kpl_folder *f, const uint8_t *data, size_t bytes) {
    char size[16], name[CACHED_NAME];
    if (sr_file_write_beside(f->sums.path, data, bytes) == SR_OK ||
        (name_cached(f, name) == SR_OK && sr_cache_write(name, data, bytes) == SR_OK))
        return;
    SR_WARN("%s; so each opening reads all of %s (%s) for its checksums: use a cache folder that "
            "you can write (SERRIED_CACHE), or a copy of the data set",
            sr_error_message(), f->data_path, sr_text_bytes(f->data_bytes, size));
}

// Makes N.sums for a directory without it.
static sr_status make_sums(const kpl_folder *f, sr_data_file *out) {
    char size[16];
    sr_arena arena;
    const sr_type *protocol = NULL;
    uint8_t *data = NULL;
    size_t bytes = 0;
    bool valid = false;
    if (f->data_bytes > REPORT_BYTES)
        SR_INFO("reading all of %s (%s) once, for its checksums", f->data_path,
                sr_text_bytes(f->data_bytes, size));
    sr_arena_init(&arena);
    sr_status status = parse_meta(f, &arena, &protocol);
    if (status == SR_OK)
        status = sr_kpl_scan(f, protocol, &data, &bytes, &valid);
    if (status == SR_OK)
        status = sr_kpl_sums_decode(f, data, bytes, out);
    if (status == SR_OK && valid)
        keep_sums(f, data, bytes);
    else if (status == SR_OK)
        status = parse_meta(f, &out->arena, &out->check);
    sr_free(data);
    sr_arena_release(&arena);
    return status;
}

static sr_status load_folder(const char *folder, const char *path, bool records_only,
                             sr_data_file *out) {
    kpl_folder f;
    sr_data_file file = {0};
    sr_arena_init(&file.arena);
    SR_TRY(sr_kpl_open(folder, &f));
    sr_status status;
    if (f.sums.data != NULL)
        status = sr_kpl_sums_decode(&f, f.sums.data, f.sums.bytes, &file);
    else if (records_only)
        status = make_bare(&f, &file);
    else
        status = find_cached(&f, &file) ? SR_OK : make_sums(&f, &file);
    file.stamp = f.data_stamp;
    if (status == SR_OK)
        status = name_file(&f, path, &file);
    sr_kpl_release(&f);
    if (status != SR_OK) {
        sr_data_file_release(&file);
        return status;
    }
    *out = file;
    return SR_OK;
}

static sr_status kpl_load(const char *path, const char *split, bool records_only,
                          sr_data_files *out) {
    char *folder = NULL;
    bool own = false;
    sr_data_file *file = NULL;
    SR_TRY(sr_data_files_grow(out, &file));
    SR_TRY(sr_container_folder(path, split, is_kpl, &folder, &own));
    sr_status status = load_folder(folder, path, records_only, file);
    sr_free(folder);
    SR_TRY(status);
    out->count++;
    return own ? sr_container_check_split(file, split) : SR_OK;
}

// The split that a directory states in N.prop, else train.
static sr_status own_split(const char *folder, sr_split_list *out) {
    kpl_folder f;
    sr_arena arena;
    sr_property property = {0};
    SR_TRY(sr_kpl_open(folder, &f));
    sr_arena_init(&arena);
    sr_status status = SR_OK;
    if (f.prop.data != NULL)
        status = sr_property_parse(f.prop.data, f.prop.bytes, &arena, &property);
    if (status != SR_OK)
        sr_error_prefix("%s", f.prop.path);
    bool said = property.split != NULL && *property.split != '\0';
    sr_split_list_add(out, said ? property.split : "train");
    sr_arena_release(&arena);
    sr_kpl_release(&f);
    return status;
}

static sr_status kpl_splits(const char *path, sr_split_list *out) {
    return is_kpl(path) ? own_split(path, out) : sr_container_list_folders(path, is_kpl, out);
}

// -- verify ------------------------------------------------------------------------------------

// A directory without checksums gets them if all its records are valid.
static sr_status load_to_verify(const char *folder, const char *path, sr_data_file *out) {
    return load_folder(folder, path, false, out);
}

static sr_status kpl_verify(const char *path, sr_damage_fn damage, void *user,
                            sr_verify_result *result) {
    return sr_container_verify_folders(path, is_kpl, load_to_verify, NULL, damage, user, result);
}

const sr_container sr_container_kpl = {
    .struct_size = sizeof(sr_container),
    .abi = SR_CONTAINER_ABI,
    .name = "kpl-dir",
    .help = "a KPLRecord directory for each split: root.data, root.index, root.meta, root.prop",
    .singular = "KPLRecord directory",
    .plural = "KPLRecord directories",
    .recognises = kpl_recognises,
    .splits = kpl_splits,
    .load = kpl_load,
    .verify = kpl_verify,
};
