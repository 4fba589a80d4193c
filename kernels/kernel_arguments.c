// SPDX-License-Identifier: Apache-2.0
// The arguments of the kernels in kernel_list.def: types, roles, numbers of elements.
#include <string.h>

#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

// A table of arguments for each kernel.
#define ARGUMENT(type, name, role) {#name, SR_ARG_##type, SR_ARG_##role},
#define IN(type, name, elements) ARGUMENT(type, name, IN)
#define OPT(type, name, elements) ARGUMENT(type, name, OPT)
#define OUT(type, name, elements) ARGUMENT(type, name, OUT)
#define OPT_OUT(type, name, elements) ARGUMENT(type, name, OPT_OUT)
#define UPD(type, name, elements) ARGUMENT(type, name, UPD)
#define SR_KERNEL(id, params, doc, ...)                                                            \
    static const sr_kernel_argument arguments_of_##id[] = {__VA_ARGS__};                           \
    _Static_assert(sizeof arguments_of_##id <= SR_KERNEL_MAX_ARGS * sizeof(sr_kernel_argument),    \
                   "too many arguments: " #id);                                                    \
    _Static_assert(sizeof(params) <= SR_KERNEL_PARAMS_BYTES, "too large: " #params);
#include "kernels/kernel_list.def"
#undef SR_KERNEL
#undef IN
#undef OPT
#undef OUT
#undef OPT_OUT
#undef UPD

// A function for each kernel that computes the elements of its arguments.
#define IN(type, name, elements) elements,
#define OPT(type, name, elements) elements,
#define OUT(type, name, elements) elements,
#define OPT_OUT(type, name, elements) elements,
#define UPD(type, name, elements) elements,
#define SR_KERNEL(id, params, doc, ...)                                                            \
    static int64_t count_of_##id(const void *request_params, int i) {                              \
        const params *p = request_params;                                                          \
        const int64_t count[] = {__VA_ARGS__};                                                     \
        return count[i];                                                                           \
    }
#include "kernels/kernel_list.def"
#undef SR_KERNEL

static const struct {
    const sr_kernel_argument *arguments;
    int count;
    int64_t (*count_of)(const void *request_params, int i);
} rows[] = {
#define SR_KERNEL(id, params, doc, ...)                                                            \
    {arguments_of_##id, sizeof arguments_of_##id / sizeof arguments_of_##id[0], count_of_##id},
#include "kernels/kernel_list.def"
#undef SR_KERNEL
};

const sr_kernel_argument *sr_kernel_arguments(sr_kernel_id kernel, int *count) {
    const bool listed = (unsigned)kernel < (unsigned)SR_KERNEL_COUNT;
    *count = listed ? rows[kernel].count : 0;
    return listed ? rows[kernel].arguments : NULL;
}

int64_t sr_kernel_argument_count(const sr_kernel_request *request, int i) {
    int count;
    if (sr_kernel_arguments(request->kernel, &count) == NULL || i < 0 || i >= count)
        return -1;
    if (request->dtype[i] == SR_DTYPE_COUNT)
        return 0;
    const int64_t lane = rows[request->kernel].count_of(request->params, i);
    if (!(request->per_lane >> i & 1))
        return lane;
    const int64_t line = SR_KERNEL_LANE_ALIGN / (int64_t)sr_dtype_size(request->dtype[i]);
    return request->lanes * (request->apart >> i & 1 ? (lane + line - 1) / line * line : lane);
}

sr_dtype sr_kernel_activation(const sr_kernel_request *request) {
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(request->kernel, &count);
    for (int i = 0; i < count; i++)
        if (arguments[i].type == SR_ARG_T)
            return request->dtype[i];
    return request->dtype[0];
}

sr_dtype sr_kernel_argument_dtype(const sr_kernel_argument *argument, sr_dtype activation) {
    switch (argument->type) {
    case SR_ARG_P:
        return activation == SR_F64 ? SR_F64 : SR_F32;
    case SR_ARG_F32:
        return SR_F32;
    case SR_ARG_F64:
        return SR_F64;
    case SR_ARG_I32:
        return SR_I32;
    case SR_ARG_U8:
        return SR_U8;
    case SR_ARG_T:
    case SR_ARG_ANY:
    case SR_ARG_CAST:
        break;
    }
    return activation;
}

void sr_kernel_request_init(sr_kernel_request *request, sr_device_kind device, sr_kernel_id kernel,
                            sr_dtype activation, const void *params, size_t bytes) {
    memset(request, 0, sizeof *request);
    request->device = device;
    request->kernel = kernel;
    const sr_kernel_argument *arguments = sr_kernel_arguments(kernel, &request->args);
    for (int i = 0; i < request->args; i++)
        request->dtype[i] = sr_kernel_argument_dtype(&arguments[i], activation);
    memcpy(request->params, params, bytes);
}

static bool type_fits(const sr_kernel_argument *argument, sr_dtype dtype,
                      const sr_kernel_request *request) {
    if (argument->type == SR_ARG_ANY)
        return (unsigned)dtype < (unsigned)SR_DTYPE_COUNT;
    if (argument->type == SR_ARG_CAST)
        return sr_dtype_is_float(dtype) || dtype == SR_I32 || dtype == SR_U8 ||
               dtype == request->dtype[0];
    return dtype == sr_kernel_argument_dtype(argument, sr_kernel_activation(request)) &&
           (argument->type != SR_ARG_T || sr_dtype_is_float(dtype));
}

bool sr_kernel_fits(const sr_kernel_request *request) {
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(request->kernel, &count);
    if (arguments == NULL || request->args != count)
        return false;
    for (int i = 0; i < count; i++) {
        const bool absent = request->dtype[i] == SR_DTYPE_COUNT;
        if (absent ? arguments[i].role != SR_ARG_OPT && arguments[i].role != SR_ARG_OPT_OUT
                   : !type_fits(&arguments[i], request->dtype[i], request))
            return false;
    }
    return true;
}
