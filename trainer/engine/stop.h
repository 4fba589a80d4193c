// SPDX-License-Identifier: Apache-2.0
// Stop requests: how a training loop learns that it is to end with a checkpoint. sr_engine_step
// passes a rank's request on to all ranks (sr_phase_stop_agreed).
#ifndef SR_TRAINER_STOP_H
#define SR_TRAINER_STOP_H

#include <stdbool.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// The first SIGINT, SIGTERM, SIGHUP or SIGUSR1 asks for a checkpoint and exit code
// 75; a second one, but SIGUSR1, ends the process at once. Handlers only set an atomic flag.
SR_NODISCARD sr_status sr_stop_install(void);
// Until then SIGUSR1, which would end the process, waits.
SR_NODISCARD sr_status sr_stop_hold(void);
// Whether the process was started with this signal ignored, as under nohup.
bool sr_stop_is_ignored(int number);
// True once a stop was asked for. Any thread; costs one load, so each step may ask.
bool sr_stop_requested(void);

#ifdef __cplusplus
}
#endif
#endif
