// SPDX-License-Identifier: Apache-2.0
// The memory, processes and control groups that limit this process.
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/machine.h"
#include "kernels/base/thread.h"
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

// Runs 'check' in a child in a new cgroup of version 1 with this limit; the child's exit code is 0
// if it holds.
static void in_cgroup(const char *controller, const char *file, const char *limit,
                      bool (*check)(void)) {
    char folder[96], path[160];
    int end = 1;
    (void)snprintf(folder, sizeof folder, "/sys/fs/cgroup/%s/serried-test-%d", controller,
                   (int)getpid());
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    if (mkdir(folder, 0700) != 0 || access(path, W_OK) != 0) {
        (void)rmdir(folder);
        test_skip("no cgroup of version 1 can be made");
    }
    const pid_t child = fork();
    if (child == 0) {
        FILE *bound = fopen(path, "w");
        (void)snprintf(path, sizeof path, "%s/cgroup.procs", folder);
        FILE *members = fopen(path, "w");
        const bool set = bound && members && fputs(limit, bound) >= 0 && fclose(bound) == 0 &&
                         fputs("0", members) >= 0 && fclose(members) == 0;
        _exit(!set ? 2 : check() ? 0 : 1);
    }
    assert_int_equal(child, waitpid(child, &end, 0));
    (void)rmdir(folder);
    assert_true(WIFEXITED(end));
    assert_int_equal(0, WEXITSTATUS(end));
}

static bool has_a_gibibyte(void) {
    return sr_machine_get_memory().total == (uint64_t)1 << 30;
}

static void old_cgroup(void **state) {
    (void)state;
    in_cgroup("memory", "memory.limit_in_bytes", "1073741824", has_a_gibibyte);
}

static void *run_nothing(void *user) {
    return user;
}

static bool starts_no_thread(void) {
    pthread_t thread;
    return sr_thread_start(&thread, "one", run_nothing, NULL) == SR_E_SYSTEM &&
           strstr(sr_error_message(), "cannot start the thread 'one'") &&
           strstr(sr_error_message(), "--pids-limit of docker: 1;");
}

static void cgroup_of_processes(void **state) {
    (void)state;
    in_cgroup("pids", "pids.max", "1", starts_no_thread);
}

static void start_failures(void **state) {
    (void)state;
    char text[SR_START_FAILURE_BYTES];
    struct rlimit before, low;
    assert_string_equal(strerror(ENOENT), sr_machine_start_failure(ENOENT, text));
    assert_int_equal(0, getrlimit(RLIMIT_NPROC, &before));
    low = before;
    low.rlim_cur = 4321;
    assert_int_equal(0, setrlimit(RLIMIT_NPROC, &low));
    assert_non_null(strstr(sr_machine_start_failure(EAGAIN, text), "ulimit -u: 4321); raise it"));
    assert_int_equal(0, setrlimit(RLIMIT_NPROC, &before));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory),         cmocka_unit_test(cgroups),
        cmocka_unit_test(old_cgroup),     cmocka_unit_test(cgroup_of_processes),
        cmocka_unit_test(start_failures),
    };
    return cmocka_run_group_tests_name("base_machine", tests, NULL, NULL);
}
