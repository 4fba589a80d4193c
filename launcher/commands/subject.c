// SPDX-License-Identifier: Apache-2.0
// The kinds of subjects that serried verify, stat and show accept (see subject.h).
#include "launcher/commands/subject.h"

#include <sys/stat.h>

#include "kernels/base/file.h"
#include "trainer/checkpoint/checkpoint.h"

static sr_status stat_checkpoint(const char *path, bool json, sr_text *out) {
    return json ? sr_checkpoint_describe_json(path, out) : sr_checkpoint_describe(path, false, out);
}

static const sr_subject subjects[] = {
    {"data set", sr_subject_is_data, sr_subject_verify_data, sr_subject_stat_data},
    {"checkpoint", sr_checkpoint_is, sr_checkpoint_verify, stat_checkpoint},
};

sr_status sr_subject_find(const char *path, const sr_subject **out) {
    if (!sr_path_exists(path))
        return SR_FAIL(SR_E_NOT_FOUND, "%s: no such file or folder", path);
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (subjects[i].is(path)) {
            *out = &subjects[i];
            return SR_OK;
        }
    return SR_FAIL(SR_E_USAGE,
                   "%s is not a shard, data set, checkpoint or run folder; if it contains "
                   "pictures, pack them: serried pack %s %s.packed",
                   path, path, path);
}
