// SPDX-License-Identifier: Apache-2.0
// See segment_head_internal.h.
#include "trainer/models/segmentation/segment_head_internal.h"

enum { STANDARD_RATES = 3, WIDE_STRIDE = 8 };

const char *const sr_dilated_backbone[] = {"output_stride", "8",     "dilated", "true",
                                           "stage_maps",    "first", NULL};

static const sr_weight_name_row names[] = {{{"backbone.features", "backbone"}}};
const sr_weight_names sr_torchvision_segmentation_names = {
    .layout = {"own", "torchvision"}, .rows = names, .count = sizeof names / sizeof *names};

int sr_build_auxiliary_stage(sr_builder *b, const sr_child *backbone, int64_t stage) {
    const int64_t chosen = stage < 0 ? backbone->stage_count + stage : stage;
    if (chosen >= 0 && chosen < backbone->stage_count)
        return (int)chosen;
    sr_build_fail(b,
                  "aux_stage is %lld, but the backbone has %d stage%s: give another, or aux: false",
                  (long long)stage, backbone->stage_count, backbone->stage_count == 1 ? "" : "s");
    return 0;
}

int sr_build_choose_rates(sr_builder *b, const sr_int_list *given, const sr_model_stage *stage,
                          int out[SR_MOST_RATES]) {
    static const int64_t wide[STANDARD_RATES] = {12, 24, 36}, narrow[STANDARD_RATES] = {6, 12, 18};
    const int64_t *rates = stage->stride <= WIDE_STRIDE ? wide : narrow;
    size_t count = STANDARD_RATES;
    if (given->count > 0) {
        rates = given->items;
        count = given->count;
    }
    if (count > SR_MOST_RATES) {
        sr_build_fail(b, "rates has %zu numbers; at most %d are possible", count, SR_MOST_RATES);
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        out[i] = (int)rates[i];
    return (int)count;
}

int sr_stage_of_stride(const sr_child *backbone, int64_t stride) {
    int i = 0;
    while (i < backbone->stage_count - 1 && backbone->stages[i].stride < stride)
        i++;
    return i;
}

void sr_build_fcn_head(sr_builder *b, sr_fcn_head *head, const char *name, int64_t in,
                       int64_t width, double dropout) {
    const sr_init init = {.kind = SR_INIT_TORCH_DEFAULT};
    width = width > 0 ? width : in > 4 ? in / 4 : 1;
    head->dropout = dropout;
    sr_build_push(b, "%s", name);
    sr_build_conv_norm_as(
        b, &head->conv, "0", "1",
        (sr_conv_norm_opts){.conv = {.in = in, .out = width, .window = 3, .init = init},
                            .activation = sr_relu});
    sr_build_conv(
        b, &head->last, "4",
        (sr_conv_layer_opts){
            .in = width, .out = sr_build_classes(b), .window = 1, .has_bias = true, .init = init});
    sr_build_pop(b);
}

sr_tensor sr_layer_fcn_head(sr_forward *f, const sr_fcn_head *head, sr_tensor x) {
    x = sr_layer_conv_norm(f, &head->conv, x);
    return sr_layer_conv(&head->last, sr_layer_dropout(f, x, head->dropout));
}

void sr_build_auxiliary(sr_builder *b, sr_auxiliary_head *head, const sr_child *backbone,
                        const sr_auxiliary_options *o) {
    head->used = o->used;
    head->weight = o->weight;
    if (!o->used)
        return;
    head->stage = sr_build_auxiliary_stage(b, backbone, o->stage);
    sr_build_fcn_head(b, &head->head, "aux_classifier", backbone->stages[head->stage].channels, 0,
                      o->dropout);
}

void sr_layer_auxiliary(sr_forward *f, const sr_auxiliary_head *head, const sr_tensor *stages) {
    if (head->used && f->training)
        sr_forward_auxiliary(f, "aux", sr_layer_fcn_head(f, &head->head, stages[head->stage]),
                             head->weight);
}

sr_tensor sr_layer_resize_like(sr_tensor x, sr_tensor like) {
    sr_info info;
    if (!sr_tensor_info(like, &info))
        return SR_NONE;
    return sr_resize2d(x, (sr_resize2d_opts){.height = (int)info.dim[1],
                                             .width = (int)info.dim[2],
                                             .mode = SR_RESIZE_BILINEAR});
}
