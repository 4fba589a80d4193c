// SPDX-License-Identifier: Apache-2.0
// Mistakes that the stand-in for cuDNN must find: those that cuDNN refuses by a status, and those
// that end the process. And what SOFT_CUDNN sets.
#include "tests/soft_gpu/soft_cudnn_fixture.h"

static const int64_t size[7] = {2, 8, 6, 5, 8, 3, 3}, window[8] = {1, 1, 1, 1, 1, 1, 1, 1};

static conv usual(void) {
    return make_conv(FORWARD, CUDNN_DATA_BFLOAT16, size, window);
}

// ---- Refused by a status ----

static void expect_status(cudnnStatus_t got, cudnnStatus_t status, const char *message) {
    char text[256];
    cudnnGetLastErrorString(text, sizeof text);
    if (got != status || !strstr(text, message))
        fail_msg("%s: '%s', not %s: '%s'", cudnnGetErrorString(got), text,
                 cudnnGetErrorString(status), message);
    cudnnGetLastErrorString(text, sizeof text);
    assert_string_equal(text, "");
}

static void refuse_graph(const conv *c, const char *message) {
    cudnnHandle_t handle;
    descriptor graph;
    DNN(cudnnCreate(&handle));
    expect_status(try_graph(handle, c, &graph), CUDNN_STATUS_BAD_PARAM, message);
    DNN(cudnnDestroy(handle));
}

static void test_shapes(void **state) {
    (void)state;
    conv c = usual();
    c.y[3]++;
    refuse_graph(&c, "forward operation, axis 1: of 5 positions");
    c = usual();
    c.y[0]++;
    refuse_graph(&c, "forward operation: 2 samples");
    c = usual();
    c.w[1]--;
    refuse_graph(&c, "filters 8 x 7");
    c = usual();
    c.kind = FILTER;
    c.y[1]++;
    refuse_graph(&c, "backward filter operation");
    c = usual();
    c.kind = DATA;
    c.dilation[0] = 4;
    refuse_graph(&c, "backward data operation, axis 0");
    c = usual(); // a window that is wider than the input with its paddings
    c.w[3] = 8;
    c.stride[1] = 2;
    c.y[3] = 1;
    refuse_graph(&c, "axis 1: of 5 positions with paddings 1 and 1, a window over 8");
    c = usual();
    c.pre[1] = -1;
    refuse_graph(&c, "axis 1: paddings -1 and 1");
}

// Heuristics list nothing, and an engine refuses the graph.
static void refuse_engines(const conv *c, const char *message) {
    const choice plain = {.engine = 0};
    cudnnHandle_t handle;
    descriptor configs[CONFIGS], config;
    int count;
    DNN(cudnnCreate(&handle));
    descriptor graph = make_graph(handle, c);
    DNN(try_list(graph, CUDNN_HEUR_MODE_A, configs, &count));
    assert_int_equal(count, 0);
    expect_status(try_config(graph, &plain, &config), CUDNN_STATUS_NOT_SUPPORTED, message);
    destroy(graph);
    DNN(cudnnDestroy(handle));
}

static void test_unsupported(void **state) {
    (void)state;
    conv c = usual();
    c.alignment = 8;
    refuse_engines(&c, "unique id 11 is aligned to 8 bytes, not to 16");
    c = usual();
    c.kind = FILTER;
    c.w_type = CUDNN_DATA_FLOAT;
    refuse_engines(&c, "no engine: types 9, 0 and 9");
    c = usual();
    c.compute = CUDNN_DATA_BFLOAT16;
    refuse_engines(&c, "computed in 9");
    c = usual();
    c.type = CUDNN_DATA_FLOAT;
    refuse_engines(&c, "no engine: types 0, 9 and 0");
}

static void test_engines(void **state) {
    static const struct {
        choice choice;
        cudnnStatus_t status;
        const char *message;
    } wrong[] = {
        {{.engine = 4}, CUDNN_STATUS_NOT_SUPPORTED, "engine 4 does not exist"},
        {{.engine = 3, .knobs = 1, .values = {9}, .types = {CUDNN_KNOB_TYPE_SPLIT_K_SLC}},
         CUDNN_STATUS_BAD_PARAM,
         "engine 3: knob 17 cannot be 9"},
        {{.engine = 3, .knobs = 1, .values = {1}, .types = {CUDNN_KNOB_TYPE_STAGES}},
         CUDNN_STATUS_BAD_PARAM,
         "engine 3: it has no knob 14"},
        {{.engine = 3,
          .knobs = 2,
          .values = {2, 3},
          .types = {CUDNN_KNOB_TYPE_SPLIT_K_SLC, CUDNN_KNOB_TYPE_SPLIT_K_SLC}},
         CUDNN_STATUS_BAD_PARAM,
         "knob 17 twice"},
    };
    const conv c = usual();
    cudnnHandle_t handle;
    descriptor config;
    (void)state;
    DNN(cudnnCreate(&handle));
    descriptor graph = make_graph(handle, &c);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_status(try_config(graph, &wrong[i].choice, &config), wrong[i].status,
                      wrong[i].message);
    destroy(graph);
    DNN(cudnnDestroy(handle));
}

static void test_attributes(void **state) {
    const int64_t dims[5] = {1, 2, 3, 4, 5};
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    const conv c = usual();
    cudnnHandle_t handle;
    int64_t count, value;
    (void)state;
    DNN(cudnnCreate(&handle));
    descriptor tensor = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR), graph = make_graph(handle, &c),
               heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    expect_status(
        cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_DOUBLE, 4, dims),
        CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "attribute 902: its type is 3, not 5");
    expect_status(
        cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 5, dims),
        CUDNN_STATUS_BAD_PARAM, "5 elements, not 4 to 4");
    expect_status(
        cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, NULL),
        CUDNN_STATUS_BAD_PARAM, "NULL");
    expect_status(cudnnBackendFinalize(tensor), CUDNN_STATUS_BAD_PARAM,
                  "tensor: attribute 901 is not set");
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
        &graph);
    expect_status(cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph),
                  CUDNN_STATUS_BAD_PARAM, "attribute 202 is read alone");
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    DNN(cudnnBackendFinalize(heuristics));
    expect_status(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                           CUDNN_TYPE_INT64, 1, &count, &value),
                  CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "its type is 15, not 3");
    expect_status(cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE,
                                           CUDNN_TYPE_HEUR_MODE, 1, &mode),
                  CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized");
    expect_status(cudnnBackendFinalize(heuristics), CUDNN_STATUS_BAD_PARAM, "finalized before");
    destroy(heuristics);
    destroy(graph);
    destroy(tensor);
    DNN(cudnnDestroy(handle));
}

static void test_packs(void **state) {
    const int64_t uids[3] = {X_UID, W_UID, Y_UID};
    const conv c = usual();
    cudnnHandle_t handle;
    int64_t workspace;
    (void)state;
    DNN(cudnnCreate(&handle));
    const cudaStream_t stream = make_stream();
    const choice plain = {.engine = 0};
    descriptor plan = make_plan(handle, &c, &plain, &workspace);
    tensors t = make_tensors(&c, 0, 1, stream);
    descriptor pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, uids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 2, t.at);
    expect_status(cudnnBackendFinalize(pack), CUDNN_STATUS_BAD_PARAM, "3 unique ids, 2 pointers");
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 2, uids);
    DNN(cudnnBackendFinalize(pack));
    expect_status(cudnnBackendExecute(handle, plan, pack), CUDNN_STATUS_BAD_PARAM,
                  "the tensor with unique id 33 is missing");
    destroy(pack);
    destroy(plan);
    free_tensors(&t);
    DNN(cudnnDestroy(handle));
}

// ---- The process ends: descriptors ----

static conv changed; // with a mistake

static void build_changed(void) {
    const conv c = right ? usual() : changed;
    cudnnHandle_t handle;
    DNN(cudnnCreate(&handle));
    (void)make_graph(handle, &c);
}

static void test_graphs(void **state) {
    (void)state;
    changed = usual();
    changed.channels_first = true;
    both(build_changed, "the strides of the tensor with unique id 11");
    changed = usual();
    changed.x[2] = 0;
    both(build_changed, "a tensor whose dimension 2 is 0");
    changed = usual();
    changed.alignment = 24;
    both(build_changed, "an alignment of 24 bytes");
    changed = usual();
    changed.type = CUDNN_DATA_DOUBLE;
    both(build_changed, "a tensor of type 1");
    changed = usual();
    changed.is_virtual = true;
    both(build_changed, "virtual");
    changed = usual();
    changed.y_uid = X_UID;
    both(build_changed, "unique ids 11, 22 and 11");
    changed = usual();
    changed.mode = CUDNN_CONVOLUTION;
    both(build_changed, "2 dimensions and mode 0");
    changed = usual();
    changed.alpha = 2.0f;
    both(build_changed, "alpha 2 and beta 0");
    changed = usual();
    changed.w[1] = 4;
    both(build_changed, "a convolution in groups");
}

static void set_unknown(void) {
    const int64_t one = 1;
    descriptor d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(d, right ? CUDNN_ATTR_TENSOR_UNIQUE_ID : CUDNN_ATTR_TENSOR_VECTOR_COUNT, CUDNN_TYPE_INT64,
        1, &one);
}

static void create_unknown(void) {
    (void)make(right ? CUDNN_BACKEND_ENGINE_DESCRIPTOR : CUDNN_BACKEND_MATMUL_DESCRIPTOR);
}

static void set_graph(cudnnBackendDescriptorType_t wrong) {
    const conv c = usual();
    cudnnHandle_t handle;
    DNN(cudnnCreate(&handle));
    descriptor d = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR),
               given = right ? make_graph(handle, &c) : make(wrong);
    set(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &given);
}

static void set_other_kind(void) {
    set_graph(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
}

static void set_unfinished(void) {
    set_graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
}

// Reads the configurations of heuristics, finalized or not, into descriptors of a kind.
static void read_results(bool finalizes, cudnnBackendDescriptorType_t kind,
                         cudnnBackendHeurMode_t mode) {
    const conv c = usual();
    cudnnHandle_t handle;
    DNN(cudnnCreate(&handle));
    descriptor d = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), graph = make_graph(handle, &c),
               into = make(kind);
    set(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    set(d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (finalizes)
        DNN(cudnnBackendFinalize(d));
    DNN(cudnnBackendGetAttribute(d, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                 NULL, &into));
}

static void read_unfinished(void) {
    read_results(right, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_HEUR_MODE_A);
}

static void read_other_kind(void) {
    read_results(true, right ? CUDNN_BACKEND_ENGINECFG_DESCRIPTOR : CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                 CUDNN_HEUR_MODE_A);
}

static void ask_unknown(void) {
    read_results(true, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                 right ? CUDNN_HEUR_MODE_FALLBACK : CUDNN_HEUR_MODE_INSTANT);
}

static void plan_for_other(void) {
    const conv c = usual();
    const choice plain = {.engine = 0};
    cudnnHandle_t handle, other;
    descriptor config, plan;
    int64_t workspace;
    DNN(cudnnCreate(&handle));
    DNN(cudnnCreate(&other));
    DNN(try_config(make_graph(handle, &c), &plain, &config));
    DNN(try_plan(right ? handle : other, config, &plan, &workspace));
}

static void test_descriptors(void **state) {
    (void)state;
    both(set_unknown, "a descriptor (tensor) of the stand-in has no attribute 904");
    both(create_unknown, "no descriptors of type 18");
    both(set_other_kind, "attribute 201 of a descriptor (heuristics) is given one of another kind");
    both(set_unfinished, "is given one (operation graph) that is not finalized");
    both(read_unfinished, "attribute 202 of a descriptor (heuristics) that is not finalized");
    both(read_other_kind,
         "attribute 202 of a descriptor (heuristics) is given one of another kind");
    both(ask_unknown, "no heuristics of mode 0");
    both(plan_for_other, "a plan whose handle is not that of its graph");
}

// ---- The process ends: execution ----

typedef struct setting {
    cudnnHandle_t handle;
    cudaStream_t stream;
    conv c;
    choice choice;
    descriptor plan;
    tensors t;
} setting;

static setting set_up(void) {
    setting s = {.c = usual()};
    int64_t workspace;
    DNN(cudnnCreate(&s.handle));
    s.stream = make_stream();
    DNN(cudnnSetStream(s.handle, s.stream));
    s.choice = (choice){.engine = 3};
    s.plan = make_plan(s.handle, &s.c, &s.choice, &workspace);
    s.t = make_tensors(&s.c, workspace, 1, s.stream);
    return s;
}

static void execute(const setting *s) {
    DNN(cudnnBackendExecute(s->handle, s->plan, make_pack(&s->t)));
    OK(cudaStreamSynchronize(s->stream));
}

static void use_destroyed_plan(void) {
    const setting s = set_up();
    if (!right)
        destroy(s.plan);
    execute(&s);
}

static void use_destroyed_handle(void) {
    const setting s = set_up();
    if (!right)
        DNN(cudnnDestroy(s.handle));
    execute(&s);
}

static void use_other_handle(void) {
    setting s = set_up();
    if (!right) {
        DNN(cudnnCreate(&s.handle));
        DNN(cudnnSetStream(s.handle, s.stream));
    }
    execute(&s);
}

static void pass_no_descriptor(void) {
    setting s = set_up();
    static uint64_t words[8];
    if (!right)
        s.plan = words;
    execute(&s);
}

static void pass_other_kind(void) {
    setting s = set_up();
    if (!right)
        s.plan = make_pack(&s.t);
    execute(&s);
}

static void pass_unfinished(void) {
    setting s = set_up();
    if (!right)
        s.plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    execute(&s);
}

static void set_destroyed_stream(void) {
    const setting s = set_up();
    const cudaStream_t other = make_stream();
    if (!right)
        OK(cudaStreamDestroy(other));
    DNN(cudnnSetStream(s.handle, other));
}

static void test_handles(void **state) {
    (void)state;
    both(use_destroyed_plan, "a descriptor (execution plan) that was destroyed");
    both(use_destroyed_handle, "a call with a handle that was destroyed");
    both(use_other_handle, "a plan is executed by a handle that it was not made for");
    both(pass_no_descriptor, "is no descriptor");
    both(pass_other_kind, "a descriptor (variant pack) in the place of one (execution plan)");
    both(pass_unfinished, "a descriptor (execution plan, not finalized)");
    both(set_destroyed_stream, "a call on a stream that was destroyed");
}

static void pass_null(void) {
    setting s = set_up();
    if (!right)
        s.t.at[1] = NULL;
    execute(&s);
}

static void pass_host(void) {
    setting s = set_up();
    if (!right)
        s.t.at[0] = s.t.host[0];
    execute(&s);
}

static void pass_freed(void) {
    setting s = set_up();
    if (!right)
        device_free(s.t.at[2], s.t.bytes[2]);
    execute(&s);
}

static void pass_misaligned(void) {
    setting s = set_up();
    if (!right)
        s.t.at[0] = (char *)s.t.at[0] + 8;
    execute(&s);
}

static void pass_short(void) {
    setting s = set_up();
    if (!right)
        s.t.at[0] = (char *)s.t.at[0] + 4096 - 16;
    execute(&s);
}

static void pass_alias(void) {
    setting s = set_up();
    if (!right)
        s.t.at[2] = (char *)s.t.at[0] + s.t.bytes[0] - 16;
    execute(&s);
}

static void test_pointers(void **state) {
    (void)state;
    both(pass_null, "the tensor with unique id 22 is NULL");
    both(pass_host, "is no memory that device 0 may access");
    both(pass_freed, "the tensor with unique id 33, ");
    both(pass_misaligned, "is not aligned to 16 bytes");
    both(pass_short, "needs 960 bytes, but 16 are left");
    both(pass_alias, "the result overlaps the tensor with unique id 11");
}

static void pass_uids(const int64_t uids[4], int64_t count) {
    const setting s = set_up();
    void *pointers[4] = {s.t.at[0], s.t.at[1], s.t.at[2], s.t.at[0]};
    descriptor pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &s.t.workspace);
    DNN(cudnnBackendFinalize(pack));
    DNN(cudnnBackendExecute(s.handle, s.plan, pack));
}

static void pass_unknown(void) {
    pass_uids((const int64_t[]){X_UID, W_UID, Y_UID, 44}, right ? 3 : 4);
}

static void pass_twice(void) {
    pass_uids((const int64_t[]){X_UID, W_UID, Y_UID, W_UID}, right ? 3 : 4);
}

static void pass_no_workspace(void) {
    setting s = set_up();
    if (!right)
        s.t.workspace = NULL;
    execute(&s);
}

static void pass_small_workspace(void) {
    setting s = set_up();
    const size_t bytes = (s.t.workspace_bytes + 4095) / 4096 * 4096;
    if (!right)
        s.t.workspace = (char *)s.t.workspace + bytes - s.t.workspace_bytes + 16;
    execute(&s);
}

static void pass_overlapping_workspace(void) {
    setting s = set_up();
    char *memory = device_alloc(1 << 20);
    s.t.at[2] = memory;
    s.t.workspace = memory + (right ? 1024 : 512);
    execute(&s);
}

static void test_workspaces(void **state) {
    (void)state;
    both(pass_twice, "a variant pack has unique id 22 twice");
    both(pass_unknown, "the plan has no tensor with unique id 44");
    both(pass_no_workspace, "the workspace is NULL");
    both(pass_small_workspace, "the workspace needs ");
    both(pass_overlapping_workspace, "the workspace overlaps the tensor with unique id 33");
}

// ---- Wrong results ----

enum { TURNS = 40 };

static void share_workspace(void) {
    setting s = set_up();
    const cudaStream_t streams[2] = {s.stream, make_stream()};
    tensors t[2] = {s.t, make_tensors(&s.c, (int64_t)s.t.workspace_bytes, 2, s.stream)};
    const size_t bytes = t[0].bytes[2];
    uint16_t *bits[2] = {malloc(bytes), malloc(bytes)};
    int wrong = 0;
    for (int i = 0; i < 2; i++)
        memcpy(bits[i], run(s.handle, s.stream, &s.c, s.plan, &t[i]), bytes);
    if (!right)
        t[1].workspace = t[0].workspace;
    for (int n = 0; n < TURNS; n++) {
        for (int i = 0; i < 2; i++) {
            DNN(cudnnSetStream(s.handle, streams[i]));
            DNN(cudnnBackendExecute(s.handle, s.plan, make_pack(&t[i])));
        }
        // Whoever waits at once would make the streams run without delays.
        while (cudaStreamQuery(streams[0]) == cudaErrorNotReady ||
               cudaStreamQuery(streams[1]) == cudaErrorNotReady) {
        }
        for (int i = 0; i < 2; i++)
            wrong += memcmp(read_result(&s.c, &t[i], streams[i]), bits[i], bytes) != 0;
    }
    exit(wrong > 0 ? 8 : 0);
}

// Of a workspace the last byte is written, too, and none behind it.
static void overrun_workspace(void) {
    setting s = set_up();
    const size_t bytes = s.t.workspace_bytes;
    char *memory = device_alloc(bytes + 1), last;
    s.t.workspace = memory;
    OK(cudaMemsetAsync(memory + bytes - (right ? 0 : 1), 7, 1, s.stream));
    execute(&s);
    download(&last, memory + bytes - (right ? 0 : 1), 1, s.stream);
    exit(last != 7 ? 8 : 0);
}

static void read_unwritten(void) {
    setting s = set_up();
    if (!right)
        s.t.at[0] = device_alloc(s.t.bytes[0]);
    execute(&s);
    const uint16_t *bits = read_result(&s.c, &s.t, s.stream);
    exit((bits[0] & 0x7fff) > 0x7f80 ? 8 : 0);
}

static void test_wrong_results(void **state) {
    (void)state;
    shows(share_workspace);
    shows(overrun_workspace);
    shows(read_unwritten);
}

// ---- Faults and captures ----

static void create_in_capture(void) {
    cudnnHandle_t handle;
    cudaGraph_t graph;
    const cudaStream_t stream = make_stream();
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    if (cudnnCreate(&handle) != CUDNN_STATUS_NOT_INITIALIZED ||
        cudaStreamEndCapture(stream, &graph) != cudaErrorStreamCaptureInvalidated)
        exit(1);
}

static void refuse_launch(void) {
    char text[256];
    (void)setenv("SOFT_GPU_FAULT", "refuse:2", 1);
    const setting s = set_up();
    if (cudnnBackendExecute(s.handle, s.plan, make_pack(&s.t)) !=
        CUDNN_STATUS_EXECUTION_FAILED_CUDART)
        exit(1);
    cudnnGetLastErrorString(text, sizeof text);
    if (strcmp(text, "launching soft_cudnn_add_bf16: cudaErrorLaunchOutOfResources") != 0)
        exit(2);
    execute(&s);
}

static void use_other_device(void) {
    cudnnHandle_t handle;
    DNN(cudnnCreate(&handle));
    OK(cudaSetDevice(1));
    exit(cudnnSetStream(handle, make_stream()) == CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH ? 0 : 1);
}

static void test_faults(void **state) {
    char text[CHILD_TEXT_BYTES];
    (void)state;
    assert_int_equal(run_child(create_in_capture, text, sizeof text), 0);
    assert_non_null(strstr(text, "cudnnCreate"));
    expect_clean(refuse_launch);
    expect_clean(use_other_device);
}

// ---- SOFT_CUDNN ----

static void be_absent(void) {
    cudnnHandle_t handle;
    (void)setenv("SOFT_CUDNN", "absent", 1);
    exit(cudnnCreate(&handle) == CUDNN_STATUS_NOT_INITIALIZED ? 0 : 1);
}

static void be_old(void) {
    if (cudnnGetVersion() != CUDNN_VERSION)
        exit(1);
    (void)setenv("SOFT_CUDNN", "old", 1);
    exit(cudnnGetVersion() < 9000 ? 0 : 1);
}

static void find_none(void) {
    const conv c = usual();
    cudnnHandle_t handle;
    descriptor configs[CONFIGS];
    int count;
    (void)setenv("SOFT_CUDNN", "none", 1);
    DNN(cudnnCreate(&handle));
    descriptor graph = make_graph(handle, &c);
    if (list(graph, configs) != 0)
        exit(1);
    DNN(try_list(graph, CUDNN_HEUR_MODE_FALLBACK, configs, &count));
    exit(count == 0 ? 0 : 1);
}

static void make_no_plan(void) {
    const conv c = usual();
    cudnnHandle_t handle;
    descriptor configs[CONFIGS], plan;
    int64_t workspace;
    (void)setenv("SOFT_CUDNN", "plans", 1);
    DNN(cudnnCreate(&handle));
    const int count = list(make_graph(handle, &c), configs);
    for (int i = 0; i < count; i++)
        if (try_plan(handle, configs[i], &plan, &workspace) != CUDNN_STATUS_NOT_SUPPORTED)
            exit(1);
    exit(count == 5 ? 0 : 1);
}

// Engines with knobs refuse five samples, and one remains.
static void take_few_samples(void) {
    cudnnHandle_t handle;
    (void)setenv("SOFT_CUDNN", "few", 1);
    DNN(cudnnCreate(&handle));
    for (int64_t n = 4; n <= 5; n++) {
        conv c = usual();
        descriptor configs[CONFIGS], plan;
        int64_t workspace;
        int plans = 0;
        c.x[0] = c.y[0] = n;
        const int count = list(make_graph(handle, &c), configs);
        for (int i = 0; i < count; i++)
            plans += is_deterministic(configs[i]) &&
                     try_plan(handle, configs[i], &plan, &workspace) == CUDNN_STATUS_SUCCESS;
        if (plans != (n == 4 ? 3 : 1))
            exit(1);
    }
}

static void misspell(void) {
    (void)setenv("SOFT_CUDNN", "rouhg", 1);
    (void)cudnnGetVersion();
}

static void test_settings(void **state) {
    (void)state;
    expect_clean(be_absent);
    expect_clean(be_old);
    expect_clean(find_none);
    expect_clean(make_no_plan);
    expect_clean(take_few_samples);
    expect_abort(misspell, "SOFT_CUDNN is 'rouhg'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_handles),
        cmocka_unit_test(test_pointers),
        cmocka_unit_test(test_workspaces),
        cmocka_unit_test(test_wrong_results),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_settings),
        // In this process: from here on it has streams, and no process of its own is started.
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_engines),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_packs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
