// SPDX-License-Identifier: Apache-2.0
// Finds, creates, locks and completes run folders.
//
// The order of steps matters when jobs compete: a folder is locked before it is inspected, so that
// what is read cannot change; a folder is moved aside only while this job holds its lock.
#include "trainer/run/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dataio/record/links.h"
#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "kernels/base/watch.h"
#include "trainer/checkpoint/checkpoint_state.h"
#include "trainer/checkpoint/json_tree.h"
#include "trainer/checkpoint/run_identity.h"
#include "trainer/run/run_lock.h"

enum { MAX_STAMPS = 1000 };

struct sr_run_folder {
    char *path;
    sr_run_lock lock;
    bool resumed;
    bool stamped; // a STAMP folder, which 'latest' may link to
    int events;   // descriptor of log.jsonl, or -1
    atomic_bool event_failed;
};

// -- inspecting a folder ---------------------------------------------------------------------

typedef enum folder_state {
    FOLDER_MISSING = 0,
    FOLDER_EMPTY,
    FOLDER_FOREIGN, // not empty, but not a run
    FOLDER_UNFINISHED,
    FOLDER_FINISHED,
} folder_state;

// A folder with only a lock or a temporary file counts as empty: a job that is just starting, or
// was killed, leaves these first.
static folder_state look_inside(const char *path) {
    DIR *dir = opendir(path);
    if (dir == NULL)
        return errno == ENOENT ? FOLDER_MISSING : FOLDER_FOREIGN;
    folder_state state = FOLDER_EMPTY;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, "run.lock") != 0 && !sr_file_is_temporary(entry->d_name))
            state = FOLDER_FOREIGN;
    closedir(dir);
    return state;
}

// Parses a file of the folder into the arena; *root is NULL if it is missing or not JSON.
static sr_status read_json(const char *folder, const char *name, sr_arena *arena,
                           const sr_json **root) {
    void *text = NULL;
    size_t bytes;
    *root = NULL;
    char *path = sr_path_join(folder, name);
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_path_is_stream(path) // stores nothing
                           ? SR_E_NOT_FOUND
                           : sr_file_read(path, (size_t)16 << 20, &text, &bytes);
    sr_free(path);
    if (status != SR_OK)
        return status == SR_E_NOT_FOUND ? SR_OK : status;
    status = sr_json_parse(text, bytes, 100000, name, arena, root);
    sr_free(text);
    if (status != SR_OK)
        *root = NULL;
    return status == SR_E_MEMORY ? status : SR_OK;
}

static sr_status is_finished(const char *folder, bool *finished) {
    sr_arena arena;
    const sr_json *root;
    sr_arena_init(&arena);
    sr_status result = read_json(folder, "exit.json", &arena, &root);
    const char *status = sr_json_string(sr_json_get(root, "status"));
    *finished = status != NULL && strcmp(status, SR_RUN_FINISHED) == 0;
    sr_arena_release(&arena);
    return result;
}

sr_status sr_run_start_folder(const char *run, sr_text *out) {
    sr_arena arena;
    const sr_json *root;
    sr_arena_init(&arena);
    sr_status status = read_json(run, "env.json", &arena, &root);
    const char *folder = sr_json_string(sr_json_get(root, SR_RUN_START_FOLDER));
    if (folder != NULL && folder[0] == '/')
        sr_text_add(out, "%s", folder);
    sr_arena_release(&arena);
    return status == SR_OK ? sr_text_check(out) : status;
}

// The folder is listed before the identity is read: a job that is just starting writes its identity
// before any file that would make the folder look foreign. A file that cannot be read is an error:
// a run that is not recognised would be trained again from the start.
static sr_status inspect(const char *path, sr_text *identities, folder_state *state) {
    bool finished;
    *state = look_inside(path);
    sr_text_clear(identities);
    SR_TRY(sr_run_identity_read(path, identities));
    if (identities->length == 0)
        return SR_OK;
    SR_TRY(is_finished(path, &finished));
    *state = finished ? FOLDER_FINISHED : FOLDER_UNFINISHED;
    return SR_OK;
}

// If the identity file, which has no checksum, does not match, the checkpoints' manifests, which
// have one, decide.
static sr_status is_of(const char *path, const sr_text *found, const char *identity, bool *same) {
    *same = sr_run_identity_is(found->data, identity);
    return *same ? SR_OK : sr_checkpoint_all_of(path, identity, same);
}

// -- a new folder ----------------------------------------------------------------------------

// "20260131-120000" of the wall clock, UTC; a second run in one second gets "-2" and so on.
static void make_stamp(int attempt, char *out, size_t bytes) {
    time_t now = time(NULL);
    struct tm parts;
    char date[32];
    if (gmtime_r(&now, &parts) == NULL || // the clock is far off
        strftime(date, sizeof date, "%Y%m%d-%H%M%S", &parts) == 0)
        snprintf(date, sizeof date, "0-no-clock");
    if (attempt == 0)
        snprintf(out, bytes, "%s", date);
    else
        snprintf(out, bytes, "%s-%d", date, attempt + 1);
}

// Makes parent/STAMP, which did not exist before; *path in new memory.
static sr_status make_stamped(const char *parent, char **path) {
    char stamp[48];
    SR_TRY(sr_make_folders(parent));
    for (int attempt = 0; attempt < MAX_STAMPS; ++attempt) {
        make_stamp(attempt, stamp, sizeof stamp);
        *path = sr_path_join(parent, stamp);
        if (*path == NULL)
            return SR_E_MEMORY;
        if (mkdir(*path, 0777) == 0)
            return sr_sync_folder(parent);
        int error = errno;
        sr_status status =
            error == EEXIST ? SR_OK : sr_file_fail(*path, "cannot make the folder", error);
        sr_free(*path);
        *path = NULL;
        SR_TRY(status);
    }
    return SR_FAIL(SR_E_EXISTS, "%s: %d runs within one second", parent, MAX_STAMPS);
}

static sr_status write_file(const char *folder, const char *name, const char *text) {
    char *path = sr_path_join(folder, name);
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_file_write_atomic(path, text, strlen(text));
    sr_free(path);
    return status;
}

// Releases the text.
static sr_status write_exit(const sr_run_folder *run, sr_text *text) {
    sr_status status = sr_text_check(text);
    if (status == SR_OK)
        status = write_file(run->path, "exit.json", text->data);
    sr_text_release(text);
    return status;
}

static sr_status write_recipe(const char *folder, const sr_run_options *options) {
    return options->recipe_yaml == NULL ? SR_OK
                                        : write_file(folder, "recipe.yaml", options->recipe_yaml);
}

// The identity is written first: with it the folder is a run, whatever happens next.
static sr_status begin_run(const char *folder, const sr_run_options *options) {
    SR_TRY(sr_run_identity_write(folder, options->identity, NULL));
    sr_sync_parents(folder); // a checkpoint inside must not be lost with them in a power cut
    return write_recipe(folder, options);
}

// Writes what a job that died right after its start did not write, and repairs a damaged identity.
static sr_status complete_run(const char *folder, const sr_run_options *options,
                              const sr_text *identities) {
    if (!sr_run_identity_is(identities->data, options->identity)) {
        SR_WARN("%s/identity is damaged: it does not match the checkpoints; rewritten", folder);
        SR_TRY(sr_run_identity_write(folder, options->identity, NULL));
    }
    char *path = sr_path_join(folder, "recipe.yaml");
    if (path == NULL)
        return SR_E_MEMORY;
    bool there = sr_path_exists(path);
    sr_free(path);
    return there ? SR_OK : write_recipe(folder, options);
}

// -- choosing --------------------------------------------------------------------------------

static sr_run_folder *new_handle(void) {
    sr_run_folder *run = sr_alloc(sizeof *run, "run folder");
    if (run != NULL)
        run->lock.fd = run->events = -1;
    return run;
}

// Whether the run at 'path' is unfinished and of this identity; false if it cannot be read.
static sr_status can_resume(const char *path, const char *identity, sr_text *identities,
                            bool *out) {
    folder_state state;
    *out = false;
    if (access(path, R_OK | X_OK) != 0)
        return SR_OK;
    SR_TRY(inspect(path, identities, &state));
    return state == FOLDER_UNFINISHED ? is_of(path, identities, identity, out) : SR_OK;
}

// The newest unfinished run of this identity below 'parent'; *path is NULL if there is none.
static sr_status find_unfinished(const char *parent, const char *identity, sr_text *identities,
                                 char **path) {
    struct dirent **entries;
    *path = NULL;
    int count = scandir(parent, &entries, NULL, alphasort);
    if (count < 0)
        return errno == ENOENT ? SR_OK : sr_file_fail(parent, "cannot be listed", errno);
    sr_status status = SR_OK;
    for (int i = count; i-- > 0;) { // stamps sort by time: the newest first
        const char *name = entries[i]->d_name;
        if (*path == NULL && status == SR_OK && name[0] >= '0' && name[0] <= '9') {
            bool found = false;
            *path = sr_path_join(parent, name);
            status = *path == NULL ? SR_E_MEMORY : can_resume(*path, identity, identities, &found);
            if (!found) {
                sr_free(*path);
                *path = NULL;
            }
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

// The folder of a recipe's stamped runs, in new memory.
static char *parent_of_stamps(const sr_run_options *options) {
    return sr_path_join(options->root == NULL ? "runs" : options->root, options->recipe);
}

// Before anything is written into the folder: it may be a copy of somebody else's run.
static sr_status take_lock(sr_run_folder *run) {
    SR_TRY(sr_links_check_output(run->path, "run folder"));
    return sr_run_lock_take(run->path, &run->lock);
}

static sr_status open_by_identity(sr_run_folder *run, const sr_run_options *options,
                                  sr_text *identities) {
    char *parent = parent_of_stamps(options);
    if (parent == NULL)
        return SR_E_MEMORY;
    sr_status status = SR_OK;
    if (!options->fresh)
        status = find_unfinished(parent, options->identity, identities, &run->path);
    if (status == SR_OK && run->path != NULL) {
        run->resumed = true;
        status = take_lock(run);
        if (status == SR_OK)
            status = complete_run(run->path, options, identities);
    } else if (status == SR_OK) {
        status = make_stamped(parent, &run->path);
        if (status == SR_OK)
            status = take_lock(run);
        if (status == SR_OK)
            status = begin_run(run->path, options);
    }
    run->stamped = true;
    sr_free(parent);
    return status;
}

// Moves the locked folder aside, and creates and locks a new one at its path.
static sr_status move_aside(sr_run_folder *run) {
    char stamp[48];
    for (int attempt = 0; attempt < MAX_STAMPS; ++attempt) {
        char ending[64], *old;
        make_stamp(attempt, stamp, sizeof stamp);
        (void)snprintf(ending, sizeof ending, ".old-%s", stamp);
        sr_status status = sr_move_aside(run->path, ending, &old);
        if (status == SR_E_EXISTS)
            continue;
        SR_TRY(status);
        SR_INFO("%s is kept as %s", run->path, old);
        sr_free(old);
        sr_run_lock_release(&run->lock);
        SR_TRY(sr_make_folders(run->path));
        return take_lock(run);
    }
    return SR_FAIL(SR_E_EXISTS, "%s: too many old copies beside it", run->path);
}

static sr_status fail_finished(const char *path, bool other_identity) {
    if (other_identity)
        return SR_FAIL(SR_E_USAGE,
                       "%s contains a run of another recipe, seed or data set; choose another "
                       "folder, or add --fresh to move it aside",
                       path);
    return SR_FAIL(SR_E_USAGE,
                   "%s contains a finished run of this recipe; evaluate it with 'serried val %s', "
                   "choose another folder, or add --fresh to move it aside",
                   path, path);
}

static sr_status fail_foreign(const char *path) {
    return SR_FAIL(SR_E_USAGE, "%s is not a run folder of serried; choose another with -o", path);
}

// -o DIR: once locked, the folder is inspected again.
static sr_status open_named(sr_run_folder *run, const sr_run_options *options,
                            sr_text *identities) {
    run->path = sr_strdup(options->folder);
    if (run->path == NULL)
        return SR_E_MEMORY;
    folder_state state;
    SR_TRY(inspect(run->path, identities, &state));
    if (state == FOLDER_FOREIGN)
        return fail_foreign(run->path);
    SR_TRY(sr_make_folders(run->path));
    SR_TRY(take_lock(run));
    SR_TRY(inspect(run->path, identities, &state));
    if (state == FOLDER_UNFINISHED || state == FOLDER_FINISHED) {
        bool same;
        SR_TRY(is_of(run->path, identities, options->identity, &same));
        if (options->fresh) {
            SR_TRY(move_aside(run));
        } else if (!same || state == FOLDER_FINISHED) {
            return fail_finished(run->path, !same);
        } else {
            run->resumed = true;
            return complete_run(run->path, options, identities);
        }
    }
    return begin_run(run->path, options);
}

// Marks a finished run as extended. Done first, so that after a kill in between the same command
// extends the run again.
static sr_status reopen(const sr_run_folder *run) {
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, "{\"status\": \"" SR_RUN_EXTENDED "\", \"wall_seconds\": ");
    sr_text_add_json_number(&text, sr_run_previous_seconds(run));
    sr_text_add(&text, "}\n");
    return write_exit(run, &text);
}

static sr_status extend(sr_run_folder *run, const sr_run_options *options, folder_state state,
                        const sr_text *identities) {
    if (state == FOLDER_FINISHED)
        SR_TRY(reopen(run));
    SR_TRY(sr_run_identity_write(run->path, options->identity, identities->data));
    return write_recipe(run->path, options);
}

// What is longer must be this run: with other data, the identity of its recipe is another one.
static sr_status find_extension(const sr_run_folder *run, const sr_run_options *options,
                                sr_text *identities, bool *extends) {
    char before[2][65] = {"", ""};
    bool own = false;
    *extends = false;
    if (options->extends == NULL)
        return SR_OK;
    char *path = sr_path_join(run->path, "recipe.yaml");
    if (path == NULL)
        return SR_E_MEMORY;
    sr_kept_error kept = {.status = SR_OK};
    sr_error_keep(&kept, options->extends(options->user, path, before, extends));
    sr_free(path);
    for (int i = 0; i < 2 && !own && before[i][0] != '\0'; ++i) {
        own = sr_run_identity_has(identities->data, before[i]);
        if (own)
            break;
        SR_TRY(sr_checkpoint_all_of(run->path, before[i], &own)); // the file may be damaged
        if (own)
            sr_text_add(identities, "%s\n", before[i]);
    }
    *extends = *extends && own;
    return own || kept.status == SR_E_MEMORY ? sr_error_restore(&kept) : SR_OK;
}

static sr_status open_to_resume(sr_run_folder *run, const sr_run_options *options,
                                sr_text *identities) {
    run->path = sr_strdup(options->resume);
    if (run->path == NULL)
        return SR_E_MEMORY;
    folder_state state;
    bool same, extends = false;
    SR_TRY(inspect(run->path, identities, &state));
    if (state != FOLDER_UNFINISHED && state != FOLDER_FINISHED)
        return SR_FAIL(SR_E_USAGE, "--resume %s: not a run folder of serried", run->path);
    SR_TRY(take_lock(run));
    SR_TRY(inspect(run->path, identities, &state));
    SR_TRY(is_of(run->path, identities, options->identity, &same));
    if (!same)
        SR_TRY(find_extension(run, options, identities, &extends));
    if (!same && !extends) {
        return SR_FAIL(SR_E_USAGE,
                       "--resume %s: it was started with other options, seed or data (compare its "
                       "recipe.yaml with 'serried recipe show'); only neutral options may change, "
                       "and epochs or steps may grow",
                       run->path);
    }
    if (state == FOLDER_FINISHED && !extends) {
        return SR_FAIL(SR_E_USAGE,
                       "--resume %s: this run is finished (see its exit.json); more epochs or "
                       "steps extend it",
                       run->path);
    }
    run->resumed = true;
    return extends ? extend(run, options, state, identities)
                   : complete_run(run->path, options, identities);
}

// Removes the temporary files of a killed job: this job has the lock, so that one is dead.
static void remove_leftovers(const sr_run_folder *run) {
    char *samples = sr_path_join(run->path, "samples");
    sr_remove_temporary_files(run->path, 0);
    sr_checkpoint_remove_temporary_files(run->path);
    if (samples != NULL)
        sr_remove_temporary_files(samples, 0);
    sr_free(samples);
}

static sr_status open_events(sr_run_folder *run) {
    char *path = sr_run_folder_file(run, "log.jsonl");
    sr_status status = path == NULL ? SR_E_MEMORY : sr_file_open_lines(path, &run->events);
    sr_free(path);
    return status;
}

sr_status sr_run_folder_check_writable(const sr_run_options *options) {
    if (options->resume != NULL) // a missing one is refused when it is opened
        return sr_path_is_folder(options->resume) ? sr_check_folder_writable(options->resume)
                                                  : SR_OK;
    if (options->folder != NULL && sr_path_exists(options->folder) &&
        !sr_path_is_folder(options->folder))
        return fail_foreign(options->folder);
    char *parent = options->folder == NULL ? parent_of_stamps(options) : NULL;
    if (options->folder == NULL && parent == NULL)
        return SR_E_MEMORY;
    const sr_status status = sr_check_folder_writable(parent ? parent : options->folder);
    sr_free(parent);
    return status;
}

sr_status sr_run_folder_open(const sr_run_options *options, sr_run_folder **out) {
    if (options->fresh && options->resume != NULL)
        return SR_FAIL(SR_E_USAGE, "--fresh and --resume are mutually exclusive");
    sr_run_folder *run = new_handle();
    if (run == NULL)
        return SR_E_MEMORY;
    sr_status status;
    sr_text identities;
    sr_text_init(&identities);
    if (options->resume != NULL)
        status = open_to_resume(run, options, &identities);
    else if (options->folder != NULL)
        status = open_named(run, options, &identities);
    else
        status = open_by_identity(run, options, &identities);
    sr_text_release(&identities);
    if (status == SR_OK)
        status = open_events(run);
    if (status != SR_OK) {
        sr_run_folder_close(run);
        return status;
    }
    remove_leftovers(run);
    *out = run;
    return SR_OK;
}

// The run folder's path now, by the lock file in it, in new memory. NULL if it was removed.
static char *find_moved(const sr_run_folder *run) {
    char link[40], path[PATH_MAX];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", run->lock.fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL || !sr_path_exists(path)) // " (deleted)" is appended to a removed file
        return NULL;
    *slash = '\0';
    return sr_strdup(path);
}

sr_status sr_run_folder_check(const sr_run_folder *run) {
    struct stat held, there;
    if (run->lock.fd < 0 || fstat(run->lock.fd, &held) != 0)
        return SR_OK;
    char *path = sr_path_join(run->path, "run.lock");
    if (path == NULL)
        return SR_E_MEMORY;
    const bool same =
        stat(path, &there) == 0 && there.st_ino == held.st_ino && there.st_dev == held.st_dev;
    sr_free(path);
    if (same)
        return SR_OK;
    char *now = find_moved(run);
    const sr_status status =
        now == NULL ? SR_FAIL(SR_E_IO,
                              "%s was removed while the run was writing to it; run the same "
                              "command again to start over",
                              run->path)
                    : SR_FAIL(SR_E_IO,
                              "%s was moved to %s while the run was writing to it; to continue it "
                              "there, run the command with --resume %s instead of -o; the same "
                              "command starts over",
                              run->path, now, now);
    sr_free(now);
    return status;
}

void sr_run_folder_close(sr_run_folder *run) {
    if (run == NULL)
        return;
    if (run->events >= 0)
        (void)close(run->events);
    sr_run_lock_release(&run->lock);
    sr_free(run->path);
    sr_free(run);
}

const char *sr_run_folder_path(const sr_run_folder *run) {
    return run->path;
}

void sr_run_folder_make_latest(const sr_run_folder *run) {
    const char *stamp = strrchr(run->path, '/');
    if (!run->stamped || stamp == NULL)
        return;
    sr_text link;
    sr_text_init(&link);
    sr_text_add(&link, "%.*s/latest", (int)(stamp - run->path), run->path);
    if (sr_text_check(&link) != SR_OK || sr_link_atomic(link.data, stamp + 1) != SR_OK)
        SR_WARN("%s", sr_error_message());
    sr_text_release(&link);
}

bool sr_run_folder_resumed(const sr_run_folder *run) {
    return run->resumed;
}

char *sr_run_folder_file(const sr_run_folder *run, const char *name) {
    return sr_path_join(run->path, name);
}

char *sr_run_log_path(const char *folder, int rank) {
    char name[32];
    if (rank == 0)
        return sr_path_join(folder, "log.txt");
    char *logs = sr_path_join(folder, "log"), *path = NULL;
    snprintf(name, sizeof name, "rank-%04d.txt", rank);
    if (logs != NULL && sr_make_folders(logs) == SR_OK)
        path = sr_path_join(logs, name);
    sr_free(logs);
    return path;
}

// -- events and results ----------------------------------------------------------------------

void sr_run_event(sr_run_folder *run, const char *event, const char *fields) {
    char time_label[32];
    sr_text line;
    sr_text_init(&line);
    sr_clock_utc_label(time_label);
    sr_text_add(&line, "{\"time\": \"%s\", \"event\": ", time_label);
    sr_text_add_json_string(&line, event);
    sr_text_add(&line, fields == NULL ? "%s}\n" : ", %s}\n", fields == NULL ? "" : fields);
    sr_watch watch;
    sr_watch_begin(&watch, "%s/log.jsonl to be written", run->path);
    sr_status status = sr_text_check(&line);
    if (status == SR_OK)
        status = sr_file_add_line(run->events, "log.jsonl", line.data, line.length);
    sr_watch_end(&watch);
    if (status != SR_OK &&
        !atomic_exchange_explicit(&run->event_failed, true, memory_order_relaxed))
        SR_WARN("%s: %s; events are lost", run->path, sr_error_message());
    sr_text_release(&line);
}

// The members of exit.json.
static void add_result(const sr_run_result *result, const char *separator, sr_text *text) {
    char ended[32];
    sr_clock_utc_label(ended);
    sr_text_add(text, "\"status\": ");
    sr_text_add_json_string(text, result->status);
    sr_text_add(text, "%s\"exit_code\": %d%s\"message\": ", separator, result->exit_code,
                separator);
    sr_text_add_json_string(text, result->message == NULL ? "" : result->message);
    sr_text_add(text, "%s\"steps\": %" PRId64 "%s\"samples\": %" PRId64 "%s\"digest\": ", separator,
                result->steps, separator, result->samples, separator);
    sr_text_add_json_string(text, result->digest == NULL ? "" : result->digest);
    sr_text_add(text, "%s\"wall_seconds\": ", separator);
    sr_text_add_json_number(text, result->wall_seconds);
    sr_text_add(text, "%s\"ended\": \"%s\"%s\"metrics\": {", separator, ended, separator);
    for (int i = 0; i < result->metric_count; ++i) {
        sr_text_add(text, i > 0 ? ", " : "");
        sr_text_add_json_string(text, result->metrics[i].name);
        sr_text_add(text, ": ");
        sr_text_add_json_number(text, result->metrics[i].value);
    }
    sr_text_add(text, "}");
}

sr_status sr_run_finish(sr_run_folder *run, const sr_run_result *result) {
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, "{");
    add_result(result, ",\n ", &text);
    sr_text_add(&text, "}\n");
    return write_exit(run, &text);
}

void sr_run_result_add_line(const sr_run_result *result, const char *folder, sr_text *out) {
    sr_text_add(out, "{\"run\": ");
    sr_text_add_json_string(out, folder);
    sr_text_add(out, ", ");
    add_result(result, ", ", out);
    sr_text_add(out, "}\n");
}

double sr_run_previous_seconds(const sr_run_folder *run) {
    sr_arena arena;
    const sr_json *root;
    double seconds = 0;
    sr_arena_init(&arena);
    if (read_json(run->path, "exit.json", &arena, &root) != SR_OK ||
        !sr_json_double(sr_json_get(root, "wall_seconds"), &seconds))
        seconds = 0; // only shown; nothing depends on it
    sr_arena_release(&arena);
    return seconds;
}
