// SPDX-License-Identifier: Apache-2.0
// Shared by the files of provider "onednn": primitives that any number of threads can run at the
// same time, and dtype conversions that use kernels of the table.
#ifndef SR_KERNELS_CPU_ONEDNN_INTERNAL_H
#define SR_KERNELS_CPU_ONEDNN_INTERNAL_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

#define SR_ONEDNN_NUMERICS 5 // sr_provider.numerics
#define SR_ONEDNN_ARGS 4
// Number of blocks of a batch that has at least as many images: enough for eight threads, few
// enough that the weights are rarely reread.
#define SR_ONEDNN_BLOCKS 8

sr_status sr_onednn_fail(const char *file, int line, dnnl_status_t status, const char *what);
#define SR_ONEDNN_TRY(call)                                                                        \
    do {                                                                                           \
        const dnnl_status_t dnnl_status_ = (call);                                                 \
        if (dnnl_status_ != dnnl_success)                                                          \
            return sr_onednn_fail(__FILE__, __LINE__, dnnl_status_, #call);                        \
    } while (0)

// Bytes per core of the first three levels of data caches, determined as oneDNN does; false if
// oneDNN does not determine them.
#define SR_ONEDNN_CACHES 3
bool sr_onednn_caches(uint32_t bytes[SR_ONEDNN_CACHES]);
// The same with a given function that reads a leaf of CPUID: eax, ebx, ecx, edx into out.
typedef void (*sr_onednn_cpuid)(uint32_t leaf, uint32_t subleaf, uint32_t out[4]);
bool sr_onednn_read_caches(sr_onednn_cpuid read, uint32_t bytes[SR_ONEDNN_CACHES]);

// The CPU engine, created at first use and never freed.
sr_status sr_onednn_engine(dnnl_engine_t *out);
// Limits oneDNN to the calling thread; returns the previous limit.
int sr_onednn_single_thread(void);
void sr_onednn_restore_threads(int threads);

// Whether bf16 products run on AMX tiles. Otherwise bf16 is only a storage format and arithmetic is
// f32: VDPBF16PS has half the rate of f32 multiply-adds on Intel's processors, and where it has the
// full rate (SR_CPU_BF16_DOT), kernels of provider x86 use it.
bool sr_onednn_native_bf16(void);
// Whether convolutions of this T compute in f32 on widened copies: T is f16, which oneDNN 2.6 does
// not have on CPUs, or bf16 without AMX.
bool sr_onednn_widens(sr_dtype type);

// A primitive and its calls. A call has what one execution needs: a stream, and memory objects
// whose handles one thread sets. Immutable after init except for the list of idle calls, which has
// a lock.
typedef struct sr_onednn_call {
    dnnl_stream_t stream;
    dnnl_memory_t memory[SR_ONEDNN_ARGS + 1]; // the last one is the scratchpad
    struct sr_onednn_call *next;
} sr_onednn_call;

typedef struct sr_onednn_primitive {
    dnnl_primitive_t primitive; // NULL: none
    int args;
    int id[SR_ONEDNN_ARGS]; // DNNL_ARG_...
    dnnl_memory_desc_t desc[SR_ONEDNN_ARGS + 1];
    size_t scratchpad; // bytes
    struct sr_onednn_idle *idle;
} sr_onednn_primitive;

// Owns 'desc' and destroys it, also on failure. Its attributes must ask for a user scratchpad
// (sr_onednn_attr). ids: DNNL_ARG_... of the arguments of a run.
sr_status sr_onednn_primitive_init(sr_onednn_primitive *p, dnnl_primitive_desc_t desc,
                                   const int *ids, int args);
// Executes on the calling thread. data: one pointer per id; scratchpad: p->scratchpad bytes.
sr_status sr_onednn_run(const sr_onednn_primitive *p, void *const *data, void *scratchpad);
void sr_onednn_primitive_release(sr_onednn_primitive *p);
// Attributes with scratchpad_mode_user.
sr_status sr_onednn_attr(dnnl_primitive_attr_t *out);
// A copy between two layouts.
sr_status sr_onednn_reorder_init(sr_onednn_primitive *p, const dnnl_memory_desc_t *from,
                                 const dnnl_memory_desc_t *to);

// 'count' contiguous elements from one dtype to another with the table's cast kernel.
typedef struct sr_onednn_cast {
    sr_kernel_request request;
    sr_prepared prepared;
} sr_onednn_cast;
sr_status sr_onednn_cast_init(sr_onednn_cast *cast, sr_dtype from, sr_dtype to, int64_t count);
sr_status sr_onednn_cast_run(const sr_onednn_cast *cast, const void *from, void *to);
void sr_onednn_cast_release(sr_onednn_cast *cast);

// Rounds up to 64 bytes.
static inline size_t sr_onednn_align(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

sr_status sr_onednn_prepare_conv2d(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_onednn_prepare_conv2d_dx(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_onednn_prepare_conv2d_dw(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_onednn_prepare_linear(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_onednn_prepare_linear_dx(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_onednn_prepare_linear_dw(const sr_kernel_request *request, sr_prepared *out);
sr_status sr_onednn_prepare_matmul(const sr_kernel_request *request, sr_prepared *out);

#endif
