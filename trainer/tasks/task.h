// SPDX-License-Identifier: Apache-2.0
// Tasks: how the lane program of a phase is recorded. One file each (trainer/tasks/task_X.c).
#ifndef SR_TRAINER_TASK_H
#define SR_TRAINER_TASK_H

#include "trainer/losses/loss.h"
#include "trainer/models/built_model.h"
#include "trainer/recipe/recipe.h"
#include "trainer/tasks/eval_view.h"
#include "trainer/tasks/examples.h"
#include "trainer/tasks/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_TASK_ABI 7     // of sr_task_desc
#define SR_MAX_SETS 4     // of a task
#define SR_MAX_PHASES 8   // of a step
#define SR_MAX_SCALARS 32 // that a task logs besides the loss
#define SR_TASK_INPUTS 16 // that a task reads

// An array that a task reads of every lane.
typedef struct sr_task_input {
    const char *name; // as the task's transformer names it: "image", "label"
    bool target;      // what is to be learned: inference has none
    bool is_class;    // u8 or i32: classes below sr_lane_recording.classes; negative ones and
                      // 'ignored' are ignored
    int ignored;      // such as 255 in masks; 0: none
} sr_task_input;

// A parameter set of a task: a model with its optimiser.
typedef struct sr_task_set {
    const char *name; // that recipes give it; "" for the only set of a task
} sr_task_set;

// A phase of a step: what is recorded for it trains one set, and may read all others.
typedef struct sr_task_phase {
    const char *name; // that recipes give it; "" for the only phase of a task
    int set;          // that it trains
    int64_t every;    // unless the recipe says otherwise, it runs in every such step; 0: 1
    bool optional;    // recipes may leave it out
} sr_task_phase;

// One recording of a phase's lane program (or of inference).
typedef struct sr_lane_recording {
    sr_context *context;
    int phase;     // of the task; inference: -1
    int64_t every; // steps from one run of the phase to the next
    bool training;
    sr_dtype dtype;
    sr_model *const *models; // of all sets
    const double *mean, *std;
    const void *options;              // of the task; NULL: it has none
    const sr_loss_part *losses;       // of the recipe, which are added (sr_task_loss)
    int loss_count;                   // 0 if the task has its own loss
    sr_mix_opts mix;                  // of training samples; alphas of 0: none
    int64_t norm_lanes;               // lanes that share batch statistics; 1: each has its own
    bool flip;                        // inference averages over pictures and their mirror images
    int shift;                        // and over copies moved by so many pixels; 0: none
    sr_tensor inputs[SR_TASK_INPUTS]; // in the task's order; inference: SR_NONE for targets
    int64_t samples;                  // of the slot
    int64_t height, width; // of whole pictures as they are stored, or else those of the slot
    // i32[4]: seed low, seed high, step, lane; in inference seed low, seed high and the first
    // sample's position, low and high
    sr_tensor key;
    sr_statistics *statistics;
    sr_outputs outputs; // of the last sr_task_forward
    // To be filled by the task:
    int64_t classes; // that labels are below, in training; 0: there are none
    sr_tensor loss;  // f32 [N]: one number per sample; the step's loss is the mean
    sr_tensor scalars[SR_MAX_SCALARS];  // f32 sums over the lane, at most SR_FLAT_ALIGN each
    sr_tensor results[SR_TASK_OUTPUTS]; // of inference, in the task's order
    // Filled by sr_task_loss: what each part adds to the loss, f32 [N]
    sr_tensor part_losses[SR_LOSS_PARTS];
} sr_lane_recording;

// A sum over the samples of a step that a task logs: hits, or a part of its loss.
typedef struct sr_task_scalar {
    const char *name; // "hits"
    sr_column mean;   // its first element by the number of samples: a column "train/top1", or of a
                      // phase with a name "train/D.real"
    int phase;        // of the task, which computes it
} sr_task_scalar;

// What `predict` prints and writes for a picture, for tasks that do not classify it.
typedef struct sr_task_prediction {
    const char *columns; // of CSV, behind that of the file: "classes"
    // Adds cells of CSV, each after a comma, or members of a JSON object, each after ", ". top: how
    // many of several to list.
    sr_status (*describe)(const sr_metric_samples *picture, const sr_metric_setting *setting,
                          int top, bool json, sr_text *out);
    // Writes the result as a file; 'suffix' is that of its name: ".png".
    sr_status (*write)(const sr_metric_samples *picture, const sr_metric_setting *setting,
                       const char *path);
    const char *suffix;
} sr_task_prediction;

// A task's descriptor. Immutable.
typedef struct sr_task_desc {
    uint32_t struct_size, abi;
    const char *name, *help;
    const sr_option_table *options;       // NULL: none
    const char *transformer;              // of the data pipeline
    sr_task_input inputs[SR_TASK_INPUTS]; // arrays of its slots, with their types and
                                          // shapes; after the last, name is NULL
    // Sets in the order in which phases first name them, and phases in that of a step; after the
    // last, name is NULL. A phase that is optional follows another one of its set.
    sr_task_set sets[SR_MAX_SETS];
    sr_task_phase phases[SR_MAX_PHASES];
    int infers;     // the set that inference uses: it is evaluated, averaged by default, and saved
                    // first
    bool uses_loss; // the recipe's `loss`; else the task has its own
    bool maps;      // it needs the loss of each pixel (sr_loss_desc.record_map)
    int scalar_count;                             // logged sums besides the loss
    sr_task_scalar scalars[SR_MAX_SCALARS];       // in the order of sr_lane_recording
    void (*record)(sr_lane_recording *recording); // of training: fills loss and scalars
    // Records the samples as the network sees them, mixed by recording->mix;
    // NULL: the recipe must not have `mix`.
    sr_mixed (*mix)(sr_lane_recording *recording);
    // Records inference from the inputs that are no targets: fills recording->results, whose first
    // dimension is the sample. NULL: no inference.
    void (*infer)(sr_lane_recording *recording);
    const char *outputs[SR_TASK_OUTPUTS]; // their names, as "logits" f32 [N,classes]
    // What an evaluation measures, NULL at the end; NULL: there is none.
    const sr_metric_desc *const *metrics;
    const char *best;                // the column of its metrics that chooses the best checkpoint
    const char *fractions;           // what its columns of fractions are, as the title of a plot
    const sr_example_desc *examples; // of evaluations; NULL: none are shown
    const sr_task_prediction *prediction; // NULL: `predict` does not serve the task, unless its
                                          // "logits" are those of classes, f32 [N,classes]
    const char *generates; // the output of pictures, f32 [N,H,W,3] in 0..1, that are shown
                           // after each epoch; NULL: none
    // Inference takes each picture alone in its own size, resized at most, and its results are in
    // the size of the picture as it is stored; else all are cropped to one size.
    bool whole_pictures;
    // How pictures are prepared for inference.
    void (*view)(const sr_recipe *recipe, const void *options, sr_eval_view *out);
} sr_task_desc;

// All tasks: those of trainer/tasks/task_list.def, then those of plug-ins.
const sr_task_desc *const *sr_tasks(size_t *count);
// The task of a name, or NULL.
const sr_task_desc *sr_task_find(const char *name);
// Adds the tasks of a plug-in (trainer/engine/plugins.h). 'origin' must stay valid.
SR_NODISCARD sr_status sr_tasks_add(const sr_task_desc *const *list, const char *origin);

// The columns of all metrics of a task, in order; returns their number.
int sr_task_columns(const sr_task_desc *task, const sr_column *out[SR_TASK_COLUMNS]);
// The number of the task's column `best` among them.
int sr_task_best_column(const sr_task_desc *task);

// How many classes are assumed where neither data nor a loss say it: those of ImageNet or, for
// pixels, Pascal VOC.
int64_t sr_task_usual_classes(const sr_task_desc *task);
// Whether the task reads a class of each sample.
bool sr_task_has_classes(const sr_task_desc *task);
// Number of a task's sets.
int sr_task_sets(const sr_task_desc *task);
// Number of its phases.
int sr_task_phases(const sr_task_desc *task);

// The recipe's loss of logits [N,K] and labels [N] or, of pixels, of logits [N,H,W,K] and labels
// [N,H,W], times 'weight': the sum of its parts, f32 [N], each of which is logged by its name, over
// all calls of a recording. mixed: of samples that are mixed; NULL: they are not.
sr_tensor sr_task_loss(sr_lane_recording *recording, sr_tensor logits, sr_tensor labels,
                       const sr_mixed *mixed, double weight);
// After 'record': the sums of what the parts with a name added are scalars from 'first' on.
void sr_task_log_losses(sr_lane_recording *recording, int first);
// Adds a part of the task's own loss, f32 [N], to recording->loss with its weight, and logs it as
// the scalar of this number.
void sr_task_add_loss(sr_lane_recording *recording, sr_tensor part, double weight, int scalar);

// Records the forward pass of a set's model, and returns its output of this name.
sr_tensor sr_task_forward(sr_lane_recording *recording, int set, const sr_tensor *inputs,
                          const char *output, bool with_statistics);

#ifdef __cplusplus
}
#endif
#endif
