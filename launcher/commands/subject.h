// SPDX-License-Identifier: Apache-2.0
// What a path given to verify, stat or show is, told by content, and who looks at it.
#ifndef SR_LAUNCHER_SUBJECT_H
#define SR_LAUNCHER_SUBJECT_H

#include <stdbool.h>

#include "kernels/base/status.h"
#include "kernels/base/text.h"

// One line in the table of subject.c for each kind of thing. Functions write lines of text for
// people, or one JSON object, to 'out'.
typedef struct sr_subject {
    const char *name; // "data set", "checkpoint"
    bool (*is)(const char *path);
    // All that is damaged is in the report; the status is that of the first damage.
    sr_status (*verify)(const char *path, bool json, sr_text *out);
    sr_status (*stat)(const char *path, bool json, sr_text *out);
} sr_subject;

// SR_E_NOT_FOUND, or SR_E_USAGE where nothing fits.
SR_NODISCARD sr_status sr_subject_find(const char *path, const sr_subject **out);

// Of packed data, in subject_data.c.
bool sr_subject_is_data(const char *path);
sr_status sr_subject_verify_data(const char *path, bool json, sr_text *out);
sr_status sr_subject_stat_data(const char *path, bool json, sr_text *out);

#endif
