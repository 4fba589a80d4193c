// SPDX-License-Identifier: Apache-2.0
// Divides depthwise convolutions into blocks (see x86_depthwise_internal.h and
// x86_depthwise_dw_internal.h). A function of the shape alone.
#include "kernels/base/memory.h"
#include "kernels/cpu/x86/x86_internal.h"

// Elements of the result of a block: many rows, as blocks read the rows of a window at their ends,
// too. Fewer where there would be less than BLOCKS blocks, enough for eight threads.
#define BLOCK_ELEMENTS (INT64_C(2) * SR_X86_BLOCK)
#define BLOCKS 16
// conv2d_dw: fewest rows of dy of a group, whose partial result is stored once for each; pixels of
// a chunk, whose sums start from zero; and the limit of all partial results.
#define GROUP_ROWS 8
#define CHUNK_PIXELS 56
#define PARTIAL_BYTES (INT64_C(16) << 20)

bool sr_x86_depthwise_supports(const sr_kernel_request *request) {
    const sr_conv_params *p = (const void *)request->params;
    return p->groups > 1 && p->groups == p->c && p->k == p->c && p->n > 0 && p->h > 0 && p->w > 0 &&
           p->p > 0 && p->q > 0 && p->r > 0 && p->s > 0;
}

static sr_x86_depthwise_form form_of(const sr_conv_params *p, bool mirrored) {
    const bool window = p->s == 3 || p->s == 5 || p->s == 7;
    if (!window || p->dilation_w != 1 || p->stride_w > 2 || p->c < SR_X86_DEPTHWISE_SIDE)
        return SR_X86_DEPTHWISE_ANY;
    return p->stride_w == 1 ? SR_X86_DEPTHWISE_DENSE
           : mirrored       ? SR_X86_DEPTHWISE_SPREAD
                            : SR_X86_DEPTHWISE_STRIDED;
}

static sr_x86_depthwise geometry_of(const sr_kernel_request *request) {
    const sr_conv_params p = *(const sr_conv_params *)(const void *)request->params;
    const bool mirrored = request->kernel == SR_KERNEL_conv2d_dx;
    sr_x86_depthwise d = {.p = p, .mirrored = mirrored, .form = form_of(&p, mirrored)};
    d.in_h = mirrored ? p.p : p.h;
    d.in_w = mirrored ? p.q : p.w;
    d.out_h = mirrored ? p.h : p.p;
    d.out_w = mirrored ? p.w : p.q;
    d.step_h = mirrored ? 1 : p.stride_h;
    d.step_w = mirrored ? 1 : p.stride_w;
    d.divisor_h = mirrored ? p.stride_h : 1;
    d.divisor_w = mirrored ? p.stride_w : 1;
    d.top = mirrored ? (p.r - 1) * p.dilation_h - p.pad_top : p.pad_top;
    d.left = mirrored ? (p.s - 1) * p.dilation_w - p.pad_left : p.pad_left;
    d.pitch = sr_x86_padded(p.c);
    d.panels = sr_x86_ceil_div(p.c, SR_X86_DEPTHWISE_SIDE);
    return d;
}

static sr_status finish(const sr_x86_depthwise *plan, sr_prepared *out) {
    sr_x86_depthwise *d = sr_alloc(sizeof *d, "the plan of a depthwise convolution");
    if (d == NULL)
        return SR_E_MEMORY;
    *d = *plan;
    out->state = d;
    out->state_free = sr_free;
    out->stages = 2;
    return SR_OK;
}

// Blocks stream over the rows of the result, whole rows of a picture.
sr_status sr_x86_depthwise_plan(const sr_kernel_request *request, sr_prepared *out) {
    const sr_x86_depthwise d = geometry_of(request);
    const int64_t rows = d.p.n * d.out_h, fit = BLOCK_ELEMENTS / (d.out_w * d.p.c);
    const int64_t most = sr_x86_min(fit, sr_x86_ceil_div(rows, BLOCKS));
    const int64_t block = most < 1 ? 1 : most;
    SR_TRY(finish(&d, out));
    out->stage[0] = (sr_kernel_stage){.blocks = sr_x86_ceil_div(d.p.c, SR_X86_CHANNEL_BLOCK),
                                      .leaves = ~UINT32_C(2)};
    out->stage[1] = (sr_kernel_stage){.blocks = sr_x86_ceil_div(rows, block),
                                      .rows = rows * d.out_w,
                                      .block_rows = block * d.out_w,
                                      .granule = d.out_w,
                                      .streams = d.mirrored ? 4 : 8,
                                      .leaves = 2};
    out->workspace = (size_t)(d.p.r * d.p.s * d.pitch) * sizeof(float);
    out->scratch = (size_t)d.p.r * 2 * sizeof(int64_t);
    return SR_OK;
}

sr_status sr_x86_depthwise_plan_dw(const sr_kernel_request *request, sr_prepared *out) {
    sr_x86_depthwise d = geometry_of(request);
    const int64_t rows = d.p.n * d.out_h, taps = d.p.r * d.p.s;
    const int64_t partial = d.panels * taps * SR_X86_DEPTHWISE_SIDE * (int64_t)sizeof(float);
    const int64_t most = PARTIAL_BYTES / partial, fewest = sr_x86_ceil_div(rows, BLOCKS);
    d.group_rows = fewest < GROUP_ROWS ? GROUP_ROWS : fewest;
    if (sr_x86_ceil_div(rows, d.group_rows) > most)
        d.group_rows = sr_x86_ceil_div(rows, most < 1 ? 1 : most);
    d.groups = sr_x86_ceil_div(rows, d.group_rows);
    d.chunk_rows = sr_x86_ceil_div(CHUNK_PIXELS, d.out_w);
    SR_TRY(finish(&d, out));
    out->stage[0].blocks = d.groups;
    out->stage[1].blocks = d.panels;
    out->workspace = (size_t)(d.groups * partial);
    out->scratch = (size_t)(taps * SR_X86_DEPTHWISE_SIDE) * sizeof(float);
    return SR_OK;
}
