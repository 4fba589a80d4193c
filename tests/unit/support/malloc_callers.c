// SPDX-License-Identifier: Apache-2.0
// A table of stacks of fixed size (malloc_callers.h). An entry belongs to the first thread that
// puts its key there. What comes when the table is full is counted without its stack.
#include "tests/unit/support/malloc_callers.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { ENTRIES = 64, FRAMES = 6, DEEPEST = 16 };

typedef struct noted_stack {
    atomic_uint_fast64_t key; // 0: unused
    atomic_uint_fast64_t count;
    atomic_uintptr_t frames[FRAMES];
} noted_stack;

static noted_stack stacks[ENTRIES];
static atomic_uint_fast64_t unlisted;
static atomic_bool notes;

void malloc_callers_begin(void) {
    void *frames[1];
    (void)backtrace(frames, 1); // its first call loads a library, which allocates
    atomic_store_explicit(&notes, false, memory_order_relaxed);
    for (int i = 0; i < ENTRIES; i++) {
        atomic_store_explicit(&stacks[i].key, 0, memory_order_relaxed);
        atomic_store_explicit(&stacks[i].count, 0, memory_order_relaxed);
        for (int k = 0; k < FRAMES; k++)
            atomic_store_explicit(&stacks[i].frames[k], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&unlisted, 0, memory_order_relaxed);
    atomic_store_explicit(&notes, true, memory_order_release);
}

static uint64_t key_of(void *const *frames, int count) {
    uint64_t key = 1;
    for (int i = 0; i < count; i++)
        key = (key ^ (uint64_t)(uintptr_t)frames[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return key ? key : 1;
}

// The entry of a stack; NULL: the table is full.
static noted_stack *find_stack(void *const *frames, int count) {
    const uint64_t key = key_of(frames, count);
    for (uint64_t i = 0; i < ENTRIES; i++) {
        noted_stack *stack = &stacks[(key >> 32 ^ key ^ i) % ENTRIES];
        uint_fast64_t old = 0;
        if (atomic_compare_exchange_strong_explicit(&stack->key, &old, key, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            for (int k = 0; k < count; k++)
                atomic_store_explicit(&stack->frames[k], (uintptr_t)frames[k],
                                      memory_order_relaxed);
            return stack;
        }
        if (old == key)
            return stack;
    }
    return NULL;
}

void malloc_callers_note(const void *caller) {
    void *frames[DEEPEST];
    if (!atomic_load_explicit(&notes, memory_order_acquire))
        return;
    int count = backtrace(frames, DEEPEST), first = 0;
    while (first < count && frames[first] != caller)
        first++;
    if (first == count) { // no unwinding
        memcpy(frames, &caller, sizeof caller);
        first = 0;
        count = 1;
    }
    count = count - first < FRAMES ? count - first : FRAMES;
    noted_stack *stack = find_stack(frames + first, count);
    atomic_fetch_add_explicit(stack ? &stack->count : &unlisted, 1, memory_order_relaxed);
}

static void print_frame(FILE *out, uintptr_t at) {
    Dl_info info = {0};
    const void *address;
    memcpy(&address, &at, sizeof address);
    const bool found = dladdr(address, &info) && info.dli_fname;
    const char *slash = found ? strrchr(info.dli_fname, '/') : NULL;
    const char *file = slash ? slash + 1 : found ? info.dli_fname : "?";
    const char *symbol = info.dli_sname ? info.dli_sname : "";
    const void *base = info.dli_sname ? info.dli_saddr : info.dli_fbase;
    (void)fprintf(out, "%s(%s+0x%llx)", file, symbol, (unsigned long long)(at - (uintptr_t)base));
}

void malloc_callers_print(FILE *out) {
    atomic_store_explicit(&notes, false, memory_order_relaxed);
    for (int i = 0; i < ENTRIES; i++) {
        const uint64_t count = atomic_load_explicit(&stacks[i].count, memory_order_relaxed);
        if (count == 0)
            continue;
        (void)fprintf(out, "%8llu x ", (unsigned long long)count);
        for (int k = 0; k < FRAMES; k++) {
            const uintptr_t at = atomic_load_explicit(&stacks[i].frames[k], memory_order_relaxed);
            if (at == 0)
                break;
            (void)fprintf(out, "%s", k > 0 ? " < " : "");
            print_frame(out, at);
        }
        (void)fprintf(out, "\n");
    }
    const uint64_t more = atomic_load_explicit(&unlisted, memory_order_relaxed);
    if (more > 0)
        (void)fprintf(out, "%8llu x from elsewhere\n", (unsigned long long)more);
    (void)fflush(out);
}
