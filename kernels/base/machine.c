// SPDX-License-Identifier: Apache-2.0
// Memory and cgroups of this process (machine.h): proc(5), getrlimit(2), the kernel's
// cgroup-v2.rst.
#include "kernels/base/machine.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

void sr_machine_visit_cgroups(void (*visit)(const char *folder, void *user), void *user) {
    char line[PATH_MAX] = "", folder[PATH_MAX + 32] = "/sys/fs/cgroup";
    const size_t root = strlen(folder);
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file != NULL) {
        while (fgets(line, sizeof line, file) != NULL)
            if (strncmp(line, "0::", 3) == 0)
                (void)snprintf(folder + root, sizeof folder - root, "%.*s",
                               (int)strcspn(line + 3, "\n"), line + 3);
        (void)fclose(file);
    }
    for (;;) {
        visit(folder, user);
        char *slash = strrchr(folder + root, '/');
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

static void bound(sr_machine_memory *memory, uint64_t limit, const char *what) {
    if (limit >= memory->total)
        return;
    memory->total = limit;
    memory->limit = what;
}

static void bound_by_cgroup(const char *folder, void *user) {
    char path[PATH_MAX + 64];
    unsigned long long bytes;
    (void)snprintf(path, sizeof path, "%s/memory.max", folder);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fscanf(file, "%llu", &bytes) == 1) // else "max"
        bound(user, bytes, "its cgroup's memory.max");
    (void)fclose(file);
}

sr_machine_memory sr_machine_get_memory(void) {
    sr_machine_memory memory = {.total = UINT64_MAX, .available = UINT64_MAX};
    char line[128];
    unsigned long long kib;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "MemTotal: %llu kB", &kib) == 1)
            memory.total = (uint64_t)kib << 10;
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            memory.available = (uint64_t)kib << 10;
    }
    if (file != NULL)
        (void)fclose(file);
    sr_machine_visit_cgroups(bound_by_cgroup, &memory);
    struct rlimit limit;
    memory.addresses_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    if (memory.addresses_limited)
        bound(&memory, limit.rlim_cur, "ulimit -v");
    if (memory.available > memory.total)
        memory.available = memory.total;
    return memory;
}
