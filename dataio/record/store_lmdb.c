// SPDX-License-Identifier: Apache-2.0
// Writes an LMDB store for each split, through liblmdb (keys and file: lmdb_file_internal.h).
//
// Records are appended in the order of their keys, in transactions of limited size to bound memory;
// the last one adds the table of contents. The file is written under a temporary name without
// syncing, then synced and renamed. No other process opens it, so there is no lock file.
#include <errno.h>
#include <lmdb.h>
#include <string.h>
#include <unistd.h>

#include "dataio/record/lmdb_file_internal.h"
#include "dataio/record/store_internal.h"
#include "kernels/base/file.h"

#define BATCH_BYTES (UINT64_C(64) << 20) // limit of the values in a transaction
#define FIRST_MAP (UINT64_C(256) << 20)
#define VALUE_MAX UINT32_MAX

typedef struct lmdb_state {
    char *folder;
    sr_atomic_file file; // its temporary name is the store's while it is written
    MDB_env *env;
    MDB_txn *transaction; // NULL between two transactions
    MDB_dbi database;
    uint64_t map, written,
        batch; // bytes: size of the map; values in earlier transactions; in this one
} lmdb_state;

// Error codes of liblmdb: those of errno, or its own, which are negative.
static sr_status check(const lmdb_state *state, int error, const char *action) {
    if (error == 0)
        return SR_OK;
    if (error > 0)
        return sr_file_fail(state->file.temporary, action, error);
    return SR_FAIL(SR_E_IO, "%s: %s: %s", state->file.temporary, action, mdb_strerror(error));
}

static char *store_path(const char *folder) {
    return sr_path_join(folder, SR_LMDB_FILE);
}

static sr_status refuse_lmdb(const sr_writer *writer) {
    char *folder = sr_store_split_folder(writer);
    char *path = folder ? store_path(folder) : NULL;
    sr_status status = path ? SR_OK : SR_E_MEMORY;
    if (path != NULL && sr_path_exists(path))
        status = SR_FAIL(SR_E_EXISTS, "%s exists; write to another folder or remove it", path);
    sr_free(path);
    sr_free(folder);
    return status;
}

// -- transactions ------------------------------------------------------------------------------

// Values take whole pages, and pages that a transaction replaces stay in the file, so twice the
// bytes plus some for the tree is enough.
static sr_status begin_transaction(lmdb_state *state, uint64_t next) {
    uint64_t need = 2 * (state->written + next + BATCH_BYTES) + FIRST_MAP, map = state->map;
    while (map < need)
        map *= 2;
    if (map != state->map)
        SR_TRY(check(state, mdb_env_set_mapsize(state->env, (size_t)map), "cannot grow"));
    state->map = map;
    SR_TRY(check(state, mdb_txn_begin(state->env, NULL, 0, &state->transaction), "cannot write"));
    return check(state, mdb_dbi_open(state->transaction, NULL, 0, &state->database), "cannot open");
}

static sr_status commit(lmdb_state *state) {
    MDB_txn *transaction = state->transaction;
    state->transaction = NULL; // it ends in any case
    state->written += state->batch;
    state->batch = 0;
    return transaction ? check(state, mdb_txn_commit(transaction), "cannot write") : SR_OK;
}

static sr_status put(lmdb_state *state, const void *key, size_t key_bytes, const void *data,
                     size_t bytes) {
    union {
        const void *in;
        void *any;
    } k = {.in = key}, v = {.in = data}; // only read
    MDB_val name = {.mv_size = key_bytes, .mv_data = k.any};
    MDB_val value = {.mv_size = bytes, .mv_data = v.any};
    uint64_t room = bytes + 4096; // a record of a few bytes takes its share of a page
    if (bytes > VALUE_MAX)
        return SR_FAIL(SR_E_LIMIT, "%s: a record of %zu bytes; the limit of LMDB is 4 GiB",
                       state->file.path, bytes);
    if (state->batch > 0 && state->batch + room > BATCH_BYTES)
        SR_TRY(commit(state));
    if (state->transaction == NULL)
        SR_TRY(begin_transaction(state, room));
    state->batch += room;
    return check(state, mdb_put(state->transaction, state->database, &name, &value, MDB_APPEND),
                 "cannot write");
}

// -- the store ---------------------------------------------------------------------------------

static sr_status open_env(lmdb_state *state) {
    const unsigned flags = MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC | MDB_NORDAHEAD;
    SR_TRY(check(state, mdb_env_create(&state->env), "cannot be made"));
    state->map = FIRST_MAP;
    SR_TRY(check(state, mdb_env_set_mapsize(state->env, FIRST_MAP), "cannot be made"));
    return check(state, mdb_env_open(state->env, state->file.temporary, flags, 0666),
                 "cannot be made");
}

static sr_status begin_lmdb(sr_writer *writer) {
    lmdb_state *state = writer->state;
    state->file = (sr_atomic_file){.fd = -1};
    SR_TRY(sr_store_make_folder(writer, &state->folder));
    char *path = store_path(state->folder);
    sr_status status = path ? sr_atomic_open(&state->file, path) : SR_E_MEMORY;
    sr_free(path);
    SR_TRY(status);
    if (state->file.temporary == NULL) // which liblmdb opens by its name
        return SR_FAIL(SR_E_EXISTS, "%s: only a regular file can be written there",
                       state->file.path);
    writer->at = 0;
    return open_env(state);
}

static sr_status append_lmdb(sr_writer *writer, const void *record, size_t bytes) {
    uint8_t key[SR_LMDB_KEY_BYTES];
    sr_lmdb_key(writer->header.records, key);
    return put(writer->state, key, sizeof key, record, bytes);
}

static sr_status put_contents(sr_writer *writer) {
    uint8_t *data;
    size_t bytes;
    writer->header.file_bytes = writer->at;
    SR_TRY(sr_contents_encode(&writer->header, writer->entries, &data, &bytes));
    sr_status status = put(writer->state, SR_LMDB_CONTENTS, strlen(SR_LMDB_CONTENTS), data, bytes);
    sr_free(data);
    return status;
}

static void release(lmdb_state *state) {
    if (state->transaction != NULL)
        mdb_txn_abort(state->transaction);
    if (state->env != NULL)
        mdb_env_close(state->env);
    sr_atomic_abort(&state->file);
    sr_free(state->folder);
    *state = (lmdb_state){.file.fd = -1};
}

static sr_status end_lmdb(sr_writer *writer, bool last) {
    lmdb_state *state = writer->state;
    (void)last; // there is one file only
    SR_TRY(put_contents(writer));
    SR_TRY(commit(state));
    SR_TRY(check(state, mdb_env_sync(state->env, 1), "cannot be written to the disk"));
    mdb_env_close(state->env);
    state->env = NULL;
    SR_TRY(sr_atomic_commit(&state->file));
    release(state);
    return SR_OK;
}

static sr_status sweep_lmdb(const char *folder) {
    static const char *const names[] = {SR_LMDB_FILE};
    return sr_store_remove_files(folder, names, 1);
}

static void abort_lmdb(sr_writer *writer) {
    lmdb_state *state = writer->state;
    if (state->folder != NULL)
        (void)sweep_lmdb(state->folder); // leftovers under a temporary name are harmless
    release(state);
}

const sr_store sr_store_lmdb = {
    .struct_size = sizeof(sr_store),
    .abi = SR_STORE_ABI,
    .name = "lmdb",
    .help = "an LMDB store for each split",
    .state_bytes = sizeof(lmdb_state),
    .one_file = true,
    .refuse = refuse_lmdb,
    .begin = begin_lmdb,
    .append = append_lmdb,
    .end = end_lmdb,
    .abort = abort_lmdb,
    .sweep = sweep_lmdb,
};
