// SPDX-License-Identifier: Apache-2.0
// The numerics fingerprint: everything outside the recipe and the data that affects the bits of a
// result.
//
// It is a list of components, "NAME WHAT", separated by "; ": the device's component
// (sr_device_numerics; for a CPU, the features that affect bits, or "plain" if there are none; with
// portable numerics, which list only the reference, "any"), and for each component of serried that
// computes, the version of its numerics (SR_NUMERICS_VERSION, sr_provider.numerics,
// SR_DATA_NUMERICS) and the versions of the libraries that it calls. A change that alters a bit
// raises the version of its component, so that a checkpoint with other numerics is not resumed by
// mistake.
#ifndef SR_TRAINER_FINGERPRINT_H
#define SR_TRAINER_FINGERPRINT_H

#include <stdbool.h>

#include "collective/comm.h"
#include "kernels/base/text.h"
#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

// The version of the numerics of programs, derivatives, updates and sums over lanes (graph,
// autograd, trainer), given the same kernels and data. Every change that alters a bit raises it.
#define SR_NUMERICS_VERSION 8
#define SR_FINGERPRINT_BYTES 320 // of a fingerprint's text, including its terminator

// "serried-numerics 2; processor avx2 avx512; reference 2; onednn 2, oneDNN 2.6.3; x86 2;
// data 2, libjpeg-turbo 2.1.5" is written to out, for computations on this device; returns out.
char *sr_fingerprint(const sr_device_properties *device, char out[SR_FINGERPRINT_BYTES]);

// A fingerprint and where it was found, such as "in the checkpoint".
typedef struct sr_fingerprint_origin {
    const char *text, *origin;
} sr_fingerprint_origin;

// The components in which two fingerprints differ: "x86: 1 in the checkpoint and 2 here; ..."; ""
// if they are equal.
void sr_fingerprint_difference(const sr_fingerprint_origin *a, const sr_fingerprint_origin *b,
                               sr_text *out);

// Collective; called before any kernel is prepared, and after sr_choose_numerics. 'device' is
// the one that this rank will compute on (sr_device_describe). If the ranks' devices differ in
// features that affect bits, all ranks use only the common ones, and rank 0 logs a line; strict:
// SR_E_NUMERICS instead. SR_E_NUMERICS, naming the rank and the difference, if their kernels are of
// different kinds, or the fingerprints still differ.
SR_NODISCARD sr_status sr_fingerprint_agree(sr_comm *comm, const sr_device_properties *device,
                                            bool strict);

#ifdef __cplusplus
}
#endif
#endif
