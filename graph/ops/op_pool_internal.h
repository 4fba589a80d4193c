// SPDX-License-Identifier: Apache-2.0
// What operators with pooling share (op_pool2d.c, op_norm_pool.c).
#ifndef SR_GRAPH_OP_POOL_INTERNAL_H
#define SR_GRAPH_OP_POOL_INTERNAL_H

#include "graph/ops/op_internal.h"

typedef struct sr_pool_attr {
    int32_t window_h, window_w, stride_h, stride_w, pad_h, pad_w;
    int64_t h, w;             // gradients: size of dx
    int32_t gap_h, gap_w;     // as in sr_pool_params
    int32_t ceil_mode;        // 1: a last window may reach beyond the padding
    int32_t same;             // 1: the sides are padded so that y is as large as x / stride
    int32_t extra_h, extra_w; // more padding at the bottom and on the right
    int32_t after_h, after_w; // with ceil_mode, no window begins in this many pixels at the end
} sr_pool_attr;

#define SR_POOL_FIELDS                                                                             \
    SR_ATTR(sr_pool_attr, window_h, 1, SR_ATTR_SIDE),                                              \
        SR_ATTR(sr_pool_attr, window_w, 1, SR_ATTR_SIDE),                                          \
        SR_ATTR(sr_pool_attr, stride_h, 1, SR_ATTR_SIDE),                                          \
        SR_ATTR(sr_pool_attr, stride_w, 1, SR_ATTR_SIDE),                                          \
        SR_ATTR(sr_pool_attr, pad_h, 0, SR_ATTR_SIDE),                                             \
        SR_ATTR(sr_pool_attr, pad_w, 0, SR_ATTR_SIDE),                                             \
        SR_ATTR(sr_pool_attr, h, 0, SR_ATTR_EXTENT), SR_ATTR(sr_pool_attr, w, 0, SR_ATTR_EXTENT),  \
        SR_ATTR(sr_pool_attr, gap_h, 0, SR_ATTR_SIDE),                                             \
        SR_ATTR(sr_pool_attr, gap_w, 0, SR_ATTR_SIDE),                                             \
        SR_ATTR(sr_pool_attr, ceil_mode, 0, SR_ATTR_FLAG),                                         \
        SR_ATTR(sr_pool_attr, same, 0, SR_ATTR_FLAG),                                              \
        SR_ATTR(sr_pool_attr, extra_h, 0, SR_ATTR_SIDE),                                           \
        SR_ATTR(sr_pool_attr, extra_w, 0, SR_ATTR_SIDE),                                           \
        SR_ATTR(sr_pool_attr, after_h, 0, SR_ATTR_SIDE),                                           \
        SR_ATTR(sr_pool_attr, after_w, 0, SR_ATTR_SIDE)

// The params of pooling x with these attributes; y, if given, must have the shape of the result.
sr_status sr_op_pool_params(const sr_node_view *node, const sr_pool_attr *a, const sr_info *x,
                            const sr_info *y, sr_pool_params *out);
// The infos of y and of index of maxpool2d of x.
sr_status sr_op_maxpool_infer(const sr_node_view *node, const sr_pool_attr *a, const sr_info *x,
                              sr_info *y, sr_info *index);
// Input i is an index of that shape.
sr_status sr_op_expect_index(const sr_node_view *node, int i, const sr_info *dy);

#endif
