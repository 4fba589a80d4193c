// SPDX-License-Identifier: Apache-2.0
// Kernels that are a pair of others, one after the other, with what the first one writes in the
// workspace.
#ifndef SR_KERNELS_CPU_REFERENCE_PAIR_H
#define SR_KERNELS_CPU_REFERENCE_PAIR_H

#include "kernels/base/memory.h"
#include "kernels/cpu/reference/reference_internal.h"

typedef struct sr_reference_member {
    sr_kernel_request request;
    sr_prepared prepared;
} sr_reference_member;

// The state of such a kernel.
typedef struct sr_reference_pair {
    sr_reference_member first, second;
    size_t between; // bytes of the workspace before those of the members
} sr_reference_pair;

static inline size_t sr_reference_pair_align(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

// Runs a block of a stage of a member with these arguments. workspace: of the pair.
static inline sr_status sr_reference_member_run(const sr_reference_pair *pair,
                                                const sr_reference_member *p, int stage,
                                                void *const *arguments, void *workspace,
                                                int64_t block, sr_worker *worker) {
    const sr_kernel_stage *s = &p->prepared.stage[stage];
    const sr_kernel_args args = {.p = arguments,
                                 .params = p->request.params,
                                 .state = p->prepared.state,
                                 .workspace = (char *)workspace + pair->between,
                                 .block_rows = s->block_rows};
    return s->run(&args, block, worker);
}

// Makes the requests of the members, and prepares these.
typedef sr_status (*sr_reference_pair_fn)(const sr_kernel_request *request,
                                          sr_reference_pair *pair);

static inline void sr_reference_pair_free(void *state) {
    sr_reference_pair *pair = state;
    sr_prepared_release(&pair->first.prepared);
    sr_prepared_release(&pair->second.prepared);
    sr_free(pair);
}

// Prepares a pair, with a function for each stage of the first member and of the second.
static inline sr_status sr_reference_pair_prepare(const sr_kernel_request *request,
                                                  sr_reference_pair_fn prepare,
                                                  const sr_kernel_fn first[SR_KERNEL_STAGES],
                                                  const sr_kernel_fn second[SR_KERNEL_STAGES],
                                                  sr_prepared *out) {
    sr_reference_pair *pair = sr_alloc(sizeof *pair, "pair of kernels");
    if (!pair)
        return SR_E_MEMORY;
    *pair = (sr_reference_pair){.between = 0};
    const sr_status status = prepare(request, pair);
    if (status != SR_OK) {
        sr_reference_pair_free(pair);
        return status;
    }
    const sr_prepared *a = &pair->first.prepared, *b = &pair->second.prepared;
    for (int i = 0; i < a->stages; i++)
        sr_add_stage(out, first[i], a->stage[i].blocks);
    for (int i = 0; i < b->stages; i++)
        sr_add_stage(out, second[i], b->stage[i].blocks);
    out->workspace = pair->between + (a->workspace > b->workspace ? a->workspace : b->workspace);
    out->scratch = a->scratch > b->scratch ? a->scratch : b->scratch;
    out->state = pair;
    out->state_free = sr_reference_pair_free;
    return SR_OK;
}

#endif
