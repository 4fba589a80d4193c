// SPDX-License-Identifier: Apache-2.0
// Kernels of devices that are not CPUs, run on arrays of the host.
#ifndef SR_TESTS_UNIT_DEVICE_RUN_H
#define SR_TESTS_UNIT_DEVICE_RUN_H

#include "kernels/device/device.h"
#include "kernels/kernel.h"

// The device of the tests (SERRIED_TEST_DEVICE), opened once; NULL if it runs the CPU's kernels.
sr_device *device_of_test(void);
// For sr_context_options.device: NULL, the device of the tests; "cpu" for f64 where that one has no
// kernels for it.
const char *device_for(sr_dtype type);
// Copies the arguments (NULL: absent; equal pointers are one array) to the device, launches, and
// copies them back. Every byte of the workspace is 'fill' before.
void device_run(sr_device *device, const sr_prepared *prepared, const sr_kernel_request *request,
                void *const *p, int fill);
// Launches what device_run has, if it packs an argument, with memory for that: what packs it, and
// what finds it there, has the results that are in 'p'.
void device_run_packed(sr_device *device, const sr_prepared *prepared,
                       const sr_kernel_request *request, void *const *p, int fill);

#endif
