// SPDX-License-Identifier: Apache-2.0
// oneDNN primitives that several threads run at once, and conversions between dtypes.
//
// Primitives use scratchpads of the caller (the library's own belong to the thread that made the
// primitive). Memory objects and streams are kept in a list per primitive, so that a repeated run
// allocates nothing.
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "kernels/cpu/onednn/onednn_internal.h"

typedef struct sr_onednn_idle {
    pthread_mutex_t lock;
    sr_onednn_call *first;
} sr_onednn_idle;

static void call_free(sr_onednn_call *call, int args) {
    for (int i = 0; i <= args; i++)
        if (call->memory[i] != NULL)
            (void)dnnl_memory_destroy(call->memory[i]);
    if (call->stream != NULL)
        (void)dnnl_stream_destroy(call->stream);
    sr_free(call);
}

static sr_status call_fill(const sr_onednn_primitive *p, sr_onednn_call *call) {
    dnnl_engine_t cpu = NULL;
    SR_TRY(sr_onednn_engine(&cpu));
    SR_ONEDNN_TRY(dnnl_stream_create(&call->stream, cpu, dnnl_stream_default_flags));
    for (int i = 0; i <= p->args; i++)
        SR_ONEDNN_TRY(dnnl_memory_create(&call->memory[i], &p->desc[i], cpu, DNNL_MEMORY_NONE));
    return SR_OK;
}

static sr_status call_create(const sr_onednn_primitive *p, sr_onednn_call **out) {
    sr_onednn_call *call = sr_alloc(sizeof *call, "a call of a oneDNN primitive");
    if (call == NULL)
        return SR_E_MEMORY;
    const sr_status status = call_fill(p, call);
    if (status != SR_OK) {
        call_free(call, p->args);
        return status;
    }
    *out = call;
    return SR_OK;
}

static sr_status call_take(const sr_onednn_primitive *p, sr_onednn_call **out) {
    (void)pthread_mutex_lock(&p->idle->lock);
    sr_onednn_call *call = p->idle->first;
    if (call != NULL)
        p->idle->first = call->next;
    (void)pthread_mutex_unlock(&p->idle->lock);
    *out = call;
    return call != NULL ? SR_OK : call_create(p, out);
}

static void call_give_back(const sr_onednn_primitive *p, sr_onednn_call *call) {
    (void)pthread_mutex_lock(&p->idle->lock);
    call->next = p->idle->first;
    p->idle->first = call;
    (void)pthread_mutex_unlock(&p->idle->lock);
}

sr_status sr_onednn_attr(dnnl_primitive_attr_t *out) {
    SR_ONEDNN_TRY(dnnl_primitive_attr_create(out));
    const dnnl_status_t status =
        dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (status != dnnl_success)
        (void)dnnl_primitive_attr_destroy(*out);
    SR_ONEDNN_TRY(status);
    return SR_OK;
}

static sr_status primitive_fill(sr_onednn_primitive *p, dnnl_primitive_desc_t desc,
                                const int *ids) {
    const int args = p->args; // the library's calls cannot change it
    for (int i = 0; i < args; i++) {
        p->id[i] = ids[i]; // NOLINT(clang-analyzer-core.uninitialized.Assign): it has args entries
        p->desc[i] = *dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, ids[i]);
    }
    p->desc[args] = *dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    p->scratchpad = dnnl_memory_desc_get_size(&p->desc[args]);
    SR_ONEDNN_TRY(dnnl_primitive_create(&p->primitive, desc));
    return SR_OK;
}

static int threads_at_once(void) {
    static atomic_int processors; // asked once: it reads files
    int count = atomic_load_explicit(&processors, memory_order_relaxed);
    if (count == 0) {
        count = sr_cpu_count();
        atomic_store_explicit(&processors, count, memory_order_relaxed);
    }
    return count;
}

sr_status sr_onednn_primitive_init(sr_onednn_primitive *p, dnnl_primitive_desc_t desc,
                                   const int *ids, int args) {
    assert(args <= SR_ONEDNN_ARGS);
    *p = (sr_onednn_primitive){.args = args};
    sr_status status = primitive_fill(p, desc, ids);
    (void)dnnl_primitive_desc_destroy(desc);
    if (status != SR_OK)
        return status;
    p->idle = sr_alloc(sizeof *p->idle, "the calls of a oneDNN primitive");
    if (p->idle == NULL)
        return SR_E_MEMORY;
    (void)pthread_mutex_init(&p->idle->lock, NULL);
    // One call for each thread that may run it at the same time, so that no step allocates memory,
    // whatever the timing; more are created if teams are larger than the machine.
    for (int i = threads_at_once(); i > 0 && status == SR_OK; i--) {
        sr_onednn_call *call = NULL;
        status = call_create(p, &call);
        if (status == SR_OK)
            call_give_back(p, call);
    }
    return status;
}

sr_status sr_onednn_run(const sr_onednn_primitive *p, void *const *data, void *scratchpad) {
    sr_onednn_call *call;
    SR_TRY(call_take(p, &call));
    dnnl_exec_arg_t args[SR_ONEDNN_ARGS + 1];
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i <= p->args && status == dnnl_success; i++) {
        void *handle = i < p->args ? data[i] : scratchpad;
        args[i] = (dnnl_exec_arg_t){i < p->args ? p->id[i] : DNNL_ARG_SCRATCHPAD, call->memory[i]};
        status = dnnl_memory_set_data_handle(call->memory[i], handle);
    }
    if (status == dnnl_success)
        status = dnnl_primitive_execute(p->primitive, call->stream, p->args + 1, args);
    call_give_back(p, call);
    SR_ONEDNN_TRY(status);
    return SR_OK;
}

void sr_onednn_primitive_release(sr_onednn_primitive *p) {
    if (p->idle != NULL) {
        for (sr_onednn_call *call = p->idle->first, *next; call != NULL; call = next) {
            next = call->next;
            call_free(call, p->args);
        }
        (void)pthread_mutex_destroy(&p->idle->lock);
        sr_free(p->idle);
    }
    if (p->primitive != NULL)
        (void)dnnl_primitive_destroy(p->primitive);
    *p = (sr_onednn_primitive){0};
}

sr_status sr_onednn_reorder_init(sr_onednn_primitive *p, const dnnl_memory_desc_t *from,
                                 const dnnl_memory_desc_t *to) {
    static const int ids[] = {DNNL_ARG_FROM, DNNL_ARG_TO};
    dnnl_engine_t cpu = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    SR_TRY(sr_onednn_engine(&cpu));
    SR_TRY(sr_onednn_attr(&attr));
    const dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&desc, from, cpu, to, cpu, attr);
    (void)dnnl_primitive_attr_destroy(attr);
    SR_ONEDNN_TRY(status);
    return sr_onednn_primitive_init(p, desc, ids, 2);
}

// ---- conversions ----

sr_status sr_onednn_cast_init(sr_onednn_cast *cast, sr_dtype from, sr_dtype to, int64_t count) {
    cast->request = (sr_kernel_request){.kernel = SR_KERNEL_cast, .args = 2, .dtype = {from, to}};
    const sr_count_params params = {count};
    memcpy(cast->request.params, &params, sizeof params);
    return sr_kernel_prepare(&cast->request, &cast->prepared);
}

sr_status sr_onednn_cast_run(const sr_onednn_cast *cast, const void *from, void *to) {
    union {
        const void *in;
        void *out;
    } source = {.in = from};
    void *const p[] = {source.out, to};
    return sr_prepared_run(&cast->prepared, &cast->request, p, NULL, NULL);
}

void sr_onednn_cast_release(sr_onednn_cast *cast) {
    sr_prepared_release(&cast->prepared);
}
