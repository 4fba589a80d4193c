// SPDX-License-Identifier: Apache-2.0
// Device memory for tests.
#ifndef SR_TESTS_UNIT_SUPPORT_DEVICE_SUPPORT_H
#define SR_TESTS_UNIT_SUPPORT_DEVICE_SUPPORT_H

#include "kernels/device/stream.h"

#include "tests/unit/support/test_support.h"

// New device memory with these bytes; freed with the device.
static inline sr_address device_copy(sr_device *device, const void *data, size_t bytes) {
    sr_address memory = sr_address_none();
    assert_ok(sr_device_alloc(device, bytes, "a test", &memory));
    assert_ok(sr_device_upload(device, memory, data, bytes));
    return memory;
}

#endif
