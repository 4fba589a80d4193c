// SPDX-License-Identifier: Apache-2.0
// Runs a command and injects a fault at its n-th call that changes files below a folder.
//
//   file_faults FOLDER LIST FAULT N COMMAND...
//
// FAULT: none; kill (SIGKILL to all processes of the command before call N); eio, eio+ (call N, or
// each call from N on, fails with EIO); full+ (each call from N on that takes space fails with
// ENOSPC). LIST receives a line "N process call path" for every counted call. Exits with the
// command's exit code, 128 + signal, or 99 if the fault was kill.
//
// The kernel itself reports the calls (seccomp and ptrace, see seccomp(2)), from every process and
// thread of the command, so that none is missed, whether stdio or another library makes it. It does
// not simulate power loss: written data stay (test_checkpoint_crash.c and test_pack_crash.c drop
// what was not synced).
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __x86_64__
int main(void) {
    puts("NOT RUN: fault injection supports x86-64 only");
    return 77;
}
#else

enum { EXIT_KILLED = 99, MAX_PROCESSES = 512 };

// How a call specifies its file: by a descriptor, a path, or a path relative to a descriptor.
typedef enum file_locator { AT_FD, AT_PATH, AT_FOLDER } file_locator;

typedef struct file_call {
    long number;
    const char *name;
    file_locator place;
    int argument; // index of the descriptor or path, or of the folder's descriptor
    bool takes_space;
} file_call;

static const file_call calls[] = {
    {SYS_open, "open", AT_PATH, 0, true},
    {SYS_openat, "openat", AT_FOLDER, 0, true},
    {SYS_creat, "creat", AT_PATH, 0, true},
    {SYS_write, "write", AT_FD, 0, true},
    {SYS_pwrite64, "pwrite", AT_FD, 0, true},
    {SYS_writev, "writev", AT_FD, 0, true},
    {SYS_pwritev, "pwritev", AT_FD, 0, true},
    {SYS_pwritev2, "pwritev2", AT_FD, 0, true},
    {SYS_sendfile, "sendfile", AT_FD, 0, true},
    {SYS_copy_file_range, "copy_file_range", AT_FD, 2, true},
    {SYS_fallocate, "fallocate", AT_FD, 0, true},
    {SYS_truncate, "truncate", AT_PATH, 0, false},
    {SYS_ftruncate, "ftruncate", AT_FD, 0, false},
    {SYS_fsync, "fsync", AT_FD, 0, false},
    {SYS_fdatasync, "fdatasync", AT_FD, 0, false},
    {SYS_sync_file_range, "sync_file_range", AT_FD, 0, false},
    {SYS_rename, "rename", AT_PATH, 0, false},
    {SYS_renameat, "renameat", AT_FOLDER, 0, false},
    {SYS_renameat2, "renameat2", AT_FOLDER, 0, false},
    {SYS_link, "link", AT_PATH, 1, true},
    {SYS_linkat, "linkat", AT_FOLDER, 2, true},
    {SYS_symlink, "symlink", AT_PATH, 1, true},
    {SYS_symlinkat, "symlinkat", AT_FOLDER, 1, true},
    {SYS_mkdir, "mkdir", AT_PATH, 0, true},
    {SYS_mkdirat, "mkdirat", AT_FOLDER, 0, true},
    {SYS_unlink, "unlink", AT_PATH, 0, false},
    {SYS_unlinkat, "unlinkat", AT_FOLDER, 0, false},
    {SYS_rmdir, "rmdir", AT_PATH, 0, false},
};

enum { CALLS = sizeof calls / sizeof *calls };

static const char *root;
static pid_t processes[MAX_PROCESSES];
static int process_count;

static void die(const char *what) {
    fprintf(stderr, "file_faults: %s: %s\n", what, strerror(errno));
    exit(125);
}

// -- the command's process ---------------------------------------------------------------------

static void install_filter(void) {
    struct sock_filter code[CALLS + 3];
    unsigned short n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             (uint32_t)offsetof(struct seccomp_data, nr));
    for (int i = 0; i < CALLS; i++) // jumps over the rest and "allow"
        code[n++] = (struct sock_filter)BPF_JUMP(
            BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i].number, (uint8_t)(CALLS - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    struct sock_fprog program = {.len = n, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        die("seccomp");
}

static pid_t start(char **command) {
    int ready[2];
    char byte;
    if (pipe(ready) != 0)
        die("pipe");
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        close(ready[1]);
        if (read(ready[0], &byte, 1) != 0) // until the tracer is attached
            _exit(125);
        close(ready[0]);
        install_filter();
        execvp(command[0], command);
        die(command[0]);
    }
    close(ready[0]);
    const unsigned long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                                  PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, child, NULL, (void *)options) != 0) {
        printf("NOT RUN: ptrace is not permitted here: %s\n", strerror(errno));
        (void)kill(child, SIGKILL);
        exit(77);
    }
    close(ready[1]);
    return child;
}

// -- which file --------------------------------------------------------------------------------

static void read_link(pid_t process, const char *what, long long fd, char out[PATH_MAX]) {
    char link[64];
    if (fd >= 0)
        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)process, (int)fd);
    else
        snprintf(link, sizeof link, "/proc/%d/%s", (int)process, what);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
}

static void read_path(pid_t process, uint64_t address, char out[PATH_MAX]) {
    size_t done = 0;
    while (done < PATH_MAX - 1) { // not across a page that may be unmapped
        size_t part = 256 - (size_t)((address + done) % 256);
        if (part > PATH_MAX - 1 - done)
            part = PATH_MAX - 1 - done;
        struct iovec local = {out + done, part},
                     remote = {(void *)(uintptr_t)(address + done), part};
        if (process_vm_readv(process, &local, 1, &remote, 1, 0) <= 0 ||
            memchr(out + done, 0, part) != NULL)
            return;
        done += part;
    }
    out[done] = '\0';
}

static void find_file(pid_t process, const file_call *c, const uint64_t *arguments,
                      char out[PATH_MAX]) {
    char name[PATH_MAX] = "", folder[PATH_MAX] = "";
    out[0] = '\0';
    if (c->place == AT_FD) {
        read_link(process, "", (int)arguments[c->argument], out);
        return;
    }
    read_path(process, arguments[c->argument + (c->place == AT_FOLDER)], name);
    int at = c->place == AT_FOLDER ? (int)arguments[c->argument] : AT_FDCWD;
    if (name[0] != '/')
        read_link(process, "cwd", at == AT_FDCWD ? -1 : at, folder);
    if (snprintf(out, PATH_MAX, "%s%s%s", folder, name[0] == '/' ? "" : "/", name) >= PATH_MAX)
        out[0] = '\0';
}

static bool changes(const file_call *c, const uint64_t *arguments) {
    if (c->number != SYS_open && c->number != SYS_openat)
        return true;
    return (arguments[c->number == SYS_openat ? 2 : 1] & (O_CREAT | O_TRUNC)) != 0;
}

static bool below_root(const char *path) {
    size_t n = strlen(root);
    return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

// -- the tracer --------------------------------------------------------------------------------

static void add_process(pid_t process) {
    for (int i = 0; i < process_count; i++)
        if (processes[i] == process)
            return;
    if (process_count == MAX_PROCESSES) {
        errno = E2BIG;
        die("processes");
    }
    processes[process_count++] = process;
}

static void forget_process(pid_t process) {
    for (int i = 0; i < process_count; i++)
        if (processes[i] == process)
            processes[i] = processes[--process_count];
}

static void kill_all(void) {
    for (int i = 0; i < process_count; i++)
        (void)kill(processes[i], SIGKILL);
    while (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR)
        ;
    exit(EXIT_KILLED);
}

// Skips the call, which returns the error instead.
static void fail_call(pid_t process, int error) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, process, NULL, &registers) != 0)
        return; // killed in between
    registers.orig_rax = (unsigned long long)-1;
    registers.rax = (unsigned long long)-error;
    (void)ptrace(PTRACE_SETREGS, process, NULL, &registers);
}

static void judge_call(pid_t process, FILE *list, const char *fault, long n) {
    static long seen;
    struct __ptrace_syscall_info info;
    char path[PATH_MAX];
    const file_call *c = NULL;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, process, (void *)sizeof info, &info) <= 0 ||
        info.op != PTRACE_SYSCALL_INFO_SECCOMP)
        return;
    for (int i = 0; i < CALLS && c == NULL; i++)
        if (calls[i].number == (long)info.seccomp.nr)
            c = &calls[i];
    if (c == NULL || !changes(c, (const uint64_t *)info.seccomp.args))
        return;
    find_file(process, c, (const uint64_t *)info.seccomp.args, path);
    if (!below_root(path))
        return;
    seen++;
    fprintf(list, "%ld %d %s %s\n", seen, (int)process, c->name, path);
    if (strcmp(fault, "kill") == 0 && seen == n) {
        (void)fclose(list);
        kill_all();
    }
    if (strcmp(fault, "eio") == 0 ? seen == n : strcmp(fault, "eio+") == 0 && seen >= n)
        fail_call(process, EIO);
    if (strcmp(fault, "full+") == 0 && seen >= n && c->takes_space)
        fail_call(process, ENOSPC);
}

// Resumes a stopped process, with its signal if a signal stopped it.
static void resume(pid_t process, int status, FILE *list, const char *fault, long n) {
    int event = status >> 16, signal = WSTOPSIG(status), deliver = 0;
    if (event == PTRACE_EVENT_STOP) {
        bool group =
            signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
        if (group) {
            (void)ptrace(PTRACE_LISTEN, process, NULL, NULL);
            return;
        }
    } else if (event == PTRACE_EVENT_SECCOMP) {
        judge_call(process, list, fault, n);
    } else if (event == 0) {
        deliver = signal;
    }
    (void)ptrace(PTRACE_CONT, process, NULL, (void *)(intptr_t)deliver);
}

int main(int argc, char **argv) {
    if (argc < 6) {
        fputs("usage: file_faults FOLDER LIST none|kill|eio|eio+|full+ N COMMAND...\n", stderr);
        return 2;
    }
    root = argv[1];
    FILE *list = fopen(argv[2], "we");
    if (list == NULL)
        die(argv[2]);
    pid_t command = start(argv + 5);
    int code = 125;
    add_process(command);
    for (;;) {
        int status;
        pid_t process = waitpid(-1, &status, __WALL);
        if (process < 0 && errno == EINTR)
            continue;
        if (process < 0)
            break; // no process is left
        if (WIFSTOPPED(status)) {
            add_process(process);
            resume(process, status, list, argv[3], strtol(argv[4], NULL, 10));
            continue;
        }
        forget_process(process);
        if (process == command)
            code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (fclose(list) != 0)
        die(argv[2]);
    return code;
}
#endif
