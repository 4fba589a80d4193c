// SPDX-License-Identifier: Apache-2.0
// Files: whole reads and writes, and files that appear at once or not at all.
#ifndef SR_KERNELS_BASE_FILE_H
#define SR_KERNELS_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// All of a file, with a terminating zero byte after it (not counted). Freed with sr_free.
// Errors name the path. max_bytes guards against the wrong file (SR_E_LIMIT). Pipes and devices are
// refused (SR_E_IO): reading one might never end.
SR_NODISCARD sr_status sr_file_read(const char *path, size_t max_bytes, void **data, size_t *bytes);
// The same for file 'name' of an open folder; 'path' is for messages.
SR_NODISCARD sr_status sr_file_read_in(int folder, const char *name, const char *path,
                                       size_t max_bytes, void **data, size_t *bytes);
// pread of exactly 'bytes' bytes; SR_E_DATA when the file ends before.
SR_NODISCARD sr_status sr_file_read_at(int fd, const char *path, uint64_t offset, void *out,
                                       size_t bytes);

// The error of a failed system call on 'path': SR_E_NOT_FOUND, SR_E_NO_SPACE (asks to free space)
// or SR_E_IO (names ulimit -f where that is the cause), with "path: action: reason". 'error' is its
// errno.
SR_NODISCARD sr_status sr_file_fail(const char *path, const char *action, int error);
// Opens a file for appending lines, and creates it if it is missing. An unterminated last line,
// left by a crash, is cut off, so that the next line does not continue it.
SR_NODISCARD sr_status sr_file_open_lines(const char *path, int *fd);
// Appends a line, or nothing of it when the disk is full.
SR_NODISCARD sr_status sr_file_add_line(int fd, const char *path, const void *line, size_t bytes);

// A file that appears at once: it is written as "TARGET.tmp-PID-N" in the same folder, fsynced and
// renamed, and the folder is fsynced. A failure leaves what was there before. A symbolic link is
// followed, also to a target that does not exist yet; an existing file keeps owner and mode. Three
// kinds are written in place and not at once: a device, a FIFO (which must be read within a minute:
// SR_E_TIMEOUT), and a file whose owner cannot be given to the new one.
typedef struct sr_atomic_file {
    int fd;
    char *path;      // as given by the caller
    char *target;    // with links resolved
    char *temporary; // NULL when the target is written in place
    uint64_t bytes;
} sr_atomic_file;

SR_NODISCARD sr_status sr_atomic_open(sr_atomic_file *file, const char *path);
// The same for a private file: mode 0600, whatever file it replaces.
SR_NODISCARD sr_status sr_atomic_open_private(sr_atomic_file *file, const char *path);
SR_NODISCARD sr_status sr_atomic_write(sr_atomic_file *file, const void *data, size_t bytes);
// Overwrites bytes that were written before.
SR_NODISCARD sr_status sr_atomic_write_at(sr_atomic_file *file, uint64_t offset, const void *data,
                                          size_t bytes);
SR_NODISCARD sr_status sr_atomic_commit(sr_atomic_file *file);
// Removes the temporary file; legal after a failed open, write or commit, and after commit.
void sr_atomic_abort(sr_atomic_file *file);
// Opens, writes and commits in one call.
SR_NODISCARD sr_status sr_file_write_atomic(const char *path, const void *data, size_t bytes);
// Writes a file that can be made again beside the data that it belongs to, atomically. The data may
// come from anybody: so only in a folder that this user owns, and never over or through anything
// that has the name already, a dangling link included. SR_E_EXISTS, SR_E_IO.
SR_NODISCARD sr_status sr_file_write_beside(const char *path, const void *data, size_t bytes);
// Writes in place and without fsync: for many small files that can be made again.
SR_NODISCARD sr_status sr_file_write_quickly(const char *path, const void *data, size_t bytes);
// fsync of a file; SR_OK also for pipes and devices, which have nothing to sync.
SR_NODISCARD sr_status sr_file_sync(int fd, const char *path);
// True for the name of a temporary file of sr_atomic_open, which a killed process may leave behind.
bool sr_file_is_temporary(const char *name);
// Removes such files from a folder that no other process writes into.
void sr_remove_temporary_files(const char *folder);
// The path with symbolic links in its last component resolved, also links to a target that does not
// exist yet, in new memory (sr_free). Links of /proc are not followed. SR_E_IO for a loop of links,
// and for another user's link in a world-writable folder.
SR_NODISCARD sr_status sr_file_target(const char *path, char **out);
// Makes a symbolic link, or replaces an existing one atomically. SR_E_EXISTS if 'path' is something
// else.
SR_NODISCARD sr_status sr_link_atomic(const char *path, const char *target);
// Renames the target of 'path' (links resolved) by appending 'ending' to its name, and replaces a
// file of that name; *moved is the new name (sr_free). SR_E_EXISTS if a folder would be replaced.
SR_NODISCARD sr_status sr_move_aside(const char *path, const char *ending, char **moved);

// Makes a folder and its parents (mode 0777 less umask), with links resolved as by sr_file_target.
SR_NODISCARD sr_status sr_make_folders(const char *path);
// SR_E_IO if permissions or a read-only file system prevent sr_make_folders from making the folder,
// or this process from writing into it. Makes nothing.
SR_NODISCARD sr_status sr_check_folder_writable(const char *path);
// fsync of a folder, so that renames inside survive a power cut.
SR_NODISCARD sr_status sr_sync_folder(const char *path);
// fsync of all parents of a path, so that the path survives a power cut. Parents that cannot be
// opened are skipped: they belong to somebody else and are older than the path.
void sr_sync_parents(const char *path);
bool sr_path_exists(const char *path);
bool sr_path_is_folder(const char *path);
// Whether the path is a device, a FIFO or a socket: neither a file nor a folder.
bool sr_path_is_stream(const char *path);
// "a/b" from "a" and "b", in new memory (sr_free); NULL with the error set when memory is out.
char *sr_path_join(const char *folder, const char *name);

#ifdef __cplusplus
}
#endif
#endif
