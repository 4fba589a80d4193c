// SPDX-License-Identifier: Apache-2.0
// Which processors a rank computes on: masks, topology, and how ranks share processors.
//
// Ranks of one host that may run on the same processors divide them into ranges of whole cores, in
// the order of NUMA nodes and packages. So two ranks never share a core while another core idles,
// and a rank's memory is on the node that it computes on. A thread inherits the affinity mask of
// the thread that starts it, so a rank sets its mask once, for all threads that it starts later.
#ifndef SR_KERNELS_BASE_CORES_H
#define SR_KERNELS_BASE_CORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_CPUS 1024                // largest number of processors
#define SR_CPU_WORDS (SR_CPUS / 64) // of a set

// A set of logical processors by number.
typedef struct sr_cpu_set {
    uint64_t words[SR_CPU_WORDS];
} sr_cpu_set;

void sr_cpu_set_add(sr_cpu_set *set, int cpu); // numbers >= SR_CPUS are ignored
bool sr_cpu_set_has(const sr_cpu_set *set, int cpu);
int sr_cpu_set_count(const sr_cpu_set *set);
bool sr_cpu_set_equal(const sr_cpu_set *a, const sr_cpu_set *b);
// "0-3,8" in the kernel's list format (cpuset(7)). SR_E_ARGUMENT quotes a text that is not such a
// list.
SR_NODISCARD sr_status sr_cpu_set_parse(const char *text, sr_cpu_set *out);
// The set in this format, truncated to 'size' bytes. Returns 'out'.
const char *sr_cpu_set_text(const sr_cpu_set *set, char *out, size_t size);

// The position of a logical processor. Processors of one core have the same package and core.
typedef struct sr_cpu_location {
    int cpu, node, package, core;
} sr_cpu_location;

// Writes the locations of a set's processors, ordered by node, package, core and number, to
// out[SR_CPUS] and returns their number. 'sys' is the folder of sysfs ("/sys"). A processor that it
// does not describe counts as node 0, package 0 and a separate core.
int sr_cpu_locations_read(const char *sys, const sr_cpu_set *set, sr_cpu_location *out);
// Number of cores and of nodes among locations in this order.
int sr_cpu_locations_cores(const sr_cpu_location *locations, int count);
int sr_cpu_locations_nodes(const sr_cpu_location *locations, int count);

// The processors of rank 'index' when 'ranks' ranks share these. If there are more ranks than
// cores, each rank gets all processors and the result is false: the scheduler then distributes the
// ranks.
bool sr_cpu_share(const sr_cpu_location *locations, int count, int ranks, int index,
                  sr_cpu_set *out);

// Processors that the calling thread may run on (sched_getaffinity(2)).
sr_cpu_set sr_cpu_set_of_thread(void);
// Sets the processors of the calling thread and of threads that it starts later. SR_E_SYSTEM.
SR_NODISCARD sr_status sr_cpu_set_bind(const sr_cpu_set *set);

#ifdef __cplusplus
}
#endif
#endif
