// SPDX-License-Identifier: Apache-2.0
// Shared by the files checkpoint_*.c: the manifest with its list of files, and names of folders.
#ifndef SR_TRAINER_CHECKPOINT_INTERNAL_H
#define SR_TRAINER_CHECKPOINT_INTERNAL_H

#include "kernels/base/memory.h"
#include "trainer/checkpoint/checkpoint_state.h"
#include "trainer/checkpoint/file_sums.h"

#define CHECKPOINTS_FOLDER "checkpoints"
#define MANIFEST_NAME "manifest.json"
#define STATES_KEY "serried.slots" // metadata of a shard: JSON of its states' elements and ranges
#define MAX_RANKS 65536
#define MAX_MANIFEST ((size_t)256 << 20)

// A file of a generation and its checksums.
typedef struct sr_manifest_file {
    char *name; // base name
    sr_file_sums sums;
} sr_manifest_file;

typedef struct sr_manifest_files {
    sr_manifest_file *items;
    size_t count, capacity;
} sr_manifest_files;

// Takes ownership of the sums; *sums is empty afterwards.
sr_status sr_manifest_files_add(sr_manifest_files *files, const char *name, sr_file_sums *sums);
const sr_manifest_file *sr_manifest_files_find(const sr_manifest_files *files, const char *name);
void sr_manifest_files_release(sr_manifest_files *files);

// The text of manifest.json, including its own checksum.
sr_status sr_manifest_format(const sr_manifest *manifest, const sr_manifest_files *files,
                             sr_text *out);
// Reads and checks folder/manifest.json. Strings live in the arena; the caller releases 'files',
// also after a failure.
sr_status sr_manifest_read(const char *folder, sr_arena *arena, sr_manifest *manifest,
                           sr_manifest_files *files);
// The same in an open folder, whose path is for messages.
sr_status sr_manifest_read_in(int folder, const char *path, sr_arena *arena, sr_manifest *manifest,
                              sr_manifest_files *files);
// {"name", "bytes", "xxh3", "chunks"} of one file: a row of the manifest, and the content of the
// side file by which a rank gives its checksums to rank 0.
void sr_manifest_file_format(const sr_manifest_file *file, sr_text *out);
sr_status sr_manifest_file_parse(const char *text, size_t bytes, const char *what,
                                 sr_manifest_files *files);

// Whether the folder has a file or folder of this name.
bool sr_checkpoint_has(const char *folder, const char *name);
const char *sr_weights_file_name(sr_weights_kind kind);
// "optimizer-00002-of-00004.safetensors" into out (64 bytes).
char *sr_checkpoint_shard_name(int rank, int ranks, char *out);
// "checkpoints/00000012" into out (64 bytes).
char *sr_generation_name(int64_t generation, char *out);
// The generation that run/'link' ("last", "best") points to; 0 if there is none.
int64_t sr_generation_linked(const char *run, const char *link);

#define SR_OPEN_ATTEMPTS 100 // a job may remove generations as fast as they are opened

// A generation that is being read (checkpoint_generation.c).
typedef struct sr_generation {
    int folder; // descriptor; -1: it could not be opened
    char *path; // by which it was opened
    sr_manifest manifest;
    sr_manifest_files files;
    int *fds; // of the first 'opened' files; -1: missing
    size_t opened;
    sr_arena arena; // of strings of the manifest
} sr_generation;
// Opens folder, manifest and files, by which it can be read to its end even if it is removed
// meanwhile. To be released also after a failure.
sr_status sr_generation_open(const char *path, sr_generation *out);
void sr_generation_release(sr_generation *generation);
// Whether it is being removed, or was: a failure is then no damage, and the path may lead
// elsewhere.
bool sr_generation_is_gone(const sr_generation *generation);
// A descriptor of a file, which the caller closes. SR_E_DATA if the file is missing.
sr_status sr_generation_file(const sr_generation *generation, const sr_manifest_file *file,
                             int *fd);
// Compares one file, or all of them, with the manifest.
sr_status sr_generation_check_file(const sr_generation *generation, const sr_manifest_file *file,
                                   sr_file_damage *damage);
sr_status sr_generation_check(const sr_generation *generation);
// Opens a file for its tensors; 'checked': their bytes are compared with the manifest.
sr_status sr_generation_tensors(const sr_generation *generation, const sr_manifest_file *file,
                                bool checked, sr_safetensors **out);
// True if the failure is one of the generation's files, not of this machine.
bool sr_generation_is_damage(sr_status status);
// Generations of a run folder, newest first, complete or not. SR_OK with 0 if there are none.
sr_status sr_generations_list(const char *run, int64_t **generations, size_t *count);

#endif
