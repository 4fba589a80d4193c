// SPDX-License-Identifier: Apache-2.0
// Shared by the operator files: descriptor heads, shape and dtype checks, lowering helpers.
#ifndef SR_GRAPH_OPS_OP_INTERNAL_H
#define SR_GRAPH_OPS_OP_INTERNAL_H

#ifndef SR_OPS_PLAIN
#define SR_OPS_PLAIN // these files define the functions, so the macros are off
#endif
#include "graph/context.h"
#include "graph/op.h"
#include "graph/ops.h"
#include "kernels/kernel_params.h"

#define SR_OP(symbol) extern const sr_op symbol;
#include "graph/ops/op_list.def"
#undef SR_OP

#define SR_OP_HEAD .struct_size = sizeof(sr_op), .abi = SR_OP_ABI

// Bit of sr_op.in_place: output 'o' may reuse the memory of input 'i'.
#define SR_IN_PLACE(o, i) (1u << (8 * (o) + (i)))

#define SR_INFO_TEXT 96

// ---- Dtypes ----
// The dtype of the parameters of an activation: f32, or f64 for f64.
sr_dtype sr_op_parameter_dtype(sr_dtype activation);
bool sr_op_present(const sr_node_view *node, int input);

// ---- Shapes ----
sr_info sr_op_info(sr_dtype dtype, int rank, const int64_t *dim);
bool sr_op_same_shape(const sr_info *a, const sr_info *b);
int64_t sr_op_channels(const sr_info *info); // last dimension; 1 for a scalar
int64_t sr_op_rows(const sr_info *info);     // product of all the others

// ---- Checks: each fails with SR_E_SHAPE naming the operator, the argument and the shape ----
// A float tensor of this rank (-1: any).
sr_status sr_op_expect_activation(const sr_node_view *node, int input, const char *name, int rank);
// Dtype of the parameters of 'activation', and exactly this shape.
sr_status sr_op_expect_parameter(const sr_node_view *node, int input, const char *name,
                                 sr_dtype activation, int rank, const int64_t *dim);
// A parameter vector [channels], or absent.
sr_status sr_op_expect_vector(const sr_node_view *node, int input, const char *name,
                              sr_dtype activation, int64_t channels);
// Input 'b' has the dtype and shape of input 'a'.
sr_status sr_op_expect_equal(const sr_node_view *node, int a, int b);
// A single f32 (f64 with f64) number of rank 0 or 1.
sr_status sr_op_expect_scalar(const sr_node_view *node, int input, sr_dtype activation);

// ---- Common inference: out[0] is in[0]; all inputs are equal floats ----
sr_status sr_op_infer_like(const sr_node_view *node, sr_info *out);

// ---- Lowering ----
sr_status sr_op_lower(sr_kernel_request *request, sr_kernel_id kernel, const void *params,
                      size_t bytes);
// For kernels whose only parameter is the number of elements of input 0.
sr_status sr_op_lower_count(const sr_node_view *node, sr_kernel_request *request,
                            sr_kernel_id kernel);

// ---- Windows (convolution, pooling) ----
// Positions of a window: (size + pads - dilation (window - 1) - 1) / stride + 1; 0 when none fits.
int64_t sr_op_positions(int64_t size, int64_t pads, int64_t window, int64_t dilation,
                        int64_t stride);

// Padding of a side, before and after the picture. With 'same' there are ceil(size / stride)
// positions, and the odd pixel is after the picture, as in TensorFlow; else pad, and pad + extra.
typedef struct sr_op_sides {
    int64_t before, after;
} sr_op_sides;
sr_op_sides sr_op_sides_of(int64_t size, int64_t window, int64_t dilation, int64_t stride,
                           int64_t pad, int64_t extra, bool same);

// A gradient, summed to the shape of its input where that was repeated (op_expression.c).
sr_tensor sr_op_shaped_like(sr_tensor gradient, const sr_info *input);

// Records 'op' with one input and these attributes.
sr_tensor sr_op_unary(const sr_op *op, const void *attr, sr_tensor x);
sr_tensor sr_op_binary(const sr_op *op, const void *attr, sr_tensor a, sr_tensor b);

// ---- Casts (op_cast.c) ----
// x, cast where it has another dtype.
sr_tensor sr_op_as_type(sr_tensor x, sr_dtype dtype);

// ---- Sums (op_expression.c) ----
// x summed to the shape of 'like', which is that of x with extents of 1, or without leading
// dimensions; the sums in 'dtype', that of x or of its parameters.
sr_tensor sr_op_sum_to_shape(sr_tensor x, const sr_info *like, sr_dtype dtype);

// ---- Reductions (op_reduce_internal.c) ----
// What a call reduces x to.
typedef struct sr_reduction {
    sr_info x, kept, result; // kept: with extents of 1 where x is reduced
    bool over[SR_MAX_RANK];
    int64_t count; // elements of x for each of the result
} sr_reduction;
// False after an error, which sticks and has the name of the call.
bool sr_op_reduction(sr_tensor x, const char *name, const sr_axes *axes, sr_reduction *r);
// x as rows of the elements that become one each.
sr_tensor sr_op_reduced_rows(sr_tensor x, const sr_reduction *r);

// ---- Draws (op_dropout.c) ----
// Attributes of dropout and drop_path.
typedef struct sr_op_dropout_attr {
    double probability;
    uint32_t scope, reserved;
} sr_op_dropout_attr;
// This input is a key, and the probability of dropping is one.
sr_status sr_op_expect_draws(const sr_node_view *node, int input, double probability);

// ---- Normalisation over groups of channels (op_groupnorm.c) ----
// Fills the attributes of add_groupnorm from those of groupnorm and drop_path, or NULL without.
void sr_op_join_groupnorm(const void *norm, const void *drop, void *out);

// ---- Batch norm with ReLU before max pooling (op_norm_pool.c) ----
// Fills their attributes from those of batch norm and maxpool2d.
void sr_op_join_maxpool(const void *norm, const void *pool, void *out);

// ---- Normalisation over rows of channels (op_batchnorm.c) ----
// Input 0 is an activation with at least two dimensions.
sr_status sr_op_expect_rows(const sr_node_view *node);
sr_status sr_op_expect_eps(const sr_node_view *node, double eps);
// Inputs 'first' and all after it are parameter vectors of the channels of input 0, or absent.
sr_status sr_op_expect_channels(const sr_node_view *node, int first);
// Of a parameter vector of its channels.
sr_info sr_op_channel_info(const sr_info *x);
// Of the signs of its elements (batchnorm_train_relu in kernels/kernel_list.def).
sr_info sr_op_signs_info(const sr_info *x);
// Inference of x, gamma, beta, mean, var -> y, which leaves attributes unchecked.
sr_status sr_op_infer_normalized(const sr_node_view *node, sr_info *out);
// The gradient of x, input 0, from those of its mean and variance (one may be absent) over 'rows'.
sr_tensor sr_op_statistics_gradient(sr_context *context, const sr_node_view *node, sr_tensor mean,
                                    double rows, sr_tensor dmean, sr_tensor dvar);

// ---- Constants (op_fill_by.c) ----
// A constant f32 (f64 for 'activation' f64) vector [count], every element 'value'; rank 0 for
// count 0.
sr_tensor sr_op_constant(sr_context *context, sr_dtype activation, int64_t count, double value);

#endif
