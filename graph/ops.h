// SPDX-License-Identifier: Apache-2.0
// Operators for model code. Each call records one node and returns its tensor; an error, such as a
// wrong shape, sticks to the context (sr_context_status), and later calls do nothing.
//
// T is f32, bf16 or f16 (f64 in tests). Parameters are f32 (f64 with T = f64) and are rounded to T
// where they are used. Images are [N,H,W,C]; convolution weights are [K,C/groups,R,S], as in torch.
// Options are structs in which zero is the default.
//
// Results are new values of the step: no call changes its inputs, except the updates at the end of
// this file. Elementwise results have the shape and dtype of the first input; a second one must
// have the same. Operators are differentiable to any order unless their comment says otherwise. NaN
// inputs give NaN results.
#ifndef SR_GRAPH_OPS_H
#define SR_GRAPH_OPS_H

#include "graph/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// Sets the file and line of the next operator call, for error messages (the macros at the end of
// this file call it).
void sr_at(const char *file, int line);

// Geometry of a convolution, in pixels; all zero is stride 1 without padding.
typedef struct sr_conv2d_opts {
    int stride, stride_w; // 0: 1; stride_w 0: as stride
    int pad, pad_w;       // on both sides; pad_w: only used if has_pad_w, else as pad
    bool has_pad_w;
    int dilation;                  // 0: 1
    int groups;                    // 0: 1
    int dilation_w;                // 0: as dilation
    int extra_bottom, extra_right; // additional padding on that side, in pixels
    bool same; // TensorFlow's SAME: P = ceil(H / stride), and no other padding is given
} sr_conv2d_opts;

// y[N,P,Q,K] = cross-correlation of x[N,H,W,C] with w[K,C/groups,R,S], P = (H + 2 pad +
// extra_bottom - dilation (R - 1) - 1) / stride + 1. With 'same', half of the necessary padding is
// before the picture and half after it, with the odd pixel after it.
sr_tensor sr_conv2d(sr_tensor x, sr_tensor w, sr_conv2d_opts opts);
// The same plus bias[K].
sr_tensor sr_conv2d_bias(sr_tensor x, sr_tensor w, sr_tensor bias, sr_conv2d_opts opts);
// Transposed convolution (the gradient of sr_conv2d with respect to x): x[N,P,Q,K],
// w[K,C/groups,R,S] -> y[N,H,W,C]; H = (P - 1) stride - 2 pad - extra_bottom + dilation (R - 1) + 1
// + output_pad, where 0 <= output_pad < stride selects one of the sizes of y that sr_conv2d maps to
// the size of x. 'same' is refused, as it is ambiguous.
sr_tensor sr_conv2d_transpose(sr_tensor x, sr_tensor w, sr_conv2d_opts opts, int output_pad);

// y[...,K] = x[...,C] w[K,C]^T + bias[K] of at least two dimensions; bias may be SR_NONE.
sr_tensor sr_linear(sr_tensor x, sr_tensor w, sr_tensor bias);

// Options of a matrix product; all zero computes a b.
typedef struct sr_matmul_opts {
    bool transpose_a, transpose_b; // the last two dimensions
    double alpha;                  // a factor; 0: 1
} sr_matmul_opts;
// c[...,M,N] = alpha a[...,M,K] b[...,K,N], as torch.matmul. a and b have the same dtype and at
// least two dimensions; those before the last two are equal or broadcast as in numpy. Sums are f32
// (f64 for f64) and rounded once.
sr_tensor sr_matmul(sr_tensor a, sr_tensor b, sr_matmul_opts opts);

// y = x + b over the last dimension.
sr_tensor sr_bias_add(sr_tensor x, sr_tensor b);
// s[C] (f32) = sum of x over all but the last dimension.
sr_tensor sr_channel_sum(sr_tensor x);
// s[C] (f32) = sum of a (b - shift) over all but the last dimension; a and b have the same shape,
// with at least two dimensions; shift[C] (f32) may be SR_NONE. Products are not rounded to T.
sr_tensor sr_channel_dot(sr_tensor a, sr_tensor b, sr_tensor shift);

// Batch normalisation over all but the last dimension (Ioffe & Szegedy 2015). gamma, beta [C] may
// be SR_NONE.
typedef struct sr_batchnorm_out {
    sr_tensor y, mean, var; // f32[C]; var is biased
} sr_batchnorm_out;
// y = gamma (x - mean) / sqrt(var + eps) + beta with the statistics of x itself. Differentiable
// once in y, to any order in mean and var.
sr_batchnorm_out sr_batchnorm_train(sr_tensor x, sr_tensor gamma, sr_tensor beta, double eps);
// The same with given statistics, f32[C]: those of a trained network, for evaluation and for
// training with frozen batch normalisation. Gradients flow to x, gamma and beta, and to mean and
// var unless these are constants, to any order.
sr_tensor sr_batchnorm_infer(sr_tensor x, sr_tensor gamma, sr_tensor beta, sr_tensor mean,
                             sr_tensor var, double eps);
// sr_batchnorm_train with the statistics of a group of lanes, each of which has as many rows: y and
// the gradient of x are those of sr_batchnorm_train on the rows of all lanes, and the gradients of
// gamma and beta are this lane's part. Differentiable as sr_batchnorm_train.
sr_batchnorm_out sr_batchnorm_group(sr_tensor x, sr_tensor gamma, sr_tensor beta, double eps,
                                    int64_t lanes);
// The sum of x (f32) over the lanes of a group; with one lane, x itself. Differentiable to any
// order, where the loss is the sum over lanes.
sr_tensor sr_lane_sum(sr_tensor x, int64_t lanes);

// Normalisation over a part of each sample: y = gamma (x - mean) / sqrt(var + eps) + beta, with the
// mean and the biased variance of the elements of x that are normalised together. gamma, beta [C]
// (f32) may be SR_NONE. Sums are f32, and the variance is computed from the centred elements.
// Differentiable once.
//
// Over the last dimension, of x[...,C] (Ba et al. 2016).
sr_tensor sr_layer_norm(sr_tensor x, sr_tensor gamma, sr_tensor beta, double eps);
// The same without mean and beta: y = gamma x / sqrt(mean of x^2 + eps) (Zhang & Sennrich 2019).
sr_tensor sr_rms_norm(sr_tensor x, sr_tensor gamma, double eps);
// Over all pixels and C/groups neighbouring channels of a sample, of x[N,...,C] (Wu & He 2018).
sr_tensor sr_group_norm(sr_tensor x, int groups, sr_tensor gamma, sr_tensor beta, double eps);
// The same with groups of one channel (Ulyanov et al. 2016).
sr_tensor sr_instance_norm(sr_tensor x, sr_tensor gamma, sr_tensor beta, double eps);

sr_tensor sr_relu(sr_tensor x);                     // max(x, 0); its gradient at 0 is 0
sr_tensor sr_leaky_relu(sr_tensor x, double slope); // x where x > 0, else slope x
sr_tensor sr_tanh_op(sr_tensor x);                  // sr_tanh is the function for numbers (math.h)
sr_tensor sr_sigmoid(sr_tensor x);                  // 1 / (1 + exp(-x))
sr_tensor sr_softplus(sr_tensor x);                 // log(1 + exp(x)), without overflow
sr_tensor sr_silu(sr_tensor x);                     // x sigmoid(x)
// x Phi(x), exact erf form (Hendrycks & Gimpel 2016). Differentiable once.
sr_tensor sr_gelu(sr_tensor x);
// Its tanh approximation. Differentiable once.
sr_tensor sr_gelu_tanh(sr_tensor x);
// x tanh(log(1 + exp(x))) (Misra 2019). Differentiable once.
sr_tensor sr_mish(sr_tensor x);
sr_tensor sr_hard_sigmoid(sr_tensor x);      // min(max(x + 3, 0), 6) / 6 (Howard et al. 2019)
sr_tensor sr_hard_swish(sr_tensor x);        // x hard_sigmoid(x)
sr_tensor sr_elu(sr_tensor x, double alpha); // x where x > 0, else alpha (exp(x) - 1)
// x where x > 0, else slope x; slope is a parameter of shape [C] or [1] (He et al. 2015).
sr_tensor sr_prelu(sr_tensor x, sr_tensor slope);

sr_tensor sr_abs(sr_tensor x);                    // |x|; its gradient at 0 is 0
sr_tensor sr_square(sr_tensor x);                 // x^2
sr_tensor sr_sqrt(sr_tensor x);                   // square root
sr_tensor sr_rsqrt(sr_tensor x);                  // 1 / square root
sr_tensor sr_reciprocal(sr_tensor x);             // 1 / x
sr_tensor sr_power(sr_tensor x, double exponent); // x to the power of a number
sr_tensor sr_exp_op(sr_tensor x);                 // e^x; sr_exp is the function for numbers
sr_tensor sr_log_op(sr_tensor x);                 // natural logarithm
sr_tensor sr_sin_op(sr_tensor x);                 // sine, of radians
sr_tensor sr_cos_op(sr_tensor x);                 // cosine, of radians
sr_tensor sr_atan_op(sr_tensor x);                // inverse tangent, in radians
sr_tensor sr_erf_op(sr_tensor x);                 // error function
// min(max(x, low), high); the gradient is passed on where low <= x <= high, as torch.clamp did
// before 2.14, which passes on none at the limits.
sr_tensor sr_clip(sr_tensor x, double low, double high);
// Elementwise operators on tensors of the same dtype. Shapes are equal or broadcast as in numpy:
// dimensions are aligned at the last one, and a tensor with extent 1, or without that dimension, is
// repeated:
sr_tensor sr_add(sr_tensor a, sr_tensor b);
sr_tensor sr_sub(sr_tensor a, sr_tensor b);
sr_tensor sr_mul(sr_tensor a, sr_tensor b);
sr_tensor sr_div(sr_tensor a, sr_tensor b);
sr_tensor sr_pow_op(sr_tensor a, sr_tensor b); // a to the power of b
// The larger of both. Where they are equal, each gets half of the gradient.
sr_tensor sr_maximum(sr_tensor a, sr_tensor b);
sr_tensor sr_minimum(sr_tensor a, sr_tensor b); // the smaller of both, with the same gradient
// Conditions: 1 where a > b, else 0, also if one of them is NaN. Gradients stop here.
sr_tensor sr_greater(sr_tensor a, sr_tensor b);
sr_tensor sr_equal(sr_tensor a, sr_tensor b);               // 1 where a = b
sr_tensor sr_where(sr_tensor c, sr_tensor a, sr_tensor b);  // a where c is not 0, else b
sr_tensor sr_scale(sr_tensor x, double alpha, double beta); // alpha x + beta
// x times a scalar, f32 (f64 with f64) of rank 0 or [1].
sr_tensor sr_scale_by(sr_tensor x, sr_tensor scalar);
// A tensor of T with all elements equal to such a scalar.
sr_tensor sr_fill_by(sr_tensor scalar, sr_dtype dtype, int rank, const int64_t *dim);
// Any dtype to a float dtype, rounded once to nearest even, or to i32 or u8, rounded towards 0 to
// the nearest number that exists, NaN to 0. Integers have no gradient.
sr_tensor sr_cast(sr_tensor x, sr_dtype dtype);
// u8 [..., C] -> (x / 255 - mean[c]) / std[c] in dtype; C <= 4, mean and std [C] in units of 0..1.
// Gradients stop here.
sr_tensor sr_normalize(sr_tensor x, const double *mean, const double *std, sr_dtype dtype);
// Dropout: 0 with the given probability (0 <= p < 1), else x / (1 - p) (Srivastava et al. 2014).
// key: i32[4] with (seed low, seed high, step, lane); scope: stable number of the call site. The
// draw of an element depends only on these and its index (Philox), so gradients and recomputation
// use the same draws. The key gets no gradient.
sr_tensor sr_dropout(sr_tensor x, sr_tensor key, double probability, uint32_t scope);
// Stochastic depth (Huang et al. 2016): dropout of whole samples of x[N,...], with one draw for
// each.
sr_tensor sr_drop_path(sr_tensor x, sr_tensor key, double probability, uint32_t scope);

// Standard normal draws; key and scope as in sr_dropout. Gradients stop here.
sr_tensor sr_random_normal(sr_tensor key, sr_dtype dtype, int rank, const int64_t *dim,
                           uint32_t scope);

// How the samples of a lane are mixed.
typedef struct sr_mix_opts {
    double mixup;       // alpha of Beta(alpha, alpha) for mixup; 0: none
    double cutmix;      // the same for CutMix; with both, each has probability 1/2
    double probability; // that the lane's samples are mixed in this step
    uint32_t scope;     // as in sr_dropout
} sr_mix_opts;
// Mixed samples and their targets: 'weight' times the sample's own label and 1 - weight times
// 'partner'.
typedef struct sr_mixed {
    sr_tensor x;       // as the input
    sr_tensor partner; // i32 [N]: label of the sample that was mixed in
    sr_tensor weight;  // f32 [N] (f64 with f64), one value for the lane
} sr_mixed;
// Mixup (Zhang et al. 2018) or CutMix (Yun et al. 2019) of x [N,H,W,C], labels i32 [N]: partners
// are a permutation of the samples, and all samples use one lambda from Beta(alpha, alpha) and one
// box. key: as in sr_dropout. The weights of CutMix are the exact areas. Gradients stop here.
sr_mixed sr_mix_batch(sr_tensor x, sr_tensor labels, sr_tensor key, sr_mix_opts opts);

// Geometry of a pooling window, in pixels. y[N,P,Q,C]: P = (H + 2 pad + extra_bottom - dilation
// (window - 1) - 1) / stride + 1.
typedef struct sr_pool2d_opts {
    int window, stride; // stride 0: as window
    int pad;            // on all sides, at most half the window
    int dilation;       // maximum pooling: distance of neighbours in a window; 0: 1
    bool ceil_mode;     // P is rounded up, unless the last window would begin after x and its left
                        // padding
    bool count_pad;     // average: padding counts, as zeros (count_include_pad of torch); x is
                        // copied
    int window_w, stride_w, dilation_w; // 0: as window, stride and dilation
    int pad_w;                          // only used if has_pad_w, else as pad
    bool has_pad_w;
    int extra_bottom, extra_right; // additional padding there, in pixels; every window begins
                                   // before the end of x
    bool same; // TensorFlow's SAME: P = ceil(H / stride), and no other padding is given
} sr_pool2d_opts;
// Maximum of each window, which has at most 255 pixels. Padding is never chosen; a window with
// nothing but padding gives -inf. Differentiable once: the gradient goes to the first maximum of a
// window.
sr_tensor sr_maxpool2d(sr_tensor x, sr_pool2d_opts opts);
sr_tensor sr_avgpool2d(sr_tensor x, sr_pool2d_opts opts); // the mean of the pixels of x
// Means over height x width windows that cover x: row i of y has rows floor(i H / height) to
// ceil((i + 1) H / height) - 1 (torch.nn.AdaptiveAvgPool2d). If all windows have one size it is
// sr_avgpool2d, else mode SR_RESIZE_AREA of sr_resize2d.
sr_tensor sr_adaptive_avgpool2d(sr_tensor x, int height, int width);
// Maxima of the same windows, height and width at most 255. If all windows have one size of at most
// 255 pixels, it is sr_maxpool2d; else it takes maxima of columns and then of rows, and the
// gradient goes to the first maximum in the first column that has it.
sr_tensor sr_adaptive_maxpool2d(sr_tensor x, int height, int width);
sr_tensor sr_global_avgpool(sr_tensor x);         // [N,H,W,C] -> [N,C]
sr_tensor sr_global_maxpool(sr_tensor x);         // [N,H,W,C] -> [N,C]; once
sr_tensor sr_upsample2d(sr_tensor x, int factor); // nearest

// How sr_resize2d computes pixel i of the Q pixels in a row of y: as a copy of pixel floor(i W / Q)
// of x; as a copy of pixel floor((i + 1/2) W / Q); from the 2 x 2 nearest pixels; from the 4 x 4
// nearest pixels (Keys 1981); or as the mean of the pixels that it covers.
typedef enum sr_resize_mode {
    SR_RESIZE_NEAREST,
    SR_RESIZE_NEAREST_EXACT,
    SR_RESIZE_BILINEAR,
    SR_RESIZE_BICUBIC,
    SR_RESIZE_AREA
} sr_resize_mode;
// The size of the result, or its scale.
typedef struct sr_resize2d_opts {
    int height, width;     // in pixels; 0: floor(scale H) and floor(scale W)
    double scale, scale_w; // of height and width; scale_w 0: as scale
    sr_resize_mode mode;
    bool align_corners; // bilinear, bicubic: the outermost pixels of x and y coincide
    bool antialias;     // bilinear, bicubic: the filter widens by the factor by which y shrinks
} sr_resize2d_opts;
// x[N,H,W,C] resized, as torch.nn.functional.interpolate: modes nearest, nearest-exact, bilinear,
// bicubic and area. With a scale, a pixel of y spans 1 / scale pixels of x (recompute_scale_factor
// false). As exceptions, nearest and bilinear without antialiasing copy a side that keeps its size,
// and nearest copies each pixel twice if a side doubles. Weights are computed in f64 and rounded to
// f32; sums are over the columns of a row, then over rows. sr_upsample2d is faster for whole
// factors.
sr_tensor sr_resize2d(sr_tensor x, sr_resize2d_opts opts);

// Boxes are left, top, right and bottom, in the units of a picture whose pixel (i, j) is the square
// from (j, i) to (j + 1, i + 1).
//
// iou[...,M,N] of a[...,M,4] and b[...,N,4], which have the same dtype: the intersection of each
// pair of boxes divided by their union, as torchvision.ops.box_iou. NaN where both are empty.
sr_tensor sr_box_iou(sr_tensor a, sr_tensor b);
// Which boxes sr_nms keeps.
typedef struct sr_nms_opts {
    double overlap;  // a box is dropped if its IoU with a better, kept one is larger
    int capacity;    // indices of the result for each sample; 0: as many as there are boxes
    bool only_above; // keep only boxes whose score is above ...
    double above;    // ... this value: padding has lower scores
} sr_nms_opts;
// Boxes that sr_nms keeps.
typedef struct sr_kept {
    sr_tensor index; // i32 [N,capacity]: indices of the kept boxes, best first, then -1
    sr_tensor count; // i32 [N]: number of them
} sr_kept;
// Non-maximum suppression of boxes[N,M,4] with scores[N,M], which have the same dtype, for each of
// N samples, as torchvision.ops.nms. Boxes are ordered by descending score; equal scores keep their
// order, and NaN is last. With classes i32 [N,M] (may be SR_NONE), a box suppresses only boxes of
// its own class. torchvision.ops.batched_nms does the same by moving the boxes of different classes
// apart, which rounds them. Arithmetic is f32 (f64 for f64). Gradients stop here.
sr_kept sr_nms(sr_tensor boxes, sr_tensor scores, sr_tensor classes, sr_nms_opts opts);
// The size of the result of sr_roi_align, and the positions of samples.
typedef struct sr_roi_align_opts {
    int height, width; // of y, in pixels; width 0: as height
    double scale;      // pixels of x for one unit of the boxes; 0: 1
    int samples;       // along each side of a bin; 0: its pixels, rounded up
    bool aligned;      // subtract half a pixel, so that pixels are squares; else a box is at
                       // least a pixel wide and high, as in old versions
} sr_roi_align_opts;
// y[R,P,Q,C]: box r of boxes[R,4] (f32; f64 with f64) in picture image[r] (i32) of x[N,H,W,C],
// divided into P x Q bins, each the mean of its bilinear samples, as torchvision.ops.roi_align (He
// et al. 2017). y is 0 where the image is not one of 0 to N - 1, and NaN for a box that is not
// finite. Gradients flow to x, to any order, and are added in a fixed order of the boxes.
sr_tensor sr_roi_align(sr_tensor x, sr_tensor boxes, sr_tensor image, sr_roi_align_opts opts);

// The same elements with another shape (equal count); needs no kernel.
sr_tensor sr_reshape(sr_tensor x, int rank, const int64_t *dim);
sr_tensor sr_flatten(sr_tensor x); // [N, rest]
// x, but its gradient is zero; needs no kernel.
sr_tensor sr_stop_gradient(sr_tensor x);

// Copies of elements to other places. Dimension d of the result is dimension order[d] of x.
sr_tensor sr_permute(sr_tensor x, const int *order);
// 'count' elements of dimension 'axis': start, start + step, ...; step may be negative.
sr_tensor sr_slice(sr_tensor x, int axis, int64_t start, int64_t count, int step);
// x with dimension 'axis' reversed.
sr_tensor sr_flip(sr_tensor x, int axis);
// x with the given numbers of zeros before and after the elements of each dimension.
sr_tensor sr_pad(sr_tensor x, const int *before, const int *after);
// Concatenates 'count' tensors along dimension 'axis'; their other extents must be equal.
sr_tensor sr_concat(const sr_tensor *x, int count, int axis);
// Stacks 'count' tensors of the same shape along a new dimension 'axis', as torch.stack.
sr_tensor sr_stack(const sr_tensor *x, int count, int axis);
// part[0 .. count - 1]: splits x along dimension 'axis' into parts of extent[i], whose sum is the
// extent of x; into equal parts if 'extent' is NULL. As torch.split and torch.chunk.
void sr_split(sr_tensor x, int axis, int count, const int64_t *extent, sr_tensor *part);
// Moves element i of dimension 'axis' to (i + by) modulo the extent, as torch.roll.
sr_tensor sr_roll(sr_tensor x, int axis, int64_t by);
// Exchanges dimensions a and b, as torch.transpose.
sr_tensor sr_transpose(sr_tensor x, int a, int b);

// Selects elements by index. y is x with another extent of dimension 'axis', where element j of y
// is element index[j] of x. The index is i32. It has shape [J], the same for all of x; or the
// dimensions of x up to the axis, for instance [N,J] for the tokens of x[N,K,C] that each sample
// keeps; or all dimensions of x, as in torch.gather. Its extents are those of x, except along the
// axis, where they are J. An index out of range gives NaN. Gradient: sr_scatter_add.
sr_tensor sr_gather(sr_tensor x, sr_tensor index, int axis);
// The same with an index [J], as torch.index_select.
sr_tensor sr_index_select(sr_tensor x, sr_tensor index, int axis);
// Rows of a parameter table[V,C] (f32; f64 with f64), rounded to 'dtype': the result is [..., C]
// for an index [...] of at most four dimensions. The gradient is summed in the dtype of the table.
sr_tensor sr_embedding(sr_tensor table, sr_tensor index, sr_dtype dtype);
// Sums the elements of x that have the same index: y is x with extent 'count' of dimension 'axis',
// where element k is the sum of the elements of x whose index is k, added in a fixed order. The
// index is as in sr_gather; elements whose index is not in 0 to count - 1 are ignored. Gradient:
// sr_gather.
sr_tensor sr_scatter_add(sr_tensor x, sr_tensor index, int axis, int64_t count);

// Weighted sums of rows that are selected by index: y[n,j,k,i] = sum over t of weight[n,j,t,k]
// x[n,index[n,j,t,k],k,i] for x[N,M,K,I], index i32 and weight (f32; f64 with f64) [N,J,T,K], T at
// most 32; indices outside 0 to M - 1 are ignored. Gradients flow to x, added in a fixed order, and
// to the weights, to any order.
sr_tensor sr_gather_sum(sr_tensor x, sr_tensor index, sr_tensor weight);

// The pixels beyond the border of a picture: zeros; the pixels before the border in reverse order,
// without the outermost one; or copies of the outermost one.
typedef enum sr_pad_mode { SR_PAD_ZERO, SR_PAD_REFLECT, SR_PAD_REPLICATE } sr_pad_mode;
// Pixels on each side: with SR_PAD_REFLECT fewer than the picture has, with SR_PAD_REPLICATE at
// most 64.
typedef struct sr_pad2d_opts {
    int top, bottom, left, right;
    sr_pad_mode mode;
} sr_pad2d_opts;
// [N,H,W,C] -> [N,H + top + bottom,W + left + right,C].
sr_tensor sr_pad2d(sr_tensor x, sr_pad2d_opts opts);
// [N,H,W,C r r] -> [N,H r,W r,C], r the factor; channel (c r + i) r + j goes to row i, column j of
// its square (Shi et al. 2016).
sr_tensor sr_pixel_shuffle(sr_tensor x, int factor);
sr_tensor sr_pixel_unshuffle(sr_tensor x, int factor); // its inverse

// How sr_grid_sample computes a pixel: from the 2 x 2 pixels around the point; as the nearest
// pixel, the even one of two; or from the 4 x 4 pixels around the point (Keys 1981).
typedef enum sr_sample_mode {
    SR_SAMPLE_BILINEAR,
    SR_SAMPLE_NEAREST,
    SR_SAMPLE_BICUBIC
} sr_sample_mode;
// How points are mapped to pixels, and how pixels are computed.
typedef struct sr_grid_sample_opts {
    sr_sample_mode mode;
    sr_pad_mode border; // the pixels beyond the border of x: zeros, its reflection, its outermost
                        // pixel; reflected about the centres of the outermost pixels with
                        // align_corners, else about their edges
    bool align_corners; // -1 and 1 are the centres of the outermost pixels, else their outer edges
} sr_grid_sample_opts;
// y[N,P,Q,C] = x[N,H,W,C] at the points of grid[N,P,Q,2] (f32; f64 with f64): x and y from -1 to 1,
// as torch.nn.functional.grid_sample. Positions and weights are f64, and rounded once. Gradients
// flow to x, in a fixed order, and to the grid (not with SR_SAMPLE_NEAREST), to any order. At
// pixels, where a derivative is discontinuous, it is the right-hand one.
sr_tensor sr_grid_sample(sr_tensor x, sr_tensor grid, sr_grid_sample_opts opts);
// Deformable convolution (Zhu et al. 2019), as torchvision.ops.deform_conv2d: sr_conv2d_bias whose
// taps are bilinear samples of x, moved by offset[N,P,Q,2 G R S]. Its channel 2 ((g R + r) S + s)
// is the shift down of tap (r, s) for the channels of group g, and the next channel is the shift to
// the right. Samples are multiplied by mask[N,P,Q,G R S], unless that is SR_NONE. G follows from
// the shape of offset; offset and mask may have any float dtype. Outside x there are zeros. bias
// may be SR_NONE. Gradients flow to all inputs, added in a fixed order, to any order.
sr_tensor sr_deform_conv2d(sr_tensor x, sr_tensor offset, sr_tensor mask, sr_tensor w,
                           sr_tensor bias, sr_conv2d_opts opts);
// Filtered up- and downsampling; if all options except the padding are zero, it is a convolution.
typedef struct sr_upfirdn2d_opts {
    int up, down;                 // factors; 0: 1
    int up_w, down_w;             // for the width; 0: as up and down
    int top, bottom, left, right; // zeros around the upsampled picture; negative: cropped
    bool correlate;               // the filter is not reversed
    double gain;                  // factor of the filter; 0: 1
} sr_upfirdn2d_opts;
// y[N,P,Q,C] of x[N,H,W,C] and filter[R,S] (f32; f64 with f64): the pixels of x are placed 'up'
// apart, with zeros between them, padded and convolved with the filter, and every 'down'-th pixel
// of the result is kept (upfirdn2d of Karras et al. 2020); P = (H up + top + bottom - R) / down +
// 1. Gradients flow to x, to any order, but not to the filter.
sr_tensor sr_upfirdn2d(sr_tensor x, sr_tensor filter, sr_upfirdn2d_opts opts);

// The dimensions over which a reduction runs.
typedef struct sr_axes {
    int count;             // 0: all dimensions of x
    int axis[SR_MAX_RANK]; // each one once, in any order
    bool keep;             // keep them with extent 1; else they are removed
} sr_axes;
// Sum of the elements along these dimensions. The results of this and the following functions have
// the dtype of x and are rounded once, from f32 (f64 with f64).
sr_tensor sr_sum(sr_tensor x, sr_axes over);
sr_tensor sr_mean(sr_tensor x, sr_axes over); // the sum, divided by the number of elements
// Sum of (x - mean)^2, divided by the number of elements less 'correction': 0 for the biased
// variance, 1 for the unbiased one, which is torch's default. 'correction' must be less than the
// number of elements.
sr_tensor sr_var(sr_tensor x, sr_axes over, int correction);
// Norm of order 1, the sum of |x|, or of order 2, the square root of the sum of x^2. Where the norm
// is 0, so is its gradient.
sr_tensor sr_norm(sr_tensor x, sr_axes over, int order);
// log(sum of exp(x)), without overflow.
sr_tensor sr_logsumexp(sr_tensor x, sr_axes over);
// exp(x) / sum of exp(x) along a dimension.
sr_tensor sr_softmax(sr_tensor x, int axis);
sr_tensor sr_log_softmax(sr_tensor x, int axis); // x - log(sum of exp(x))
// Elements that were found, and their indices.
typedef struct sr_picked {
    sr_tensor value; // of the dtype of x
    sr_tensor index; // i32, from 0
} sr_picked;
// The largest element along a dimension, which is kept with extent 1 or removed; the first of equal
// elements. NaN takes precedence over all numbers, as in torch. The gradient goes to the element
// that was found; indices have none.
sr_picked sr_max_over(sr_tensor x, int axis, bool keep);
sr_picked sr_min_over(sr_tensor x, int axis, bool keep); // the smallest element
sr_tensor sr_argmax(sr_tensor x, int axis, bool keep);   // index of the largest one
sr_tensor sr_argmin(sr_tensor x, int axis, bool keep);   // index of the smallest one
// index i32 -> [..., classes] in a float dtype: 1 at the index, else 0. All zeros if the index is
// negative or not less than 'classes'. Gradients stop here.
sr_tensor sr_one_hot(sr_tensor index, int64_t classes, sr_dtype dtype);
// The k largest elements along the last dimension with their indices, in descending order; with
// 'smallest' the k smallest elements, in ascending order. Equal elements keep their order; NaN
// comes after all numbers. Gradients go to the elements that were selected; indices have none.
sr_picked sr_topk(sr_tensor x, int64_t k, bool smallest);
// All elements along the last dimension, sorted in the same way: equal elements keep their order.
sr_picked sr_sort(sr_tensor x, bool descending);
sr_tensor sr_argsort(sr_tensor x, bool descending); // the indices alone, i32
// Sum of all elements, f32 scalar (rank 0).
sr_tensor sr_reduce_sum(sr_tensor x);

// loss[N] (f32) per sample: (1 - smoothing) * -log softmax(logits)[label] + smoothing * mean over
// classes (Szegedy et al. 2016), smoothing 0..1; labels i32[N], negative ones are ignored (loss 0,
// no gradient), a label of K or more gives NaN (an engine refuses such a lane before it runs).
// Differentiable once; labels get no gradient.
sr_tensor sr_softmax_cross_entropy(sr_tensor logits, sr_tensor labels, double smoothing);
// f32[2]: number of labels that are the top-scoring class, and number that are among the top five.
// Gradients stop here.
sr_tensor sr_topk_hits(sr_tensor logits, sr_tensor labels);
// Multi-head attention (Vaswani et al. 2017).
typedef struct sr_attention_opts {
    int heads;    // which divide C; 0: 1
    double scale; // of the products of queries and keys; 0: 1 / sqrt(C / heads)
} sr_attention_opts;
// y[B,N,C] = softmax over keys of (scale q k^T + bias) v for each head, which has C / heads
// neighbouring channels of q[B,N,C], k[B,M,C] and v[B,M,C]. bias [G,heads,N,M] (f32; f64 with f64)
// may be SR_NONE. Batch element b uses bias b % G, and G divides B: G is 1 for relative positions,
// more for window masks. The softmax is never stored: besides the result, only f32[B,heads,N] is
// kept for the gradient. Differentiable once.
sr_tensor sr_attention(sr_tensor q, sr_tensor k, sr_tensor v, sr_tensor bias,
                       sr_attention_opts opts);
// Binary cross-entropy on logits x against a constant target t in [0, 1]: softplus(x) - t x,
// elementwise.
sr_tensor sr_bce_with_logits(sr_tensor x, double target);

// Updates of f32 variables in place, run by sr_context_run in the order of recording: calls
// recorded before the update read the old values, and calls recorded after it the new ones (sr_read
// refuses the latter until the update has run). p, m, g and e have the same shape; m and e are
// variables, like p. hyper: f32[8], an ordinary value, so it may change between steps. No gradient.
//
// Stochastic gradient descent with momentum m, as torch.optim.SGD. hyper[0..7]: learning rate,
// momentum, weight decay, Nesterov (0 or 1), gradient scale, dampening, first step (0 or 1), 0.
// With g' = scale g + decay p: m = momentum m + (1 - dampening) g', in the first step m = g'; p -=
// rate m, with Nesterov rate (g' + momentum m). With momentum 0, m is not used and p -= rate g'.
// 'first step' selects m = g'. With dampening 0 and m initially zero, both formulas agree, so
// 'first step' may stay 0.
void sr_sgd_update(sr_tensor p, sr_tensor m, sr_tensor g, sr_tensor hyper);
// Exponential moving average: e = keep e + take (scale p) where hyper holds keep, take, scale and
// five unused numbers; usually d, 1 - d and 1. Initialise e with p, or with zeros and use a growing
// d.
void sr_ema_update(sr_tensor e, sr_tensor p, sr_tensor hyper);

#ifdef __cplusplus
}
#endif

// Errors name the line of the call: each function is also a macro that first sets file and line.
// The files that define the operators switch the macros off.
#ifndef SR_OPS_PLAIN
#define sr_conv2d(...) (sr_at(__FILE__, __LINE__), sr_conv2d(__VA_ARGS__))
#define sr_conv2d_bias(...) (sr_at(__FILE__, __LINE__), sr_conv2d_bias(__VA_ARGS__))
#define sr_conv2d_transpose(...) (sr_at(__FILE__, __LINE__), sr_conv2d_transpose(__VA_ARGS__))
#define sr_linear(...) (sr_at(__FILE__, __LINE__), sr_linear(__VA_ARGS__))
#define sr_matmul(...) (sr_at(__FILE__, __LINE__), sr_matmul(__VA_ARGS__))
#define sr_bias_add(...) (sr_at(__FILE__, __LINE__), sr_bias_add(__VA_ARGS__))
#define sr_channel_sum(...) (sr_at(__FILE__, __LINE__), sr_channel_sum(__VA_ARGS__))
#define sr_channel_dot(...) (sr_at(__FILE__, __LINE__), sr_channel_dot(__VA_ARGS__))
#define sr_batchnorm_train(...) (sr_at(__FILE__, __LINE__), sr_batchnorm_train(__VA_ARGS__))
#define sr_batchnorm_group(...) (sr_at(__FILE__, __LINE__), sr_batchnorm_group(__VA_ARGS__))
#define sr_lane_sum(...) (sr_at(__FILE__, __LINE__), sr_lane_sum(__VA_ARGS__))
#define sr_batchnorm_infer(...) (sr_at(__FILE__, __LINE__), sr_batchnorm_infer(__VA_ARGS__))
#define sr_layer_norm(...) (sr_at(__FILE__, __LINE__), sr_layer_norm(__VA_ARGS__))
#define sr_rms_norm(...) (sr_at(__FILE__, __LINE__), sr_rms_norm(__VA_ARGS__))
#define sr_group_norm(...) (sr_at(__FILE__, __LINE__), sr_group_norm(__VA_ARGS__))
#define sr_instance_norm(...) (sr_at(__FILE__, __LINE__), sr_instance_norm(__VA_ARGS__))
#define sr_relu(...) (sr_at(__FILE__, __LINE__), sr_relu(__VA_ARGS__))
#define sr_gelu(...) (sr_at(__FILE__, __LINE__), sr_gelu(__VA_ARGS__))
#define sr_gelu_tanh(...) (sr_at(__FILE__, __LINE__), sr_gelu_tanh(__VA_ARGS__))
#define sr_mish(...) (sr_at(__FILE__, __LINE__), sr_mish(__VA_ARGS__))
#define sr_hard_sigmoid(...) (sr_at(__FILE__, __LINE__), sr_hard_sigmoid(__VA_ARGS__))
#define sr_hard_swish(...) (sr_at(__FILE__, __LINE__), sr_hard_swish(__VA_ARGS__))
#define sr_elu(...) (sr_at(__FILE__, __LINE__), sr_elu(__VA_ARGS__))
#define sr_prelu(...) (sr_at(__FILE__, __LINE__), sr_prelu(__VA_ARGS__))
#define sr_leaky_relu(...) (sr_at(__FILE__, __LINE__), sr_leaky_relu(__VA_ARGS__))
#define sr_tanh_op(...) (sr_at(__FILE__, __LINE__), sr_tanh_op(__VA_ARGS__))
#define sr_sigmoid(...) (sr_at(__FILE__, __LINE__), sr_sigmoid(__VA_ARGS__))
#define sr_softplus(...) (sr_at(__FILE__, __LINE__), sr_softplus(__VA_ARGS__))
#define sr_silu(...) (sr_at(__FILE__, __LINE__), sr_silu(__VA_ARGS__))
#define sr_square(...) (sr_at(__FILE__, __LINE__), sr_square(__VA_ARGS__))
#define sr_abs(...) (sr_at(__FILE__, __LINE__), sr_abs(__VA_ARGS__))
#define sr_sqrt(...) (sr_at(__FILE__, __LINE__), sr_sqrt(__VA_ARGS__))
#define sr_rsqrt(...) (sr_at(__FILE__, __LINE__), sr_rsqrt(__VA_ARGS__))
#define sr_reciprocal(...) (sr_at(__FILE__, __LINE__), sr_reciprocal(__VA_ARGS__))
#define sr_power(...) (sr_at(__FILE__, __LINE__), sr_power(__VA_ARGS__))
#define sr_log_op(...) (sr_at(__FILE__, __LINE__), sr_log_op(__VA_ARGS__))
#define sr_sin_op(...) (sr_at(__FILE__, __LINE__), sr_sin_op(__VA_ARGS__))
#define sr_cos_op(...) (sr_at(__FILE__, __LINE__), sr_cos_op(__VA_ARGS__))
#define sr_atan_op(...) (sr_at(__FILE__, __LINE__), sr_atan_op(__VA_ARGS__))
#define sr_erf_op(...) (sr_at(__FILE__, __LINE__), sr_erf_op(__VA_ARGS__))
#define sr_clip(...) (sr_at(__FILE__, __LINE__), sr_clip(__VA_ARGS__))
#define sr_pow_op(...) (sr_at(__FILE__, __LINE__), sr_pow_op(__VA_ARGS__))
#define sr_maximum(...) (sr_at(__FILE__, __LINE__), sr_maximum(__VA_ARGS__))
#define sr_minimum(...) (sr_at(__FILE__, __LINE__), sr_minimum(__VA_ARGS__))
#define sr_greater(...) (sr_at(__FILE__, __LINE__), sr_greater(__VA_ARGS__))
#define sr_equal(...) (sr_at(__FILE__, __LINE__), sr_equal(__VA_ARGS__))
#define sr_where(...) (sr_at(__FILE__, __LINE__), sr_where(__VA_ARGS__))
#define sr_exp_op(...) (sr_at(__FILE__, __LINE__), sr_exp_op(__VA_ARGS__))
#define sr_div(...) (sr_at(__FILE__, __LINE__), sr_div(__VA_ARGS__))
#define sr_add(...) (sr_at(__FILE__, __LINE__), sr_add(__VA_ARGS__))
#define sr_sub(...) (sr_at(__FILE__, __LINE__), sr_sub(__VA_ARGS__))
#define sr_mul(...) (sr_at(__FILE__, __LINE__), sr_mul(__VA_ARGS__))
#define sr_scale(...) (sr_at(__FILE__, __LINE__), sr_scale(__VA_ARGS__))
#define sr_scale_by(...) (sr_at(__FILE__, __LINE__), sr_scale_by(__VA_ARGS__))
#define sr_fill_by(...) (sr_at(__FILE__, __LINE__), sr_fill_by(__VA_ARGS__))
#define sr_cast(...) (sr_at(__FILE__, __LINE__), sr_cast(__VA_ARGS__))
#define sr_normalize(...) (sr_at(__FILE__, __LINE__), sr_normalize(__VA_ARGS__))
#define sr_dropout(...) (sr_at(__FILE__, __LINE__), sr_dropout(__VA_ARGS__))
#define sr_drop_path(...) (sr_at(__FILE__, __LINE__), sr_drop_path(__VA_ARGS__))
#define sr_random_normal(...) (sr_at(__FILE__, __LINE__), sr_random_normal(__VA_ARGS__))
#define sr_mix_batch(...) (sr_at(__FILE__, __LINE__), sr_mix_batch(__VA_ARGS__))
#define sr_maxpool2d(...) (sr_at(__FILE__, __LINE__), sr_maxpool2d(__VA_ARGS__))
#define sr_avgpool2d(...) (sr_at(__FILE__, __LINE__), sr_avgpool2d(__VA_ARGS__))
#define sr_adaptive_avgpool2d(...) (sr_at(__FILE__, __LINE__), sr_adaptive_avgpool2d(__VA_ARGS__))
#define sr_adaptive_maxpool2d(...) (sr_at(__FILE__, __LINE__), sr_adaptive_maxpool2d(__VA_ARGS__))
#define sr_global_avgpool(...) (sr_at(__FILE__, __LINE__), sr_global_avgpool(__VA_ARGS__))
#define sr_global_maxpool(...) (sr_at(__FILE__, __LINE__), sr_global_maxpool(__VA_ARGS__))
#define sr_upsample2d(...) (sr_at(__FILE__, __LINE__), sr_upsample2d(__VA_ARGS__))
#define sr_resize2d(...) (sr_at(__FILE__, __LINE__), sr_resize2d(__VA_ARGS__))
#define sr_gather_sum(...) (sr_at(__FILE__, __LINE__), sr_gather_sum(__VA_ARGS__))
#define sr_grid_sample(...) (sr_at(__FILE__, __LINE__), sr_grid_sample(__VA_ARGS__))
#define sr_deform_conv2d(...) (sr_at(__FILE__, __LINE__), sr_deform_conv2d(__VA_ARGS__))
#define sr_upfirdn2d(...) (sr_at(__FILE__, __LINE__), sr_upfirdn2d(__VA_ARGS__))
#define sr_box_iou(...) (sr_at(__FILE__, __LINE__), sr_box_iou(__VA_ARGS__))
#define sr_nms(...) (sr_at(__FILE__, __LINE__), sr_nms(__VA_ARGS__))
#define sr_roi_align(...) (sr_at(__FILE__, __LINE__), sr_roi_align(__VA_ARGS__))
#define sr_stop_gradient(...) (sr_at(__FILE__, __LINE__), sr_stop_gradient(__VA_ARGS__))
#define sr_reshape(...) (sr_at(__FILE__, __LINE__), sr_reshape(__VA_ARGS__))
#define sr_flatten(...) (sr_at(__FILE__, __LINE__), sr_flatten(__VA_ARGS__))
#define sr_permute(...) (sr_at(__FILE__, __LINE__), sr_permute(__VA_ARGS__))
#define sr_slice(...) (sr_at(__FILE__, __LINE__), sr_slice(__VA_ARGS__))
#define sr_flip(...) (sr_at(__FILE__, __LINE__), sr_flip(__VA_ARGS__))
#define sr_pad(...) (sr_at(__FILE__, __LINE__), sr_pad(__VA_ARGS__))
#define sr_concat(...) (sr_at(__FILE__, __LINE__), sr_concat(__VA_ARGS__))
#define sr_stack(...) (sr_at(__FILE__, __LINE__), sr_stack(__VA_ARGS__))
#define sr_split(...) (sr_at(__FILE__, __LINE__), sr_split(__VA_ARGS__))
#define sr_roll(...) (sr_at(__FILE__, __LINE__), sr_roll(__VA_ARGS__))
#define sr_transpose(...) (sr_at(__FILE__, __LINE__), sr_transpose(__VA_ARGS__))
#define sr_gather(...) (sr_at(__FILE__, __LINE__), sr_gather(__VA_ARGS__))
#define sr_index_select(...) (sr_at(__FILE__, __LINE__), sr_index_select(__VA_ARGS__))
#define sr_embedding(...) (sr_at(__FILE__, __LINE__), sr_embedding(__VA_ARGS__))
#define sr_scatter_add(...) (sr_at(__FILE__, __LINE__), sr_scatter_add(__VA_ARGS__))
#define sr_pad2d(...) (sr_at(__FILE__, __LINE__), sr_pad2d(__VA_ARGS__))
#define sr_pixel_shuffle(...) (sr_at(__FILE__, __LINE__), sr_pixel_shuffle(__VA_ARGS__))
#define sr_pixel_unshuffle(...) (sr_at(__FILE__, __LINE__), sr_pixel_unshuffle(__VA_ARGS__))
#define sr_reduce_sum(...) (sr_at(__FILE__, __LINE__), sr_reduce_sum(__VA_ARGS__))
#define sr_sum(...) (sr_at(__FILE__, __LINE__), sr_sum(__VA_ARGS__))
#define sr_mean(...) (sr_at(__FILE__, __LINE__), sr_mean(__VA_ARGS__))
#define sr_var(...) (sr_at(__FILE__, __LINE__), sr_var(__VA_ARGS__))
#define sr_norm(...) (sr_at(__FILE__, __LINE__), sr_norm(__VA_ARGS__))
#define sr_logsumexp(...) (sr_at(__FILE__, __LINE__), sr_logsumexp(__VA_ARGS__))
#define sr_log_softmax(...) (sr_at(__FILE__, __LINE__), sr_log_softmax(__VA_ARGS__))
#define sr_max_over(...) (sr_at(__FILE__, __LINE__), sr_max_over(__VA_ARGS__))
#define sr_min_over(...) (sr_at(__FILE__, __LINE__), sr_min_over(__VA_ARGS__))
#define sr_argmax(...) (sr_at(__FILE__, __LINE__), sr_argmax(__VA_ARGS__))
#define sr_argmin(...) (sr_at(__FILE__, __LINE__), sr_argmin(__VA_ARGS__))
#define sr_one_hot(...) (sr_at(__FILE__, __LINE__), sr_one_hot(__VA_ARGS__))
#define sr_topk(...) (sr_at(__FILE__, __LINE__), sr_topk(__VA_ARGS__))
#define sr_sort(...) (sr_at(__FILE__, __LINE__), sr_sort(__VA_ARGS__))
#define sr_argsort(...) (sr_at(__FILE__, __LINE__), sr_argsort(__VA_ARGS__))
#define sr_softmax_cross_entropy(...)                                                              \
    (sr_at(__FILE__, __LINE__), sr_softmax_cross_entropy(__VA_ARGS__))
#define sr_softmax(...) (sr_at(__FILE__, __LINE__), sr_softmax(__VA_ARGS__))
#define sr_attention(...) (sr_at(__FILE__, __LINE__), sr_attention(__VA_ARGS__))
#define sr_topk_hits(...) (sr_at(__FILE__, __LINE__), sr_topk_hits(__VA_ARGS__))
#define sr_bce_with_logits(...) (sr_at(__FILE__, __LINE__), sr_bce_with_logits(__VA_ARGS__))
#define sr_sgd_update(...) (sr_at(__FILE__, __LINE__), sr_sgd_update(__VA_ARGS__))
#define sr_ema_update(...) (sr_at(__FILE__, __LINE__), sr_ema_update(__VA_ARGS__))
#endif
#endif
