// SPDX-License-Identifier: Apache-2.0
// See inverted_residual_internal.h.
#include <stdio.h>

#include "trainer/models/inverted_residual_internal.h"

// The builder, how it names layers, and the number of the next one.
typedef struct naming {
    sr_builder *b;
    const sr_inverted_opts *opts;
    int next;
} naming;

static void build_conv(naming *n, sr_conv_norm_layer *layer, sr_conv_layer_opts conv,
                       bool projects) {
    const sr_conv_norm_opts opts = {
        .conv = conv, .norm = n->opts->norm, .activation = projects ? NULL : n->opts->activation};
    char conv_name[16], norm_name[16];
    const sr_inverted_names names = n->opts->names;
    const bool flat = names == SR_INVERTED_FLAT || (projects && names == SR_INVERTED_FLAT_END);
    (void)snprintf(conv_name, sizeof conv_name, "%d", n->next++);
    if (!flat) {
        sr_build_conv_norm(n->b, layer, conv_name, opts);
        return;
    }
    (void)snprintf(norm_name, sizeof norm_name, "%d", n->next++);
    sr_build_conv_norm_as(n->b, layer, conv_name, norm_name, opts);
    n->next++; // the activation
}

static void build_squeeze(naming *n, sr_inverted_residual *block) {
    sr_squeeze_opts opts = n->opts->squeeze;
    char name[16];
    opts.channels = n->opts->expanded;
    (void)snprintf(name, sizeof name, "%d", n->next++);
    sr_build_squeeze(n->b, &block->squeeze, name, opts);
}

void sr_build_inverted(sr_builder *b, sr_inverted_residual *block, sr_inverted_opts o) {
    naming n = {.b = b, .opts = &o, .next = o.first_number};
    const bool dilated = o.dilation > 1;
    const sr_conv2d_opts spatial = {.stride = dilated ? 1 : o.stride, .dilation = o.dilation};
    sr_conv_layer_opts conv = {.in = o.in, .out = o.expanded, .window = 1};
    block->expands = o.expanded != o.in;
    block->filters = !o.fused;
    block->squeezes = o.squeeze.squeezed > 0;
    block->adds = o.stride == 1 && o.in == o.out;
    block->drop = o.drop;
    if (o.fused) {
        conv.window = o.window;
        conv.conv = spatial;
    }
    if (block->expands)
        build_conv(&n, &block->expand, conv, false);
    if (block->filters) {
        conv = (sr_conv_layer_opts){
            .in = o.expanded, .out = o.expanded, .window = o.window, .conv = spatial};
        conv.conv.groups = (int)o.expanded;
        build_conv(&n, &block->depthwise, conv, false);
    }
    if (block->squeezes)
        build_squeeze(&n, block);
    if (!o.fused || block->expands)
        conv = (sr_conv_layer_opts){.window = 1};
    conv.in = o.expanded;
    conv.out = o.out;
    build_conv(&n, &block->project, conv, !o.fused || block->expands);
}

sr_tensor sr_layer_inverted(sr_forward *f, const sr_inverted_residual *block, sr_tensor x) {
    sr_tensor y = x;
    if (block->expands)
        y = sr_layer_conv_norm(f, &block->expand, y);
    if (block->filters)
        y = sr_layer_conv_norm(f, &block->depthwise, y);
    if (block->squeezes)
        y = sr_layer_squeeze(&block->squeeze, y);
    y = sr_layer_conv_norm(f, &block->project, y);
    return block->adds ? sr_add(sr_layer_drop_path(f, y, block->drop), x) : y;
}

static void add_stage(sr_builder *b, sr_mobile_trunk *trunk, int64_t channels) {
    sr_build_stage(b, channels, trunk->stride);
    trunk->stages++;
}

void sr_build_mobile_block(sr_builder *b, sr_mobile_trunk *trunk, sr_inverted_opts opts) {
    if (trunk->blocks == SR_MOBILE_BLOCKS) {
        sr_build_fail(b, "more than %d blocks", SR_MOBILE_BLOCKS);
        return;
    }
    const bool strides = opts.stride > 1;
    trunk->stride = trunk->stride > 0 ? trunk->stride : 2;
    trunk->strides[trunk->blocks] = strides;
    if (trunk->takes_first ? trunk->blocks == 0 : strides)
        add_stage(b, trunk, opts.in);
    trunk->stride *= opts.dilation > 1 ? 1 : opts.stride;
    if (trunk->takes_first && strides)
        add_stage(b, trunk, opts.out);
    trunk->channels = opts.out;
    sr_build_inverted(b, &trunk->block[trunk->blocks++], opts);
}

void sr_build_mobile_end(sr_builder *b, sr_mobile_trunk *trunk, int64_t channels) {
    add_stage(b, trunk, channels);
}

void sr_mobile_features(sr_forward *f, const void *state, sr_tensor x, sr_tensor *stages) {
    const sr_mobile_trunk *trunk = state;
    x = sr_layer_conv_norm(f, &trunk->first, x);
    if (trunk->takes_first)
        *stages++ = x;
    for (int i = 0; i < trunk->blocks; i++) {
        if (trunk->strides[i] && !trunk->takes_first)
            *stages++ = x;
        x = sr_layer_inverted(f, &trunk->block[i], x);
        if (trunk->strides[i] && trunk->takes_first)
            *stages++ = x;
    }
    *stages = sr_layer_conv_norm(f, &trunk->last, x);
}

sr_tensor sr_mobile_pooled(sr_forward *f, const sr_mobile_trunk *trunk, sr_tensor x) {
    sr_tensor stages[SR_STAGES_MAX];
    sr_mobile_features(f, trunk, x, stages);
    return sr_global_avgpool(stages[trunk->stages - 1]);
}
