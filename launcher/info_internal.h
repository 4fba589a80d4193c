// SPDX-License-Identifier: Apache-2.0
// Tables of serried info that are files of their own.
#ifndef SR_LAUNCHER_INFO_INTERNAL_H
#define SR_LAUNCHER_INFO_INTERNAL_H

// Measurements of kernels that give the same bits (kernels/chooser.h).
void sr_info_chooser(void);

#endif
