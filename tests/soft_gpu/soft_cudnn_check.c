// SPDX-License-Identifier: Apache-2.0
// What the descriptors of a convolution say. What cuDNN 9.19 refuses is refused by the status that
// it returns. What it takes without finding the mistake ends the process, and so does what it can
// but the stand-in cannot.
#include "tests/soft_gpu/soft_cudnn.h"
#include "tests/soft_gpu/soft_gpu.h"

// 0: no type of the stand-in.
static int64_t size_of(cudnnDataType_t type) {
    return type == CUDNN_DATA_BFLOAT16 || type == CUDNN_DATA_HALF ? 2
           : type == CUDNN_DATA_FLOAT                             ? 4
                                                                  : 0;
}

void soft_cudnn_check_tensor(const soft_tensor *t) {
    const int64_t bytes = size_of(t->type), alignment = t->alignment;
    if (bytes == 0)
        soft_gpu_mistake("cuDNN: a tensor of type %d, which the stand-in does not have",
                         (int)t->type);
    for (int i = 0; i < 4; i++)
        if (t->dim[i] < 1)
            soft_gpu_mistake("cuDNN: a tensor whose dimension %d is %lld", i, (long long)t->dim[i]);
    if (alignment < bytes || (alignment & (alignment - 1)) != 0)
        soft_gpu_mistake("cuDNN: a tensor with an alignment of %lld bytes", (long long)alignment);
    if (t->is_virtual || t->is_by_value)
        soft_gpu_mistake("cuDNN: a tensor of a single operation is virtual or passed by value");
}

cudnnStatus_t soft_cudnn_check_window(const soft_window *w) {
    if (w->dims != 2 || w->mode != CUDNN_CROSS_CORRELATION)
        soft_gpu_mistake("cuDNN: a convolution of %lld dimensions and mode %d; the stand-in has "
                         "cross correlation of 2",
                         (long long)w->dims, (int)w->mode);
    for (int i = 0; i < 2; i++) {
        if (w->pre[i] < 0 || w->post[i] < 0 || w->stride[i] < 1 || w->dilation[i] < 1) {
            return soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM,
                                     "convolution, axis %d: paddings %lld and %lld, stride %lld, "
                                     "dilation %lld",
                                     i, (long long)w->pre[i], (long long)w->post[i],
                                     (long long)w->stride[i], (long long)w->dilation[i]);
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t soft_cudnn_check_operation(const soft_operation *o) {
    const int64_t *x = o->x.dim, *w = o->w.dim, *y = o->y.dim;
    if (o->alpha < 1.0f || o->alpha > 1.0f || o->beta < 0.0f || o->beta > 0.0f)
        soft_gpu_mistake("cuDNN: alpha %g and beta %g; the stand-in has 1 and 0", (double)o->alpha,
                         (double)o->beta);
    if (x[1] != w[1] && x[1] % w[1] == 0)
        soft_gpu_mistake("cuDNN: %lld channels, of which a filter has %lld: a convolution in "
                         "groups, which the stand-in does not have",
                         (long long)x[1], (long long)w[1]);
    if (y[0] != x[0] || y[1] != w[0] || w[1] != x[1]) {
        return soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM,
                                 "%s: %lld samples of %lld channels, filters %lld x %lld, results "
                                 "%lld x %lld",
                                 soft_cudnn_type_name(o->type), (long long)x[0], (long long)x[1],
                                 (long long)w[0], (long long)w[1], (long long)y[0],
                                 (long long)y[1]);
    }
    for (int i = 0; i < 2; i++) {
        const int64_t window = o->window.dilation[i] * (w[2 + i] - 1) + 1;
        const int64_t room = x[2 + i] + o->window.pre[i] + o->window.post[i] - window;
        if (room < 0 || y[2 + i] != room / o->window.stride[i] + 1) {
            return soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM,
                                     "%s, axis %d: of %lld positions with paddings %lld and %lld, "
                                     "a window over %lld and stride %lld, %lld results",
                                     soft_cudnn_type_name(o->type), i, (long long)x[2 + i],
                                     (long long)o->window.pre[i], (long long)o->window.post[i],
                                     (long long)window, (long long)o->window.stride[i],
                                     (long long)y[2 + i]);
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

static void check_layout(const soft_tensor *t) {
    const int64_t *d = t->dim, *s = t->stride;
    if (s[0] != d[1] * d[2] * d[3] || s[1] != 1 || s[2] != d[1] * d[3] || s[3] != d[1])
        soft_gpu_mistake("cuDNN: the strides of the tensor with unique id %lld are not those of "
                         "channels last",
                         (long long)t->uid);
}

void soft_cudnn_check_graph(const soft_graph *g) {
    const soft_operation *o = &g->operation;
    if (o->x.uid == o->w.uid || o->x.uid == o->y.uid || o->w.uid == o->y.uid)
        soft_gpu_mistake("cuDNN: tensors of one operation have unique ids %lld, %lld and %lld",
                         (long long)o->x.uid, (long long)o->w.uid, (long long)o->y.uid);
    check_layout(&o->x);
    check_layout(&o->w);
    check_layout(&o->y);
}

cudnnStatus_t soft_cudnn_check_pack(const soft_pack *p) {
    if (p->uids != p->pointers)
        return soft_cudnn_refuse(CUDNN_STATUS_BAD_PARAM,
                                 "variant pack: %lld unique ids, %lld pointers", (long long)p->uids,
                                 (long long)p->pointers);
    for (int64_t i = 0; i < p->uids; i++)
        for (int64_t j = 0; j < i; j++)
            if (p->uid[i] == p->uid[j])
                soft_gpu_mistake("cuDNN: a variant pack has unique id %lld twice",
                                 (long long)p->uid[i]);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_alignment(const soft_tensor *t) {
    if (t->alignment < SOFT_CUDNN_ALIGNMENT) {
        return soft_cudnn_refuse(CUDNN_STATUS_NOT_SUPPORTED,
                                 "no engine: the tensor with unique id %lld is aligned to %lld "
                                 "bytes, not to %d",
                                 (long long)t->uid, (long long)t->alignment,
                                 (int)SOFT_CUDNN_ALIGNMENT);
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t soft_cudnn_check_support(const soft_operation *o) {
    if (size_of(o->x.type) == 0 || o->w.type != o->x.type || o->y.type != o->x.type ||
        o->window.compute != CUDNN_DATA_FLOAT)
        return soft_cudnn_refuse(CUDNN_STATUS_NOT_SUPPORTED,
                                 "no engine: types %d, %d and %d, computed in %d", (int)o->x.type,
                                 (int)o->w.type, (int)o->y.type, (int)o->window.compute);
    cudnnStatus_t status = check_alignment(&o->x);
    if (status == CUDNN_STATUS_SUCCESS)
        status = check_alignment(&o->w);
    return status == CUDNN_STATUS_SUCCESS ? check_alignment(&o->y) : status;
}
