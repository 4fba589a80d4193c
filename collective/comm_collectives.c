// SPDX-License-Identifier: Apache-2.0
// Collectives on top of messages, each wait with a deadline and a name.
//
// Barrier by dissemination (Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization",
// 1988): ceil(log2 p) rounds. Broadcast uses a binomial tree, gather a ring: p - 1 rounds, every
// byte crosses each link once. No allocations. They are used at start-up, for checkpoints and at
// the end; the exchange of a step has its own state machine. Not here: reductions.
#include <string.h>

#include "collective/comm_internal.h"

sr_status sr_comm_barrier(sr_comm *comm, const char *what) {
    for (int distance = 1; distance < comm->job.size; distance *= 2) {
        sr_comm_request requests[2] = {0};
        int to = (comm->job.rank + distance) % comm->job.size;
        int from = (comm->job.rank - distance + comm->job.size) % comm->job.size;
        SR_TRY(sr_comm_irecv(comm, from, SR_COMM_TAG_BARRIER, NULL, 0, &requests[0]));
        SR_TRY(sr_comm_isend(comm, to, SR_COMM_TAG_BARRIER, NULL, 0, &requests[1]));
        SR_TRY(sr_comm_wait(comm, requests, 2, what));
    }
    return comm->job.size > 1 ? SR_OK : sr_comm_poll(comm);
}

sr_status sr_comm_broadcast(sr_comm *comm, int root, void *data, size_t bytes, const char *what) {
    if (root < 0 || root >= comm->job.size)
        return SR_FAIL(SR_E_ARGUMENT, "broadcast from rank %d, but there are %d ranks", root,
                       comm->job.size);
    // Ranks are numbered from the root: rank v receives from v without its lowest set bit, and
    // sends to v + 2^k for each 2^k below that bit.
    int v = (comm->job.rank - root + comm->job.size) % comm->job.size;
    int bit = 1;
    while (bit < comm->job.size && (v & bit) == 0)
        bit *= 2;
    if (v != 0) {
        sr_comm_request request = {0};
        int from = (v - bit + root) % comm->job.size;
        SR_TRY(sr_comm_irecv(comm, from, SR_COMM_TAG_BROADCAST, data, bytes, &request));
        SR_TRY(sr_comm_wait(comm, &request, 1, what));
    }
    for (bit /= 2; bit >= 1; bit /= 2) {
        if (v + bit >= comm->job.size)
            continue;
        sr_comm_request request = {0};
        int to = (v + bit + root) % comm->job.size;
        SR_TRY(sr_comm_isend(comm, to, SR_COMM_TAG_BROADCAST, data, bytes, &request));
        SR_TRY(sr_comm_wait(comm, &request, 1, what));
    }
    return SR_OK;
}

// One round of the ring: sends block 'out' to the right and receives block 'in' from the left.
static sr_status pass_on(sr_comm *comm, unsigned char *out, size_t out_bytes, unsigned char *in,
                         size_t in_bytes, const char *what) {
    int right = (comm->job.rank + 1) % comm->job.size;
    int left = (comm->job.rank - 1 + comm->job.size) % comm->job.size;
    sr_comm_request requests[2] = {0};
    if (in_bytes > 0)
        SR_TRY(sr_comm_irecv(comm, left, SR_COMM_TAG_GATHER, in, in_bytes, &requests[0]));
    if (out_bytes > 0) {
        sr_status status =
            sr_comm_isend(comm, right, SR_COMM_TAG_GATHER, out, out_bytes, &requests[1]);
        if (status != SR_OK) {
            sr_comm_settle(comm, requests, 1);
            return status;
        }
    }
    return sr_comm_wait(comm, requests, 2, what);
}

sr_status sr_comm_all_gather_v(sr_comm *comm, void *all, const size_t *offset, const size_t *size,
                               const char *what) {
    unsigned char *base = all;
    for (int round = 0; round < comm->job.size - 1; round++) {
        int out = (comm->job.rank - round + comm->job.size) % comm->job.size;
        int in = (out - 1 + comm->job.size) % comm->job.size;
        SR_TRY(pass_on(comm, base + offset[out], size[out], base + offset[in], size[in], what));
    }
    return comm->job.size > 1 ? SR_OK : sr_comm_poll(comm);
}

sr_status sr_comm_all_gather(sr_comm *comm, const void *data, size_t bytes, void *all,
                             const char *what) {
    unsigned char *base = all;
    if (bytes > 0)
        memmove(base + (size_t)comm->job.rank * bytes, data, bytes);
    for (int round = 0; round < comm->job.size - 1; round++) {
        size_t out = (size_t)((comm->job.rank - round + comm->job.size) % comm->job.size);
        size_t in = (out + (size_t)comm->job.size - 1) % (size_t)comm->job.size;
        SR_TRY(pass_on(comm, base + out * bytes, bytes, base + in * bytes, bytes, what));
    }
    return comm->job.size > 1 ? SR_OK : sr_comm_poll(comm);
}
