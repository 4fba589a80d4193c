// SPDX-License-Identifier: Apache-2.0
// seccomp: the system calls that a sandboxed process may make.
//
// The allow-list is compiled to a BPF filter, which sees the number and the arguments of a call but
// cannot follow pointers. So Landlock checks which file is opened, and this filter that it is
// opened for reading. Calls that are not listed return EPERM. The list contains what glibc's
// memory, threads, time, signals and stdio use, and the sanitizers. Calls that a new glibc tries
// first but can do without return ENOSYS, so that it falls back. Sources:
// Documentation/userspace-api/seccomp_filter.rst of Linux, seccomp(2), clone(2).
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dataio/pipeline/sandbox_internal.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0 // unknown: no filter
#endif

// Flags of open that change something, and O_PATH, to which Landlock does not apply.
#define REFUSED_FLAGS                                                                              \
    ((uint64_t)(O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY) | O_PATH))
#define NEW_NAMESPACES                                                                             \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)
#define OWN_PROCESS UINT64_MAX // instead of a value: this process's id

// Allows a call if argument 'argument', masked, equals 'value' (mask 0: always).
typedef struct rule {
    int number;
    int argument;
    uint64_t mask, value;
} rule;

// clang-format off
static const rule compute[] = {
    // waiting and time
    {SYS_futex, 0, 0, 0}, {SYS_ppoll, 0, 0, 0}, {SYS_nanosleep, 0, 0, 0},
    {SYS_clock_nanosleep, 0, 0, 0}, {SYS_clock_gettime, 0, 0, 0}, {SYS_clock_getres, 0, 0, 0},
    {SYS_gettimeofday, 0, 0, 0}, {SYS_sched_yield, 0, 0, 0}, {SYS_restart_syscall, 0, 0, 0},
#ifdef SYS_poll
    {SYS_poll, 0, 0, 0}, {SYS_time, 0, 0, 0},
#endif
    // memory, not executable
    {SYS_mmap, 2, PROT_EXEC, 0}, {SYS_mprotect, 2, PROT_EXEC, 0}, {SYS_munmap, 0, 0, 0},
    {SYS_mremap, 0, 0, 0}, {SYS_brk, 0, 0, 0}, {SYS_madvise, 0, 0, 0}, {SYS_mincore, 0, 0, 0},
    {SYS_membarrier, 0, 0, 0}, {SYS_getrandom, 0, 0, 0},
    // threads, but no processes
    {SYS_clone, 0, CLONE_THREAD | NEW_NAMESPACES, CLONE_THREAD}, {SYS_set_robust_list, 0, 0, 0},
    {SYS_set_tid_address, 0, 0, 0}, {SYS_rseq, 0, 0, 0}, {SYS_sched_getaffinity, 0, 0, 0},
    {SYS_exit, 0, 0, 0}, {SYS_exit_group, 0, 0, 0},
    {SYS_prctl, 0, UINT32_MAX, PR_SET_NAME},
    // signals to this process only
    {SYS_rt_sigaction, 0, 0, 0}, {SYS_rt_sigprocmask, 0, 0, 0}, {SYS_rt_sigreturn, 0, 0, 0},
    {SYS_sigaltstack, 0, 0, 0}, {SYS_tgkill, 0, UINT32_MAX, OWN_PROCESS},
    {SYS_kill, 0, UINT32_MAX, OWN_PROCESS},
    // open descriptors
    {SYS_read, 0, 0, 0}, {SYS_readv, 0, 0, 0}, {SYS_pread64, 0, 0, 0}, {SYS_write, 0, 0, 0},
    {SYS_writev, 0, 0, 0}, {SYS_lseek, 0, 0, 0}, {SYS_close, 0, 0, 0}, {SYS_fstat, 0, 0, 0},
    // queries about this process
    {SYS_getpid, 0, 0, 0}, {SYS_gettid, 0, 0, 0}, {SYS_getppid, 0, 0, 0}, {SYS_getuid, 0, 0, 0},
    {SYS_geteuid, 0, 0, 0}, {SYS_getgid, 0, 0, 0}, {SYS_getegid, 0, 0, 0}, {SYS_uname, 0, 0, 0},
    {SYS_getrusage, 0, 0, 0}, {SYS_times, 0, 0, 0}, {SYS_sysinfo, 0, 0, 0}, {SYS_getcpu, 0, 0, 0},
    {SYS_prlimit64, 2, UINT64_MAX, 0}, // to query, not to set
};

static const rule reading[] = {
    {SYS_openat, 2, REFUSED_FLAGS, O_RDONLY}, {SYS_preadv, 0, 0, 0}, {SYS_newfstatat, 0, 0, 0},
    {SYS_statx, 0, 0, 0}, {SYS_fstatfs, 0, 0, 0}, {SYS_statfs, 0, 0, 0}, {SYS_getdents64, 0, 0, 0},
    {SYS_faccessat, 0, 0, 0}, {SYS_readlinkat, 0, 0, 0}, {SYS_fadvise64, 0, 0, 0},
    {SYS_readahead, 0, 0, 0}, {SYS_flock, 0, 0, 0},
    {SYS_fcntl, 1, ~UINT64_C(3) & UINT32_MAX, 0}, // F_DUPFD, F_GETFD, F_SETFD, F_GETFL
#ifdef SYS_open
    {SYS_open, 1, REFUSED_FLAGS, O_RDONLY}, {SYS_stat, 0, 0, 0}, {SYS_lstat, 0, 0, 0},
    {SYS_access, 0, 0, 0}, {SYS_readlink, 0, 0, 0},
#endif
};
// clang-format on

// Calls that glibc tries first, whose arguments are behind a pointer.
static const int unknown[] = {
#ifdef SYS_clone3
    SYS_clone3,
#endif
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
};

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))
#define MOST_STEPS (16 + 9 * (COUNT(compute) + COUNT(reading)) + 2 * COUNT(unknown))

typedef struct bpf_filter {
    struct sock_filter steps[MOST_STEPS];
    unsigned short count;
    uint32_t process;
} bpf_filter;

static void add(bpf_filter *p, uint16_t code, uint32_t value, uint8_t if_true, uint8_t if_false) {
    p->steps[p->count++] =
        (struct sock_filter){.code = code, .jt = if_true, .jf = if_false, .k = value};
}

static void add_return(bpf_filter *p, uint32_t verdict) {
    add(p, BPF_RET | BPF_K, verdict, 0, 0);
}

static void add_refusal(bpf_filter *p, int error) {
    add_return(p, SECCOMP_RET_ERRNO | (uint32_t)error);
}

static void add_load(bpf_filter *p, size_t offset) {
    add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

// Compares one half of an argument, masked, with 'value'; jumps 'away' steps ahead to the refusal
// if it differs.
static void add_half(bpf_filter *p, size_t offset, uint32_t mask, uint32_t value, uint8_t away) {
    add_load(p, offset);
    add(p, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, away);
}

// Every path of a matching rule returns, so the call number remains loaded for the next rule.
static void add_rule(bpf_filter *p, const rule *r) {
    const uint64_t value = r->value == OWN_PROCESS ? p->process : r->value;
    const size_t low = offsetof(struct seccomp_data, args) + 8 * (size_t)r->argument;
    const bool high = r->mask >> 32 != 0;
    const uint8_t length = r->mask == 0 ? 1 : high ? 8 : 5;
    add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->number, 0, length);
    if (r->mask != 0) // both architectures are little-endian: the low half is first
        add_half(p, low, (uint32_t)r->mask, (uint32_t)value, high ? 4 : 1);
    if (high)
        add_half(p, low + 4, (uint32_t)(r->mask >> 32), (uint32_t)(value >> 32), 1);
    add_return(p, SECCOMP_RET_ALLOW);
    if (r->mask != 0)
        add_refusal(p, EPERM);
}

static void write_filter(bpf_filter *p, sr_sandbox_rights rights) {
    add_load(p, offsetof(struct seccomp_data, arch));
    add(p, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    add_refusal(p, EPERM); // system calls of another ABI
    add_load(p, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < COUNT(compute); i++)
        add_rule(p, &compute[i]);
    for (int i = 0; rights == SR_SANDBOX_READ && i < COUNT(reading); i++)
        add_rule(p, &reading[i]);
    for (int i = 0; i < COUNT(unknown); i++) {
        add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)unknown[i], 0, 1);
        add_refusal(p, ENOSYS);
    }
    add_refusal(p, EPERM);
}

bool sr_sandbox_has_filter(void) {
    const uint32_t action = SECCOMP_RET_ERRNO;
    return ARCHITECTURE != 0 && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0u, &action) == 0;
}

sr_status sr_sandbox_filter(sr_sandbox_rights rights) {
    bpf_filter p = {.process = (uint32_t)getpid()};
    write_filter(&p, rights);
    const struct sock_fprog filter = {.len = p.count, .filter = p.steps};
    const long failed =
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
    if (failed < 0)
        return SR_FAIL(SR_E_SYSTEM, "seccomp: cannot install the filter: %s", strerror(errno));
    if (failed > 0)
        return SR_FAIL(SR_E_SYSTEM, "seccomp: thread %ld of this process already has a filter",
                       failed);
    return SR_OK;
}
