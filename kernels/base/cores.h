// SPDX-License-Identifier: Apache-2.0
// Which processors a rank computes on: masks, where processors lie, and how ranks share them.
//
// Ranks of one host that may run on the same processors cut them into runs of whole cores, in the
// order of NUMA nodes and packages, so that two ranks never sit on one core while another idles
// and a rank's memory is on the node that it computes on. Threads take over the mask of the thread
// that starts them, so a rank that has set its own has set that of all threads to come.
#ifndef SR_KERNELS_BASE_CORES_H
#define SR_KERNELS_BASE_CORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_CPUS 1024                // processors that are told apart
#define SR_CPU_WORDS (SR_CPUS / 64) // of a set

// A set of logical processors by number.
typedef struct sr_cpu_set {
    uint64_t words[SR_CPU_WORDS];
} sr_cpu_set;

void sr_cpu_set_add(sr_cpu_set *set, int cpu); // numbers beyond SR_CPUS are left out
bool sr_cpu_set_has(const sr_cpu_set *set, int cpu);
int sr_cpu_set_count(const sr_cpu_set *set);
bool sr_cpu_set_equal(const sr_cpu_set *a, const sr_cpu_set *b);
// "0-3,8" as the kernel writes it (cpuset(7), list format). SR_E_ARGUMENT names what is no number.
SR_NODISCARD sr_status sr_cpu_set_parse(const char *text, sr_cpu_set *out);
// The same the other way, cut to 'size' bytes. Returns 'out'.
const char *sr_cpu_set_text(const sr_cpu_set *set, char *out, size_t size);

// Where a processor lies. Processors of one core have its package and core in common.
typedef struct sr_cpu_location {
    int cpu, node, package, core;
} sr_cpu_location;

// Those of a set, in the order of node, package, core and number, into out[SR_CPUS]; returns how
// many. 'sys' is the folder of sysfs ("/sys"); what it does not tell counts as node and package 0,
// and as a core of its own.
int sr_cpu_locations_read(const char *sys, const sr_cpu_set *set, sr_cpu_location *out);
// Cores and nodes of locations in this order.
int sr_cpu_locations_cores(const sr_cpu_location *locations, int count);
int sr_cpu_locations_nodes(const sr_cpu_location *locations, int count);

// The part of rank 'index' of 'ranks' that share the locations. False, and all of them, where there
// are more ranks than cores: then the scheduler has to move them about.
bool sr_cpu_share(const sr_cpu_location *locations, int count, int ranks, int index,
                  sr_cpu_set *out);

// Processors that the calling thread may run on (sched_getaffinity(2)).
sr_cpu_set sr_cpu_set_of_thread(void);
// Sets them, also for threads that this one starts later. SR_E_SYSTEM.
SR_NODISCARD sr_status sr_cpu_set_bind(const sr_cpu_set *set);

#ifdef __cplusplus
}
#endif
#endif
