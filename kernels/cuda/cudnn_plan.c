// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn_plan.h"

#include <pthread.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/cudnn_library.h"
#include "kernels/kernel_params.h"

enum {
    ALIGNMENT = 16,    // of the tensors
    MOST_CHOICES = 16, // of the heuristics
    MOST_KNOBS = 32,   // of an engine
    MOST_PARTS = 64,   // descriptors of a plan
    PACKS = 1024,      // of a plan that are kept; then the oldest one makes room
    MOST_NOTES = CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
};

// What an execution is given: its addresses, and the descriptor that names them. Plans that are
// replayed have the same ones in every step, so a steady step makes none.
typedef struct pack {
    void *memory[SR_CUDNN_TENSORS], *workspace;
    cudnnBackendDescriptor_t descriptor;
} pack;

// What identifies an engine and how it computes.
typedef struct choice {
    int64_t engine, knobs; // knobs: how many; -1: not known
    cudnnBackendKnobType_t type[MOST_KNOBS];
    int64_t value[MOST_KNOBS];
} choice;

struct sr_cudnn_plan {
    sr_cudnn_plan *next;
    int ordinal; // of its device
    int lanes;   // 0: one
    sr_kernel_id kernel;
    sr_dtype dtype;
    sr_conv_params params;
    cudnnBackendDescriptor_t plan; // NULL: no engine
    choice choice;
    int64_t workspace;
    // Executions so far, at most PACKS; under the lock of handles.
    pack *packs;
    size_t count, capacity, oldest;
};

// What was made: descriptors are destroyed in the reverse order of their creation. After the first
// failure nothing is made.
typedef struct making {
    const sr_cudnn_calls *calls;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t part[MOST_PARTS];
    int parts;
    cudnnStatus_t status;
    const char *what; // that failed
} making;

typedef cudnnBackendDescriptor_t descriptor;

static void note(making *m, cudnnStatus_t status, const char *what) {
    if (m->status == CUDNN_STATUS_SUCCESS && status != CUDNN_STATUS_SUCCESS) {
        m->status = status;
        m->what = what;
    }
}

static descriptor create(making *m, cudnnBackendDescriptorType_t type) {
    descriptor d = NULL;
    if (m->status != CUDNN_STATUS_SUCCESS)
        return NULL;
    if (m->parts == MOST_PARTS) {
        note(m, CUDNN_STATUS_INTERNAL_ERROR, "making a plan of many parts");
        return NULL;
    }
    note(m, m->calls->cudnnBackendCreateDescriptor(type, &d), "making a descriptor");
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->part[m->parts++] = d;
    return d;
}

static void set(making *m, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    if (m->status == CUDNN_STATUS_SUCCESS)
        note(m, m->calls->cudnnBackendSetAttribute(d, name, type, count, values),
             "describing a convolution");
}

static void set_part(making *m, descriptor d, cudnnBackendAttributeName_t name, descriptor part) {
    set(m, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static void finalize(making *m, descriptor d, const char *what) {
    if (m->status == CUDNN_STATUS_SUCCESS)
        note(m, m->calls->cudnnBackendFinalize(d), what);
}

// Destroys what was made after the first 'kept' parts, and forgets a failure since.
static void undo(making *m, int kept) {
    while (m->parts > kept)
        (void)m->calls->cudnnBackendDestroyDescriptor(m->part[--m->parts]);
    m->status = CUDNN_STATUS_SUCCESS;
}

// ---- What is computed ----

static descriptor make_tensor(making *m, sr_cudnn_tensor which, sr_dtype dtype, int64_t n,
                              int64_t c, int64_t h, int64_t w) {
    const cudnnDataType_t type = dtype == SR_BF16  ? CUDNN_DATA_BFLOAT16
                                 : dtype == SR_F16 ? CUDNN_DATA_HALF
                                                   : CUDNN_DATA_FLOAT; // on tensor cores: TF32
    const int64_t sizes[] = {n, c, h, w}, steps[] = {c * h * w, 1, c * w, c};
    const int64_t id = which, alignment = ALIGNMENT;
    descriptor d = create(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes);
    set(m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, steps);
    set(m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    finalize(m, d, "describing a tensor");
    return d;
}

static descriptor make_convolution(making *m, const sr_conv_params *p) {
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t dimensions = 2, before[] = {p->pad_top, p->pad_left},
                  after[] = {p->pad_bottom, p->pad_right}, stride[] = {p->stride_h, p->stride_w},
                  dilation[] = {p->dilation_h, p->dilation_w};
    descriptor d = create(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(m, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    set(m, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(m, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dimensions);
    set(m, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before);
    set(m, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after);
    set(m, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
    set(m, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
    finalize(m, d, "describing a convolution");
    return d;
}

// How an operation names what it takes.
typedef struct operation {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t convolution, picture, filter, result, alpha, beta;
} operation;

static const operation *operation_of(sr_kernel_id kernel) {
    static const operation forward = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    static const operation data = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    static const operation filter = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    return kernel == SR_KERNEL_conv2d ? &forward : kernel == SR_KERNEL_conv2d_dx ? &data : &filter;
}

static descriptor make_graph(making *m, const sr_cudnn_plan *plan) {
    const sr_conv_params *p = &plan->params;
    const operation *o = operation_of(plan->kernel);
    const float one = 1.0f, zero = 0.0f;
    descriptor convolution = make_convolution(m, p);
    descriptor picture = make_tensor(m, SR_CUDNN_PICTURE, plan->dtype, p->n, p->c, p->h, p->w);
    descriptor filter = make_tensor(m, SR_CUDNN_FILTER, plan->dtype, p->k, p->c, p->r, p->s);
    descriptor result = make_tensor(m, SR_CUDNN_RESULT, plan->dtype, p->n, p->k, p->p, p->q);
    descriptor op = create(m, o->type);
    set_part(m, op, o->convolution, convolution);
    set_part(m, op, o->picture, picture);
    set_part(m, op, o->filter, filter);
    set_part(m, op, o->result, result);
    set(m, op, o->alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(m, op, o->beta, CUDNN_TYPE_FLOAT, 1, &zero);
    finalize(m, op, "describing a convolution");
    descriptor graph = create(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set_part(m, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, op);
    set(m, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &m->handle);
    finalize(m, graph, "describing a convolution");
    return graph;
}

// ---- Who computes it ----

static bool is_fit(const cudnnBackendNumericalNote_t *notes, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (notes[i] != CUDNN_NUMERICAL_NOTE_TENSOR_CORE &&
            notes[i] != CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP)
            return false; // not deterministic, of less precision, or Winograd's
    return true;
}

// Whether a configuration's engine computes as we ask for.
static bool is_wanted(making *m, descriptor config) {
    cudnnBackendNumericalNote_t notes[MOST_NOTES];
    cudnnBackendBehaviorNote_t behavior[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t count = 0;
    const int kept = m->parts;
    descriptor engine = create(m, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    bool wanted = m->status == CUDNN_STATUS_SUCCESS &&
                  m->calls->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                                     &engine) == CUDNN_STATUS_SUCCESS &&
                  m->calls->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                     CUDNN_TYPE_NUMERICAL_NOTE, MOST_NOTES, &count,
                                                     notes) == CUDNN_STATUS_SUCCESS &&
                  is_fit(notes, count) &&
                  m->calls->cudnnBackendGetAttribute(
                      engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                      CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &count, behavior) == CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; wanted && i < count; i++)
        wanted = behavior[i] != CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION; // takes long
    undo(m, kept);
    return wanted;
}

// Whether a failure follows from what is asked for, so that all ranks have it. Others, such as too
// little memory, must not decide who computes.
static bool is_refusal(cudnnStatus_t status) {
    return status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000 ||
           status / 1000 == CUDNN_STATUS_BAD_PARAM / 1000;
}

// The plan of a configuration; false if its engine refuses it after all.
static bool make_plan(making *m, descriptor config, sr_cudnn_plan *out) {
    int64_t count = 0;
    const int kept = m->parts;
    descriptor d = create(m, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(m, d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &m->handle);
    set_part(m, d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    finalize(m, d, "making a plan");
    if (m->status == CUDNN_STATUS_SUCCESS) {
        note(m,
             m->calls->cudnnBackendGetAttribute(d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                CUDNN_TYPE_INT64, 1, &count, &out->workspace),
             "asking for a workspace");
    }
    if (m->status != CUDNN_STATUS_SUCCESS) {
        if (is_refusal(m->status))
            undo(m, kept);
        return false;
    }
    m->parts--; // kept by the plan
    out->plan = d;
    return true;
}

// Reads an attribute of one element.
static bool get(const making *m, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, void *out) {
    int64_t count = 0;
    return m->calls->cudnnBackendGetAttribute(d, name, type, 1, &count, out) ==
           CUDNN_STATUS_SUCCESS;
}

// The engine and knobs of a configuration.
static void read_choice(making *m, descriptor config, choice *out) {
    descriptor knob[MOST_KNOBS];
    int64_t count = 0;
    const int kept = m->parts;
    descriptor engine = create(m, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    for (int i = 0; i < MOST_KNOBS; i++)
        knob[i] = create(m, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    bool known =
        m->status == CUDNN_STATUS_SUCCESS &&
        get(m, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, &engine) &&
        get(m, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, &out->engine) &&
        m->calls->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_KNOBS, &count,
                                           knob) == CUDNN_STATUS_SUCCESS &&
        count <= MOST_KNOBS;
    for (int64_t i = 0; known && i < count; i++)
        known =
            get(m, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
                &out->type[i]) &&
            get(m, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, &out->value[i]);
    out->knobs = known ? count : -1;
    undo(m, kept);
}

// The configuration of a choice, for another number of samples.
static descriptor make_config(making *m, descriptor graph, const choice *c) {
    descriptor knob[MOST_KNOBS];
    descriptor engine = create(m, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    set_part(m, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    set(m, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &c->engine);
    finalize(m, engine, "taking an engine");
    for (int64_t i = 0; i < c->knobs; i++) {
        knob[i] = create(m, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        set(m, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &c->type[i]);
        set(m, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &c->value[i]);
        finalize(m, knob[i], "taking an engine");
    }
    descriptor config = create(m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set_part(m, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (c->knobs > 0)
        set(m, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, c->knobs,
            knob);
    finalize(m, config, "taking an engine");
    return config;
}

static void choose(making *m, descriptor graph, cudnnBackendHeurMode_t mode, sr_cudnn_plan *out) {
    descriptor config[MOST_CHOICES];
    int64_t count = 0;
    descriptor heuristics = create(m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_part(m, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(m, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(m, heuristics, "asking for engines");
    for (int i = 0; i < MOST_CHOICES; i++)
        config[i] = create(m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (m->status == CUDNN_STATUS_SUCCESS) {
        note(m,
             m->calls->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_CHOICES, &count,
                                                config),
             "asking for engines");
    }
    for (int64_t i = 0; m->status == CUDNN_STATUS_SUCCESS && i < count && i < MOST_CHOICES; i++) {
        if (is_wanted(m, config[i]) && make_plan(m, config[i], out)) {
            read_choice(m, config[i], &out->choice);
            return;
        }
    }
}

static void choose_any(making *m, descriptor graph, sr_cudnn_plan *out) {
    const int kept = m->parts;
    choose(m, graph, CUDNN_HEUR_MODE_A, out);
    if (!out->plan && (m->status == CUDNN_STATUS_SUCCESS || is_refusal(m->status))) {
        undo(m, kept);
        if (graph)
            choose(m, graph, CUDNN_HEUR_MODE_FALLBACK, out);
    }
}

// lane: the plan of one of the lanes; NULL: there are none.
static sr_status make(const sr_cudnn_calls *calls, const sr_cudnn_plan *lane, sr_cudnn_plan *out) {
    making m = {.calls = calls};
    SR_TRY(sr_cudnn_handle(NULL, &m.handle));
    descriptor graph = make_graph(&m, out);
    if (lane)
        (void)make_plan(&m, make_config(&m, graph, &lane->choice), out);
    else
        choose_any(&m, graph, out);
    const bool failed = !out->plan && m.status != CUDNN_STATUS_SUCCESS && !is_refusal(m.status);
    const sr_status status =
        failed ? sr_cudnn_fail(m.status, "%s for %s", m.what, sr_kernel_name(out->kernel)) : SR_OK;
    undo(&m, 0);
    return status;
}

// ---- All plans ----

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sr_cudnn_plan *plans;

static bool is_plan_of(const sr_cudnn_plan *plan, const sr_cudnn_plan *wanted) {
    return plan->ordinal == wanted->ordinal && plan->kernel == wanted->kernel &&
           plan->dtype == wanted->dtype && plan->lanes == wanted->lanes &&
           memcmp(&plan->params, &wanted->params, sizeof plan->params) == 0;
}

static sr_status find_or_make(const sr_cudnn_calls *calls, const sr_cudnn_plan *wanted,
                              const sr_cudnn_plan *lane, sr_cudnn_plan **out) {
    for (*out = plans; *out; *out = (*out)->next)
        if (is_plan_of(*out, wanted))
            return SR_OK;
    sr_cudnn_plan *plan = sr_alloc(sizeof *plan, "a plan of cuDNN");
    if (!plan)
        return SR_E_MEMORY;
    *plan = *wanted;
    sr_cudnn_lock();
    const sr_status status = make(calls, lane, plan);
    sr_cudnn_unlock();
    if (status != SR_OK) {
        sr_free(plan);
        return status;
    }
    plan->next = plans;
    plans = plan;
    *out = plan;
    return SR_OK;
}

// The engine of several lanes is that of one.
static sr_status find_for_lanes(const sr_cudnn_calls *calls, const sr_cudnn_plan *wanted,
                                sr_cudnn_plan **out) {
    sr_cudnn_plan one = *wanted, *lane = NULL;
    if (wanted->lanes > 0) {
        one.lanes = 0;
        one.params.n /= wanted->lanes;
        SR_TRY(find_or_make(calls, &one, NULL, &lane));
        if (!lane->plan || lane->choice.knobs < 0)
            return SR_OK;
    }
    return find_or_make(calls, wanted, lane, out);
}

sr_status sr_cudnn_plan_find(const sr_kernel_request *request, sr_cudnn_plan **out) {
    const sr_cudnn_calls *calls = sr_cudnn_open();
    sr_cudnn_plan wanted = {
        .kernel = request->kernel, .dtype = sr_kernel_activation(request), .lanes = request->lanes};
    *out = NULL;
    if (!calls)
        return SR_OK;
    const cudaError_t error = cudaGetDevice(&wanted.ordinal);
    if (error != cudaSuccess)
        return sr_cuda_fail(NULL, error, "asking for the device in use");
    memcpy(&wanted.params, request->params, sizeof wanted.params);
    (void)pthread_mutex_lock(&lock);
    const sr_status status = find_for_lanes(calls, &wanted, out);
    (void)pthread_mutex_unlock(&lock);
    if (*out && !(*out)->plan)
        *out = NULL;
    return status;
}

size_t sr_cudnn_plan_workspace(const sr_cudnn_plan *plan) {
    return (size_t)plan->workspace;
}

static sr_status make_pack(const sr_cudnn_plan *plan, making *m, pack *out) {
    static const int64_t ids[SR_CUDNN_TENSORS] = {SR_CUDNN_PICTURE, SR_CUDNN_FILTER,
                                                  SR_CUDNN_RESULT};
    descriptor d = create(m, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(m, d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, SR_CUDNN_TENSORS, ids);
    set(m, d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, SR_CUDNN_TENSORS,
        (const void *)out->memory);
    set(m, d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &out->workspace);
    finalize(m, d, "naming the tensors");
    if (m->status != CUDNN_STATUS_SUCCESS)
        return sr_cudnn_fail(m->status, "%s of %s", m->what, sr_kernel_name(plan->kernel));
    m->parts--; // kept by the plan
    out->descriptor = d;
    return SR_OK;
}

// Room for one more: a new one, or that of the oldest.
static sr_status take_pack(sr_cudnn_plan *plan, const sr_cudnn_calls *calls, pack **out) {
    if (plan->count == PACKS) {
        *out = &plan->packs[plan->oldest++ % PACKS];
        (void)calls->cudnnBackendDestroyDescriptor((*out)->descriptor);
        return SR_OK;
    }
    void *packs = plan->packs;
    SR_TRY(sr_grow(&packs, &plan->capacity, plan->count + 1, sizeof *plan->packs,
                   "addresses of a convolution"));
    plan->packs = packs;
    *out = &plan->packs[plan->count++];
    return SR_OK;
}

static sr_status find_pack(sr_cudnn_plan *plan, making *m, const pack *wanted, descriptor *out) {
    pack *place;
    for (size_t i = 0; i < plan->count; i++) {
        if (memcmp(plan->packs[i].memory, wanted->memory, sizeof wanted->memory) == 0 &&
            plan->packs[i].workspace == wanted->workspace) {
            *out = plan->packs[i].descriptor;
            return SR_OK;
        }
    }
    pack made = *wanted;
    SR_TRY(make_pack(plan, m, &made));
    const sr_status status = take_pack(plan, m->calls, &place);
    if (status != SR_OK) {
        (void)m->calls->cudnnBackendDestroyDescriptor(made.descriptor);
        return status;
    }
    *place = made;
    *out = made.descriptor;
    return SR_OK;
}

static sr_status execute(sr_cudnn_plan *plan, void *stream, void *const memory[SR_CUDNN_TENSORS],
                         void *workspace) {
    making m = {.calls = sr_cudnn_open()};
    pack wanted = {.workspace = workspace};
    descriptor given = NULL;
    memcpy(wanted.memory, memory, sizeof wanted.memory);
    SR_TRY(sr_cudnn_handle(stream, &m.handle));
    const sr_status status = find_pack(plan, &m, &wanted, &given);
    undo(&m, 0);
    SR_TRY(status);
    const cudnnStatus_t done = m.calls->cudnnBackendExecute(m.handle, plan->plan, given);
    return done == CUDNN_STATUS_SUCCESS
               ? SR_OK
               : sr_cudnn_fail(done, "executing a plan of %s", sr_kernel_name(plan->kernel));
}

sr_status sr_cudnn_plan_execute(sr_cudnn_plan *plan, void *stream,
                                void *const memory[SR_CUDNN_TENSORS], void *workspace) {
    sr_cudnn_lock();
    const sr_status status = execute(plan, stream, memory, workspace);
    sr_cudnn_unlock();
    return status;
}
