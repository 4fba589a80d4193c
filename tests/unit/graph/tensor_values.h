// SPDX-License-Identifier: Apache-2.0
// Values of tensors as arrays of the tests.
#ifndef SR_TESTS_UNIT_TENSOR_VALUES_H
#define SR_TESTS_UNIT_TENSOR_VALUES_H

#include "graph/context.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/test_support.h"

// Computes the tensor; the array is the fixture's (arrays_free).
static inline test_array *read_value(sr_tensor tensor) {
    sr_info info;
    assert_true(sr_tensor_info(tensor, &info));
    test_array *got = array_new(info.dtype, sr_info_count(&info));
    assert_ok(sr_read(tensor, got->data, (size_t)got->count * sr_dtype_size(info.dtype)));
    return got;
}

#endif
