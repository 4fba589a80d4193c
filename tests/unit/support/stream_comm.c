// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/support/stream_comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "collective/comm_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "kernels/device/cpu_stream.h"

#define TAG 0x2000    // of all messages on streams, beyond those of the communicator
#define GROUPS 32     // enqueued at once
#define MESSAGES 96   // of a group
#define LOOK_NS 20000 // between two tests
#define END_SECONDS 10

typedef struct group_message {
    int peer;
    bool receives;
    void *memory; // as kernels reach it
    size_t bytes;
    sr_comm_request request;
} group_message;

typedef struct stream_rank stream_rank;

typedef struct group {
    stream_rank *rank;
    bool waits; // enqueued and not yet run or skipped
    int count;
    group_message messages[MESSAGES];
} group;

struct stream_rank {
    sr_local_rank *local;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over; // groups end and none begins
    _Atomic uint64_t looks;
    int running;
    unsigned enqueued;
    group groups[GROUPS];
};

static const sr_comm_backend *const below = &sr_comm_backend_local;

// ---- on the stream

static bool is_over(stream_rank *self) {
    (void)pthread_mutex_lock(&self->lock);
    const bool over = self->over;
    (void)pthread_mutex_unlock(&self->lock);
    return over;
}

static void cancel_from(group *g, int first, int posted) {
    for (int i = first; i < posted; i++)
        if (g->messages[i].request.active)
            (void)below->cancel(g->rank->local, &g->messages[i].request);
}

static sr_status post(group *g, group_message *m) {
    m->request = (sr_comm_request){.peer = m->peer, .tag = TAG, .receives = m->receives};
    SR_TRY(m->receives
               ? below->irecv(g->rank->local, m->peer, TAG, m->memory, m->bytes, &m->request)
               : below->isend(g->rank->local, m->peer, TAG, m->memory, m->bytes, &m->request));
    m->request.active = true;
    return SR_OK;
}

static sr_status finish(group *g, group_message *m) {
    for (;;) {
        bool done = false;
        const sr_status status = below->test(g->rank->local, &m->request, &done);
        m->request.active = !done;
        atomic_store(&g->rank->looks, done ? 0 : atomic_load(&g->rank->looks) + 1);
        if (status != SR_OK || done)
            return status;
        if (is_over(g->rank))
            return SR_FAIL(SR_E_PEER, "a group was ended that waits for rank %d", m->peer);
        sr_clock_sleep_ns(LOOK_NS);
    }
}

static sr_status move_messages(group *g) {
    sr_status status = SR_OK;
    int posted = 0;
    while (posted < g->count && status == SR_OK)
        status = post(g, &g->messages[posted++]);
    for (int i = 0; i < g->count && status == SR_OK; i++)
        status = finish(g, &g->messages[i]);
    cancel_from(g, 0, posted);
    return status;
}

static sr_status run_group(void *user) {
    group *g = user;
    stream_rank *self = g->rank;
    (void)pthread_mutex_lock(&self->lock);
    const bool over = self->over;
    self->running += over ? 0 : 1;
    (void)pthread_mutex_unlock(&self->lock);
    if (over)
        return SR_FAIL(SR_E_PEER, "a group begins after the end of all groups");
    const sr_status status = move_messages(g);
    (void)pthread_mutex_lock(&self->lock);
    self->running--;
    g->waits = false;
    (void)pthread_cond_broadcast(&self->changed);
    (void)pthread_mutex_unlock(&self->lock);
    return status;
}

// ---- on the host

static sr_comm_memory memory(void *state, const sr_device *device) {
    const sr_device_properties *properties = sr_device_get_properties(device);
    (void)state;
    return (sr_comm_memory){.in_place = properties->unified,
                            .on_stream = properties->kind == SR_DEVICE_CPU};
}

// NULL when all are under way.
static group *take_group(stream_rank *self) {
    group *g = &self->groups[self->enqueued % GROUPS];
    (void)pthread_mutex_lock(&self->lock);
    const bool waits = g->waits;
    g->waits = true;
    (void)pthread_mutex_unlock(&self->lock);
    self->enqueued += waits ? 0 : 1;
    return waits ? NULL : g;
}

static sr_status enqueue(void *state, sr_stream *stream, const sr_comm_message *messages,
                         int count) {
    stream_rank *self = state;
    group *g = count <= MESSAGES ? take_group(self) : NULL;
    if (!g)
        return SR_FAIL(SR_E_INTERNAL, "a group of %d messages, or more than %d groups", count,
                       GROUPS);
    g->rank = self;
    g->count = count;
    for (int i = 0; i < count; i++) {
        group_message *m = &g->messages[i];
        *m = (group_message){
            .peer = messages[i].peer, .receives = messages[i].receives, .bytes = messages[i].bytes};
        SR_TRY(sr_cpu_pointer(sr_stream_device(stream), messages[i].data, &m->memory));
    }
    return sr_cpu_stream_call(stream, run_group, g);
}

static void end_groups(void *state) {
    stream_rank *self = state;
    struct timespec at;
    int error = 0;
    (void)clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += END_SECONDS;
    (void)pthread_mutex_lock(&self->lock);
    self->over = true;
    while (self->running > 0 && error == 0)
        error = pthread_cond_timedwait(&self->changed, &self->lock, &at);
    (void)pthread_mutex_unlock(&self->lock);
}

static sr_status isend(void *state, int to, int tag, const void *data, size_t bytes,
                       sr_comm_request *request) {
    return below->isend(((stream_rank *)state)->local, to, tag, data, bytes, request);
}

static sr_status irecv(void *state, int from, int tag, void *data, size_t bytes,
                       sr_comm_request *request) {
    return below->irecv(((stream_rank *)state)->local, from, tag, data, bytes, request);
}

static sr_status test(void *state, sr_comm_request *request, bool *done) {
    return below->test(((stream_rank *)state)->local, request, done);
}

static bool cancel(void *state, sr_comm_request *request) {
    return below->cancel(((stream_rank *)state)->local, request);
}

static sr_status probe(void *state, int tag, int *from) {
    return below->probe(((stream_rank *)state)->local, tag, from);
}

static void close_rank(void *state) {
    stream_rank *self = state;
    below->close(self->local);
    (void)pthread_mutex_destroy(&self->lock);
    (void)pthread_cond_destroy(&self->changed);
    sr_free(self);
}

static const sr_comm_backend backend = {
    .struct_size = sizeof(sr_comm_backend),
    .abi = SR_COMM_BACKEND_ABI,
    .name = "streams over local",
    .isend = isend,
    .irecv = irecv,
    .test = test,
    .cancel = cancel,
    .probe = probe,
    .close = close_rank,
    .memory = memory,
    .enqueue = enqueue,
    .end_groups = end_groups,
};

uint64_t stream_comm_looks(const sr_comm *comm) {
    return atomic_load(&((const stream_rank *)comm->state)->looks);
}

sr_status stream_comm_join(sr_local_world *world, int rank, int ranks,
                           const sr_comm_options *options, sr_comm **out) {
    static const sr_comm_options defaults = {0};
    stream_rank *self = sr_alloc(sizeof *self, "rank with streams");
    if (!self)
        return SR_E_MEMORY;
    (void)pthread_mutex_init(&self->lock, NULL);
    (void)pthread_cond_init(&self->changed, NULL);
    sr_status status = sr_local_rank_create(world, rank, false, &self->local);
    if (status == SR_OK)
        status = sr_comm_start(&(sr_comm_job){.rank = rank, .size = ranks}, &backend, self,
                               options ? options : &defaults, out);
    if (status == SR_OK)
        return SR_OK;
    sr_free(self->local);
    sr_free(self);
    return status;
}
