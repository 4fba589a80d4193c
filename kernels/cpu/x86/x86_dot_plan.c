// SPDX-License-Identifier: Apache-2.0
// Chooses the convolutions and linear layers that are computed by products of pairs of bf16, and
// their terms and blocks (see x86_dot_internal.h; the gradient of the weights is in
// x86_conv_dw_plan.c). A function of the shape and of the processor's features.
#include "kernels/base/cpuid.h"
#include "kernels/base/memory.h"
#include "kernels/cpu/x86/x86_internal.h"

// Fewest rows of a linear layer: packing its weights costs as much as this many.
#define LEAST_ROWS 16
// Most weights of an output: their distances fit in 32 bits.
#define MOST_TERMS (INT64_C(1) << 26)

static bool fits(const sr_kernel_request *request, const sr_conv_params *p) {
    return (sr_cpu_features() & SR_CPU_BF16_DOT) != 0 && sr_kernel_activation(request) == SR_BF16 &&
           p->groups == 1 && p->n > 0 && p->h > 0 && p->w > 0 && p->c > 0 && p->k > 0 && p->p > 0 &&
           p->q > 0 && p->c * p->r * p->s <= MOST_TERMS;
}

bool sr_x86_dot_supports(const sr_kernel_request *request) {
    const sr_conv_params p = sr_x86_shape_of(request);
    return fits(request, &p) && !sr_x86_winograd_outdoes_dot(request);
}

bool sr_x86_dot_supports_linear(const sr_kernel_request *request) {
    const sr_conv_params p = sr_x86_shape_of(request);
    return fits(request, &p) && p.q >= LEAST_ROWS;
}

// The taps of a direction: of the results at 'phase', and where they read.
typedef struct direction {
    int64_t taps, step, dilation, pad; // step: phases
    bool mirrored;
} direction;

// The pixel that tap t reads, counted from the first one of a result; false: of another phase.
static bool reads(const direction *d, int64_t t, int64_t phase, int64_t *at) {
    const int64_t offset =
        d->mirrored ? phase + d->pad - t * d->dilation : t * d->dilation - d->pad;
    if (d->mirrored && offset % d->step != 0)
        return false;
    *at = d->mirrored ? offset / d->step : offset;
    return true;
}

typedef struct plan {
    sr_x86_dot *d;
    const sr_conv_params *p;
    direction rows, columns;
    int64_t taps, runs;
} plan;

// Taps in the order of the pixels that they read. A tap joins the run before it if it reads the
// next pixel.
static void add_row(plan *l, sr_x86_dot_phase *f, int64_t r, int64_t h, int64_t phase) {
    const int64_t begin = l->runs;
    for (int64_t i = 0; i < l->columns.taps; i++) {
        const int64_t s = l->d->mirrored ? l->columns.taps - 1 - i : i;
        int64_t w;
        if (!reads(&l->columns, s, phase, &w))
            continue;
        sr_x86_dot_run *run = &l->d->run[l->runs];
        if (l->runs > begin && run[-1].w + run[-1].taps == w)
            run[-1].taps++;
        else
            l->d->run[l->runs++] =
                (sr_x86_dot_run){(int32_t)h, (int32_t)w, (int32_t)(l->taps - f->tap), 1};
        l->d->tap[l->taps++] = (int32_t)(r * l->columns.taps + s);
    }
}

static void plan_taps(plan *l, sr_x86_dot_phase *f, int64_t top, int64_t left) {
    f->tap = l->taps;
    f->run = l->runs;
    for (int64_t i = 0; i < l->rows.taps; i++) {
        const int64_t r = l->d->mirrored ? l->rows.taps - 1 - i : i;
        int64_t h;
        if (reads(&l->rows, r, top, &h))
            add_row(l, f, r, h, left);
    }
    f->taps = l->taps - f->tap;
    f->runs = l->runs - f->run;
}

// The results at (top, left) and every stride-th from there.
static void plan_phase(plan *l, sr_x86_dot_phase *f, int64_t top, int64_t left) {
    sr_x86_dot *d = l->d;
    const sr_conv_params *p = l->p;
    plan_taps(l, f, top, left);
    sr_x86_pointwise *g = &f->g;
    *g = (sr_x86_pointwise){.out = d->out, .p = p->p, .q = p->q, .stride_h = 1, .stride_w = 1};
    if (d->mirrored) {
        g->stride_h = l->rows.step;
        g->stride_w = l->columns.step;
        g->p = top < p->h ? sr_x86_ceil_div(p->h - top, g->stride_h) : 0;
        g->q = left < p->w ? sr_x86_ceil_div(p->w - left, g->stride_w) : 0;
        g->h = p->h;
        g->w = p->w;
        g->top = top;
        g->left = left;
    }
    g->strided = g->spread = d->phases > 1;
    g->in = sr_x86_ceil_div(f->taps * d->in, 2);
    g->rows = p->n * g->p * g->q;
    g->panels = sr_x86_panels_of(d->out);
    g->piece = sr_x86_min(g->in, SR_X86_POINTWISE_PIECE);
    g->sum_rows = SR_X86_POINTWISE_SUM_ROWS;
    g->grain = sr_x86_pointwise_grain((d->in + d->out) * 2, g->rows);
    g->fetch_step = sr_x86_pointwise_fetch(d->out);
    f->blocks = sr_x86_ceil_div(g->rows, g->grain);
}

static void plan_phases(plan *l, sr_prepared *out) {
    sr_x86_dot *d = l->d;
    int64_t block = 0, weights = 0;
    for (int i = 0; i < d->phases; i++) {
        sr_x86_dot_phase *f = &d->phase[i];
        plan_phase(l, f, i / l->columns.step, i % l->columns.step);
        f->block = block;
        f->weights = weights;
        block += f->blocks;
        weights += f->g.in * f->g.panels.columns;
        const size_t scratch = sr_x86_pointwise_scratch(&f->g);
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
    out->stage[1].blocks = block;
    out->workspace = (size_t)weights * sizeof(uint32_t);
}

// Blocks write rows of y one after the other, and read rows of x so where there is one tap.
static void plan_walk(const sr_x86_dot *d, sr_kernel_stage *stage) {
    const uint32_t x = 1, w = 2, y = d->mirrored ? 4 : 8;
    if (d->phases > 1)
        return;
    const sr_x86_pointwise *g = &d->phase[0].g;
    stage->rows = g->rows;
    stage->block_rows = g->grain;
    stage->granule = 1;
    stage->streams = d->flat ? x | y : y;
    stage->leaves = w;
}

static sr_x86_dot *dot_of(const sr_conv_params *p, bool mirrored) {
    const int64_t phases = mirrored ? p->stride_h * p->stride_w : 1, taps = p->r * p->s;
    const size_t bytes = sizeof(sr_x86_dot) + (size_t)phases * sizeof(sr_x86_dot_phase) +
                         (size_t)taps * (sizeof(sr_x86_dot_run) + sizeof(int32_t));
    sr_x86_dot *d = sr_alloc(bytes, "the plan of a convolution");
    if (d == NULL)
        return NULL;
    *d = (sr_x86_dot){.in = mirrored ? p->k : p->c,
                      .out = mirrored ? p->c : p->k,
                      .h = mirrored ? p->p : p->h,
                      .w = mirrored ? p->q : p->w,
                      .step_h = mirrored ? 1 : p->stride_h,
                      .step_w = mirrored ? 1 : p->stride_w,
                      .window = taps,
                      .mirrored = mirrored,
                      .phases = (int)phases};
    d->flat = taps == 1 && p->stride_h == 1 && p->stride_w == 1 && p->pad_top == 0 &&
              p->pad_left == 0 && p->p == p->h && p->q == p->w;
    d->phase = (sr_x86_dot_phase *)(void *)(d + 1);
    d->run = (sr_x86_dot_run *)(void *)(d->phase + phases);
    d->tap = (int32_t *)(void *)(d->run + taps);
    return d;
}

sr_status sr_x86_dot_plan(const sr_kernel_request *request, sr_prepared *out) {
    const sr_conv_params p = sr_x86_shape_of(request);
    const bool mirrored =
        request->kernel == SR_KERNEL_conv2d_dx || request->kernel == SR_KERNEL_linear_dx;
    sr_x86_dot *d = dot_of(&p, mirrored);
    if (d == NULL)
        return SR_E_MEMORY;
    plan l = {.d = d,
              .p = &p,
              .rows = {p.r, mirrored ? p.stride_h : 1, p.dilation_h, p.pad_top, mirrored},
              .columns = {p.s, mirrored ? p.stride_w : 1, p.dilation_w, p.pad_left, mirrored}};
    out->state = d;
    out->state_free = sr_free;
    out->stages = 2;
    plan_phases(&l, out);
    out->stage[0] = (sr_kernel_stage){.blocks = d->phase[0].g.panels.count, .leaves = ~UINT32_C(2)};
    plan_walk(d, &out->stage[1]);
    return SR_OK;
}
