// SPDX-License-Identifier: Apache-2.0
// Containers: how the records of a data set are stored on disk.
//
// A container is a descriptor in its own file and one line in container_list.def; the container of
// a path is detected by content. All present the same structure: a split is a list of data files,
// each with a header and an index that gives offset, length and XXH3-64 of every record
// (sr_data_file). So order, reading ahead, checking, identities and messages are the same code for
// all (dataset.c). Files are read with pread, never mapped: a truncated file or a changed bit is an
// error status in every container, and fork, threads and other readers are safe.
//
// - shards (shard.h): SPLIT-NNNNN.kpl in the data set's folder.
// - kpl-dir (kpl_folder_internal.h): a KPLRecord directory, as the original package and any
//   protobuf writer make them; DST/SPLIT/root.data and its like, or one such directory by itself.
// - lmdb (lmdb_file_internal.h): DST/SPLIT/data.mdb, or one such folder or file by itself.
#ifndef SR_DATAIO_CONTAINER_H
#define SR_DATAIO_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/record/shard.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_CONTAINER_ABI 1
#define SR_CONTAINER_MAX_SPLITS 16

// Names of splits without duplicates.
typedef struct sr_split_list {
    char names[SR_CONTAINER_MAX_SPLITS][SR_SPLIT_MAX + 1]; // train, val, test, then by name
    int count;
} sr_split_list;

// The data files of a split in order; released with sr_data_files_release.
typedef struct sr_data_files {
    sr_data_file *items;
    size_t count, capacity;
} sr_data_files;

// Finds the offset of a record in its file, which is open as 'fd'.
typedef sr_status (*sr_locate_fn)(const sr_data_file *file, int fd, int64_t record,
                                  uint64_t *offset);

// One kind of container.
typedef struct sr_container {
    uint32_t struct_size, abi;
    const char *name, *help;       // "kpl-dir", as `pack --format` has it
    const char *singular, *plural; // what a data file is called: "shard", "shards"
    // Whether the path is this container by its content, intact or damaged.
    bool (*recognises)(const char *path);
    // Adds the splits at the path to the list, in any order.
    sr_status (*splits)(const char *path, sr_split_list *out);
    // Loads a split; split NULL: "train", or the split of a path that is only one. records_only: as
    // in sr_dataset_open_records.
    sr_status (*load)(const char *path, const char *split, bool records_only, sr_data_files *out);
    sr_locate_fn locate; // NULL: records begin where their entries say
    // Checks everything at the path; as sr_inspect_verify.
    sr_status (*verify)(const char *path, sr_damage_fn damage, void *user,
                        sr_verify_result *result);
} sr_container;

// The table, in order of recognition; NULL ends it.
const sr_container *sr_container_at(size_t index);
// The container at a path, or NULL.
const sr_container *sr_container_find(const char *path);

// Makes room for one more file at the end, which counts once files->count is raised.
SR_NODISCARD sr_status sr_data_files_grow(sr_data_files *files, sr_data_file **next);
// Releases all files.
void sr_data_files_release(sr_data_files *files);
// Adds a name unless it is in the list; names beyond its capacity are dropped.
void sr_split_list_add(sr_split_list *list, const char *split);
// Sorts: train, val, test, then by name.
void sr_split_list_sort(sr_split_list *list);

// -- for containers that have a folder for each split -------------------------------------------

// Adds the names of the folders in 'path' for which 'matches' is true.
SR_NODISCARD sr_status sr_container_list_folders(const char *path, bool (*matches)(const char *),
                                                 sr_split_list *out);
// True for a folder that is one ('matches') or contains folders of splits that are.
bool sr_container_has_folder(const char *path, bool (*matches)(const char *));
// The folder of a split, in new memory (sr_free): the path itself where it matches (*own is then
// true), else PATH/SPLIT. SR_E_NOT_FOUND where the path has no such split.
SR_NODISCARD sr_status sr_container_folder(const char *path, const char *split,
                                           bool (*matches)(const char *), char **out, bool *own);
// SR_E_NOT_FOUND where a file states another split than the requested one (NULL: any).
SR_NODISCARD sr_status sr_container_check_split(const sr_data_file *file, const char *split);

// -- checking ------------------------------------------------------------------------------------

// Checks the bytes and structure of all records of a file and continues after damage; adds to
// *result.
SR_NODISCARD sr_status sr_data_file_verify(const sr_data_file *file, sr_locate_fn locate,
                                           sr_damage_fn damage, void *user,
                                           sr_verify_result *result);

// Loads the file of a folder; 'path' is the data set's, which messages and names leave out.
typedef sr_status (*sr_load_folder_fn)(const char *folder, const char *path, sr_data_file *out);
// The same for 'path' where it matches, or else for all of its folders that do. A file that cannot
// be loaded because it is damaged is reported and counted, too.
SR_NODISCARD sr_status sr_container_verify_folders(const char *path, bool (*matches)(const char *),
                                                   sr_load_folder_fn load, sr_locate_fn locate,
                                                   sr_damage_fn damage, void *user,
                                                   sr_verify_result *result);

#ifdef __cplusplus
}
#endif
#endif
