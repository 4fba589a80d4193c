// SPDX-License-Identifier: Apache-2.0
// The state of a destination folder of packing: lock, pack.txt, leftovers, refused.csv.
#ifndef SR_DATAIO_PACK_STATE_H
#define SR_DATAIO_PACK_STATE_H

#include "dataio/pack/pack.h"
#include "kernels/base/hash.h"

#ifdef __cplusplus
extern "C" {
#endif

// Progress of a pack: what is on the disk and need not be done again.
typedef struct sr_pack_progress {
    bool checked;           // every picture was checked (pack.h, val_fraction and masks)
    int64_t classes;        // found by that check
    int split;              // the current one; those before are finished
    uint32_t shards;        // finished ones of the split
    uint64_t position;      // samples of its order that are in these shards or were refused
    sr_pack_report report;  // counts up to there
    size_t refused_checked; // how many of the following refusals the check found
    char **refused;         // path, reason, path, reason, ...
    size_t refused_count, refused_capacity; // of both
} sr_pack_progress;

typedef struct sr_pack_state {
    char *folder;
    int lock;                     // descriptor of the folder, locked
    int lock_file;                // or, where folders cannot be locked, of a file in it; else -1
    char identity[SR_SHA256_HEX]; // of source and options
    bool complete;                // the folder already contains exactly this
    bool begun;                   // it contains a part of this
    sr_pack_progress progress;    // which part
} sr_pack_state;

// Creates the folder if it is missing and locks it. SR_E_EXISTS where another pack works there.
SR_NODISCARD sr_status sr_pack_state_open(const char *folder, sr_pack_state *out);
void sr_pack_state_close(sr_pack_state *state);
// Compares the contents of the folder with what is to be packed; a complete pack fills the report,
// an unfinished one sets 'begun'. SR_E_EXISTS where the folder contains something else.
SR_NODISCARD sr_status sr_pack_state_compare(sr_pack_state *state, const sr_pack_options *options,
                                             const sr_source *source, sr_pack_report *report);
// Marks the folder as unfinished and removes files that do not belong to state->progress.
SR_NODISCARD sr_status sr_pack_state_begin(sr_pack_state *state);
// Saves state->progress, with the refusals of the source from number 'listed' on.
SR_NODISCARD sr_status sr_pack_state_save(sr_pack_state *state, const sr_source *source,
                                          size_t listed);
// Writes refused.csv and then pack.txt, which makes the folder complete.
SR_NODISCARD sr_status sr_pack_state_finish(sr_pack_state *state, sr_source *source,
                                            const sr_pack_report *report);

// Reads pack.txt of a complete folder; *found is false for a folder without one.
SR_NODISCARD sr_status sr_pack_report_read(const char *folder, sr_pack_report *out, bool *found);
// The first split that has not as many records in the folder as in the report, or -1.
int sr_pack_find_missing(const char *folder, const sr_pack_report *report);

#ifdef __cplusplus
}
#endif
#endif
