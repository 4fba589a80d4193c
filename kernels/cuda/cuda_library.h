// SPDX-License-Identifier: Apache-2.0
// Libraries of NVIDIA that are opened at run time: serried runs without them, and finds those that
// Python packages bring, too.
#ifndef SR_KERNELS_CUDA_LIBRARY_H
#define SR_KERNELS_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_cuda_library {
    const char *name, *file; // "cuDNN", "libcudnn.so.9"
    const char *product;     // what to install, as "cuDNN 9 for CUDA 13"
    size_t major;            // of the versions that can be used
    char version[32];        // "not found" until one is accepted, then as "cuDNN 9.19.0"
    char missing[256];       // why it cannot be used, and the cure
} sr_cuda_library;

// Opens the library that the loader finds, else that of a package in the virtual environment
// ($VIRTUAL_ENV), and stores the addresses of 'count' functions in 'functions', an array of
// function pointers, in the order of their names. False, with 'missing' filled in, if there is no
// library or it lacks one of them.
bool sr_cuda_library_open(sr_cuda_library *library, const char *const *names, size_t count,
                          void *functions);
// Whether a version, MAJOR * 10000 + MINOR * 100 + PATCH, can be used; fills in 'version' or
// 'missing'.
bool sr_cuda_library_accept(sr_cuda_library *library, size_t version);

#ifdef __cplusplus
}
#endif
#endif
