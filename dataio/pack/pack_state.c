// SPDX-License-Identifier: Apache-2.0
// The state of a destination folder of packing (pack_state.h, pack.h).
//
// pack.txt is lines of "key value"; the first is "serried-pack 3", the last "state complete" or
// "state packing". It contains a hash of everything that determines the result: the options and the
// path, length and time of every file of the source. While packing it also contains the progress,
// with a line "refusal PATH REASON" for every file that was refused so far (bytes up to 0x20, 0x7f
// and % in them as %XX).
#include "dataio/pack/pack_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/formats/class_map.h"
#include "dataio/formats/format.h"
#include "dataio/record/dataset.h"
#include "dataio/record/links.h"
#include "dataio/record/store_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/file_lock.h"
#include "kernels/base/process.h"
#include "kernels/base/text.h"

#define LOCK_FILE "pack.lock"
#define MAX_COMPLETE ((size_t)1 << 20) // bytes of a complete pack.txt
#define PACK_VERSION 3                 // raised when the same source would give other bytes

static const char *const flag_names[SR_PICTURE_FLAG_COUNT] = {
    "progressive", "greyscale", "cmyk", "oriented", "png", "png_reduced", "resized"};

const char *sr_pack_flag_name(int i) {
    return flag_names[i];
}

// -- the folder --------------------------------------------------------------------------------

// The owner of the lock has written its name to pack.txt, unless it has just begun or has nothing
// to do.
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

// On NFS folders cannot be locked, so a file in the folder is locked instead while packing runs.
static sr_status lock_file(sr_pack_state *state) {
    sr_lock_result result = SR_LOCK_TAKEN;
    char *path = sr_path_join(state->folder, LOCK_FILE);
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_lock_file_open(path, &state->lock_file, &result);
    if (status == SR_OK && result == SR_LOCK_HELD_BY_OTHER) {
        (void)close(state->lock_file); // not removed: another pack holds it
        state->lock_file = -1;
        status = fail_held(state->folder);
    } else if (status == SR_OK && result == SR_LOCK_NOT_SUPPORTED) {
        sr_lock_warn(state->folder, "a second pack");
    } else if (status == SR_E_IO && access(state->folder, W_OK) != 0) {
        status = SR_OK; // a read-only folder can only be compared
    }
    sr_free(path);
    return status;
}

static sr_status lock_folder(sr_pack_state *state) {
    switch (sr_file_lock(state->lock)) {
    case SR_LOCK_HELD_BY_OTHER:
        return fail_held(state->folder);
    case SR_LOCK_NOT_SUPPORTED:
        return lock_file(state);
    case SR_LOCK_TAKEN:
        break;
    }
    return SR_OK;
}

// Whether the folder was removed after it was opened and before it was locked: by a pack that had
// created and locked it and failed before it wrote.
static bool is_gone(const sr_pack_state *state) {
    struct stat info;
    return fstat(state->lock, &info) == 0 && info.st_nlink == 0;
}

static sr_status open_state(const char *folder, sr_pack_state *out) {
    sr_pack_state state = {.lock = -1, .lock_file = -1};
    if (sr_path_exists(folder) && !sr_path_is_folder(folder))
        return SR_FAIL(SR_E_EXISTS, "%s is not a folder; name a new one", folder);
    SR_TRY(sr_links_check_output(folder, "data set"));
    SR_TRY(sr_make_folders(folder));
    sr_sync_parents(folder);
    state.folder = sr_strdup(folder);
    if (state.folder == NULL)
        return SR_E_MEMORY;
    state.lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sr_status status =
        state.lock < 0 ? sr_file_fail(folder, "cannot be opened", errno) : lock_folder(&state);
    if (status != SR_OK) {
        sr_pack_state_close(&state);
        return status;
    }
    *out = state;
    return SR_OK;
}

sr_status sr_pack_state_open(const char *folder, sr_pack_state *out) {
    sr_status status = open_state(folder, out);
    for (int tries = 0; tries < 8; tries++) {
        if (status == SR_OK && is_gone(out))
            sr_pack_state_close(out);
        else if (status != SR_E_NOT_FOUND)
            break;
        status = open_state(folder, out);
    }
    return status;
}

void sr_pack_state_close(sr_pack_state *state) {
    if (state->lock_file >= 0) {
        (void)unlinkat(state->lock, LOCK_FILE, 0); // while it is locked
        (void)close(state->lock_file);
    }
    if (state->lock >= 0)
        (void)close(state->lock);
    sr_free(state->folder);
    for (size_t i = 0; i < state->progress.refused_count; i++)
        sr_free(state->progress.refused[i]);
    sr_free(state->progress.refused);
    *state = (sr_pack_state){.lock = -1, .lock_file = -1};
}

// Whether a file is ours: shards, pack.txt, refused.csv, and their temporary files.
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

// A pack that was killed before it wrote pack.txt leaves at most a temporary file of ours.
static sr_status count_entry(sr_pack_state *state, const char *name, void *user) {
    (void)state;
    *(int *)user += !(is_ours(name) && sr_file_is_temporary(name)) && strcmp(name, LOCK_FILE) != 0;
    return SR_OK;
}

// Whether a file is a shard that state->progress counts.
static bool is_finished_shard(const sr_pack_state *state, const char *name) {
    char split[SR_SPLIT_MAX + 1];
    uint32_t number;
    if (!state->begun || !sr_shard_parse_name(name, split, &number))
        return false;
    const int s = sr_split_find(split, strlen(split));
    return s >= 0 && (s < state->progress.split ||
                      (s == state->progress.split && number < state->progress.shards));
}

static sr_status remove_entry(sr_pack_state *state, const char *name, void *user) {
    (void)user;
    if (!is_ours(name) || strcmp(name, "pack.txt") == 0 || is_finished_shard(state, name))
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

static sr_status hash_file(sr_sha256 *sha, const char *path, const char *what) {
    void *text = NULL;
    size_t bytes = 0;
    if (path == NULL)
        return SR_OK;
    SR_TRY(sr_file_read(path, SIZE_MAX / 2, &text, &bytes));
    sr_status status = sr_sha256_update(sha, what, strlen(what) + 1);
    if (status == SR_OK)
        status = sr_sha256_update(sha, text, bytes);
    sr_free(text);
    return status;
}

static sr_status hash_list(sr_sha256 *sha, const sr_file_list *list, sr_text *line) {
    sr_status status = SR_OK;
    for (size_t i = 0; i < list->count && status == SR_OK; i++) {
        const sr_source_file *f = &list->items[i];
        sr_text_add(line, "%s\n%" PRIu64 " %" PRId64 "\n", f->path, f->bytes, f->mtime);
        status = sr_text_check(line);
        if (status == SR_OK)
            status = sr_sha256_update(sha, line->data, line->length);
        sr_text_clear(line);
    }
    return status;
}

static void add_options(sr_text *line, const sr_pack_options *o) {
    if (o->subset > 0)
        sr_text_add(line, "subset %" PRId64 "\n", o->subset);
    if (o->subset_part > 0)
        sr_text_add(line, "subset part %.17g\n", o->subset_part);
    if (o->zstd)
        sr_text_add(line, "zstd\n");
    if (o->source_format != NULL)
        sr_text_add(line, "format in %s\n", o->source_format);
    if (o->ignore_value > 0)
        sr_text_add(line, "void %d\n", o->ignore_value - 1);
    if (o->reduce_zero_label)
        sr_text_add(line, "reduce zero label\n");
    if (o->class_map != NULL && !sr_class_map_is_file(o->class_map)) // a well-known one
        sr_text_add(line, "class map %s\n", o->class_map);
}

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
        sr_text_add(&line, "container %s\n", o->format);
    add_options(&line, o);
    if (source->format->wants != NULL)
        sr_text_add(&line, "format %s\n", source->format->name);
    sr_status status = hash_list(sha, &source->files, &line);
    if (status == SR_OK && source->format->wants != NULL)
        status = hash_list(sha, &source->wanted, &line);
    if (status == SR_OK)
        status = hash_file(sha, o->list, "list");
    if (status == SR_OK)
        status = hash_file(sha, o->classes, "classes");
    if (status == SR_OK && o->class_map != NULL && sr_class_map_is_file(o->class_map))
        status = hash_file(sha, o->class_map, "class map");
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

// Counts that only some sources have are written only where they are not zero.
typedef struct count {
    const char *name;
    size_t offset; // of an int64_t in the report
} count;

static const count counts[] = {
    {"outside", offsetof(sr_pack_report, outside)},
    {"annotations", offsetof(sr_pack_report, annotations)},
    {"objects", offsetof(sr_pack_report, objects)},
    {"degenerate", offsetof(sr_pack_report, degenerate)},
};

static void print_report(const sr_pack_report *report, sr_text *out) {
    for (int s = 0; s < SR_SPLIT_COUNT; s++)
        sr_text_add(out, "%s %" PRId64 "\n", sr_split_names[s], report->records[s]);
    sr_text_add(out, "classes %" PRId64 "\nbytes %" PRIu64 "\nrefused %" PRId64 "\n",
                report->classes, report->bytes, report->refused);
    sr_text_add(out, "ignored %" PRId64 "\nunlabelled %" PRId64 "\nval_existed %d\n",
                report->ignored, report->unlabelled, report->val_existed);
    for (int i = 0; i < SR_PICTURE_FLAG_COUNT; i++)
        sr_text_add(out, "%s %" PRId64 "\n", flag_names[i], report->flagged[i]);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const int64_t *value =
            (const int64_t *)(const void *)((const char *)report + counts[i].offset);
        if (*value > 0)
            sr_text_add(out, "%s %" PRId64 "\n", counts[i].name, *value);
    }
}

static void add_escaped(sr_text *out, const char *text) {
    for (const uint8_t *p = (const uint8_t *)text; *p; p++)
        sr_text_add(out, *p <= 0x20 || *p == 0x7f || *p == '%' ? "%%%02X" : "%c", *p);
}

static sr_status write_progress(sr_pack_state *state, const sr_source *source, size_t listed) {
    const sr_pack_progress *p = &state->progress;
    char sign[SR_PROCESS_SIGN_BYTES];
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, "serried-pack %d\nidentity %s\nby %s\n", PACK_VERSION, state->identity,
                sr_process_sign(sign));
    if (state->begun) {
        sr_text_add(&text, "checked %d\nfound %" PRId64 "\nsplit %d\nshards %u\n", p->checked,
                    p->classes, p->split, p->shards);
        sr_text_add(&text, "position %" PRIu64 "\nrefused_checked %zu\n", p->position,
                    p->refused_checked);
        print_report(&p->report, &text);
    }
    for (size_t i = listed; state->begun && source && i < source->refused_count; i++) {
        sr_text_add(&text, "refusal ");
        add_escaped(&text, source->refused[i].path);
        sr_text_add(&text, " ");
        add_escaped(&text, source->refused[i].reason);
        sr_text_add(&text, "\n");
    }
    for (size_t i = 0; state->begun && !source && i + 1 < p->refused_count; i += 2) {
        sr_text_add(&text, "refusal ");
        add_escaped(&text, p->refused[i]);
        sr_text_add(&text, " ");
        add_escaped(&text, p->refused[i + 1]);
        sr_text_add(&text, "\n");
    }
    sr_text_add(&text, "state packing\n");
    sr_status status = write_file(state, "pack.txt", &text);
    sr_text_release(&text);
    return status;
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
        out->flagged[i] = number_of(text, flag_names[i]);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        *(int64_t *)(void *)((char *)out + counts[i].offset) = number_of(text, counts[i].name);
}

static sr_status add_refusal(sr_pack_progress *p, const char *escaped, size_t bytes) {
    void *items = p->refused;
    SR_TRY(sr_grow(&items, &p->refused_capacity, p->refused_count + 1, sizeof *p->refused,
                   "refused files"));
    p->refused = items;
    char *out = sr_alloc(bytes + 1, "refused files");
    if (out == NULL)
        return SR_E_MEMORY;
    p->refused[p->refused_count++] = out;
    for (size_t i = 0; i < bytes; i++) {
        const char digits[3] = {escaped[i], i + 2 < bytes ? escaped[i + 1] : '0',
                                i + 2 < bytes ? escaped[i + 2] : '0'};
        if (digits[0] != '%') {
            *out++ = digits[0];
            continue;
        }
        const char hex[3] = {digits[1], digits[2], '\0'};
        *out++ = (char)strtol(hex, NULL, 16);
        i += 2;
    }
    return SR_OK;
}

static sr_status parse_progress(const char *text, sr_pack_progress *p) {
    p->checked = number_of(text, "checked") != 0;
    p->classes = number_of(text, "found");
    p->split = (int)number_of(text, "split");
    p->shards = (uint32_t)number_of(text, "shards");
    p->position = (uint64_t)number_of(text, "position");
    p->refused_checked = (size_t)number_of(text, "refused_checked");
    parse_report(text, &p->report);
    static const char key[] = "\nrefusal ";
    for (const char *at = text; (at = strstr(at, key)) != NULL;) {
        at += sizeof key - 1;
        size_t path = strcspn(at, " \n"), reason = strcspn(at + path, "\n");
        SR_TRY(add_refusal(p, at, path));
        SR_TRY(add_refusal(p, at + path + (reason > 0), reason > 0 ? reason - 1 : 0));
        at += path + reason;
    }
    return SR_OK;
}

// An unfinished pack of another source may be replaced; a finished one is kept.
static sr_status compare_text(sr_pack_state *state, const char *text, sr_pack_report *report) {
    char wanted[128];
    (void)snprintf(wanted, sizeof wanted, "\nidentity %s\n", state->identity);
    const bool ours = strncmp(text, "serried-pack ", 13) == 0;
    const bool same = strstr(text, wanted) != NULL;
    if (ours && strstr(text, "\nstate packing\n") != NULL) {
        state->begun = same && strstr(text, "\nposition ") != NULL;
        return state->begun ? parse_progress(text, &state->progress) : SR_OK;
    }
    if (!ours || !same) {
        return SR_FAIL(
            SR_E_EXISTS,
            "%s contains another data set, or the source or options have changed since it "
            "was packed; name another folder, or: rm -r %s",
            state->folder, state->folder);
    }
    state->complete = true;
    parse_report(text, report);
    report->was_complete = true;
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
    sr_status status = sr_file_read(path, (size_t)1 << 30, &text, &bytes);
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

sr_status sr_pack_report_read(const char *folder, sr_pack_report *out, bool *found) {
    void *text;
    size_t bytes;
    *out = (sr_pack_report){0};
    *found = false;
    char *path = sr_path_join(folder, "pack.txt");
    if (path == NULL)
        return SR_E_MEMORY;
    const sr_status status =
        sr_path_is_stream(path) ? SR_E_NOT_FOUND : sr_file_read(path, MAX_COMPLETE, &text, &bytes);
    sr_free(path);
    if (status != SR_OK) // pack.txt of an unfinished pack may be longer
        return status == SR_E_NOT_FOUND || status == SR_E_LIMIT ? SR_OK : status;
    *found = strncmp(text, "serried-pack ", 13) == 0 && strstr(text, "\nstate complete\n") != NULL;
    if (*found)
        parse_report(text, out);
    sr_free(text);
    return SR_OK;
}

int sr_pack_find_missing(const char *folder, const sr_pack_report *report) {
    for (int split = 0; split < SR_SPLIT_COUNT; split++) {
        sr_dataset *dataset;
        if (report->records[split] == 0)
            continue;
        if (sr_dataset_open_records(folder, sr_split_names[split], &dataset) != SR_OK)
            return split;
        const bool same = sr_dataset_count(dataset) == report->records[split];
        sr_dataset_free(dataset);
        if (!same)
            return split;
    }
    return -1;
}

sr_status sr_pack_state_begin(sr_pack_state *state) {
    SR_TRY(write_progress(state, NULL, 0));
    SR_TRY(sr_store_sweep(state->folder));
    return each_entry(state, remove_entry, NULL);
}

sr_status sr_pack_state_save(sr_pack_state *state, const sr_source *source, size_t listed) {
    state->begun = true;
    return write_progress(state, source, listed);
}

// -- refused.csv -------------------------------------------------------------------------------

static int by_path(const void *a, const void *b) {
    const sr_refused_file *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    return order ? order : strcmp(x->reason, y->reason);
}

static sr_status write_refused(sr_pack_state *state, sr_source *source) {
    if (source->refused_count == 0)
        return SR_OK;
    qsort(source->refused, source->refused_count, sizeof *source->refused, by_path);
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, "file,reason\n");
    for (size_t i = 0; i < source->refused_count; i++) {
        sr_text_add_csv_cell(&text, source->refused[i].path);
        sr_text_add(&text, ",");
        sr_text_add_csv_cell(&text, source->refused[i].reason);
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
    sr_text_add(&text, "serried-pack %d\nidentity %s\n", PACK_VERSION, state->identity);
    print_report(report, &text);
    sr_text_add(&text, "state complete\n");
    sr_status status = write_file(state, "pack.txt", &text);
    sr_text_release(&text);
    return status;
}
