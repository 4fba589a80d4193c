// SPDX-License-Identifier: Apache-2.0
// Divides the gradient of the weights of a convolution or linear layer into blocks, passes and
// panels (see x86_conv_dw_internal.h, x86_amx_internal.h,
// x86_dot_dw_internal.h). A function of the shape alone.
#include "kernels/base/memory.h"
#include "kernels/cpu/x86/x86_internal.h"

// Output pixels of one pass: few enough that their panels fit in the second-level cache, and most
// of a panel of x in the first; enough that reading and writing a tile of dw costs little
// (measured: 64 to 112 differ by under 3 %).
#define PASS_PIXELS 112
// Blocks of stage 0: enough for eight threads.
#define BLOCKS 8
// Fewest output panels of a block of a linear layer, since each block packs all of x.
#define RANGE_PANELS 3
// Rows of one pass on AMX: whole steps.
#define AMX_ROWS 512
// Limit of the partial results of all groups; a large dw is divided by output channels instead.
#define PARTIAL_BYTES (INT64_C(16) << 20)

bool sr_x86_dw_supports(const sr_kernel_request *request) {
    const sr_conv_params *p = (const void *)request->params;
    return p->groups == 1;
}

bool sr_x86_dw_supports_linear(const sr_kernel_request *request) {
    const sr_conv_params p = sr_x86_shape_of(request);
    return sr_x86_is_tall(&p);
}

static void set_panels(sr_x86_dw *d, int64_t columns, int64_t taps) {
    d->in_panels = sr_x86_ceil_div(columns, SR_X86_DW_SIDE);
    d->out_panels = sr_x86_ceil_div(d->p.k, SR_X86_DW_SIDE);
    d->taps = taps;
    d->tile_floats = taps * SR_X86_DW_SIDE * SR_X86_DW_SIDE;
    d->partial_floats = d->tile_floats * d->in_panels * d->out_panels;
}

static void plan_panels(sr_x86_dw *d) {
    const sr_conv_params *p = &d->p;
    const int64_t taps = p->r * p->s;
    d->merged = taps > 1 && p->c < SR_X86_DW_SIDE && (p->dilation_w == 1 || p->s == 1);
    set_panels(d, d->merged ? taps * p->c : p->c, d->merged ? 1 : taps);
}

// As many groups as are wanted, as long as their partial results are not too large.
static void plan_groups(sr_x86_dw *d, int64_t wanted) {
    const int64_t bytes = d->partial_floats * (int64_t)sizeof(float);
    d->groups = 1;
    while (d->groups < wanted && 2 * d->groups <= d->units &&
           2 * d->groups * bytes <= PARTIAL_BYTES)
        d->groups *= 2;
}

// Groups have whole images, of 1x1 convolutions enough of them for a pass: with one pixel each
// (squeeze and excitation), partial results would cost more than the sums.
static void plan_blocks(sr_x86_dw *d) {
    const int64_t pixels = d->p.h * d->p.w;
    const int64_t images = d->flat && pixels > 0 ? PASS_PIXELS / pixels : 1;
    d->unit_pixels = pixels * (images > 1 ? images : 1);
    d->units = images > 1 ? sr_x86_ceil_div(d->p.n, images) : d->p.n;
    plan_groups(d, BLOCKS);
    d->ranges = sr_x86_min(BLOCKS / d->groups, d->out_panels);
}

static void plan_pass(sr_x86_dw *d) {
    const sr_conv_params *p = &d->p;
    d->flat = p->r == 1 && p->s == 1 && p->stride_h == 1 && p->stride_w == 1 && p->pad_top == 0 &&
              p->pad_left == 0 && p->p == p->h && p->q == p->w;
    d->images = 1;
    if (d->flat) {
        d->rows = PASS_PIXELS;
        return;
    }
    const int64_t fit = PASS_PIXELS / p->q < 1 ? 1 : PASS_PIXELS / p->q;
    d->rows = sr_x86_ceil_div(p->p, sr_x86_ceil_div(p->p, fit)); // passes of nearly equal height
    if (d->rows == p->p && p->p * p->q < PASS_PIXELS)
        d->images = PASS_PIXELS / (p->p * p->q);
}

// Packed input of a pass: pixels of the picture, or a window for each output pixel. With one tap in
// a direction only the rows or pixels used are packed.
static void plan_packing(sr_x86_dw *d) {
    const sr_conv_params *p = &d->p;
    const int64_t pixels = d->flat ? d->rows : d->images * d->rows * p->q;
    d->step_h = p->r == 1 ? p->stride_h : 1;
    d->step_w = p->s == 1 ? p->stride_w : 1;
    d->pitch_h = d->merged || p->r == 1 ? 1 : p->stride_h;
    d->pitch_w = d->merged || p->s == 1 ? 1 : p->stride_w;
    d->x_height = (d->rows - 1) * d->pitch_h + 1;
    d->x_width = (p->q - 1) * d->pitch_w + 1;
    if (!d->merged) {
        d->x_height += (p->r - 1) * p->dilation_h;
        d->x_width += (p->s - 1) * p->dilation_w;
    }
    d->row_floats = d->x_width * SR_X86_DW_SIDE;
    d->x_floats = d->flat ? pixels * SR_X86_DW_SIDE : d->images * d->x_height * d->row_floats;
    d->dy_floats = sr_x86_ceil_div(d->out_panels, d->ranges) * sr_x86_dw_dy_panel(pixels);
}

static sr_status finish(const sr_x86_dw *plan, sr_prepared *out) {
    sr_x86_dw *d = sr_alloc(sizeof *d, "the plan of a weight gradient");
    if (d == NULL)
        return SR_E_MEMORY;
    *d = *plan;
    out->state = d;
    out->state_free = sr_free;
    out->stages = 2;
    out->stage[0].blocks = d->groups * d->ranges;
    out->stage[1].blocks = d->out_panels;
    out->workspace = (size_t)(d->groups * d->partial_floats) * sizeof(float);
    out->scratch = (size_t)(sr_x86_ceil_div(d->dy_floats, 16) * 16 + d->x_floats) * sizeof(float);
    return SR_OK;
}

sr_status sr_x86_dw_plan(const sr_kernel_request *request, sr_prepared *out) {
    sr_x86_dw d = {.p = *(const sr_conv_params *)(const void *)request->params};
    plan_panels(&d);
    plan_pass(&d);
    plan_blocks(&d);
    plan_packing(&d);
    return finish(&d, out);
}

// Rows of a linear layer are pixels of one image: ranges of output panels, and groups of passes if
// there are few panels.
static sr_x86_dw linear_of(const sr_kernel_request *request) {
    sr_x86_dw d = {.p = sr_x86_shape_of(request)};
    plan_panels(&d);
    plan_pass(&d);
    return d;
}

static void plan_linear_blocks(sr_x86_dw *d) {
    d->unit_pixels = d->rows;
    d->units = sr_x86_ceil_div(d->p.q, d->rows);
    d->ranges = sr_x86_min(BLOCKS, d->out_panels / RANGE_PANELS);
    d->ranges = d->ranges < 1 ? 1 : d->ranges;
    plan_groups(d, sr_x86_ceil_div(BLOCKS, d->ranges));
}

sr_status sr_x86_dw_plan_linear(const sr_kernel_request *request, sr_prepared *out) {
    sr_x86_dw d = linear_of(request);
    plan_linear_blocks(&d);
    plan_packing(&d);
    return finish(&d, out);
}

sr_status sr_x86_amx_plan_dw(const sr_kernel_request *request, sr_prepared *out) {
    sr_x86_dw d = linear_of(request);
    d.rows = AMX_ROWS;
    plan_linear_blocks(&d);
    const int64_t panel = d.rows * SR_X86_AMX_SIDE / 2; // floats of a panel of bf16
    d.x_floats = panel;
    d.dy_floats = sr_x86_ceil_div(d.out_panels, d.ranges) * panel;
    return finish(&d, out);
}

// Few channels: their rows of taps are columns of panels.
static void plan_dot_panels(sr_x86_dw *d) {
    const sr_conv_params *p = &d->p;
    d->merged = p->s > 1 && p->dilation_w == 1 && p->c < SR_X86_DW_SIDE;
    set_panels(d, d->merged ? p->s * p->c : p->c, d->merged ? p->r : p->r * p->s);
}

// Groups of passes, or ranges of input panels if partial results are large.
sr_status sr_x86_dot_plan_dw(const sr_kernel_request *request, sr_prepared *out) {
    sr_x86_dw d = {.p = sr_x86_shape_of(request)};
    plan_dot_panels(&d);
    plan_pass(&d);
    d.rows = SR_X86_DOT_PASS;
    d.units = sr_x86_ceil_div(d.p.n * d.p.p * d.p.q, d.rows);
    plan_groups(&d, BLOCKS);
    d.ranges = sr_x86_min(BLOCKS / d.groups, d.in_panels);
    d.x_floats = SR_X86_DOT_PANEL / 2;
    d.dy_floats = d.out_panels * (SR_X86_DOT_PANEL / 2);
    return finish(&d, out);
}
