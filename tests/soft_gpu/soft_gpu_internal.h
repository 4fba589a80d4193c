// SPDX-License-Identifier: Apache-2.0
// The parts of the software GPU (README.md), and what they use of each other. One lock guards all
// of them: devices, memory, streams, events and graphs.
#ifndef SR_TESTS_SOFT_GPU_INTERNAL_H
#define SR_TESTS_SOFT_GPU_INTERNAL_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda_plan.h"
#include "tests/soft_gpu/soft_gpu.h"

enum { SOFT_DEVICES = 2 };
#define SOFT_ARGUMENT_MAX 4096u // bytes of a kernel's struct

// ---- Errors (soft_errors.c) ----

// Every call begins with soft_enter, which returns the error that every call now returns, and ends
// with soft_leave, which remembers an error for cudaGetLastError.
cudaError_t soft_enter(void);
cudaError_t soft_leave(cudaError_t error);
// A call that CUDA refuses: writes why on stderr, and returns 'error'.
__attribute__((format(printf, 2, 3))) cudaError_t soft_refuse(cudaError_t error, const char *format,
                                                              ...);
// A mistake that CUDA does not find for certain: ends the process with a message that names what
// runs on this thread.
__attribute__((format(printf, 1, 2))) _Noreturn void soft_mistake(const char *format, ...);
// From now on every call returns this.
void soft_set_sticky(cudaError_t error);
cudaError_t soft_sticky(void);
// Whether this is the event of SOFT_GPU_FAULT, counted by kind: "memory", "launch", "refuse",
// "lost", "copy".
bool soft_fault(const char *kind);
// Counts an event (soft_counts.c); returns its number among those of its kind. 'kind': static
// storage.
unsigned long soft_count(const char *kind);
// Counts a launch that is done, with what it loaded and stored. 'kernel': static storage.
void soft_count_launch(const char *kernel, uint64_t loaded, uint64_t stored);
uint64_t soft_seed(void);

// Of functions that change what the threads of a block share on the host: they take turns, of which
// ThreadSanitizer is not told.
#define SOFT_TAKES_TURNS __attribute__((no_sanitize("thread")))

typedef struct soft_rng {
    uint64_t state;
} soft_rng;
uint32_t soft_below(soft_rng *rng, uint32_t bound);

extern pthread_mutex_t soft_mutex;
extern pthread_cond_t soft_progress; // a command is done, or an error is set
void soft_lock(void);
void soft_unlock(void);

// ---- Devices (soft_device.c) ----

int soft_current_device(void);
size_t soft_device_memory(void);
// That other processes have.
size_t soft_others_memory(void);
// What memory comes in multiples of.
uint64_t soft_page(void);

// ---- Memory (soft_memory.c) ----

// What an address is. Callers of the following hold the lock.
typedef enum soft_place {
    SOFT_MAPPED,    // memory that the device may access, or its end
    SOFT_FOREIGN,   // memory that the device has no access to
    SOFT_UNMAPPED,  // reserved, without memory
    SOFT_FREED,     // was reserved, or never
    SOFT_NOT_DEVICE // no address of a device
} soft_place;
soft_place soft_find(uint64_t address, int device, uint64_t *left); // left: bytes to its end
// What kernels see of an address of a device.
void *soft_seen(uint64_t address);
// All that kernels can see.
void *soft_seen_range(size_t *bytes);
// Writes what is at and near an address, which kernels see or callers hold; false if it is no
// address of a device. Takes no lock: for signal handlers, too.
bool soft_describe(uint64_t address, char *out, size_t bytes, bool *seen);
size_t soft_memory_left(int device);
// An entry point of the driver; NULL if there is no such one.
void *soft_driver_call(const char *name);

// Memory of the host: 1 if all of these bytes are registered, 0 if none of them, -1 if some.
int soft_host_registered(const void *p, size_t bytes);
bool soft_host_mapped(uint64_t address);

// ---- Kernels (soft_kernels.c) ----

typedef struct soft_kernel {
    sr_cuda_kernel entry;
    int shared_max; // bytes of dynamic shared memory that it may have
} soft_kernel;

// ---- Commands (soft_command.c) ----

typedef enum soft_kind {
    SOFT_LAUNCH,
    SOFT_COPY,
    SOFT_SET,
    SOFT_RECORD,
    SOFT_WAIT,
    SOFT_GRAPH
} soft_kind;

typedef struct soft_launch {
    sr_cuda_kernel kernel;
    uint3 blocks, threads;
    size_t shared;
    bool overlaps; // it may begin before the kernel in front has ended
    _Alignas(16) unsigned char arguments[];
} soft_launch;

typedef struct soft_command {
    struct soft_command *next;
    soft_kind kind;
    struct CUevent_st *event; // of a record and a wait
    uint64_t number;          // of the event's record
    uint64_t to, from;        // of a copy; addresses of devices and pointers
    void *staged;             // freed after the copy
    size_t bytes;
    int value;         // of a set
    cudaError_t fault; // SOFT_GPU_FAULT: it fails with this
    soft_launch *launch;
    struct CUgraphExec_st *graph;
} soft_command;

soft_command *soft_command_new(soft_kind kind);
soft_command *soft_command_copy(const soft_command *from);
void soft_command_free(soft_command *command);
// Ends the process unless the pointers of a launch are of memory that the device may access.
void soft_check_arguments(const soft_command *command, int device);
// Runs a launch, copy or set for a device, without the lock.
cudaError_t soft_command_run(const soft_command *command, int device, soft_rng *rng);

// What runs on this thread, for messages; NULL: nothing.
extern __thread const soft_command *soft_running;

// Runs all blocks of a launch (soft_block.c). 'arguments' are as kernels see them.
void soft_run_blocks(const soft_launch *launch, const void *arguments, soft_rng *rng);
// Gives back what this thread keeps for blocks.
void soft_release_block(void);
// Whether threads of a block run on this thread, so that soft_gpu_now says which.
bool soft_in_thread(void);
// Whether an address is just behind the shared memory of the block on this thread.
bool soft_is_behind_shared(uint64_t address, uint64_t *offset);

// Where a thread of a block is: its number, how many barriers its block has passed, and how many
// __syncwarp its warp.
typedef struct soft_position {
    uint32_t thread, block_phase, warp_phase;
} soft_position;
soft_position soft_get_position(void);

// ---- Copies that a thread does not wait for at once, by cp.async (soft_mma.c) ----

typedef struct soft_copy {
    void *to;
    const void *from;
    uint32_t bytes, from_bytes, group;
    bool reports;
} soft_copy;

// Those of a thread that are not made yet.
typedef struct soft_copies {
    soft_copy copy[64];
    uint32_t count, group;
    uint32_t begun, waited; // groups before them have copies, have been waited for
} soft_copies;

void soft_copies_begin(soft_copies *copies);
// Ends the process if a copy was not waited for.
void soft_copies_end(const soft_copies *copies);
// Those of the calling thread, and what draws its order (soft_block.c).
soft_copies *soft_own_copies(const char *operation, soft_rng **rng);
// Whether 'bytes' bytes from here are of the shared memory of the block.
bool soft_is_shared(const void *address, size_t bytes);

// ---- Races in shared memory (soft_races.c) ----

// A new block begins on this thread; forgets what this thread keeps.
void soft_races_begin(void);
void soft_races_release(void);

// ---- Switching (soft_switch.c) ----

// Calls a function whose struct of 'bytes' bytes, a multiple of 16, is passed by value.
void soft_switch_call(const void *function, const void *arguments, size_t bytes);
// Stores the stack pointer of the caller, and continues where 'to' was stored.
void soft_switch_stack(void **from, void *to);
// The stack pointer by which soft_switch_stack starts 'entry' on a new stack.
void *soft_switch_start(void *stack, size_t bytes, void (*entry)(void));

// ---- Streams and events (soft_stream.c) ----

struct CUstream_st {
    uint64_t magic;
    int device, number;
    bool live, computes; // computes: it has had kernels
    soft_command *first, *last;
    uint64_t put, done;
    uint64_t wanted, asked; // commands that somebody waits for; that somebody asks for
    pthread_cond_t work;
    soft_rng rng;
    // Of a capture: the graph, and the nodes that the next one depends on.
    struct CUgraph_st *capture;
    uint64_t *after; // bits of nodes
    struct CUstream_st *next;
};

struct CUevent_st {
    uint64_t magic;
    int device;
    bool live, timed;
    uint64_t recorded, reached; // numbers of records
    int64_t at_ns;              // of the last record that was reached
    struct CUstream_st *stream; // of the last record
    uint64_t end;               // its commands up to there
    struct CUgraph_st *capture; // if it was recorded in a capture
    uint64_t *after;
    struct CUevent_st *next;
};

// The following with the lock held.
// NULL with a message, unless the stream is alive.
struct CUstream_st *soft_stream(cudaStream_t stream);
struct CUevent_st *soft_event(cudaEvent_t event);
void soft_stream_put(struct CUstream_st *stream, soft_command *command);
// Waits until this many commands are done, or an error is set.
void soft_stream_wait(struct CUstream_st *stream, uint64_t end);
void soft_streams_wait_all(void);
// Those that may still run commands.
struct CUstream_st *soft_streams(void);
int64_t soft_now_ns(void);

// ---- Capture (soft_capture.c) ----

// What a call may not do now because of a capture; cudaSuccess if it may. It ends captures as
// invalid.
cudaError_t soft_capture_forbids_unsafe(const char *call);
cudaError_t soft_capture_forbids_stream(struct CUstream_st *stream, const char *call);
// Adds a command to the stream's capture, which becomes its owner.
cudaError_t soft_capture_add(struct CUstream_st *stream, soft_command *command);
cudaError_t soft_capture_record(struct CUstream_st *stream, struct CUevent_st *event);
// A wait for an event in or of a capture.
cudaError_t soft_capture_wait(struct CUstream_st *stream, struct CUevent_st *event);
bool soft_capture_has_event(const struct CUevent_st *event);
cudaError_t soft_graph_run(struct CUgraphExec_st *graph, int device, soft_rng *rng);
void soft_graph_release(struct CUgraphExec_st *graph);

// ---- Faults of memory accesses (soft_signals.c) ----

void soft_signals_install(void);
// Gives this thread a stack on which faults are handled, and takes it away.
void soft_signals_thread(void);
void soft_signals_thread_end(void);

#endif
