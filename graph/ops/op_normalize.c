// SPDX-License-Identifier: Apache-2.0
// normalize: images of bytes to floats, (x / 255 - mean) / std per channel. Gradients stop here.
#include "graph/ops/op_internal.h"

typedef struct normalize_attr {
    double mean[SR_NORMALIZE_MAX_CHANNELS]; // in units of u8
    double inverse_std[SR_NORMALIZE_MAX_CHANNELS];
    int32_t dtype, reserved;
} normalize_attr;

static const sr_attr_field fields[] = {SR_ATTR_ARRAY(normalize_attr, mean, -1e300, 1e300),
                                       SR_ATTR_ARRAY(normalize_attr, inverse_std, -1e300, 1e300),
                                       SR_ATTR_TYPE(normalize_attr, dtype),
                                       {0}};

static sr_status infer(const sr_node_view *node, sr_info *out) {
    const normalize_attr *a = node->attr;
    const sr_info *x = &node->in[0];
    char text[SR_INFO_TEXT];
    if (x->dtype != SR_U8 || x->rank < 1 || sr_op_channels(x) > SR_NORMALIZE_MAX_CHANNELS)
        return SR_FAIL(SR_E_SHAPE, "%s: x %s must be u8 [..., C] with at most %d channels",
                       node->op->name, sr_info_text(x, text), SR_NORMALIZE_MAX_CHANNELS);
    if (!sr_dtype_is_float((sr_dtype)a->dtype))
        return SR_FAIL(SR_E_SHAPE, "%s: target type %s must be f32, bf16, f16 or f64",
                       node->op->name, sr_dtype_name((sr_dtype)a->dtype));
    out[0] = *x;
    out[0].dtype = (sr_dtype)a->dtype;
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request) {
    const normalize_attr *a = node->attr;
    sr_normalize_params p = {.rows = sr_op_rows(&node->in[0]),
                             .channels = sr_op_channels(&node->in[0])};
    for (int c = 0; c < SR_NORMALIZE_MAX_CHANNELS; c++) {
        p.mean[c] = a->mean[c];
        p.inverse_std[c] = a->inverse_std[c];
    }
    return sr_op_lower(request, SR_KERNEL_normalize, &p, sizeof p);
}

const sr_op sr_op_normalize = {
    SR_OP_HEAD,
    .name = "normalize",
    .help = "u8 images to floats: (x / 255 - mean) / std per channel",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(normalize_attr),
    .fields = fields,
    .infer = infer,
    .lower = lower,
    .stops = 1u,
};

sr_tensor sr_normalize(sr_tensor x, const double *mean, const double *std, sr_dtype dtype) {
    normalize_attr attr = {.dtype = (int32_t)dtype};
    sr_info info;
    if (!sr_op_argument(x, "normalize: x", &info))
        return sr_op_failed();
    const int64_t channels = sr_op_channels(&info);
    for (int64_t c = 0; c < channels && c < SR_NORMALIZE_MAX_CHANNELS; c++) {
        attr.mean[c] = mean[c] * 255.0;
        attr.inverse_std[c] = 1.0 / (std[c] * 255.0);
    }
    return sr_op_unary(&sr_op_normalize, &attr, x);
}
