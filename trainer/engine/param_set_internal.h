// SPDX-License-Identifier: Apache-2.0
// The set's struct, shared by the files that implement it.
//
// Flat space, in elements: [parameters and buffers in order of declaration][loss and scalars of the
// task][stop]. Parameters that train, buffers and scalars are segments of the exchange. The update
// of a segment is: the optimiser's kernel (parameters), (1 - m) old + m * mean over lanes
// (buffers), the sum itself (scalars).
//
// If gradients are clipped by their norm, the loss is scaled, or an optimiser needs norms of
// tensors, the ranks first agree on sums of squares through the exchange. If the loss is scaled, a
// step whose gradients are not finite updates no segment except the scalars.
#ifndef SR_TRAINER_PARAM_SET_INTERNAL_H
#define SR_TRAINER_PARAM_SET_INTERNAL_H

#include "kernels/kernel_params.h"
#include "trainer/engine/loss_scale.h"
#include "trainer/engine/param_set.h"
#include "trainer/exchange/exchange.h"
#include "trainer/tasks/task.h"

// The content of a segment of the exchange, which decides how it is updated.
typedef enum sr_segment_kind {
    SR_SEGMENT_PARAM = 0,
    SR_SEGMENT_BUFFER,
    SR_SEGMENT_SCALAR,
} sr_segment_kind;

// A segment of the exchange.
typedef struct sr_segment_use {
    sr_segment_kind kind;
    int param;             // index in the model, or of the scalar
    int group;             // of hyper-parameters
    bool silent;           // a buffer whose statistics this step does not compute: it stays
    int64_t rows, columns; // of a matrix that is updated as a whole, else 0
} sr_segment_use;

// Settings of a group of parameters in this step.
typedef struct sr_group_settings {
    double lr_scale, decay_scale;
    bool frozen;
    sr_length until;      // updated until then; 0: to the end
    double until_samples; // the same in samples, set by sr_param_set_set_lengths
    bool rests;           // in this step
} sr_group_settings;

// The settings of a step's updates; the same on every rank.
typedef struct sr_step_settings {
    int64_t updates;  // of the set before this one, skipped ones included
    double lr;        // of the schedule
    double loss_seed; // factor of each sample's loss; 0: none
    double sum_scale; // factor that turns the sums over lanes into gradients
} sr_step_settings;

// Norms of a tensor in this step.
typedef struct sr_tensor_norms {
    double sum; // of the sum of gradients, or of the direction that the optimiser computed from it
    double values; // of the parameters
} sr_tensor_norms;

typedef struct sr_prepared_cache sr_prepared_cache; // kernels/prepared_cache.h

struct sr_param_set {
    const char *name; // "" or "G"
    sr_device *device;
    sr_model *model;
    const sr_optimizer_desc *optimizer;
    const void *optimizer_options;
    double weight_decay, clip_norm, clip_value;
    sr_group_settings *groups;
    int group_count;

    int64_t elements;     // of the whole flat space
    int64_t scalar_begin; // first element after the model
    // On the device, f32 and 'elements' long: V, which the exchange fills, the optimiser's states,
    // and the average, if there is one.
    sr_address values, states[SR_OPTIMIZER_MAX_STATES], ema;
    int first_state; // index of the first state that exists

    sr_segment *segments;
    sr_segment_use *uses;
    int segment_count;
    int loss_segment, stop_segment; // the scalars are between them

    int lanes;
    sr_step_settings now;
    sr_ema_settings ema_now;
    bool ema_buffers; // running statistics are averaged, too
    // Loss scaling: 'every' as in the recipe; scale 0: none. The other fields describe the last
    // step: whether it was skipped, and the norm of its gradients (NaN: not measured).
    sr_loss_scale loss_scale;
    int64_t loss_scale_every;
    bool skipped;
    double gradient_norm, clip_factor; // gradients are multiplied by the factor
    sr_tensor_norms *norms;            // of each segment; NULL: the optimiser needs none
    // Updates: the kernels, and the table that they read on the device ('hyper', see
    // sr_update_params), whose pieces are pieces[]. What is before them is uploaded from settings[]
    // in every step.
    sr_update_piece *pieces; // of all segments, in order
    int64_t piece_count;
    sr_prepared_cache *kernels;
    sr_address hyper, workspace;
    sr_address matrices;    // scratch for orthogonalisation; none if no tensor is a matrix
    int64_t matrix_scratch; // its elements
    size_t workspace_bytes;
    float *settings;
    sr_exchange *exchange;
};

// What a set is created from; borrowed, except for the model.
typedef struct sr_param_set_options {
    const char *name;
    sr_device *device;
    sr_context *context;
    sr_comm *comm;
    sr_model *model;               // owned by the set from here on, also after a failure
    const sr_task_scalar *scalars; // that are logged besides the loss
    int scalar_count;
    const sr_optimizer_desc *optimizer;
    const void *optimizer_options;
    const sr_recipe_optimizer *settings;
    bool has_ema, ema_buffers;
    double loss_scale; // 0: none
    int64_t loss_scale_every;
    int lanes;
    int64_t bucket_bytes;
    double report_seconds, act_seconds;
    uint64_t seed;
    bool plans_only; // parameters are not initialised
} sr_param_set_options;

// Collective: lays out the flat space, draws the initial values and creates the exchange. Errors of
// sr_exchange_create; SR_E_MEMORY.
SR_NODISCARD sr_status sr_param_set_create(const sr_param_set_options *options, sr_param_set **out);
// Frees the set with its model; NULL is legal.
void sr_param_set_free(sr_param_set *set);
// An element of a flat array of floats.
static inline sr_address sr_param_set_element(sr_address base, int64_t index) {
    return sr_address_add(base, (size_t)index * sizeof(float));
}

// param_set_matrix.c: rows and columns of a parameter that is updated as a matrix; 0 for others.
int64_t sr_param_set_matrix(const sr_param_set *set, const sr_param *param, int64_t *columns);
// Number of elements of set->matrices that sr_param_set_orthogonalise needs.
int64_t sr_param_set_matrix_scratch(int64_t rows, int64_t columns);
// Computes the numbers 4 to 15 of a matrix's row of settings from the norm of its direction.
void sr_param_set_fill_matrix(double norm, float *row);
// Enqueues the kernels that orthogonalise the direction u [rows,columns] in place.
SR_NODISCARD sr_status sr_param_set_orthogonalise(sr_param_set *set, int64_t rows, int64_t columns,
                                                  sr_address u, sr_address row, sr_stream *stream);

// param_set_launch.c: enqueues a kernel of the kernel list with all its arguments present.
SR_NODISCARD sr_status sr_param_set_launch_request(sr_param_set *set,
                                                   const sr_kernel_request *request,
                                                   const sr_address *p, const char *what,
                                                   sr_stream *stream);
SR_NODISCARD sr_status sr_param_set_launch(sr_param_set *set, sr_kernel_id kernel,
                                           const void *params, size_t bytes, const sr_address *p,
                                           const char *what, sr_stream *stream);

// param_set_update.c: the exchange's calls (exchange.h).
SR_NODISCARD sr_status sr_param_set_update(void *user, int64_t step, int64_t begin, int64_t end,
                                           sr_address sum, sr_address values, sr_stream *stream);
SR_NODISCARD sr_status sr_param_set_measure(void *user, int64_t step, int round, int64_t begin,
                                            int64_t end, sr_address sum, sr_address out,
                                            sr_stream *stream);
SR_NODISCARD sr_status sr_param_set_agree(void *user, int64_t step, int round,
                                          const sr_exchange_piece *pieces, const double *measures,
                                          int64_t count);
// Whether the ranks must agree on norms before the update; otherwise each bucket is updated as soon
// as it is folded.
bool sr_param_set_is_agreed(const sr_param_set *set);
// Allocates the memory of the settings, after the layout is known; computes those of a step, except
// the values that the ranks agree on.
SR_NODISCARD sr_status sr_param_set_make_settings(sr_param_set *set);
void sr_param_set_fill_settings(sr_param_set *set);

// Computes the lengths of groups in samples, once those of the run are known.
void sr_param_set_set_lengths(sr_param_set *set, const sr_schedule_lengths *lengths);
// A step of the set, before it begins.
typedef struct sr_set_step {
    int64_t updates;  // of the set before it
    int64_t position; // samples before it
    double lr, gradient_scale;
    sr_ema_settings ema;
} sr_set_step;
// Computes the settings of all groups for a step.
void sr_param_set_use(sr_param_set *set, const sr_set_step *step);
// The factor of each sample's loss before it is differentiated; 0: not scaled.
double sr_param_set_loss_seed(const sr_param_set *set);
// Uploads the settings of the step, before its first lane.
SR_NODISCARD sr_status sr_param_set_begin_step(sr_param_set *set);
// Downloads the scalars of the step, after its exchange: sr_param_set_scalars of them, which are V
// from scalar_begin on.
SR_NODISCARD sr_status sr_param_set_end_step(const sr_param_set *set, float *out);
int64_t sr_param_set_scalars(const sr_param_set *set);
// Collective: gathers the other owners' parts of the average. Frozen parameters take no part in the
// exchange; the average has their value.
SR_NODISCARD sr_status sr_param_set_gather_average(sr_param_set *set);
// Whether a state of the optimiser exists with its present options.
static inline bool sr_param_set_has_state(const sr_param_set *set, int state) {
    return !sr_address_is_none(set->states[state]);
}

#endif
