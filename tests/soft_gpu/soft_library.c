// SPDX-License-Identifier: Apache-2.0
// What stand-ins of other libraries ask of the software GPU.
#include <stdarg.h>
#include <stdio.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

void soft_gpu_mistake(const char *format, ...) {
    char text[768];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    soft_mistake("%s", text);
}

void soft_gpu_count_event(const char *kind) {
    (void)soft_count(kind);
}

uint64_t soft_gpu_seed(void) {
    (void)soft_enter();
    return soft_seed();
}

int soft_gpu_stream_device(struct CUstream_st *stream) {
    if (!stream)
        return -1;
    soft_lock();
    const int device = soft_stream(stream)->device;
    soft_unlock();
    return device;
}

size_t soft_gpu_bytes_at(const void *address, int device) {
    uint64_t left;
    soft_lock();
    const soft_place place = soft_find((uint64_t)(uintptr_t)address, device, &left);
    soft_unlock();
    return place == SOFT_MAPPED ? left : 0;
}

int soft_gpu_allocates(const char *call) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        soft_lock();
        error = soft_capture_forbids_unsafe(call);
        soft_unlock();
    }
    return (int)error;
}
