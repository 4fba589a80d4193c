// SPDX-License-Identifier: Apache-2.0
// Tables of serried info that have their own source files. Each function prints to stdout.
#ifndef SR_LAUNCHER_INFO_INTERNAL_H
#define SR_LAUNCHER_INFO_INTERNAL_H

#include "kernels/base/options.h"

// Measurements of kernels that give the same bits (kernels/chooser.h).
SR_NODISCARD sr_status sr_info_chooser(void);
// The entries of the kernel table for the kind of this device, as text and as an array of objects.
// Its module is opened.
SR_NODISCARD sr_status sr_info_kernels(const char *device);
SR_NODISCARD sr_status sr_info_kernels_json(const char *device);
// Every key of a recipe, as text and as an array of objects.
SR_NODISCARD sr_status sr_info_options(void);
SR_NODISCARD sr_status sr_info_options_json(void);
// The rows of one table (NULL: none), each after the prefix.
void sr_info_print_table(const sr_option_table *table, const char *prefix);

#endif
