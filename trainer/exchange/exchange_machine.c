// SPDX-License-Identifier: Apache-2.0
// The exchange of one step as a state machine: no thread, no sleep, no clock of its own.
//
// Buckets start in order as soon as the lanes of this rank have arrived, at most SR_EXCHANGE_WINDOW
// at a time. What a bucket sends and receives is a schedule (exchange_schedule.c), what its owner
// computes is work on a stream (exchange_reduce.c); one of two drivers moves the messages: the
// host, which posts and tests them (exchange_host.c), or the device's stream (exchange_stream.c).
// Here are the passes, the order of buckets and the deadlines, for both.
#include <stdio.h>

#include "kernels/base/clock.h"
#include "kernels/base/float_control.h"
#include "kernels/base/log.h"
#include "kernels/base/watch.h"
#include "trainer/exchange/exchange_internal.h"

static sr_status start_bucket(sr_exchange *x, int bucket) {
    sr_exchange_transfer *transfer = &x->transfers[bucket % x->transfer_count];
    const bool empty = x->buckets[bucket].tree == NULL;
    transfer->bucket = bucket;
    transfer->spreads = x->pass != SR_PASS_FOLD;
    transfer->swapped = transfer->reduced = transfer->done = empty;
    // When values are spread, the lane buffers have been returned already, after folding.
    transfer->released = empty || x->pass == SR_PASS_SPREAD;
    x->started = bucket + 1; // before the messages: if one fails, those already posted can be found
    if (empty)
        return SR_OK;
    transfer->started_ns = x->trace ? sr_clock_ns() : 0;
    x->stats.buckets += transfer->released ? 0 : 1;
    return x->driver->start(x, transfer);
}

// A bucket is complete: its messages were under way since it was started.
static void trace_bucket(const sr_exchange *x, int bucket) {
    const int transfer = bucket % x->transfer_count;
    if (x->trace && x->trace->messages[transfer] && x->buckets[bucket].tree)
        sr_trace_span(x->trace->messages[transfer], x->trace->moves[bucket],
                      x->transfers[transfer].started_ns, sr_clock_ns());
}

// Whether a bucket can start: all of its lanes have arrived on this rank, as far as its driver
// needs them.
static bool is_ready(const sr_exchange *x, int bucket, int ready_prefix) {
    const sr_lane_tree *tree = x->buckets[bucket].tree;
    return x->pass == SR_PASS_SPREAD ||
           (bucket < ready_prefix && (!tree || !x->driver->ready || x->driver->ready(tree)));
}

// The measures of all ranks have arrived: a further round follows, or the updates.
static sr_status end_round(sr_exchange *x) {
    const sr_exchange_agreement *a = &x->agreement;
    const bool ends = a->round + 1 >= x->rounds;
    sr_status status = x->agree(x->user, x->step, a->round, a->pieces, a->host, a->piece_count);
    if (status == SR_OK && !ends)
        status = sr_exchange_agreement_begin(x, a->round + 1);
    if (status != SR_OK)
        return sr_exchange_fail_reduce(x, status);
    if (!ends)
        return SR_OK;
    x->pass = SR_PASS_SPREAD;
    x->started = x->finished = 0;
    return SR_OK;
}

// After a pass over all buckets.
static sr_status next_pass(sr_exchange *x, bool *moved) {
    bool gathered = false;
    if (x->pass == SR_PASS_FOLD && x->finished == x->bucket_count) {
        SR_TRY(sr_exchange_agreement_begin(x, 0));
        x->pass = SR_PASS_AGREE;
        *moved = true;
    }
    if (x->pass == SR_PASS_AGREE)
        SR_TRY(sr_exchange_agreement_advance(x, &gathered));
    if (gathered) {
        SR_TRY(end_round(x));
        *moved = true;
    }
    return SR_OK;
}

static sr_status move(sr_exchange *x, int ready_prefix, bool *moved) {
    SR_TRY(sr_exchange_join_advance(x, moved));
    while (x->started < x->bucket_count && is_ready(x, x->started, ready_prefix) &&
           x->started - x->finished < x->transfer_count) {
        SR_TRY(start_bucket(x, x->started));
        *moved = true;
    }
    for (int b = x->finished; b < x->started; b++) {
        sr_exchange_transfer *transfer = &x->transfers[b % x->transfer_count];
        if (!transfer->done)
            SR_TRY(x->driver->advance(x, transfer, moved));
    }
    while (x->finished < x->started && x->transfers[x->finished % x->transfer_count].done) {
        trace_bucket(x, x->finished);
        x->finished++;
        *moved = true;
    }
    return next_pass(x, moved);
}

// ---- deadlines

static void describe_messages(sr_exchange *x, char *out, size_t room) {
    sr_exchange_transfer *transfer = &x->transfers[x->finished % x->transfer_count];
    sr_peer_names names;
    const bool found = x->driver->describe(x, transfer, &names);
    snprintf(out, room, "bucket %d of %d%s%s", transfer->bucket, x->bucket_count, found ? ": " : "",
             found ? names.text : "");
}

static void describe_agreement(sr_exchange *x, char *out, size_t room) {
    sr_peer_names names;
    const bool found = sr_exchange_name_group(x, &x->agreement.group,
                                              "norms of gradients to be exchanged with", &names);
    snprintf(out, room, "%s", found ? names.text : "norms of gradients of the device");
}

static void describe_join(sr_exchange *x, char *out, size_t room) {
    sr_peer_names names;
    const bool found =
        sr_exchange_name_group(x, &x->joining.group, "lanes to be joined with", &names);
    snprintf(out, room, "%s", found ? names.text : "lanes to be joined");
}

static void describe_lanes(sr_exchange *x, char *out, size_t room) {
    for (int lane = x->lane_first; lane < x->lane_last; lane++) {
        for (int s = 0; s < x->segment_count; s++) {
            size_t at = (size_t)(lane - x->lane_first) * (size_t)x->segment_count + (size_t)s;
            if (atomic_load_explicit(&x->given[at], memory_order_acquire))
                continue;
            snprintf(out, room, "lane %d of this rank to give segment '%s'", lane,
                     x->segments[s].name);
            return;
        }
    }
    snprintf(out, room, "the lanes of this rank");
}

// A rank that waits for sums knows which rank is late. A rank that waits for norms or new values
// may be waiting for one that itself waits, so it gives that one time to report first.
static int64_t deadline(const sr_exchange *x, bool under_way) {
    const sr_exchange_transfer *oldest = &x->transfers[x->finished % x->transfer_count];
    const bool later = !sr_exchange_is_joining(x) && (x->pass == SR_PASS_AGREE || oldest->swapped);
    return under_way && later ? x->act_ns + x->act_ns / 8 : x->act_ns;
}

// A first step compiles, so it gets more time, unless the awaited rank is stopped.
static bool is_over(const sr_exchange *x, int64_t waited, bool under_way) {
    int64_t act = deadline(x, under_way);
    if (waited < act || x->steps_done > 0)
        return waited >= act;
    for (int r = 0; r < x->size; r++)
        if (r != x->rank && sr_comm_peer_is_stopped(x->comm, r))
            return true;
    return waited >= SR_PATIENCE * act;
}

// Whether the oldest bucket waits for other ranks. One that is started before it is ready may still
// wait for lanes of this rank, which the device computes.
static bool is_under_way(const sr_exchange *x) {
    const sr_exchange_transfer *oldest = &x->transfers[x->finished % x->transfer_count];
    return x->started > x->finished && (x->driver->ready || oldest->released ||
                                        sr_lane_tree_ready(x->buckets[oldest->bucket].tree));
}

// Describes what is awaited: messages under way, or, once step_wait is called, lanes of this rank.
static sr_status check_deadline(sr_exchange *x, int64_t now, bool waiting) {
    const bool agrees = x->pass == SR_PASS_AGREE, joins = sr_exchange_is_joining(x);
    bool under_way = agrees || joins || is_under_way(x);
    long long puts = atomic_load_explicit(&x->puts, memory_order_relaxed);
    if (!under_way && (!waiting || puts != x->seen_puts)) {
        x->seen_puts = puts;
        x->moved_ns = now;
        x->report_at_ns = now + x->report_ns;
        return SR_OK;
    }
    bool over = is_over(x, now - x->moved_ns, under_way);
    if (!over && now < x->report_at_ns)
        return SR_OK;
    char what[SR_EXCHANGE_TEXT_BYTES / 2 + 160], text[SR_EXCHANGE_TEXT_BYTES];
    if (joins)
        describe_join(x, what, sizeof what);
    else if (agrees)
        describe_agreement(x, what, sizeof what);
    else if (under_way)
        describe_messages(x, what, sizeof what);
    else
        describe_lanes(x, what, sizeof what);
    snprintf(text, sizeof text, "step %lld: waited %.0f s for %s", (long long)x->step,
             (double)(now - x->moved_ns) / (double)SR_NS_PER_S, what);
    if (over) {
        sr_exchange_fail(x, SR_E_TIMEOUT, text);
        return SR_E_TIMEOUT;
    }
    x->report_at_ns = now + x->report_ns;
    sr_comm_report(x->comm, "%s", text);
    return SR_OK;
}

// ---- one turn

static void finish_step(sr_exchange *x) {
    x->steps_done++;
    x->stats.lane_buffers = (int64_t)sr_lane_pool_peak(x->pool);
    pthread_mutex_lock(&x->lock);
    x->done = true; // from here on the step's state is the next step_begin's
    pthread_cond_broadcast(&x->finished_step);
    pthread_mutex_unlock(&x->lock);
}

// Notifies the peers of this rank's failure. If theirs came first, it replaces this one, so that
// all ranks end with the same status.
static void tell(sr_exchange *x, sr_status failed) {
    sr_comm_abort(x->comm, failed, x->own_failure);
    sr_status status = sr_comm_poll(x->comm);
    pthread_mutex_lock(&x->lock);
    x->failed = status;
    snprintf(x->failure, sizeof x->failure, "%s", sr_error_message());
    x->told = true;
    pthread_cond_broadcast(&x->finished_step);
    pthread_mutex_unlock(&x->lock);
}

bool sr_exchange_progress(sr_exchange *x, int64_t now) {
    pthread_mutex_lock(&x->lock);
    bool runs = x->active && !x->done, waiting = x->waiting, told = x->told;
    int ready_prefix = x->ready_prefix;
    sr_status failed = x->failed;
    pthread_mutex_unlock(&x->lock);
    if (failed != SR_OK && !told) {
        tell(x, failed);
        return true;
    }
    if (failed != SR_OK || !runs)
        return false;
    sr_float_control();
    bool moved = false;
    sr_status status = sr_comm_poll(x->comm);
    if (status == SR_OK)
        status = move(x, ready_prefix, &moved);
    if (status == SR_OK && moved) {
        x->moved_ns = now;
        x->report_at_ns = now + x->report_ns;
    } else if (status == SR_OK) {
        status = check_deadline(x, now, waiting);
    }
    if (status != SR_OK) {
        sr_exchange_set_failure(x, status, sr_error_message(), NULL);
        return true;
    }
    if (x->finished == x->bucket_count && x->pass != SR_PASS_FOLD && x->pass != SR_PASS_AGREE) {
        finish_step(x);
        return true;
    }
    return moved;
}

bool sr_exchange_is_over(sr_exchange *x) {
    pthread_mutex_lock(&x->lock);
    bool over = x->done || x->told;
    pthread_mutex_unlock(&x->lock);
    return over;
}
