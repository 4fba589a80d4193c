// SPDX-License-Identifier: Apache-2.0
// Parameter structs of the kernels in kernel_list.def. Plain data, compared and hashed as bytes:
// zero a struct before filling it.
#ifndef SR_KERNELS_KERNEL_PARAMS_H
#define SR_KERNELS_KERNEL_PARAMS_H

#include <stdint.h>

#include "kernels/base/device_code.h"

#ifdef __cplusplus
extern "C" {
#endif

// conv2d and its gradients; sizes in elements and pixels.
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

#define SR_MATMUL_DIMS 3 // of batches
// matmul: c[rows,columns] for each batch, summed over 'terms'. A batch is an index i into dim[]; it
// uses matrix number sum over d of i[d] a_step[d] of a, and likewise of b. A step of 0 repeats a
// matrix.
typedef struct sr_matmul_params {
    int64_t rows, terms, columns;
    int64_t a_count, b_count;                                                    // matrices
    int64_t dim[SR_MATMUL_DIMS], a_step[SR_MATMUL_DIMS], b_step[SR_MATMUL_DIMS]; // dim >= 1
    double alpha;
    int32_t transpose_a, transpose_b; // 1: a is [terms,rows]; b is [columns,terms]
} sr_matmul_params;

// Number of products.
static inline int64_t sr_matmul_batches(const sr_matmul_params *p) {
    return p->dim[0] * p->dim[1] * p->dim[2];
}

// Kernels on rows of channels: x[rows,channels].
typedef struct sr_rows_params {
    int64_t rows, channels;
} sr_rows_params;

// Kernels along one dimension: x[rows,n,inner], n < 2^31.
typedef struct sr_axis_params {
    int64_t rows, n, inner;
    int32_t least, reserved; // for extreme: 1 selects the smallest element
} sr_axis_params;

// sort_rows: the first k elements of each sorted row of n < 2^31.
typedef struct sr_sort_params {
    int64_t rows, n, k;
    int32_t ascending, reserved;
} sr_sort_params;

// Batch normalisation over rows of channels.
typedef struct sr_batchnorm_params {
    int64_t rows, channels;
    double eps;
} sr_batchnorm_params;

// Bytes of a row of signs, a bit for each channel.
#define SR_SIGN_BYTES(channels) (((channels) + 7) / 8)

// batchnorm_dx: rows of x, which are some of 'count' rows with common statistics.
typedef struct sr_batchnorm_dx_params {
    int64_t rows, channels;
    double eps;
    int64_t count;
} sr_batchnorm_dx_params;

// batchnorm_relu_linear and its gradient: x[n,c], w[k,c], y[n,k].
typedef struct sr_norm_linear_params {
    int64_t n, c, k;
    double eps;
} sr_norm_linear_params;

// Normalisation over groups of neighbouring channels: x[samples,pixels,channels].
typedef struct sr_groupnorm_params {
    int64_t samples, pixels, channels, groups; // channels are a multiple of groups
    double eps;
    int32_t uncentred, reserved; // uncentred 1: the mean is taken as 0
} sr_groupnorm_params;

// add_groupnorm: the norm is of the sum, whose rows are its samples' pixels.
typedef struct sr_add_groupnorm_params {
    sr_groupnorm_params norm;
    int64_t drop_rows;        // rows of a sample that is dropped or kept; 0: without key
    double probability;       // of dropping it, 0 <= p < 1
    uint32_t scope, reserved; // as in sr_dropout_params
} sr_add_groupnorm_params;

// Elementwise kernels: a number of elements.
typedef struct sr_count_params {
    int64_t count;
} sr_count_params;

// A part of a flat array that is updated with one row of numbers.
typedef struct sr_update_piece {
    int64_t begin;          // its first element, counted from that of the flat space
    int32_t count, segment; // 1 <= count <= SR_UPDATE_PIECE
} sr_update_piece;

#define SR_UPDATE_PIECE 65536 // elements of a piece, at most
#define SR_UPDATE_ROW 16      // numbers of a row
// Updates of flat arrays. Without pieces the numbers are one row, for all elements. With pieces
// they are a table of 32-bit words: rows; maps, which have for each segment the number (i32) of its
// row, or -1: its pieces are not touched; and sr_update_piece.
typedef struct sr_update_params {
    int64_t count;             // elements of each array
    int64_t pieces;            // of these arrays; 0: none
    int64_t first;             // element of the flat space that is the first of the arrays
    int64_t map_at, pieces_at; // words of the table before the map and the pieces
    int64_t words;             // of the table
    int64_t apart;             // add_squares: the sum of piece i is s[i * apart]
} sr_update_params;

// Words of numbers, of which a row has 'row' without pieces.
static inline int64_t sr_update_words(const sr_update_params *p, int64_t row) {
    return p->pieces > 0 ? p->words : row;
}

#define SR_EXPRESSION_CONSTANTS 4 // of a formula
#define SR_EXPRESSION_INPUTS 3    // of a formula
#define SR_EXPRESSION_DIMS 5      // of a tensor
// The formulas of expression_list.def, and sum_to. Inputs that are smaller than the output are
// repeated along some of its dimensions.
typedef struct sr_expression_params {
    int64_t count;                            // elements of the output; of sum_to: of x
    double constant[SR_EXPRESSION_CONSTANTS]; // attributes, for instance a slope
    int64_t dim[SR_EXPRESSION_DIMS];
    uint8_t dims;                           // 0: all inputs have the output's shape
    uint8_t repeated[SR_EXPRESSION_INPUTS]; // bit d: input i is repeated along dimension d
    uint32_t reserved;
} sr_expression_params;

// Number of elements of an input, from the params.
static inline int64_t sr_input_elements(const sr_expression_params *p, int input) {
    int64_t n = p->dims == 0 ? p->count : 1;
    for (int d = 0; d < p->dims; d++)
        n *= p->repeated[input] >> d & 1 ? 1 : p->dim[d];
    return n;
}

#define SR_REARRANGE_DIMS 5 // of a tensor
// rearrange: the element of y at index i[0] .. i[dims - 1] is element first + sum over d of (i[d] -
// begin[d]) / every[d] * step[d] of x if each i[d] is in begin[d] .. end[d] - 1 and all divisions
// are exact; otherwise it is 0.
typedef struct sr_rearrange_params {
    int64_t count, elements; // of y, of x
    int64_t first;
    int64_t dim[SR_REARRANGE_DIMS], step[SR_REARRANGE_DIMS];
    int32_t begin[SR_REARRANGE_DIMS], end[SR_REARRANGE_DIMS], every[SR_REARRANGE_DIMS];
    int32_t dims; // >= 1
} sr_rearrange_params;

#define SR_CONCAT_INPUTS 4 // of concat
// concat: x[i] has 'rows' rows of width[i], and the rows of y have the sum of these widths. Widths
// of absent inputs are 0.
typedef struct sr_concat_params {
    int64_t rows, width[SR_CONCAT_INPUTS];
} sr_concat_params;

// Number of elements of a row of y.
static inline int64_t sr_concat_width(const sr_concat_params *p) {
    return p->width[0] + p->width[1] + p->width[2] + p->width[3];
}

// gather: x[outer,n,inner] and y[outer,count,inner]; scatter_add: x[outer,count,inner] and
// y[outer,n,inner]. The index has one entry for each of 'count' elements, shared by all of 'outer'
// and 'inner' unless per_outer or per_inner is set: index[1 or outer,count,1 or inner].
typedef struct sr_gather_params {
    int64_t outer, n, inner, count; // n, count < 2^31
    int32_t per_outer, per_inner;   // 0 or 1
    int32_t zeros, reserved;        // gather: 1: an invalid index gives 0 instead of NaN
} sr_gather_params;

// Number of lists of 'count' entries in the index.
static inline int64_t sr_gather_lists(const sr_gather_params *p) {
    return (p->per_outer ? p->outer : 1) * (p->per_inner ? p->inner : 1);
}

#define SR_GATHER_SHARE 32 // maximum of 'share'
// gather_sum and its gradients: x[outer,n,groups,inner], y[outer,count,groups,inner], index and
// weights [outer,count,share,groups].
typedef struct sr_gather_sum_params {
    int64_t outer, n, groups, inner, count; // n, count * share < 2^31
    int32_t share, reserved;                // 1 to SR_GATHER_SHARE
} sr_gather_sum_params;

// Number of entries of the index.
static inline int64_t sr_gather_sum_numbers(const sr_gather_sum_params *p) {
    return p->outer * p->count * p->share * p->groups;
}

// The same lists as params of a scatter_add: one list for each of 'outer' and each group.
static inline sr_gather_params sr_gather_sum_lists(const sr_gather_sum_params *p) {
    const sr_gather_params lists = {p->outer, p->n, p->groups, p->count * p->share, 1, 1, 0, 0};
    return lists;
}

#define SR_NORMALIZE_MAX_CHANNELS 4 // of a picture for normalize
// normalize: y = (x - mean[c]) inverse_std[c].
typedef struct sr_normalize_params {
    int64_t rows, channels;
    double
        mean[SR_NORMALIZE_MAX_CHANNELS]; // in units of u8; rounded to f32 unless the output is f64
    double inverse_std[SR_NORMALIZE_MAX_CHANNELS];
} sr_normalize_params;

// dropout and random_normal.
typedef struct sr_dropout_params {
    int64_t count;
    double probability; // of dropping, 0 <= p < 1
    uint32_t scope;     // stable key of the call site
    uint32_t reserved;
} sr_dropout_params;

// drop_path: x[samples,size].
typedef struct sr_drop_path_params {
    int64_t samples, size;
    double probability;       // of dropping a sample, 0 <= p < 1
    uint32_t scope, reserved; // as in sr_dropout_params
} sr_drop_path_params;

// mix_batch: x[n,h,w,c].
typedef struct sr_mix_params {
    int64_t n, h, w, c;
    double mixup, cutmix;     // alpha of Beta(alpha, alpha); 0: off
    double probability;       // of mixing the samples, 0 <= p <= 1
    uint32_t scope, reserved; // as in sr_dropout_params
} sr_mix_params;

// Pooling and upsampling: x[n,h,w,c], y[n,p,q,c].
typedef struct sr_pool_params {
    int64_t n, h, w, c, p, q;
    int32_t window_h, window_w, stride_h, stride_w; // window_h * window_w <= 255 for maxpool2d
    int32_t pad_top, pad_left, pad_bottom, pad_right;
    int32_t gap_h, gap_w; // maxpool2d: pixels left out between neighbours of a window
} sr_pool_params;

// batchnorm_train_relu_maxpool and the like: batch norm of the pool's x.
typedef struct sr_norm_pool_params {
    sr_pool_params pool;
    double eps;
} sr_norm_pool_params;

// Elements of x,
static inline int64_t sr_norm_pool_inputs(const sr_norm_pool_params *p) {
    return p->pool.n * p->pool.h * p->pool.w * p->pool.c;
}
// and of y.
static inline int64_t sr_norm_pool_outputs(const sr_norm_pool_params *p) {
    return p->pool.n * p->pool.p * p->pool.q * p->pool.c;
}

// How resize2d computes a pixel (kernels/resize.h).
enum {
    SR_FILTER_NEAREST,
    SR_FILTER_NEAREST_EXACT,
    SR_FILTER_LINEAR,
    SR_FILTER_CUBIC,
    SR_FILTER_AREA
};

// resize2d: x[n,h,w,c], y[n,p,q,c]. All extents of pictures are less than 2^31.
typedef struct sr_resize_params {
    int64_t n, h, w, c, p, q;
    double step_h, step_w;      // distance in x between neighbouring pixels of y
    int32_t filter;             // SR_FILTER_...
    int32_t corners, antialias; // 0 or 1; for SR_FILTER_LINEAR and SR_FILTER_CUBIC
    int32_t reserved;
} sr_resize_params;

// What taps2d reads beyond the border of a picture.
enum { SR_TAPS_ZERO, SR_TAPS_REPLICATE, SR_TAPS_REFLECT };

// taps2d: points[n,p,q,r,s,groups,2] of pictures of h x w pixels, h w < 2^31 (kernels/taps.h).
typedef struct sr_taps_params {
    int64_t n, p, q, r, s, groups;
    int64_t h, w;
    double scale_h, shift_h, step_h, gap_h; // position = shift + scale point + step index in p
    double scale_w, shift_w, step_w, gap_w; // (or q) + gap index in r (or s)
    int32_t filter;                         // SR_FILTER_NEAREST, _LINEAR or _CUBIC
    int32_t border, corners;                // SR_TAPS_...; 0 or 1
    int32_t order_h, order_w;               // of the derivative of the weights
    int32_t x_first;                        // 1: a point is (x, y), else (y, x)
} sr_taps_params;

// Number of points.
static inline int64_t sr_taps_points(const sr_taps_params *p) {
    return p->n * p->p * p->q * p->r * p->s * p->groups;
}

// Number of taps along one side.
SR_DEVICE_INLINE int32_t sr_taps_side(int32_t filter) {
    return filter == SR_FILTER_NEAREST ? 1 : filter == SR_FILTER_LINEAR ? 2 : 4;
}
// Number of taps of a point.
SR_DEVICE_INLINE int32_t sr_taps_share(int32_t filter) {
    return sr_taps_side(filter) * sr_taps_side(filter);
}

// upfirdn2d: x[n,h,w,c], filter[r,s], y[n,p,q,c].
typedef struct sr_upfirdn_params {
    int64_t n, h, w, c, p, q, r, s;
    int32_t up_h, up_w;        // distance of the pixels of x, with zeros between them
    int32_t down_h, down_w;    // every down-th filtered pixel becomes a pixel of y
    int32_t pad_top, pad_left; // zeros before the picture; negative: pixels cut off
    int32_t flip, reserved;    // 1: the filter is reversed
} sr_upfirdn_params;

// move_pixels: x[n,h,w,3], moves[count,8], y[count,p,q,3].
typedef struct sr_move_params {
    int64_t n, h, w, count, p, q;
} sr_move_params;

// nms: boxes[samples,boxes,4].
typedef struct sr_nms_params {
    int64_t samples, boxes, capacity;
    double overlap;               // a box whose IoU with a better one is larger is dropped
    double above;                 // with only_above, boxes with lower or equal scores are dropped
    int32_t only_above, reserved; // 0 or 1
} sr_nms_params;

// roi_align: x[n,h,w,c], boxes[rois,4], y[rois,p,q,c] (kernels/roi.h).
typedef struct sr_roi_params {
    int64_t n, h, w, c, rois, p, q;
    double scale;    // pixels of x for one unit of the boxes
    int32_t samples; // along each side of a bin; 0: one for each pixel, rounded up
    int32_t aligned; // 1: boxes are shifted by half a pixel, and may be smaller than a pixel
} sr_roi_params;

// Softmax cross-entropy and top-k hits: logits[n,k].
typedef struct sr_xent_params {
    int64_t n, k;
    double smoothing; // loss = (1 - s) * -log p[label] + s * mean over classes of -log p
} sr_xent_params;

// Multi-head attention: q and y are [batches,queries,heads,depth], k and v
// [batches,keys,heads,depth], bias is [biases,heads,queries,keys]. Batch b has bias b % biases.
typedef struct sr_attention_params {
    int64_t batches, queries, keys, heads, depth;
    int64_t biases; // 0: none
    double scale;   // factor of the products of q and k
} sr_attention_params;

#define SR_FOLD_LEVELS 9 // of the tree
#define SR_FOLD_PARTS 15 // of one fold_lanes
// A part of fold_lanes: 'count' elements of each lane, 'stride' elements apart, whose sums become
// y[place, place + count).
typedef struct sr_fold_part {
    uint32_t count, stride, place;
} sr_fold_part;
// fold_lanes: x0 has the values of part 0, and so on; parts do not overlap in y. What is unused is
// zero.
typedef struct sr_fold_params {
    int32_t parts, lanes; // 1 <= lanes < 2^SR_FOLD_LEVELS
    int32_t adds;         // 1: the sums are added to y
    sr_fold_part part[SR_FOLD_PARTS];
} sr_fold_params;
#define SR_FOLD_OUTPUT 1 // argument y of fold_lanes
// The argument that has the values of a part.
static inline int sr_fold_input(int part) {
    return part == 0 ? 0 : part + 1;
}
// Elements of the values of a part.
static inline int64_t sr_fold_input_elements(const sr_fold_params *p, int part) {
    return part < p->parts ? (int64_t)(p->lanes - 1) * p->part[part].stride + p->part[part].count
                           : 0;
}
// The same of its result.
static inline int64_t sr_fold_output_elements(const sr_fold_params *p) {
    int64_t end = 0;
    for (int i = 0; i < p->parts; i++)
        if ((int64_t)p->part[i].place + p->part[i].count > end)
            end = (int64_t)p->part[i].place + p->part[i].count;
    return end;
}

#ifdef __cplusplus
}
#endif
#endif
