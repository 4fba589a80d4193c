// SPDX-License-Identifier: Apache-2.0
// Engines and heuristics of the stand-in for cuDNN. The engines differ in the order of their sums,
// so that bits say which one computed:
//
//   atomic  the fastest; its bits differ from run to run, and it says so in its notes
//   large   deterministic; its plans cannot be made
//   split   deterministic, with two knobs
//   plain   deterministic, without knobs and without a workspace
//
// As in cuDNN, the order in which heuristics list them depends on the shape, the number of samples
// included.
#include <stdatomic.h>

#include "tests/soft_gpu/soft_cudnn.h"
#include "tests/soft_gpu/soft_gpu.h"

enum { PLAIN = 0, SPLIT = 3, ATOMIC = 5, LARGE = 11 };
enum { ATOMIC_SLICES = 7, SLICES_MAX = 8, WORKSPACE_MULTIPLE = 256 };
// Samples that engines with knobs take at most, and those before the first one with other bits, if
// they are set to.
enum { FEW = 4, ALIKE = 2 };

typedef struct knob_range {
    cudnnBackendKnobType_t type;
    int64_t least, most;
} knob_range;

typedef struct engine_info {
    int64_t index;
    int notes, knobs;
    cudnnBackendNumericalNote_t note[SOFT_CUDNN_NOTES];
    knob_range knob[SOFT_CUDNN_KNOBS]; // the least value is the one without a choice
} engine_info;

static const engine_info engines[] = {
    {PLAIN, 0, 0, {0}, {{0}}},
    {SPLIT,
     1,
     2,
     {CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
     {{CUDNN_KNOB_TYPE_SPLIT_K_SLC, 2, SLICES_MAX}, {CUDNN_KNOB_TYPE_REDUCTION_MODE, 0, 1}}},
    {ATOMIC,
     3,
     0,
     {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
      CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
     {{0}}},
    {LARGE, 1, 1, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, {{CUDNN_KNOB_TYPE_TILE_SIZE, 0, 3}}},
};

static const engine_info *find(int64_t index) {
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        if (engines[i].index == index)
            return &engines[i];
    return NULL;
}

// ---- Heuristics ----

static void list(soft_heuristics *h, int64_t engine, int64_t knobs, int64_t first, int64_t second) {
    const engine_info *info = find(engine);
    soft_config *c = &h->result[h->results++];
    *c = (soft_config){.engine = {.graph = h->graph, .index = engine}, .knobs = knobs};
    (void)soft_cudnn_engine(&c->engine);
    for (int i = 0; i < knobs; i++)
        c->knob[i] = (soft_knob){info->knob[i].type, i == 0 ? first : second};
}

// Of the three deterministic choices that work.
static void list_choice(soft_heuristics *h, int number) {
    if (number == 0)
        list(h, SPLIT, 2, 4, 0);
    else if (number == 1)
        list(h, SPLIT, 2, 3, 1);
    else
        list(h, PLAIN, 0, 0, 0);
}

// For what they do not know they list nothing, as cuDNN's.
void soft_cudnn_heuristics(soft_heuristics *h) {
    int first = 0;
    h->results = 0;
    if (h->mode != CUDNN_HEUR_MODE_A && h->mode != CUDNN_HEUR_MODE_FALLBACK)
        soft_gpu_mistake("cuDNN: the stand-in has no heuristics of mode %d", (int)h->mode);
    if (soft_cudnn_check_support(&h->graph.operation) != CUDNN_STATUS_SUCCESS ||
        soft_cudnn_set_to("none"))
        return;
    if (h->mode == CUDNN_HEUR_MODE_FALLBACK) {
        list_choice(h, 2);
        return;
    }
    for (int64_t n = h->graph.operation.x.dim[0]; n > 1; n /= 2)
        first++;
    list(h, ATOMIC, 0, 0, 0);
    list(h, LARGE, 1, 2, 0);
    for (int i = 0; i < 3; i++)
        list_choice(h, (first + i) % 3);
}

// ---- Engines and configurations ----

cudnnStatus_t soft_cudnn_engine(soft_engine *e) {
    const engine_info *info = find(e->index);
    if (!info)
        return soft_cudnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "engine %lld does not exist",
                                 (long long)e->index);
    const cudnnStatus_t status = soft_cudnn_check_support(&e->graph.operation);
    e->behaviors = 1; // the one that takes a large tile is compiled when a plan is made
    e->behavior[0] = info->index == LARGE ? CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION
                                          : CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API;
    e->notes = info->notes;
    for (int i = 0; i < info->notes; i++)
        e->note[i] = info->note[i];
    return status;
}

static cudnnStatus_t check_knob(const engine_info *info, const soft_knob *knob) {
    for (int i = 0; i < info->knobs; i++) {
        if (info->knob[i].type == knob->type) {
            return knob->value >= info->knob[i].least && knob->value <= info->knob[i].most
                       ? CUDNN_STATUS_SUCCESS
                       : soft_cudnn_refuse(
                             CUDNN_STATUS_BAD_PARAM, "engine %lld: knob %d cannot be %lld",
                             (long long)info->index, (int)knob->type, (long long)knob->value);
        }
    }
    return soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM, "engine %lld: it has no knob %d",
                             (long long)info->index, (int)knob->type);
}

cudnnStatus_t soft_cudnn_config(soft_config *c) {
    const engine_info *info = find(c->engine.index);
    for (int64_t i = 0; i < c->knobs; i++) {
        const cudnnStatus_t status = check_knob(info, &c->knob[i]);
        if (status != CUDNN_STATUS_SUCCESS)
            return status;
        for (int64_t j = 0; j < i; j++)
            if (c->knob[j].type == c->knob[i].type)
                return soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM,
                                         "engine configuration: knob %d twice",
                                         (int)c->knob[i].type);
    }
    return CUDNN_STATUS_SUCCESS;
}

static int64_t knob_value(const soft_config *c, int number) {
    const knob_range *range = &find(c->engine.index)->knob[number];
    for (int64_t i = 0; i < c->knobs; i++)
        if (c->knob[i].type == range->type)
            return c->knob[i].value;
    return range->least;
}

// ---- Plans ----

soft_conv_kind soft_cudnn_kind(const soft_operation *o) {
    return o->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ? SOFT_CONV_FORWARD
           : o->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
               ? SOFT_CONV_DATA
               : SOFT_CONV_FILTER;
}

soft_conv_args soft_cudnn_arguments(const soft_plan *p) {
    const soft_config *c = &p->config;
    const soft_operation *o = &c->engine.graph.operation;
    const int64_t *x = o->x.dim, *w = o->w.dim, *y = o->y.dim;
    const int64_t *out = (const int64_t *const[]){y, x, w}[soft_cudnn_kind(o)];
    const soft_window *v = &o->window;
    soft_conv_args a = {.count = out[0] * out[1] * out[2] * out[3],
                        .workspace_count = p->workspace / (int64_t)sizeof(float),
                        .n = x[0],
                        .c = x[1],
                        .h = x[2],
                        .w = x[3],
                        .k = w[0],
                        .r = w[2],
                        .s = w[3],
                        .p = y[2],
                        .q = y[3],
                        .pad = {v->pre[0], v->pre[1]},
                        .stride = {v->stride[0], v->stride[1]},
                        .dilation = {v->dilation[0], v->dilation[1]},
                        .slices = 1,
                        .rough = soft_cudnn_set_to("rough") || soft_cudnn_set_to("samples")};
    if (c->engine.index == SPLIT) {
        a.slices = knob_value(c, 0);
        a.backwards = knob_value(c, 1);
    } else if (c->engine.index == ATOMIC) {
        a.slices = ATOMIC_SLICES;
        a.any_order = a.rough = 1;
    }
    a.turn = soft_cudnn_set_to("samples") ? ALIKE * (a.count / a.n) : a.count;
    return a;
}

cudnnStatus_t soft_cudnn_plan(soft_plan *p) {
    const soft_config *c = &p->config;
    if (c->engine.graph.handle != p->handle)
        soft_gpu_mistake("cuDNN: a plan whose handle is not that of its graph");
    if (c->engine.index == LARGE || soft_cudnn_set_to("plans"))
        return soft_cudnn_refuse(CUDNN_STATUS_NOT_SUPPORTED,
                                 "execution plan: engine %lld has no kernel for this graph",
                                 (long long)c->engine.index);
    if (soft_cudnn_set_to("few") && find(c->engine.index)->knobs > 0 &&
        c->engine.graph.operation.x.dim[0] > FEW)
        return soft_cudnn_refuse(CUDNN_STATUS_NOT_SUPPORTED,
                                 "execution plan: engine %lld has no kernel for so many samples",
                                 (long long)c->engine.index);
    const soft_conv_args a = soft_cudnn_arguments(p);
    const int64_t sums = a.slices > 1 ? a.slices * a.count * (int64_t)sizeof(float) : 0;
    p->workspace = sums > 0 ? (sums / WORKSPACE_MULTIPLE + 2) * WORKSPACE_MULTIPLE : 0;
    return CUDNN_STATUS_SUCCESS;
}

// ---- The order of the engine that is not deterministic ----

uint32_t soft_cudnn_draw(void) {
    static atomic_uint_least64_t calls;
    uint64_t x = soft_gpu_seed() + atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd); // the finalizer of MurmurHash3
    x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return (uint32_t)(x >> 32);
}
