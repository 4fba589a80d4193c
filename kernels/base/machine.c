// SPDX-License-Identifier: Apache-2.0
// Memory, processes and cgroups of this process (machine.h): proc(5), getrlimit(2), the kernel's
// cgroup-v2.rst, cgroup-v1/memory.rst and cgroup-v1/pids.rst.
#include "kernels/base/machine.h"

#include <errno.h>
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

// The limit in a file of a cgroup; UINT64_MAX if there is no such file or it is "max".
static uint64_t read_limit(const char *folder, const char *name) {
    char path[PATH_MAX + 128];
    unsigned long long limit = UINT64_MAX;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return UINT64_MAX;
    if (fscanf(file, "%llu", &limit) != 1)
        limit = UINT64_MAX;
    (void)fclose(file);
    return limit;
}

static void bound_by_cgroup(const char *folder, void *user) {
    bound(user, read_limit(folder, "memory.max"), "its cgroup's memory.max");
    bound(user, read_limit(folder, "memory.limit_in_bytes"), "its cgroup's memory.limit_in_bytes");
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

static void bound_tasks(const char *folder, void *user) {
    uint64_t *tasks = user;
    const uint64_t limit = read_limit(folder, "pids.max");
    *tasks = limit < *tasks ? limit : *tasks;
}

const char *sr_machine_start_failure(int error, char out[SR_START_FAILURE_BYTES]) {
    uint64_t tasks = UINT64_MAX;
    struct rlimit user;
    char cgroup[96] = "no pids.max of a cgroup", ulimit[64] = "ulimit -u: unlimited";
    if (error != EAGAIN) {
        (void)snprintf(out, SR_START_FAILURE_BYTES, "%s", strerror(error));
        return out;
    }
    sr_machine_visit_cgroups("pids", bound_tasks, &tasks);
    if (tasks != UINT64_MAX)
        (void)snprintf(cgroup, sizeof cgroup,
                       "pids.max of its cgroup, --pids-limit of docker: %llu",
                       (unsigned long long)tasks);
    if (getrlimit(RLIMIT_NPROC, &user) == 0 && user.rlim_cur != RLIM_INFINITY)
        (void)snprintf(ulimit, sizeof ulimit, "ulimit -u: %llu", (unsigned long long)user.rlim_cur);
    (void)snprintf(out, SR_START_FAILURE_BYTES,
                   "%s: a limit on processes and threads is reached (%s; %s); raise it",
                   strerror(error), cgroup, ulimit);
    return out;
}
