// SPDX-License-Identifier: Apache-2.0
// Memory and cgroups of this process (machine.h): proc(5), getrlimit(2), the kernel's
// cgroup-v2.rst and cgroup-v1/memory.rst.
#include "kernels/base/machine.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

// Visits ROOT/PATH and its parents, to ROOT. In a container the path may be one of the host; its
// own cgroup is then the root.
static void visit_chain(const char *root, const char *path,
                        void (*visit)(const char *folder, void *user), void *user) {
    char folder[PATH_MAX + 64];
    const int start = snprintf(folder, sizeof folder, "%s", root);
    (void)snprintf(folder + start, sizeof folder - (size_t)start, "%.*s", (int)strcspn(path, "\n"),
                   path);
    for (;;) {
        visit(folder, user);
        char *slash = strrchr(folder + start, '/');
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

// Whether a list "cpu,cpuacct" has a word.
static bool has_word(const char *list, size_t length, const char *word) {
    const size_t n = strlen(word);
    for (const char *end = list + length; list < end;) {
        const size_t own = strcspn(list, ",:");
        if (own == n && memcmp(list, word, n) == 0)
            return true;
        list += own + 1;
    }
    return false;
}

// Lines "7:cpu,cpuacct:/a/b", or "0::/a/b" for version 2.
void sr_machine_visit_cgroups(const char *controller, void (*visit)(const char *folder, void *user),
                              void *user) {
    char line[PATH_MAX], unified[PATH_MAX] = "", root[64];
    FILE *file = fopen("/proc/self/cgroup", "re");
    (void)snprintf(root, sizeof root, "/sys/fs/cgroup/%s", controller);
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (path && path == list + 1)
            (void)snprintf(unified, sizeof unified, "%s", path + 1);
        else if (path && has_word(list + 1, (size_t)(path - list - 1), controller))
            visit_chain(root, path + 1, visit, user);
    }
    if (file != NULL)
        (void)fclose(file);
    visit_chain("/sys/fs/cgroup", unified, visit, user);
}

static void bound(sr_machine_memory *memory, uint64_t limit, const char *what) {
    if (limit >= memory->total)
        return;
    memory->total = limit;
    memory->limit = what;
}

static void bound_by_file(const char *folder, const char *name, const char *what,
                          sr_machine_memory *memory) {
    char path[PATH_MAX + 128];
    unsigned long long bytes;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fscanf(file, "%llu", &bytes) == 1) // else "max"
        bound(memory, bytes, what);
    (void)fclose(file);
}

static void bound_by_cgroup(const char *folder, void *user) {
    bound_by_file(folder, "memory.max", "its cgroup's memory.max", user);
    bound_by_file(folder, "memory.limit_in_bytes", "its cgroup's memory.limit_in_bytes", user);
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
    sr_machine_visit_cgroups("memory", bound_by_cgroup, &memory);
    struct rlimit limit;
    memory.addresses_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    if (memory.addresses_limited)
        bound(&memory, limit.rlim_cur, "ulimit -v");
    if (memory.available > memory.total)
        memory.available = memory.total;
    return memory;
}
