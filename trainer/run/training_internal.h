// SPDX-License-Identifier: Apache-2.0
// The state of one training run on one rank, which train*.c share.
#ifndef SR_TRAINER_TRAINING_INTERNAL_H
#define SR_TRAINER_TRAINING_INTERNAL_H

#include <limits.h>

#include "kernels/base/trace.h"
#include "trainer/draw/drawing.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/feed.h"
#include "trainer/engine/placement.h"
#include "trainer/engine/state.h"
#include "trainer/exchange/exchange.h"
#include "trainer/report/csv_file.h"
#include "trainer/report/progress.h"
#include "trainer/run/inputs.h"
#include "trainer/run/rank_board.h"
#include "trainer/run/run_columns.h"
#include "trainer/run/run_events.h"
#include "trainer/run/run_folder.h"
#include "trainer/run/train.h"
#include "trainer/schedules/schedule.h"

// The run folder and checkpoint that rank 0 chose, sent to the other ranks.
typedef struct sr_run_location {
    char folder[PATH_MAX];
    int64_t generation; // checkpoint to resume from, later the last written; 0: none
} sr_run_location;

// Sums since the last row of metrics.csv.
typedef struct sr_window {
    double losses[SR_MAX_PHASES];
    int64_t samples[SR_MAX_PHASES]; // of each phase
    double scalars[SR_MAX_SCALARS]; // first elements of columns.scalars
    int64_t start_position;         // since this process began, as the times
    int64_t start_ns;               // excluding 'aside_ns'
    int64_t data_wait_ns, exposed_ns;
} sr_window;

// Damaged samples that all ranks know of.
typedef struct sr_damage {
    void *samples; // int64_t
    size_t count, capacity;
    size_t shared; // number of those that this rank's pipeline found
} sr_damage;

typedef struct sr_training {
    const sr_train_request *request;
    sr_recipe *recipe;
    const char *recipe_name; // that the run was started with
    const sr_task_desc *task;
    sr_comm *comm;
    int rank, ranks;
    sr_placement cores;
    sr_device_properties device; // that this rank computes on
    sr_engine *engine;
    sr_engine_info info; // of it
    int logged;          // the first phase that runs in every step
    sr_schedule schedules[SR_MAX_SETS];
    sr_arena arena;

    sr_inputs inputs;
    char identity[65];        // of the run: recipe, data, weights, plug-ins
    sr_pipeline_options data; // of the feed
    sr_feed *feed;

    sr_board_entry *entry; // of this rank on the rank board
    sr_run_folder *run;    // rank 0
    sr_drawing *drawing;   // rank 0
    sr_run_location location;
    sr_csv *metrics, *digests; // rank 0
    sr_event_file *events;     // rank 0; NULL if it cannot be written

    int64_t step, position, total_steps, total_samples;
    int64_t session_start_ns;
    int64_t aside_ns; // spent on evaluations and checkpoints since session_start_ns
    int64_t session_start_position;
    double previous_seconds;
    int64_t last_checkpoint_ns;
    sr_window window;
    sr_damage damage;
    sr_rate rate;
    sr_run_columns columns;
    double val[SR_TASK_COLUMNS]; // of the latest evaluation; NaN before the first
    int64_t val_position;        // samples before it
    double best_main;            // best value of the task's own column so far; NaN: none
    double best_saved;           // best of the column that chooses best/, columns.chosen.best
    int64_t best_step;           // of that checkpoint
    double stop_best;            // best of the column of stop.metric; NaN: none
    int64_t stop_waited;         // evaluations since then
    double last_losses[SR_MAX_PHASES], last_scalars[SR_MAX_SCALARS];
    char digest[SR_SHA256_HEX];
    bool evaluated_here;     // the values above belong to 'position'
    int64_t evaluation_due;  // 1: the evaluation at 'position' is still due
    int64_t saved_position;  // of the checkpoint 'location.generation'; 0 for none
    int64_t digest_position; // of the last row of digests.csv
    sr_trace *trace;         // while steps are traced
} sr_training;

// train_setup.c
SR_NODISCARD sr_status sr_training_begin(sr_training *t);
void sr_training_release(sr_training *t);
// train_save.c
// All ranks: saves a checkpoint of this position; if it is already saved, adds the results of its
// evaluation to the manifest.
SR_NODISCARD sr_status sr_training_save(sr_training *t);
// All ranks: whether this position was evaluated, with a better result than all before. It is then
// saved whatever checkpoint.every says, so that 'best' is the state of the best evaluation.
bool sr_training_is_best(const sr_training *t);
SR_NODISCARD sr_status sr_training_load(sr_training *t);
// Writes "the checkpoint of step 12 is complete" into out and returns it: what a failed run can
// resume from.
const char *sr_training_describe_last(const sr_training *t, char out[96]);
// Rank 0: adds the row of digests.csv for the state that was last saved or loaded.
SR_NODISCARD sr_status sr_training_add_digest(sr_training *t);
// train_damage.c: at the end of an epoch, on all ranks. SR_E_DATA above the limit of
// data.on_corrupt.
SR_NODISCARD sr_status sr_training_share_damage(sr_training *t);
void sr_training_release_damage(sr_training *t);
// train_trace.c: before and after a step, on all ranks; 'last': this process takes no further step.
SR_NODISCARD sr_status sr_training_trace_begin(sr_training *t);
SR_NODISCARD sr_status sr_training_trace_end(sr_training *t, bool last);
// first_batch.c: on all ranks.
SR_NODISCARD sr_status sr_training_draw_first_batch(sr_training *t);
// train_pictures.c
// Rank 0: what the run's last evaluation writes and draws (sr_evaluation.finish; 'training' is an
// sr_training).
void sr_training_finish_metric(void *training, const sr_metric_desc *metric, const void *state);
void sr_training_draw_examples(sr_training *t, const sr_examples *examples);
// All ranks, after an epoch: pictures that the task generates, if it does.
SR_NODISCARD sr_status sr_training_draw_generated(sr_training *t);
// Adds a picture that was drawn to the event file (sr_drawing_notify; 'training' is an
// sr_training).
void sr_training_add_picture(void *training, const char *folder, const char *name, int64_t step);
// train_loop.c: all steps; SR_E_INTERRUPTED after a stop request with its checkpoint.
SR_NODISCARD sr_status sr_training_run(sr_training *t);

// Evaluation shared with `val`: a split through the engine's inference as its recipe says, on all
// ranks of comm. SR_E_NON_FINITE, on all of them, where a sample's result is not finite.
typedef struct sr_evaluation {
    const char *dataset;
    const char *identity; // that its split had when it was opened before
    int classes;
    const char *const *class_names;
    int64_t samples; // of the split
    sr_eval_extent extent;
    bool average;
    sr_examples *examples; // or NULL; of all ranks' samples on return
    // Gets each metric with the results of all ranks; NULL: nobody needs more than its columns.
    void (*finish)(void *user, const sr_metric_desc *metric, const void *state);
    void *user;
} sr_evaluation;
// The shared memory of its data pipeline on this rank; the errors that opening it would have.
SR_NODISCARD sr_status sr_evaluation_measure(const sr_engine *engine, const char *dataset,
                                             const sr_eval_extent *extent, uint64_t *bytes);

SR_NODISCARD sr_status sr_evaluate_split(sr_engine *engine, sr_comm *comm,
                                         const sr_evaluation *evaluation, sr_measures *out);

#endif
