// SPDX-License-Identifier: Apache-2.0
// oneDNN's engine, its threads and its errors.
//
// oneDNN's results depend on its number of threads, so it gets one: sr_onednn_single_thread limits
// OpenMP on every thread that runs kernels, and primitives are made under the same limit.
#include <pthread.h>

#include "kernels/base/cpuid.h"
#include "kernels/cpu/onednn/onednn_internal.h"

// OpenMP 4.5, 3.2.1 and 3.2.3. <omp.h> belongs to a compiler; the library comes with libdnnl.
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

// Limits oneDNN to the features that serried allows (SERRIED_CPU_MASK, the common set of the ranks)
// and to full fp32 arithmetic: its environment variables for these would change bits.
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

bool sr_onednn_widens(sr_dtype type) {
    return type != SR_F32 && !(type == SR_BF16 && sr_onednn_native_bf16());
}
