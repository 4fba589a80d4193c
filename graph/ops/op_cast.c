// SPDX-License-Identifier: Apache-2.0
// cast to another dtype. The gradient is cast back; none flows into or out of integers.
#include "graph/ops/op_internal.h"

typedef struct cast_attr {
    int32_t dtype;
} cast_attr;

static const sr_attr_field fields[] = {SR_ATTR_TYPE(cast_attr, dtype), {0}};

static sr_status infer(const sr_node_view *node, sr_info *out) {
    const sr_dtype dtype = (sr_dtype)((const cast_attr *)node->attr)->dtype;
    if (!sr_dtype_is_float(dtype) && dtype != SR_I32 && dtype != SR_U8)
        return SR_FAIL(SR_E_SHAPE, "%s: target type %s must be f32, bf16, f16, f64, i32 or u8",
                       node->op->name, sr_dtype_name(dtype));
    out[0] = node->in[0];
    out[0].dtype = dtype;
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request) {
    return sr_op_lower_count(node, request, SR_KERNEL_cast);
}

static void derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                       const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0] && sr_dtype_is_float(node->in[0].dtype))
        grad_in[0] = sr_cast(grad_out[0], node->in[0].dtype);
}

const sr_op sr_op_cast = {
    SR_OP_HEAD,
    .name = "cast",
    .help =
        "the same numbers in another type: floats rounded to nearest even, i32 and u8 towards 0",
    .inputs = 1,
    .input_name = {"x"},
    .required = 1,
    .outputs = 1,
    .attr_size = sizeof(cast_attr),
    .fields = fields,
    .infer = infer,
    .lower = lower,
    .derivative = derivative,
};

sr_tensor sr_cast(sr_tensor x, sr_dtype dtype) {
    const cast_attr attr = {(int32_t)dtype};
    return sr_op_unary(&sr_op_cast, &attr, x);
}

sr_tensor sr_op_as_type(sr_tensor x, sr_dtype dtype) {
    sr_info info;
    if (!sr_tensor_info(x, &info) || info.dtype == dtype)
        return x;
    return sr_cast(x, dtype);
}
