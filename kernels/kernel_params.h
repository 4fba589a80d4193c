// SPDX-License-Identifier: Apache-2.0
// Parameter structs of the kernels in kernel_list.def. Plain data; compared and hashed as bytes, so
// they are zeroed before they are filled.
#ifndef SR_KERNELS_KERNEL_PARAMS_H
#define SR_KERNELS_KERNEL_PARAMS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// conv2d and its gradients; lengths in elements and pixels.
typedef struct sr_conv_params {
    int64_t n, h, w, c;         // input
    int64_t k, r, s;            // filters
    int64_t p, q;               // output height and width
    int32_t stride_h, stride_w; // >= 1
    int32_t pad_top, pad_left, pad_bottom, pad_right;
    int32_t dilation_h, dilation_w; // 1 is dense
    int32_t groups, reserved;       // 1 is one group
} sr_conv_params;

// linear and its gradients: x[n,c], w[k,c], y[n,k].
typedef struct sr_linear_params {
    int64_t n, c, k;
} sr_linear_params;

// Kernels on rows of channels: x[rows,channels].
typedef struct sr_rows_params {
    int64_t rows, channels;
} sr_rows_params;

// Batch normalisation over rows of channels.
typedef struct sr_batchnorm_params {
    int64_t rows, channels;
    double eps;
} sr_batchnorm_params;

// Elementwise kernels: a number of elements.
typedef struct sr_count_params {
    int64_t count;
} sr_count_params;

// scale and leaky_relu: elements and two numbers.
typedef struct sr_scale_params {
    int64_t count;
    double alpha, beta;
} sr_scale_params;

#define SR_NORMALIZE_MAX_CHANNELS 4 // of a picture for normalize
// normalize: y = (x - mean[c]) inverse_std[c].
typedef struct sr_normalize_params {
    int64_t rows, channels;
    double
        mean[SR_NORMALIZE_MAX_CHANNELS]; // in units of u8; rounded to f32 beside f32 and narrower
    double inverse_std[SR_NORMALIZE_MAX_CHANNELS];
} sr_normalize_params;

// dropout and random_normal.
typedef struct sr_dropout_params {
    int64_t count;
    double probability; // of dropping, 0 <= p < 1
    uint32_t scope;     // stable key of the call site
    uint32_t reserved;
} sr_dropout_params;

// mix_batch: x[n,h,w,c].
typedef struct sr_mix_params {
    int64_t n, h, w, c;
    double mixup, cutmix;     // alpha of Beta(alpha, alpha); 0: not that one
    double probability;       // that the samples are mixed at all, 0 <= p <= 1
    uint32_t scope, reserved; // as in sr_dropout_params
} sr_mix_params;

// Pooling and upsampling: x[n,h,w,c], y[n,p,q,c].
typedef struct sr_pool_params {
    int64_t n, h, w, c, p, q;
    int32_t window_h, window_w, stride_h, stride_w; // window_h * window_w <= 255 for maxpool2d
    int32_t pad_top, pad_left, pad_bottom, pad_right;
} sr_pool_params;

// Softmax, its cross-entropy and top-k hits: logits[n,k].
typedef struct sr_xent_params {
    int64_t n, k;
    double smoothing; // loss = (1 - s) * -log p[label] + s * mean over classes of -log p
} sr_xent_params;

#ifdef __cplusplus
}
#endif
#endif
