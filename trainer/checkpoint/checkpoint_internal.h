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
// Compares all files of a generation with its manifest. SR_E_DATA if one is missing.
sr_status sr_generation_check_files(const char *folder, const sr_manifest_files *files);
// True if the failure is one of the generation's files, not of this machine.
bool sr_generation_is_damage(sr_status status);
// Generations of a run folder, newest first, complete or not. SR_OK with 0 if there are none.
sr_status sr_generations_list(const char *run, int64_t **generations, size_t *count);

#endif
