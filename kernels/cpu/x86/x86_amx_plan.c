// SPDX-License-Identifier: Apache-2.0
// Chooses the linear layers that are computed on AMX tiles, and their blocks (see
// x86_amx_internal.h; the gradient of the weights is in x86_conv_dw_plan.c). A function of the
// shape alone.
#include "kernels/base/cpuid.h"
#include "kernels/base/memory.h"
#include "kernels/cpu/x86/x86_internal.h"

// Rows of a block, unless a chain sets others; and fewest blocks: enough for eight threads.
#define BLOCK_ROWS 128
#define BLOCKS 8

bool sr_x86_amx_supports(const sr_kernel_request *request) {
    const sr_conv_params p = sr_x86_shape_of(request);
    return (sr_cpu_features() & SR_CPU_AMX_BF16) != 0 && sr_kernel_activation(request) == SR_BF16 &&
           sr_x86_is_tall(&p) && p.c % SR_X86_AMX_SIDE == 0 && p.k % SR_X86_AMX_SIDE == 0;
}

sr_status sr_x86_amx_plan(const sr_kernel_request *request, sr_prepared *out) {
    const sr_conv_params p = sr_x86_shape_of(request);
    sr_x86_pointwise *g = sr_alloc(sizeof *g, "the plan of a linear layer");
    if (g == NULL)
        return SR_E_MEMORY;
    *g = (sr_x86_pointwise){.mirrored = request->kernel == SR_KERNEL_linear_dx, .rows = p.q};
    g->in = g->mirrored ? p.k : p.c;
    g->out = g->mirrored ? p.c : p.k;
    g->panels.count = g->out / SR_X86_AMX_SIDE;
    g->grain = BLOCK_ROWS;
    while (g->grain > SR_X86_AMX_SIDE && g->rows < g->grain * BLOCKS)
        g->grain /= 2;
    out->state = g;
    out->state_free = sr_free;
    out->stages = 2;
    const uint32_t x = 1, w = 2, y = g->mirrored ? 4 : 8;
    out->stage[0] = (sr_kernel_stage){.blocks = g->panels.count, .leaves = ~w};
    out->stage[1] = (sr_kernel_stage){.blocks = sr_x86_ceil_div(g->rows, g->grain),
                                      .rows = g->rows,
                                      .block_rows = g->grain,
                                      .granule = SR_X86_AMX_SIDE,
                                      .streams = x | y,
                                      .leaves = w};
    out->workspace = (size_t)(g->in * g->out) * sizeof(uint16_t);
    out->scratch = (size_t)(SR_X86_AMX_SIDE * g->in) * sizeof(uint16_t);
    return SR_OK;
}
