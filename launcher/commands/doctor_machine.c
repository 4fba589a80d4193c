// SPDX-License-Identifier: Apache-2.0
// What the doctor checks on a machine without running anything.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "dataio/pipeline/sandbox.h"
#include "kernels/base/cores.h"
#include "kernels/base/cpuid.h"
#include "kernels/base/machine.h"
#include "kernels/base/pool.h"
#include "kernels/chooser.h"
#include "kernels/device/device.h"
#include "launcher/commands/doctor_internal.h"
#include "launcher/start/start.h"

#define MIB (1024.0 * 1024.0)

// Whether ranks are pinned to cores.
static void check_placement(sr_findings *f, const sr_start_cores *cores) {
    const char *pin = getenv("SERRIED_PIN");
    const sr_cpu_set mask = sr_cpu_set_of_thread();
    if (pin && strcmp(pin, "0") == 0)
        sr_findings_add(f, SR_FINDING_NOTE, "placement",
                        "off (SERRIED_PIN=0): ranks are not pinned");
    else if (sr_cpu_count() < sr_cpu_set_count(&mask))
        sr_findings_add(
            f, SR_FINDING_NOTE, "placement",
            "the cgroup's quota is smaller than the number of processors: ranks are not pinned");
    else
        sr_findings_add(f, SR_FINDING_OK, "placement", "ranks are pinned to separate cores%s",
                        cores->nodes > 1 ? "; run at least one rank per NUMA node" : "");
}

// Memory of values and parameters requests huge pages, which counts if the kernel is set to
// madvise.
static void check_huge_pages(sr_findings *f) {
    char line[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    const bool read = file && fgets(line, sizeof line, file);
    if (file)
        (void)fclose(file);
    if (!read || strstr(line, "[never]"))
        sr_findings_add(f, SR_FINDING_NOTE, "huge pages",
                        "off; writing madvise to /sys/kernel/mm/transparent_hugepage/enabled makes "
                        "the first step faster");
    else
        sr_findings_add(f, SR_FINDING_OK, "huge pages", "used for values and parameters");
}

static void check_processor(sr_findings *f) {
    char features[96];
    sr_start_cores cores = sr_start_count_cores();
    sr_findings_add(f, SR_FINDING_OK, "processor", "%s", sr_cpu_model());
    sr_findings_add(f, SR_FINDING_OK, "cores", "%d core%s, %d usable processor%s, %d NUMA node%s",
                    cores.cores, cores.cores == 1 ? "" : "s", sr_cpu_count(),
                    sr_cpu_count() == 1 ? "" : "s", cores.nodes, cores.nodes == 1 ? "" : "s");
    check_placement(f, &cores);
    uint32_t have = sr_cpu_features();
    if (have & SR_CPU_AVX2)
        sr_findings_add(f, SR_FINDING_OK, "features", "%s", sr_cpu_features_text(have, features));
    else
        sr_findings_add(f, SR_FINDING_WARN, "features",
                        "no AVX2: training uses the slow reference kernels");
}

static void check_memory(sr_findings *f) {
    char total[16], available[16];
    const sr_machine_memory memory = sr_machine_get_memory();
    sr_findings_add(f, memory.available < UINT64_C(2) << 30 ? SR_FINDING_WARN : SR_FINDING_OK,
                    "memory", "%s%s%s, %s available", sr_text_bytes(memory.total, total),
                    memory.limit ? " by " : "", memory.limit ? memory.limit : "",
                    sr_text_bytes(memory.available, available));
}

static void check_shared_memory(sr_findings *f) {
    struct statvfs info;
    char free_bytes[16];
    if (statvfs("/dev/shm", &info) != 0) {
        sr_findings_add(f, SR_FINDING_BAD, "/dev/shm",
                        "missing; ranks and data processes need it to share memory");
        return;
    }
    double bytes = (double)info.f_bavail * (double)info.f_frsize;
    bool small = bytes < 256 * MIB;
    sr_findings_add(f, small ? SR_FINDING_WARN : SR_FINDING_OK, "/dev/shm", "%s free%s",
                    sr_text_bytes((uint64_t)bytes, free_bytes),
                    small ? "; in a container, use --shm-size=1g or --ipc=host" : "");
}

// What protects the user's files from a malicious picture.
static void check_sandbox(sr_findings *f) {
    const sr_sandbox_support support = sr_sandbox_get_support();
    if (support.seccomp && support.landlock > 0)
        sr_findings_add(f, SR_FINDING_OK, "data processes",
                        "sandboxed by seccomp and Landlock (version %d)", support.landlock);
    else if (support.seccomp)
        sr_findings_add(f, SR_FINDING_NOTE, "data processes",
                        "sandboxed by seccomp only: this kernel lacks Landlock, so reader "
                        "processes can read every file that the user can read");
    else
        sr_findings_add(f, SR_FINDING_WARN, "data processes",
                        "not sandboxed: this kernel has no seccomp filters; use only pictures from "
                        "sources you trust");
}

static void check_limits(sr_findings *f) {
    struct rlimit files, locked;
    char text[16];
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        sr_findings_add(f, files.rlim_cur < 1024 ? SR_FINDING_WARN : SR_FINDING_OK, "open files",
                        "%llu%s", (unsigned long long)files.rlim_cur,
                        files.rlim_cur < 1024 ? "; raise it with ulimit -n 4096" : "");
    if (getrlimit(RLIMIT_MEMLOCK, &locked) != 0)
        return;
    if (locked.rlim_cur == RLIM_INFINITY)
        sr_findings_add(f, SR_FINDING_OK, "locked memory", "unlimited");
    else
        sr_findings_add(f, SR_FINDING_NOTE, "locked memory",
                        "%s; InfiniBand and pinned memory need ulimit -l unlimited",
                        sr_text_bytes(locked.rlim_cur, text));
}

static void check_folder(sr_findings *f) {
    static const struct {
        long type;
        const char *name;
    } remote[] = {{0x6969, "NFS"}, {0xff534d42, "CIFS"}, {0x65735546, "FUSE"}, {0x01021997, "9p"}};
    struct statfs info;
    char text[16];
    if (statfs(".", &info) != 0)
        return;
    const char *name = NULL;
    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
        name = (long)info.f_type == remote[i].type ? remote[i].name : name;
    double bytes = (double)info.f_bavail * (double)info.f_bsize;
    sr_text_bytes((uint64_t)bytes, text);
    bool low = bytes < 1024 * MIB;
    if (access(".", W_OK) != 0) {
        sr_findings_add(f, SR_FINDING_WARN, "this folder",
                        "not writable; use -o DIR, or run in another folder");
    } else if (name) {
        sr_findings_add(f, SR_FINDING_WARN, "this folder",
                        "on %s, %s free; reading data from a local disk is faster", name, text);
    } else {
        sr_findings_add(f, low ? SR_FINDING_WARN : SR_FINDING_OK, "this folder", "%s free", text);
    }
}

static void check_cache(sr_findings *f) {
    const sr_chooser_options options = {.on = true};
    sr_chooser_use(&options);
    const char *folder = sr_chooser_folder();
    if (folder)
        sr_findings_add(f, SR_FINDING_OK, "cache", "%s (serried info chooser)", folder);
    else
        sr_findings_add(f, SR_FINDING_NOTE, "cache",
                        "none, so every run times its kernels again; set HOME or SERRIED_CACHE");
}

// Opens a device, which costs a GPU about a second, and says how much of its memory is in use by
// then: by its driver and libraries, and by other processes.
static sr_status try_device(const char *name, char out[64]) {
    sr_device *device;
    sr_device_memory memory;
    char text[16];
    out[0] = '\0';
    SR_TRY(sr_device_open(name, &device));
    if (sr_device_get_memory(device, &memory))
        (void)snprintf(out, 64, ", %s of it in use once opened",
                       sr_text_bytes(memory.total - memory.available, text));
    sr_device_close(device);
    return SR_OK;
}

// A finding for each kind of device, with what its first device says of itself. A kind that cannot
// be used is no defect: there is always the CPU. One that is there and cannot be opened is.
static void check_device(void *user, const char *name) {
    sr_findings *f = user;
    sr_device_properties device;
    char details[SR_DEVICE_IDENTITY], memory[16], used[64],
        executors[48] = "one lane at a time on each core of a rank";
    if (sr_device_describe(name, &device) != SR_OK) {
        sr_findings_add(f, SR_FINDING_NOTE, "device", "%s", sr_error_message());
        return;
    }
    if (device.executors > 0)
        (void)snprintf(executors, sizeof executors, "%d lane%s at a time", device.executors,
                       device.executors == 1 ? "" : "s");
    if (try_device(name, used) != SR_OK) {
        sr_findings_add(f, SR_FINDING_WARN, "device", "%s: %s", name, sr_error_message());
        return;
    }
    const char *more = sr_device_details(&device, details);
    sr_findings_add(f, SR_FINDING_OK, "device", "%s: %d, %s; %s%s (%s); %s%s%s", name, device.count,
                    device.model, sr_text_bytes(device.memory, memory), used, device.memory_owner,
                    executors, *more ? "; " : "", more);
}

void sr_doctor_check_machine(sr_findings *findings) {
    check_processor(findings);
    check_memory(findings);
    check_huge_pages(findings);
    check_shared_memory(findings);
    check_sandbox(findings);
    check_limits(findings);
    check_folder(findings);
    check_cache(findings);
    sr_device_visit_kinds(check_device, findings);
}
