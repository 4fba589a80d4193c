// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD: adds a provider whose linear layers claim numerics class "reference" but add from
// the last input to the first. The tests of portable numerics must find it
// (tests/numerics/check_wrong_order.py).
#include <dlfcn.h>
#include <string.h>

#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

static sr_status run(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const sr_linear_params *l = args->params;
    const float *x = (const float *)args->p[0] + block * l->c, *w = args->p[1], *bias = args->p[2];
    float *y = (float *)args->p[3] + block * l->k;
    (void)worker;
    for (int64_t k = 0; k < l->k; k++) {
        float sum = 0;
        for (int64_t c = l->c; c-- > 0;)
            sum += x[c] * w[k * l->c + c];
        y[k] = bias ? sum + bias[k] : sum;
    }
    return SR_OK;
}

static bool supports(const sr_kernel_request *request) {
    return request->dtype[0] == SR_F32;
}

static sr_status prepare(const sr_kernel_request *request, sr_prepared *out) {
    out->stages = 1;
    out->stage[0] = (sr_kernel_stage){
        .run = run, .blocks = ((const sr_linear_params *)(const void *)request->params)->n};
    return SR_OK;
}

static const sr_kernel_entry entries[] = {{.struct_size = sizeof(sr_kernel_entry),
                                           .abi = SR_KERNEL_ABI,
                                           .kernel = SR_KERNEL_linear,
                                           .name = "linear/wrong",
                                           .provider = "wrong",
                                           .numerics_class = SR_KERNEL_REFERENCE,
                                           .supports = supports,
                                           .prepare = prepare,
                                           .dtypes = "f32"}};

static const sr_provider wrong = {.struct_size = sizeof(sr_provider),
                                  .abi = SR_KERNEL_ABI,
                                  .name = "wrong",
                                  .entries = entries,
                                  .count = 1,
                                  .numerics = 2};

const sr_provider *const *sr_providers(size_t *count) {
    enum { MOST = 16 };
    static const sr_provider *all[MOST];
    union {
        void *address;
        const sr_provider *const *(*call)(size_t *count);
    } next = {.address = dlsym(RTLD_NEXT, "sr_providers")};
    const sr_provider *const *others = next.call(count);
    if (*count >= MOST)
        return others;
    memcpy(all, others, *count * sizeof *all);
    all[(*count)++] = &wrong;
    return all;
}
