// SPDX-License-Identifier: Apache-2.0
// Convolutions, linear layers and matrix products in the reference's order: the sequence of their
// terms, and their blocks (see x86_direct_internal.h, x86_direct_dw_internal.h). A function of the
// shape alone.
#include "kernels/base/memory.h"
#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/reference_order.h"

// Fewest blocks when there are few pixels: enough for eight threads.
#define BLOCKS 16

sr_conv_params sr_x86_shape_of(const sr_kernel_request *request) {
    if (request->kernel >= SR_KERNEL_linear)
        return sr_linear_as_conv((const void *)request->params);
    return *(const sr_conv_params *)(const void *)request->params;
}

bool sr_x86_direct_supports(const sr_kernel_request *request) {
    const sr_conv_params p = sr_x86_shape_of(request);
    return p.groups == 1 && p.n > 0 && p.h > 0 && p.w > 0 && p.c > 0 && p.k > 0 && p.p > 0 &&
           p.q > 0 && p.r > 0 && p.s > 0;
}

// The terms in the reference's order: a leaf takes steps while it has room for all of their terms.
// After leaf number i, the levels of the ones at the end of i are added; after the last leaf, the
// levels of all ones.
static void plan_steps(sr_x86_direct *d) {
    const int64_t taps = d->p.r * d->p.s;
    sr_x86_direct_step *step = d->step;
    int64_t terms = 0;
    uint64_t leaf = 0;
    for (int64_t tap = 0; tap < taps; tap++) {
        for (int64_t c = 0; c < d->in; c += SR_X86_DIRECT_TERMS, step++) {
            const int64_t count = sr_x86_min(SR_X86_DIRECT_TERMS, d->in - c);
            const bool full = terms + count > SR_X86_DIRECT_TERMS;
            *step = (sr_x86_direct_step){.tap = (int32_t)tap,
                                         .first = (int32_t)c,
                                         .count = (int32_t)count,
                                         .begins = full || step == d->step};
            if (full) {
                step[-1].ends = true;
                step[-1].joins = leaf & ~(leaf + 1);
                leaf++;
                terms = 0;
            }
            terms += count;
        }
    }
    step[-1].ends = true;
    step[-1].joins = leaf;
    d->levels = sr_reference_levels((int64_t)leaf + 1);
}

// One product, of which there are 'batches'.
static sr_status plan_product(sr_conv_params p, bool mirrored, int64_t batches, sr_prepared *out) {
    const int64_t in = mirrored ? p.k : p.c, taps = p.r * p.s;
    const int64_t steps = taps * sr_x86_ceil_div(in, SR_X86_DIRECT_TERMS);
    sr_x86_direct *d = sr_alloc(sizeof *d + (size_t)steps * sizeof d->step[0],
                                "the plan of a product in the reference's order");
    if (d == NULL)
        return SR_E_MEMORY;
    *d = (sr_x86_direct){.p = p,
                         .mirrored = mirrored,
                         .in = in,
                         .out = mirrored ? p.c : p.k,
                         .pixels = mirrored ? p.n * p.h * p.w : p.n * p.p * p.q,
                         .steps = steps};
    d->panels = sr_x86_ceil_div(d->out, SR_X86_DIRECT_SIDE);
    d->pixel_blocks = sr_x86_ceil_div(d->pixels, SR_X86_DIRECT_PIXELS);
    d->panel_shares = sr_x86_min(d->panels, sr_x86_ceil_div(BLOCKS, batches * d->pixel_blocks));
    plan_steps(d);
    out->state = d;
    out->state_free = sr_free;
    out->stages = 2;
    out->stage[0].blocks = d->panels;
    out->stage[1].blocks = batches * d->pixel_blocks * d->panel_shares;
    out->workspace = (size_t)(d->panels * taps * in * SR_X86_DIRECT_SIDE) * sizeof(float);
    const int64_t tile = SR_X86_DIRECT_ROWS * SR_X86_DIRECT_SIDE;
    out->scratch = (size_t)((d->levels + 2) * tile) * sizeof(float) +
                   (size_t)(taps * SR_X86_DIRECT_PIXELS) * sizeof(int64_t);
    return SR_OK;
}

sr_status sr_x86_direct_plan(const sr_kernel_request *request, sr_prepared *out) {
    const bool mirrored =
        request->kernel == SR_KERNEL_conv2d_dx || request->kernel == SR_KERNEL_linear_dx;
    return plan_product(sr_x86_shape_of(request), mirrored, 1, out);
}

sr_status sr_x86_direct_plan_matmul(const sr_kernel_request *request, sr_prepared *out) {
    const sr_matmul_params *m = (const void *)request->params;
    const bool mirrored = !m->transpose_b;
    const sr_linear_params linear = {m->rows, mirrored ? m->columns : m->terms,
                                     mirrored ? m->terms : m->columns};
    SR_TRY(plan_product(sr_linear_as_conv(&linear), mirrored, sr_matmul_batches(m), out));
    const sr_x86_direct *d = out->state;
    out->stage[0].blocks *= m->b_count;
    out->workspace *= (size_t)m->b_count;
    if (m->transpose_a) {
        out->stage[0].blocks += m->a_count * d->pixel_blocks;
        out->workspace +=
            (size_t)(m->a_count * m->rows * m->terms) * sr_dtype_size(request->dtype[0]);
    }
    return SR_OK;
}

// Inputs of a range times taps of a row: few enough that the lowest levels of the sums stay in the
// second-level cache, enough that a pixel is copied for many products.
#define RANGE 128
#define LEAST_RANGE 32
// Leaves of a group, at least, and the limit of the groups' results.
#define GROUP_LEAVES 32
#define PARTIAL_BYTES (INT64_C(16) << 20)

// Sums of groups are sub-trees of the reference's tree, since their size is a power of two.
static void plan_groups(sr_x86_direct_dw *d) {
    const int64_t blocks = d->panels * d->ranges * d->p.r;
    const int64_t fit = PARTIAL_BYTES / (d->weights * (int64_t)sizeof(float));
    const int64_t most = sr_x86_min(sr_x86_ceil_div(BLOCKS, blocks), fit > 1 ? fit : 1);
    d->group_leaves = GROUP_LEAVES;
    while (sr_x86_ceil_div(d->leaves, d->group_leaves) > most)
        d->group_leaves *= 2;
    d->groups = sr_x86_ceil_div(d->leaves, d->group_leaves);
    d->levels = sr_reference_levels(sr_x86_min(d->leaves, d->group_leaves));
}

static void plan_leaves(sr_x86_direct_dw *d) {
    const sr_conv_params *p = &d->p;
    const int64_t pixels = sr_x86_min(p->q, SR_X86_DIRECT_TERMS);
    const int64_t columns =
        sr_x86_min(p->w, (pixels - 1) * p->stride_w + (p->s - 1) * p->dilation_w + 1);
    d->parts = sr_x86_ceil_div(p->q, SR_X86_DIRECT_TERMS);
    d->segments = d->parts > 1 ? 1 : SR_X86_DIRECT_TERMS / p->q;
    d->leaves = sr_x86_ceil_div(p->n * p->p * d->parts, d->segments);
    d->x_floats = d->segments * columns * d->inputs;
}

sr_status sr_x86_direct_plan_dw(const sr_kernel_request *request, sr_prepared *out) {
    sr_x86_direct_dw *d =
        sr_alloc(sizeof *d, "the plan of a weight gradient in the reference's order");
    if (d == NULL)
        return SR_E_MEMORY;
    const sr_conv_params p = sr_x86_shape_of(request);
    const int64_t range = RANGE / p.s / LEAST_RANGE * LEAST_RANGE;
    *d = (sr_x86_direct_dw){.p = p, .weights = p.k * p.c * p.r * p.s};
    d->inputs = range > LEAST_RANGE ? range : LEAST_RANGE;
    d->panels = sr_x86_ceil_div(p.k, SR_X86_DIRECT_SIDE);
    d->ranges = sr_x86_ceil_div(p.c, d->inputs);
    plan_leaves(d);
    plan_groups(d);
    d->tree_floats = (d->levels + 1) * d->inputs * SR_X86_DIRECT_SIDE;
    out->state = d;
    out->state_free = sr_free;
    out->stages = d->groups > 1 ? 2 : 1;
    out->stage[0].blocks = d->groups * d->panels * d->ranges * p.r;
    out->stage[1].blocks = sr_x86_ceil_div(d->weights, SR_X86_DIRECT_JOIN);
    out->workspace = d->groups > 1 ? (size_t)(d->groups * d->weights) * sizeof(float) : 0;
    out->scratch =
        (size_t)(p.s * d->tree_floats + d->x_floats + SR_X86_DIRECT_TERMS * SR_X86_DIRECT_SIDE) *
        sizeof(float);
    return SR_OK;
}
