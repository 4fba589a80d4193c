// SPDX-License-Identifier: Apache-2.0
// The stand-in for cuBLASLt 13 (README.md): what its handles and descriptors hold.
//
// Those that are destroyed stay known, so that their use is found. One lock guards all of them.
#ifndef SR_TESTS_SOFT_CUBLASLT_H
#define SR_TESTS_SOFT_CUBLASLT_H

#include <cublasLt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SOFT_CUBLASLT_WORKSPACE = 256 }; // alignment in bytes

typedef struct soft_operation {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    int32_t transpose_a, transpose_b; // cublasOperation_t
    uint32_t epilogue;
    int32_t bias_type; // cudaDataType_t; -1: that of D
    const void *bias;
} soft_operation;

typedef struct soft_layout {
    uint64_t rows, columns;
    int64_t step, batch_step; // elements to the next column, and matrix
    cudaDataType_t type;
    int32_t batches;
} soft_layout;

typedef struct soft_preference {
    uint64_t workspace;
    uint32_t reduction, alignment[4]; // of A, B, C, D
} soft_preference;

typedef enum soft_object_kind { SOFT_OPERATION, SOFT_LAYOUT, SOFT_PREFERENCE } soft_object_kind;

typedef struct soft_object {
    uint64_t magic;
    soft_object_kind kind;
    bool live;
    struct soft_object *next;
    union {
        soft_operation operation;
        soft_layout layout;
        soft_preference preference;
    } is;
} soft_object;

struct cublasLtContext {
    uint64_t magic;
    int device;
    struct cublasLtContext *next;
};

// ---- Handles and descriptors (soft_cublaslt.c) ----

// Whether the variable SOFT_CUBLASLT has this value (README.md).
bool soft_cublaslt_set_to(const char *value);
// Writes why on stderr, and returns the status.
__attribute__((format(printf, 2, 3))) cublasStatus_t soft_cublaslt_refuse(cublasStatus_t status,
                                                                          const char *format, ...);
// Ends the process unless it is a handle of the current device.
const struct cublasLtContext *soft_cublaslt_handle(cublasLtHandle_t handle);
// Ends the process unless it is a descriptor of this kind, which has not been destroyed.
const soft_object *soft_cublaslt_object(const void *descriptor, soft_object_kind kind);

#endif
