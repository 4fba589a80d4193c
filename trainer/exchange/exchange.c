// SPDX-License-Identifier: Apache-2.0
// The exchange's calls and its communication thread; the step itself is in exchange_machine.c.
//
// One thread per exchange makes every call on the communicator within a step, so that backward
// never waits for a message. It never spins, since ranks share cores: with nothing under way it
// sleeps until a bucket is complete (and checks for a peer's failure every 50 ms); while messages
// are under way it tests them every 20 to 200 us, after a while every ms. Beside a device, which
// has no work until the next step begins, it looks for the end of this one every 20 us.
//
// A failure is recorded once, whoever detects it. The thread notifies all ranks of it, and every
// later call returns it. Not here: what the values mean, and which bits a sum has (lane_tree.c).
#include "trainer/exchange/exchange.h"

#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/thread.h"
#include "kernels/base/watch.h"
#include "kernels/kernel.h"
#include "trainer/exchange/exchange_internal.h"

#define IDLE_NS (50 * SR_NS_PER_MS)
#define SHORTEST_LOOK_NS INT64_C(20000)
#define LONGEST_LOOK_NS INT64_C(200000)
#define PATIENT_LOOK_NS SR_NS_PER_MS
#define PATIENT_AFTER_NS (20 * SR_NS_PER_MS)

// ---- the thread

// Whether lanes are computed by a device and not on the rank's cores.
static bool is_beside_host(const sr_exchange *x) {
    return x->device && sr_device_get_properties(x->device)->asynchronous;
}

// How long to sleep after a turn without progress. 'idle_ns': since something last did.
static int64_t next_look(const sr_exchange *x, int64_t last, int64_t idle_ns) {
    const bool joins = sr_exchange_is_joining(x);
    if (!joins && x->started == x->finished && x->ready_prefix <= x->started &&
        x->pass != SR_PASS_AGREE)
        return IDLE_NS;
    if (idle_ns > PATIENT_AFTER_NS && !x->waiting)
        return PATIENT_LOOK_NS;
    if (joins || (x->waiting && is_beside_host(x))) // all lanes of the group, or the device, wait
        return SHORTEST_LOOK_NS;
    return last * 2 < LONGEST_LOOK_NS ? last * 2 : LONGEST_LOOK_NS;
}

static void *communicate(void *argument) {
    sr_exchange *x = argument;
    int64_t look = SHORTEST_LOOK_NS, moved_ns = sr_clock_ns();
    sr_kernels_thread_init(); // on a CPU, sums and updates run here
    pthread_mutex_lock(&x->lock);
    for (;;) {
        bool to_tell = x->failed != SR_OK && !x->told;
        bool runs = x->active && !x->done && x->failed == SR_OK;
        if (x->stop && !to_tell)
            break;
        if (!to_tell && !runs) {
            sr_exchange_timed_wait(&x->wake, &x->lock, SR_NS_PER_S);
            continue;
        }
        uint64_t wakes = x->wakes;
        pthread_mutex_unlock(&x->lock);
        sr_watch turn;
        sr_watch_begin(&turn, "a turn of the exchange: a call of %s, or the update",
                       sr_comm_backend_name(x->comm));
        bool moved = sr_exchange_progress(x, sr_comm_now(x->comm));
        sr_watch_end(&turn);
        int64_t now = sr_clock_ns();
        pthread_mutex_lock(&x->lock);
        if (moved) {
            look = SHORTEST_LOOK_NS;
            moved_ns = now;
        } else if (x->wakes == wakes && !x->stop) {
            look = next_look(x, look, now - moved_ns);
            sr_exchange_timed_wait(&x->wake, &x->lock, look);
        }
    }
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

static sr_status start_thread(sr_exchange *x) {
    SR_TRY(sr_thread_start(&x->thread, "sr-exchange", communicate, x));
    x->threaded = true;
    return SR_OK;
}

// ---- life

// Whether nothing of a step needs the host: the device moves the messages, or there are none.
static bool moves_on_stream(const sr_exchange *x, const sr_device *device) {
    if (!device)
        return false;
    return sr_comm_memory_of(x->comm, device).on_stream ||
           (x->size == 1 && sr_device_get_properties(device)->asynchronous);
}

static sr_status create(sr_comm *comm, const sr_exchange_options *options, int64_t block_elements,
                        sr_exchange **out) {
    sr_exchange *x = sr_alloc(sizeof *x, "exchange");
    if (!x)
        return SR_E_MEMORY;
    x->comm = comm;
    x->rank = sr_comm_rank(comm);
    x->size = sr_comm_size(comm);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->wake, &monotonic);
    pthread_cond_init(&x->finished_step, &monotonic);
    pthread_condattr_destroy(&monotonic);
    x->driver = moves_on_stream(x, options->device) ? &sr_exchange_on_stream : &sr_exchange_host;
    *out = x;
    SR_TRY(sr_exchange_build(x, options, block_elements));
    return x->measure ? sr_exchange_agreement_create(x) : SR_OK;
}

// The most nodes of the tree that the lanes of a replay are.
static int most_nodes(const sr_exchange *x, int lanes) {
    sr_lane_range nodes[SR_LANE_MAX_SUBTREES];
    int most = 1;
    for (int lane = x->lane_first; lane < x->lane_last; lane += lanes) {
        const int end = lane + lanes < x->lane_last ? lane + lanes : x->lane_last;
        const int count = sr_lane_subtrees(x->lanes, lane, end, nodes);
        most = count > most ? count : most;
    }
    return most;
}

// A tree of n local lanes in order holds one buffer for each level and one to write (lane_tree.h),
// one more for each further sub-tree and each further node at a time; never more than lanes.
sr_status sr_exchange_reserve(sr_exchange *x, int replays, int lanes_of_replay) {
    sr_lane_range subtrees[SR_LANE_MAX_SUBTREES];
    int lanes = x->lane_last - x->lane_first, trees = 0, levels = 0;
    int further = sr_lane_subtrees(x->lanes, x->lane_first, x->lane_last, subtrees) - 1;
    const int nodes = replays * most_nodes(x, lanes_of_replay);
    while (lanes / lanes_of_replay >> (levels + 1))
        levels++;
    SR_TRY(sr_exchange_prepare_adds(x));
    int most = levels + 1 + further + (nodes > 1 ? nodes - 1 : 0);
    for (int i = 0; i < x->bucket_count; i++)
        trees += x->buckets[i].tree != NULL;
    return sr_lane_pool_reserve(x->pool, (size_t)trees * (size_t)(most < lanes ? most : lanes));
}

sr_status sr_exchange_create_manual(sr_comm *comm, const sr_exchange_options *options,
                                    int64_t block_elements, sr_exchange **out) {
    sr_exchange *x = NULL;
    sr_status status = create(comm, options, block_elements, &x);
    if (status != SR_OK) {
        sr_exchange_free(x);
        return status;
    }
    *out = x;
    return SR_OK;
}

sr_status sr_exchange_create(sr_comm *comm, const sr_exchange_options *options, sr_exchange **out) {
    sr_exchange *x = NULL;
    sr_status status = create(comm, options, 0, &x);
    if (status == SR_OK)
        status = sr_exchange_compare(x);
    if (status == SR_OK)
        status = start_thread(x);
    if (status != SR_OK) {
        sr_exchange_free(x);
        return status;
    }
    *out = x;
    return SR_OK;
}

// Cancels all requests before their memory is freed.
static void settle(sr_exchange *x) {
    sr_comm_settle(x->comm, x->requests, x->request_count);
    if (x->agreement.requests)
        sr_comm_settle(x->comm, x->agreement.requests, x->agreement.group.count);
    if (x->joining.requests)
        sr_comm_settle(x->comm, x->joining.requests, x->joining.group.count);
}

void sr_exchange_free(sr_exchange *x) {
    if (!x)
        return;
    pthread_mutex_lock(&x->lock);
    bool in_step = x->active && !x->done && x->failed == SR_OK;
    pthread_mutex_unlock(&x->lock);
    if (in_step)
        sr_exchange_fail(x, SR_E_PEER, "it left in the middle of a step");
    if (x->threaded) {
        pthread_mutex_lock(&x->lock);
        x->stop = true;
        x->wakes++;
        pthread_cond_broadcast(&x->wake);
        pthread_mutex_unlock(&x->lock);
        (void)pthread_join(x->thread,
                           NULL); // it ends within the second that notifying the peers may take
    } else {
        sr_exchange_progress(x, 0); // notifies the peers of a failure
    }
    if (x->failed != SR_OK)
        settle(x);
    sr_exchange_trace_free(x->trace);
    sr_exchange_unbuild(x);
    sr_exchange_agreement_free(x);
    sr_exchange_joining_free(&x->joining);
    pthread_cond_destroy(&x->wake);
    pthread_cond_destroy(&x->finished_step);
    pthread_mutex_destroy(&x->lock);
    sr_free(x);
}

// ---- a step

sr_status sr_exchange_step_begin(sr_exchange *x, int64_t step) {
    if (atomic_load_explicit(&x->has_failed, memory_order_acquire))
        return sr_exchange_failure(x);
    if (x->trace && !x->active)
        SR_TRY(sr_exchange_trace_begin(x));
    pthread_mutex_lock(&x->lock);
    if (x->active) {
        pthread_mutex_unlock(&x->lock);
        return SR_FAIL(SR_E_ARGUMENT, "step %lld begins before step %lld was waited for",
                       (long long)step, (long long)x->step);
    }
    size_t marks = (size_t)(x->lane_last - x->lane_first) * (size_t)x->segment_count;
    for (size_t i = 0; i < marks; i++)
        atomic_store_explicit(&x->given[i], 0, memory_order_relaxed);
    for (int i = 0; i < x->bucket_count; i++)
        x->buckets[i].ready = x->buckets[i].tree == NULL;
    x->ready_prefix = 0;
    while (x->ready_prefix < x->bucket_count && x->buckets[x->ready_prefix].ready)
        x->ready_prefix++;
    x->step = step;
    x->started = x->finished = 0;
    x->pass = x->measure ? SR_PASS_FOLD : SR_PASS_WHOLE;
    x->moved_ns = sr_comm_now(x->comm);
    x->report_at_ns = x->moved_ns + x->report_ns;
    x->waiting = x->done = false;
    x->active = true;
    x->wakes++;
    atomic_store_explicit(&x->accepting, true, memory_order_release);
    pthread_cond_broadcast(&x->wake);
    pthread_mutex_unlock(&x->lock);
    return SR_OK;
}

static void bucket_is_ready(sr_exchange *x, int bucket) {
    pthread_mutex_lock(&x->lock);
    x->buckets[bucket].ready = true;
    int before = x->ready_prefix;
    while (x->ready_prefix < x->bucket_count && x->buckets[x->ready_prefix].ready)
        x->ready_prefix++;
    if (x->ready_prefix > before) {
        x->wakes++;
        pthread_cond_signal(&x->wake);
    }
    pthread_mutex_unlock(&x->lock);
}

static sr_status check_put(sr_exchange *x, int lane, int segment, sr_address data, int64_t count) {
    if (lane < x->lane_first || lane >= x->lane_last || segment < 0 || segment >= x->segment_count)
        return SR_FAIL(SR_E_ARGUMENT,
                       "lane %d gives segment %d; this rank has lanes %d to %d and %d segments",
                       lane, segment, x->lane_first, x->lane_last - 1, x->segment_count);
    const sr_segment *s = &x->segments[segment];
    if (count < 0 || count > s->count || (count > 0 && count < s->count && !s->padded))
        return SR_FAIL(SR_E_ARGUMENT, "lane %d gives %lld elements of segment '%s', which has %lld",
                       lane, (long long)count, s->name, (long long)s->count);
    if (sr_address_is_none(data) && count > 0)
        return SR_FAIL(SR_E_ARGUMENT, "lane %d gives segment '%s' without data", lane, s->name);
    if (!atomic_load_explicit(&x->accepting, memory_order_acquire))
        return SR_FAIL(SR_E_ARGUMENT, "lane %d gives segment '%s' outside a step", lane, s->name);
    size_t at = (size_t)(lane - x->lane_first) * (size_t)x->segment_count + (size_t)segment;
    if (atomic_exchange_explicit(&x->given[at], 1, memory_order_acq_rel))
        return SR_FAIL(SR_E_ARGUMENT, "lane %d gives segment '%s' twice in a step", lane, s->name);
    return SR_OK;
}

// Buckets are in falling order: the first that begins at or before an element.
static int bucket_of(const sr_exchange *x, int64_t element) {
    int low = 0, high = x->bucket_count - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (x->buckets[middle].begin <= element)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// Contributions of the lanes of one node, collected until they are of another bucket or as many as
// one launch takes.
typedef struct node_parts {
    sr_exchange *x;
    sr_lane_range lanes;
    sr_stream *stream;
    int bucket, count;
    sr_lane_part parts[SR_LANE_PARTS];
} node_parts;

static sr_status put_parts(node_parts *node) {
    sr_exchange *x = node->x;
    bool complete = false;
    if (node->count > 0)
        SR_TRY(sr_lane_tree_put(x->buckets[node->bucket].tree, node->lanes, node->parts,
                                node->count, node->stream, &complete));
    if (complete)
        bucket_is_ready(x, node->bucket);
    node->count = 0;
    return SR_OK;
}

// Elements [from, to) of the flat space, which lie in one segment.
static sr_status put_range(node_parts *node, sr_address data, int64_t stride, int64_t from,
                           int64_t to) {
    for (int bucket = bucket_of(node->x, to - 1); from < to; bucket++) {
        const sr_exchange_bucket *b = &node->x->buckets[bucket];
        const int64_t begin = from > b->begin ? from : b->begin;
        if (bucket != node->bucket || node->count == SR_LANE_PARTS)
            SR_TRY(put_parts(node));
        node->bucket = bucket;
        node->parts[node->count++] =
            (sr_lane_part){.data = sr_address_add(data, (size_t)(begin - from) * sizeof(float)),
                           .stride = stride,
                           .offset = begin - b->begin,
                           .count = to - begin};
        to = begin;
    }
    return SR_OK;
}

// 'before': lanes before those of the node.
static sr_status put_value(node_parts *node, const sr_exchange_value *value, int before) {
    const sr_segment *s = &node->x->segments[value->segment];
    const int64_t middle = s->begin + value->count;
    const size_t at = (size_t)(before * value->stride) * sizeof(float);
    SR_TRY(put_range(node, node->x->zeros, 0, middle, s->begin + s->count));
    return put_range(node, sr_address_add(value->data, at), value->stride, s->begin, middle);
}

// Buckets are in falling order, and so are the values here: those of a bucket follow each other.
static void sort_values(const sr_exchange *x, const sr_exchange_value *values, int count,
                        const sr_exchange_value *sorted[SR_EXCHANGE_VALUES]) {
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 &&
               x->segments[sorted[at - 1]->segment].begin < x->segments[values[i].segment].begin;
             at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = &values[i];
    }
}

static sr_status put_lanes(sr_exchange *x, sr_lane_range lanes, const sr_exchange_value *values,
                           int count, sr_stream *stream) {
    const sr_exchange_value *sorted[SR_EXCHANGE_VALUES];
    sr_lane_range nodes[SR_LANE_MAX_SUBTREES];
    const int node_count = sr_lane_subtrees(x->lanes, lanes.begin, lanes.end, nodes);
    sort_values(x, values, count, sorted);
    for (int n = 0; n < node_count; n++) {
        node_parts node = {.x = x, .lanes = nodes[n], .stream = stream};
        for (int i = 0; i < count; i++)
            SR_TRY(put_value(&node, sorted[i], nodes[n].begin - lanes.begin));
        SR_TRY(put_parts(&node));
    }
    return SR_OK;
}

sr_status sr_exchange_put_lanes(sr_exchange *x, int lane, int lanes,
                                const sr_exchange_value *values, int count, sr_stream *stream) {
    if (atomic_load_explicit(&x->has_failed, memory_order_acquire))
        return sr_exchange_failure(x);
    if (count < 0 || count > SR_EXCHANGE_VALUES)
        return SR_FAIL(SR_E_ARGUMENT, "%d values are put at a time, at most %d can be", count,
                       SR_EXCHANGE_VALUES);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < lanes; k++)
            SR_TRY(check_put(x, lane + k, values[i].segment, values[i].data, values[i].count));
    const sr_status status =
        put_lanes(x, (sr_lane_range){lane, lane + lanes}, values, count, stream);
    if (status != SR_OK) {
        sr_exchange_fail(x, status, sr_error_message());
        return sr_exchange_failure(x);
    }
    atomic_fetch_add_explicit(&x->puts, 1, memory_order_relaxed);
    return SR_OK;
}

sr_status sr_exchange_put(sr_exchange *x, int lane, int segment, sr_address data, int64_t count,
                          sr_stream *stream) {
    const sr_exchange_value value = {.segment = segment, .data = data, .count = count};
    return sr_exchange_put_lanes(x, lane, 1, &value, 1, stream);
}

int sr_exchange_group(const sr_exchange *x, int segment) {
    enum { SMALL = 16384 }; // elements: a launch takes longer than adding fewer of some lanes
    const sr_segment *s = &x->segments[segment];
    return s->count <= SMALL ? bucket_of(x, s->begin + s->count - 1) + 1 : 0;
}

// Small segments of a bucket are put together. Large ones are put alone, and so is the end of one
// that begins in the bucket and belongs to the group before.
int sr_exchange_launches(const sr_exchange *x) {
    int launches = 0;
    for (int b = 0; b < x->bucket_count; b++) {
        int own = 0, others = 0; // of the bucket's group, and not
        for (int i = 0; i < x->segment_count; i++) {
            const sr_segment *s = &x->segments[i];
            if (s->begin >= x->buckets[b].end || s->begin + s->count <= x->buckets[b].begin)
                continue;
            if (sr_exchange_group(x, i) == b + 1)
                own++;
            else
                others++;
        }
        launches += (own + SR_LANE_PARTS - 1) / SR_LANE_PARTS + others;
    }
    return launches;
}

// With the lock held: waits for the end of the step. The machine's deadlines end every wait for a
// message or a lane; the watchdog ends the process if a turn of the thread does not return.
static void wait_for_end(sr_exchange *x) {
    while (x->threaded && !x->told && (!x->done || x->failed != SR_OK))
        sr_exchange_timed_wait(&x->finished_step, &x->lock, SR_NS_PER_S);
}

sr_status sr_exchange_step_wait(sr_exchange *x) {
    int64_t start = sr_clock_ns();
    pthread_mutex_lock(&x->lock);
    bool active = x->active;
    if (active) {
        x->waiting = true;
        x->wakes++;
        pthread_cond_broadcast(&x->wake);
        wait_for_end(x);
    }
    bool failed = x->failed != SR_OK, done = x->done;
    if (active && (done || failed)) {
        atomic_store_explicit(&x->accepting, false, memory_order_release);
        x->active = false;
        x->stats.exposed_ns += sr_clock_ns() - start;
    }
    pthread_mutex_unlock(&x->lock);
    if (failed)
        return sr_exchange_failure(x);
    if (!active)
        return SR_FAIL(SR_E_ARGUMENT, "sr_exchange_step_wait without a step that has begun");
    if (!done)
        return SR_FAIL(SR_E_ARGUMENT, "step %lld was not driven to its end", (long long)x->step);
    return SR_OK;
}

// ---- between steps

const sr_range *sr_exchange_owned(const sr_exchange *x, int *count) {
    *count = x->owned_count;
    return x->owned;
}

// One bucket of sr_exchange_gather: every rank sends what it owns to all others.
static sr_status gather_bucket(sr_exchange *x, int bucket, sr_address buffer, const char *what) {
    sr_message_list *list = &x->transfers[0].spread; // between steps, so it is free
    int posted = 0;
    sr_exchange_list_spread(x, bucket, buffer, list);
    SR_TRY(sr_exchange_post(x, list->messages, list->count, 0, x->requests, &posted));
    return sr_comm_wait(x->comm, x->requests, posted, what);
}

sr_status sr_exchange_gather(sr_exchange *x, sr_address buffer, const char *what) {
    if (atomic_load_explicit(&x->has_failed, memory_order_acquire))
        return sr_exchange_failure(x);
    if (atomic_load_explicit(&x->accepting, memory_order_acquire))
        return SR_FAIL(SR_E_ARGUMENT, "%s is gathered in the middle of a step", what);
    for (int b = 0; b < x->bucket_count && x->size > 1; b++) {
        const sr_status status = gather_bucket(x, b, buffer, what);
        if (status != SR_OK) {
            sr_exchange_set_failure(x, status, sr_error_message(), NULL);
            return sr_exchange_failure(x);
        }
    }
    return SR_OK;
}

sr_exchange_stats sr_exchange_get_stats(const sr_exchange *x) {
    return x->stats;
}
