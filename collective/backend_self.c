// SPDX-License-Identifier: Apache-2.0
// Backend "self": a job of one rank. Messages go to oneself.
//
// It is a local world of one rank, so that a program written for many ranks, which may send
// messages to itself, gets the same matching rules. With one rank the exchange of a step sends
// nothing, so its speed does not matter.
#include "collective/backend_local_internal.h"
#include "kernels/base/memory.h"

static bool serves(const sr_comm_job *job) {
    return job->size == 1;
}

static sr_status open_self(const sr_comm_job *job, const sr_comm_options *options, void **state) {
    sr_local_world *world = NULL;
    sr_local_rank *self = NULL;
    SR_TRY(sr_local_world_create(&(sr_local_options){.size = 1, .clock_ns = options->clock_ns},
                                 &world));
    sr_status status = sr_local_rank_create(world, 0, true, &self);
    if (status != SR_OK) {
        sr_local_world_free(world);
        return status;
    }
    (void)job;
    *state = self;
    return SR_OK;
}

static sr_status isend(void *state, int to, int tag, const void *data, size_t bytes,
                       sr_comm_request *request) {
    return sr_comm_backend_local.isend(state, to, tag, data, bytes, request);
}

static sr_status irecv(void *state, int from, int tag, void *data, size_t bytes,
                       sr_comm_request *request) {
    return sr_comm_backend_local.irecv(state, from, tag, data, bytes, request);
}

static sr_status test(void *state, sr_comm_request *request, bool *done) {
    return sr_comm_backend_local.test(state, request, done);
}

static bool cancel(void *state, sr_comm_request *request) {
    return sr_comm_backend_local.cancel(state, request);
}

static sr_status probe(void *state, int tag, int *from) {
    return sr_comm_backend_local.probe(state, tag, from);
}

static void close_self(void *state) {
    sr_comm_backend_local.close(state);
}

const sr_comm_backend sr_comm_backend_self = {
    .struct_size = sizeof(sr_comm_backend),
    .abi = SR_COMM_BACKEND_ABI,
    .name = "self",
    .help = "one rank, with itself",
    .serves = serves,
    .open = open_self,
    .isend = isend,
    .irecv = irecv,
    .test = test,
    .cancel = cancel,
    .probe = probe,
    .close = close_self,
};
