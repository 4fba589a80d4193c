// SPDX-License-Identifier: Apache-2.0
// Sets of processors and how ranks share them (cores.h). Read from sysfs, without libnuma:
// /sys/devices/system/cpu/cpuN/topology and /sys/devices/system/node/nodeN/cpulist (sysfs-devices-
// system-cpu and sysfs-devices-node in the kernel's Documentation/ABI).
#include "kernels/base/cores.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 256, WORD_BITS = 64, LINE = 4096 };

// ---- Sets ----

void sr_cpu_set_add(sr_cpu_set *set, int cpu) {
    if (cpu >= 0 && cpu < SR_CPUS)
        set->words[cpu / WORD_BITS] |= UINT64_C(1) << (cpu % WORD_BITS);
}

bool sr_cpu_set_has(const sr_cpu_set *set, int cpu) {
    return cpu >= 0 && cpu < SR_CPUS && (set->words[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1);
}

int sr_cpu_set_count(const sr_cpu_set *set) {
    int count = 0;
    for (int cpu = 0; cpu < SR_CPUS; cpu++)
        count += sr_cpu_set_has(set, cpu);
    return count;
}

bool sr_cpu_set_equal(const sr_cpu_set *a, const sr_cpu_set *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

static bool parse_number(const char **at, int *out) {
    char *rest;
    if (**at < '0' || **at > '9')
        return false;
    const long value = strtol(*at, &rest, 10);
    *at = rest;
    *out = value < SR_CPUS ? (int)value : SR_CPUS;
    return true;
}

sr_status sr_cpu_set_parse(const char *text, sr_cpu_set *out) {
    const char *at = text;
    sr_cpu_set set = {{0}};
    while (*at && *at != '\n') {
        int first = 0, last;
        bool ok = parse_number(&at, &first);
        last = first;
        if (ok && *at == '-') {
            at++;
            ok = parse_number(&at, &last) && last >= first;
        }
        if (ok && *at == ',')
            at++;
        else
            ok = ok && (!*at || *at == '\n');
        if (!ok)
            return SR_FAIL(SR_E_ARGUMENT, "'%.60s' is not a list of processors such as 0-3,8",
                           text);
        for (int cpu = first; cpu <= last && cpu < SR_CPUS; cpu++)
            sr_cpu_set_add(&set, cpu);
    }
    *out = set;
    return SR_OK;
}

const char *sr_cpu_set_text(const sr_cpu_set *set, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (int cpu = 0; cpu < SR_CPUS && used < size; cpu++) {
        if (!sr_cpu_set_has(set, cpu))
            continue;
        int last = cpu;
        while (sr_cpu_set_has(set, last + 1))
            last++;
        const char *separator = used ? "," : "";
        const int n = last == cpu
                          ? snprintf(out + used, size - used, "%s%d", separator, cpu)
                          : snprintf(out + used, size - used, "%s%d-%d", separator, cpu, last);
        used += (size_t)n;
        cpu = last;
    }
    return out;
}

// ---- Topology ----

static bool read_line(const char *path, char *line) {
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const bool read = fgets(line, LINE, file) != NULL;
    (void)fclose(file);
    return read;
}

static int read_topology(const char *sys, int cpu, const char *name, int unknown) {
    char path[LINE], line[LINE];
    (void)snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/topology/%s", sys, cpu, name);
    char *rest = line;
    const long value = read_line(path, line) ? strtol(line, &rest, 10) : -1;
    return rest == line || value < 0 || value > INT32_MAX ? unknown : (int)value;
}

static void read_nodes(const char *sys, int *node_of) {
    char path[LINE], line[LINE];
    for (int node = 0; node < NODES; node++) {
        sr_cpu_set cpus = {{0}};
        (void)snprintf(path, sizeof path, "%s/devices/system/node/node%d/cpulist", sys, node);
        if (!read_line(path, line) || sr_cpu_set_parse(line, &cpus) != SR_OK)
            continue;
        for (int cpu = 0; cpu < SR_CPUS; cpu++)
            if (sr_cpu_set_has(&cpus, cpu))
                node_of[cpu] = node;
    }
}

static int by_location(const void *a, const void *b) {
    const sr_cpu_location *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->package != y->package)
        return x->package < y->package ? -1 : 1;
    if (x->core != y->core)
        return x->core < y->core ? -1 : 1;
    return x->cpu < y->cpu ? -1 : x->cpu > y->cpu;
}

int sr_cpu_locations_read(const char *sys, const sr_cpu_set *set, sr_cpu_location *out) {
    int node_of[SR_CPUS] = {0}, count = 0;
    read_nodes(sys, node_of);
    for (int cpu = 0; cpu < SR_CPUS; cpu++) {
        if (!sr_cpu_set_has(set, cpu))
            continue;
        out[count++] =
            (sr_cpu_location){.cpu = cpu,
                              .node = node_of[cpu],
                              .package = read_topology(sys, cpu, "physical_package_id", 0),
                              .core = read_topology(sys, cpu, "core_id", SR_CPUS + cpu)};
    }
    qsort(out, (size_t)count, sizeof *out, by_location);
    return count;
}

static bool begins_core(const sr_cpu_location *locations, int i) {
    return i == 0 || locations[i].node != locations[i - 1].node ||
           locations[i].package != locations[i - 1].package ||
           locations[i].core != locations[i - 1].core;
}

int sr_cpu_locations_cores(const sr_cpu_location *locations, int count) {
    int cores = 0;
    for (int i = 0; i < count; i++)
        cores += begins_core(locations, i);
    return cores;
}

int sr_cpu_locations_nodes(const sr_cpu_location *locations, int count) {
    int nodes = 0;
    for (int i = 0; i < count; i++)
        nodes += i == 0 || locations[i].node != locations[i - 1].node;
    return nodes;
}

bool sr_cpu_share(const sr_cpu_location *locations, int count, int ranks, int index,
                  sr_cpu_set *out) {
    const int cores = sr_cpu_locations_cores(locations, count);
    const bool enough = ranks <= cores;
    const int first = enough ? index * cores / ranks : 0;
    const int end = enough ? (index + 1) * cores / ranks : cores;
    *out = (sr_cpu_set){{0}};
    for (int i = 0, core = -1; i < count; i++) {
        core += begins_core(locations, i);
        if (first <= core && core < end)
            sr_cpu_set_add(out, locations[i].cpu);
    }
    return enough;
}

// ---- This thread ----

sr_cpu_set sr_cpu_set_of_thread(void) {
    sr_cpu_set set = {{0}};
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (sched_getaffinity(0, sizeof mask, &mask) == 0)
        for (int cpu = 0; cpu < SR_CPUS && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET((size_t)cpu, &mask))
                sr_cpu_set_add(&set, cpu);
    return set;
}

sr_status sr_cpu_set_bind(const sr_cpu_set *set) {
    cpu_set_t mask;
    char text[128];
    CPU_ZERO(&mask);
    for (int cpu = 0; cpu < SR_CPUS && cpu < CPU_SETSIZE; cpu++)
        if (sr_cpu_set_has(set, cpu))
            CPU_SET((size_t)cpu, &mask);
    if (sched_setaffinity(0, sizeof mask, &mask) != 0)
        return SR_FAIL(SR_E_SYSTEM,
                       "cannot bind this thread to processors %s: %s; SERRIED_PIN=0 turns "
                       "binding off",
                       sr_cpu_set_text(set, text, sizeof text), strerror(errno));
    return SR_OK;
}
