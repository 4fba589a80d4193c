// SPDX-License-Identifier: Apache-2.0
// Losses as functions of tensors, for tasks and for model code. Those that a recipe names are rows
// of trainer/losses/loss_list.def, which call these.
//
// Inputs are f32, bf16 or f16, and are computed with in f32 (f64 in f64), which is the dtype of
// every result. A function gives one number for each sample, element or box; sr_loss_mean divides
// their sum by a count or by weights. Formulas are compositions of operators (graph/ops.h), so they
// run on every device and have gradients, and errors name the line of the call. Labels are i32;
// negative ones are ignored: their numbers are 0, and so are their gradients. Errors stick to the
// context.
#ifndef SR_TRAINER_LOSS_FUNCTIONS_H
#define SR_TRAINER_LOSS_FUNCTIONS_H

#include "graph/context.h"

#ifdef __cplusplus
extern "C" {
#endif

// Sum of values / sum of weights, a scalar; the sum of values where the weights are all 0. weights
// have the shape of values; SR_NONE: the mean. 'values' already are multiplied by their weights, as
// those of sr_loss_cross_entropy are: this is the mean of torch.nn.CrossEntropyLoss.
sr_tensor sr_loss_mean(sr_tensor values, sr_tensor weights);

// ---- Classes ----

// Which labels count, and how much. All zero: every label that is not negative, with 1.
typedef struct sr_label_opts {
    sr_tensor weight; // of each class, f32 [K] (f64 with f64); SR_NONE: 1
    bool has_ignored; // 'ignored' is left out like a negative label; it may be K or more
    int32_t ignored;
} sr_label_opts;
// The weight of each label, in its shape, in dtype f32 or f64: 0 where it is ignored.
sr_tensor sr_loss_label_weights(sr_tensor labels, sr_dtype dtype, sr_label_opts opts);
// For logits [...,K] and labels [...]: (1 - smoothing) w[label] (-log p[label]) + smoothing / K sum
// over k of w[k] (-log p[k]), p the softmax (torch.nn.CrossEntropyLoss without its mean).
// Differentiable once.
sr_tensor sr_loss_cross_entropy(sr_tensor logits, sr_tensor labels, double smoothing,
                                sr_label_opts opts);
// -sum over k of target[k] log p[k], for logits and targets [...,K]: distributions, such as those
// of mixed samples (timm's SoftTargetCrossEntropy).
sr_tensor sr_loss_soft_cross_entropy(sr_tensor logits, sr_tensor targets);
// Focal loss (Lin et al. 2017, eq. 4): the cross-entropy times (1 - p[label])^gamma.
sr_tensor sr_loss_focal(sr_tensor logits, sr_tensor labels, double gamma, sr_label_opts opts);
// Multi-class hinge loss (Crammer & Singer 2001; torch.nn.MultiMarginLoss): for logits x [...,K],
// the sum over the other classes of max(0, margin - x[label] + x[k])^power, divided by K; power 1
// or 2.
sr_tensor sr_loss_margin(sr_tensor logits, sr_tensor labels, double margin, int power);
// Distillation (Hinton et al. 2015): T^2 sum over k of t[k] (log t[k] - log s[k]), for logits
// [...,K], with t and s the softmax of teacher / T and student / T.
sr_tensor sr_loss_distillation(sr_tensor student, sr_tensor teacher, double temperature);

// ---- Independent classes: logits and targets in [0, 1] of one shape; elementwise ----

// (1 - t) softplus(x) + positive t softplus(-x) (torch.nn.BCEWithLogitsLoss; 'positive' is its
// pos_weight, 1 the plain one).
sr_tensor sr_loss_bce(sr_tensor logits, sr_tensor targets, double positive);
// The binary focal loss (Lin et al. 2017; torchvision.ops.sigmoid_focal_loss): bce (1 - q)^gamma
// with q the probability of the target, times alpha t + (1 - alpha) (1 - t), but for a negative
// alpha.
sr_tensor sr_loss_sigmoid_focal(sr_tensor logits, sr_tensor targets, double alpha, double gamma);

// ---- Regions ----

// How the overlap of regions is counted.
typedef struct sr_dice_opts {
    double smooth; // added to both sides of the fraction; 0: 1
    bool squared;  // squares of probabilities below the fraction (Milletari et al. 2016, eq. 3)
    bool batch;    // sums also go over the samples: the result is [K]
} sr_dice_opts;
// Dice loss: 1 - (2 sum of p t + smooth) / (sum of p + sum of t + smooth) over the pixels of
// probabilities and targets [N,...,K] -> [N,K].
sr_tensor sr_loss_dice(sr_tensor probabilities, sr_tensor targets, sr_dice_opts opts);
// Lovasz softmax (Berman et al. 2018, eq. 12) of probabilities [...,K] and labels [...]: a scalar,
// the mean of the losses of those classes that at least one label names, each over all pixels; 0 if
// no label counts. At most 2^24 pixels.
sr_tensor sr_loss_lovasz_softmax(sr_tensor probabilities, sr_tensor labels);
// Lovasz hinge (Berman et al. 2018, eq. 7): for logits [N,...] and labels 0 or 1 of that shape,
// [N]: one number for each picture.
sr_tensor sr_loss_lovasz_hinge(sr_tensor logits, sr_tensor labels);

// ---- Values: elementwise, both of one shape ----

sr_tensor sr_loss_l1(sr_tensor x, sr_tensor target); // |x - t|
// (x - t)^2 / (2 beta) where |x - t| < beta, else |x - t| - beta / 2 (Girshick 2015;
// torch.nn.SmoothL1Loss); beta 0: |x - t|.
sr_tensor sr_loss_smooth_l1(sr_tensor x, sr_tensor target, double beta);
// (x - t)^2 / 2 where |x - t| <= delta, else delta (|x - t| - delta / 2) (Huber 1964); delta > 0.
sr_tensor sr_loss_huber(sr_tensor x, sr_tensor target, double delta);

// What a score of sr_loss_gan_hinge is for: the discriminator's of real or of generated samples, or
// the generator's.
typedef enum sr_gan_side { SR_GAN_REAL, SR_GAN_FAKE, SR_GAN_GENERATOR } sr_gan_side;
// The hinge loss of adversarial training (Lim & Ye 2017): max(0, 1 - x) for real samples,
// max(0, 1 + x) for generated ones, -x for the generator; elementwise.
sr_tensor sr_loss_gan_hinge(sr_tensor scores, sr_gan_side side);

// ---- Boxes ----

// What is added to 1 - IoU: nothing; the share of the smallest enclosing box that neither
// box covers (Rezatofighi et al. 2019); the squared distance of the centres by the squared diagonal
// of that box; that distance, and alpha v with v = (4 / pi^2) (atan(w / h) - atan(w' / h'))^2 and
// alpha = v / (1 - IoU + v), which has no gradient (Zheng et al. 2020).
typedef enum sr_box_loss { SR_BOX_IOU, SR_BOX_GIOU, SR_BOX_DIOU, SR_BOX_CIOU } sr_box_loss;
// Losses of boxes [...,4] of x1, y1, x2, y2 with x1 <= x2, y1 <= y2 -> [...]: 1 - intersection over
// union and one of these (torchvision.ops, with its 1e-7 below each fraction).
sr_tensor sr_loss_boxes(sr_tensor boxes, sr_tensor targets, sr_box_loss kind);

#ifdef __cplusplus
}
#endif

// As in graph/ops.h: errors name the line of the call.
#ifndef SR_OPS_PLAIN
#define sr_loss_mean(...) (sr_at(__FILE__, __LINE__), sr_loss_mean(__VA_ARGS__))
#define sr_loss_label_weights(...) (sr_at(__FILE__, __LINE__), sr_loss_label_weights(__VA_ARGS__))
#define sr_loss_cross_entropy(...) (sr_at(__FILE__, __LINE__), sr_loss_cross_entropy(__VA_ARGS__))
#define sr_loss_soft_cross_entropy(...)                                                            \
    (sr_at(__FILE__, __LINE__), sr_loss_soft_cross_entropy(__VA_ARGS__))
#define sr_loss_focal(...) (sr_at(__FILE__, __LINE__), sr_loss_focal(__VA_ARGS__))
#define sr_loss_margin(...) (sr_at(__FILE__, __LINE__), sr_loss_margin(__VA_ARGS__))
#define sr_loss_distillation(...) (sr_at(__FILE__, __LINE__), sr_loss_distillation(__VA_ARGS__))
#define sr_loss_bce(...) (sr_at(__FILE__, __LINE__), sr_loss_bce(__VA_ARGS__))
#define sr_loss_sigmoid_focal(...) (sr_at(__FILE__, __LINE__), sr_loss_sigmoid_focal(__VA_ARGS__))
#define sr_loss_dice(...) (sr_at(__FILE__, __LINE__), sr_loss_dice(__VA_ARGS__))
#define sr_loss_lovasz_softmax(...) (sr_at(__FILE__, __LINE__), sr_loss_lovasz_softmax(__VA_ARGS__))
#define sr_loss_lovasz_hinge(...) (sr_at(__FILE__, __LINE__), sr_loss_lovasz_hinge(__VA_ARGS__))
#define sr_loss_l1(...) (sr_at(__FILE__, __LINE__), sr_loss_l1(__VA_ARGS__))
#define sr_loss_smooth_l1(...) (sr_at(__FILE__, __LINE__), sr_loss_smooth_l1(__VA_ARGS__))
#define sr_loss_huber(...) (sr_at(__FILE__, __LINE__), sr_loss_huber(__VA_ARGS__))
#define sr_loss_gan_hinge(...) (sr_at(__FILE__, __LINE__), sr_loss_gan_hinge(__VA_ARGS__))
#define sr_loss_boxes(...) (sr_at(__FILE__, __LINE__), sr_loss_boxes(__VA_ARGS__))
#endif
#endif
