// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_gpu/soft_cudnn_fixture.h"

void check_status(cudnnStatus_t status, const char *call, const char *file, int line) {
    char text[256];
    if (status == CUDNN_STATUS_SUCCESS)
        return;
    cudnnGetLastErrorString(text, sizeof text);
    (void)fprintf(stderr, "%s:%d: %s: %s: %s\n", file, line, call, cudnnGetErrorString(status),
                  text);
    exit(1);
}

conv make_conv(conv_kind kind, cudnnDataType_t type, const int64_t size[7],
               const int64_t window[8]) {
    const int64_t n = size[0], c = size[1], k = size[4];
    conv out = {.kind = kind,
                .type = type,
                .w_type = type,
                .compute = CUDNN_DATA_FLOAT,
                .x = {n, c, size[2], size[3]},
                .w = {k, c, size[5], size[6]},
                .y = {n, k, 0, 0},
                .alignment = 16,
                .y_uid = Y_UID,
                .mode = CUDNN_CROSS_CORRELATION,
                .alpha = 1.0f};
    for (int i = 0; i < 2; i++) {
        out.pre[i] = window[i];
        out.post[i] = window[2 + i];
        out.stride[i] = window[4 + i];
        out.dilation[i] = window[6 + i];
        out.y[2 + i] =
            (out.x[2 + i] + out.pre[i] + out.post[i] - out.dilation[i] * (out.w[2 + i] - 1) - 1) /
                out.stride[i] +
            1;
    }
    return out;
}

// ---- Descriptors ----

descriptor make(cudnnBackendDescriptorType_t type) {
    descriptor d;
    DNN(cudnnBackendCreateDescriptor(type, &d));
    return d;
}

void set(descriptor d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         int64_t count, const void *values) {
    DNN(cudnnBackendSetAttribute(d, name, type, count, values));
}

void destroy(descriptor d) {
    DNN(cudnnBackendDestroyDescriptor(d));
}

static void set_part(descriptor d, cudnnBackendAttributeName_t name, descriptor part) {
    set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static cudnnStatus_t try_tensor(const conv *c, cudnnDataType_t type, const int64_t dim[4],
                                int64_t uid, descriptor *out) {
    const int64_t last[4] = {dim[1] * dim[2] * dim[3], 1, dim[1] * dim[3], dim[1]};
    const int64_t first[4] = {dim[1] * dim[2] * dim[3], dim[2] * dim[3], dim[3], 1};
    *out = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(*out, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(*out, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    set(*out, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, c->channels_first ? first : last);
    set(*out, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(*out, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &c->alignment);
    set(*out, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &c->is_virtual);
    return cudnnBackendFinalize(*out);
}

static cudnnStatus_t try_window(const conv *c, descriptor *out) {
    const int64_t dims = 2;
    *out = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(*out, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &c->compute);
    set(*out, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &c->mode);
    set(*out, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
    set(*out, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, c->pre);
    set(*out, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, c->post);
    set(*out, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, c->stride);
    set(*out, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, c->dilation);
    return cudnnBackendFinalize(*out);
}

typedef struct operation_names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t window, x, w, y, alpha, beta;
} operation_names;

static const operation_names names[CONV_KINDS] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static cudnnStatus_t try_operation(const conv *c, const descriptor part[4], descriptor *out) {
    const operation_names *n = &names[c->kind];
    const float zero = 0.0f;
    *out = make(n->type);
    set_part(*out, n->x, part[0]);
    set_part(*out, n->w, part[1]);
    set_part(*out, n->y, part[2]);
    set_part(*out, n->window, part[3]);
    set(*out, n->alpha, CUDNN_TYPE_FLOAT, 1, &c->alpha);
    set(*out, n->beta, CUDNN_TYPE_FLOAT, 1, &zero);
    return cudnnBackendFinalize(*out);
}

cudnnStatus_t try_graph(cudnnHandle_t handle, const conv *c, descriptor *graph) {
    descriptor part[4] = {NULL}, operation = NULL;
    *graph = NULL;
    cudnnStatus_t status = try_tensor(c, c->type, c->x, X_UID, &part[0]);
    if (status == CUDNN_STATUS_SUCCESS)
        status = try_tensor(c, c->w_type, c->w, W_UID, &part[1]);
    if (status == CUDNN_STATUS_SUCCESS)
        status = try_tensor(c, c->type, c->y, c->y_uid, &part[2]);
    if (status == CUDNN_STATUS_SUCCESS)
        status = try_window(c, &part[3]);
    if (status == CUDNN_STATUS_SUCCESS)
        status = try_operation(c, part, &operation);
    if (status == CUDNN_STATUS_SUCCESS) {
        *graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
        set(*graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
        set_part(*graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
        status = cudnnBackendFinalize(*graph);
    }
    for (int i = 0; i < 4; i++)
        if (part[i])
            destroy(part[i]);
    if (operation)
        destroy(operation);
    if (status != CUDNN_STATUS_SUCCESS && *graph) {
        destroy(*graph);
        *graph = NULL;
    }
    return status;
}

descriptor make_graph(cudnnHandle_t handle, const conv *c) {
    descriptor graph;
    DNN(try_graph(handle, c, &graph));
    return graph;
}

// ---- Engines ----

cudnnStatus_t try_list(descriptor graph, cudnnBackendHeurMode_t mode, descriptor out[CONFIGS],
                       int *count) {
    int64_t found = 0;
    descriptor d = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    *count = 0;
    set_part(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    cudnnStatus_t status = cudnnBackendFinalize(d);
    if (status == CUDNN_STATUS_SUCCESS) {
        for (int i = 0; i < CONFIGS; i++)
            out[i] = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        DNN(cudnnBackendGetAttribute(d, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS, &found, out));
        *count = (int)found;
        for (int i = *count; i < CONFIGS; i++)
            destroy(out[i]);
    }
    destroy(d);
    return status;
}

int list(descriptor graph, descriptor out[CONFIGS]) {
    int count;
    DNN(try_list(graph, CUDNN_HEUR_MODE_A, out, &count));
    return count;
}

static descriptor engine_of(descriptor config) {
    int64_t count;
    descriptor engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    DNN(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 1, &count, &engine));
    return engine;
}

bool is_deterministic(descriptor config) {
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count;
    bool deterministic = true;
    descriptor engine = engine_of(config);
    DNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count,
                                 notes));
    for (int64_t i = 0; i < count; i++)
        deterministic = deterministic && notes[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    destroy(engine);
    return deterministic;
}

cudnnStatus_t try_plan(cudnnHandle_t handle, descriptor config, descriptor *plan,
                       int64_t *workspace) {
    int64_t count;
    *plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(*plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set_part(*plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    const cudnnStatus_t status = cudnnBackendFinalize(*plan);
    if (status == CUDNN_STATUS_SUCCESS) {
        DNN(cudnnBackendGetAttribute(*plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &count, workspace));
    } else {
        destroy(*plan);
        *plan = NULL;
    }
    return status;
}

choice read_choice(descriptor config) {
    choice out = {0};
    int64_t one;
    descriptor engine = engine_of(config), knob[KNOBS];
    DNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &one,
                                 &out.engine));
    destroy(engine);
    for (int i = 0; i < KNOBS; i++)
        knob[i] = make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    DNN(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, KNOBS, &out.knobs, knob));
    for (int i = 0; i < KNOBS; i++) {
        if (i < out.knobs) {
            DNN(cudnnBackendGetAttribute(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                         CUDNN_TYPE_KNOB_TYPE, 1, &one, &out.types[i]));
            DNN(cudnnBackendGetAttribute(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                         CUDNN_TYPE_INT64, 1, &one, &out.values[i]));
        }
        destroy(knob[i]);
    }
    return out;
}

cudnnStatus_t try_config(descriptor graph, const choice *c, descriptor *config) {
    descriptor knob[KNOBS], engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    *config = NULL;
    set_part(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &c->engine);
    cudnnStatus_t status = cudnnBackendFinalize(engine);
    if (status == CUDNN_STATUS_SUCCESS) {
        *config = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        set_part(*config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
        for (int i = 0; i < c->knobs; i++) {
            knob[i] = make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
            set(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &c->types[i]);
            set(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &c->values[i]);
            DNN(cudnnBackendFinalize(knob[i]));
        }
        if (c->knobs > 0)
            set(*config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, c->knobs,
                knob);
        for (int i = 0; i < c->knobs; i++)
            destroy(knob[i]);
        status = cudnnBackendFinalize(*config);
    }
    destroy(engine);
    if (status != CUDNN_STATUS_SUCCESS && *config) {
        destroy(*config);
        *config = NULL;
    }
    return status;
}

descriptor make_plan(cudnnHandle_t handle, const conv *c, const choice *of, int64_t *workspace) {
    descriptor config, plan, graph = make_graph(handle, c);
    DNN(try_config(graph, of, &config));
    DNN(try_plan(handle, config, &plan, workspace));
    destroy(config);
    destroy(graph);
    return plan;
}

choice first_choice(cudnnHandle_t handle, const conv *c) {
    choice out = {.engine = -1};
    descriptor configs[CONFIGS], plan, graph = make_graph(handle, c);
    const int count = list(graph, configs);
    for (int i = 0; i < count; i++) {
        int64_t workspace;
        if (out.engine < 0 && is_deterministic(configs[i]) &&
            try_plan(handle, configs[i], &plan, &workspace) == CUDNN_STATUS_SUCCESS) {
            out = read_choice(configs[i]);
            destroy(plan);
        }
        destroy(configs[i]);
    }
    destroy(graph);
    if (out.engine < 0)
        exit(2);
    return out;
}

// ---- Memory ----

int result_of(conv_kind kind) {
    return kind == FORWARD ? 2 : kind == DATA ? 0 : 1;
}

// Sign and fraction are random, and the exponent is one of eight.
static uint16_t draw(cudnnDataType_t type, uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    const uint32_t bits = *state >> 8;
    return type == CUDNN_DATA_HALF ? (uint16_t)((bits & 0x83ffu) | (7u + (bits >> 20) % 8) << 10)
                                   : (uint16_t)((bits & 0x807fu) | (119u + (bits >> 20) % 8) << 7);
}

tensors make_tensors(const conv *c, int64_t workspace, uint32_t seed, cudaStream_t stream) {
    const int64_t *const dims[3] = {c->x, c->w, c->y};
    tensors t = {.workspace_bytes = (size_t)workspace};
    for (int i = 0; i < 3; i++) {
        const size_t count = (size_t)(dims[i][0] * dims[i][1] * dims[i][2] * dims[i][3]);
        t.bytes[i] = 2 * count;
        t.at[i] = device_alloc(t.bytes[i]);
        t.host[i] = malloc(t.bytes[i]);
        for (size_t n = 0; n < count; n++)
            t.host[i][n] = draw(c->type, &seed);
        if (i != result_of(c->kind))
            upload(t.at[i], t.host[i], t.bytes[i], stream);
    }
    if (workspace > 0)
        t.workspace = device_alloc(t.workspace_bytes);
    OK(cudaStreamSynchronize(stream));
    return t;
}

void free_tensors(tensors *t) {
    for (int i = 0; i < 3; i++) {
        device_free(t->at[i], t->bytes[i]);
        free(t->host[i]);
    }
    if (t->workspace)
        device_free(t->workspace, t->workspace_bytes);
}

descriptor make_pack(const tensors *t) {
    const int64_t uids[3] = {X_UID, W_UID, Y_UID};
    descriptor pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, uids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, t->at);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &t->workspace);
    DNN(cudnnBackendFinalize(pack));
    return pack;
}

const uint16_t *read_result(const conv *c, tensors *t, cudaStream_t stream) {
    const int result = result_of(c->kind);
    download(t->host[result], t->at[result], t->bytes[result], stream);
    return t->host[result];
}

const uint16_t *run(cudnnHandle_t handle, cudaStream_t stream, const conv *c, descriptor plan,
                    tensors *t) {
    const int result = result_of(c->kind);
    descriptor pack = make_pack(t);
    DNN(cudnnSetStream(handle, stream));
    OK(cudaMemsetAsync(t->at[result], 0xff, t->bytes[result], stream));
    DNN(cudnnBackendExecute(handle, plan, pack));
    destroy(pack);
    return read_result(c, t, stream);
}
