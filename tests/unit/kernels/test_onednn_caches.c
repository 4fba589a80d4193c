// SPDX-License-Identifier: Apache-2.0
// The cache sizes that oneDNN assumes, from the CPUID leaves of known processors.
#include "tests/unit/support/test_support.h"

#include "kernels/cpu/onednn/onednn_internal.h"

typedef struct leaf {
    uint32_t leaf, subleaf, r[4];
} leaf;

static const leaf *machine;

static void read_machine(uint32_t wanted, uint32_t subleaf, uint32_t out[4]) {
    memset(out, 0, 4 * sizeof out[0]);
    for (const leaf *l = machine; l->r[0] || l->r[1] || l->r[2]; l++)
        if (l->leaf == wanted && l->subleaf == subleaf)
            memcpy(out, l->r, sizeof l->r);
}

#define INTEL 0x756e6547, 0x6c65746e, 0x49656e69
#define AMD 0x68747541, 0x444d4163, 0x69746e65
#define LEVELS(threads, package)                                                                   \
    {0xb, 0, {1, threads, 0x100, 0}}, {                                                            \
        0xb, 1, {                                                                                  \
            6, package, 0x201, 0                                                                   \
        }                                                                                          \
    }

// Xeon Platinum 8280: 32 KiB and 1 MiB a core, 38.5 MiB for its 28 cores of two threads.
static const leaf cascade_lake[] = {{0, 0, {0x16, INTEL}},
                                    {4, 0, {0x7c004121, 0x01c0003f, 0x3f, 0}},
                                    {4, 1, {0x7c004122, 0x01c0003f, 0x3f, 0}}, // instructions
                                    {4, 2, {0x7c004143, 0x03c0003f, 0x3ff, 0}},
                                    {4, 3, {0x7c0fc163, 0x0280003f, 0xdfff, 4}},
                                    LEVELS(2, 56),
                                    {0}};
// The same where a hypervisor hides leaf 0xB: the first level gives the number of threads per core.
static const leaf hidden[] = {{0, 0, {0x5, INTEL}},
                              {4, 0, {0x7c004121, 0x01c0003f, 0x3f, 0}},
                              {4, 2, {0x7c004143, 0x03c0003f, 0x3ff, 0}},
                              {4, 1, {0x7c004122, 0x01c0003f, 0x3f, 0}},
                              {4, 3, {0x7c0fc163, 0x0280003f, 0xdfff, 4}},
                              {0}};
// A desktop processor: no third level, one thread a core.
static const leaf two_levels[] = {{0, 0, {0xb, INTEL}},
                                  {4, 0, {0x0c000121, 0x02c0003f, 0x3f, 0}},
                                  {4, 1, {0x0c00c143, 0x04c0003f, 0x7ff, 0}},
                                  LEVELS(1, 4),
                                  {0}};
static const leaf zen[] = {{0, 0, {0x10, AMD}}, {4, 0, {0x7c004121, 0x01c0003f, 0x3f, 0}}, {0}};

static void expect(const leaf *leaves, uint32_t one, uint32_t two, uint32_t three) {
    uint32_t bytes[SR_ONEDNN_CACHES] = {7, 7, 7};
    machine = leaves;
    assert_true(sr_onednn_read_caches(read_machine, bytes));
    assert_int_equal(one, bytes[0]);
    assert_int_equal(two, bytes[1]);
    assert_int_equal(three, bytes[2]);
}

static void sizes_are_those_for_each_core(void **state) {
    (void)state;
    expect(cascade_lake, 32 << 10, 1 << 20, 1408 << 10);
    expect(hidden, 32 << 10, 1 << 20, (77 << 19) / 32);
    expect(two_levels, 48 << 10, (20 * 64 * 2048) / 4, 0);
}

// oneDNN uses constants for other vendors: hosts with other caches give the same bits.
static void other_vendors_are_not_read(void **state) {
    uint32_t bytes[SR_ONEDNN_CACHES];
    (void)state;
    machine = zen;
    assert_false(sr_onednn_read_caches(read_machine, bytes));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_for_each_core),
        cmocka_unit_test(other_vendors_are_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
