// SPDX-License-Identifier: Apache-2.0
// mix_batch, reference: mixup and CutMix of the samples of one lane, whose draws are in draws.h.
//
// The first stage draws the mix of the lane and stores it in the workspace; the second applies it,
// one block per sample. No other provider of the CPU has an entry: in fp32 this kernel is bound by
// memory bandwidth, and in bf16 it takes less than a thousandth of a network's step.
#include <string.h>

#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/draws.h"

// In the workspace, after the plan: a permutation of the samples.
static uint32_t *partners(void *workspace) {
    return (void *)((char *)workspace + sizeof(sr_mix_plan));
}

// ---- Stages ----

// Pixels in the box are from 'other', all others from 'own'.
static void paste_box(const sr_mix_params *p, const sr_mix_plan *plan, size_t element,
                      const char *own, const char *other, char *y) {
    const size_t pixel = (size_t)p->c * element, row = (size_t)p->w * pixel;
    memcpy(y, own, (size_t)p->h * row);
    for (int64_t i = plan->top; i < plan->bottom; i++) {
        const size_t at = (size_t)i * row + (size_t)plan->left * pixel;
        memcpy(y + at, other + at, (size_t)(plan->right - plan->left) * pixel);
    }
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_mix.inc"
#include "kernels/cpu/reference/reference_typed.inc"

sr_status sr_reference_prepare_mix_batch(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn plans[] = SR_REFERENCE_TYPES(mix_plan);
    static const sr_kernel_fn mixes[] = SR_REFERENCE_TYPES(mix_sample);
    const sr_mix_params *p = (const sr_mix_params *)(const void *)request->params;
    sr_add_stage(out, plans[request->dtype[0]], 1);
    sr_add_stage(out, mixes[request->dtype[0]], p->n);
    out->workspace = sizeof(sr_mix_plan) + (size_t)p->n * sizeof(uint32_t);
    return SR_OK;
}
