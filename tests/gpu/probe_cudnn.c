// SPDX-License-Identifier: Apache-2.0
// What cuDNN offers for training ResNet-50, through its graph API (cudnn_graph.h): for each pattern
// of operations, type and convolution shape, whether there is an engine, why not, and how fast.
//
//   probe_cudnn devices              the device's properties as JSON, for heuristics without a GPU
//   probe_cudnn check                builds every pattern up to its operations; needs no GPU
//   probe_cudnn engines JSON BATCH LANE
//       for forward, data and weight gradients of LANE samples, what cuDNN offers on the device
//       that JSON (of devices) describes; needs no GPU: pattern, type, shape, plans, deterministic
//       plans, plans whose engine and knobs serve BATCH samples, too; of the first deterministic
//       one engine, knobs and bytes of workspace
//   probe_cudnn lanes BATCH LANE SECONDS DONE
//       whether the first and the last LANE samples of BATCH have the same bits as if they were
//       computed alone by the same engine and knobs: pattern, type, shape, engines, of them with
//       equal bits, of the first engine "equal" or "different"
//   probe_cudnn table BATCH SECONDS DONE [PATTERN...]
//       a line for each row that is not in the file DONE, until SECONDS are over: pattern, type,
//       shape, "ok" or "no", number of working engines, microseconds of the heuristics' first
//       choice, of the fastest engine, of the fastest deterministic one (0: none), GFLOP, and the
//       reason for a "no"
//
// Every launch is timed separately, after a write of 256 MB that evicts the cache; median of 9.
// Data are random. Not a test: no result is judged.
#include "probe_cudnn_graph.h"
#include <cuda_runtime.h>
#include <cudnn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_CONFIGS = 12, MAX_KNOBS = 32, RUNS = 9 };

static const size_t pool_bytes = (size_t)8 << 30, flush_bytes = (size_t)256 << 20,
                    workspace_bytes = (size_t)2 << 30;
static float epsilon = 1e-5f;

static void shape_text(const conv_shape *s, char out[64]) {
    snprintf(out, 64, "%lldx%lld %lld->%lld %lldx%lld/%lld", (long long)s->side, (long long)s->side,
             (long long)s->c, (long long)s->k, (long long)s->window, (long long)s->window,
             (long long)s->stride);
}

#define CHECK_CUDA(call)                                                                           \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

// The GPU, or for plans alone what describes one.
typedef struct machine {
    cudnnHandle_t handle;
    descriptor properties;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    char *pool, *workspace;
    void *flush;
} machine;

// ---- Engines ----

static descriptor operation_graph(graph *g, const machine *m) {
    descriptor operations = create(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, operations, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->op_count,
        g->ops);
    if (!m->properties)
        set(g, operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &m->handle);
    return finalize(g, operations, "operation graph");
}

// The configurations that heuristics list, the best first; returns how many.
static int list_configs(graph *g, const machine *m, descriptor operations,
                        cudnnBackendHeurMode_t mode, descriptor configs[MAX_CONFIGS]) {
    int64_t count = 0;
    descriptor heuristics = create(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_desc(g, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations);
    set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (m->properties)
        set_desc(g, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, m->properties);
    finalize(g, heuristics, "heuristics");
    for (int i = 0; i < MAX_CONFIGS; i++)
        configs[i] = create(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->failed)
        return 0;
    cudnnStatus_t status =
        cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_CONFIGS, &count, configs);
    if (status != CUDNN_STATUS_SUCCESS || count == 0)
        fail(g, "no engine", status);
    return g->failed ? 0 : count > MAX_CONFIGS ? MAX_CONFIGS : (int)count;
}

static descriptor make_plan(graph *g, const machine *m, descriptor config, int64_t *workspace) {
    int64_t count = 0;
    descriptor plan = create(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (m->properties)
        set_desc(g, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, m->properties);
    else
        set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &m->handle);
    set_desc(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    finalize(g, plan, "plan");
    *workspace = 0;
    if (!g->failed)
        (void)cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, &count, workspace);
    if ((size_t)*workspace > workspace_bytes)
        fail(g, "workspace over 2 GiB", CUDNN_STATUS_SUCCESS);
    return plan;
}

// After a failed attempt, with 'kept' descriptors before it.
static void forget(graph *g, int kept) {
    while (g->count > kept)
        cudnnBackendDestroyDescriptor(g->all[--g->count]);
    g->failed = false;
}

// What distinguishes a configuration: the engine's number and its knobs.
typedef struct choice {
    int64_t engine, values[MAX_KNOBS];
    cudnnBackendKnobType_t types[MAX_KNOBS];
    int knobs;
} choice;

static choice read_choice(graph *g, descriptor config) {
    choice out = {.engine = -1};
    int kept = g->count;
    int64_t count = 0, one;
    descriptor engine = create(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR), knobs[MAX_KNOBS];
    for (int i = 0; i < MAX_KNOBS; i++)
        knobs[i] = create(g, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    if (!g->failed &&
        cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 1, &one, &engine) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_KNOBS, &count,
                                 knobs) == CUDNN_STATUS_SUCCESS) {
        (void)cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                       &one, &out.engine);
        for (out.knobs = 0; out.knobs < count && out.knobs < MAX_KNOBS; out.knobs++) {
            (void)cudnnBackendGetAttribute(knobs[out.knobs], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                           CUDNN_TYPE_KNOB_TYPE, 1, &one, &out.types[out.knobs]);
            (void)cudnnBackendGetAttribute(knobs[out.knobs], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                           CUDNN_TYPE_INT64, 1, &one, &out.values[out.knobs]);
        }
    }
    forget(g, kept);
    return out;
}

static descriptor make_config(graph *g, const machine *m, descriptor operations, const choice *c) {
    descriptor knobs[MAX_KNOBS];
    descriptor engine = create(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    set_desc(g, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, operations);
    set(g, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &c->engine);
    if (m->properties)
        set_desc(g, engine, CUDNN_ATTR_ENGINE_DEVICEPROP, m->properties);
    finalize(g, engine, "engine");
    for (int i = 0; i < c->knobs; i++) {
        knobs[i] = create(g, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        set(g, knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &c->types[i]);
        set(g, knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &c->values[i]);
        finalize(g, knobs[i], "knob");
    }
    descriptor config = create(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set_desc(g, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (c->knobs)
        set(g, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, c->knobs,
            knobs);
    return finalize(g, config, "configuration");
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

// ---- Without a GPU ----

static int check_patterns(void) {
    int bad = 0;
    for (int p = 0; p < PATTERNS; p++) {
        for (int t = 0; t < TIMED_TYPES; t++) {
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

static bool open_properties(machine *m, graph *g, const char *path) {
    char json[4096];
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(json, 1, sizeof json - 1, file) : 0;
    if (file)
        fclose(file);
    while (size > 0 && json[size - 1] <= ' ')
        size--;
    json[size] = 0;
    m->properties = create(g, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    set(g, m->properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)size,
        json);
    finalize(g, m->properties, "device properties");
    if (g->failed)
        fprintf(stderr, "probe_cudnn: %s: %s\n", path, g->reason);
    return !g->failed;
}

static void print_engines(const machine *m, int pattern, int type, int shape, int64_t batch,
                          int64_t lane) {
    graph own = {.type = types[type].type, .batch = lane, .shape = shapes[shape]},
          joined = {.type = types[type].type, .batch = batch, .shape = shapes[shape]};
    descriptor configs[MAX_CONFIGS];
    char text[64], knobs[256] = "";
    int plans = 0, fixed = 0, both = 0;
    int64_t workspace, first_workspace = 0;
    choice first = {.engine = -1};
    patterns[pattern].build(&own);
    patterns[pattern].build(&joined);
    descriptor operations = operation_graph(&own, m), others = operation_graph(&joined, m);
    int count = list_configs(&own, m, operations, CUDNN_HEUR_MODE_A, configs);
    for (int i = 0; i < count; i++) {
        int kept = own.count, kept_joined = joined.count;
        choice c = read_choice(&own, configs[i]);
        (void)make_plan(&own, m, configs[i], &workspace);
        if (!own.failed) {
            plans++;
            if (is_deterministic(configs[i]) && fixed++ == 0) {
                first = c;
                first_workspace = workspace;
            }
            descriptor config = make_config(&joined, m, others, &c);
            (void)make_plan(&joined, m, config, &workspace);
            both += !joined.failed;
            forget(&joined, kept_joined);
        }
        forget(&own, kept);
    }
    for (int i = 0, at = 0; i < first.knobs && at < 240; i++)
        at += snprintf(knobs + at, sizeof knobs - (size_t)at, "%s%d=%lld", i ? " " : "",
                       (int)first.types[i], (long long)first.values[i]);
    shape_text(&shapes[shape], text);
    printf("%s\t%s\t%lld of %lld\t%s\t%d\t%d\t%d\t%lld\t%s\t%lld\t%s\n", patterns[pattern].name,
           types[type].name, (long long)lane, (long long)batch, text, plans, fixed, both,
           (long long)first.engine, knobs, (long long)first_workspace, plans ? "" : own.reason);
    release(&own);
    release(&joined);
}

// Of forward, data and weight gradients, the first patterns.
static int list_engines(const char *path, int64_t batch, int64_t lane) {
    machine m = {.handle = NULL};
    graph g = {.failed = false};
    if (!open_properties(&m, &g, path))
        return 1;
    for (int p = 0; p < 3; p++)
        for (int t = 0; t < TYPES; t++)
            for (int s = 0; s < SHAPES; s++)
                print_engines(&m, p, t, s, batch, lane);
    release(&g);
    return 0;
}

// ---- With a GPU ----

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
    m->properties = NULL;
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

// The pool holds a graph's tensors one after the other.
static bool place(graph *g, machine *m, void *pointer[MAX_TENSORS]) {
    size_t at = 0;
    for (int i = 0; i < g->tensor_count; i++) {
        pointer[i] = g->bytes[i] ? m->pool + at : (char *)&epsilon;
        at += (g->bytes[i] + 255) & ~(size_t)255;
    }
    if (at > pool_bytes)
        fail(g, "tensors larger than the pool", CUDNN_STATUS_SUCCESS);
    return !g->failed;
}

static descriptor pack_pointers(graph *g, machine *m, void *pointer[MAX_TENSORS]) {
    int64_t uid[MAX_TENSORS];
    for (int i = 0; i < g->tensor_count; i++)
        uid[i] = i + 1;
    descriptor pack = create(g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, g->tensor_count, uid);
    set(g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, g->tensor_count,
        pointer);
    set(g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &m->workspace);
    return finalize(g, pack, "variant pack");
}

static void execute(graph *g, machine *m, descriptor plan, descriptor pack) {
    cudnnStatus_t status =
        g->failed ? CUDNN_STATUS_SUCCESS : cudnnBackendExecute(m->handle, plan, pack);
    if (status != CUDNN_STATUS_SUCCESS)
        fail(g, "execute", status);
}

// Microseconds of a plan; 0 if it does not run.
static double time_plan(graph *g, machine *m, descriptor plan) {
    void *pointer[MAX_TENSORS];
    double us[RUNS];
    if (!place(g, m, pointer))
        return 0;
    descriptor pack = pack_pointers(g, m, pointer);
    for (int i = -2; i < RUNS && !g->failed; i++) {
        float ms = 0;
        CHECK_CUDA(cudaMemsetAsync(m->flush, 1, flush_bytes, m->stream));
        CHECK_CUDA(cudaEventRecord(m->begin, m->stream));
        execute(g, m, plan, pack);
        CHECK_CUDA(cudaEventRecord(m->end, m->stream));
        CHECK_CUDA(cudaEventSynchronize(m->end));
        CHECK_CUDA(cudaEventElapsedTime(&ms, m->begin, m->end));
        if (i >= 0)
            us[i] = 1e3 * (double)ms;
    }
    if (g->failed)
        return 0;
    qsort(us, RUNS, sizeof us[0], compare);
    return us[RUNS / 2];
}

typedef struct row {
    int working;
    double first_us, best_us, deterministic_us;
} row;

// Makes and times the plan of a configuration; a failure affects only this configuration.
static void try_config(graph *g, machine *m, descriptor config, row *out) {
    int64_t workspace;
    int kept = g->count;
    descriptor plan = make_plan(g, m, config, &workspace);
    double us = g->failed ? 0 : time_plan(g, m, plan);
    forget(g, kept);
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
    int count = list_configs(g, m, operations, mode, configs);
    for (int i = 0; i < count; i++)
        try_config(g, m, configs[i], out);
}

static void measure(graph *g, machine *m, row *out) {
    descriptor operations = operation_graph(g, m);
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

// Whether an earlier shape is the same for a pattern.
static bool is_repeated(int pattern, int shape) {
    graph own = {.shape = shapes[shape]};
    for (int s = 0; patterns[pattern].of_output && s < shape; s++) {
        graph other = {.shape = shapes[s]};
        if (shapes[s].k == shapes[shape].k && out_side(&other) == out_side(&own))
            return true;
    }
    return false;
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
        for (int t = 0; t < TIMED_TYPES && is_wanted(patterns[p].name, wanted); t++) {
            for (int s = 0; s < SHAPES; s++) {
                char text[64], key[160];
                shape_text(&shapes[s], text);
                snprintf(key, sizeof key, "%s\t%s\t%lld\t%s\t", patterns[p].name, types[t].name,
                         (long long)batch, text);
                if (is_repeated(p, s) || is_done(done, key))
                    continue;
                if (difftime(time(NULL), begin) > seconds)
                    return 3; // the next call continues here
                measure_row(&m, p, t, s, batch, key);
            }
        }
    }
    return 0;
}

// ---- Lanes ----

// Runs 'alone' for the lane that begins at sample 'first' of 'joined', whose result lies at 'out',
// and compares. Tensor 'in' and tensor 'result' have samples.
static bool same_bits(graph *alone, machine *m, descriptor plan, const graph *joined,
                      void *const pointer[MAX_TENSORS], int in, int result, int64_t first,
                      char *host) {
    void *own[MAX_TENSORS];
    int kept = alone->count;
    size_t in_bytes = joined->bytes[in] / (size_t)joined->batch * (size_t)first,
           out_bytes = joined->bytes[result] / (size_t)joined->batch * (size_t)first,
           bytes = alone->bytes[result];
    for (int i = 0; i < alone->tensor_count; i++)
        own[i] = pointer[i];
    own[in] = (char *)pointer[in] + in_bytes;
    own[result] = m->pool + pool_bytes - ((bytes + 255) & ~(size_t)255);
    execute(alone, m, plan, pack_pointers(alone, m, own));
    CHECK_CUDA(cudaMemcpyAsync(host, own[result], bytes, cudaMemcpyDeviceToHost, m->stream));
    CHECK_CUDA(cudaMemcpyAsync(host + bytes, (char *)pointer[result] + out_bytes, bytes,
                               cudaMemcpyDeviceToHost, m->stream));
    CHECK_CUDA(cudaStreamSynchronize(m->stream));
    bool equal = !alone->failed && memcmp(host, host + bytes, bytes) == 0;
    forget(alone, kept);
    return equal;
}

static void compare_lanes(machine *m, int pattern, int type, int shape, int64_t batch, int64_t lane,
                          const char *key, char *host) {
    graph own = {.type = types[type].type, .batch = lane, .shape = shapes[shape]},
          joined = {.type = types[type].type, .batch = batch, .shape = shapes[shape]};
    descriptor configs[MAX_CONFIGS];
    void *pointer[MAX_TENSORS];
    // forward: x, w, y; data gradient: dx, w, dy
    int in = pattern == 0 ? 0 : 2, result = 2 - in, engines = 0, equal = 0, first_equal = -1;
    int64_t workspace;
    patterns[pattern].build(&own);
    patterns[pattern].build(&joined);
    descriptor operations = operation_graph(&own, m), others = operation_graph(&joined, m);
    int count = list_configs(&own, m, operations, CUDNN_HEUR_MODE_A, configs);
    for (int i = 0; i < count && place(&joined, m, pointer); i++) {
        int kept = own.count, kept_joined = joined.count;
        choice c = read_choice(&own, configs[i]);
        descriptor plan = make_plan(&own, m, configs[i], &workspace);
        descriptor config = make_config(&joined, m, others, &c);
        descriptor together = make_plan(&joined, m, config, &workspace);
        execute(&joined, m, together, pack_pointers(&joined, m, pointer));
        if (!own.failed && !joined.failed) {
            bool same = same_bits(&own, m, plan, &joined, pointer, in, result, 0, host) &&
                        same_bits(&own, m, plan, &joined, pointer, in, result, batch - lane, host);
            engines++;
            equal += same;
            if (first_equal < 0)
                first_equal = same;
        }
        forget(&own, kept);
        forget(&joined, kept_joined);
    }
    printf("%s%d\t%d\t%s\n", key, engines, equal,
           first_equal < 0 ? "none"
           : first_equal   ? "equal"
                           : "different");
    fflush(stdout);
    release(&own);
    release(&joined);
}

static int measure_lanes(int64_t batch, int64_t lane, double seconds, const char *done) {
    machine m;
    void *host;
    time_t begin = time(NULL);
    open_machine(&m);
    CHECK_CUDA(cudaMallocHost(&host, (size_t)1 << 30));
    for (int p = 0; p < 2; p++) { // forward and data gradients
        for (int t = 0; t < TIMED_TYPES; t++) {
            for (int s = 0; s < SHAPES; s++) {
                char text[64], key[160];
                shape_text(&shapes[s], text);
                snprintf(key, sizeof key, "%s\t%s\t%lld of %lld\t%s\t", patterns[p].name,
                         types[t].name, (long long)lane, (long long)batch, text);
                if (is_done(done, key))
                    continue;
                if (difftime(time(NULL), begin) > seconds)
                    return 3;
                compare_lanes(&m, p, t, s, batch, lane, key, host);
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
    if (argc == 5 && strcmp(argv[1], "engines") == 0)
        return list_engines(argv[2], atoll(argv[3]), atoll(argv[4]));
    if (argc == 6 && strcmp(argv[1], "lanes") == 0)
        return measure_lanes(atoll(argv[2]), atoll(argv[3]), atof(argv[4]), argv[5]);
    if (argc >= 5 && strcmp(argv[1], "table") == 0)
        return measure_table(atoll(argv[2]), atof(argv[3]), argv[4], argv + 5);
    fputs("usage: probe_cudnn check | devices | engines JSON BATCH LANE | lanes BATCH LANE SECONDS "
          "DONE |"
          " table BATCH SECONDS DONE [PATTERN...]\n",
          stderr);
    return 2;
}
