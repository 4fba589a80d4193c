// SPDX-License-Identifier: Apache-2.0
// The numerics fingerprint: everything outside the recipe and the data that decides bits.
//
// It is a list of components, "NAME WHAT" with "; " between them: processor features (those that
// decide bits; "plain" where there are none), and for each part of serried that computes the
// version of its bits (SR_NUMERICS_VERSION, sr_provider.numerics, SR_DATA_NUMERICS) with the
// versions of the libraries that it calls. A change that moves a bit raises the version of its
// part, so that a checkpoint of other bits is not resumed by mistake.
#ifndef SR_TRAINER_FINGERPRINT_H
#define SR_TRAINER_FINGERPRINT_H

#include <stdbool.h>

#include "collective/comm.h"
#include "kernels/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

// Version of the bits that programs, derivatives, updates and sums over lanes give with the same
// kernels and data (graph, autograd, trainer): raised with every change that moves one.
#define SR_NUMERICS_VERSION 6
#define SR_FINGERPRINT_BYTES 320 // of a fingerprint's text, its terminator included

// "serried-numerics 2; processor avx2 avx512; reference 2; onednn 2, oneDNN 2.6.3; x86 2;
// data 2, libjpeg-turbo 2.1.5" into out; returns out.
char *sr_fingerprint(char out[SR_FINGERPRINT_BYTES]);

// A fingerprint, and where it was found, as "in the checkpoint".
typedef struct sr_fingerprint_origin {
    const char *text, *origin;
} sr_fingerprint_origin;

// The components in which two fingerprints differ: "x86: 1 in the checkpoint and 2 here; ..."; ""
// where they are equal.
void sr_fingerprint_difference(const sr_fingerprint_origin *a, const sr_fingerprint_origin *b,
                               sr_text *out);

// Collective, before any kernel is prepared. Ranks whose processors differ in features that decide
// bits keep to those that all of them have, and rank 0 says so in one line; strict: SR_E_NUMERICS
// instead. SR_E_NUMERICS naming the rank and what differs where fingerprints differ even so.
SR_NODISCARD sr_status sr_fingerprint_agree(sr_comm *comm, bool strict);

#ifdef __cplusplus
}
#endif
#endif
