// SPDX-License-Identifier: Apache-2.0
// The memory and control groups that limit this process.
#include <string.h>
#include <sys/resource.h>

#include "kernels/base/machine.h"
#include "tests/unit/support/test_support.h"

static void memory(void **state) {
    (void)state;
    const sr_machine_memory all = sr_machine_get_memory();
    assert_true(all.total >= (uint64_t)64 << 20);
    assert_true(all.available > 0 && all.available <= all.total);
    struct rlimit before, low;
    assert_int_equal(0, getrlimit(RLIMIT_AS, &before));
    low = before;
    low.rlim_cur =
        (rlim_t)1 << 46; // above any real need: sanitizers reserve terabytes of address space
    assert_int_equal(0, setrlimit(RLIMIT_AS, &low));
    const sr_machine_memory limited = sr_machine_get_memory();
    assert_true(limited.addresses_limited);
    assert_int_equal(all.total, limited.total);
    assert_int_equal(0, setrlimit(RLIMIT_AS, &before));
    assert_int_equal(before.rlim_cur != RLIM_INFINITY, sr_machine_get_memory().addresses_limited);
}

typedef struct folders {
    int count;
    char first[64], last[64];
} folders;

static void note(const char *folder, void *user) {
    folders *f = user;
    if (f->count++ == 0)
        (void)snprintf(f->first, sizeof f->first, "%s", folder);
    (void)snprintf(f->last, sizeof f->last, "%s", folder);
}

static void cgroups(void **state) {
    (void)state;
    folders f = {0};
    sr_machine_visit_cgroups(note, &f);
    assert_true(f.count >= 1);
    assert_int_equal(0, strncmp(f.first, "/sys/fs/cgroup", 14));
    assert_string_equal("/sys/fs/cgroup", f.last);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory),
        cmocka_unit_test(cgroups),
    };
    return cmocka_run_group_tests_name("base_machine", tests, NULL, NULL);
}
