// SPDX-License-Identifier: Apache-2.0
// The lanes of a step: replaying a phase's plan for each lane of this rank, one on each executor at
// a time, or several side by side, and handing what it delivers to the exchange.
//
// Lanes that share statistics (sync_bn) run breadth-first. Each has an executor of its own and runs
// up to a stop of the plan. There the values of all lanes of its group, including those on other
// ranks, are joined, and each lane continues with the result. A rank computes its groups in order,
// and a group that it shares with other ranks by itself, so ranks never wait for each other in a
// circle.
#include <string.h>

#include "kernels/base/watch.h"
#include "trainer/engine/engine_internal.h"
#include "trainer/engine/stop.h"

// What the lanes of a step have in common.
typedef struct lane_step {
    sr_engine *engine;
    const sr_param_set *set;
    int64_t step;
    sr_plan *plan;
    int target_count;
    const sr_lane_source *source;
} lane_step;

static sr_status put_values(void *user, sr_stream *stream) {
    sr_lane_run *run = user;
    const int count = run->value_count;
    run->value_count = 0;
    return sr_exchange_put_lanes(run->set->exchange, run->lane, run->engine->at_once, run->values,
                                 count, stream);
}

static sr_status add_value(sr_lane_run *run, const sr_exchange_value *value, sr_stream *stream) {
    if (run->value_count == SR_EXCHANGE_VALUES)
        SR_TRY(put_values(run, stream));
    run->values[run->value_count++] = *value;
    return SR_OK;
}

// What the program does not compute gets zeros, which complete its buckets.
static sr_status add_unreported(sr_lane_run *run, sr_stream *stream) {
    const sr_param_set *set = run->set;
    for (int i = 0, t = 0; i < set->segment_count; i++) {
        const sr_exchange_value zeros = {.segment = i};
        if (t < run->target_count && run->engine->target_segment[t] == i)
            t++;
        else
            SR_TRY(add_value(run, &zeros, stream));
    }
    return SR_OK;
}

static sr_status sink(void *user, int index, sr_address data, size_t bytes, sr_stream *stream) {
    sr_lane_run *run = user;
    const sr_param_set *set = run->set;
    const int segment = run->engine->target_segment[index];
    const int64_t count = (int64_t)(bytes / sizeof(float));
    if (segment == set->stop_segment)
        SR_TRY(add_unreported(run, stream));
    if (set->uses[segment].kind == SR_SEGMENT_SCALAR && count > SR_FLAT_ALIGN)
        return SR_FAIL(SR_E_SHAPE,
                       "scalar '%s' of task %s has %zu bytes; at most %zu are exchanged",
                       set->segments[segment].name, run->engine->task->name, bytes,
                       SR_FLAT_ALIGN * sizeof(float));
    const int64_t stride = (int64_t)(sr_plan_target_stride(run->plan, index) / sizeof(float));
    const sr_exchange_value value = {
        .segment = segment, .data = data, .stride = stride, .count = count};
    return add_value(run, &value, stream);
}

// A value that is not finite (debug.nan) is detected when a lane is enqueued, or when it is
// awaited.
static sr_status with_lane(sr_status status, int lane) {
    if (status == SR_E_NON_FINITE)
        sr_error_prefix("lane %d", lane);
    return status;
}

// Waits for the executor's lane, or for its next stop.
static sr_status wait_for(sr_engine *e, int i) {
    const int lane = e->runs[i].lane;
    sr_watch watch;
    sr_watch_begin_work(&watch, "lane %d to be computed", lane);
    const sr_status status = with_lane(sr_executor_wait(e->executors[i]), lane);
    sr_watch_end(&watch);
    return status;
}

static sr_status finish(sr_engine *e, int i, const sr_lane_source *source) {
    sr_lane_run *run = &e->runs[i];
    if (!run->busy)
        return SR_OK;
    run->busy = false;
    const sr_status status = wait_for(e, i);
    if (run->holds_inputs)
        source->done(source->user, run->lane);
    return status;
}

void sr_engine_set_key(const sr_engine *e, uint32_t third, uint32_t fourth, int32_t *key) {
    const uint32_t words[4] = {(uint32_t)e->seed, (uint32_t)(e->seed >> 32), third, fourth};
    memcpy(key, words, sizeof words);
}

static bool has_same_arrays(const sr_slot *a, const sr_slot *b) {
    bool same = a->arrays == b->arrays;
    for (int i = 0; i < a->arrays && same; i++)
        same = a->array[i].data == b->array[i].data && a->array[i].maker == b->array[i].maker;
    return same;
}

// Fills lane 'at' of the next set of an executor. Returns when the inputs have arrived.
static sr_status fill_inputs(const lane_step *s, sr_lane_run *run, int lane, int at,
                             const sr_slot *slot) {
    sr_engine *e = s->engine;
    sr_lane_settings *settings = &run->settings[run->next * e->most_at_once + at];
    sr_slot *ahead = &run->ahead[at];
    const bool copied =
        ahead->arrays > 0 && run->ahead_source == s->source->number && has_same_arrays(ahead, slot);
    ahead->arrays = 0;
    settings->trains = true;
    sr_engine_set_key(e, (uint32_t)s->step, (uint32_t)lane, settings->key);
    settings->stop[0] = sr_stop_requested() ? 1.0f : 0.0f;
    settings->loss_seed[0] = (float)sr_param_set_loss_seed(s->set);
    const sr_status status =
        sr_input_feed_fill(&e->feed, slot, settings, copied, &run->inputs[run->next], at);
    if (status != SR_OK)
        sr_error_prefix("step %lld, lane %d", (long long)s->step, lane);
    return status;
}

// Loads the lanes that begin with this one. If inputs are copied, they are copied while the
// executor still computes its previous lanes. If
// they are read in place, this waits for the executor first, so that the source never has more
// lanes in use than there are executors.
static sr_status load_lanes(const lane_step *s, int i, int lane) {
    const sr_lane_source *source = s->source;
    sr_lane_run *run = &s->engine->runs[i];
    sr_slot slot = {0};
    const bool in_place = sr_input_set_in_place(&run->inputs[0]);
    if (in_place)
        SR_TRY(finish(s->engine, i, source));
    for (int at = 0; at < s->engine->at_once; at++) {
        SR_TRY(source->get(source->user, lane + at, &slot));
        const sr_status status = fill_inputs(s, run, lane + at, at, &slot);
        if (status != SR_OK || !in_place)
            source->done(source->user, lane + at);
        SR_TRY(status);
    }
    SR_TRY(finish(s->engine, i, source));
    run->holds_inputs = in_place;
    return SR_OK;
}

static int executor_of(const sr_engine *e, int lane) {
    return (lane - e->lane_begin) / e->at_once % e->executor_count;
}

static sr_status start_lanes(const lane_step *s, int lane) {
    const int i = executor_of(s->engine, lane);
    sr_lane_run *run = &s->engine->runs[i];
    SR_TRY(load_lanes(s, i, lane));
    run->set = s->set;
    run->plan = s->plan;
    run->lane = lane;
    run->target_count = s->target_count;
    run->value_count = 0;
    run->busy = true;
    const sr_run replay = {.inputs = run->inputs[run->next].slots,
                           .sink = sink,
                           .sink_end = put_values,
                           .user = run,
                           .stops = sr_plan_stop_count(s->plan) > 0};
    run->next = !run->next;
    return with_lane(sr_executor_begin(s->engine->executors[i], s->plan, &replay), lane);
}

// If inputs are copied, starts to copy those of each executor's next lanes while it computes its
// last ones of this phase. An error of such a copy is reported later, when the lane is requested.
static void copy_ahead(sr_engine *e, const sr_lane_source *source) {
    if (!source->ahead || sr_input_set_in_place(&e->runs[0].inputs[0]))
        return;
    for (int n = 0; n < e->executor_count * e->at_once; n++) {
        const int at = n % e->at_once;
        sr_lane_run *run = &e->runs[n / e->at_once];
        sr_slot *slot = &run->ahead[at];
        if (!source->ahead(source->user, e->lane_begin + n, slot)) {
            slot->arrays = 0;
            return; // then those of later lanes are not ready either
        }
        run->ahead_source = source->number;
        if (sr_input_feed_copy(&e->feed, slot, &run->inputs[run->next], at) != SR_OK)
            slot->arrays = 0;
    }
}

static sr_status run_apart(const lane_step *s) {
    sr_engine *e = s->engine;
    for (int lane = e->lane_begin; lane < e->lane_end; lane += e->at_once)
        SR_TRY(start_lanes(s, lane));
    copy_ahead(e, s->source);
    return SR_OK;
}

// ---- Groups ----

// Local lanes that run side by side: part of a group, or one or more whole groups.
typedef struct lane_wave {
    int begin, end;
} lane_wave;

static int min_int(int a, int b) {
    return a < b ? a : b;
}

// The end of a lane's group on this rank.
static int group_end(const sr_engine *e, int lane) {
    return min_int(lane / e->norm_lanes * e->norm_lanes + e->norm_lanes, e->lane_end);
}

static lane_wave wave_from(const sr_engine *e, int lane) {
    const int size = e->norm_lanes, end = group_end(e, lane);
    if (end - lane < size)
        return (lane_wave){lane, end};
    const int groups = min_int(e->executor_count, e->lane_end - lane) / size;
    return (lane_wave){lane, lane + groups * size};
}

int sr_engine_lanes_at_once(const sr_engine *e, int usual) {
    int most = min_int(usual, e->lane_end - e->lane_begin);
    for (int lane = e->lane_begin, end; lane < e->lane_end; lane = end) {
        end = group_end(e, lane);
        most = end - lane > most ? end - lane : most;
    }
    return most;
}

// Copies the values of a stop between a lane's executor and its row.
static sr_status copy_row(sr_engine *e, int lane, float *row, bool back) {
    sr_stop_value values[SR_STOP_VALUES];
    const int count = sr_executor_stop(e->executors[executor_of(e, lane)], values);
    for (int i = 0; i < count; i++) {
        const size_t bytes = (size_t)values[i].count * sizeof(float);
        for (int k = 0; k < (values[i].moments ? 2 : 1); k++, row += values[i].count)
            SR_TRY(back ? sr_device_upload(e->device, values[i].data[k], row, bytes)
                        : sr_device_download(e->device, row, values[i].data[k], bytes));
    }
    return SR_OK;
}

// Joins local lanes [begin, end) of a group with its other lanes.
static sr_status join_group(const lane_step *s, int begin, int end) {
    sr_engine *e = s->engine;
    const int first = begin / e->norm_lanes * e->norm_lanes;
    sr_stop_value values[SR_STOP_VALUES];
    sr_exchange_part parts[SR_STOP_VALUES];
    float *rows = NULL;
    int64_t elements = 0;
    const int count = sr_executor_stop(e->executors[executor_of(e, begin)], values);
    for (int i = 0; i < count; i++) {
        if (values[i].lanes != e->norm_lanes)
            return SR_FAIL(SR_E_UNSUPPORTED,
                           "the program joins %lld lanes, but with sync_bn a group has %d",
                           (long long)values[i].lanes, e->norm_lanes);
        parts[i] = (sr_exchange_part){.count = values[i].count, .moments = values[i].moments};
        elements += sr_exchange_part_elements(&parts[i]);
    }
    SR_TRY(sr_exchange_join_begin(s->set->exchange, first, e->norm_lanes, parts, count, &rows));
    for (int lane = begin; lane < end; lane++)
        SR_TRY(copy_row(e, lane, rows + (lane - first) * elements, false));
    SR_TRY(sr_exchange_join(s->set->exchange));
    for (int lane = begin; lane < end; lane++)
        SR_TRY(copy_row(e, lane, rows, true));
    return SR_OK;
}

// Called before a lane runs: no more than 'running_lanes' compute at a time.
static sr_status wait_for_turn(const lane_step *s, lane_wave wave, int lane) {
    const int before = lane - s->engine->running_lanes;
    return before < wave.begin ? SR_OK : wait_for(s->engine, executor_of(s->engine, before));
}

static sr_status pass_stop(const lane_step *s, lane_wave wave) {
    sr_engine *e = s->engine;
    for (int lane = wave.begin; lane < wave.end; lane++)
        SR_TRY(wait_for(e, executor_of(e, lane)));
    for (int begin = wave.begin, end; begin < wave.end; begin = end) {
        end = group_end(e, begin);
        SR_TRY(join_group(s, begin, end));
    }
    for (int lane = wave.begin; lane < wave.end; lane++) {
        SR_TRY(wait_for_turn(s, wave, lane));
        SR_TRY(with_lane(sr_executor_continue(e->executors[executor_of(e, lane)]), lane));
    }
    return SR_OK;
}

static sr_status run_wave(const lane_step *s, lane_wave wave) {
    for (int lane = wave.begin; lane < wave.end; lane++) {
        SR_TRY(wait_for_turn(s, wave, lane));
        SR_TRY(start_lanes(s, lane));
    }
    for (int stop = 0; stop < sr_plan_stop_count(s->plan); stop++)
        SR_TRY(pass_stop(s, wave));
    return SR_OK;
}

static sr_status run_groups(const lane_step *s) {
    sr_engine *e = s->engine;
    for (lane_wave wave = {.end = e->lane_begin}; wave.end < e->lane_end;) {
        wave = wave_from(e, wave.end);
        SR_TRY(run_wave(s, wave));
    }
    copy_ahead(e, s->source);
    return SR_OK;
}

sr_status sr_engine_run_lanes(sr_engine *e, const sr_param_set *set, int64_t step, sr_plan *plan,
                              int target_count, const sr_lane_source *source) {
    const lane_step s = {e, set, step, plan, target_count, source};
    const sr_status status = sr_plan_stop_count(plan) > 0 ? run_groups(&s) : run_apart(&s);
    // Waits for running lanes in any case, since they read inputs and write to the exchange. The
    // first failure is the one that is returned.
    sr_kept_error first = {.status = SR_OK};
    sr_error_keep(&first, status);
    for (int i = 0; i < e->executor_count; i++)
        sr_error_keep(&first, finish(e, i, source));
    if (!sr_input_set_in_place(&e->runs[0].inputs[0]))
        sr_error_keep(&first, sr_input_feed_wait(&e->feed)); // of what was copied ahead
    return sr_error_restore(&first);
}
