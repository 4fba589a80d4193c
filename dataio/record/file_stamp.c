// SPDX-License-Identifier: Apache-2.0
// Stamps of files (file_stamp_internal.h).
#include "dataio/record/file_stamp_internal.h"

#include <string.h>
#include <sys/stat.h>

sr_file_stamp sr_file_stamp_of(const struct stat *info) {
    return (sr_file_stamp){.inode = (uint64_t)info->st_ino,
                           .bytes = (uint64_t)info->st_size,
                           .modified_ns = (uint64_t)info->st_mtim.tv_sec * UINT64_C(1000000000) +
                                          (uint64_t)info->st_mtim.tv_nsec};
}

bool sr_file_stamp_is(const sr_file_stamp *stamp, int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return true;
    const sr_file_stamp now = sr_file_stamp_of(&info);
    return memcmp(stamp, &now, sizeof now) == 0;
}
