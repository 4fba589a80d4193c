// SPDX-License-Identifier: Apache-2.0
// Stamps of files (sr_file_stamp in shard.h).
#ifndef SR_DATAIO_FILE_STAMP_INTERNAL_H
#define SR_DATAIO_FILE_STAMP_INTERNAL_H

#include <stdbool.h>

#include "dataio/record/shard.h"

struct stat;

sr_file_stamp sr_file_stamp_of(const struct stat *info);
// Whether the open file still has this stamp; true where that cannot be found out.
bool sr_file_stamp_is(const sr_file_stamp *stamp, int fd);

#endif
