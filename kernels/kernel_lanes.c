// SPDX-License-Identifier: Apache-2.0
// Requests of several lanes (kernel_lanes.h): how the params of each kernel grow.
#include "kernels/kernel_lanes.h"

#include <stddef.h>
#include <string.h>

#include "kernels/kernel_params.h"

// Makes the params of one lane those of 'lanes' lanes; false if there are none.
typedef bool (*grow_fn)(void *params, int64_t lanes, uint32_t varies);

// Their first field is a number of samples, or of rows of them.
_Static_assert(offsetof(sr_conv_params, n) == 0 && offsetof(sr_linear_params, n) == 0 &&
                   offsetof(sr_rows_params, rows) == 0 && offsetof(sr_axis_params, rows) == 0 &&
                   offsetof(sr_sort_params, rows) == 0 &&
                   offsetof(sr_batchnorm_params, rows) == 0 &&
                   offsetof(sr_norm_linear_params, n) == 0 &&
                   offsetof(sr_norm_pool_params, pool) == 0,
               "");
_Static_assert(offsetof(sr_groupnorm_params, samples) == 0 &&
                   offsetof(sr_count_params, count) == 0 && offsetof(sr_concat_params, rows) == 0 &&
                   offsetof(sr_gather_params, outer) == 0 &&
                   offsetof(sr_gather_sum_params, outer) == 0 &&
                   offsetof(sr_normalize_params, rows) == 0,
               "");
_Static_assert(offsetof(sr_drop_path_params, samples) == 0 &&
                   offsetof(sr_add_groupnorm_params, norm) == 0,
               "");
_Static_assert(offsetof(sr_pool_params, n) == 0 && offsetof(sr_resize_params, n) == 0 &&
                   offsetof(sr_taps_params, n) == 0 && offsetof(sr_upfirdn_params, n) == 0,
               "");
_Static_assert(offsetof(sr_nms_params, samples) == 0 && offsetof(sr_xent_params, n) == 0 &&
                   offsetof(sr_attention_params, batches) == 0,
               "");

static bool grow_samples(void *params, int64_t lanes, uint32_t varies) {
    (void)varies;
    int64_t samples;
    memcpy(&samples, params, sizeof samples);
    samples *= lanes;
    memcpy(params, &samples, sizeof samples);
    return true;
}

// Inputs that a lane repeats along the first dimension are those that have no samples.
static bool grow_expression(void *params, int64_t lanes, uint32_t varies) {
    (void)varies;
    sr_expression_params *p = params;
    p->count *= lanes;
    if (p->dims > 0)
        p->dim[0] *= lanes;
    return true;
}

// The lanes are one more dimension of batches.
static bool grow_matmul(void *params, int64_t lanes, uint32_t varies) {
    sr_matmul_params *p = params;
    int64_t *const step[] = {p->a_step, p->b_step}, *const count[] = {&p->a_count, &p->b_count};
    int at = 0;
    if (p->dim[0] > 1)
        return false;
    while (at + 1 < SR_MATMUL_DIMS && p->dim[at + 1] == 1)
        at++;
    p->dim[at] = lanes;
    for (int i = 0; i < 2; i++) {
        const bool own = varies >> i & 1;
        step[i][at] = own ? *count[i] : 0;
        *count[i] *= own ? lanes : 1;
    }
    return true;
}

// Samples are numbered inside a lane, so that each has a key of its own: argument 'key'.
static bool grow_drawn(void *params, int64_t lanes, uint32_t varies, int key) {
    return (varies >> key & 1) && grow_samples(params, lanes, varies);
}

static bool grow_drop_path(void *params, int64_t lanes, uint32_t varies) {
    return grow_drawn(params, lanes, varies, 1);
}

static bool grow_add_groupnorm(void *params, int64_t lanes, uint32_t varies) {
    const sr_add_groupnorm_params *p = params;
    return p->drop_rows > 0 ? grow_drawn(params, lanes, varies, 2)
                            : grow_samples(params, lanes, varies);
}

// Whether the first dimension of y goes through all of x, so that it can go through those of all
// lanes.
static bool is_outermost(const sr_rearrange_params *p, int64_t lanes) {
    return p->begin[0] == 0 && p->end[0] == p->dim[0] && p->every[0] == 1 &&
           p->dim[0] * p->step[0] == p->elements && p->dim[0] * lanes <= INT32_MAX;
}

// A dimension of lanes before the others.
static bool add_dimension(sr_rearrange_params *p, int64_t lanes) {
    if (p->dims == SR_REARRANGE_DIMS)
        return false;
    for (int d = p->dims++; d > 0; d--) {
        p->dim[d] = p->dim[d - 1];
        p->step[d] = p->step[d - 1];
        p->begin[d] = p->begin[d - 1];
        p->end[d] = p->end[d - 1];
        p->every[d] = p->every[d - 1];
    }
    p->dim[0] = lanes;
    p->step[0] = p->elements;
    p->begin[0] = 0;
    p->end[0] = (int32_t)lanes;
    p->every[0] = 1;
    return true;
}

static bool grow_rearrange(void *params, int64_t lanes, uint32_t varies) {
    (void)varies;
    sr_rearrange_params *p = params;
    if (is_outermost(p, lanes)) {
        p->dim[0] *= lanes;
        p->end[0] = (int32_t)p->dim[0];
    } else if (!add_dimension(p, lanes)) {
        return false;
    }
    p->count *= lanes;
    p->elements *= lanes;
    return true;
}

// Batch b has bias b % biases, in every lane.
static bool grow_attention(void *params, int64_t lanes, uint32_t varies) {
    sr_attention_params *p = params;
    return (p->biases == 0 || p->batches % p->biases == 0) && grow_samples(params, lanes, varies);
}

// What mixes the samples of a lane without an argument that shows it, and what lane programs do
// without.
static bool one_by_one(void *params, int64_t lanes, uint32_t varies) {
    (void)params;
    (void)lanes;
    (void)varies;
    return false;
}

static const grow_fn growth[SR_KERNEL_COUNT] = {
    [SR_KERNEL_conv2d] = grow_samples,
    [SR_KERNEL_conv2d_dx] = grow_samples,
    [SR_KERNEL_conv2d_dw] = grow_samples,
    [SR_KERNEL_linear] = grow_samples,
    [SR_KERNEL_linear_dx] = grow_samples,
    [SR_KERNEL_linear_dw] = grow_samples,
    [SR_KERNEL_matmul] = grow_matmul,
    [SR_KERNEL_bias_add] = grow_samples,
    [SR_KERNEL_channel_sum] = grow_samples,
    [SR_KERNEL_channel_dot] = grow_samples,
    [SR_KERNEL_batchnorm_train] = grow_samples,
    [SR_KERNEL_batchnorm_grad] = grow_samples,
    [SR_KERNEL_batchnorm_moments] = grow_samples,
    [SR_KERNEL_batchnorm_sums] = grow_samples,
    [SR_KERNEL_batchnorm_dx] = grow_samples,
    [SR_KERNEL_batchnorm_infer] = grow_samples,
    [SR_KERNEL_batchnorm_train_relu] = grow_samples,
    [SR_KERNEL_batchnorm_train_pair_relu] = grow_samples,
    [SR_KERNEL_batchnorm_infer_relu] = grow_samples,
    [SR_KERNEL_batchnorm_relu_grad] = grow_samples,
    [SR_KERNEL_batchnorm_add_relu_grad] = grow_samples,
    [SR_KERNEL_batchnorm_relu_linear] = grow_samples,
    [SR_KERNEL_batchnorm_relu_linear_dw] = grow_samples,
    [SR_KERNEL_batchnorm_train_relu_maxpool] = grow_samples,
    [SR_KERNEL_batchnorm_infer_relu_maxpool] = grow_samples,
    [SR_KERNEL_batchnorm_relu_maxpool_grad] = grow_samples,
    [SR_KERNEL_groupnorm] = grow_samples,
    [SR_KERNEL_groupnorm_grad] = grow_samples,
    [SR_KERNEL_add_groupnorm] = grow_add_groupnorm,
    [SR_KERNEL_groupnorm_add_grad] = grow_samples,
#define SR_EXPRESSION(name, ...) [SR_KERNEL_##name] = grow_expression,
#include "kernels/expression_list.def"
#undef SR_EXPRESSION
    [SR_KERNEL_sum_to] = grow_expression,
    [SR_KERNEL_fill_by] = grow_samples,
    [SR_KERNEL_cast] = grow_samples,
    [SR_KERNEL_normalize] = grow_samples,
    [SR_KERNEL_dropout] = one_by_one, // draws are numbered inside a lane
    [SR_KERNEL_drop_path] = grow_drop_path,
    [SR_KERNEL_random_normal] = one_by_one,
    [SR_KERNEL_mix_batch] = one_by_one,
    [SR_KERNEL_rearrange] = grow_rearrange,
    [SR_KERNEL_concat] = grow_samples,
    [SR_KERNEL_gather] = grow_samples,
    [SR_KERNEL_scatter_add] = grow_samples,
    [SR_KERNEL_one_hot] = grow_samples,
    [SR_KERNEL_gather_sum] = grow_samples,
    [SR_KERNEL_scatter_sum] = grow_samples,
    [SR_KERNEL_gather_dot] = grow_samples,
    [SR_KERNEL_taps2d] = grow_samples,
    [SR_KERNEL_maxpool2d] = grow_samples,
    [SR_KERNEL_maxpool2d_grad] = grow_samples,
    [SR_KERNEL_avgpool2d] = grow_samples,
    [SR_KERNEL_avgpool2d_grad] = grow_samples,
    [SR_KERNEL_upsample2d] = grow_samples,
    [SR_KERNEL_upsample2d_grad] = grow_samples,
    [SR_KERNEL_resize2d] = grow_samples,
    [SR_KERNEL_resize2d_grad] = grow_samples,
    [SR_KERNEL_upfirdn2d] = grow_samples,
    [SR_KERNEL_move_pixels] = one_by_one,
    [SR_KERNEL_nms] = grow_samples,
    [SR_KERNEL_roi_align] = one_by_one, // its boxes have numbers of pictures
    [SR_KERNEL_roi_align_grad] = one_by_one,
    [SR_KERNEL_reduce_sum] = grow_samples,
    [SR_KERNEL_softmax_xent] = grow_samples,
    [SR_KERNEL_softmax_xent_grad] = grow_samples,
    [SR_KERNEL_topk_hits] = grow_samples,
    [SR_KERNEL_extreme] = grow_samples,
    [SR_KERNEL_sort_rows] = grow_samples,
    [SR_KERNEL_softmax] = grow_samples,
    [SR_KERNEL_softmax_grad] = grow_samples,
    [SR_KERNEL_log_softmax] = grow_samples,
    [SR_KERNEL_log_softmax_grad] = grow_samples,
    [SR_KERNEL_logsumexp] = grow_samples,
    [SR_KERNEL_attention] = grow_attention,
    [SR_KERNEL_attention_grad] = grow_attention,
    [SR_KERNEL_attention_bias_grad] = grow_attention,
    [SR_KERNEL_sgd] = one_by_one,
    [SR_KERNEL_adam] = one_by_one,
    [SR_KERNEL_rmsprop] = one_by_one,
    [SR_KERNEL_lion] = one_by_one,
    [SR_KERNEL_lamb] = one_by_one,
    [SR_KERNEL_limit] = one_by_one,
    [SR_KERNEL_fold_lanes] = one_by_one,
    [SR_KERNEL_add_squares] = one_by_one,
    [SR_KERNEL_ema] = one_by_one,
};

bool sr_kernel_has_lanes(sr_kernel_id kernel) {
    return (unsigned)kernel < (unsigned)SR_KERNEL_COUNT && growth[kernel] != one_by_one;
}

uint16_t sr_kernel_lane_inputs(const sr_kernel_request *request) {
    int count;
    const sr_kernel_argument *argument = sr_kernel_arguments(request->kernel, &count);
    uint32_t inputs = 0;
    for (int i = 0; i < count; i++)
        if (!sr_argument_is_result(argument[i].role))
            inputs |= 1U << i;
    return (uint16_t)(request->per_lane & inputs);
}

// Notes which arguments each lane has; false if samples are not where 'varies' says, or lanes share
// a result.
static bool find_per_lane(const sr_kernel_request *lane, uint32_t varies, int64_t lanes,
                          sr_kernel_request *out) {
    int count;
    const sr_kernel_argument *argument = sr_kernel_arguments(lane->kernel, &count);
    uint32_t per_lane = 0;
    for (int i = 0; i < lane->args; i++) {
        const int64_t one = sr_kernel_argument_count(lane, i);
        const int64_t all = sr_kernel_argument_count(out, i);
        const bool own = varies >> i & 1;
        if (lane->dtype[i] == SR_DTYPE_COUNT)
            continue;
        if (!own && sr_argument_is_result(argument[i].role))
            return false;
        if (one > 0 && all == one * (own ? lanes : 1))
            continue;
        if (!own || all != one)
            return false;
        per_lane |= 1U << i;
    }
    out->per_lane = (uint16_t)per_lane;
    return true;
}

bool sr_kernel_join_lanes(const sr_kernel_request *lane, int lanes, uint32_t varies,
                          sr_kernel_request *out) {
    if (lane->kernel == SR_KERNEL_OWN || lanes > SR_KERNEL_MAX_LANES)
        return false;
    *out = *lane;
    if (!growth[lane->kernel](out->params, lanes, varies) ||
        !find_per_lane(lane, varies, lanes, out) || (out->apart & ~out->per_lane) != 0)
        return false;
    out->lanes = (uint16_t)lanes;
    const sr_kernel_entry *one = sr_kernel_find(lane), *all = sr_kernel_find(out);
    return one && all && strcmp(one->numerics_class, all->numerics_class) == 0;
}
