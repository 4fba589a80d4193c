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

#include "collective/comm.h"

#define SR_COMM_BACKEND_ABI 2u
#define SR_COMM_SPLIT_BYTES ((size_t)1 << 30)

// How a communicator ends.
typedef enum sr_comm_parting {
    SR_COMM_CLEAN = 0,       // nothing failed, all ranks have passed the last barrier
    SR_COMM_FAILED_TOGETHER, // something failed and every rank knows: each exits by itself
    SR_COMM_FAILED_ALONE,    // something failed and a rank does not answer: end the whole job
} sr_comm_parting;

typedef struct sr_comm_backend {
    uint32_t struct_size; // sizeof(sr_comm_backend), and
    uint32_t abi;         // SR_COMM_BACKEND_ABI of the build that made the table
    const char *name;
    bool meets_at_end;    // ranks are processes, which meet in a barrier before they end
    bool (*detect)(void); // was this process started for it? NULL: only used by name
    sr_status (*open)(const sr_comm_options *options, void **state, int *rank, int *size);
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
    void (*close)(void *state, sr_comm_parting parting, int exit_code);
    // NULL: unified memory is reached in place, and nothing is put on streams.
    sr_comm_memory (*memory)(void *state, const sr_device *device);
    // Both or neither. enqueue: see sr_comm_enqueue. end_groups: ends all groups after a failure,
    // whether they have begun or not; it returns within limited time, when none of them uses memory
    // any more.
    sr_status (*enqueue)(void *state, sr_stream *stream, const sr_comm_message *messages,
                         int count);
    void (*end_groups)(void *state);
} sr_comm_backend;

// All backends of this build, in order of preference.
const sr_comm_backend *const *sr_comm_backends(size_t *count);

// Creates a communicator on an opened state. The names of the ranks are "rank N" until they are
// exchanged. On failure the caller keeps the state.
SR_NODISCARD sr_status sr_comm_start(const sr_comm_backend *backend, void *state, int rank,
                                     int size, const sr_comm_options *options, sr_comm **out);

#endif
