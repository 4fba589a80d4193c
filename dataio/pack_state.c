// SPDX-License-Identifier: Apache-2.0
// What a destination folder of packing says about itself (see pack_state.h and pack.h).
//
// pack.txt is lines of "key value"; the first is "serried-pack 1", the last "state complete" or
// "state packing". It holds a hash of everything that decides the result: the options and the
// path, length and time of every file of the source.
#include "dataio/pack_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/store_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/process.h"
#include "kernels/base/text.h"

#define PACK_VERSION 1 // rises when the same source would give other bytes

static const char *const flag_names[SR_PICTURE_FLAG_COUNT] = {
    "progressive", "greyscale", "cmyk", "oriented", "png", "png_reduced", "resized"};

const char *sr_pack_flag_name(int i) {
    return flag_names[i];
}

// -- the folder --------------------------------------------------------------------------------

// The holder has written its name into pack.txt, unless it has only just begun or has nothing to
// do.
static sr_status fail_held(const char *folder) {
    void *text = NULL;
    size_t bytes;
    int length = 0;
    const char *holder = NULL;
    char *path = sr_path_join(folder, "pack.txt");
    if (path != NULL && sr_file_read(path, 1 << 20, &text, &bytes) == SR_OK)
        holder = strstr(text, "\nby ");
    if (holder != NULL)
        length = (int)strcspn(holder += 4, "\n");
    sr_status status =
        SR_FAIL(SR_E_EXISTS,
                "%s: another pack works on this folder (%.*s); wait for it or stop it, or name "
                "another folder",
                folder, holder ? length : 13, holder ? holder : "just starting");
    sr_free(text);
    sr_free(path);
    return status;
}

sr_status sr_pack_state_open(const char *folder, sr_pack_state *out) {
    sr_pack_state state = {.lock = -1};
    SR_TRY(sr_make_folders(folder));
    sr_sync_parents(folder);
    state.folder = sr_strdup(folder);
    if (state.folder == NULL)
        return SR_E_MEMORY;
    state.lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sr_status status = SR_OK;
    if (state.lock < 0)
        status = sr_file_fail(folder, "cannot be opened", errno);
    else if (flock(state.lock, LOCK_EX | LOCK_NB) != 0)
        status = errno == EWOULDBLOCK ? fail_held(folder)
                                      : sr_file_fail(folder, "cannot be locked", errno);
    if (status != SR_OK) {
        sr_pack_state_close(&state);
        return status;
    }
    *out = state;
    return SR_OK;
}

void sr_pack_state_close(sr_pack_state *state) {
    if (state->lock >= 0)
        (void)close(state->lock);
    sr_free(state->folder);
    *state = (sr_pack_state){.lock = -1};
}

// Our files: shards, their temporary names, pack.txt and refused.csv with theirs.
static bool is_ours(const char *name) {
    char split[SR_SPLIT_MAX + 1], copy[256];
    uint32_t number;
    const char *temporary = strstr(name, ".tmp-");
    (void)snprintf(copy, sizeof copy, "%.*s", temporary ? (int)(temporary - name) : 255, name);
    return strcmp(copy, "pack.txt") == 0 || strcmp(copy, "refused.csv") == 0 ||
           sr_shard_parse_name(copy, split, &number);
}

typedef sr_status (*entry_fn)(sr_pack_state *state, const char *name, void *user);

static sr_status each_entry(sr_pack_state *state, entry_fn fn, void *user) {
    DIR *dir = opendir(state->folder);
    if (dir == NULL)
        return sr_file_fail(state->folder, "cannot be listed", errno);
    sr_status status = SR_OK;
    for (struct dirent *entry; status == SR_OK && (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = fn(state, entry->d_name, user);
    (void)closedir(dir);
    return status;
}

// A kill before pack.txt was there leaves at most a temporary file of ours.
static sr_status count_entry(sr_pack_state *state, const char *name, void *user) {
    (void)state;
    *(int *)user += !(is_ours(name) && sr_file_is_temporary(name));
    return SR_OK;
}

static sr_status remove_entry(sr_pack_state *state, const char *name, void *user) {
    (void)user;
    if (!is_ours(name) || strcmp(name, "pack.txt") == 0)
        return SR_OK;
    if (unlinkat(state->lock, name, 0) != 0)
        return SR_FAIL(SR_E_IO, "%s/%s: cannot remove: %s", state->folder, name, strerror(errno));
    return SR_OK;
}

static sr_status write_file(const sr_pack_state *state, const char *name, const sr_text *text) {
    SR_TRY(sr_text_check(text));
    char *path = sr_path_join(state->folder, name);
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_file_write_atomic(path, text->data, text->length);
    sr_free(path);
    return status;
}

// -- identity ----------------------------------------------------------------------------------

static sr_status hash_all(sr_sha256 *sha, const sr_pack_options *o, const sr_source *source) {
    sr_text line;
    sr_text_init(&line);
    sr_text_add(&line, "pack %d val %.17g side %" PRId64 " quality %d shard %" PRIu64 "\n",
                PACK_VERSION, o->val_fraction, o->max_side, o->max_side ? o->quality : 0,
                o->shard_bytes);
    if (o->segments != 0 && o->segments != 1) // 1 is the default
        sr_text_add(&line, "segments %d\n", o->segments);
    if (o->raw)
        sr_text_add(&line, "raw\n");
    if (o->format != NULL && strcmp(o->format, "shards") != 0)
        sr_text_add(&line, "format %s\n", o->format);
    sr_status status = SR_OK;
    for (size_t i = 0; i < source->count && status == SR_OK; i++) {
        const sr_source_file *f = &source->files[i];
        sr_text_add(&line, "%s\n%" PRIu64 " %" PRId64 "\n", f->path, f->bytes, f->mtime);
        status = sr_text_check(&line);
        if (status == SR_OK)
            status = sr_sha256_update(sha, line.data, line.length);
        sr_text_clear(&line);
    }
    for (size_t i = 0; i < source->refused_count && status == SR_OK; i++)
        status =
            sr_sha256_update(sha, source->refused[i].path, strlen(source->refused[i].path) + 1);
    sr_text_release(&line);
    return status;
}

static sr_status make_identity(sr_pack_state *state, const sr_pack_options *options,
                               const sr_source *source) {
    sr_sha256 *sha;
    uint8_t digest[SR_SHA256_BYTES];
    SR_TRY(sr_sha256_create(&sha));
    sr_status status = hash_all(sha, options, source);
    if (status == SR_OK)
        status = sr_sha256_finish(sha, digest, state->identity);
    sr_sha256_free(sha);
    return status;
}

// -- pack.txt ----------------------------------------------------------------------------------

static void print_state(const sr_pack_state *state, const sr_pack_report *report, sr_text *out) {
    sr_text_add(out, "serried-pack %d\nidentity %s\n", PACK_VERSION, state->identity);
    if (report == NULL) {
        char sign[SR_PROCESS_SIGN_BYTES];
        sr_text_add(out, "by %s\nstate packing\n", sr_process_sign(sign));
        return;
    }
    for (int s = 0; s < SR_SPLIT_COUNT; s++)
        sr_text_add(out, "%s %" PRId64 "\n", sr_split_names[s], report->records[s]);
    sr_text_add(out, "classes %" PRId64 "\nbytes %" PRIu64 "\nrefused %" PRId64 "\n",
                report->classes, report->bytes, report->refused);
    sr_text_add(out, "ignored %" PRId64 "\nunlabelled %" PRId64 "\nval_existed %d\n",
                report->ignored, report->unlabelled, report->val_existed);
    for (int i = 0; i < SR_PICTURE_FLAG_COUNT; i++)
        sr_text_add(out, "%s %" PRId64 "\n", flag_names[i], report->met[i]);
    sr_text_add(out, "state complete\n");
}

// The number after "\nkey " in the text, or 0.
static int64_t number_of(const char *text, const char *key) {
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "\n%s ", key);
    const char *found = strstr(text, wanted);
    return found ? strtoll(found + strlen(wanted), NULL, 10) : 0;
}

static void parse_report(const char *text, sr_pack_report *out) {
    for (int s = 0; s < SR_SPLIT_COUNT; s++)
        out->records[s] = number_of(text, sr_split_names[s]);
    out->classes = number_of(text, "classes");
    out->bytes = (uint64_t)number_of(text, "bytes");
    out->refused = number_of(text, "refused");
    out->ignored = number_of(text, "ignored");
    out->unlabelled = number_of(text, "unlabelled");
    out->val_existed = number_of(text, "val_existed") != 0;
    for (int i = 0; i < SR_PICTURE_FLAG_COUNT; i++)
        out->met[i] = number_of(text, flag_names[i]);
    out->was_complete = true;
}

// An unfinished pack holds nothing of value, whatever it was to be; a finished one is kept.
static sr_status compare_text(sr_pack_state *state, const char *text, sr_pack_report *report) {
    char wanted[128];
    (void)snprintf(wanted, sizeof wanted, "\nidentity %s\n", state->identity);
    if (strncmp(text, "serried-pack ", 13) == 0 && strstr(text, "\nstate packing\n") != NULL)
        return SR_OK;
    if (strncmp(text, "serried-pack ", 13) != 0 || strstr(text, wanted) == NULL)
        return SR_FAIL(SR_E_EXISTS,
                       "%s holds another data set, or the source or options have changed since it "
                       "was packed; name another folder, or: rm -r %s",
                       state->folder, state->folder);
    state->complete = true;
    parse_report(text, report);
    return SR_OK;
}

sr_status sr_pack_state_compare(sr_pack_state *state, const sr_pack_options *options,
                                const sr_source *source, sr_pack_report *report) {
    int entries = 0;
    void *text;
    size_t bytes;
    SR_TRY(make_identity(state, options, source));
    SR_TRY(each_entry(state, count_entry, &entries));
    if (entries == 0)
        return SR_OK;
    char *path = sr_path_join(state->folder, "pack.txt");
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_file_read(path, 1 << 20, &text, &bytes);
    sr_free(path);
    if (status == SR_E_NOT_FOUND)
        return SR_FAIL(SR_E_EXISTS,
                       "%s is not empty and was not made by serried pack; name a new "
                       "folder",
                       state->folder);
    SR_TRY(status);
    status = compare_text(state, text, report);
    sr_free(text);
    return status;
}

sr_status sr_pack_state_begin(sr_pack_state *state) {
    sr_text text;
    sr_text_init(&text);
    print_state(state, NULL, &text);
    sr_status status = write_file(state, "pack.txt", &text);
    sr_text_release(&text);
    SR_TRY(status);
    SR_TRY(sr_store_sweep(state->folder));
    return each_entry(state, remove_entry, NULL);
}

// -- refused.csv -------------------------------------------------------------------------------

static int by_path(const void *a, const void *b) {
    const sr_refused_file *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    return order ? order : strcmp(x->reason, y->reason);
}

static void add_csv(sr_text *out, const char *field) {
    bool quote = strpbrk(field, ",\"\r\n") != NULL;
    if (!quote) {
        sr_text_add(out, "%s", field);
        return;
    }
    sr_text_add(out, "\"");
    for (const char *p = field; *p; p++) {
        if (*p == '"')
            sr_text_add(out, "\"");
        sr_text_add(out, "%c", *p);
    }
    sr_text_add(out, "\"");
}

static sr_status write_refused(sr_pack_state *state, sr_source *source) {
    if (source->refused_count == 0)
        return SR_OK;
    qsort(source->refused, source->refused_count, sizeof *source->refused, by_path);
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, "file,reason\n");
    for (size_t i = 0; i < source->refused_count; i++) {
        add_csv(&text, source->refused[i].path);
        sr_text_add(&text, ",");
        add_csv(&text, source->refused[i].reason);
        sr_text_add(&text, "\n");
    }
    sr_status status = write_file(state, "refused.csv", &text);
    sr_text_release(&text);
    return status;
}

sr_status sr_pack_state_finish(sr_pack_state *state, sr_source *source,
                               const sr_pack_report *report) {
    sr_text text;
    SR_TRY(write_refused(state, source));
    sr_text_init(&text);
    print_state(state, report, &text);
    sr_status status = write_file(state, "pack.txt", &text);
    sr_text_release(&text);
    return status;
}
