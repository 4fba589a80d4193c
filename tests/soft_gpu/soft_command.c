// SPDX-License-Identifier: Apache-2.0
// Commands of the software GPU's streams: launches, copies and sets. Addresses of devices turn into
// what kernels see here, and nowhere else.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

__thread const soft_command *soft_running;

soft_command *soft_command_new(soft_kind kind) {
    soft_command *c = calloc(1, sizeof *c);
    if (!c)
        soft_mistake("no memory of the host is left");
    c->kind = kind;
    return c;
}

void soft_command_free(soft_command *command) {
    if (command->kind == SOFT_GRAPH)
        soft_graph_release(command->graph);
    free(command->launch);
    free(command->staged);
    free(command);
}

// ---- Pointers ----

// Programs, heaps and mappings lie above it; words below it are numbers, even where a sanitizer has
// mapped its shadow memory.
#define HOST_BEGIN (1ULL << 45)

// A struct begins with its pointers: addresses of the device or NULL. The word behind them may be
// anything else, but no pointer may stand there or further back.
static size_t count_pointers(const uint64_t *words, size_t count) {
    size_t i = 0;
    uint64_t left;
    while (i < count && (words[i] == 0 || soft_find(words[i], 0, &left) != SOFT_NOT_DEVICE))
        i++;
    return i;
}

static void check_pointer(uint64_t word, size_t i, int device) {
    uint64_t left;
    char text[128] = "";
    bool seen;
    const soft_place place = soft_find(word, device, &left);
    if (word == 0 || place == SOFT_MAPPED)
        return;
    (void)soft_describe(word, text, sizeof text, &seen);
    if (place == SOFT_FOREIGN)
        soft_mistake("argument %zu is memory to which device %d has no access: %#llx, %s", i,
                     device, (unsigned long long)word, text);
    soft_mistake("argument %zu is a stale pointer: %#llx, %s", i, (unsigned long long)word, text);
}

void soft_check_arguments(const soft_command *command, int device) {
    const soft_launch *l = command->launch;
    const size_t count = l->kernel.argument_bytes / 8;
    uint64_t words[SOFT_ARGUMENT_MAX / 8], left;
    memcpy(words, l->arguments, count * 8);
    const size_t pointers = count_pointers(words, count);
    soft_running = command;
    for (size_t i = 0; i < pointers; i++)
        check_pointer(words[i], i, device);
    if (pointers < count && words[pointers] >= HOST_BEGIN && soft_host_mapped(words[pointers]))
        soft_mistake("argument %zu is a pointer of the host: %#llx", pointers,
                     (unsigned long long)words[pointers]);
    for (size_t i = pointers; i < count; i++)
        if (soft_find(words[i], device, &left) == SOFT_MAPPED)
            soft_mistake("word %zu of its struct is an address of the device; pointers stand at "
                         "the beginning alone",
                         i);
    soft_running = NULL;
}

// Of an address of a device what kernels see, of a pointer the pointer.
static void *resolve(uint64_t address, size_t bytes, int device) {
    uint64_t left;
    const soft_place place = soft_find(address, device, &left);
    if (place == SOFT_NOT_DEVICE)
        return (void *)(uintptr_t)address;
    if (left < bytes)
        soft_mistake("memory of the device at %#llx was freed before this work ran",
                     (unsigned long long)address);
    return soft_seen(address);
}

// ---- Running ----

static cudaError_t run_launch(const soft_command *c, int device, soft_rng *rng) {
    const soft_launch *l = c->launch;
    const size_t bytes = (l->kernel.argument_bytes + 15) / 16 * 16;
    _Alignas(16) uint64_t words[SOFT_ARGUMENT_MAX / 8];
    memcpy(words, l->arguments, bytes);
    soft_lock();
    soft_check_arguments(c, device);
    const size_t pointers = count_pointers(words, l->kernel.argument_bytes / 8);
    for (size_t i = 0; i < pointers; i++)
        if (words[i] != 0)
            words[i] = (uint64_t)(uintptr_t)soft_seen(words[i]);
    soft_unlock();
    soft_running = c;
    soft_run_blocks(l, words, rng);
    return cudaSuccess;
}

static cudaError_t run_move(const soft_command *c, int device) {
    soft_running = c;
    soft_lock();
    void *to = resolve(c->to, c->bytes, device);
    const void *from = c->kind == SOFT_COPY ? resolve(c->from, c->bytes, device) : NULL;
    soft_unlock();
    if (from)
        memmove(to, from, c->bytes);
    else
        memset(to, c->value, c->bytes);
    return cudaSuccess;
}

cudaError_t soft_command_run(const soft_command *command, int device, soft_rng *rng) {
    if (command->fault != cudaSuccess)
        return command->fault;
    const cudaError_t error = command->kind == SOFT_LAUNCH ? run_launch(command, device, rng)
                              : command->kind == SOFT_GRAPH
                                  ? soft_graph_run(command->graph, device, rng)
                                  : run_move(command, device);
    soft_running = NULL;
    return error;
}

// ---- Calls ----

static bool covers(uint64_t address, size_t bytes, int device) {
    uint64_t left;
    return soft_find(address, device, &left) == SOFT_MAPPED && left >= bytes;
}

// An end of a copy that is said to be of a device, or of the host.
static cudaError_t check_end(const void *p, size_t bytes, bool of_device, int device,
                             const char *end) {
    const uint64_t address = (uint64_t)(uintptr_t)p;
    uint64_t left;
    char text[128] = "an address of the host";
    bool seen;
    if (of_device && !covers(address, bytes, device)) {
        (void)soft_describe(address, text, sizeof text, &seen);
        return soft_refuse(cudaErrorInvalidValue,
                           "cudaMemcpyAsync: its %s, %zu bytes at %p, is not memory that device %d "
                           "may access: %s",
                           end, bytes, (void *)(uintptr_t)p, device, text);
    }
    if (!of_device && (!p || soft_find(address, device, &left) != SOFT_NOT_DEVICE))
        return soft_refuse(cudaErrorInvalidValue,
                           "cudaMemcpyAsync: its %s, %p, is no memory of the host", end,
                           (void *)(uintptr_t)p);
    return cudaSuccess;
}

typedef struct copy {
    void *to;
    const void *from;
    size_t bytes;
    enum cudaMemcpyKind kind;
    const void *host; // its end on the host
    bool pageable;
} copy;

static cudaError_t check_copy(copy *c, struct CUstream_st *s) {
    if (c->kind != cudaMemcpyHostToDevice && c->kind != cudaMemcpyDeviceToHost &&
        c->kind != cudaMemcpyDeviceToDevice)
        return soft_refuse(cudaErrorInvalidMemcpyDirection, "cudaMemcpyAsync: direction %d",
                           (int)c->kind);
    cudaError_t error =
        check_end(c->to, c->bytes, c->kind != cudaMemcpyDeviceToHost, s->device, "target");
    if (error == cudaSuccess)
        error =
            check_end(c->from, c->bytes, c->kind != cudaMemcpyHostToDevice, s->device, "source");
    if (error != cudaSuccess || c->kind == cudaMemcpyDeviceToDevice)
        return error;
    c->host = c->kind == cudaMemcpyHostToDevice ? c->from : c->to;
    const int registered = soft_host_registered(c->host, c->bytes);
    c->pageable = registered == 0;
    if (registered < 0)
        return soft_refuse(cudaErrorInvalidValue,
                           "cudaMemcpyAsync: only a part of its %zu bytes of the host is "
                           "registered",
                           c->bytes);
    if (s->capture && c->pageable)
        return soft_capture_forbids_stream(s, "cudaMemcpyAsync of pageable memory");
    return cudaSuccess;
}

// ---- The report of copies ----

// Copies between the host and devices: all; from or to memory that is not registered, but for a few
// numbers, which commands carry; on streams that have had kernels, which they do not overlap.
enum { SMALL = 64 };
typedef struct copy_counts {
    unsigned long long all, pageable, beside_kernels;
} copy_counts;
static copy_counts uploads, downloads;

static void count_copy(const copy *c, const struct CUstream_st *s) {
    copy_counts *counts = c->kind == cudaMemcpyHostToDevice ? &uploads : &downloads;
    if (c->kind == cudaMemcpyDeviceToDevice)
        return;
    counts->all++;
    counts->pageable += c->pageable && c->bytes > SMALL;
    counts->beside_kernels += s->computes;
}

__attribute__((destructor)) static void report_copies(void) {
    const char *wanted = getenv("SOFT_GPU_REPORT");
    if (!wanted || !*wanted)
        return;
    (void)fprintf(stderr,
                  "software GPU: %llu uploads, %llu of pageable memory, %llu on streams of "
                  "kernels; %llu downloads, %llu to pageable memory, %llu on streams of kernels\n",
                  uploads.all, uploads.pageable, uploads.beside_kernels, downloads.all,
                  downloads.pageable, downloads.beside_kernels);
}

static cudaError_t put_copy(copy *c, cudaStream_t stream) {
    struct CUstream_st *s = soft_stream(stream);
    if (!s)
        return cudaErrorInvalidResourceHandle;
    const cudaError_t error = c->bytes > 0 ? check_copy(c, s) : cudaSuccess;
    if (error != cudaSuccess || c->bytes == 0)
        return error;
    count_copy(c, s);
    soft_command *command = soft_command_new(SOFT_COPY);
    command->to = (uint64_t)(uintptr_t)c->to;
    command->from = (uint64_t)(uintptr_t)c->from;
    command->bytes = c->bytes;
    if (s->capture)
        return soft_capture_add(s, command);
    command->fault = soft_fault("copy") ? cudaErrorECCUncorrectable : cudaSuccess;
    if (c->pageable && c->kind == cudaMemcpyHostToDevice) {
        command->staged = malloc(c->bytes);
        if (!command->staged)
            soft_mistake("no memory of the host is left");
        memcpy(command->staged, c->from, c->bytes);
        command->from = (uint64_t)(uintptr_t)command->staged;
    }
    soft_stream_put(s, command);
    if (c->pageable && c->kind == cudaMemcpyDeviceToHost)
        soft_stream_wait(s, s->put);
    return soft_sticky();
}

SOFT_GPU_EXPORT cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count,
                                            enum cudaMemcpyKind kind, cudaStream_t stream) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        copy c = {.to = dst, .from = src, .bytes = count, .kind = kind};
        soft_lock();
        error = put_copy(&c, stream);
        soft_unlock();
    }
    return soft_leave(error);
}

static cudaError_t put_set(void *to, int value, size_t bytes, cudaStream_t stream) {
    struct CUstream_st *s = soft_stream(stream);
    if (!s)
        return cudaErrorInvalidResourceHandle;
    if (bytes == 0)
        return cudaSuccess;
    if (!covers((uint64_t)(uintptr_t)to, bytes, s->device))
        return soft_refuse(cudaErrorInvalidValue,
                           "cudaMemsetAsync: %zu bytes at %p are not memory that device %d may "
                           "access",
                           bytes, to, s->device);
    soft_command *command = soft_command_new(SOFT_SET);
    command->to = (uint64_t)(uintptr_t)to;
    command->value = value;
    command->bytes = bytes;
    if (s->capture)
        return soft_capture_add(s, command);
    soft_stream_put(s, command);
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count,
                                            cudaStream_t stream) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        soft_lock();
        error = put_set(devPtr, value, count, stream);
        soft_unlock();
    }
    return soft_leave(error);
}
