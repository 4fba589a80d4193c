// SPDX-License-Identifier: Apache-2.0
// Sandboxing of a data process (see sandbox.h): seccomp, Landlock and the memory limit.
//
// Landlock is enabled first, because the filter forbids its system calls. Neither needs privileges,
// because the process sets PR_SET_NO_NEW_PRIVS. Deliberately not used: namespaces and chroot, which
// need privileges or are disabled on many machines, and a second user. Sources:
// Documentation/userspace-api/{seccomp_filter,landlock,no_new_privs}.rst of Linux.
#include "dataio/pipeline/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "dataio/pipeline/sandbox_internal.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZER_TAKES_ADDRESSES 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZER_TAKES_ADDRESSES 1
#endif

#ifdef SANITIZER_TAKES_ADDRESSES
// The leak check at exit attaches to the process and opens files, which the sandbox forbids.
static bool entered;
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) {
    return entered;
}
#endif

sr_sandbox_support sr_sandbox_get_support(void) {
    return (sr_sandbox_support){.seccomp = sr_sandbox_has_filter(),
                                .landlock = sr_sandbox_landlock_version()};
}

sr_status sr_sandbox_enter(sr_sandbox_rights rights, const char *path) {
    const sr_sandbox_support support = sr_sandbox_get_support();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) != 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot set no_new_privs: %s", strerror(errno));
    if (support.landlock > 0)
        SR_TRY(sr_sandbox_landlock(support.landlock, rights, path));
    if (support.seccomp)
        SR_TRY(sr_sandbox_filter(rights));
#ifdef SANITIZER_TAKES_ADDRESSES
    entered = true;
#endif
    return SR_OK;
}

#ifdef SANITIZER_TAKES_ADDRESSES
bool sr_sandbox_limit_memory(uint64_t bytes) {
    (void)bytes;
    return false;
}
#else
// Bytes that this process uses of the memory that RLIMIT_DATA limits: private and writable. Unlike
// RLIMIT_AS, it excludes the shared rings and slots, whose size is known. 0: unknown.
static uint64_t private_bytes(void) {
    char line[128];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmData: %llu kB", &kib) == 1)
            break;
    if (file)
        (void)fclose(file);
    return (uint64_t)kib << 10;
}

bool sr_sandbox_limit_memory(uint64_t bytes) {
    struct rlimit limit;
    const uint64_t have = private_bytes();
    if (have == 0 || getrlimit(RLIMIT_DATA, &limit) != 0)
        return false;
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > have + bytes)
        limit.rlim_cur = have + bytes;
    limit.rlim_max = limit.rlim_cur;
    return setrlimit(RLIMIT_DATA, &limit) == 0;
}
#endif
