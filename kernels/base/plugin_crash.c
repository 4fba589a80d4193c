// SPDX-License-Identifier: Apache-2.0
// Names the plug-in that crashed: a handler for fault signals (plugin_file.h).
//
// It checks where the fault was: inside the code of a plug-in, or in code that a plug-in called, if
// a return address into a plug-in is near the top of the stack (a guess, which is wrong when an old
// frame is left there; the message says "called by"). Code ranges were stored when files were
// loaded, since dladdr takes a lock. Everything here is async-signal-safe: write(2), and
// process_vm_readv(2), which reads a stack of unknown size without faulting at its end.
//
// Afterwards the signal is handled as before, so exit status, core dump and the handlers of other
// libraries are unchanged. The handler has a separate stack in threads of sr_thread_start and in
// the thread that loaded the first plug-in, so an endless recursion is reported, too.
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "kernels/base/plugin_file_internal.h"
#include "kernels/base/thread.h"

enum { SIGNALS = 5, STACK_WORDS = 1024, LINE = 8192 };

static const struct {
    int number;
    const char *name;
} signals[SIGNALS] = {{SIGSEGV, "SIGSEGV"},
                      {SIGBUS, "SIGBUS"},
                      {SIGFPE, "SIGFPE"},
                      {SIGILL, "SIGILL"},
                      {SIGABRT, "SIGABRT"}};

static struct sigaction before[SIGNALS];
static bool watching;
static _Atomic(const char *) now_loading;

// ---- in the handler -----------------------------------------------------------------------------

typedef struct crash_line {
    char text[LINE];
    size_t length;
} crash_line;

static void add(crash_line *out, const char *text) {
    size_t n = strlen(text), room = sizeof out->text - out->length;
    n = n < room ? n : room;
    memcpy(out->text + out->length, text, n);
    out->length += n;
}

static void add_hex(crash_line *out, uintptr_t value) {
    char digits[2 * sizeof value + 3], *at = digits + sizeof digits - 1;
    *at = '\0';
    do {
        *--at = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value);
    *--at = 'x';
    *--at = '0';
    add(out, at);
}

static void print_line(const crash_line *out) {
    const char *at = out->text;
    size_t left = out->length;
    while (left > 0) {
        ssize_t n = write(STDERR_FILENO, at, left);
        if (n <= 0)
            return;
        at += n;
        left -= (size_t)n;
    }
}

static bool is_inside(const sr_plugin_file *file, uintptr_t address) {
    return address >= file->code[0] && address < file->code[1];
}

static const sr_plugin_file *owner(uintptr_t address) {
    int count;
    const sr_plugin_file *files = sr_plugin_files(&count);
    for (int i = 0; i < count; i++)
        if (is_inside(&files[i], address))
            return &files[i];
    return NULL;
}

typedef struct crash_point {
    uintptr_t instruction, stack;
} crash_point;

static crash_point where(const void *context) {
    const ucontext_t *u = context;
#if defined(__x86_64__)
    return (crash_point){(uintptr_t)u->uc_mcontext.gregs[REG_RIP],
                         (uintptr_t)u->uc_mcontext.gregs[REG_RSP]};
#elif defined(__aarch64__)
    return (crash_point){u->uc_mcontext.pc, u->uc_mcontext.sp};
#else
    (void)u;
    return (crash_point){0, 0};
#endif
}

// The nearest return address into a plug-in, 0 for none.
static uintptr_t caller(uintptr_t stack, const sr_plugin_file **file) {
    uintptr_t words[STACK_WORDS / 8];
    for (int part = 0; part < 8; part++, stack += sizeof words) {
        union {
            uintptr_t number;
            void *pointer;
        } from = {.number = stack};
        struct iovec into = {words, sizeof words}, range = {from.pointer, sizeof words};
        ssize_t bytes = process_vm_readv(getpid(), &into, 1, &range, 1, 0);
        for (size_t i = 0; bytes > 0 && i < (size_t)bytes / sizeof *words; i++) {
            *file = owner(words[i]);
            if (*file)
                return words[i] - 1; // inside the call
        }
        if (bytes < (ssize_t)sizeof words)
            return 0;
    }
    return 0;
}

static void report_crash(const char *name, const void *context) {
    crash_point at = where(context);
    const char *loading = atomic_load(&now_loading);
    const sr_plugin_file *file = owner(at.instruction);
    uintptr_t address = file ? at.instruction : caller(at.stack, &file);
    crash_line out = {.length = 0};
    if (!file && !loading)
        return;
    add(&out, "error: ");
    add(&out, name);
    if (!file) {
        add(&out, " while the plug-in ");
        add(&out, loading);
        add(&out, " was being loaded\n");
    } else {
        add(&out,
            owner(at.instruction) ? " in the plug-in " : " in what was called by the plug-in ");
        add(&out, file->path);
        add(&out, "; the line: addr2line -fe ");
        add(&out, file->path);
        add(&out, " ");
        add_hex(&out, address - file->begin);
        add(&out, "\n");
    }
    print_line(&out);
}

static void on_crash(int number, siginfo_t *info, void *context) {
    int saved = errno;
    for (int i = 0; i < SIGNALS; i++) {
        if (signals[i].number != number)
            continue;
        report_crash(signals[i].name, context);
        (void)sigaction(number, &before[i], NULL);
    }
    errno = saved;
    // A fault occurs again when the instruction is executed again; a signal that was sent does not.
    if (info->si_code <= 0)
        (void)raise(number);
}

// ---- before -------------------------------------------------------------------------------------

sr_status sr_plugin_watch_crashes(const char *loading) {
    atomic_store(&now_loading, loading);
    if (watching)
        return SR_OK;
    SR_TRY(sr_thread_guard_stack());
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    (void)sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(signals[i].number, &action, &before[i]) != 0)
            return SR_FAIL(SR_E_SYSTEM, "cannot watch for %s: %s", signals[i].name,
                           strerror(errno));
    watching = true;
    return SR_OK;
}
