// SPDX-License-Identifier: Apache-2.0
// Stop requests: requests that a training loop write a checkpoint and end. sr_engine_step passes a
// rank's request on to all ranks (sr_phase_stop_agreed).
#ifndef SR_TRAINER_STOP_H
#define SR_TRAINER_STOP_H

#include <stdbool.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Installs the signal handlers. The first SIGINT, SIGTERM, SIGHUP or SIGUSR1 requests a checkpoint
// and exit code 75; a second one, except SIGUSR1, ends the process at once. Handlers only set an
// atomic flag.
SR_NODISCARD sr_status sr_stop_install(void);
// Blocks SIGUSR1, which would end the process, until sr_stop_install.
SR_NODISCARD sr_status sr_stop_hold(void);
// Whether the process was started with this signal ignored, as under nohup.
bool sr_stop_is_ignored(int number);
// True once a stop was requested. Any thread; costs one load, so every step may call it.
bool sr_stop_requested(void);

#ifdef __cplusplus
}
#endif
#endif
