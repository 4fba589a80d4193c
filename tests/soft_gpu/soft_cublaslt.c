// SPDX-License-Identifier: Apache-2.0
// The stand-in for cuBLASLt: version, handles, and descriptors with their attributes.
#include "tests/soft_gpu/soft_cublaslt.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/soft_gpu/soft_gpu.h"

#define OBJECT_MAGIC UINT64_C(0x2b7e151628aed2a6)
#define HANDLE_MAGIC UINT64_C(0x3c6ef372fe94f82b)
#define OLD_VERSION 120804 // 12.8.4

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static soft_object *objects; // all that there ever were
static struct cublasLtContext *handles;

static void *allocate(size_t bytes) {
    void *p = calloc(1, bytes);
    if (!p)
        soft_gpu_mistake("no memory of the host is left");
    return p;
}

bool soft_cublaslt_set_to(const char *value) {
    static const char *const known[] = {"",     "none",  "old",         "own",
                                        "size", "split", "toward-zero", "unready"};
    const char *text = getenv("SOFT_CUBLASLT");
    bool found = !text;
    for (size_t i = 0; !found && i < sizeof known / sizeof *known; i++)
        found = strcmp(text, known[i]) == 0;
    if (!found)
        soft_gpu_mistake("SOFT_CUBLASLT is '%s', not none, old, own, size, split, toward-zero or "
                         "unready",
                         text);
    return text && strcmp(text, value) == 0;
}

cublasStatus_t soft_cublaslt_refuse(cublasStatus_t status, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "software GPU: cuBLASLt: %s\n", text);
    return status;
}

SOFT_GPU_EXPORT size_t cublasLtGetVersion(void) {
    return soft_cublaslt_set_to("old") ? OLD_VERSION : CUBLAS_VERSION;
}

SOFT_GPU_EXPORT const char *cublasLtGetStatusString(cublasStatus_t status) {
    static const struct {
        cublasStatus_t status;
        const char *text;
    } texts[] = {{CUBLAS_STATUS_SUCCESS, "success"},
                 {CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized"},
                 {CUBLAS_STATUS_INVALID_VALUE, "an unsupported value or parameter"},
                 {CUBLAS_STATUS_EXECUTION_FAILED, "the GPU program failed to execute"},
                 {CUBLAS_STATUS_NOT_SUPPORTED, "the functionality is not supported"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status)
            return texts[i].text;
    return "unknown status";
}

// ---- Handles ----

const struct cublasLtContext *soft_cublaslt_handle(cublasLtHandle_t handle) {
    int device = -1;
    if (!handle || handle->magic != HANDLE_MAGIC)
        soft_gpu_mistake("cuBLASLt: %p is no handle", (void *)handle);
    if (cudaGetDevice(&device) != cudaSuccess || device != handle->device)
        soft_gpu_mistake("cuBLASLt: a handle of device %d while device %d is current",
                         handle->device, device);
    return handle;
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *lightHandle) {
    int device = 0;
    if (!lightHandle)
        return soft_cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasLtCreate: no place");
    if (soft_gpu_allocates("cublasLtCreate") != 0 || cudaGetDevice(&device) != cudaSuccess ||
        soft_cublaslt_set_to("unready"))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    struct cublasLtContext *h = allocate(sizeof *h);
    h->magic = HANDLE_MAGIC;
    h->device = device;
    (void)pthread_mutex_lock(&mutex);
    h->next = handles;
    handles = h;
    (void)pthread_mutex_unlock(&mutex);
    *lightHandle = h;
    return CUBLAS_STATUS_SUCCESS;
}

// ---- Descriptors ----

static soft_object *find(const void *descriptor, soft_object_kind kind) {
    static const char *const names[] = {"operation", "layout", "preference"};
    union {
        const void *given;
        soft_object *object;
    } p = {descriptor};
    if (!descriptor || p.object->magic != OBJECT_MAGIC || p.object->kind != kind)
        soft_gpu_mistake("cuBLASLt: %p is no descriptor (%s)", p.given, names[kind]);
    if (!p.object->live)
        soft_gpu_mistake("cuBLASLt: a call with a descriptor (%s) that was destroyed", names[kind]);
    return p.object;
}

const soft_object *soft_cublaslt_object(const void *descriptor, soft_object_kind kind) {
    (void)pthread_mutex_lock(&mutex);
    const soft_object *object = find(descriptor, kind);
    (void)pthread_mutex_unlock(&mutex);
    return object;
}

static void *make(soft_object_kind kind) {
    soft_object *object = allocate(sizeof *object);
    object->magic = OBJECT_MAGIC;
    object->kind = kind;
    object->live = true;
    (void)pthread_mutex_lock(&mutex);
    object->next = objects;
    objects = object;
    (void)pthread_mutex_unlock(&mutex);
    soft_gpu_count_event("cublaslt_made");
    return object;
}

static cublasStatus_t destroy(const void *descriptor, soft_object_kind kind) {
    (void)pthread_mutex_lock(&mutex);
    find(descriptor, kind)->live = false;
    (void)pthread_mutex_unlock(&mutex);
    soft_gpu_count_event("cublaslt_destroyed");
    return CUBLAS_STATUS_SUCCESS;
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmulDesc,
                                                        cublasComputeType_t computeType,
                                                        cudaDataType_t scaleType) {
    if (!matmulDesc)
        return CUBLAS_STATUS_INVALID_VALUE;
    soft_object *object = make(SOFT_OPERATION);
    object->is.operation = (soft_operation){.compute = computeType,
                                            .scale = scaleType,
                                            .transpose_a = CUBLAS_OP_N,
                                            .transpose_b = CUBLAS_OP_N,
                                            .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                                            .bias_type = -1};
    *matmulDesc = (void *)object;
    return CUBLAS_STATUS_SUCCESS;
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc) {
    return destroy(matmulDesc, SOFT_OPERATION);
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matLayout,
                                                          cudaDataType type, uint64_t rows,
                                                          uint64_t cols, int64_t ld) {
    if (!matLayout)
        return CUBLAS_STATUS_INVALID_VALUE;
    soft_object *object = make(SOFT_LAYOUT);
    object->is.layout =
        (soft_layout){.rows = rows, .columns = cols, .step = ld, .type = type, .batches = 1};
    *matLayout = (void *)object;
    return CUBLAS_STATUS_SUCCESS;
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout) {
    return destroy(matLayout, SOFT_LAYOUT);
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref) {
    if (!pref)
        return CUBLAS_STATUS_INVALID_VALUE;
    soft_object *object = make(SOFT_PREFERENCE);
    object->is.preference = (soft_preference){.reduction = CUBLASLT_REDUCTION_SCHEME_MASK,
                                              .alignment = {256, 256, 256, 256}};
    *pref = (void *)object;
    return CUBLAS_STATUS_SUCCESS;
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref) {
    return destroy(pref, SOFT_PREFERENCE);
}

// ---- Attributes ----

typedef struct attribute {
    int name;
    size_t offset, bytes; // of its place in a soft_object
} attribute;

#define ATTRIBUTE(name, member)                                                                    \
    { name, offsetof(soft_object, is.member), sizeof((soft_object *)NULL)->is.member }

static cublasStatus_t set(const void *descriptor, soft_object_kind kind,
                          const attribute *attributes, size_t count, int name, const void *value,
                          size_t bytes) {
    (void)pthread_mutex_lock(&mutex);
    soft_object *object = find(descriptor, kind);
    const attribute *found = NULL;
    for (size_t i = 0; i < count; i++)
        if (attributes[i].name == name)
            found = &attributes[i];
    const bool fits = found && value && bytes == found->bytes;
    if (fits)
        memcpy((char *)object + found->offset, value, bytes);
    (void)pthread_mutex_unlock(&mutex);
    if (!found)
        return soft_cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE,
                                    "the stand-in has no attribute %d of this descriptor", name);
    if (!fits)
        return soft_cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE,
                                    "attribute %d has %zu bytes, not %zu", name, found->bytes,
                                    bytes);
    return CUBLAS_STATUS_SUCCESS;
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc,
                                                              cublasLtMatmulDescAttributes_t attr,
                                                              const void *buf, size_t sizeInBytes) {
    static const attribute attributes[] = {
        ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSA, operation.transpose_a),
        ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSB, operation.transpose_b),
        ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE, operation.epilogue),
        ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, operation.bias_type),
        ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operation.bias)};
    return set(matmulDesc, SOFT_OPERATION, attributes, sizeof attributes / sizeof *attributes,
               (int)attr, buf, sizeInBytes);
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t matLayout, cublasLtMatrixLayoutAttribute_t attr, const void *buf,
    size_t sizeInBytes) {
    static const attribute attributes[] = {
        ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, layout.batches),
        ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, layout.batch_step)};
    return set(matLayout, SOFT_LAYOUT, attributes, sizeof attributes / sizeof *attributes,
               (int)attr, buf, sizeInBytes);
}

SOFT_GPU_EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t pref, cublasLtMatmulPreferenceAttributes_t attr, const void *buf,
    size_t sizeInBytes) {
    static const attribute attributes[] = {
        ATTRIBUTE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, preference.workspace),
        ATTRIBUTE(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, preference.reduction),
        ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, preference.alignment[0]),
        ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, preference.alignment[1]),
        ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, preference.alignment[2]),
        ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, preference.alignment[3])};
    return set(pref, SOFT_PREFERENCE, attributes, sizeof attributes / sizeof *attributes, (int)attr,
               buf, sizeInBytes);
}
