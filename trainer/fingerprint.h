// SPDX-License-Identifier: Apache-2.0
// The numerics fingerprint: everything outside the recipe and the data that decides bits.
#ifndef SR_TRAINER_FINGERPRINT_H
#define SR_TRAINER_FINGERPRINT_H

#include <stdbool.h>

#include "collective/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

// Version of serried's own numerics: raised with every change that moves a bit of a result.
#define SR_NUMERICS_VERSION 1
#define SR_FINGERPRINT_BYTES 256 // of a fingerprint's text, its terminator included

// "serried-numerics 1; avx2 avx512 vnni; oneDNN 2.6.3" into out; returns out.
char *sr_fingerprint(char out[SR_FINGERPRINT_BYTES]);

// Collective, before any kernel is prepared. Ranks on unequal processors keep to the features that
// all of them have, and rank 0 says so in one line; strict: SR_E_NUMERICS instead. SR_E_NUMERICS
// naming the rank and both fingerprints where these differ even so.
SR_NODISCARD sr_status sr_fingerprint_agree(sr_comm *comm, bool strict);

#ifdef __cplusplus
}
#endif
#endif
