// SPDX-License-Identifier: Apache-2.0
// The order of sort_rows, for the kernels of all kinds of devices: numbers are mapped to integers
// that have the same order.
#ifndef SR_KERNELS_SORT_KEY_H
#define SR_KERNELS_SORT_KEY_H

#include <stdint.h>
#include <string.h>

#include "kernels/base/device_code.h"

// Smaller keys come first. Zeros of both signs are equal; NaNs come last.
SR_DEVICE_INLINE uint32_t sr_sort_key_f32(float value, int ascending) {
    uint32_t bits;
    if (value != value)
        return UINT32_MAX;
    if (value == 0)
        value = 0;
    memcpy(&bits, &value, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | UINT32_C(1) << 31; // in the order of the numbers
    return ascending ? bits : ~bits;
}

// The same for f64.
SR_DEVICE_INLINE uint64_t sr_sort_key_f64(double value, int ascending) {
    uint64_t bits;
    if (value != value)
        return UINT64_MAX;
    if (value == 0)
        value = 0;
    memcpy(&bits, &value, sizeof bits);
    bits = bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
    return ascending ? bits : ~bits;
}

#endif
