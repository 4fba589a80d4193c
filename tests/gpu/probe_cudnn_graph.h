// SPDX-License-Identifier: Apache-2.0
// Graphs of operations for cuDNN (cudnn_graph.h): the patterns of probe_cudnn.c, over the
// convolutions of ResNet-50.
#ifndef SR_TESTS_GPU_PROBE_CUDNN_GRAPH_H
#define SR_TESTS_GPU_PROBE_CUDNN_GRAPH_H

#include <cudnn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DESCRIPTORS = 160, MAX_OPS = 8, MAX_TENSORS = 16 };

typedef struct conv_shape {
    int64_t c, side, k, window, stride;
} conv_shape;

// The different convolutions of ResNet-50 at 224 px; the first has its channels padded to 8.
static const conv_shape shapes[] = {
    {8, 224, 64, 7, 2},     {64, 56, 64, 1, 1},    {64, 56, 64, 3, 1},    {64, 56, 256, 1, 1},
    {256, 56, 64, 1, 1},    {256, 56, 128, 1, 1},  {128, 56, 128, 3, 2},  {128, 28, 512, 1, 1},
    {256, 56, 512, 1, 2},   {512, 28, 128, 1, 1},  {128, 28, 128, 3, 1},  {512, 28, 256, 1, 1},
    {256, 28, 256, 3, 2},   {256, 14, 1024, 1, 1}, {512, 28, 1024, 1, 2}, {1024, 14, 256, 1, 1},
    {256, 14, 256, 3, 1},   {1024, 14, 512, 1, 1}, {512, 14, 512, 3, 2},  {512, 7, 2048, 1, 1},
    {1024, 14, 2048, 1, 2}, {2048, 7, 512, 1, 1},  {512, 7, 512, 3, 1}};

// A graph under construction. The first failure is kept; later calls do nothing.
typedef struct graph {
    cudnnDataType_t type; // of activations and weights
    int64_t batch;
    conv_shape shape;
    cudnnBackendDescriptor_t all[MAX_DESCRIPTORS], ops[MAX_OPS];
    int count, op_count;
    size_t bytes[MAX_TENSORS]; // of tensors in memory, 0: a float by value; uid = index + 1
    int tensor_count;
    int64_t virtual_uid;
    bool failed;
    char reason[256];
} graph;

typedef cudnnBackendDescriptor_t descriptor;

static void fail(graph *g, const char *what, cudnnStatus_t status) {
    char detail[192] = "";
    if (g->failed)
        return;
    cudnnGetLastErrorString(detail, sizeof detail);
    for (char *c = detail; *c; c++)
        if (*c == '\n' || *c == '\t' || *c == '|')
            *c = ' ';
    g->failed = true;
    snprintf(g->reason, sizeof g->reason, "%s: %d %s", what, (int)status, detail);
}

static descriptor create(graph *g, cudnnBackendDescriptorType_t type) {
    descriptor d = NULL;
    if (g->failed)
        return NULL;
    cudnnStatus_t status = cudnnBackendCreateDescriptor(type, &d);
    if (status != CUDNN_STATUS_SUCCESS)
        fail(g, "create", status);
    else if (g->count == MAX_DESCRIPTORS)
        fail(g, "too many descriptors", status);
    else
        g->all[g->count++] = d;
    return d;
}

static void set(graph *g, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    if (g->failed)
        return;
    cudnnStatus_t status = cudnnBackendSetAttribute(d, name, type, count, values);
    if (status != CUDNN_STATUS_SUCCESS) {
        char what[32];
        snprintf(what, sizeof what, "attribute %d", (int)name);
        fail(g, what, status);
    }
}

static void set_desc(graph *g, descriptor d, cudnnBackendAttributeName_t name, descriptor value) {
    set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static descriptor finalize(graph *g, descriptor d, const char *what) {
    if (g->failed)
        return NULL;
    cudnnStatus_t status = cudnnBackendFinalize(d);
    if (status != CUDNN_STATUS_SUCCESS)
        fail(g, what, status);
    return d;
}

static void release(graph *g) {
    for (int i = g->count; i-- > 0;)
        cudnnBackendDestroyDescriptor(g->all[i]);
    g->count = 0;
}

// ---- Tensors, all channels last ----

static size_t type_bytes(cudnnDataType_t type) {
    return type == CUDNN_DATA_FLOAT ? 4 : type == CUDNN_DATA_BOOLEAN ? 1 : 2;
}

static descriptor tensor(graph *g, cudnnDataType_t type, const int64_t dim[4], bool is_virtual) {
    const int64_t stride[4] = {dim[1] * dim[2] * dim[3], 1, dim[1] * dim[3], dim[1]};
    const int64_t alignment = 16;
    int64_t uid = is_virtual ? 1000 + g->virtual_uid++ : g->tensor_count + 1;
    descriptor d = create(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    if (!is_virtual && g->tensor_count < MAX_TENSORS)
        g->bytes[g->tensor_count++] =
            (size_t)(dim[0] * dim[1] * dim[2] * dim[3]) * type_bytes(type);
    return finalize(g, d, "tensor");
}

// 1e-5 and the like, passed by value.
static descriptor scalar(graph *g) {
    const int64_t one[4] = {1, 1, 1, 1}, uid = g->tensor_count + 1, alignment = 4;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const bool by_value = true;
    descriptor d = create(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, one);
    set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, one);
    set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    if (g->tensor_count < MAX_TENSORS)
        g->bytes[g->tensor_count++] = 0;
    return finalize(g, d, "scalar");
}

static int64_t out_side(const graph *g) {
    int64_t pad = g->shape.window / 2;
    return (g->shape.side + 2 * pad - g->shape.window) / g->shape.stride + 1;
}

static void x_dim(const graph *g, int64_t dim[4]) {
    dim[0] = g->batch;
    dim[1] = g->shape.c;
    dim[2] = dim[3] = g->shape.side;
}

static void y_dim(const graph *g, int64_t dim[4]) {
    dim[0] = g->batch;
    dim[1] = g->shape.k;
    dim[2] = dim[3] = out_side(g);
}

static descriptor x_tensor(graph *g) {
    int64_t dim[4];
    x_dim(g, dim);
    return tensor(g, g->type, dim, false);
}

static descriptor y_tensor(graph *g) {
    int64_t dim[4];
    y_dim(g, dim);
    return tensor(g, g->type, dim, false);
}

static descriptor x_between(graph *g) { // in registers: fp32
    int64_t dim[4];
    x_dim(g, dim);
    return tensor(g, CUDNN_DATA_FLOAT, dim, true);
}

static descriptor y_between(graph *g) {
    int64_t dim[4];
    y_dim(g, dim);
    return tensor(g, CUDNN_DATA_FLOAT, dim, true);
}

static descriptor w_tensor(graph *g) {
    const int64_t dim[4] = {g->shape.k, g->shape.c, g->shape.window, g->shape.window};
    return tensor(g, g->type, dim, false);
}

static descriptor vector(graph *g, cudnnDataType_t type, int64_t channels) {
    const int64_t dim[4] = {1, channels, 1, 1};
    return tensor(g, type, dim, false);
}

// ---- Operations ----

static void add_op(graph *g, descriptor op, const char *what) {
    finalize(g, op, what);
    if (!g->failed && g->op_count < MAX_OPS)
        g->ops[g->op_count++] = op;
}

static descriptor convolution(graph *g) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t dims = 2, pad[2] = {g->shape.window / 2, g->shape.window / 2},
                  stride[2] = {g->shape.stride, g->shape.stride}, dilation[2] = {1, 1};
    descriptor d = create(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
    set(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    set(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    set(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
    set(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
    return finalize(g, d, "convolution");
}

static void set_scalars(graph *g, descriptor op, cudnnBackendAttributeName_t alpha,
                        cudnnBackendAttributeName_t beta) {
    const float one = 1, zero = 0;
    set(g, op, alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(g, op, beta, CUDNN_TYPE_FLOAT, 1, &zero);
}

static void forward(graph *g, descriptor x, descriptor w, descriptor y) {
    descriptor conv = convolution(g);
    descriptor op = create(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, conv);
    set_desc(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    set_desc(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    set_desc(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    set_scalars(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
    add_op(g, op, "forward");
}

static void backward_data(graph *g, descriptor dx, descriptor w, descriptor dy) {
    descriptor conv = convolution(g);
    descriptor op = create(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, conv);
    set_desc(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx);
    set_desc(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w);
    set_desc(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy);
    set_scalars(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
    add_op(g, op, "backward data");
}

static void backward_filter(graph *g, descriptor dw, descriptor x, descriptor dy) {
    descriptor conv = convolution(g);
    descriptor op = create(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, conv);
    set_desc(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dw);
    set_desc(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x);
    set_desc(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy);
    set_scalars(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
    add_op(g, op, "backward filter");
}

// y = mode(x, b); b NULL for modes of one operand.
static void pointwise(graph *g, cudnnPointwiseMode_t mode, descriptor x, descriptor b,
                      descriptor y) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    descriptor how = create(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finalize(g, how, "pointwise mode");
    descriptor op = create(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add_op(g, op, "pointwise");
}

static void statistics(graph *g, descriptor x, descriptor sum, descriptor squares) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    descriptor op = create(g, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    set(g, op, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode);
    set(g, op, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set_desc(g, op, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, x);
    set_desc(g, op, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum);
    set_desc(g, op, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares);
    add_op(g, op, "statistics");
}

static void reduce_sum(graph *g, descriptor x, descriptor y) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnReduceTensorOp_t add = CUDNN_REDUCE_TENSOR_ADD;
    descriptor how = create(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &add);
    set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finalize(g, how, "reduction mode");
    descriptor op = create(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    set_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    add_op(g, op, "reduction");
}

// Batch norm after the convolution, in training.
static void norm_forward(graph *g, descriptor x, descriptor scale, descriptor bias, descriptor mean,
                         descriptor inv_std, descriptor y) {
    const cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
    const cudnnBackendNormFwdPhase_t phase = CUDNN_NORM_FWD_TRAINING;
    descriptor epsilon = scalar(g);
    descriptor op = create(g, CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
    set(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
    set(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, &phase);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, inv_std);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, scale);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, bias);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, epsilon);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y);
    add_op(g, op, "batch norm");
}

static void norm_backward(graph *g, descriptor x, descriptor dy, descriptor scale, descriptor mean,
                          descriptor inv_std, descriptor dx) {
    const cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
    descriptor dscale = vector(g, CUDNN_DATA_FLOAT, g->shape.k),
               dbias = vector(g, CUDNN_DATA_FLOAT, g->shape.k);
    descriptor op = create(g, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
    set(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, x);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, mean);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, inv_std);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, dy);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, scale);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, dscale);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, dbias);
    set_desc(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, dx);
    add_op(g, op, "batch norm, backward");
}

// ---- Patterns ----

static void fprop(graph *g) {
    descriptor x = x_tensor(g), w = w_tensor(g);
    forward(g, x, w, y_tensor(g));
}

static void dgrad(graph *g) {
    descriptor dx = x_tensor(g), w = w_tensor(g);
    backward_data(g, dx, w, y_tensor(g));
}

static void wgrad(graph *g) {
    descriptor dw = w_tensor(g), x = x_tensor(g);
    backward_filter(g, dw, x, y_tensor(g));
}

static void fprop_stats(graph *g) {
    descriptor x = x_tensor(g), w = w_tensor(g), y = y_tensor(g);
    forward(g, x, w, y);
    descriptor sum = vector(g, CUDNN_DATA_FLOAT, g->shape.k);
    statistics(g, y, sum, vector(g, CUDNN_DATA_FLOAT, g->shape.k));
}

// Runtime engines fuse only one reduction: the sum of squares.
static void fprop_squares(graph *g) {
    descriptor x = x_tensor(g), w = w_tensor(g), y = y_tensor(g), squares = y_between(g);
    forward(g, x, w, y);
    pointwise(g, CUDNN_POINTWISE_MUL, y, y, squares);
    reduce_sum(g, squares, vector(g, CUDNN_DATA_FLOAT, g->shape.k));
}

// relu(x * scale + bias), in registers: batch norm of the previous layer.
static descriptor normalised_input(graph *g) {
    descriptor x = x_tensor(g), scale = vector(g, g->type, g->shape.c),
               bias = vector(g, g->type, g->shape.c);
    descriptor scaled = x_between(g), shifted = x_between(g), out = x_between(g);
    pointwise(g, CUDNN_POINTWISE_MUL, x, scale, scaled);
    pointwise(g, CUDNN_POINTWISE_ADD, scaled, bias, shifted);
    pointwise(g, CUDNN_POINTWISE_RELU_FWD, shifted, NULL, out);
    return out;
}

static void norm_fprop(graph *g) {
    descriptor x = normalised_input(g), w = w_tensor(g);
    forward(g, x, w, y_tensor(g));
}

static void norm_fprop_stats(graph *g) {
    descriptor x = normalised_input(g), w = w_tensor(g), y = y_tensor(g);
    forward(g, x, w, y);
    descriptor sum = vector(g, CUDNN_DATA_FLOAT, g->shape.k);
    statistics(g, y, sum, vector(g, CUDNN_DATA_FLOAT, g->shape.k));
}

static void norm_wgrad(graph *g) {
    descriptor x = normalised_input(g), dw = w_tensor(g);
    backward_filter(g, dw, x, y_tensor(g));
}

// The gradient after a batch norm, a * dy + b * y + c, computed in the prologue of the
// convolution's.
static void dnorm_dgrad(graph *g) {
    descriptor dy = y_tensor(g), y = y_tensor(g), a = vector(g, CUDNN_DATA_FLOAT, g->shape.k),
               b = vector(g, CUDNN_DATA_FLOAT, g->shape.k),
               c = vector(g, CUDNN_DATA_FLOAT, g->shape.k);
    descriptor first = y_between(g), second = y_between(g), both = y_between(g), out = y_between(g);
    pointwise(g, CUDNN_POINTWISE_MUL, dy, a, first);
    pointwise(g, CUDNN_POINTWISE_MUL, y, b, second);
    pointwise(g, CUDNN_POINTWISE_ADD, first, second, both);
    pointwise(g, CUDNN_POINTWISE_ADD, both, c, out);
    descriptor dx = x_tensor(g), w = w_tensor(g);
    backward_data(g, dx, w, out);
}

// After a convolution: relu(y + residual), as an epilogue.
static void fprop_add_relu(graph *g) {
    descriptor x = x_tensor(g), w = w_tensor(g), y = y_between(g), sum = y_between(g),
               residual = y_tensor(g);
    forward(g, x, w, y);
    pointwise(g, CUDNN_POINTWISE_ADD, y, residual, sum);
    pointwise(g, CUDNN_POINTWISE_RELU_FWD, sum, NULL, y_tensor(g));
}

static void batch_norm(graph *g) {
    descriptor x = y_tensor(g), scale = vector(g, CUDNN_DATA_FLOAT, g->shape.k),
               bias = vector(g, CUDNN_DATA_FLOAT, g->shape.k),
               mean = vector(g, CUDNN_DATA_FLOAT, g->shape.k);
    norm_forward(g, x, scale, bias, mean, vector(g, CUDNN_DATA_FLOAT, g->shape.k), y_tensor(g));
}

static void batch_norm_relu(graph *g) {
    descriptor x = y_tensor(g), scale = vector(g, CUDNN_DATA_FLOAT, g->shape.k),
               bias = vector(g, CUDNN_DATA_FLOAT, g->shape.k),
               mean = vector(g, CUDNN_DATA_FLOAT, g->shape.k),
               inv_std = vector(g, CUDNN_DATA_FLOAT, g->shape.k), between = y_between(g);
    norm_forward(g, x, scale, bias, mean, inv_std, between);
    pointwise(g, CUDNN_POINTWISE_RELU_FWD, between, NULL, y_tensor(g));
}

static void batch_norm_dx(graph *g) {
    descriptor x = y_tensor(g), dy = y_tensor(g), scale = vector(g, CUDNN_DATA_FLOAT, g->shape.k),
               mean = vector(g, CUDNN_DATA_FLOAT, g->shape.k),
               inv_std = vector(g, CUDNN_DATA_FLOAT, g->shape.k);
    norm_backward(g, x, dy, scale, mean, inv_std, y_tensor(g));
}

static const struct {
    const char *name;
    void (*build)(graph *g);
    bool of_output; // only: shapes with equal outputs are the same
} patterns[] = {
    {"fprop", fprop, false},
    {"dgrad", dgrad, false},
    {"wgrad", wgrad, false},
    {"fprop_stats", fprop_stats, false},
    {"fprop_squares", fprop_squares, false},
    {"norm_fprop", norm_fprop, false},
    {"norm_fprop_stats", norm_fprop_stats, false},
    {"norm_wgrad", norm_wgrad, false},
    {"dnorm_dgrad", dnorm_dgrad, false},
    {"fprop_add_relu", fprop_add_relu, false},
    {"batch_norm", batch_norm, true},
    {"batch_norm_relu", batch_norm_relu, true},
    {"batch_norm_dx", batch_norm_dx, true},
};
enum {
    PATTERNS = sizeof patterns / sizeof patterns[0],
    SHAPES = sizeof shapes / sizeof shapes[0],
};

static const struct {
    const char *name;
    cudnnDataType_t type;
} types[] = {{"bf16", CUDNN_DATA_BFLOAT16}, {"fp16", CUDNN_DATA_HALF}, {"tf32", CUDNN_DATA_FLOAT}};
enum { TYPES = sizeof types / sizeof types[0], TIMED_TYPES = 2 };

#endif
