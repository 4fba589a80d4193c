// SPDX-License-Identifier: Apache-2.0
// A module for tests (kernels/device/module.h): a device that only runs what is launched on its
// stream, with memory that the host cannot touch, and kernels of its own kind.
//
// Its memory and streams are those of "cpu-async", and its kernels run those of the CPU's
// reference, block by block, inside a launch; so they have the reference's bits. It says of itself
// what a GPU would: number, memory, identity. Macros make others of it, which are broken in one way
// each:
//   MODULE_NAME       of the module and of its device
//   MODULE_ABI, MODULE_VERSION, DEVICE_ABI, KERNEL_ABI  of another build
//   MODULE_UNUSABLE   there is no device
//   MODULE_NULL       it returns no module
#include <stdio.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "kernels/device/cpu_internal.h"
#include "kernels/device/cpu_stream.h"
#include "kernels/device/module.h"
#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

#ifndef MODULE_ABI
#define MODULE_ABI SR_MODULE_ABI
#endif
#ifndef MODULE_VERSION
#define MODULE_VERSION SR_VERSION
#endif
#ifndef DEVICE_ABI
#define DEVICE_ABI SR_DEVICE_ABI
#endif
#ifndef KERNEL_ABI
#define KERNEL_ABI SR_KERNEL_ABI
#endif

enum { DEVICES = 3, MEMORY = 256 << 20 };

extern const sr_provider sr_provider_reference;

// ---- Kernels ----

typedef struct stand_in {
    sr_kernel_request request; // of the CPU's kernel
    sr_prepared prepared;
    int64_t pause_ns;
} stand_in;

static sr_status run(const stand_in *s, const sr_kernel_launch *l) {
    sr_device *device = sr_stream_device(l->stream);
    void *p[SR_KERNEL_MAX_ARGS] = {NULL}, *workspace = NULL;
    for (int i = 0; i < s->request.args; i++)
        if (!sr_address_is_none(l->p[i]))
            SR_TRY(sr_cpu_pointer(device, l->p[i], &p[i]));
    if (!sr_address_is_none(l->workspace))
        SR_TRY(sr_cpu_pointer(device, l->workspace, &workspace));
    void *scratch = sr_alloc(s->prepared.scratch + 1, "scratch");
    if (!scratch)
        return SR_E_MEMORY;
    sr_clock_sleep_ns(s->pause_ns);
    const sr_status status = sr_prepared_run(&s->prepared, &s->request, p, workspace, scratch);
    sr_free(scratch);
    return status;
}

static sr_status launch(const sr_kernel_launch *l) {
    return run(l->state, l);
}

static void free_state(void *state) {
    stand_in *s = state;
    sr_prepared_release(&s->prepared);
    sr_free(s);
}

static sr_status prepare(const sr_kernel_request *request, sr_prepared *out) {
    stand_in *s = sr_alloc(sizeof *s, "a kernel");
    if (!s)
        return SR_E_MEMORY;
    memcpy(&s->request, request, sizeof *request);
    s->request.device = SR_DEVICE_CPU;
    const sr_kernel_entry *entry = sr_kernel_find_in(&s->request, SR_KERNEL_REFERENCE);
    const sr_status status = entry ? sr_kernel_prepare_as(&s->request, entry, 0, &s->prepared)
                                   : SR_FAIL(SR_E_UNSUPPORTED, "no such kernel");
    if (status != SR_OK) {
        sr_free(s);
        return status;
    }
    out->launch = launch;
    out->workspace = s->prepared.workspace;
    out->state = s;
    out->state_free = free_state;
    return SR_OK;
}

// A kernel with a choice: the default pauses longer than its variant.
static bool is_small(const sr_kernel_request *request) {
    const sr_linear_params *p = (const void *)request->params;
    return sr_kernel_fits(request) && p->n == 8 && p->c == 16 && p->k == 4;
}

static sr_status prepare_choice(const sr_kernel_request *request, sr_prepared *out) {
    const int variant = out->variant;
    SR_TRY(prepare(request, out));
    ((stand_in *)out->state)->pause_ns = (variant == 1 ? 1 : 4) * SR_NS_PER_MS;
    return SR_OK;
}

static const char *const choices[] = {"quick", NULL};
static const sr_kernel_entry choice = {.struct_size = sizeof choice,
                                       .abi = SR_KERNEL_ABI,
                                       .kernel = SR_KERNEL_linear_dw,
                                       .name = "linear_dw/choice",
                                       .provider = "choice",
                                       .numerics_class = "choice",
                                       .supports = is_small,
                                       .prepare = prepare_choice,
                                       .variants = choices};
static const sr_provider choice_provider = {.struct_size = sizeof choice_provider,
                                            .abi = SR_KERNEL_ABI,
                                            .name = "choice",
                                            .device = MODULE_NAME,
                                            .entries = &choice,
                                            .count = 1,
                                            .numerics = 2};

// ---- The device ----

typedef struct job {
    sr_stream *stream;
    const sr_kernel_call call;
    sr_address p[SR_KERNEL_MAX_ARGS];
} job;

static sr_status run_job(void *user) {
    job *j = user;
    const sr_kernel_launch l = {.p = j->p,
                                .params = j->call.request->params,
                                .state = j->call.prepared->state,
                                .workspace = j->call.workspace,
                                .stream = j->stream};
    const sr_status status = j->call.prepared->launch(&l);
    sr_free(j);
    return status;
}

static sr_status stream_launch(sr_stream *stream, const sr_kernel_call *call) {
    job *j = sr_alloc(sizeof *j, "a launch");
    if (!j)
        return SR_E_MEMORY;
    const job filled = {.stream = stream, .call = *call};
    memcpy(j, &filled, sizeof filled);
    memcpy(j->p, call->p, (size_t)call->request->args * sizeof *call->p);
    return sr_cpu_stream_call(stream, run_job, j);
}

static sr_status count(int *out) {
#ifdef MODULE_UNUSABLE
    (void)out;
    return SR_FAIL(SR_E_DEVICE, "no driver is loaded; install one");
#else
    *out = DEVICES;
    return SR_OK;
#endif
}

static sr_status describe(int ordinal, sr_device_properties *out) {
    char owner[SR_DEVICE_TEXT];
    memcpy(owner, out->memory_owner, sizeof owner);
    SR_TRY(sr_cpu_describe(out, false));
    memcpy(out->memory_owner, owner, sizeof owner);
    (void)snprintf(out->model, sizeof out->model, "stand-in %d", ordinal);
    out->memory = MEMORY;
    out->executors = 1;
    return SR_OK;
}

static char *numerics(int ordinal, uint32_t features, char out[SR_DEVICE_TEXT]) {
    (void)ordinal;
    (void)features;
    (void)snprintf(out, SR_DEVICE_TEXT, "stand-in 7");
    return out;
}

static char *identity(int ordinal, char out[SR_DEVICE_IDENTITY]) {
    (void)ordinal;
    (void)snprintf(out, SR_DEVICE_IDENTITY, "stand-in");
    return out;
}

// ---- The module ----

const sr_module_head *sr_module_entry(void) {
    static sr_device_ops ops;
    static sr_kernel_entry entries[SR_KERNEL_COUNT];
    static sr_provider reference; // the name of the CPU's: the same bits
    static const sr_device_ops *const devices[] = {&ops, NULL};
    static const sr_provider *const providers[] = {&reference, &choice_provider, NULL};
    static const sr_module module = {.head = {.struct_size = sizeof module,
                                              .abi = MODULE_ABI,
                                              .name = MODULE_NAME,
                                              .version = MODULE_VERSION},
                                     .devices = devices,
                                     .providers = providers};
    ops = sr_device_cpu_async;
    ops.abi = DEVICE_ABI;
    ops.name = MODULE_NAME;
    ops.help = "a device of tests";
    ops.kernels = MODULE_NAME;
    ops.count = count;
    ops.describe = describe;
    ops.features = NULL;
    ops.restrict_features = NULL;
    ops.numerics = numerics;
    ops.identity = identity;
    ops.stream_launch = stream_launch;
    reference = sr_provider_reference;
    reference.device = MODULE_NAME;
    reference.entries = entries;
    for (size_t i = 0; i < reference.count && i < SR_KERNEL_COUNT; i++) {
        entries[i] = sr_provider_reference.entries[i];
        entries[i].abi = KERNEL_ABI;
        entries[i].prepare = prepare;
    }
#ifdef MODULE_NULL
    return NULL;
#else
    return &module.head;
#endif
}
