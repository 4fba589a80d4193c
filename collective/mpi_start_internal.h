// SPDX-License-Identifier: Apache-2.0
// MPI in this process: started once, for the bootstrap and for the backend.
#ifndef SR_COLLECTIVE_MPI_START_INTERNAL_H
#define SR_COLLECTIVE_MPI_START_INTERNAL_H

#include <mpi.h>
#include <stdbool.h>

#include "kernels/base/status.h"

// Collective: starts MPI unless that is done, and duplicates MPI_COMM_WORLD; errors of the
// duplicate are returned. The watchdog knows the wait as the start of MPI. *here: MPI was started
// by this call, so that its caller ends it.
SR_NODISCARD sr_status sr_mpi_start(MPI_Comm *out, bool *here);
// The error of a call that did not return MPI_SUCCESS.
SR_NODISCARD sr_status sr_mpi_failed(int code, const char *call);

#endif
