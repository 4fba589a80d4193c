// SPDX-License-Identifier: Apache-2.0
// The state of a destination folder of packing: lock, pack.txt, leftovers, refused.csv.
#ifndef SR_DATAIO_PACK_STATE_H
#define SR_DATAIO_PACK_STATE_H

#include "dataio/pack.h"
#include "kernels/base/hash.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_pack_state {
    char *folder;
    int lock;                     // descriptor of the folder, locked
    char identity[SR_SHA256_HEX]; // of source and options
    bool complete;                // the folder holds exactly this already
} sr_pack_state;

// Makes the folder where it is missing and locks it. SR_E_EXISTS where another pack works there.
SR_NODISCARD sr_status sr_pack_state_open(const char *folder, sr_pack_state *out);
void sr_pack_state_close(sr_pack_state *state);
// Compares what the folder holds with what is to be packed; a complete one fills the report.
// SR_E_EXISTS where it holds something else.
SR_NODISCARD sr_status sr_pack_state_compare(sr_pack_state *state, const sr_pack_options *options,
                                             const sr_source *source, sr_pack_report *report);
// Removes what an interrupted pack left and marks the folder as being packed.
SR_NODISCARD sr_status sr_pack_state_begin(sr_pack_state *state);
// Writes refused.csv and then pack.txt, which makes the folder complete.
SR_NODISCARD sr_status sr_pack_state_finish(sr_pack_state *state, sr_source *source,
                                            const sr_pack_report *report);

#ifdef __cplusplus
}
#endif
#endif
