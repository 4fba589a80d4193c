// SPDX-License-Identifier: Apache-2.0
// Communicator: moves bytes between ranks; does no arithmetic on them and does not interpret them.
//
// A backend is a table of calls (comm_backend_internal.h); ordered collectives are built on top of
// it here, each with a deadline and a name. All calls of one communicator are made by one thread at
// a time (after start-up by the exchange's communication thread). No collective of MPI, UCX or NCCL
// is used after bootstrap: they have no deadlines, and floating-point reductions by libraries are
// not allowed.
#ifndef SR_COLLECTIVE_COMM_H
#define SR_COLLECTIVE_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

// All ranks of a job, and messages between them.
typedef struct sr_comm sr_comm;

// Settings of a communicator; all zero is the usual one.
typedef struct sr_comm_options {
    bool alone;                // a job of this process alone, even if a launcher started it
    const char *backend;       // "self", "mpi"; NULL: one that connects all ranks
    double report_seconds;     // a wait longer than this is reported by name; 0: 10
    double act_seconds;        // a wait longer than this is SR_E_TIMEOUT; 0: 120
    double patience;           // factor of act_seconds while the peer is not stopped; 0: 1
    int64_t (*clock_ns)(void); // NULL: sr_watch_clock_ns (simulation injects another)
    size_t split_bytes;        // longer messages are split into parts; 0: 1 GiB
} sr_comm_options;

// A message under way. Owned by the caller, at a fixed address until done.
typedef struct sr_comm_request {
    void *backend[3];
    int peer, tag;
    bool receives, active;
    struct sr_comm_staged *staged; // NULL: the message is in host memory
} sr_comm_request;

// Tags 0..0x0fff are for callers, the rest are this room's own.
#define SR_COMM_MAX_TAG 0x0fff

// Collective: all ranks call it. NULL options are all defaults. SR_E_USAGE if a launcher started
// several processes that are not connected (srun without --mpi=pmix, another MPI's mpirun).
SR_NODISCARD sr_status sr_comm_create(const sr_comm_options *options, sr_comm **out);
// Closes the communicator: after a barrier with a deadline if nothing failed. After a failure it
// waits a few seconds for the peers to call it, too, and returns; the process then ends with the
// exit code of the status (the same on all ranks, so that mpirun returns it). If a peer does not
// call it in time, the backend ends the whole job with that code and this call does not return.
void sr_comm_free(sr_comm *comm);
// This rank, 0 .. size - 1.
int sr_comm_rank(const sr_comm *comm);
// Number of ranks.
int sr_comm_size(const sr_comm *comm);
// The backend in use, as "mpi". Static storage.
const char *sr_comm_backend_name(const sr_comm *comm);
// "host-a, pid 123" of a rank, exchanged at bootstrap. Borrowed until free.
const char *sr_comm_peer_name(const sr_comm *comm, int rank);
// The first rank of the host that a rank runs on, which containers of one host share. rank: 0 ..
// size - 1.
int sr_comm_host(const sr_comm *comm, int rank);
// Appended to the name of a rank that is stopped.
#define SR_COMM_STOPPED ", which is stopped (SIGSTOP)"
// Whether a rank is stopped; false for ranks of other hosts, and of containers that see only their
// own processes.
bool sr_comm_peer_is_stopped(const sr_comm *comm, int rank);
// Whether this rank reports for all: the first rank that is not known to be stopped.
bool sr_comm_speaks(const sr_comm *comm);
// Reports a long wait: on stderr if this rank reports for all, otherwise in its log file.
void sr_comm_report(const sr_comm *comm, const char *format, ...) SR_PRINTF(2, 3);
// The communicator's clock, in nanoseconds.
int64_t sr_comm_now(const sr_comm *comm);

// Point-to-point messages, matched by (source, tag) in order of posting. bytes may be 0.
SR_NODISCARD sr_status sr_comm_isend(sr_comm *comm, int to, int tag, const void *data, size_t bytes,
                                     sr_comm_request *request);
// SR_E_PEER if the peer sends another number of bytes.
SR_NODISCARD sr_status sr_comm_irecv(sr_comm *comm, int from, int tag, void *data, size_t bytes,
                                     sr_comm_request *request);
// As sr_comm_isend, from memory of a device, which no stream writes until the message is complete.
// It is copied through host memory if the backend cannot reach it (comm_staging.c).
SR_NODISCARD sr_status sr_comm_isend_device(sr_comm *comm, int to, int tag, sr_device *device,
                                            sr_address data, size_t bytes,
                                            sr_comm_request *request);
// As sr_comm_irecv, into memory of a device.
SR_NODISCARD sr_status sr_comm_irecv_device(sr_comm *comm, int from, int tag, sr_device *device,
                                            sr_address data, size_t bytes,
                                            sr_comm_request *request);
// How a communicator moves memory of a device.
typedef struct sr_comm_memory {
    bool in_place;  // isend and irecv reach it; otherwise it is copied through host memory
    bool on_stream; // sr_comm_enqueue takes it
} sr_comm_memory;
// Of this device; the same on every rank that has such a device.
sr_comm_memory sr_comm_memory_of(const sr_comm *comm, const sr_device *device);

// A message of a group on a stream.
typedef struct sr_comm_message {
    int peer;
    bool receives;
    sr_address data; // memory of the stream's device
    size_t bytes;    // more than 0
} sr_comm_message;

// Puts a group of messages on a stream, without waiting: they begin when the work before them is
// done, and work behind them begins when all of them are complete. Groups have no tags: between two
// ranks, what is sent is received in order of groups and, in a group, of messages, so all ranks
// enqueue groups in the same order. A group that a peer never enqueues does not end by itself; a
// failure (sr_comm_abort, or a peer's) ends all groups, and their streams fail or go on with
// undefined bytes. A group's own failure is returned by sr_stream_wait, or by the next
// sr_comm_poll. SR_E_UNSUPPORTED unless sr_comm_memory_of says 'on_stream'. 'messages' is the
// caller's when the call returns.
SR_NODISCARD sr_status sr_comm_enqueue(sr_comm *comm, sr_stream *stream,
                                       const sr_comm_message *messages, int count);
// Frees what the communicator keeps on a device, before that is closed. No message of it is under
// way.
void sr_comm_release_device(sr_comm *comm, const sr_device *device);
// When the message is complete, *done is true and the request becomes inactive. Makes progress. A
// peer's abort message (sr_comm_abort) is returned here as the peer's status and message.
SR_NODISCARD sr_status sr_comm_test(sr_comm *comm, sr_comm_request *request, bool *done);
// Waits with the communicator's deadlines; 'what' names the wait ("barrier before checkpoint").
SR_NODISCARD sr_status sr_comm_wait(sr_comm *comm, sr_comm_request *requests, int count,
                                    const char *what);

// Notifies every peer that this rank failed (best effort, at most one second): their next test or
// wait returns 'status' with 'message'. Afterwards only sr_comm_free is legal.
void sr_comm_abort(sr_comm *comm, sr_status status, const char *message);
// Checks for an abort message without testing a request.
SR_NODISCARD sr_status sr_comm_poll(sr_comm *comm);
// After a failure, before memory of unfinished requests is freed: cancels the requests and waits
// (at most 5 s, or act_seconds) until every peer has done the same. Afterwards this rank handles no
// message any more. A second call only cancels its requests.
void sr_comm_settle(sr_comm *comm, sr_comm_request *requests, int count);

// Collectives: blocking, with deadlines. All ranks call them in the same order.
SR_NODISCARD sr_status sr_comm_barrier(sr_comm *comm, const char *what);
// Copies 'data' of rank 'root' to all others. SR_E_ARGUMENT for an invalid root.
SR_NODISCARD sr_status sr_comm_broadcast(sr_comm *comm, int root, void *data, size_t bytes,
                                         const char *what);
// On every rank: all[r * bytes ..] = data of rank r.
SR_NODISCARD sr_status sr_comm_all_gather(sr_comm *comm, const void *data, size_t bytes, void *all,
                                          const char *what);
// The same for blocks of different sizes: rank r's block is at offset[r] with size[r] bytes in
// 'all' on every rank. Rank r fills its block before the call.
SR_NODISCARD sr_status sr_comm_all_gather_v(sr_comm *comm, void *all, const size_t *offset,
                                            const size_t *size, const char *what);

#ifdef __cplusplus
}
#endif
#endif
