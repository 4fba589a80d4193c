// SPDX-License-Identifier: Apache-2.0
// Chooses the convolutions that are computed by Winograd's filtering, and their blocks (see
// x86_winograd_internal.h and x86_winograd_few_internal.h). A function of the shape alone.
#include "kernels/base/memory.h"
#include "kernels/cpu/x86/x86_internal.h"

// Fewest channels, in and out: from there on transforms cost little compared with the products they
// save.
#define LEAST_CHANNELS 16
// Cost of transforming the weights of each pair of channels, in direct products.
#define WEIGHTS_COST 3500
// Channels, in and out, from which on conv2d_dw is divided by points.
#define POINTS_CHANNELS 128
// Tiles of a block: their transforms of 64 to 256 channels stay in a second-level cache of 1 MiB,
// and the weights, which stream through it, are used often enough (measured: 12 to 128).
#define BLOCK_TILES 24
// The same in a variant of conv2d and conv2d_dx: up to 10 % faster with 64 channels when something
// else uses the second-level cache, too (measured; 48 tiles, and other divisions of conv2d_dw by
// points, are never the fastest).
#define FEW_TILES 12
// Tiles that conv2d_dw adds at a time when it is divided by points (measured: 48 to 192).
#define PASS_TILES 64
// Panels multiplied at a time: of outputs, with conv2d_dw of inputs too, and by points.
#define RANGE_PANELS 2
#define POINT_PANELS 8
// Fewest blocks when there are few tiles: enough for eight threads.
#define BLOCKS 8

// The same in products of pairs of bf16 (x86_dot_internal.h).
#define WEIGHTS_COST_DOT 2000

// Most tiles of a group when there are few: their sums, and the weights of two panels, stay in a
// second-level cache of 1 MiB (measured: 64 and 128).
#define GROUP_TILES 128
// Cost of transforming the weights for each group, in direct products.
#define WEIGHTS_COST_FEW 500
// From so many groups on, weights are transformed only once.
#define MANY_GROUPS 5

static int64_t phase_tiles(int64_t size, int64_t dilation) {
    return sr_x86_ceil_div(sr_x86_ceil_div(size, dilation), SR_X86_WINOGRAD_OUT);
}

// Tiles along a side: those of each phase that has pixels.
static int64_t side_tiles(int64_t size, int64_t dilation) {
    return sr_x86_min(size, dilation) * phase_tiles(size, dilation);
}

static int64_t tiles_of(const sr_conv_params *p) {
    return p->n * side_tiles(p->p, p->dilation_h) * side_tiles(p->q, p->dilation_w);
}

// Whether it is faster than direct kernels. Its cost: products of whole tiles, including their
// parts outside the picture, each cost/10 times a direct product (with the transforms; measured),
// and the weights.
static bool pays(const sr_conv_params *p, int64_t cost, int64_t weights) {
    const int64_t tiles = tiles_of(p);
    const int64_t direct = p->n * p->p * p->q * SR_X86_WINOGRAD_TAPS;
    const int64_t products = tiles * SR_X86_WINOGRAD_POINTS;
    return p->c >= LEAST_CHANNELS && p->k >= LEAST_CHANNELS && p->c + p->k >= 3 * LEAST_CHANNELS &&
           10 * direct >= cost * products + 10 * weights;
}

const char *const sr_x86_winograd_variants[] = {"tiles-12", NULL};

static bool by_points(const sr_conv_params *p) {
    return p->c >= POINTS_CHANNELS && p->k >= POINTS_CHANNELS;
}

static bool fits(const sr_conv_params *p) {
    return p->groups == 1 && p->r == 3 && p->s == 3 && p->stride_h == 1 && p->stride_w == 1;
}

bool sr_x86_winograd_supports_many(const sr_kernel_request *request) {
    const sr_conv_params *p = (const void *)request->params;
    return fits(p) && pays(p, 16, WEIGHTS_COST);
}

bool sr_x86_winograd_supports_few(const sr_kernel_request *request) {
    const sr_conv_params *p = (const void *)request->params;
    const int64_t groups = sr_x86_ceil_div(tiles_of(p), GROUP_TILES);
    return fits(p) && groups < MANY_GROUPS && pays(p, 16, groups * WEIGHTS_COST_FEW);
}

bool sr_x86_winograd_supports(const sr_kernel_request *request) {
    return sr_x86_winograd_supports_many(request) || sr_x86_winograd_supports_few(request);
}

bool sr_x86_winograd_outdoes_dot(const sr_kernel_request *request) {
    return sr_x86_winograd_supports(request) &&
           pays((const void *)request->params, 25, WEIGHTS_COST_DOT);
}

bool sr_x86_winograd_supports_dw(const sr_kernel_request *request) {
    return sr_x86_winograd_supports_many(request) && !by_points((const void *)request->params);
}

bool sr_x86_winograd_supports_points(const sr_kernel_request *request) {
    return sr_x86_winograd_supports_many(request) && by_points((const void *)request->params);
}

bool sr_x86_winograd_supports_dw_few(const sr_kernel_request *request) {
    return sr_x86_winograd_supports_few(request) && by_points((const void *)request->params);
}

static sr_x86_winograd geometry_of(const sr_kernel_request *request) {
    const sr_conv_params *p = (const void *)request->params;
    sr_x86_winograd g = {.h = p->h, .w = p->w, .c = p->c, .p = p->p, .q = p->q, .k = p->k};
    g.top = p->pad_top;
    g.left = p->pad_left;
    if (request->kernel == SR_KERNEL_conv2d_dx) {
        g = (sr_x86_winograd){.h = p->p, .w = p->q, .c = p->k, .p = p->h, .q = p->w, .k = p->c};
        g.top = 2 * p->dilation_h - p->pad_top;
        g.left = 2 * p->dilation_w - p->pad_left;
        g.mirrored = true;
    }
    g.dilation_h = p->dilation_h;
    g.dilation_w = p->dilation_w;
    g.phase_h = phase_tiles(g.p, g.dilation_h);
    g.phase_w = phase_tiles(g.q, g.dilation_w);
    g.tiles_h = side_tiles(g.p, g.dilation_h);
    g.tiles_w = side_tiles(g.q, g.dilation_w);
    g.tiles = p->n * g.tiles_h * g.tiles_w;
    g.in_panels = sr_x86_ceil_div(g.c, SR_X86_WINOGRAD_SIDE);
    g.out_panels = sr_x86_ceil_div(g.k, SR_X86_WINOGRAD_SIDE);
    return g;
}

static int64_t blocks_of(const sr_x86_winograd *g) {
    return sr_x86_ceil_div(g->tiles, g->block_tiles);
}

static sr_status finish(const sr_x86_winograd *plan, int64_t workspace, int64_t scratch,
                        sr_prepared *out) {
    sr_x86_winograd *g = sr_alloc(sizeof *g, "the plan of a Winograd convolution");
    if (g == NULL)
        return SR_E_MEMORY;
    *g = *plan;
    out->state = g;
    out->state_free = sr_free;
    out->workspace = (size_t)workspace * sizeof(float);
    out->scratch = (size_t)(sr_x86_winograd_zeros(g) + scratch) * sizeof(float);
    return SR_OK;
}

// About 'most' tiles per block: nearly the same number in all blocks, a multiple of four.
static int64_t block_tiles(const sr_x86_winograd *g, int64_t most) {
    const int64_t equal = sr_x86_ceil_div(g->tiles, sr_x86_ceil_div(g->tiles, most));
    return sr_x86_ceil_div(equal, 4) * 4;
}

sr_status sr_x86_winograd_plan(const sr_kernel_request *request, sr_prepared *out) {
    static const int64_t most[] = {BLOCK_TILES, FEW_TILES};
    sr_x86_winograd g = geometry_of(request);
    g.block_tiles = block_tiles(&g, most[out->variant]);
    if (out->variant > 0 && g.block_tiles == block_tiles(&g, BLOCK_TILES))
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "this variant is not possible: blocks have at most %lld tiles",
                       (long long)g.block_tiles);
    g.range_panels = sr_x86_min(g.out_panels, RANGE_PANELS);
    g.ranges = sr_x86_ceil_div(g.out_panels, g.range_panels);
    g.shares = sr_x86_min(g.ranges, sr_x86_ceil_div(BLOCKS, blocks_of(&g)));
    out->stages = 2;
    out->stage[0].blocks = g.out_panels;
    out->stage[1].blocks = blocks_of(&g) * g.shares;
    const int64_t weights = g.ranges * sr_x86_winograd_point(g.range_panels, g.c);
    const int64_t in = sr_x86_winograd_point(g.in_panels, g.block_tiles);
    const int64_t products = sr_x86_winograd_point(g.range_panels, g.block_tiles);
    return finish(&g, SR_X86_WINOGRAD_POINTS * weights, SR_X86_WINOGRAD_POINTS * (in + products),
                  out);
}

sr_status sr_x86_winograd_plan_dw(const sr_kernel_request *request, sr_prepared *out) {
    sr_x86_winograd g = geometry_of(request);
    g.block_tiles = BLOCK_TILES;
    g.range_panels = sr_x86_min(g.out_panels, RANGE_PANELS);
    g.ranges = sr_x86_ceil_div(g.out_panels, g.range_panels);
    g.in_range_panels = sr_x86_min(g.in_panels, RANGE_PANELS);
    g.in_ranges = sr_x86_ceil_div(g.in_panels, g.in_range_panels);
    const int64_t pairs = g.out_panels * g.in_panels, range_pairs = g.ranges * g.in_ranges;
    g.groups = 1;
    while (g.groups * range_pairs < BLOCKS && 2 * g.groups * g.block_tiles <= g.tiles)
        g.groups *= 2;
    out->stages = 2;
    out->stage[0].blocks = g.groups * range_pairs;
    out->stage[1].blocks = pairs;
    const int64_t panels = g.in_range_panels + g.range_panels;
    return finish(&g, g.groups * pairs * sr_x86_winograd_pair(),
                  SR_X86_WINOGRAD_POINTS * sr_x86_winograd_point(panels, g.block_tiles), out);
}

sr_status sr_x86_winograd_plan_points(const sr_kernel_request *request, sr_prepared *out) {
    sr_x86_winograd g = geometry_of(request);
    g.block_tiles = BLOCK_TILES;
    g.pass_tiles = PASS_TILES;
    g.groups = 1;
    g.range_panels = sr_x86_min(g.out_panels, POINT_PANELS);
    g.ranges = sr_x86_ceil_div(g.out_panels, g.range_panels);
    const int64_t pairs = g.out_panels * g.in_panels;
    out->stages = 3;
    out->stage[0].blocks = 2 * blocks_of(&g);
    out->stage[1].blocks = SR_X86_WINOGRAD_POINTS * g.ranges;
    out->stage[2].blocks = pairs;
    const int64_t transforms =
        sr_x86_winograd_point(g.in_panels, g.tiles) + sr_x86_winograd_point(g.out_panels, g.tiles);
    return finish(&g, pairs * sr_x86_winograd_pair() + SR_X86_WINOGRAD_POINTS * transforms, 0, out);
}

sr_status sr_x86_winograd_plan_few(const sr_kernel_request *request, sr_prepared *out) {
    sr_x86_winograd g = geometry_of(request);
    g.block_tiles = block_tiles(&g, GROUP_TILES);
    g.range_panels = 1;
    out->stages = 2;
    out->stage[0].blocks = g.in_panels;
    out->stage[1].blocks = blocks_of(&g) * g.out_panels;
    const int64_t weights = sr_x86_winograd_point(1, SR_X86_WINOGRAD_SIDE);
    const int64_t sums = sr_x86_winograd_point(1, g.block_tiles);
    return finish(&g, sr_x86_winograd_few_panels(&g, g.in_panels),
                  SR_X86_WINOGRAD_POINTS * (weights + sums), out);
}

sr_status sr_x86_winograd_plan_dw_few(const sr_kernel_request *request, sr_prepared *out) {
    sr_x86_winograd g = geometry_of(request);
    g.pass_tiles = PASS_TILES;
    out->stages = 2;
    out->stage[0].blocks = g.in_panels + g.out_panels;
    out->stage[1].blocks = g.out_panels * g.in_panels;
    return finish(&g, sr_x86_winograd_few_panels(&g, g.in_panels + g.out_panels),
                  sr_x86_winograd_pair(), out);
}
