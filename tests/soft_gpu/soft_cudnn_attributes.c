// SPDX-License-Identifier: Apache-2.0
// Attributes of the descriptors of the stand-in for cuDNN: a table of what each holds, by which
// they are set and read.
#include <string.h>

#include "tests/soft_gpu/soft_cudnn.h"
#include "tests/soft_gpu/soft_gpu.h"

typedef struct attribute {
    cudnnBackendDescriptorType_t owner; // of an operation: the three kinds have names of their own
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    cudnnBackendDescriptorType_t part; // of descriptors: which; any operation: the forward one
    enum { NEEDED, OPTIONAL, READ_ONLY } use;
    int64_t least, most; // elements
    size_t at, count_at; // in soft_body; count_at 0: their number is fixed
} attribute;

#define AT(field) offsetof(soft_body, field)
#define PLAIN CUDNN_BACKEND_TENSOR_DESCRIPTOR // of attributes that are no descriptors: not read
#define ROW(owner, name, type, part, use, least, most, field, count_at)                            \
    {                                                                                              \
        CUDNN_BACKEND_##owner##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, part, use,       \
            least, most, AT(field), count_at                                                       \
    }
#define ONE(owner, name, type, field) ROW(owner, name, type, PLAIN, NEEDED, 1, 1, field, 0)
#define MANY(owner, name, type, n, field) ROW(owner, name, type, PLAIN, NEEDED, n, n, field, 0)
#define PART(owner, name, of, field)                                                               \
    ROW(owner, name, BACKEND_DESCRIPTOR, CUDNN_BACKEND_##of##_DESCRIPTOR, NEEDED, 1, 1, field, 0)
#define OPERATION(owner, name, x_name, w_name, y_name)                                             \
    PART(OPERATION_CONVOLUTION_##owner, OPERATION_CONVOLUTION_##name##_CONV_DESC, CONVOLUTION,     \
         operation.window),                                                                        \
        PART(OPERATION_CONVOLUTION_##owner, OPERATION_CONVOLUTION_##name##_##x_name, TENSOR,       \
             operation.x),                                                                         \
        PART(OPERATION_CONVOLUTION_##owner, OPERATION_CONVOLUTION_##name##_##w_name, TENSOR,       \
             operation.w),                                                                         \
        PART(OPERATION_CONVOLUTION_##owner, OPERATION_CONVOLUTION_##name##_##y_name, TENSOR,       \
             operation.y),                                                                         \
        ONE(OPERATION_CONVOLUTION_##owner, OPERATION_CONVOLUTION_##name##_ALPHA, FLOAT,            \
            operation.alpha),                                                                      \
        ONE(OPERATION_CONVOLUTION_##owner, OPERATION_CONVOLUTION_##name##_BETA, FLOAT,             \
            operation.beta)

// At most 64 rows: a descriptor has a bit for each.
static const attribute table[] = {
    ONE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, tensor.type),
    MANY(TENSOR, TENSOR_DIMENSIONS, INT64, 4, tensor.dim),
    MANY(TENSOR, TENSOR_STRIDES, INT64, 4, tensor.stride),
    ONE(TENSOR, TENSOR_UNIQUE_ID, INT64, tensor.uid),
    ONE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, tensor.alignment),
    ROW(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, PLAIN, OPTIONAL, 1, 1, tensor.is_virtual, 0),
    ROW(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN, PLAIN, OPTIONAL, 1, 1, tensor.is_by_value, 0),

    ONE(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, window.compute),
    ONE(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, window.mode),
    ONE(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, window.dims),
    MANY(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, 2, window.pre),
    MANY(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, 2, window.post),
    MANY(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, 2, window.stride),
    MANY(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, 2, window.dilation),

    OPERATION(FORWARD, FORWARD, X, W, Y),
    OPERATION(BACKWARD_DATA, BWD_DATA, DX, W, DY),
    OPERATION(BACKWARD_FILTER, BWD_FILTER, X, DW, DY),

    ONE(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, graph.handle),
    ROW(OPERATIONGRAPH, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR,
        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, NEEDED, 1, 1, graph.operation,
        AT(graph.operations)),

    PART(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, OPERATIONGRAPH, heuristics.graph),
    ONE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, heuristics.mode),
    ROW(ENGINEHEUR, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
        READ_ONLY, 0, SOFT_CUDNN_CONFIGS, heuristics.result, AT(heuristics.results)),

    PART(ENGINE, ENGINE_OPERATION_GRAPH, OPERATIONGRAPH, engine.graph),
    ONE(ENGINE, ENGINE_GLOBAL_INDEX, INT64, engine.index),
    ROW(ENGINE, ENGINE_NUMERICAL_NOTE, NUMERICAL_NOTE, PLAIN, READ_ONLY, 0, SOFT_CUDNN_NOTES,
        engine.note, AT(engine.notes)),
    ROW(ENGINE, ENGINE_BEHAVIOR_NOTE, BEHAVIOR_NOTE, PLAIN, READ_ONLY, 0, SOFT_CUDNN_NOTES,
        engine.behavior, AT(engine.behaviors)),

    ONE(KNOB_CHOICE, KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE, knob.type),
    ONE(KNOB_CHOICE, KNOB_CHOICE_KNOB_VALUE, INT64, knob.value),

    PART(ENGINECFG, ENGINECFG_ENGINE, ENGINE, config.engine),
    ROW(ENGINECFG, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
        OPTIONAL, 1, SOFT_CUDNN_KNOBS, config.knob, AT(config.knobs)),

    ONE(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, plan.handle),
    PART(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, ENGINECFG, plan.config),
    ROW(EXECUTION_PLAN, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, PLAIN, READ_ONLY, 1, 1,
        plan.workspace, 0),

    ROW(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, PLAIN, NEEDED, 1, SOFT_CUDNN_POINTERS,
        pack.uid, AT(pack.uids)),
    ROW(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, PLAIN, NEEDED, 1, SOFT_CUDNN_POINTERS,
        pack.pointer, AT(pack.pointers)),
    ROW(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, PLAIN, OPTIONAL, 1, 1, pack.workspace, 0),
};
enum { ROWS = sizeof table / sizeof *table };
_Static_assert(ROWS <= 64, "a bit for each row");

// ---- Elements ----

static size_t part_bytes(cudnnBackendDescriptorType_t part) {
    switch ((int)part) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return sizeof(soft_tensor);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return sizeof(soft_window);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return sizeof(soft_graph);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        return sizeof(soft_engine);
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
        return sizeof(soft_knob);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        return sizeof(soft_config);
    default:
        return sizeof(soft_operation);
    }
}

static size_t element_bytes(const attribute *a) {
    switch ((int)a->type) {
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return part_bytes(a->part);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
        return sizeof(void *);
    case CUDNN_TYPE_INT64:
        return sizeof(int64_t);
    case CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    default: // float and enumerations
        return 4;
    }
}

static unsigned char *place(soft_body *body, size_t at) {
    return (unsigned char *)body + at;
}

static const attribute *find(const soft_descriptor *d, cudnnBackendAttributeName_t name) {
    for (const attribute *a = table; a < table + ROWS; a++)
        if (a->owner == d->type && a->name == name)
            return a;
    return NULL;
}

static cudnnStatus_t check_type(const soft_descriptor *d, cudnnBackendAttributeName_t name,
                                cudnnBackendAttributeType_t type) {
    const attribute *a = find(d, name);
    if (!a)
        soft_gpu_mistake("cuDNN: a descriptor (%s) of the stand-in has no attribute %d",
                         soft_cudnn_type_name(d->type), (int)name);
    if (a->type != type)
        return soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
                                 "%s, attribute %d: its type is %d, not %d",
                                 soft_cudnn_type_name(d->type), (int)name, (int)a->type, (int)type);
    return CUDNN_STATUS_SUCCESS;
}

// cuDNN takes a descriptor that is not finalized, and crashes by one of another kind.
static void check_part(const attribute *a, const soft_descriptor *given, bool finalized) {
    const bool fits = soft_cudnn_is_operation(a->part) ? soft_cudnn_is_operation(given->type)
                                                       : given->type == a->part;
    if (!fits)
        soft_gpu_mistake("cuDNN: attribute %d of a descriptor (%s) is given one of another kind "
                         "(%s)",
                         (int)a->name, soft_cudnn_type_name(a->owner),
                         soft_cudnn_type_name(given->type));
    if (finalized && !given->finalized)
        soft_gpu_mistake("cuDNN: attribute %d of a descriptor (%s) is given one (%s) that is not "
                         "finalized",
                         (int)a->name, soft_cudnn_type_name(a->owner),
                         soft_cudnn_type_name(given->type));
}

// ---- Setting ----

static void set_parts(const attribute *a, soft_body *body, int64_t count, const void *values) {
    const cudnnBackendDescriptor_t *given = values;
    const size_t bytes = element_bytes(a);
    for (int64_t i = 0; i < count; i++) {
        const soft_descriptor *part = soft_cudnn_descriptor(given[i]);
        check_part(a, part, true);
        memcpy(place(body, a->at + (size_t)i * bytes), part->body, bytes);
    }
}

cudnnStatus_t soft_cudnn_set(soft_descriptor *d, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    const char *of = soft_cudnn_type_name(d->type);
    const cudnnStatus_t status = check_type(d, name, type);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    const attribute *a = find(d, name);
    if (a->use == READ_ONLY)
        return soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM, "%s, attribute %d is read alone", of,
                                 (int)name);
    if (d->finalized)
        return soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM,
                                 "%s, attribute %d: the descriptor is finalized", of, (int)name);
    if (!values)
        return soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM, "%s, attribute %d: NULL", of, (int)name);
    if (count < a->least || count > a->most)
        return soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM,
                                 "%s, attribute %d: %lld elements, not %lld to %lld", of, (int)name,
                                 (long long)count, (long long)a->least, (long long)a->most);
    if (type == CUDNN_TYPE_HANDLE)
        (void)soft_cudnn_handle(*(const cudnnHandle_t *)values);
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        set_parts(a, d->body, count, values);
    else
        memcpy(place(d->body, a->at), values, (size_t)count * element_bytes(a));
    if (a->count_at != 0)
        memcpy(place(d->body, a->count_at), &count, sizeof count);
    d->set |= UINT64_C(1) << (a - table);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t soft_cudnn_check_set(const soft_descriptor *d) {
    for (const attribute *a = table; a < table + ROWS; a++)
        if (a->owner == d->type && a->use == NEEDED && !(d->set >> (a - table) & 1))
            return soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM, "%s: attribute %d is not set",
                                     soft_cudnn_type_name(d->type), (int)a->name);
    return CUDNN_STATUS_SUCCESS;
}

// ---- Reading ----

// Into descriptors of the caller, which are then finalized.
static void get_parts(const attribute *a, soft_body *body, int64_t count, void *values) {
    const cudnnBackendDescriptor_t *given = values;
    const size_t bytes = element_bytes(a);
    for (int64_t i = 0; i < count; i++) {
        soft_descriptor *part = soft_cudnn_descriptor(given[i]);
        check_part(a, part, false);
        memcpy(part->body, place(body, a->at + (size_t)i * bytes), bytes);
        part->finalized = true;
    }
}

// As in cuDNN, *count is the number of elements written, and without room that of all of them.
cudnnStatus_t soft_cudnn_get(const soft_descriptor *d, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, int64_t room, int64_t *count,
                             void *values) {
    const char *of = soft_cudnn_type_name(d->type);
    const cudnnStatus_t status = check_type(d, name, type);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (!d->finalized)
        soft_gpu_mistake("cuDNN: attribute %d of a descriptor (%s) that is not finalized is read",
                         (int)name, of);
    if (room < 0 || (room > 0 && !values))
        soft_gpu_mistake("cuDNN: attribute %d of a descriptor (%s) is read without a place",
                         (int)name, of);
    const attribute *a = find(d, name);
    int64_t all = a->most;
    if (a->count_at != 0)
        memcpy(&all, place(d->body, a->count_at), sizeof all);
    const int64_t given = all < room ? all : room;
    if (count)
        *count = room == 0 ? all : given;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        get_parts(a, d->body, given, values);
    else if (given > 0)
        memcpy(values, place(d->body, a->at), (size_t)given * element_bytes(a));
    return CUDNN_STATUS_SUCCESS;
}
