// SPDX-License-Identifier: Apache-2.0
// Provider "onednn": convolutions and matrix products by oneDNN (its C API 2.x, with operation
// descriptors).
//
// oneDNN's results depend on its number of threads, so it gets one: thread_init limits OpenMP on
// every thread that runs kernels, and primitives are made under the same limit. Parallelism is
// ours: a stage is cut into blocks of images. Activations are plain NHWC; weights are packed into
// the layout that a primitive likes best once per run.
//
// Primitives use scratchpads of the caller (the library's own belong to the thread that made the
// primitive). Memory objects and streams are kept in a list per primitive, so that a repeated run
// allocates nothing.
//
// Source: oneDNN 2.6 developer guide. Deliberately not used: its batch normalisation, pooling and
// elementwise primitives (statistics and rounding are ours), Winograd (other error bounds).
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/cpuid.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "kernels/cpu/onednn/onednn_internal.h"

// OpenMP 4.5, 3.2.1 and 3.2.3. <omp.h> is a compiler's own header; libdnnl brings the library.
extern void omp_set_num_threads(int threads);
extern int omp_get_max_threads(void);

int sr_onednn_single_thread(void) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(1);
    return before;
}

void sr_onednn_restore_threads(int threads) {
    omp_set_num_threads(threads);
}

static void thread_init(void) {
    (void)sr_onednn_single_thread();
}

sr_status sr_onednn_fail(const char *file, int line, dnnl_status_t status, const char *what) {
    static const char *const names[] = {"success",       "out of memory", "invalid arguments",
                                        "unimplemented", "iterator ends", "runtime error",
                                        "not required"};
    const size_t i = (size_t)status;
    const sr_status code = status == dnnl_out_of_memory   ? SR_E_MEMORY
                           : status == dnnl_unimplemented ? SR_E_UNSUPPORTED
                                                          : SR_E_DEVICE;
    return sr_error_set(code, file, line, "oneDNN: %s from %.80s",
                        i < sizeof names / sizeof names[0] ? names[i] : "unknown failure", what);
}

static pthread_once_t engine_once = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine;
static dnnl_status_t engine_status;

// oneDNN is held to the features that serried admits (SERRIED_CPU_MASK, ranks' common set) and to
// fp32 arithmetic in full: what its environment variables say of these would change bits.
static void make_engine(void) {
    const uint32_t features = sr_cpu_features();
    const dnnl_cpu_isa_t isa = features & SR_CPU_AMX_BF16 ? dnnl_cpu_isa_avx512_core_amx
                               : features & SR_CPU_AVX512 ? dnnl_cpu_isa_avx512_core
                                                          : dnnl_cpu_isa_avx2;
    engine_status = dnnl_set_max_cpu_isa(isa);
    if (engine_status == dnnl_success)
        engine_status = dnnl_set_cpu_isa_hints(dnnl_cpu_isa_no_hints);
    if (engine_status == dnnl_success)
        engine_status = dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_strict);
    if (engine_status == dnnl_success)
        engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0);
}

sr_status sr_onednn_engine(dnnl_engine_t *out) {
    (void)pthread_once(&engine_once, make_engine);
    SR_ONEDNN_TRY(engine_status);
    *out = engine;
    return SR_OK;
}

bool sr_onednn_native_bf16(void) {
    return (sr_cpu_features() & SR_CPU_AMX_BF16) != 0;
}

// ---- primitives ----

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
    // As many as threads may run it at once, so that no step takes memory, whatever the timing;
    // more come where teams are larger than the machine.
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

// ---- the table ----

bool sr_onednn_dtypes_fit(const sr_kernel_request *request, const char *signature) {
    const sr_dtype t = request->dtype[0];
    if (t != SR_F32 && t != SR_BF16)
        return false;
    for (int i = 0; i < request->args; i++) {
        const sr_dtype dtype = request->dtype[i];
        if (signature[i] == 'T'
                ? dtype != t
                : dtype != SR_F32 && !(signature[i] == 'f' && dtype == SR_DTYPE_COUNT))
            return false;
    }
    return true;
}

static bool processor_fits(void) {
    return (sr_cpu_features() & SR_CPU_AVX2) != 0;
}

// By number of arguments and place of the weights: T f32 or bf16, F f32, f f32 or absent.
static bool dtypes_fit(const sr_kernel_request *request) {
    static const char *const signatures[SR_KERNEL_COUNT] = {
        [SR_KERNEL_conv2d] = "TFfT",   [SR_KERNEL_linear] = "TFfT",   [SR_KERNEL_conv2d_dx] = "TFT",
        [SR_KERNEL_linear_dx] = "TFT", [SR_KERNEL_conv2d_dw] = "TTF", [SR_KERNEL_linear_dw] = "TTF",
    };
    return processor_fits() && sr_onednn_dtypes_fit(request, signatures[request->kernel]);
}

// Arithmetic in f32, whatever T.
static bool supports_gemm(const sr_kernel_request *request) {
    return dtypes_fit(request);
}
static bool supports_f32(const sr_kernel_request *request) {
    return dtypes_fit(request) && !(request->dtype[0] == SR_BF16 && sr_onednn_native_bf16());
}
// Products of bf16 on AMX tiles, sums in f32.
static bool supports_bf16(const sr_kernel_request *request) {
    return dtypes_fit(request) && request->dtype[0] == SR_BF16 && sr_onednn_native_bf16();
}

#define ENTRY(id, suffix, class, fits, types, features)                                            \
    {                                                                                              \
        .struct_size = sizeof(sr_kernel_entry), .abi = SR_KERNEL_ABI, .kernel = SR_KERNEL_##id,    \
        .name = #id "/onednn" suffix, .provider = "onednn", .numerics_class = class,               \
        .supports = fits, .prepare = sr_onednn_prepare_##id, .dtypes = types, .needs = features    \
    }

static const sr_kernel_entry entries[] = {
    ENTRY(conv2d, "", "onednn-direct-f32", supports_f32, "f32 bf16", SR_CPU_AVX2),
    ENTRY(conv2d_dx, "", "onednn-direct-f32", supports_f32, "f32 bf16", SR_CPU_AVX2),
    ENTRY(conv2d_dw, "", "onednn-direct-f32", supports_f32, "f32 bf16", SR_CPU_AVX2),
    ENTRY(conv2d, "-amx", "onednn-direct-bf16", supports_bf16, "bf16", SR_CPU_AMX_BF16),
    ENTRY(conv2d_dx, "-amx", "onednn-direct-bf16", supports_bf16, "bf16", SR_CPU_AMX_BF16),
    ENTRY(conv2d_dw, "-amx", "onednn-direct-bf16", supports_bf16, "bf16", SR_CPU_AMX_BF16),
    ENTRY(linear, "", "onednn-gemm-f32", supports_gemm, "f32 bf16", SR_CPU_AVX2),
    ENTRY(linear_dx, "", "onednn-gemm-f32", supports_gemm, "f32 bf16", SR_CPU_AVX2),
    ENTRY(linear_dw, "", "onednn-gemm-f32", supports_gemm, "f32 bf16", SR_CPU_AVX2),
};

static pthread_once_t version_once = PTHREAD_ONCE_INIT;
static char version_text[80];

static void write_version(void) {
    const dnnl_version_t *v = dnnl_version();
    uint32_t cache[SR_ONEDNN_CACHES];
    const int n = snprintf(version_text, sizeof version_text, "oneDNN %d.%d.%d", v->major, v->minor,
                           v->patch);
    if (sr_onednn_caches(cache))
        (void)snprintf(version_text + n, sizeof version_text - (size_t)n,
                       ", caches %u KiB %u KiB %u KiB", cache[0] >> 10, cache[1] >> 10,
                       cache[2] >> 10);
}

static const char *version(void) {
    (void)pthread_once(&version_once, write_version);
    return version_text;
}

extern const sr_provider sr_provider_onednn;
const sr_provider sr_provider_onednn = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = "onednn",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .thread_init = thread_init,
    .version = version,
    .numerics = SR_ONEDNN_NUMERICS,
    .features = SR_CPU_AVX2 | SR_CPU_AVX512 | SR_CPU_AMX_BF16, // those that make_engine asks for
};
