// SPDX-License-Identifier: Apache-2.0
// What cuDNN offers for training ResNet-50, through its graph API (cudnn_graph.h): for each pattern
// of operations, type and convolution shape, whether there is an engine, why not, and how fast.
//
//   probe_cudnn devices              the device's properties as JSON, for heuristics without a GPU
//   probe_cudnn check                builds every pattern up to its operations; needs no GPU
//   probe_cudnn table BATCH SECONDS DONE [PATTERN...]
//       a line for each row that is not in the file DONE, until SECONDS are over: pattern, type,
//       shape, "ok" or "no", number of working engines, microseconds of the heuristics' first
//       choice, of the fastest engine, of the fastest deterministic one (0: none), GFLOP, and the
//       reason for a "no"
//
// Every launch is timed separately, after a write of 256 MB that evicts the cache; median of 9.
// Data are random. Not a test: no result is judged.
#include <cuda_runtime.h>
#include <cudnn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_DESCRIPTORS = 96, MAX_OPS = 8, MAX_TENSORS = 16, MAX_CONFIGS = 12, RUNS = 9 };

static const size_t pool_bytes = (size_t)8 << 30, flush_bytes = (size_t)256 << 20,
                    workspace_bytes = (size_t)2 << 30;

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
    size_t bytes[MAX_TENSORS]; // of tensors in memory; uid = index + 1
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

static const struct {
    const char *name;
    void (*build)(graph *g);
} patterns[] = {
    {"fprop", fprop},
    {"dgrad", dgrad},
    {"wgrad", wgrad},
    {"fprop_stats", fprop_stats},
    {"fprop_squares", fprop_squares},
    {"norm_fprop", norm_fprop},
    {"norm_fprop_stats", norm_fprop_stats},
    {"norm_wgrad", norm_wgrad},
    {"dnorm_dgrad", dnorm_dgrad},
    {"fprop_add_relu", fprop_add_relu},
};
enum {
    PATTERNS = sizeof patterns / sizeof patterns[0],
    SHAPES = sizeof shapes / sizeof shapes[0],
};

static const struct {
    const char *name;
    cudnnDataType_t type;
} types[] = {{"bf16", CUDNN_DATA_BFLOAT16}, {"fp16", CUDNN_DATA_HALF}};

static void shape_text(const conv_shape *s, char out[64]) {
    snprintf(out, 64, "%lldx%lld %lld->%lld %lldx%lld/%lld", (long long)s->side, (long long)s->side,
             (long long)s->c, (long long)s->k, (long long)s->window, (long long)s->window,
             (long long)s->stride);
}

// ---- Without a GPU ----

static int check_patterns(void) {
    int bad = 0;
    for (int p = 0; p < PATTERNS; p++) {
        for (int t = 0; t < 2; t++) {
            for (int s = 0; s < SHAPES; s++) {
                graph g = {.type = types[t].type, .batch = 256, .shape = shapes[s]};
                patterns[p].build(&g);
                if (g.failed) {
                    char text[64];
                    shape_text(&shapes[s], text);
                    printf("%s %s %s: %s\n", patterns[p].name, types[t].name, text, g.reason);
                    bad++;
                }
                release(&g);
            }
        }
    }
    printf("%d patterns of %d shapes in 2 types, %d cannot be described; cuDNN %zu\n", PATTERNS,
           SHAPES, bad, cudnnGetVersion());
    return bad ? 1 : 0;
}

// ---- With a GPU ----

#define CHECK_CUDA(call)                                                                           \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

typedef struct machine {
    cudnnHandle_t handle;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    char *pool, *workspace;
    void *flush;
} machine;

// bf16 numbers in [-1, 1), which are finite and moderate in fp16 and, two at a time, in fp32 too.
static void fill_random(char *pool, size_t bytes) {
    const size_t part = (size_t)64 << 20;
    uint16_t *block = malloc(part);
    uint32_t x = 1;
    if (!block)
        exit(1);
    for (size_t i = 0; i < part / 2; i++) {
        union {
            float f;
            uint32_t u;
        } value;
        x = x * 1664525u + 1013904223u;
        value.f = (float)(x >> 8) * 0x1p-23f - 1.0f;
        block[i] = (uint16_t)(value.u >> 16);
    }
    for (size_t at = 0; at < bytes; at += part)
        CHECK_CUDA(cudaMemcpy(pool + at, block, part, cudaMemcpyHostToDevice));
    free(block);
}

static void open_machine(machine *m) {
    void *memory;
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaStreamCreateWithFlags(&m->stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaEventCreate(&m->begin));
    CHECK_CUDA(cudaEventCreate(&m->end));
    cudnnStatus_t status = cudnnCreate(&m->handle);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnSetStream(m->handle, m->stream);
    if (status != CUDNN_STATUS_SUCCESS) {
        fprintf(stderr, "cudnnCreate: %s\n", cudnnGetErrorString(status));
        exit(1);
    }
    CHECK_CUDA(cudaMalloc(&memory, pool_bytes));
    m->pool = memory;
    CHECK_CUDA(cudaMalloc(&memory, workspace_bytes));
    m->workspace = memory;
    CHECK_CUDA(cudaMalloc(&m->flush, flush_bytes));
    fill_random(m->pool, pool_bytes);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Microseconds of a plan; 0 if it does not run.
static double time_plan(graph *g, machine *m, descriptor plan) {
    int64_t uid[MAX_TENSORS];
    void *pointer[MAX_TENSORS];
    size_t at = 0;
    double us[RUNS];
    for (int i = 0; i < g->tensor_count; i++) {
        uid[i] = i + 1;
        pointer[i] = m->pool + at;
        at += (g->bytes[i] + 255) & ~(size_t)255;
    }
    if (at > pool_bytes) {
        fail(g, "tensors larger than the pool", CUDNN_STATUS_SUCCESS);
        return 0;
    }
    descriptor pack = create(g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, g->tensor_count, uid);
    set(g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, g->tensor_count,
        pointer);
    set(g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &m->workspace);
    finalize(g, pack, "variant pack");
    for (int i = -2; i < RUNS && !g->failed; i++) {
        float ms = 0;
        CHECK_CUDA(cudaMemsetAsync(m->flush, 1, flush_bytes, m->stream));
        CHECK_CUDA(cudaEventRecord(m->begin, m->stream));
        cudnnStatus_t status = cudnnBackendExecute(m->handle, plan, pack);
        CHECK_CUDA(cudaEventRecord(m->end, m->stream));
        CHECK_CUDA(cudaEventSynchronize(m->end));
        CHECK_CUDA(cudaEventElapsedTime(&ms, m->begin, m->end));
        if (status != CUDNN_STATUS_SUCCESS)
            fail(g, "execute", status);
        if (i >= 0)
            us[i] = 1e3 * (double)ms;
    }
    if (g->failed)
        return 0;
    qsort(us, RUNS, sizeof us[0], compare);
    return us[RUNS / 2];
}

static bool is_deterministic(descriptor config) {
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    descriptor engine;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) !=
        CUDNN_STATUS_SUCCESS)
        return false;
    bool deterministic =
        cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 1, &count, &engine) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count,
                                 notes) == CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; deterministic && i < count; i++)
        deterministic = notes[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    cudnnBackendDestroyDescriptor(engine);
    return deterministic;
}

typedef struct row {
    int working;
    double first_us, best_us, deterministic_us;
} row;

// Makes and times the plan of a configuration; a failure affects only this configuration.
static void try_config(graph *g, machine *m, descriptor config, row *out) {
    int64_t workspace = 0, count = 0;
    int kept = g->count;
    descriptor plan = create(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &m->handle);
    set_desc(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    finalize(g, plan, "plan");
    if (!g->failed)
        (void)cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, &count, &workspace);
    if ((size_t)workspace > workspace_bytes)
        fail(g, "workspace over 2 GiB", CUDNN_STATUS_SUCCESS);
    double us = g->failed ? 0 : time_plan(g, m, plan);
    while (g->count > kept)
        cudnnBackendDestroyDescriptor(g->all[--g->count]);
    g->failed = false;
    if (us <= 0)
        return;
    if (out->working++ == 0)
        out->first_us = us;
    if (out->best_us == 0 || us < out->best_us)
        out->best_us = us;
    if (is_deterministic(config) && (out->deterministic_us == 0 || us < out->deterministic_us))
        out->deterministic_us = us;
}

static void try_heuristics(graph *g, machine *m, descriptor operations, cudnnBackendHeurMode_t mode,
                           row *out) {
    descriptor configs[MAX_CONFIGS];
    int64_t count = 0;
    descriptor heuristics = create(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_desc(g, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations);
    set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(g, heuristics, "heuristics");
    for (int i = 0; i < MAX_CONFIGS; i++)
        configs[i] = create(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->failed)
        return;
    cudnnStatus_t status =
        cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_CONFIGS, &count, configs);
    if (status != CUDNN_STATUS_SUCCESS || count == 0) {
        fail(g, "no engine", status);
        return;
    }
    for (int64_t i = 0; i < count && i < MAX_CONFIGS; i++)
        try_config(g, m, configs[i], out);
}

static void measure(graph *g, machine *m, row *out) {
    descriptor operations = create(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, operations, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->op_count,
        g->ops);
    set(g, operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &m->handle);
    finalize(g, operations, "operation graph");
    if (g->failed)
        return;
    try_heuristics(g, m, operations, CUDNN_HEUR_MODE_A, out);
    if (out->working == 0) { // the fall-back list is a separate attempt
        g->failed = false;
        try_heuristics(g, m, operations, CUDNN_HEUR_MODE_FALLBACK, out);
    }
}

static double gflop(const graph *g) {
    int64_t side = out_side(g);
    return 2e-9 * (double)(g->batch * side * side * g->shape.k) *
           (double)(g->shape.c * g->shape.window * g->shape.window);
}

// Whether the file has a row that begins with 'key'.
static bool is_done(const char *path, const char *key) {
    char line[1024];
    bool found = false;
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = strncmp(line, key, strlen(key)) == 0;
    if (file)
        fclose(file);
    return found;
}

static void measure_row(machine *m, int pattern, int type, int shape, int64_t batch,
                        const char *key) {
    graph g = {.type = types[type].type, .batch = batch, .shape = shapes[shape]};
    row r = {.working = 0};
    patterns[pattern].build(&g);
    if (!g.failed)
        measure(&g, m, &r);
    printf("%s%s\t%d\t%.1f\t%.1f\t%.1f\t%.2f\t%s\n", key, r.working ? "ok" : "no", r.working,
           r.first_us, r.best_us, r.deterministic_us, gflop(&g), r.working ? "" : g.reason);
    fflush(stdout);
    release(&g);
}

static bool is_wanted(const char *name, char **wanted) {
    if (!*wanted)
        return true;
    for (; *wanted; wanted++)
        if (strcmp(name, *wanted) == 0)
            return true;
    return false;
}

static int measure_table(int64_t batch, double seconds, const char *done, char **wanted) {
    machine m;
    time_t begin = time(NULL);
    open_machine(&m);
    for (int p = 0; p < PATTERNS; p++) {
        for (int t = 0; t < 2 && is_wanted(patterns[p].name, wanted); t++) {
            for (int s = 0; s < SHAPES; s++) {
                char text[64], key[160];
                shape_text(&shapes[s], text);
                snprintf(key, sizeof key, "%s\t%s\t%lld\t%s\t", patterns[p].name, types[t].name,
                         (long long)batch, text);
                if (is_done(done, key))
                    continue;
                if (difftime(time(NULL), begin) > seconds)
                    return 3; // the next call continues here
                measure_row(&m, p, t, s, batch, key);
            }
        }
    }
    return 0;
}

static int print_device(void) {
    graph g = {.failed = false};
    const int32_t device = 0;
    int64_t bytes = 0;
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaFree(NULL));
    descriptor d = create(&g, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    set(&g, d, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &device);
    finalize(&g, d, "device properties");
    if (g.failed) {
        fprintf(stderr, "probe_cudnn: %s\n", g.reason);
        return 1;
    }
    cudnnStatus_t status = cudnnBackendGetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                                    CUDNN_TYPE_CHAR, 0, &bytes, NULL);
    char *text = status == CUDNN_STATUS_SUCCESS ? calloc(1, (size_t)bytes + 1) : NULL;
    if (text)
        status = cudnnBackendGetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                          CUDNN_TYPE_CHAR, bytes, &bytes, text);
    if (!text || status != CUDNN_STATUS_SUCCESS) {
        fprintf(stderr, "probe_cudnn: cannot describe the device as JSON: %s\n",
                cudnnGetErrorString(status));
        return 1;
    }
    puts(text);
    free(text);
    release(&g);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "check") == 0)
        return check_patterns();
    if (argc == 2 && strcmp(argv[1], "devices") == 0)
        return print_device();
    if (argc >= 5 && strcmp(argv[1], "table") == 0)
        return measure_table(atoll(argv[2]), atof(argv[3]), argv[4], argv + 5);
    fprintf(stderr, "usage: probe_cudnn check | devices | table BATCH SECONDS DONE [PATTERN...]\n");
    return 2;
}
