// SPDX-License-Identifier: Apache-2.0
// U-Net (Ronneberger et al. 2015) around any backbone, as Unet of segmentation_models_pytorch, with
// its parameter names and initial values: from the backbone's last map, each block doubles the
// sides, joins the stage of that size and has two 3x3 convolutions, with batch norm, up to the size
// of the picture. A size that the backbone has no stage for gets a block without one.
#include <math.h>
#include <stddef.h>

#include "trainer/models/model_family_internal.h"
#include "trainer/models/segmentation/segment_head_internal.h"

enum { MOST_BLOCKS = 8, LAST_CHANNELS = 16, NO_STAGE = -1 };

typedef struct unet_options {
    sr_alternative backbone;
    sr_int_list channels;
} unet_options;

static const sr_option rows[] = {
    SR_BACKBONE_OPTION(unet_options, "resnet34",
                       "the model whose stages it sees, with its options; stem_stage is true where "
                       "it has it, unless given"),
    {.name = "channels",
     .help = "of each block, from the smallest map to the largest; unless given 256, 128, 64, 32, "
             "16, of which a backbone with a larger last map has the last ones",
     .type = SR_OPT_INTS,
     .offset = offsetof(unet_options, channels),
     .min = 1,
     .max = 1 << 16},
};

static const char *const preset[] = {"stem_stage", "true", "stage_maps", "first", NULL};
static const sr_option_table table = {.name = "model.unet",
                                      .options = rows,
                                      .count = sizeof rows / sizeof *rows,
                                      .struct_size = sizeof(unet_options),
                                      .alternatives = &sr_model_alternatives,
                                      .preset = preset};

typedef struct unet_block {
    int stage, stride; // that is joined, or NO_STAGE; of the result
    sr_conv_norm_layer conv[2];
} unet_block;

typedef struct unet {
    sr_child backbone;
    int blocks;
    unet_block block[MOST_BLOCKS];
    sr_conv_layer last;
} unet;

// The last stage of this stride before the last one.
static int stage_of(const sr_child *backbone, int stride) {
    for (int i = backbone->stage_count - 2; i >= 0; i--)
        if (backbone->stages[i].stride == stride)
            return i;
    return NO_STAGE;
}

// Those that double the sides of a map of this stride to those of the picture; 0 after a failure.
static int count_blocks(sr_builder *b, int stride, const sr_int_list *channels) {
    int count = 0;
    while (1 << count < stride)
        count++;
    if (1 << count != stride || count > MOST_BLOCKS)
        sr_build_fail(b, "the backbone's last map has a stride of %d, not a power of 2 up to %d",
                      stride, 1 << MOST_BLOCKS);
    else if (channels->count > 0 && channels->count != (size_t)count)
        sr_build_fail(b, "channels has %zu numbers, but a backbone of stride %d needs %d",
                      channels->count, stride, count);
    else
        return count;
    return 0;
}

static sr_init uniform(double fans) {
    return (sr_init){.kind = SR_INIT_UNIFORM, .scale = sqrt(6 / fans)};
}

static void build_block(sr_builder *b, unet_block *block, int64_t in, int64_t out) {
    static const char *const names[2][2] = {{"conv1.0", "conv1.1"}, {"conv2.0", "conv2.1"}};
    for (int i = 0; i < 2; i++) {
        sr_build_conv_norm_as(
            b, &block->conv[i], names[i][0], names[i][1],
            (sr_conv_norm_opts){
                .conv = {.in = in, .out = out, .window = 3, .init = uniform(9 * (double)in)},
                .activation = sr_relu});
        in = out;
    }
}

// Returns the channels of the last block.
static int64_t build_blocks(sr_builder *b, unet *net, const sr_int_list *channels) {
    const sr_model_stage *last = &net->backbone.stages[net->backbone.stage_count - 1];
    int64_t in = last->channels;
    net->blocks = count_blocks(b, last->stride, channels);
    for (int i = 0; i < net->blocks; i++) {
        unet_block *block = &net->block[i];
        const int64_t out =
            channels->count > 0 ? channels->items[i] : LAST_CHANNELS << (net->blocks - 1 - i);
        block->stride = last->stride >> (i + 1);
        block->stage = stage_of(&net->backbone, block->stride);
        in += block->stage == NO_STAGE ? 0 : net->backbone.stages[block->stage].channels;
        sr_build_push(b, "decoder.blocks.%d", i);
        build_block(b, block, in, out);
        sr_build_pop(b);
        in = out;
    }
    return in;
}

static void build_unet(sr_builder *b, const void *options, void *state) {
    const unet_options *o = options;
    const int64_t classes = sr_build_classes(b);
    unet *net = state;
    sr_build_child(b, &net->backbone, "backbone", &o->backbone, 0);
    const int64_t in = build_blocks(b, net, &o->channels);
    sr_build_conv(b, &net->last, "segmentation_head.0",
                  (sr_conv_layer_opts){.in = in,
                                       .out = classes,
                                       .window = 3,
                                       .conv = {.pad = 1},
                                       .has_bias = true,
                                       .zero_bias = true,
                                       .init = uniform(9 * (double)(in + classes))});
}

// The sides of a map: of the joined one, or of the picture divided by the stride.
static sr_tensor enlarged(const unet_block *block, sr_tensor x, sr_tensor joined,
                          sr_tensor picture) {
    sr_info info;
    if (!sr_tensor_info(sr_is_none(joined) ? picture : joined, &info))
        return SR_NONE;
    const int64_t stride = sr_is_none(joined) ? block->stride : 1;
    return sr_resize2d(x, (sr_resize2d_opts){.height = (int)((info.dim[1] + stride - 1) / stride),
                                             .width = (int)((info.dim[2] + stride - 1) / stride),
                                             .mode = SR_RESIZE_NEAREST});
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const unet *net = state;
    sr_tensor stages[SR_STAGES_MAX];
    sr_child_features(f, &net->backbone, inputs[0], stages);
    sr_tensor x = stages[net->backbone.stage_count - 1];
    for (int i = 0; i < net->blocks; i++) {
        const unet_block *block = &net->block[i];
        const sr_tensor joined = block->stage == NO_STAGE ? SR_NONE : stages[block->stage];
        x = enlarged(block, x, joined, inputs[0]);
        if (!sr_is_none(joined))
            x = sr_concat((sr_tensor[]){x, joined}, 2, 3);
        for (int k = 0; k < 2; k++)
            x = sr_layer_conv_norm(f, &block->conv[k], x);
    }
    sr_forward_output(f, "logits", sr_layer_conv(&net->last, x));
}

// ---- Names ----

static const sr_weight_name_row names_unet[] = {{{"backbone", "encoder"}}};
static const sr_weight_names names = {.layout = {"own", "segmentation_models_pytorch"},
                                      .rows = names_unet,
                                      .count = sizeof names_unet / sizeof *names_unet};

SR_MODEL_DESC(unet, "U-Net for segmentation (Ronneberger et al. 2015)", unet, .options = &table,
              .names = &names, .layout = 1)
