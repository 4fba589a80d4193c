// SPDX-License-Identifier: Apache-2.0
// Checks, before mpirun is started, the resources it needs: it hangs when it runs out of file
// descriptors, and if /dev/shm is full, its messages name neither the folder nor the cause.
//
// Measured with Open MPI 4.1.4 (Debian 12) on 2 to 6 ranks.
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "kernels/base/text.h"
#include "launcher/start/start_internal.h"

enum { FILES = 24, FILES_PER_RANK = 6 };
#define SHM_BYTES ((uint64_t)9 << 20)
#define SHM_BYTES_PER_RANK ((uint64_t)128 << 10)

// Raises the soft limit as needed, up to the hard limit: mpirun and its ranks inherit it.
static sr_status check_files(int ranks) {
    const rlim_t need = FILES + FILES_PER_RANK * (rlim_t)ranks;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return SR_FAIL(SR_E_SYSTEM, "getrlimit: %s", strerror(errno));
    if (files.rlim_cur >= need)
        return SR_OK;
    const rlim_t had = files.rlim_cur;
    files.rlim_cur = need < files.rlim_max ? need : files.rlim_max;
    if (files.rlim_cur == need && setrlimit(RLIMIT_NOFILE, &files) == 0)
        return SR_OK;
    return SR_FAIL(SR_E_SYSTEM,
                   "mpirun needs %llu open files for %d ranks, and the limit is %llu; raise it "
                   "with ulimit -n 4096",
                   (unsigned long long)need, ranks, (unsigned long long)had);
}

static sr_status check_shared_memory(const sr_start_plan *plan) {
    const uint64_t need = SHM_BYTES + SHM_BYTES_PER_RANK * (uint64_t)plan->ranks;
    struct statvfs info;
    char need_text[16], free_text[16];
    if (!plan->folder || statvfs(plan->folder, &info) != 0)
        return SR_OK;
    const uint64_t bytes = (uint64_t)info.f_bavail * info.f_frsize;
    if (bytes >= need)
        return SR_OK;
    return SR_FAIL(SR_E_SYSTEM,
                   "/dev/shm has %s free, and %d ranks need %s: remove files there, or give the "
                   "container more with --shm-size=1g",
                   sr_text_bytes(bytes, free_text), plan->ranks, sr_text_bytes(need, need_text));
}

sr_status sr_start_check_needs(const sr_start_plan *plan) {
    SR_TRY(check_files(plan->ranks));
    return check_shared_memory(plan);
}
