// SPDX-License-Identifier: Apache-2.0
// Processor time and memory of this process, and the load by other processes during a measurement:
// the busy time of all cores (/proc/stat, proc(5)) minus that of this process.
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "launcher/bench/bench_step_internal.h"

static double seconds_of(struct timeval time) {
    return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

// User, nice, system, irq, softirq, steal; not idle, iowait, guest (which user contains).
static double busy_seconds(void) {
    unsigned long long v[8] = {0};
    FILE *file = fopen("/proc/stat", "r");
    if (!file)
        return 0;
    int n = fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
                   &v[4], &v[5], &v[6], &v[7]);
    (void)fclose(file);
    unsigned long long ticks = v[0] + v[1] + v[2] + v[5] + v[6] + v[7];
    return n == 8 ? (double)ticks / (double)sysconf(_SC_CLK_TCK) : 0;
}

sr_process_memory sr_process_memory_get(void) {
    sr_process_memory memory = {0};
    char line[128];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        unsigned long long kib;
        if (sscanf(line, "VmRSS: %llu", &kib) == 1)
            memory.resident = 1024.0 * (double)kib;
        else if (sscanf(line, "VmHWM: %llu", &kib) == 1)
            memory.peak = 1024.0 * (double)kib;
    }
    if (file)
        (void)fclose(file);
    return memory;
}

double sr_own_cpu_seconds(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

double sr_load_of_others(void) {
    static double last_busy, last_own;
    static int64_t last_ns;
    int64_t now = sr_clock_ns();
    double busy = busy_seconds(), own = sr_own_cpu_seconds();
    double wall = (double)(now - last_ns) / (double)SR_NS_PER_S;
    double cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    double share = ((busy - last_busy) - (own - last_own)) / (wall * cores);
    last_busy = busy;
    last_own = own;
    last_ns = now;
    return busy > 0 && share > 0 ? share : 0;
}
