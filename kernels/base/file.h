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
// pread of exactly 'bytes' bytes; SR_E_DATA when the file ends before.
SR_NODISCARD sr_status sr_file_read_at(int fd, const char *path, uint64_t offset, void *out,
                                       size_t bytes);

// What a failed system call on 'path' means: SR_E_NOT_FOUND, SR_E_NO_SPACE (which says to free
// some) or SR_E_IO (which names ulimit -f where that is the cause), with "path: action: reason".
// 'error' is its errno.
SR_NODISCARD sr_status sr_file_fail(const char *path, const char *action, int error);
// All of it, in order, whatever the calls take at a time.
SR_NODISCARD sr_status sr_file_write(int fd, const char *path, const void *data, size_t bytes);
// Opens a file for adding lines and makes it where it is missing. A last line without its end, torn
// by a crash, is cut off, so that the next one does not continue it.
SR_NODISCARD sr_status sr_file_open_lines(const char *path, int *fd);
// Adds a line, or nothing of it where the disk is full.
SR_NODISCARD sr_status sr_file_add_line(int fd, const char *path, const void *line, size_t bytes);

// A file that becomes visible whole: written as "TARGET.tmp-PID-N" in the same folder, fsynced,
// renamed, and the folder fsynced. Any failure leaves what was there before. A symbolic link is
// followed, also to a target that is still missing; an existing file keeps owner and mode. Written
// in place, and not whole in one moment, are a device, a FIFO (which somebody must read within a
// minute: SR_E_TIMEOUT) and a file whose owner the new one could not be given.
typedef struct sr_atomic_file {
    int fd;
    char *path;      // as it was named
    char *target;    // behind links
    char *temporary; // NULL where the target is written in place
    uint64_t bytes;
} sr_atomic_file;

SR_NODISCARD sr_status sr_atomic_open(sr_atomic_file *file, const char *path);
// The same for a file that is to be the user's alone: mode 0600, whoever's file it replaces.
SR_NODISCARD sr_status sr_atomic_open_private(sr_atomic_file *file, const char *path);
SR_NODISCARD sr_status sr_atomic_write(sr_atomic_file *file, const void *data, size_t bytes);
// Over bytes that were written before.
SR_NODISCARD sr_status sr_atomic_write_at(sr_atomic_file *file, uint64_t offset, const void *data,
                                          size_t bytes);
SR_NODISCARD sr_status sr_atomic_commit(sr_atomic_file *file);
// Removes the temporary file; legal after a failed open, write or commit, and after commit.
void sr_atomic_abort(sr_atomic_file *file);
// All of it at once.
SR_NODISCARD sr_status sr_file_write_atomic(const char *path, const void *data, size_t bytes);
// The same in place and without fsync: for many small files that are soon made again.
SR_NODISCARD sr_status sr_file_write_quickly(const char *path, const void *data, size_t bytes);
// fsync of a file; SR_OK also for what has nothing to sync, as a pipe.
SR_NODISCARD sr_status sr_file_sync(int fd, const char *path);
// True for a name that sr_atomic_open gives: what a killed process may leave behind.
bool sr_file_is_temporary(const char *name);
// Removes such files from a folder that no other process writes into.
void sr_remove_temporary_files(const char *folder);
// The path behind symbolic links in the last part of 'path', also behind one that leads to nothing
// yet, in new memory (sr_free). Links of /proc are not followed. SR_E_IO for a circle of links, and
// for a link of a third user in a folder that everybody may write.
SR_NODISCARD sr_status sr_file_target(const char *path, char **out);
// A symbolic link, replaced at once where it is there already. SR_E_EXISTS where the name is that
// of something else.
SR_NODISCARD sr_status sr_link_atomic(const char *path, const char *target);
// Renames what stands behind 'path' and its links to that name with 'ending' behind it, which
// replaces a file of that name; *moved is the new name (sr_free). SR_E_EXISTS where a folder would
// be replaced.
SR_NODISCARD sr_status sr_move_aside(const char *path, const char *ending, char **moved);

// Makes a folder and its parents (mode 0777 less umask), behind links as sr_file_target.
SR_NODISCARD sr_status sr_make_folders(const char *path);
// SR_E_IO where permissions or a read-only file system would keep sr_make_folders from making it,
// or anybody from writing into it. Makes nothing.
SR_NODISCARD sr_status sr_check_folder_writable(const char *path);
// fsync of a folder, so that renames inside survive a power cut.
SR_NODISCARD sr_status sr_sync_folder(const char *path);
// The same for all parents of a path, so that it is found after a power cut. Parents that may not
// be opened are somebody else's and older than the path.
void sr_sync_parents(const char *path);
bool sr_path_exists(const char *path);
bool sr_path_is_folder(const char *path);
// Something is there that is neither a file nor a folder: a device, a FIFO, a socket.
bool sr_path_is_stream(const char *path);
// "a/b" of its parts, in new memory (sr_free); NULL with the error set when memory is out.
char *sr_path_join(const char *folder, const char *name);

#ifdef __cplusplus
}
#endif
#endif
