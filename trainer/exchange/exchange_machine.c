// SPDX-License-Identifier: Apache-2.0
// The exchange of one step as a state machine: no thread, no sleep, no clock of its own.
//
// Buckets start in order as soon as the lanes of this rank are in, at most SR_EXCHANGE_WINDOW at a
// time. Starting one posts, without waiting: receives for the sub-trees of its owned part and for
// the new values of the other parts (straight into V, which no local lane reads any more), and
// sends of its own sub-trees to the owners. When all sub-trees of the owned part are there, they
// are folded in tree order, block by block, each block is updated, and the new values go out.
// Everything is found by testing, so the order in which messages arrive decides nothing but time.
//
// Tags: 2 b for sums and 2 b + 1 for values of bucket b modulo 2048, far more than can be under way
// at once. A message of the next step cannot be taken for one of this step: a rank only gets there
// with values that their owner computed from sums of this step by everybody.
#include <stdio.h>

#include "kernels/base/clock.h"
#include "kernels/base/float_control.h"
#include "kernels/base/log.h"
#include "kernels/base/watch.h"
#include "trainer/exchange/exchange_internal.h"

#define TAG_BUCKETS (SR_EXCHANGE_TAG_MEASURES / 2)
#define NAMED_PEERS 4 // in a message about a wait

static int tag_of(int bucket, bool values) {
    return 2 * (bucket % TAG_BUCKETS) + (values ? 1 : 0);
}

static size_t bytes_of(sr_range range) {
    return (size_t)(range.end - range.begin) * sizeof(float);
}

// The address so many elements behind another.
static sr_address element(sr_address base, int64_t index) {
    return sr_address_add(base, (size_t)index * sizeof(float));
}

static sr_status post_send(sr_exchange *x, sr_message_group *group, int to, int tag,
                           sr_address data, size_t bytes) {
    SR_TRY(sr_comm_isend_device(x->comm, to, tag, x->device, data, bytes,
                                &group->requests[group->count]));
    group->count++;
    x->stats.messages++;
    x->stats.bytes_sent += (int64_t)bytes;
    return SR_OK;
}

static sr_status post_receive(sr_exchange *x, sr_message_group *group, int from, int tag,
                              sr_address data, size_t bytes) {
    SR_TRY(sr_comm_irecv_device(x->comm, from, tag, x->device, data, bytes,
                                &group->requests[group->count]));
    group->count++;
    x->stats.bytes_received += (int64_t)bytes;
    return SR_OK;
}

// Receives for the sub-trees of all other ranks, and the list of all of them in lane order.
static sr_status expect_sums(sr_exchange *x, sr_exchange_transfer *transfer) {
    const sr_exchange_bucket *b = &x->buckets[transfer->bucket];
    sr_range own = sr_exchange_bucket_range(x, transfer->bucket, x->rank);
    sr_address place = transfer->received;
    for (int r = 0; r < x->size; r++) {
        for (int i = x->first_partial[r]; i < x->first_partial[r + 1]; i++) {
            if (r == x->rank) {
                int mine = i - x->first_partial[r];
                transfer->partials[i] =
                    element(sr_lane_tree_partial(b->tree, mine), own.begin - b->begin);
                continue;
            }
            transfer->partials[i] = place;
            place = element(place, own.end - own.begin);
            if (own.begin < own.end)
                SR_TRY(post_receive(x, &transfer->sums_in, r, tag_of(transfer->bucket, false),
                                    transfer->partials[i], bytes_of(own)));
        }
    }
    return SR_OK;
}

static sr_status send_sums(sr_exchange *x, sr_exchange_transfer *transfer) {
    const sr_exchange_bucket *b = &x->buckets[transfer->bucket];
    int mine = x->first_partial[x->rank + 1] - x->first_partial[x->rank];
    // From the right neighbour round, so that not all ranks begin with the same receiver.
    for (int distance = 1; distance < x->size; distance++) {
        int to = (x->rank + distance) % x->size;
        sr_range part = sr_exchange_bucket_range(x, transfer->bucket, to);
        for (int i = 0; i < mine && part.begin < part.end; i++)
            SR_TRY(post_send(x, &transfer->sums_out, to, tag_of(transfer->bucket, false),
                             element(sr_lane_tree_partial(b->tree, i), part.begin - b->begin),
                             bytes_of(part)));
    }
    return SR_OK;
}

static sr_status expect_values(sr_exchange *x, sr_exchange_transfer *transfer) {
    for (int distance = 1; distance < x->size; distance++) {
        int from = (x->rank - distance + x->size) % x->size;
        sr_range part = sr_exchange_bucket_range(x, transfer->bucket, from);
        if (part.begin < part.end)
            SR_TRY(post_receive(x, &transfer->values_in, from, tag_of(transfer->bucket, true),
                                element(x->values, part.begin), bytes_of(part)));
    }
    return SR_OK;
}

static sr_status send_values(sr_exchange *x, sr_exchange_transfer *transfer) {
    sr_range own = sr_exchange_bucket_range(x, transfer->bucket, x->rank);
    for (int distance = 1; distance < x->size && own.begin < own.end; distance++)
        SR_TRY(post_send(x, &transfer->values_out, (x->rank + distance) % x->size,
                         tag_of(transfer->bucket, true), element(x->values, own.begin),
                         bytes_of(own)));
    return SR_OK;
}

static void clear(sr_message_group *group) {
    group->count = group->next = 0;
}

static sr_status start_bucket(sr_exchange *x, int bucket) {
    sr_exchange_transfer *transfer = &x->transfers[bucket % x->transfer_count];
    transfer->bucket = bucket;
    clear(&transfer->sums_in);
    clear(&transfer->sums_out);
    clear(&transfer->values_in);
    clear(&transfer->values_out);
    transfer->spreads = x->pass != SR_PASS_FOLD;
    transfer->reduced = transfer->released = x->buckets[bucket].tree == NULL;
    transfer->reducing = transfer->reduced;
    x->started = bucket + 1; // before the messages: what is posted is found again when one fails
    if (transfer->released)
        return SR_OK;
    transfer->started_ns = x->trace ? sr_clock_ns() : 0;
    if (transfer->spreads)
        SR_TRY(expect_values(x, transfer));
    if (x->pass == SR_PASS_SPREAD) {
        transfer->released = true; // its lane buffers were given back when it was folded
        return SR_OK;
    }
    x->stats.buckets++;
    SR_TRY(expect_sums(x, transfer));
    return send_sums(x, transfer);
}

// Puts the work of one block on the stream.
static sr_status reduce_block(sr_exchange *x, const sr_exchange_transfer *transfer, int64_t begin,
                              int64_t end, int64_t offset) {
    const int adds = x->pass == SR_PASS_SPREAD ? 0 : x->first_partial[x->size] - 1;
    const sr_address sum = x->pass == SR_PASS_SPREAD ? element(x->agreement.sums, begin)
                                                     : element(transfer->partials[0], offset);
    for (int i = 0; i < adds; i++)
        SR_TRY(sr_lane_pool_add(x->pool, x->stream,
                                element(transfer->partials[x->plan[i].into], offset),
                                element(transfer->partials[x->plan[i].from], offset), end - begin));
    return transfer->spreads
               ? x->update(x->user, x->step, begin, end, sum, element(x->values, begin), x->stream)
               : sr_exchange_measure(x, begin, end, sum);
}

static sr_status fail_reduce(sr_exchange *x, sr_status status) {
    char text[SR_EXCHANGE_TEXT_BYTES];
    snprintf(text, sizeof text, "step %lld: %s", (long long)x->step, sr_error_message());
    sr_exchange_fail(x, status, text);
    return status;
}

// Folds and updates the owned part, one block at a time while it is in the cache.
static sr_status reduce(sr_exchange *x, sr_exchange_transfer *transfer) {
    sr_range own = sr_exchange_bucket_range(x, transfer->bucket, x->rank);
    for (int64_t begin = own.begin; begin < own.end; begin += x->block) {
        int64_t end = begin + x->block < own.end ? begin + x->block : own.end;
        sr_status status = reduce_block(x, transfer, begin, end, begin - own.begin);
        if (status != SR_OK)
            return fail_reduce(x, status);
    }
    transfer->reducing = true;
    return sr_event_record(transfer->updated, x->stream);
}

// Sends the new values when the work that computes them has run.
static sr_status finish_reduce(sr_exchange *x, sr_exchange_transfer *transfer) {
    const sr_status status = sr_stream_wait(x->stream);
    if (status != SR_OK)
        return fail_reduce(x, status);
    transfer->reduced = true;
    return transfer->spreads ? send_values(x, transfer) : SR_OK;
}

static bool all_done(const sr_message_group *group) {
    return group->next == group->count;
}

static sr_status test_group(sr_exchange *x, sr_message_group *group, bool *moved) {
    while (group->next < group->count) {
        bool done = false;
        SR_TRY(sr_comm_test(x->comm, &group->requests[group->next], &done));
        if (!done)
            return SR_OK;
        group->next++;
        *moved = true;
    }
    return SR_OK;
}

static bool transfer_done(const sr_exchange_transfer *transfer) {
    return transfer->reduced && transfer->released && all_done(&transfer->values_in) &&
           all_done(&transfer->values_out);
}

static sr_status advance(sr_exchange *x, sr_exchange_transfer *transfer, bool *moved) {
    SR_TRY(test_group(x, &transfer->sums_in, moved));
    SR_TRY(test_group(x, &transfer->sums_out, moved));
    SR_TRY(test_group(x, &transfer->values_in, moved));
    if (!transfer->reducing && all_done(&transfer->sums_in)) {
        const int64_t start = x->trace ? sr_clock_ns() : 0;
        SR_TRY(reduce(x, transfer));
        if (x->trace)
            sr_trace_span(x->trace->work, x->trace->sums[transfer->bucket], start, sr_clock_ns());
        *moved = true;
    }
    if (transfer->reducing && !transfer->reduced && sr_event_done(transfer->updated)) {
        SR_TRY(finish_reduce(x, transfer));
        *moved = true;
    }
    if (!transfer->released && transfer->reduced && all_done(&transfer->sums_out)) {
        sr_lane_tree_reset(x->buckets[transfer->bucket].tree);
        transfer->released = true;
        *moved = true;
    }
    return test_group(x, &transfer->values_out, moved);
}

// A bucket is complete: its messages were under way since it was started.
static void trace_bucket(const sr_exchange *x, int bucket) {
    const int transfer = bucket % x->transfer_count;
    if (x->trace && x->trace->messages[transfer] && x->buckets[bucket].tree)
        sr_trace_span(x->trace->messages[transfer], x->trace->moves[bucket],
                      x->transfers[transfer].started_ns, sr_clock_ns());
}

// Whether a bucket's lanes have been summed on this rank.
static bool is_ready(const sr_exchange *x, int bucket, int ready_prefix) {
    const sr_lane_tree *tree = x->buckets[bucket].tree;
    return x->pass == SR_PASS_SPREAD ||
           (bucket < ready_prefix && (!tree || sr_lane_tree_ready(tree)));
}

// After a pass over all buckets.
static sr_status next_pass(sr_exchange *x, bool *moved) {
    bool gathered = false;
    if (x->pass == SR_PASS_FOLD && x->finished == x->bucket_count) {
        SR_TRY(sr_exchange_agreement_begin(x));
        x->pass = SR_PASS_AGREE;
        *moved = true;
    }
    if (x->pass == SR_PASS_AGREE)
        SR_TRY(sr_exchange_agreement_advance(x, &gathered));
    if (gathered) {
        const sr_status status = x->agree(x->user, x->step, x->agreement.host, x->agreement.blocks);
        if (status != SR_OK)
            return fail_reduce(x, status);
        x->pass = SR_PASS_SPREAD;
        x->started = x->finished = 0;
        *moved = true;
    }
    return SR_OK;
}

static sr_status move(sr_exchange *x, int ready_prefix, bool *moved) {
    while (x->started < x->bucket_count && is_ready(x, x->started, ready_prefix) &&
           x->started - x->finished < x->transfer_count) {
        SR_TRY(start_bucket(x, x->started));
        *moved = true;
    }
    for (int b = x->finished; b < x->started; b++)
        SR_TRY(advance(x, &x->transfers[b % x->transfer_count], moved));
    while (x->finished < x->started &&
           transfer_done(&x->transfers[x->finished % x->transfer_count])) {
        trace_bucket(x, x->finished);
        x->finished++;
        *moved = true;
    }
    return next_pass(x, moved);
}

// ---- deadlines

// Writes the peers of unfinished messages; false when there are none.
static bool name_peers(sr_exchange *x, sr_message_group *group, char *out, size_t room) {
    int named = 0, unnamed = 0, last = -1;
    size_t length = 0;
    for (int i = group->next; i < group->count; i++) {
        bool done = false;
        int peer = group->requests[i].peer;
        if (sr_comm_test(x->comm, &group->requests[i], &done) != SR_OK || done || peer == last)
            continue;
        last = peer;
        if (named == NAMED_PEERS) {
            unnamed++;
            continue;
        }
        int wrote = snprintf(out + length, room - length, "%srank %d (%s)%s", named ? ", " : "",
                             peer, sr_comm_peer_name(x->comm, peer),
                             sr_comm_peer_is_stopped(x->comm, peer) ? SR_COMM_STOPPED : "");
        if (wrote > 0 && (size_t)wrote < room - length)
            length += (size_t)wrote;
        named++;
    }
    if (unnamed > 0)
        snprintf(out + length, room - length, " and %d more", unnamed);
    return named > 0;
}

static void describe_messages(sr_exchange *x, char *out, size_t room) {
    sr_exchange_transfer *transfer = &x->transfers[x->finished % x->transfer_count];
    struct {
        sr_message_group *group;
        const char *what;
    } groups[] = {{&transfer->sums_in, "partial sums from"},
                  {&transfer->values_in, "new values from"},
                  {&transfer->sums_out, "partial sums to be taken by"},
                  {&transfer->values_out, "new values to be taken by"}};
    char peers[320];
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (!name_peers(x, groups[i].group, peers, sizeof peers))
            continue;
        snprintf(out, room, "bucket %d of %d: %s %s", transfer->bucket, x->bucket_count,
                 groups[i].what, peers);
        return;
    }
    snprintf(out, room, "bucket %d of %d", transfer->bucket, x->bucket_count);
}

static void describe_agreement(sr_exchange *x, char *out, size_t room) {
    char peers[320] = "";
    (void)name_peers(x, &x->agreement.group, peers, sizeof peers);
    snprintf(out, room, "norms of gradients to be exchanged%s%s", peers[0] ? " with " : "", peers);
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

// Who waits for sums knows which rank is late. Who waits for norms or new values may be waiting for
// a rank that itself waits, so it gives that one the time to speak first.
static int64_t deadline(const sr_exchange *x, bool under_way) {
    const sr_exchange_transfer *oldest = &x->transfers[x->finished % x->transfer_count];
    const bool later = x->pass == SR_PASS_AGREE || all_done(&oldest->sums_in);
    return under_way && later ? x->act_ns + x->act_ns / 8 : x->act_ns;
}

// A first step compiles, so it has more time; but not for a rank that is stopped.
static bool is_over(const sr_exchange *x, int64_t waited, bool under_way) {
    int64_t act = deadline(x, under_way);
    if (waited < act || x->steps_done > 0)
        return waited >= act;
    for (int r = 0; r < x->size; r++)
        if (r != x->rank && sr_comm_peer_is_stopped(x->comm, r))
            return true;
    return waited >= SR_PATIENCE * act;
}

// What is waited for: messages under way, or, once step_wait is called, lanes of this rank.
static sr_status check_deadline(sr_exchange *x, int64_t now, bool waiting) {
    const bool agrees = x->pass == SR_PASS_AGREE;
    bool under_way = x->started > x->finished || agrees;
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
    if (agrees)
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

// Notifies the peers of this rank's failure. Where theirs came first it counts here too, so that
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
