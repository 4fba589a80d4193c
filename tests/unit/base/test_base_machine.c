// SPDX-License-Identifier: Apache-2.0
// The memory and control groups that limit this process.
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
    sr_machine_visit_cgroups("memory", note, &f);
    assert_true(f.count >= 1);
    assert_int_equal(0, strncmp(f.first, "/sys/fs/cgroup", 14));
    assert_string_equal("/sys/fs/cgroup", f.last);
}

// In a cgroup of version 1 with a limit, if this process may make one.
static void old_cgroup(void **state) {
    (void)state;
    char folder[96], path[128];
    int end = 1;
    (void)snprintf(folder, sizeof folder, "/sys/fs/cgroup/memory/serried-test-%d", (int)getpid());
    (void)snprintf(path, sizeof path, "%s/memory.limit_in_bytes", folder);
    if (mkdir(folder, 0700) != 0 || access(path, W_OK) != 0) {
        (void)rmdir(folder);
        test_skip("no cgroup of version 1 can be made");
    }
    const pid_t child = fork();
    if (child == 0) {
        FILE *limit = fopen(path, "w");
        (void)snprintf(path, sizeof path, "%s/cgroup.procs", folder);
        FILE *members = fopen(path, "w");
        const bool set = limit && members && fputs("1073741824", limit) >= 0 &&
                         fclose(limit) == 0 && fputs("0", members) >= 0 && fclose(members) == 0;
        const sr_machine_memory memory = sr_machine_get_memory();
        _exit(!set ? 2 : memory.total == (uint64_t)1 << 30 ? 0 : 1);
    }
    assert_int_equal(child, waitpid(child, &end, 0));
    (void)rmdir(folder);
    assert_true(WIFEXITED(end));
    assert_int_equal(0, WEXITSTATUS(end));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory),
        cmocka_unit_test(cgroups),
        cmocka_unit_test(old_cgroup),
    };
    return cmocka_run_group_tests_name("base_machine", tests, NULL, NULL);
}
