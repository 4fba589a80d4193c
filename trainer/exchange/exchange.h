// SPDX-License-Identifier: Apache-2.0
// Lane-reduced values and their exchange: the only place where gradients are sent between ranks.
//
// Flat space. All lane-reduced values of a parameter set (gradients of parameters, BatchNorm
// statistics, loss sums, counters) are stored one after the other in one flat space of fp32
// elements, which is divided into named segments. For each element i and each lane l there is a
// contribution c[l][i]. The exchange computes S[i] = the sum over lanes through the fixed binary
// tree on lane numbers (fp32, plain adds, initialised by copy), passes S to 'update' on the rank
// that owns i, which computes the new V[i] (parameter, running statistic, reported scalar) from it,
// and sends the new V to every rank. The bits of the result do not depend on the number of ranks,
// the number of threads or the bucket size.
//
// Lane tree: L lanes are the leaves; a node of level k covers lanes [j 2^k, (j+1) 2^k) and exists
// if at least one of them does: L need not be a power of two, and at the right edge a missing right
// child leaves the left one unchanged. Rank r owns lanes [r L / p, (r+1) L / p). It folds its lanes
// as they arrive and keeps maximal aligned sub-trees.
//
// Per bucket (a run of whole blocks of 64 Ki elements, filled from the end of the flat space
// backwards, as gradients finish): all-to-all of the partial sub-trees to the owners, ordered sum,
// update, all-gather of V. All of this is one single-threaded state machine with an injected clock.
// One communication thread (started by sr_exchange_create) drives it and makes every call to the
// communicator: isend, irecv and test, or, if the communicator copies device memory on the device's
// streams, groups that are enqueued there.
#ifndef SR_TRAINER_EXCHANGE_H
#define SR_TRAINER_EXCHANGE_H

#include <stdint.h>

#include "collective/comm.h"
#include "kernels/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_BLOCK_ELEMENTS 65536 // of the flat space: the unit of buckets and owners

// A named part of the flat space.
typedef struct sr_segment {
    const char *name;
    int64_t begin, count; // elements in the flat space; segments are in order without overlap
    bool padded;          // lanes may contribute fewer elements; the rest are zeros
    bool whole;           // has a single owner: no bucket or owner's range ends inside
} sr_segment;

// First lane of a rank; lanes of rank r are [first(r), first(r + 1)).
int sr_lanes_first(int lanes, int ranks, int rank);

// Enqueues the kernels that compute values[0, end - begin), which are V[begin, end), in place from
// sum[0, end - begin), which they may change. Called on the owner's communication thread, exactly
// once per step for each element of a segment, with at most one block per call. The range may cover
// several segments or parts of them, and elements between segments, whose sum is 0. It must not use
// the communicator or the exchange.
typedef sr_status (*sr_exchange_update_fn)(void *user, int64_t step, int64_t begin, int64_t end,
                                           sr_address sum, sr_address values, sr_stream *stream);

// The part of a segment inside one block: the unit of measuring, which does not depend on the
// boundaries of buckets and owners.
typedef struct sr_exchange_piece {
    int segment;
    int64_t block, begin, end; // elements of the flat space
} sr_exchange_piece;

#define SR_EXCHANGE_MEASURES 2 // numbers that are measured for a piece

// Enqueues the kernels that measure the pieces in sum[0, end - begin) before anything is updated.
// The measures are parts of norms, which the kernels add to out, f64[pieces][SR_EXCHANGE_MEASURES],
// initially zero. Called like the update, for one or more whole blocks that have a piece. It may
// change the sum, which the next round and the update then get, and in later rounds all other
// memory of the range.
typedef sr_status (*sr_exchange_measure_fn)(void *user, int64_t step, int round, int64_t begin,
                                            int64_t end, sr_address sum, sr_address out,
                                            sr_stream *stream);
// Receives the measures of all pieces in the order of the flat space, the same on every rank; the
// next round and the updates use its decisions. Called on the communication thread while the stream
// is empty.
typedef sr_status (*sr_exchange_agree_fn)(void *user, int64_t step, int round,
                                          const sr_exchange_piece *pieces, const double *measures,
                                          int64_t count);

// The values to exchange, and how their owners update them.
typedef struct sr_exchange_options {
    int lanes;
    int64_t bucket_bytes;       // 0: 4 MiB; rounded up to whole blocks (bit-neutral)
    const sr_segment *segments; // copied
    int segment_count;
    sr_device *device; // whose memory holds V and the contributions
    sr_address values; // V, f32, 'elements' long, the caller's until free, equal on all ranks
    int64_t elements;
    sr_exchange_update_fn update;
    // For updates that depend on all gradients: buckets are folded and measured during the backward
    // pass, and updated once the ranks have agreed, which takes 'rounds' rounds; each round after
    // the first measures again. NULL: each bucket is updated as soon as it is folded.
    sr_exchange_measure_fn measure;
    sr_exchange_agree_fn agree;
    int rounds; // 0: 1
    void *user;
    double report_seconds, act_seconds; // 0: 10, 120; longer in a first step
} sr_exchange_options;

// The exchange of one flat space.
typedef struct sr_exchange sr_exchange;

// Collective: ranks compare their settings (SR_E_USAGE) and V (SR_E_NUMERICS). More ranks than
// lanes: SR_E_USAGE. Borrows comm until sr_exchange_free: no other code may use it between
// step_begin and step_wait. Several exchanges may share one comm, one step at a time.
SR_NODISCARD sr_status sr_exchange_create(sr_comm *comm, const sr_exchange_options *options,
                                          sr_exchange **out);
// Collective, between steps: repeats the comparison of sr_exchange_create. For callers that have
// written their own initial values to V.
SR_NODISCARD sr_status sr_exchange_compare(sr_exchange *x);
// Reserves memory for the partial sums of 'replays' that run concurrently and arrive in order, each
// with so many of this rank's lanes at once, so that steps allocate nothing, regardless of timing.
// Call it before the first step.
SR_NODISCARD sr_status sr_exchange_reserve(sr_exchange *x, int replays, int lanes);
// Frees the exchange. After a failure this may take some seconds: it waits until no rank accesses
// this rank's memory any more.
void sr_exchange_free(sr_exchange *x);

// Starts a step: expects every segment once from each local lane.
SR_NODISCARD sr_status sr_exchange_step_begin(sr_exchange *x, int64_t step);
// Adds the contribution of one lane to one segment: the first 'count' elements, f32; the others are
// zero. 'count' is the segment's count, or 0, or, for a padded segment, any number in between. The
// copy or addition is enqueued on the stream when the call returns. Lanes may arrive at the same
// time and their segments in any order, but all segments of a lane on one stream, from one thread
// at a time. The call also promises that work enqueued later does not read V of the segment in this
// step: V may change as soon as all lanes of this rank have given every segment of a bucket.
// Messages are sent in order of buckets (from the end of the flat space), so segments that are
// completed first should be placed last.
SR_NODISCARD sr_status sr_exchange_put(sr_exchange *x, int lane, int segment, sr_address data,
                                       int64_t count, sr_stream *stream);
// The contributions of some lanes to a segment: that of the first lane is at 'data', those of the
// next ones are 'stride' elements apart (0: they have the same).
typedef struct sr_exchange_value {
    int segment;
    sr_address data;
    int64_t stride, count;
} sr_exchange_value;

#define SR_EXCHANGE_VALUES 64 // at a time
// The same for lanes [lane, lane + lanes) and at most SR_EXCHANGE_VALUES values, with the same
// bits. On devices that run beside the host, those of a bucket are few launches.
SR_NODISCARD sr_status sr_exchange_put_lanes(sr_exchange *x, int lane, int lanes,
                                             const sr_exchange_value *values, int count,
                                             sr_stream *stream);
// The group of a segment, from 1: small segments that complete the same bucket, which should be put
// at a time. 0: a large one, which is worth a launch and should not wait for others in memory.
int sr_exchange_group(const sr_exchange *x, int segment);
// The number of launches with which lanes side by side that are a node of the tree put all
// segments, those of each group at a time.
int sr_exchange_launches(const sr_exchange *x);
// A value that lanes join in the middle of a step.
typedef struct sr_exchange_part {
    int64_t count;
    bool moments; // 'count' means, then 'count' biased variances of as many elements in each lane;
                  // else 'count' numbers that are summed
} sr_exchange_part;

// Numbers of a lane's value.
static inline int64_t sr_exchange_part_elements(const sr_exchange_part *part) {
    return part->moments ? 2 * part->count : part->count;
}

// Lanes [first, first + lanes), some of which are this rank's, join values. Every rank that has
// such lanes calls it as often in a step, in the same order; two groups have no lane in common.
// *rows: f32 [lanes][elements of all parts], host memory in which the caller fills the rows of this
// rank's lanes; valid until the next call. Within a step; 'parts' must stay valid until the join.
SR_NODISCARD sr_status sr_exchange_join_begin(sr_exchange *x, int first, int lanes,
                                              const sr_exchange_part *parts, int part_count,
                                              float **rows);
// Joins them through the lane tree of the group and returns when the result is in row 0: the same
// bits on every rank, and for any number of ranks. Failures as sr_exchange_step_wait.
SR_NODISCARD sr_status sr_exchange_join(sr_exchange *x);
// Returns when V is complete on this rank. Also returns a failure of a peer or of the update, or a
// timeout, with the same status and message on all ranks ("rank 1 (host b, pid 7): ..."). After a
// failure every call returns it; only sr_exchange_free and sr_comm_free may still be called.
SR_NODISCARD sr_status sr_exchange_step_wait(sr_exchange *x);
// Ends the step for all ranks with this failure (they get it from step_wait or their next call).
// Any thread may call it within a step; between steps, only a thread that may use comm.
void sr_exchange_fail(sr_exchange *x, sr_status status, const char *message);

// The owner of each element, for sharded optimiser state: ranges owned by this rank, in order.
typedef struct sr_range {
    int64_t begin, end;
} sr_range;
// This rank's ranges. Borrowed until free.
const sr_range *sr_exchange_owned(const sr_exchange *x, int *count);
// Fills the other ranks' parts of a flat buffer of the device ('elements' long, f32) whose owned
// ranges are up to date (EMA, optimiser state). Collective, between steps.
SR_NODISCARD sr_status sr_exchange_gather(sr_exchange *x, sr_address buffer, const char *what);

// Counters of this rank.
typedef struct sr_exchange_stats {
    int64_t bytes_sent, bytes_received, messages, buckets;
    int64_t exposed_ns;   // time in step_wait
    int64_t lane_buffers; // maximum of partial sums in use at once, each of one bucket
} sr_exchange_stats;
// Since creation; called between steps.
sr_exchange_stats sr_exchange_get_stats(const sr_exchange *x);

#ifdef __cplusplus
}
#endif
#endif
