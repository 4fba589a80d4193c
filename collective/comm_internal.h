// SPDX-License-Identifier: Apache-2.0
// The communicator handle, shared by the files comm*.c.
#ifndef SR_COLLECTIVE_COMM_INTERNAL_H
#define SR_COLLECTIVE_COMM_INTERNAL_H

#include <sys/types.h>

#include "collective/comm_backend_internal.h"

#define SR_COMM_NAME_BYTES 96
#define SR_COMM_TEXT_BYTES 480

// Tags of this room's internal messages.
enum {
    SR_COMM_TAG_NOTICE = SR_COMM_MAX_TAG + 1, // "I failed": every test and wait checks for it
    SR_COMM_TAG_BYE,                          // "I failed and will not handle a message again"
    SR_COMM_TAG_BARRIER,
    SR_COMM_TAG_BROADCAST,
    SR_COMM_TAG_GATHER,
};

// A failure as it is sent. 496 bytes: below every eager limit, so that it arrives without the
// receiver's help.
typedef struct sr_comm_notice {
    uint32_t magic;
    int32_t status;
    int32_t cause; // the rank that failed first, as far as the sender knows
    uint32_t length;
    char text[SR_COMM_TEXT_BYTES];
} sr_comm_notice;

struct sr_comm {
    sr_comm_job job;
    const sr_comm_backend *backend;
    void *state;
    int64_t report_ns, act_ns;
    double patience;
    int64_t (*clock_ns)(void);
    char (*names)[SR_COMM_NAME_BYTES];
    pid_t *pids;    // of the ranks that this process can see; 0 for others
    int *hosts;     // the first rank of each rank's host
    unsigned tests; // calls of sr_comm_test, to check for a notice now and then
    int64_t under_way;
    struct sr_comm_staged **staged; // buffers of comm_staging.c
    size_t staged_count, staged_capacity;
    sr_comm_request **unsent; // sends whose memory is being copied, in the order of their calls
    size_t unsent_count, unsent_capacity;

    sr_status failed; // sticks; the message is failure.text, the cause failure.cause
    sr_comm_notice failure, incoming;
    bool announced, settled, met; // peers notified; no more progress; all peers have settled, too
    sr_comm_request *control;     // one per rank, for notices
};

// What each rank shows all others.
typedef struct sr_comm_card {
    char name[SR_COMM_NAME_BYTES]; // "host-a, pid 123"
    uint64_t host, pids;           // pids: the numbering of its processes
    int64_t pid;
} sr_comm_card;

// Learns the names, hosts and processes of all ranks from the job's bootstrap. Collective.
SR_NODISCARD sr_status sr_comm_meet(sr_comm *comm);

// comm_staging.c, for requests of device memory: the calls of a backend.
typedef struct sr_comm_staged sr_comm_staged;
sr_status sr_comm_staged_start(sr_comm *comm, sr_device *device, sr_address memory, size_t bytes,
                               sr_comm_request *request);
sr_status sr_comm_staged_test(sr_comm *comm, sr_comm_request *request, bool *done);
void sr_comm_staged_cancel(sr_comm *comm, sr_comm_request *request);

// The sticky failure as the calling thread's error, "rank 1 (host b, pid 7): ...".
sr_status sr_comm_failure(sr_comm *comm);
// Makes the calling thread's error, with this status, the communicator's failure, and notifies the
// peers.
sr_status sr_comm_fail_here(sr_comm *comm, sr_status status);
// Pauses between two tests: 20 us at first, doubling to 200 us.
void sr_comm_back_off(int *round);

#endif
