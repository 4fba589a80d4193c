// SPDX-License-Identifier: Apache-2.0
// The interface of a communicator backend: a table of calls. Each backend is one file (backend_X.c)
// and a line in backend_list.def.
//
// A backend moves bytes between numbered ranks, matched by (source, tag) in order of posting. It
// has no deadlines, no names and no handling of failures: comm*.c add those for all backends. All
// calls on one state are made by one thread at a time.
//
// A backend that puts messages on streams (NCCL) moves messages of host memory, too, usually
// through a backend that it wraps: names, notices of failures, and what ranks agree on are in host
// memory.
#ifndef SR_COLLECTIVE_COMM_BACKEND_INTERNAL_H
#define SR_COLLECTIVE_COMM_BACKEND_INTERNAL_H

#include "collective/bootstrap_internal.h"
#include "collective/comm.h"

#define SR_COMM_BACKEND_ABI 3u
#define SR_COMM_SPLIT_BYTES ((size_t)1 << 30)

typedef struct sr_comm_backend {
    uint32_t struct_size; // sizeof(sr_comm_backend), and
    uint32_t abi;         // SR_COMM_BACKEND_ABI of the build that made the table
    const char *name, *help;
    bool (*serves)(const sr_comm_job *job); // whether it connects all ranks of such a job
    // Collective. Exchanges addresses through the job's bootstrap, if it needs any.
    sr_status (*open)(const sr_comm_job *job, const sr_comm_options *options, void **state);
    // The caller sets the request's peer, tag and direction; backend[] is for these calls.
    sr_status (*isend)(void *state, int to, int tag, const void *data, size_t bytes,
                       sr_comm_request *request);
    sr_status (*irecv)(void *state, int from, int tag, void *data, size_t bytes,
                       sr_comm_request *request);
    sr_status (*test)(void *state, sr_comm_request *request, bool *done);
    // Cancels a request so that its memory is no longer accessed; takes limited time, best effort
    // for sends. True if the memory is certainly no longer used.
    bool (*cancel)(void *state, sr_comm_request *request);
    // Source of a message that has arrived with this tag and is not yet received; -1: none.
    sr_status (*probe)(void *state, int tag, int *from);
    // No message is under way, or the process ends.
    void (*close)(void *state);
    // NULL: unified memory is reached in place, and nothing is put on streams.
    sr_comm_memory (*memory)(void *state, const sr_device *device);
    // Both or neither. enqueue: see sr_comm_enqueue. end_groups: ends all groups after a failure,
    // whether they have begun or not; it returns within limited time, when none of them uses memory
    // any more.
    sr_status (*enqueue)(void *state, sr_stream *stream, const sr_comm_message *messages,
                         int count);
    void (*end_groups)(void *state);
} sr_comm_backend;

// The named backend; without a name the first one of backend_list.def that serves the job.
SR_NODISCARD sr_status sr_comm_backend_choose(const sr_comm_job *job, const char *name,
                                              const sr_comm_backend **out);

// Creates a communicator of a job on an opened state. The names of the ranks are "rank N" until
// they are exchanged. On failure the caller keeps job and state.
SR_NODISCARD sr_status sr_comm_start(const sr_comm_job *job, const sr_comm_backend *backend,
                                     void *state, const sr_comm_options *options, sr_comm **out);

#endif
