// SPDX-License-Identifier: Apache-2.0
// The doctor's findings, and the program that its two ranks run.
#ifndef SR_LAUNCHER_DOCTOR_INTERNAL_H
#define SR_LAUNCHER_DOCTOR_INTERNAL_H

#include "kernels/base/text.h"

typedef enum sr_finding_state {
    SR_FINDING_OK = 0,
    SR_FINDING_NOTE, // good to know
    SR_FINDING_WARN, // works, but slowly or not for every user
    SR_FINDING_BAD,  // training will fail
} sr_finding_state;

#define SR_FINDINGS_MAX 64

typedef struct sr_finding {
    sr_finding_state state;
    const char *name;
    char text[256];
    double images_per_s; // of the decoding test; 0 elsewhere
} sr_finding;

typedef struct sr_findings {
    sr_finding item[SR_FINDINGS_MAX];
    int count;
} sr_findings;

// Adds a finding and returns it, so that numbers can be set. In a full list it is not kept.
sr_finding *sr_findings_add(sr_findings *findings, sr_finding_state state, const char *name,
                            const char *fmt, ...) SR_PRINTF(4, 5);

// doctor_machine.c: processor, memory, limits, folders, GPUs.
void sr_doctor_check_machine(sr_findings *findings);

// doctor_ranks.c: starts two ranks and lets them meet at a barrier.
void sr_doctor_check_ranks(sr_findings *findings);
// `serried --mpi-probe`, which the two ranks run: 0 if they found each other.
int sr_doctor_mpi_probe(int argc, char **argv);

#endif
