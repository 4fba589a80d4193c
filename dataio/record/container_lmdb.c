// SPDX-License-Identifier: Apache-2.0
// The container of LMDB stores (keys and file: lmdb_file_internal.h).
//
// A store is detected by the first page of its file, or by its name where that page is damaged. Its
// index is the table of contents; the offset of a record is looked up in the tree at each read.
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/record/container.h"
#include "dataio/record/file_stamp_internal.h"
#include "dataio/record/lmdb_file_internal.h"
#include "dataio/record/shard_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"

// -- which files -------------------------------------------------------------------------------

static bool is_store(const char *path) {
    if (!sr_path_is_folder(path)) {
        const char *dot = strrchr(path, '.');
        return sr_path_exists(path) && (sr_lmdb_is(path) || (dot && strcmp(dot, ".mdb") == 0));
    }
    char *file = sr_path_join(path, SR_LMDB_FILE);
    bool is = file != NULL && sr_path_exists(file);
    sr_free(file);
    return is;
}

static bool lmdb_recognises(const char *path) {
    return sr_path_is_folder(path) ? sr_container_has_folder(path, is_store) : is_store(path);
}

// -- loading -----------------------------------------------------------------------------------

static sr_status take_contents(const sr_lmdb *file, sr_data_file *out) {
    uint64_t offset = 0, bytes = 0;
    size_t used = 0;
    sr_status status =
        sr_lmdb_find(file, SR_LMDB_CONTENTS, strlen(SR_LMDB_CONTENTS), &offset, &bytes);
    if (status == SR_E_NOT_FOUND)
        return SR_FAIL(SR_E_DATA,
                       "%s is not a serried data set: no key '" SR_LMDB_CONTENTS
                       "'; packing was interrupted or another program wrote it: pack again",
                       file->path);
    SR_TRY(status);
    uint8_t *data = sr_alloc((size_t)bytes, "table of contents");
    if (data == NULL)
        return SR_E_MEMORY;
    status = sr_file_read_at(file->fd, file->path, offset, data, (size_t)bytes);
    if (status == SR_OK)
        status = sr_contents_decode(file->path, data, (size_t)bytes, out, &used);
    sr_free(data);
    if (status == SR_OK && (uint64_t)out->count + 1 != file->entries) {
        status = SR_FAIL(SR_E_DATA, "%s has %llu keys for %lld records and their table; pack again",
                         file->path, (unsigned long long)file->entries, (long long)out->count);
        sr_data_file_release(out);
    }
    return status;
}

static sr_status load_file(const char *file, size_t skip, sr_data_file *out) {
    sr_lmdb lmdb;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return SR_FAIL(errno == ENOENT ? SR_E_NOT_FOUND : SR_E_IO, "%s: %s", file, strerror(errno));
    sr_status status = sr_lmdb_open(fd, file, &lmdb);
    if (status == SR_OK)
        status = take_contents(&lmdb, out);
    struct stat info;
    if (status == SR_OK && fstat(fd, &info) == 0)
        out->stamp = sr_file_stamp_of(&info);
    (void)close(fd);
    SR_TRY(status);
    assert(out->path != NULL);
    out->file_bytes = lmdb.bytes;
    if (skip > 0)
        out->name = out->path + skip + (out->path[skip] == '/');
    return SR_OK;
}

// Loads a store; messages omit the first 'skip' bytes of its path, which the user gave.
static sr_status load_store(const char *store, size_t skip, sr_data_file *out) {
    if (!sr_path_is_folder(store))
        return load_file(store, 0, out);
    char *file = sr_path_join(store, SR_LMDB_FILE);
    sr_status status = file ? load_file(file, skip, out) : SR_E_MEMORY;
    sr_free(file);
    return status;
}

static sr_status lmdb_load(const char *path, const char *split, bool records_only,
                           sr_data_files *out) {
    char *store = NULL;
    bool own = false;
    sr_data_file *file = NULL;
    (void)records_only; // nothing needs a scan
    SR_TRY(sr_data_files_grow(out, &file));
    SR_TRY(sr_container_folder(path, split, is_store, &store, &own));
    sr_status status = load_store(store, strlen(path), file);
    sr_free(store);
    SR_TRY(status);
    out->count++;
    return sr_container_check_split(file, own ? split : split ? split : "train");
}

static sr_status lmdb_locate(const sr_data_file *file, int fd, int64_t record, uint64_t *offset) {
    sr_lmdb lmdb;
    uint8_t key[SR_LMDB_KEY_BYTES];
    uint64_t bytes = 0;
    SR_TRY(sr_lmdb_open(fd, file->path, &lmdb));
    sr_lmdb_key((uint64_t)record, key);
    sr_status status = sr_lmdb_find(&lmdb, key, sizeof key, offset, &bytes);
    if (status == SR_OK && bytes != file->entries[record].bytes)
        status = SR_FAIL(SR_E_DATA, "%s record %lld: its length has changed", file->path,
                         (long long)record);
    if (status == SR_E_NOT_FOUND)
        status = SR_FAIL(SR_E_DATA,
                         "%s record %lld: its key is not found: a page is damaged; "
                         "restore a copy or pack again",
                         file->path, (long long)record);
    return status;
}

static sr_status lmdb_splits(const char *path, sr_split_list *out) {
    if (!is_store(path))
        return sr_container_list_folders(path, is_store, out);
    sr_data_file file = {0};
    SR_TRY(load_store(path, 0, &file));
    sr_split_list_add(out, file.split);
    sr_data_file_release(&file);
    return SR_OK;
}

// -- verify ------------------------------------------------------------------------------------

static sr_status load_to_verify(const char *store, const char *path, sr_data_file *out) {
    return load_store(store, strlen(path), out);
}

static sr_status lmdb_verify(const char *path, sr_damage_fn damage, void *user,
                             sr_verify_result *result) {
    return sr_container_verify_folders(path, is_store, load_to_verify, lmdb_locate, damage, user,
                                       result);
}

const sr_container sr_container_lmdb = {
    .struct_size = sizeof(sr_container),
    .abi = SR_CONTAINER_ABI,
    .name = "lmdb",
    .help = "an LMDB store for each split: data.mdb, records by their numbers",
    .singular = "LMDB store",
    .plural = "LMDB stores",
    .recognises = lmdb_recognises,
    .splits = lmdb_splits,
    .load = lmdb_load,
    .locate = lmdb_locate,
    .verify = lmdb_verify,
};
