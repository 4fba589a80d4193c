// SPDX-License-Identifier: Apache-2.0
// Removing a job's folder below /dev/shm, for the parent (start.c) and for its guard.
#include <errno.h>
#include <ftw.h>
#include <stdio.h>

#include "launcher/start/start_internal.h"

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at) {
    (void)info;
    (void)type;
    (void)at;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

void sr_start_remove_folder(const char *folder) {
    (void)nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
