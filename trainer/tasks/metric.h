// SPDX-License-Identifier: Apache-2.0
// Metrics: what an evaluation measures. A task names its metrics; their columns are those of
// metrics.csv, of exit.json and of `val`, and plots, checkpoints and TensorBoard read names and
// units from them alone.
//
// An evaluation is divided into blocks of samples (one lane of one step each). The rank that
// computes a block adds its samples, and the metric writes what it needs of them as bytes, a size
// of its own for each block. The bytes of all ranks are gathered, and the result is computed from
// them in block order: the same bits on any number of ranks. Counts that are exact in any order,
// such as a confusion matrix, are integers that are added over the ranks instead.
#ifndef SR_TRAINER_METRIC_H
#define SR_TRAINER_METRIC_H

#include "dataio/pipeline/pipeline.h"
#include "graph/tensor.h"
#include "kernels/base/text.h"
#include "trainer/draw/drawing.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_METRIC_ABI 1    // of sr_metric_desc
#define SR_TASK_OUTPUTS 8  // of inference
#define SR_TASK_METRICS 8  // of a task
#define SR_TASK_COLUMNS 32 // of them all

// What a number is. Accuracies and shares of time are fractions in 0..1 in every file; printed
// lines and plots show percent.
typedef enum sr_unit {
    SR_UNIT_NUMBER = 0,
    SR_UNIT_LOSS,
    SR_UNIT_FRACTION,
} sr_unit;

// Which of two values is better, for the best checkpoint.
typedef enum sr_better {
    SR_BETTER_NEITHER = 0,
    SR_BETTER_HIGHER,
    SR_BETTER_LOWER,
} sr_better;

// A measured number.
typedef struct sr_column {
    const char *name;  // "top1": "val/top1" in metrics.csv, "val_top1" in exit.json and of `val`
    const char *label; // for people: "top-1"
    sr_unit unit;
    sr_better better;
} sr_column;

#define SR_COLUMN_TEXT 32 // bytes of sr_column_text
// A value for people, with its unit: "31.20 %", "2.3145".
const char *sr_column_text(const sr_column *column, double value, char out[SR_COLUMN_TEXT]);
// Whether 'now' is better than 'before'; NaN is worse than every number, and no better than NaN.
bool sr_column_is_better(const sr_column *column, double now, double before);

// A result of inference.
typedef struct sr_task_output {
    const char *name; // "logits"
    sr_info info;     // its first dimension is the sample
    const void *data;
} sr_task_output;

// All results of inference on a slot.
typedef struct sr_task_outputs {
    int count;
    sr_task_output item[SR_TASK_OUTPUTS];
} sr_task_outputs;

// The output of a name. SR_E_ARGUMENT naming the outputs if there is none.
SR_NODISCARD sr_status sr_task_outputs_get(const sr_task_outputs *outputs, const char *name,
                                           const sr_task_output **out);

// The evaluation that is measured; borrowed until it ends.
typedef struct sr_metric_setting {
    const void *options; // of the task; NULL: it has none
    int classes;
    const char *const *class_names; // NULL: numbers
    int64_t samples;                // of the split
    bool last;                      // of the run: what is written once is collected
} sr_metric_setting;

// Samples of a block with their results: the first slot->valid of each array.
typedef struct sr_metric_samples {
    const sr_slot *slot;
    const sr_task_outputs *outputs;
} sr_metric_samples;

// The bytes of all blocks, in order.
typedef struct sr_metric_blocks {
    int64_t count;
    const void *const *data; // 8-byte aligned
    const size_t *bytes;
} sr_metric_blocks;

// What was measured. Zeroed before.
typedef struct sr_metric_result {
    double *values;           // of the metric's columns; NaN: not measured
    int64_t samples;          // that have a target
    int64_t not_finite;       // of them: those whose result is not finite
    int64_t first_not_finite; // the position in the split of the first of these
} sr_metric_result;

// What an evaluation measured: the columns of all metrics of the task.
typedef struct sr_measures {
    int64_t samples; // that have a target
    int count;
    const sr_column *columns[SR_TASK_COLUMNS];
    double values[SR_TASK_COLUMNS];
} sr_measures;

// A metric's descriptor. Immutable.
typedef struct sr_metric_desc {
    uint32_t struct_size, abi;
    const char *name;
    const sr_column *columns;
    int column_count;
    size_t state_size; // of an evaluation on a rank, zeroed before 'begin'
    // Each may be NULL but for 'add' and 'result'. 'release' follows 'begin' even after a failure.
    sr_status (*begin)(void *state, const sr_metric_setting *setting);
    void (*release)(void *state);
    // Adds samples of a block, and to 'bytes' what 'result' needs of them: all at once, or whole
    // pictures one by one.
    sr_status (*add)(void *state, const sr_metric_samples *samples, sr_text *bytes);
    // The counts of this rank, to which those of the others are added.
    int64_t *(*counts)(void *state, size_t *count);
    // From all blocks and the counts of all ranks; on every rank.
    sr_status (*result)(void *state, const sr_metric_blocks *blocks, sr_metric_result *out);
    // On rank 0, after the last evaluation of a run: files and pictures for its folder.
    sr_status (*write)(const void *state, const char *folder);
    void (*draw)(const void *state, sr_drawing *drawing, const char *folder);
} sr_metric_desc;

#ifdef __cplusplus
}
#endif
#endif
