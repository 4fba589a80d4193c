// SPDX-License-Identifier: Apache-2.0
// The order of sort_rows, for its kernels on all kinds of devices: numbers become integers whose
// order is that of the numbers.
#ifndef SR_KERNELS_SORT_KEY_H
#define SR_KERNELS_SORT_KEY_H

#include <stdint.h>
#include <string.h>

#include "kernels/base/device_code.h"

// Smaller keys are before larger ones. Zeros of both signs are equal, NaN are last.
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
