// SPDX-License-Identifier: Apache-2.0
// Blocks of a kernel on the software GPU.
//
// A kernel without barriers is a loop over blocks and threads. In one with barriers, each thread of
// a block has a stack of its own and runs until it waits for others; a block's threads share an
// operating system thread. What CUDA leaves open is drawn from the seed: the order of blocks, and
// for each block the order in which its threads run between barriers, so that a missing barrier is
// a wrong result.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

#define STACK ((size_t)131072)
#define PAGE ((size_t)4096)
// Stacks begin at different lines of the cache, of which all pages share few.
#define COLOURS 32u
#define LINE ((size_t)448)
#define POISON 0xff
#define CANARY 0xa5 // in the bytes between the end of shared memory and the page that faults
#define SHARED_BYTES ((size_t)(SOFT_GPU_SHARED_MAX + 4095) / 4096 * 4096)
enum { WARP = 32, WARPS = SR_CUDA_THREADS / WARP };

// AddressSanitizer keeps what it knows of the frames of a thread that ends by leaving its stack.
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define FORGET_FRAMES(memory, bytes) ASAN_UNPOISON_MEMORY_REGION(memory, bytes)
#else
#define FORGET_FRAMES(memory, bytes) ((void)(memory))
#endif

// For ThreadSanitizer each thread of a block is a thread, and only barriers, warp operations, and
// the begin and end of the block order their accesses.
#ifdef SOFT_GPU_TSAN
#include <sanitizer/tsan_interface.h>
#define FIBER_CREATE() __tsan_create_fiber(0)
#define FIBER_SELF() __tsan_get_current_fiber()
#define FIBER_SWITCH(to) __tsan_switch_to_fiber(to, __tsan_switch_to_fiber_no_sync)
#define AFTER(address) __tsan_acquire(address)
#define BEFORE(address) __tsan_release(address)
#else
#define FIBER_CREATE() NULL
#define FIBER_SELF() NULL
#define FIBER_SWITCH(to) ((void)(to))
#define AFTER(address) ((void)(address))
#define BEFORE(address) ((void)(address))
#endif

typedef enum thread_state { RUNNABLE, AT_BARRIER, IN_WARP, EXITED } thread_state;

typedef struct thread {
    void *stack; // pointer, while it does not run
    void *fiber;
    uint3 index;
    thread_state state;
    soft_gpu_place place; // where it waits
    uint64_t value;       // that it gives to its warp, then what it gets
    uint32_t source;
    void *frame;
    soft_copies copies;
} thread;

typedef struct warp {
    uint32_t existing, live, waiting, at_barrier; // bits of lanes
    uint32_t phase;                               // times of __syncwarp
} warp;

// The block that runs on this operating system thread.
typedef struct block {
    const soft_launch *launch;
    const void *arguments;
    size_t argument_bytes;
    unsigned count, exited, at_barrier, phase; // phase: barriers that all have passed
    thread *current, *first_waiting;           // at the barrier
    void *scheduler;                           // its stack pointer
    void *scheduler_fiber;
    warp warps[WARPS];
    thread threads[SR_CUDA_THREADS];
    unsigned char *stacks; // of threads, kept for later blocks
    unsigned stack_count;
    soft_rng *rng;
    struct block *next; // among spare ones
} block;

__thread soft_gpu_thread soft_gpu_now;
static __thread block *running, *own;         // own: kept for later launches
static __thread bool in_thread;               // of any kernel
static __thread bool follows;                 // the block has waited for the kernel in front
static __thread unsigned char *shared_memory; // SHARED_BYTES, and a page without memory
// Of streams that have ended; stacks and ThreadSanitizer's threads take long to make.
static block *spare; // under soft_lock

bool soft_in_thread(void) {
    return in_thread;
}

void soft_gpu_follow(void) {
    follows = true;
}

// ---- Threads that wait for each other ----

static thread *self(const char *operation) {
    if (!running)
        soft_mistake("%s in a kernel that is registered without barriers", operation);
    return running->current;
}

static unsigned number_of(const thread *t) {
    return (unsigned)(t - running->threads);
}

static warp *warp_of(const thread *t) {
    return &running->warps[number_of(t) / WARP];
}

// Inlined, as each return on another stack is mispredicted.
static inline __attribute__((always_inline)) void leave(thread *t) {
    FIBER_SWITCH(running->scheduler_fiber);
    soft_switch_stack(&t->stack, running->scheduler);
}

static const thread *find_exited(void) {
    const thread *t = running->threads;
    while (t->state != EXITED)
        t++;
    return t;
}

static void check_barrier(const thread *t) {
    if (running->exited > 0) {
        const uint3 i = find_exited()->index;
        soft_mistake("waits at a barrier (%s:%d), but thread (%u, %u, %u) has ended", t->place.file,
                     t->place.line, i.x, i.y, i.z);
    }
    const thread *other = running->first_waiting;
    if (running->at_barrier > 0 && other->place.line != t->place.line)
        soft_mistake("waits at the barrier in line %d, but thread (%u, %u, %u) at that in line %d "
                     "of %s",
                     t->place.line, other->index.x, other->index.y, other->index.z,
                     other->place.line, other->place.file);
    if (warp_of(t)->waiting != 0)
        soft_mistake("waits at a barrier (%s:%d), but lanes %#x of its warp in a warp operation",
                     t->place.file, t->place.line, warp_of(t)->waiting);
}

void soft_gpu_barrier(soft_gpu_place place) {
    thread *t = self(place.operation);
    block *b = running;
    t->place = place;
    check_barrier(t);
    if (b->at_barrier == 0)
        b->first_waiting = t;
    t->state = AT_BARRIER;
    BEFORE(&b->at_barrier);
    warp_of(t)->at_barrier |= 1u << number_of(t) % WARP;
    if (++b->at_barrier < b->count) {
        leave(t);
        AFTER(&b->at_barrier);
        return;
    }
    b->at_barrier = 0;
    b->phase++;
    for (unsigned i = 0; i < b->count; i++)
        b->threads[i].state = RUNNABLE;
    for (unsigned i = 0; i * WARP < b->count; i++)
        b->warps[i].at_barrier = 0;
    leave(t); // so that the order between barriers is the scheduler's
    AFTER(&b->at_barrier);
}

// Lanes that never existed may be named, as in blocks that end with a part of a warp.
static void check_warp(const thread *t, const warp *w) {
    const soft_gpu_place *p = &t->place;
    const uint32_t lane = 1u << number_of(t) % WARP;
    if (!(p->mask & lane))
        soft_mistake("%s (%s:%d): its mask %#x misses the calling lane", p->operation, p->file,
                     p->line, p->mask);
    if (w->live & ~p->mask)
        soft_mistake("%s (%s:%d): its mask %#x misses live lanes %#x", p->operation, p->file,
                     p->line, p->mask, w->live & ~p->mask);
    if (p->mask & w->existing & ~w->live)
        soft_mistake("%s (%s:%d): its mask %#x names lanes %#x, which have ended", p->operation,
                     p->file, p->line, p->mask, p->mask & w->existing & ~w->live);
    if (w->at_barrier)
        soft_mistake("%s (%s:%d): its mask %#x names lanes %#x, which wait at a barrier",
                     p->operation, p->file, p->line, p->mask, w->at_barrier);
    if (w->waiting == 0)
        return;
    const unsigned first =
        (unsigned)(__builtin_ctz(w->waiting) + (int)(number_of(t) / WARP * WARP));
    const soft_gpu_place *other = &running->threads[first].place;
    if (other->line != p->line ||
        (other->operation != p->operation && strcmp(other->operation, p->operation) != 0))
        soft_mistake("%s (%s:%d), but other lanes of the warp wait in %s (%s:%d)", p->operation,
                     p->file, p->line, other->operation, other->file, other->line);
}

// Enters a warp operation; true for the lane that comes last, which completes it for all.
static inline __attribute__((always_inline)) bool meet_warp(thread *t, soft_gpu_place place) {
    warp *w = warp_of(t);
    t->place = place;
    check_warp(t, w);
    w->waiting |= 1u << number_of(t) % WARP;
    BEFORE(w);
    if (w->waiting == w->live) {
        AFTER(w);
        return true;
    }
    t->state = IN_WARP;
    leave(t);
    AFTER(w);
    return false;
}

static void complete_warp(const thread *t) {
    const unsigned first = number_of(t) / WARP * WARP;
    for (unsigned i = 0; i < WARP; i++)
        if (warp_of(t)->waiting >> i & 1u)
            running->threads[first + i].state = RUNNABLE;
    warp_of(t)->waiting = 0;
}

uint64_t soft_gpu_exchange(soft_gpu_place place, uint64_t value, uint32_t source) {
    thread *t = self(place.operation);
    t->value = value;
    t->source = source;
    if (source >= WARP || !(warp_of(t)->live >> source & 1u))
        soft_mistake("%s (%s:%d): reads lane %u, which does not exist or has ended",
                     place.operation, place.file, place.line, source);
    if (!meet_warp(t, place))
        return t->value;
    thread *lanes = running->threads + number_of(t) / WARP * WARP;
    uint64_t values[WARP];
    for (unsigned i = 0; i < WARP; i++)
        values[i] = lanes[i].value;
    for (unsigned i = 0; i < WARP; i++)
        if (warp_of(t)->live >> i & 1u)
            lanes[i].value = values[lanes[i].source];
    complete_warp(t);
    return t->value;
}

// Only __syncwarp orders the memory accesses of lanes.
static inline __attribute__((always_inline)) uint32_t vote(soft_gpu_place place, int predicate,
                                                           bool orders_memory) {
    thread *t = self(place.operation);
    t->value = predicate != 0;
    if (!meet_warp(t, place))
        return (uint32_t)t->value;
    thread *lanes = running->threads + number_of(t) / WARP * WARP;
    uint32_t votes = 0;
    for (unsigned i = 0; i < WARP; i++)
        if (warp_of(t)->live >> i & 1u)
            votes |= (uint32_t)lanes[i].value << i;
    for (unsigned i = 0; i < WARP; i++)
        lanes[i].value = votes;
    if (orders_memory)
        warp_of(t)->phase++;
    complete_warp(t);
    return votes;
}

uint32_t soft_gpu_ballot(soft_gpu_place place, int predicate) {
    return vote(place, predicate, false);
}

void soft_gpu_warp_barrier(soft_gpu_place place) {
    (void)vote(place, 0, true);
}

void soft_gpu_together(soft_gpu_place place, void *frame, soft_gpu_compute compute) {
    thread *t = self(place.operation);
    warp *w = warp_of(t);
    t->frame = frame;
    if (w->live != UINT32_MAX)
        soft_mistake("%s (%s:%d): of the warp's 32 lanes only %#x run", place.operation, place.file,
                     place.line, w->live);
    if (!meet_warp(t, place))
        return;
    const thread *lanes = running->threads + number_of(t) / WARP * WARP;
    void *frames[WARP];
    for (unsigned i = 0; i < WARP; i++)
        frames[i] = lanes[i].frame;
    compute(frames);
    BEFORE(w);
    complete_warp(t);
}

soft_copies *soft_own_copies(const char *operation, soft_rng **rng) {
    thread *t = self(operation);
    *rng = running->rng;
    return &t->copies;
}

soft_position soft_get_position(void) {
    const soft_gpu_thread *n = &soft_gpu_now;
    soft_position p = {(n->thread.z * n->block_dim.y + n->thread.y) * n->block_dim.x + n->thread.x,
                       0, 0};
    if (running) {
        p.block_phase = running->phase;
        p.warp_phase = running->warps[p.thread / WARP].phase;
    }
    return p;
}

uint32_t soft_gpu_lane(void) {
    return number_of(self("a shuffle")) % WARP;
}

// ---- A block with barriers ----

static void thread_main(void) {
    block *b = running;
    thread *t = b->current;
    AFTER(b);
    soft_switch_call(b->launch->kernel.function, b->arguments, b->argument_bytes);
    if (b->at_barrier > 0) {
        const thread *other = b->first_waiting;
        soft_mistake("has ended, but thread (%u, %u, %u) waits at a barrier (%s:%d)",
                     other->index.x, other->index.y, other->index.z, other->place.file,
                     other->place.line);
    }
    warp *w = warp_of(t);
    if (w->waiting) {
        const thread *other =
            b->threads + number_of(t) / WARP * WARP + (unsigned)__builtin_ctz(w->waiting);
        soft_mistake("has ended, but lanes %#x of its warp wait in %s (%s:%d)", w->waiting,
                     other->place.operation, other->place.file, other->place.line);
    }
    soft_copies_end(&t->copies);
    w->live &= ~(1u << number_of(t) % WARP);
    t->state = EXITED;
    b->exited++;
    BEFORE(&b->exited);
    leave(t);
}

static unsigned gcd(unsigned a, unsigned b) {
    while (b != 0) {
        const unsigned rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// Threads run in the order first, first + step, ..., modulo their number.
static void draw_order(unsigned count, soft_rng *rng, unsigned *first, unsigned *step) {
    const uint32_t kind = soft_below(rng, 3);
    *first = kind == 0 ? 0 : kind == 1 ? count - 1 : soft_below(rng, count);
    *step = kind == 0 || count == 1 ? 1 : kind == 1 ? count - 1 : 1 + soft_below(rng, count - 1);
    while (gcd(*step, count) != 1)
        --*step;
}

// In every other block one of its warps runs only where no other can, as one does that has to wait
// for its memory.
static unsigned draw_late_warp(unsigned count, soft_rng *rng) {
    const unsigned warps = (count + WARP - 1) / WARP;
    return warps > 1 ? soft_below(rng, 2 * warps) : warps;
}

static void run_threads(block *b, soft_rng *rng) {
    unsigned at, step;
    bool is_late = false; // where the late warp must run
    draw_order(b->count, rng, &at, &step);
    const unsigned late = draw_late_warp(b->count, rng);
    while (b->exited < b->count) {
        bool moved = false;
        for (unsigned i = 0; i < b->count; i++) {
            thread *t = &b->threads[at];
            at += step;
            at -= at >= b->count ? b->count : 0;
            if (t->state != RUNNABLE || (number_of(t) / WARP == late && !is_late))
                continue;
            moved = true;
            b->current = t;
            soft_gpu_now.thread = t->index;
            FIBER_SWITCH(t->fiber);
            soft_switch_stack(&b->scheduler, t->stack);
        }
        if (!moved && is_late)
            soft_mistake("its threads wait for each other");
        is_late = !moved;
    }
}

static void start_threads(block *b) {
    const uint3 size = b->launch->threads;
    b->exited = b->at_barrier = b->phase = 0;
    memset(b->warps, 0, sizeof b->warps);
    for (unsigned i = 0; i < b->count; i++) {
        thread *t = &b->threads[i];
        t->index = (uint3){i % size.x, i / size.x % size.y, i / size.x / size.y};
        t->state = RUNNABLE;
        soft_copies_begin(&t->copies);
        if (!t->fiber)
            t->fiber = FIBER_CREATE();
        unsigned char *stack = b->stacks + i * (STACK + PAGE) + PAGE;
        FORGET_FRAMES(stack + STACK - COLOURS * LINE - PAGE, COLOURS * LINE + PAGE);
        t->stack = soft_switch_start(stack, STACK - i % COLOURS * LINE, thread_main);
        b->warps[i / WARP].existing |= 1u << i % WARP;
    }
    for (unsigned i = 0; i * WARP < b->count; i++)
        b->warps[i].live = b->warps[i].existing;
}

// Stacks, each with a page without memory at its end.
static void take_stacks(block *b) {
    if (b->stack_count >= b->count)
        return;
    if (b->stacks)
        (void)munmap(b->stacks, b->stack_count * (STACK + PAGE));
    b->stack_count = b->count;
    const size_t bytes = b->count * (STACK + PAGE);
    b->stacks = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (b->stacks == MAP_FAILED)
        soft_mistake("no memory of the host for stacks is left");
    for (unsigned i = 0; i < b->count; i++)
        (void)mprotect(b->stacks + i * (STACK + PAGE), PAGE, PROT_NONE);
}

// ---- All blocks ----

static void run_loop(const soft_launch *l, const void *arguments, size_t bytes) {
    for (unsigned z = 0; z < l->threads.z; z++) {
        for (unsigned y = 0; y < l->threads.y; y++) {
            for (unsigned x = 0; x < l->threads.x; x++) {
                soft_gpu_now.thread = (uint3){x, y, z};
                soft_switch_call(l->kernel.function, arguments, bytes);
            }
        }
    }
}

void soft_release_block(void) {
    if (own) {
        soft_lock();
        own->next = spare;
        spare = own;
        soft_unlock();
    }
    if (shared_memory)
        (void)munmap(shared_memory, SHARED_BYTES + PAGE);
    soft_races_release();
}

static block *spare_or_new(void) {
    soft_lock();
    block *b = spare;
    if (b)
        spare = b->next;
    soft_unlock();
    b = b ? b : calloc(1, sizeof *b);
    if (!b)
        soft_mistake("no memory of the host is left");
    return b;
}

static block *take_block(const soft_launch *l, const void *arguments, size_t bytes) {
    own = own ? own : spare_or_new();
    own->scheduler_fiber = FIBER_SELF();
    own->launch = l;
    own->arguments = arguments;
    own->argument_bytes = bytes;
    own->count = l->threads.x * l->threads.y * l->threads.z;
    take_stacks(own);
    return own;
}

// Shared memory ends before a page without memory, but for what rounding to 16 bytes leaves.
static void take_shared(const soft_launch *l) {
    if (!shared_memory) {
        shared_memory = mmap(NULL, SHARED_BYTES + PAGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (shared_memory == MAP_FAILED ||
            mprotect(shared_memory + SHARED_BYTES, PAGE, PROT_NONE) != 0)
            soft_mistake("no memory of the host is left");
    }
    const size_t rounded = (l->shared + 15) / 16 * 16;
    unsigned char *at = shared_memory + SHARED_BYTES - rounded;
    memset(at + l->shared, CANARY, rounded - l->shared);
    soft_gpu_now.shared = at;
    soft_gpu_now.shared_bytes = l->shared;
}

bool soft_is_behind_shared(uint64_t address, uint64_t *offset) {
    const uint64_t end = (uint64_t)(uintptr_t)shared_memory + SHARED_BYTES;
    *offset = address - (uint64_t)(uintptr_t)soft_gpu_now.shared;
    return shared_memory && address >= end && address < end + PAGE;
}

static void check_canary(const soft_launch *l) {
    const unsigned char *at = soft_gpu_now.shared;
    for (size_t i = l->shared; i < (l->shared + 15) / 16 * 16; i++)
        if (at[i] != CANARY)
            soft_mistake("wrote to byte %zu of its %zu bytes of shared memory", i, l->shared);
}

static void run_block(const soft_launch *l, const void *arguments, size_t bytes, soft_rng *rng) {
    follows = false;
    memset(soft_gpu_now.shared, POISON, l->shared);
    soft_races_begin();
    in_thread = true;
    if (l->kernel.barriers) {
        running = take_block(l, arguments, bytes);
        running->rng = rng;
        start_threads(running);
        BEFORE(running);
        run_threads(running, rng);
        AFTER(&running->exited);
        running = NULL;
    } else {
        run_loop(l, arguments, bytes);
    }
    if (l->overlaps && !follows)
        soft_mistake("may begin before the kernel in front has ended, but does not wait for it");
    in_thread = false;
    check_canary(l);
}

void soft_run_blocks(const soft_launch *l, const void *arguments, soft_rng *rng) {
    const size_t bytes = (l->kernel.argument_bytes + 15) / 16 * 16;
    const uint64_t count = (uint64_t)l->blocks.x * l->blocks.y * l->blocks.z;
    const bool backward = soft_below(rng, 2) == 1;
    soft_gpu_now.grid_dim = l->blocks;
    soft_gpu_now.block_dim = l->threads;
    soft_gpu_now.memory = soft_seen_range(&soft_gpu_now.memory_bytes);
    soft_gpu_now.loaded = soft_gpu_now.stored = 0;
    take_shared(l);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t n = backward ? count - 1 - i : i;
        soft_gpu_now.block =
            (uint3){(unsigned)(n % l->blocks.x), (unsigned)(n / l->blocks.x % l->blocks.y),
                    (unsigned)(n / l->blocks.x / l->blocks.y)};
        run_block(l, arguments, bytes, rng);
    }
    soft_count_launch(l->kernel.name, soft_gpu_now.loaded, soft_gpu_now.stored);
}
