// SPDX-License-Identifier: Apache-2.0
// The exchange's structs and functions, shared by exchange.c (calls and thread), exchange_plan.c
// (what is fixed at creation), exchange_join.c (values within a step), exchange_schedule.c (the
// messages to send), exchange_machine.c (the progress of a step), its drivers exchange_host.c and
// exchange_stream.c, exchange_reduce.c and exchange_failure.c; and functions for simulation.
#ifndef SR_TRAINER_EXCHANGE_INTERNAL_H
#define SR_TRAINER_EXCHANGE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "kernels/base/clock.h"
#include "kernels/base/trace.h"
#include "trainer/exchange/exchange.h"
#include "trainer/exchange/lane_tree.h"

// Maximum number of buckets with messages in progress. Buckets start in order, so that ranks never
// deadlock: every rank can start the oldest bucket that any rank has not finished.
#define SR_EXCHANGE_WINDOW 4
#define SR_EXCHANGE_TEXT_BYTES 512

typedef struct sr_exchange_bucket {
    int64_t begin, end; // elements
    int first_unit, units;
    sr_lane_tree *tree; // NULL: no segment overlaps the bucket, so there is nothing to do
    bool ready;         // locked: all lanes of this rank have arrived
} sr_exchange_bucket;

// This rank's messages of one group of a bucket: receives, then sends.
typedef struct sr_message_list {
    sr_comm_message *messages;
    int receives, count;
} sr_message_list;

// Messages of one kind in progress, tested in order.
typedef struct sr_message_group {
    sr_comm_request *requests;
    int capacity, count, next;
} sr_message_group;

// A bucket in progress.
typedef struct sr_exchange_transfer {
    int bucket;
    bool spreads;  // new values are computed and sent, not measured
    bool swapped;  // all partial sums of the owned part have arrived
    bool reduced;  // the owned part has been summed and updated
    bool released; // the lane buffers have been returned
    bool done;
    int64_t started_ns;
    sr_message_list swap, spread;
    sr_event *updated;    // end of the summing and updating
    sr_address received;  // sub-trees of the other ranks, owned elements of each
    sr_address *partials; // sub-trees of all ranks in lane order
    // Used by the host driver.
    sr_message_group sums_in, sums_out, values_in, values_out;
    // Used by the stream driver: the ends of the groups.
    sr_event *sums_here, *values_here;
} sr_exchange_transfer;

// The passes of a step over its buckets, in order.
typedef enum sr_exchange_pass {
    SR_PASS_WHOLE = 0, // swap, fold, update and spread
    SR_PASS_FOLD,      // swap, fold and measure
    SR_PASS_AGREE,     // no bucket is in progress
    SR_PASS_SPREAD,    // update and spread
} sr_exchange_pass;

// Ranks that are waited for, as text.
typedef struct sr_peer_names {
    char text[384];
    size_t length;
    int named, unnamed, last;
} sr_peer_names;

// How the messages of buckets are transferred.
typedef struct sr_exchange_driver {
    const char *name;         // sent to and compared with the other ranks
    sr_stream_options stream; // of folds and updates
    // Whether a bucket may start once all of its lanes have been put; NULL: always.
    bool (*ready)(const sr_lane_tree *tree);
    // Neither call waits. 'released' says whether there is anything to swap in this pass.
    sr_status (*start)(sr_exchange *x, sr_exchange_transfer *transfer);
    sr_status (*advance)(sr_exchange *x, sr_exchange_transfer *transfer, bool *moved);
    // Describes the messages that are missing; false if none from other ranks are.
    bool (*describe)(sr_exchange *x, sr_exchange_transfer *transfer, sr_peer_names *names);
} sr_exchange_driver;

extern const sr_exchange_driver sr_exchange_host, sr_exchange_on_stream;

// The tags of measures and of joins; the tags of buckets are smaller.
#define SR_EXCHANGE_TAG_MEASURES SR_COMM_MAX_TAG
#define SR_EXCHANGE_TAG_JOIN (SR_COMM_MAX_TAG - 1)

// Between folding and updating (exchange_agree.c).
typedef struct sr_exchange_agreement {
    sr_address sums;     // folded sums of the owned parts, at their places in the flat space
    sr_address measures; // f64 [piece_count][SR_EXCHANGE_MEASURES]
    double *host;        // of all ranks
    sr_exchange_piece *pieces;
    int64_t piece_count;
    int64_t *first_piece; // of each block; [blocks]: total number
    int round;
    bool registered;
    sr_event *copied;
    sr_comm_request *requests;
    sr_message_group group;
    bool sent;
} sr_exchange_agreement;

// Lanes of a group that join values (exchange_join.c).
typedef struct sr_exchange_joining {
    int first, lanes, first_rank, last_rank; // of the group
    const sr_exchange_part *parts;
    int part_count;
    int64_t elements; // of all parts
    float *rows;      // [lanes][elements]; a sub-tree is in the row of its first lane
    size_t row_capacity;
    sr_lane_range *trees; // of all ranks of the group
    size_t tree_capacity;
    sr_comm_request *requests;
    size_t request_capacity;
    atomic_bool under_way; // the sub-trees are to be swapped; its end is signalled under the lock
    bool posted;
    sr_message_group group;
} sr_exchange_joining;

// Rows of a trace: the thread's work, and the messages of each transfer.
typedef struct sr_exchange_trace {
    sr_trace_row *work, *messages[SR_EXCHANGE_WINDOW];
    const sr_trace_label **sums, **moves; // of each bucket
} sr_exchange_trace;

struct sr_exchange {
    // Fixed after creation.
    sr_comm *comm;
    int rank, size, lanes, lane_first, lane_last;
    int64_t block, elements;
    sr_segment *segments;
    int segment_count;
    char *segment_names;
    sr_device *device;
    const sr_exchange_driver *driver;
    sr_stream *stream; // of folds and updates
    sr_address values, zeros;
    sr_exchange_update_fn update;
    sr_exchange_measure_fn measure; // NULL: no agreement
    sr_exchange_agree_fn agree;
    int rounds;
    void *user;
    int64_t report_ns, act_ns;
    int64_t *cuts; // [unit_count + 1]: where buckets and owners' ranges may end
    int unit_count;
    sr_exchange_bucket *buckets; // [0] is at the end of the flat space
    int bucket_count;
    int64_t bucket_elements;
    int *first_partial; // of each rank in the list of all sub-trees; [size]: total
    sr_lane_add *plan;
    sr_range *owned;
    int owned_count;
    sr_lane_pool *pool;

    // Shared between threads.
    pthread_mutex_t lock;
    pthread_cond_t wake, finished_step;
    pthread_t thread;
    bool threaded;
    atomic_bool accepting, has_failed; // sr_exchange_put reads it without the lock
    atomic_uchar *given;               // per local lane and segment
    atomic_llong puts;
    // Guarded by the lock.
    bool stop, active, waiting, done;
    bool told; // the peers have been notified, and 'failed' is the same on all ranks
    uint64_t wakes;
    int64_t step;
    int ready_prefix; // buckets [0, ready_prefix) are ready
    sr_status failed;
    char failure[SR_EXCHANGE_TEXT_BYTES];     // as callers see it
    char own_failure[SR_EXCHANGE_TEXT_BYTES]; // as it is sent to the peers

    // Owned by the state machine between step_begin and the end of the step.
    sr_exchange_transfer transfers[SR_EXCHANGE_WINDOW];
    int transfer_count;
    sr_comm_request *requests; // of all groups of all transfers
    int request_count;
    sr_exchange_pass pass;
    sr_exchange_agreement agreement;
    sr_exchange_joining joining;
    int started, finished; // buckets of the pass
    int64_t steps_done, moved_ns, report_at_ns;
    long long seen_puts;
    sr_exchange_stats stats;
    sr_exchange_trace *trace; // NULL: none
};

// Creates an exchange without a thread and without comparing settings with the peers: the caller
// calls sr_exchange_progress. block_elements 0: SR_BLOCK_ELEMENTS (tests use small blocks).
SR_NODISCARD sr_status sr_exchange_create_manual(sr_comm *comm, const sr_exchange_options *options,
                                                 int64_t block_elements, sr_exchange **out);
// Makes all progress that is possible and returns whether there was any. Checks deadlines against
// 'now'.
bool sr_exchange_progress(sr_exchange *x, int64_t now_ns);
// Whether the step has ended, with or without a failure.
bool sr_exchange_is_over(sr_exchange *x);

// exchange_trace.c: sets the trace from the next step on; NULL ends tracing. Called between steps.
// SR_E_MEMORY.
SR_NODISCARD sr_status sr_exchange_set_trace(sr_exchange *x, sr_trace *trace, const char *name);
// Reserves memory for the spans of a step.
SR_NODISCARD sr_status sr_exchange_trace_begin(sr_exchange *x);
void sr_exchange_trace_free(sr_exchange_trace *trace);

// exchange_plan.c
SR_NODISCARD sr_status sr_exchange_build(sr_exchange *x, const sr_exchange_options *options,
                                         int64_t block_elements);
void sr_exchange_unbuild(sr_exchange *x);
// Prepares the kernels that add lanes. Whether a lane is copied or added to its sibling depends on
// which arrives first, so both cases are prepared here instead of in a step.
SR_NODISCARD sr_status sr_exchange_prepare_adds(sr_exchange *x);

// The address that is 'elements' elements after another.
static inline sr_address sr_exchange_element(sr_address base, int64_t index) {
    return sr_address_add(base, (size_t)index * sizeof(float));
}

// The end of what is updated or measured at a time, from an element on, at most 'end': on a CPU the
// end of its block, which is in the cache meanwhile. Elsewhere a launch costs more than the work on
// a block, so it is 'end'.
static inline int64_t sr_exchange_part_end(const sr_exchange *x, int64_t element, int64_t end) {
    const int64_t next = (element / x->block + 1) * x->block;
    return next < end && !sr_device_get_properties(x->device)->asynchronous ? next : end;
}

// exchange_schedule.c
// The part of a bucket that a rank owns; may be empty.
sr_range sr_exchange_bucket_range(const sr_exchange *x, int bucket, int rank);
// Fills transfer->swap, and transfer->partials: the addresses of the sub-trees of all ranks once
// these messages have arrived.
void sr_exchange_list_swap(const sr_exchange *x, sr_exchange_transfer *transfer);
// Fills a list with the messages that spread the owned parts of 'values', a flat buffer.
void sr_exchange_list_spread(const sr_exchange *x, int bucket, sr_address values,
                             sr_message_list *list);
// Adds messages to the counters.
void sr_exchange_count(sr_exchange *x, const sr_message_list *list);

// exchange_reduce.c Enqueues the work that folds the partial sums of the owned part and updates or
// measures it, and records its end. Failures are recorded.
SR_NODISCARD sr_status sr_exchange_reduce(sr_exchange *x, sr_exchange_transfer *transfer);
// Waits for the stream; records and returns its failure.
SR_NODISCARD sr_status sr_exchange_check_stream(sr_exchange *x);
// Records a failure of an update.
sr_status sr_exchange_fail_reduce(sr_exchange *x, sr_status status);
// Releases the lane buffers, which nothing reads any more.
void sr_exchange_release(sr_exchange *x, sr_exchange_transfer *transfer);

// exchange_host.c: posts messages with one tag; their requests begin at requests[*posted].
SR_NODISCARD sr_status sr_exchange_post(sr_exchange *x, const sr_comm_message *messages, int count,
                                        int tag, sr_comm_request *requests, int *posted);

// exchange_host.c: names the peers of unfinished messages; false when there are none.
bool sr_exchange_name_group(sr_exchange *x, const sr_message_group *group, const char *what,
                            sr_peer_names *names);

// exchange_agree.c, for exchanges with 'measure'.
SR_NODISCARD sr_status sr_exchange_agreement_create(sr_exchange *x);
void sr_exchange_agreement_free(sr_exchange *x);
// Keeps a folded block, 'sum', and enqueues its measurement of the first round.
SR_NODISCARD sr_status sr_exchange_measure(sr_exchange *x, int64_t begin, int64_t end,
                                           sr_address sum);
// Begins a round: the first one after all buckets are folded; later ones measure this rank's parts
// again. The second function advances the round until the measures of all ranks are gathered.
SR_NODISCARD sr_status sr_exchange_agreement_begin(sr_exchange *x, int round);
SR_NODISCARD sr_status sr_exchange_agreement_advance(sr_exchange *x, bool *gathered);

// exchange_join.c, for the communication thread: moves the messages of a join, if one is under way.
SR_NODISCARD sr_status sr_exchange_join_advance(sr_exchange *x, bool *moved);
bool sr_exchange_is_joining(const sr_exchange *x);
void sr_exchange_joining_free(sr_exchange_joining *joining);

// Waits for the condition with the lock held, at most so long.
static inline void sr_exchange_timed_wait(pthread_cond_t *condition, pthread_mutex_t *lock,
                                          int64_t nanoseconds) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    const int64_t end = (int64_t)at.tv_nsec + nanoseconds;
    at.tv_sec += (time_t)(end / SR_NS_PER_S);
    at.tv_nsec = (long)(end % SR_NS_PER_S);
    pthread_cond_timedwait(condition, lock, &at);
}

// exchange_failure.c: records the first failure; 'told' is the text for the peers; NULL if they
// have been notified.
void sr_exchange_set_failure(sr_exchange *x, sr_status status, const char *text, const char *told);
// Makes the recorded failure the calling thread's error.
sr_status sr_exchange_failure(sr_exchange *x);
// Builds a text that lists ranks. The first function begins it with 'what'; the second adds a rank,
// unless it was just added; the third ends the text and returns whether it names a rank.
void sr_exchange_names_begin(sr_peer_names *names, const char *what);
void sr_exchange_names_add(sr_peer_names *names, const sr_exchange *x, int peer);
bool sr_exchange_names_end(sr_peer_names *names);

#endif
