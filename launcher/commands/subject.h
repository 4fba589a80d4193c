// SPDX-License-Identifier: Apache-2.0
// What a path given to verify, stat or show is, detected from its content, and its functions.
#ifndef SR_LAUNCHER_SUBJECT_H
#define SR_LAUNCHER_SUBJECT_H

#include <stdbool.h>

#include "kernels/base/status.h"
#include "kernels/base/text.h"

// One row in the table of subject.c for each kind of subject. The functions write lines of text, or
// one JSON object, to 'out'.
typedef struct sr_subject {
    const char *name; // "data set", "checkpoint"
    bool (*is)(const char *path);
    // Reports all damage; the status is that of the first.
    sr_status (*verify)(const char *path, bool json, sr_text *out);
    sr_status (*stat)(const char *path, bool json, sr_text *out);
} sr_subject;

// SR_E_NOT_FOUND; SR_E_USAGE if the path is of another kind.
SR_NODISCARD sr_status sr_subject_find(const char *path, const sr_subject **out);

// Packed data (subject_data.c).
bool sr_subject_is_data(const char *path);
sr_status sr_subject_verify_data(const char *path, bool json, sr_text *out);
sr_status sr_subject_stat_data(const char *path, bool json, sr_text *out);

#endif
