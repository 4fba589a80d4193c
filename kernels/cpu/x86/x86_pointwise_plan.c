// SPDX-License-Identifier: Apache-2.0
// Chooses the convolutions and linear layers that are computed as products of rows with weights,
// and their blocks (see x86_pointwise_internal.h). A function of the shape alone.
#include "kernels/base/cpuid.h"
#include "kernels/base/memory.h"
#include "kernels/cpu/x86/x86_internal.h"

// Rows of a block: this many, or that times a power of two; a multiple of most tiles' rows and of
// four.
#define LEAST_ROWS 36
// Bytes of x and y of a block with many rows, as fp32.
#define BLOCK_BYTES (INT64_C(512) << 10)
// Bytes of a line, and outputs with which one must be fetched at every step: 48 9 / 16 = 27 steps
// of a tile use a line of x for one output, and some more in time. Faster prefetching from memory
// would delay the weights.
#define FETCH_BYTES 64
#define FETCH_OUTPUTS 32
// Fewest rows of a linear layer.
#define TALL_ROWS 64
// Fewest blocks when there are few rows: enough for eight threads.
#define BLOCKS 8

const int64_t sr_x86_pointwise_direct[SR_X86_POINTWISE_DIRECT] = {64, 128, 256, 512};

bool sr_x86_pointwise_supports(const sr_kernel_request *request) {
    const sr_conv_params *p = (const void *)request->params;
    // With the sixteen registers of AVX2, oneDNN's kernels are faster (resnet50: 1.15x per step).
    if ((sr_cpu_features() & SR_CPU_AVX512) == 0)
        return false;
    return p->groups == 1 && p->r == 1 && p->s == 1 && p->pad_top == 0 && p->pad_left == 0 &&
           p->pad_bottom == 0 && p->pad_right == 0;
}

bool sr_x86_is_tall(const sr_conv_params *p) {
    return p->q >= TALL_ROWS && p->c % 16 == 0 && p->k % 16 == 0 && p->c > 0 && p->k > 0;
}

bool sr_x86_pointwise_supports_linear(const sr_kernel_request *request) {
    const sr_conv_params p = sr_x86_shape_of(request);
    return (sr_cpu_features() & SR_CPU_AVX512) != 0 && sr_x86_is_tall(&p);
}

static sr_x86_pointwise geometry_of(const sr_kernel_request *request) {
    const sr_conv_params shape = sr_x86_shape_of(request), *c = &shape;
    sr_x86_pointwise g = {.in = c->c, .out = c->k, .rows = c->n * c->p * c->q};
    g.mirrored = request->kernel == SR_KERNEL_conv2d_dx || request->kernel == SR_KERNEL_linear_dx;
    if (g.mirrored) {
        g.in = c->k;
        g.out = c->c;
    }
    g.strided = c->stride_h > 1 || c->stride_w > 1;
    g.spread = g.strided && g.mirrored;
    g.h = c->h;
    g.w = c->w;
    g.p = c->p;
    g.q = c->q;
    g.stride_h = c->stride_h;
    g.stride_w = c->stride_w;
    return g;
}

// About BLOCK_BYTES of x and y, but few enough to get enough blocks.
int64_t sr_x86_pointwise_grain(int64_t row_bytes, int64_t rows) {
    const int64_t fit = BLOCK_BYTES / row_bytes;
    int64_t grain = LEAST_ROWS;
    while (2 * grain <= fit + fit / 4 && 2 * grain * BLOCKS <= rows)
        grain *= 2;
    return grain;
}

int64_t sr_x86_pointwise_fetch(int64_t outputs) {
    return sr_x86_min(FETCH_BYTES, sr_x86_ceil_div(FETCH_BYTES * FETCH_OUTPUTS, outputs));
}

size_t sr_x86_pointwise_scratch(const sr_x86_pointwise *g) {
    const int64_t spare = SR_X86_POINTWISE_ROWS * SR_X86_POINTWISE_VECTORS * 16;
    const int64_t packed = g->sum_rows * SR_X86_POINTWISE_PITCH;
    const int64_t sums = g->piece < g->in ? g->sum_rows * g->panels.columns : 0;
    return (size_t)(spare + packed + sums) * sizeof(float);
}

// Wide panels, and one or two narrow ones of two vectors; of one vector if there are no others.
sr_x86_panels sr_x86_panels_of(int64_t outputs) {
    const int64_t vectors = sr_x86_ceil_div(outputs, 16);
    sr_x86_panels p = {.columns = vectors * 16};
    p.narrow_vectors = sr_x86_min(vectors, SR_X86_POINTWISE_VECTORS - 1);
    p.wide = vectors / SR_X86_POINTWISE_VECTORS;
    while ((vectors - p.wide * SR_X86_POINTWISE_VECTORS) % p.narrow_vectors != 0)
        p.wide--;
    const int64_t rest = vectors - p.wide * SR_X86_POINTWISE_VECTORS;
    p.count = p.wide + rest / p.narrow_vectors;
    return p;
}

// Blocks stream over rows of x and y; with a stride, over rows of neither.
static void plan_walk(const sr_x86_pointwise *g, sr_kernel_stage *stage) {
    const uint32_t x = 1, w = 2, y = g->mirrored ? 4 : 8;
    stage->blocks = sr_x86_ceil_div(g->rows, g->grain);
    stage->rows = g->rows;
    stage->block_rows = g->grain;
    stage->granule = 1;
    if (g->strided)
        return;
    stage->streams = x | y;
    stage->leaves = w;
}

sr_status sr_x86_pointwise_plan(const sr_kernel_request *request, sr_prepared *out) {
    sr_x86_pointwise *g = sr_alloc(sizeof *g, "the plan of a 1x1 convolution");
    if (g == NULL)
        return SR_E_MEMORY;
    *g = geometry_of(request);
    g->panels = sr_x86_panels_of(g->out);
    g->piece = sr_x86_min(g->in, SR_X86_POINTWISE_PIECE);
    const bool dense = request->dtype[0] == SR_F32 && (!g->strided || g->spread);
    for (int i = 0; i < SR_X86_POINTWISE_DIRECT && dense; i++)
        if (sr_x86_pointwise_direct[i] == g->in)
            g->direct = i + 1;
    g->grain = sr_x86_pointwise_grain((g->in + g->out) * (int64_t)sizeof(float), g->rows);
    g->fetch_step = sr_x86_pointwise_fetch(g->out);
    g->sum_rows = SR_X86_POINTWISE_SUM_ROWS;
    out->state = g;
    out->state_free = sr_free;
    out->stages = 2;
    out->stage[0].blocks = g->panels.count;
    out->stage[0].leaves = ~UINT32_C(2);
    plan_walk(g, &out->stage[1]);
    out->workspace = (size_t)(g->in * g->panels.columns) * sizeof(float);
    out->scratch = sr_x86_pointwise_scratch(g);
    return SR_OK;
}
