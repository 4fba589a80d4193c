// SPDX-License-Identifier: Apache-2.0
// Kernels that are a library's, on the test's device, beside sums in f64; and lanes side by side,
// beside each alone.
#ifndef SR_TESTS_UNIT_LIBRARY_KERNELS_H
#define SR_TESTS_UNIT_LIBRARY_KERNELS_H

#include "kernels/kernel_lanes.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/kernel_problem.h"
#include "tests/unit/support/device_run.h"
#include "tests/unit/support/test_support.h"

typedef struct library {
    const char *provider, *name; // "cublaslt", "cuBLASLt"
    const char *stand_in;        // variable that sets how the stand-in of the software GPU behaves;
                                 // NULL: own kernels, for some of the problems
    void (*check)(const problem *c, const arrays *inputs, const void *got); // the last argument
    int checked, refused;                                                   // problems
} library;

// Whether the device has the library; if not, the test is skipped. Without it its provider has
// entries that serve no request.
bool library_is_there(const library *l);
// In bf16 and f16, and in fp32 if TF32 is allowed, where an entry serves: the result is checked,
// and has the same bits in further runs, with other contents of the workspace. Where the stand-in
// is told to have no kernels, that of who serves instead, after the library's entry has said so.
void library_check_problem(library *l, const problem *c);
// That problems were checked; none of the library's if the stand-in has no kernels.
void library_assert_checked(const library *l);
// A problem with the arguments that kernel_list.def says, and a bias if the kernel has one; calls
// check_problem.
void library_check(sr_kernel_id kernel, sr_dtype t, const void *params, size_t bytes, bool bias);
// The request of a kernel on the test's device, with a bias if 'bias' says so.
sr_kernel_request library_request(sr_kernel_id kernel, sr_dtype t, const void *params, size_t bytes,
                                  bool bias);
// Of 2 and of 3 lanes, which have the request each (check_lanes): where the library serves them
// side by side, with the bits of each alone. Activations and results vary, but for those in
// 'shared'. may_refuse: even the stand-in may not serve them.
void library_check_lanes(library *l, const sr_kernel_request *lane, uint32_t shared,
                         bool may_refuse);
// An element of an array of f32, bf16 or f16.
double library_number(sr_dtype dtype, const void *p, int64_t i);
// What a product of two factors is off by, in roundings of fp32: where they are cut to TF32, 2^-10
// each.
double library_product_roundings(const problem *c);
// An argument in f64, rounded to the type of the activations; test_free frees it.
double *library_rounded(const problem *c, const arrays *inputs, int i);

// The part of an array that is an argument of one lane; 'count' elements.
static inline void *part_of_lane(const test_array *all, int64_t count, int lane) {
    const int64_t first = all->count == count ? 0 : lane * count;
    return (char *)all->data + (size_t)first * sr_dtype_size(all->dtype);
}

// Runs a request of one lane on the test's device for several side by side, on numbers of its own,
// and for each alone. All results must have the same bits. Returns the entry that served the lanes
// side by side, or NULL if none does. varies: as in kernels/kernel_lanes.h. The caller frees the
// arrays.
static inline const sr_kernel_entry *check_lanes(const sr_kernel_request *lane, int lanes,
                                                 uint32_t varies) {
    sr_kernel_request all;
    sr_prepared together, alone;
    test_array *given[SR_KERNEL_MAX_ARGS] = {NULL}, *result[SR_KERNEL_MAX_ARGS] = {NULL};
    void *p[SR_KERNEL_MAX_ARGS] = {NULL};
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(lane->kernel, &count);
    if (!sr_kernel_join_lanes(lane, lanes, varies, &all))
        return NULL;
    for (int i = 0; i < lane->args; i++) {
        const double least = arguments[i].type == SR_ARG_P ? 0.5 : -2; // as variances have
        if (lane->dtype[i] == SR_DTYPE_COUNT)
            continue;
        given[i] = array_random(lane->dtype[i], sr_kernel_argument_count(&all, i), (uint32_t)i + 31,
                                least, 2);
        p[i] = given[i]->data;
        if (sr_argument_is_result(arguments[i].role))
            result[i] = array_new(lane->dtype[i], sr_kernel_argument_count(lane, i));
    }
    assert_ok(sr_kernel_prepare_as(&all, sr_kernel_find(&all), 0, &together));
    assert_ok(sr_kernel_prepare_as(lane, sr_kernel_find(lane), 0, &alone));
    device_run(device_of_test(), &together, &all, p, 0xff);
    for (int k = 0; k < lanes; k++) {
        for (int i = 0; i < lane->args; i++) {
            const int64_t one = sr_kernel_argument_count(lane, i);
            const int64_t step = given[i] && (all.apart >> i & 1) ? given[i]->count / lanes : one;
            p[i] = result[i] ? result[i]->data : given[i] ? part_of_lane(given[i], step, k) : NULL;
        }
        device_run(device_of_test(), &alone, lane, p, 0);
        for (int i = 0; i < lane->args; i++) {
            const int64_t one = sr_kernel_argument_count(lane, i);
            if (result[i] && memcmp(p[i], part_of_lane(given[i], one, k),
                                    (size_t)one * sr_dtype_size(lane->dtype[i])) != 0)
                fail_msg("%s: argument %d of lane %d of %d has other bits than alone",
                         together.entry->name, i, k, lanes);
        }
    }
    const sr_kernel_entry *entry = together.entry;
    sr_prepared_release(&together);
    sr_prepared_release(&alone);
    return entry;
}

#endif
