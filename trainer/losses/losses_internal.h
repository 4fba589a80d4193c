// SPDX-License-Identifier: Apache-2.0
// Shared by the functions of losses: the dtype that they compute in, labels as numbers.
#ifndef SR_TRAINER_LOSSES_INTERNAL_H
#define SR_TRAINER_LOSSES_INTERNAL_H

#ifndef SR_OPS_PLAIN
#define SR_OPS_PLAIN // these files define the functions, so the macros are off
#endif
#include "kernels/base/options.h"
#include "trainer/losses/loss_functions.h"

// What the sum of a lane's losses is divided by (options of rows).
typedef enum sr_loss_count {
    SR_COUNT_AUTO = 0, // as VALID for pixels, and where labels have weights or one is ignored
    SR_COUNT_VALID,    // the sum of the weights of its labels, without ignored ones
    SR_COUNT_ALL,      // their number, with ignored ones
} sr_loss_count;
extern const char *const sr_loss_count_names[];

#define SR_ROW_COUNT(options_type, class_)                                                         \
    {                                                                                              \
        .name = "count",                                                                           \
        .help = "what the sum of a lane's losses is divided by: valid: the labels that are not "   \
                "ignored, by their weights; all: all labels; auto: all of samples without "        \
                "weights, else valid",                                                             \
        .type = SR_OPT_ENUM, .offset = offsetof(options_type, count), .default_text = "auto",      \
        .choices = sr_loss_count_names, .option_class = (class_)                                   \
    }

// How much more pixels near boundaries count (options of rows).
typedef struct sr_loss_boundary {
    double weight;
    int64_t width;
} sr_loss_boundary;

#define SR_ROWS_BOUNDARY(options_type)                                                             \
    {.name = "boundary_weight",                                                                    \
     .help = "factor of pixels that have a pixel of another class within boundary_width; 1: all "  \
             "count alike",                                                                        \
     .type = SR_OPT_FLOAT,                                                                         \
     .offset = offsetof(options_type, boundary.weight),                                            \
     .default_text = "1",                                                                          \
     .min = 1e-3,                                                                                  \
     .max = 1e3,                                                                                   \
     .option_class = SR_OPTION_ADDED},                                                             \
    {                                                                                              \
        .name = "boundary_width",                                                                  \
        .help = "distance in pixels, of rows and columns, up to which boundary_weight applies",    \
        .type = SR_OPT_INT, .offset = offsetof(options_type, boundary.width), .default_text = "1", \
        .min = 1, .max = 127, .option_class = SR_OPTION_ADDED                                      \
    }

// Whether the options suit pixels ('maps') or samples, which have no boundary.
SR_NODISCARD sr_status sr_losses_check_boundary(const sr_loss_boundary *boundary, bool maps);
// The factor of each label [N,H,W], in its shape: the weight where the square of width pixels on
// each side holds another class that is not ignored, else 1. SR_NONE with a weight of 1.
sr_tensor sr_losses_boundary(const sr_loss_boundary *boundary, sr_tensor labels, sr_dtype dtype,
                             const sr_label_opts *opts);
// Whether there are as many weights as classes, or none. classes 0: not known yet.
SR_NODISCARD sr_status sr_losses_check_weights(const sr_float_list *weights, int64_t classes);
// Weights of the classes of these logits, as a constant of the step in the type that losses are
// computed in. 'loss' as in messages: "loss.bce".
sr_tensor sr_losses_class_weights(sr_context *context, const sr_float_list *weights,
                                  const sr_info *logits, const char *loss);
// In the dtype that losses are computed in: f64 stays, others become f32.
sr_tensor sr_losses_wide(sr_tensor x);
// [rows, last dimension] of a tensor, its rows; other dimensions are joined. SR_NONE fails.
sr_tensor sr_losses_rows(sr_tensor x);
// With these dimensions, those of 'like' without its last 'less' ones.
sr_tensor sr_losses_shaped(sr_tensor x, sr_tensor like, int less);
// 1 where a label counts, else 0, in its shape.
sr_tensor sr_losses_valid(sr_tensor labels, sr_dtype dtype, const sr_label_opts *opts);
// The values where a label is not negative, else 0, in the shape of the labels.
sr_tensor sr_losses_counted(sr_tensor values, sr_tensor labels);
// As many numbers as 'like' has, each of this value, and no gradient to it.
sr_tensor sr_losses_filled(sr_tensor like, double value);
// Sum along one dimension, which stays if 'keep'.
sr_tensor sr_losses_sum(sr_tensor x, int axis, bool keep);
// The values times their number / the sum of the weights: their mean is the weighted mean.
sr_tensor sr_losses_spread(sr_tensor values, sr_tensor weights);
// Losses of labels [N,...], where ignored ones are 0 -> [N], whose mean is their sum divided by
// 'count'. factors: of each loss and of its label's weight; SR_NONE: 1.
sr_tensor sr_losses_counted_by(sr_loss_count count, sr_tensor values, sr_tensor labels,
                               sr_label_opts opts, sr_tensor factors);
// The sums of values [N,...] over all dimensions but the first, times N / the sum of the weights:
// [N], whose mean is the sum of all values / the sum of the weights.
sr_tensor sr_losses_pictures(sr_tensor values, sr_tensor weights);
// Lovasz softmax of pictures [N,...,K] and their labels: [N], of each picture by itself. 'absent':
// classes that no label of the picture names are counted, too.
sr_tensor sr_losses_lovasz(sr_tensor probabilities, sr_tensor labels, bool absent);
// sr_loss_bce with a factor of the first of its terms for each class, [K]; SR_NONE: 1.
sr_tensor sr_losses_bce(sr_tensor logits, sr_tensor targets, sr_tensor positive);
// A scalar as [N], N the first dimension of 'like': its mean is the scalar.
sr_tensor sr_losses_repeated(sr_tensor scalar, sr_tensor like);

#endif
