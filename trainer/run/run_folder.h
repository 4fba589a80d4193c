// SPDX-License-Identifier: Apache-2.0
// Run folders: what a run writes, how it is found again, and which job may write to it.
//
//   runs/RECIPE/STAMP/          or the folder of -o; runs/RECIPE/latest links to the newest one
//                             that has begun to train
//     identity                  64 hex digits a line: what this run is, and was before it was
//                               extended (trainer/checkpoint/run_identity.h)
//     run.lock                  locked by the live job (open file description lock)
//     recipe.yaml  env.json     resolved recipe; versions, host and an allow-list of variables
//     log.txt  log.jsonl  log/rank-NNNN.txt
//     metrics.csv  digests.csv  results.png  results.svg
//     checkpoints/  last  best  (trainer/checkpoint/checkpoint.h)
//     exit.json                 how the last session ended; "status": "finished" ends the run
//
// A new job resumes the unfinished run of the same identity, which is the hash of the options that
// change numbers and of the data set's content. Rank 0 opens the folder and holds the lock; other
// ranks get its path from their caller.
#ifndef SR_TRAINER_RUN_FOLDER_H
#define SR_TRAINER_RUN_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/status.h"
#include "kernels/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_run_options {
    const char *root;        // NULL: "runs"
    const char *recipe;      // name of the recipe: a folder below root
    const char *folder;      // -o DIR: the folder itself; NULL: root/recipe/STAMP
    const char *resume;      // --resume DIR: this run and no other; NULL: by identity
    bool fresh;              // --fresh: a new run; one that is at 'folder' is moved aside
    const char *identity;    // of this run: 64 hex digits
    const char *recipe_yaml; // resolved recipe, written as recipe.yaml of a new run; NULL: none
    // Whether a run of another identity, whose recipe.yaml is at the path, becomes this one by
    // training longer, if its identity was one of 'before': --resume then resumes it, even if it is
    // finished. NULL: never.
    sr_status (*extends)(void *user, const char *recipe_path, char before[2][65], bool *out);
    void *user; // of extends
} sr_run_options;

typedef struct sr_run_folder sr_run_folder; // one thread at a time; events: any thread

// Finds the newest unfinished run of this identity or makes a new folder, and locks it.
// SR_E_EXISTS: another job is writing there (named with host, pid and start time). SR_E_USAGE, with
// the cure: -o or --resume on a finished run, on another identity, or on a folder that is not a
// run; --resume on a folder that does not exist.
SR_NODISCARD sr_status sr_run_folder_open(const sr_run_options *options, sr_run_folder **out);
// SR_E_IO if sr_run_folder_open could not write to the folder. Creates nothing; reads only 'root',
// 'recipe', 'folder' and 'resume'.
SR_NODISCARD sr_status sr_run_folder_check_writable(const sr_run_options *options);
// SR_E_IO if the folder was removed or moved since it was opened: files written to its path would
// be in another folder.
SR_NODISCARD sr_status sr_run_folder_check(const sr_run_folder *run);
// Releases the lock. Writes nothing.
void sr_run_folder_close(sr_run_folder *run);
// Links runs/RECIPE/latest to this run; does nothing for a folder given with -o. A link that cannot
// be made is only a warning: training does not need it.
void sr_run_folder_make_latest(const sr_run_folder *run);
const char *sr_run_folder_path(const sr_run_folder *run);
// True when the folder had an unfinished run of this identity (with or without a checkpoint), or
// one that this run extends.
bool sr_run_folder_resumed(const sr_run_folder *run);
// FOLDER/name, in new memory (sr_free); NULL with the error set if memory is out.
char *sr_run_folder_file(const sr_run_folder *run, const char *name);

// One line of log.jsonl: {"time": ..., "event": "...", fields}. 'fields' is JSON members without
// braces ("\"step\": 3"), or NULL. The first failure is a warning, later ones are silent: a log
// must not end a run.
void sr_run_event(sr_run_folder *run, const char *event, const char *fields);

// A metric of exit.json ("val_top1", 0..1).
typedef struct sr_run_metric {
    const char *name;
    double value;
} sr_run_metric;

// A name and a version, for env.json.
typedef struct sr_run_pair {
    const char *key, *value;
} sr_run_pair;

#define SR_RUN_FINISHED "finished"
#define SR_RUN_STOPPED "stopped" // with a checkpoint: run the same command again
#define SR_RUN_FAILED "failed"
#define SR_RUN_EXTENDED "extended" // finished before, now being extended; no session ends with this

typedef struct sr_run_result {
    const char *status;           // SR_RUN_...
    int exit_code;                // of the command
    const char *message;          // the reason, if it failed; or NULL
    int64_t steps, samples;       // of the whole run
    const char *digest;           // hex of the state, or NULL
    double wall_seconds;          // of the whole run, all sessions
    const sr_run_metric *metrics; // NaN is written as null
    int metric_count;
} sr_run_result;

// Writes exit.json atomically.
SR_NODISCARD sr_status sr_run_finish(sr_run_folder *run, const sr_run_result *result);
// Adds the same as one line, with the run folder as "run".
void sr_run_result_add_line(const sr_run_result *result, const char *folder, sr_text *out);
// wall_seconds up to the end of the previous session, from exit.json; 0 if there is none.
double sr_run_previous_seconds(const sr_run_folder *run);

// env.json: serried and library versions (given), compiler, C library, kernel, host, processor and
// its features, command line, working folder, and those environment variables that an allow-list
// names. Never the rest of the environment: it may hold secrets.
SR_NODISCARD sr_status sr_run_write_env(sr_run_folder *run, const sr_run_pair *versions,
                                        int version_count, int argc, char *const *argv);

// The member of env.json that names the folder in which the latest session was started.
#define SR_RUN_START_FOLDER "working_folder"
// Adds that folder, which relative paths of recipe.yaml begin at; nothing if it is not known.
SR_NODISCARD sr_status sr_run_start_folder(const char *run, sr_text *out);

// The log file of a rank: log.txt for rank 0, else log/rank-NNNN.txt (whose folder is created).
// In new memory (sr_free); NULL with the error set.
char *sr_run_log_path(const char *folder, int rank);

#ifdef __cplusplus
}
#endif
#endif
