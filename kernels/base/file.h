// SPDX-License-Identifier: Apache-2.0
// Files: whole reads and writes, and atomic writes, after which a file is complete or absent.
#ifndef SR_KERNELS_BASE_FILE_H
#define SR_KERNELS_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Reads a whole file and adds a terminating zero byte, which is not counted. Freed with sr_free.
// Errors name the path. A file of more than max_bytes, probably the wrong one, gives SR_E_LIMIT.
// Pipes and devices give SR_E_IO, since reading one might never end.
SR_NODISCARD sr_status sr_file_read(const char *path, size_t max_bytes, void **data, size_t *bytes);
// The same for file 'name' of an open folder; 'path' is for messages.
SR_NODISCARD sr_status sr_file_read_in(int folder, const char *name, const char *path,
                                       size_t max_bytes, void **data, size_t *bytes);
// pread of exactly 'bytes' bytes; SR_E_DATA if the file is shorter.
SR_NODISCARD sr_status sr_file_read_at(int fd, const char *path, uint64_t offset, void *out,
                                       size_t bytes);

// Reports a failed system call on 'path' as "path: action: reason": SR_E_NOT_FOUND, SR_E_NO_SPACE
// (asks to free space) or SR_E_IO (names ulimit -f if that is the cause). 'error' is its errno.
SR_NODISCARD sr_status sr_file_fail(const char *path, const char *action, int error);
// Opens a file for appending lines, and creates it if it is missing. An unterminated last line,
// left by a crash, is cut off, so that the next line does not continue it.
SR_NODISCARD sr_status sr_file_open_lines(const char *path, int *fd);
// Appends a line; writes nothing if the disk is full.
SR_NODISCARD sr_status sr_file_add_line(int fd, const char *path, const void *line, size_t bytes);

// A file that is written atomically: it is written as "TARGET.tmp-PID-N" in the same folder,
// fsynced and renamed, and the folder is fsynced. A failure leaves the previous file unchanged. A
// symbolic link is followed, even if its target does not exist yet; an existing file keeps owner
// and mode. Three kinds are written in place and not atomically: a device, a FIFO (which must be
// read within a minute: SR_E_TIMEOUT), and a file whose owner cannot be given to the new one.
typedef struct sr_atomic_file {
    int fd;
    char *path;      // as given by the caller
    char *target;    // with links resolved
    char *temporary; // NULL when the target is written in place
    uint64_t bytes;
} sr_atomic_file;

SR_NODISCARD sr_status sr_atomic_open(sr_atomic_file *file, const char *path);
// The same for a private file: mode 0600, even if it replaces a file with another mode.
SR_NODISCARD sr_status sr_atomic_open_private(sr_atomic_file *file, const char *path);
SR_NODISCARD sr_status sr_atomic_write(sr_atomic_file *file, const void *data, size_t bytes);
// Overwrites bytes that have already been written.
SR_NODISCARD sr_status sr_atomic_write_at(sr_atomic_file *file, uint64_t offset, const void *data,
                                          size_t bytes);
SR_NODISCARD sr_status sr_atomic_commit(sr_atomic_file *file);
// Removes the temporary file; legal after a failed open, write or commit, and after commit.
void sr_atomic_abort(sr_atomic_file *file);
// Opens, writes and commits in one call.
SR_NODISCARD sr_status sr_file_write_atomic(const char *path, const void *data, size_t bytes);
// Atomically writes a file that can be regenerated, beside the data that it belongs to. Since the
// data may come from anyone, it writes only into a folder that this user owns, and never over or
// through anything that already has the name, including a dangling link. SR_E_EXISTS, SR_E_IO.
SR_NODISCARD sr_status sr_file_write_beside(const char *path, const void *data, size_t bytes);
// Writes in place and without fsync: for many small files that can be regenerated.
SR_NODISCARD sr_status sr_file_write_quickly(const char *path, const void *data, size_t bytes);
// fsync of a file; SR_OK also for pipes and devices, which have nothing to sync.
SR_NODISCARD sr_status sr_file_sync(int fd, const char *path);
// True for the name of a temporary file of sr_atomic_open, which a killed process may leave behind.
bool sr_file_is_temporary(const char *name);
// Removes such files of a process that has ended, or of any process (0) from a folder that no other
// one writes into.
void sr_remove_temporary_files(const char *folder, long process);
// Resolves symbolic links in the last component of a path, including links to a target that does
// not exist yet. The result is in new memory (sr_free). Links of /proc are not followed. SR_E_IO
// for a loop of links, and for another user's link in a world-writable folder.
SR_NODISCARD sr_status sr_file_target(const char *path, char **out);
// Makes a symbolic link, or replaces an existing one atomically. SR_E_EXISTS if 'path' is something
// else.
SR_NODISCARD sr_status sr_link_atomic(const char *path, const char *target);
// Renames the target of 'path' (links resolved) by appending 'ending' to its name, and replaces an
// existing file of that name; *moved is the new name (sr_free). SR_E_EXISTS if a folder would be
// replaced.
SR_NODISCARD sr_status sr_move_aside(const char *path, const char *ending, char **moved);

// Makes a folder and its parents (mode 0777 minus umask); links are resolved as by sr_file_target.
SR_NODISCARD sr_status sr_make_folders(const char *path);
// SR_E_IO if permissions or a read-only file system prevent sr_make_folders from making the folder,
// or this process from writing into it. Creates nothing.
SR_NODISCARD sr_status sr_check_folder_writable(const char *path);
// fsync of a folder, so that renames in it survive a power failure.
SR_NODISCARD sr_status sr_sync_folder(const char *path);
// fsync of all parents of a path, so that the path survives a power failure. Parents that cannot be
// opened are skipped: they belong to another user and are older than the path.
void sr_sync_parents(const char *path);
bool sr_path_exists(const char *path);
bool sr_path_is_folder(const char *path);
// Whether the path is a device, a FIFO or a socket: neither a file nor a folder.
bool sr_path_is_stream(const char *path);
// "a/b" from "a" and "b", in new memory (sr_free); NULL with the error set if memory is out.
char *sr_path_join(const char *folder, const char *name);

#ifdef __cplusplus
}
#endif
#endif
